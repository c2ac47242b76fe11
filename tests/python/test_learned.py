"""Which sizes and ints turned dynamic is kept on the disk: a later process captures once (docs/CACHE.md)."""

import json
import os
import subprocess
import sys

import pytest
import torch

import stator
from stator import _core


class Holder:
    def __init__(self, x):
        self.x = x


CALLS = {
    "a size": (lambda x: x * 2, [(torch.ones(2, n),) for n in (3, 4, 5)]),
    "two sizes": (lambda x, y: x.sum(0) + y.sum(), [(torch.ones(n, 3), torch.ones(n + 1)) for n in (3, 5, 7)]),
    "an int": (lambda x, n: x * n + n, [(torch.ones(3), n) for n in (3, 5, 7)]),
    "a float": (lambda x, s: x * s, [(torch.ones(3), s) for s in (0.5, 1.5, 2.5)]),
    "a tuple": (lambda x, t: x * t[0] + t[1], [(torch.ones(3), (n, 4)) for n in (3, 5, 7)]),
    "in a dict": (lambda d: d["x"] * d["n"], [({"x": torch.ones(n), "n": n + 2},) for n in (3, 5, 7)]),
    "an attribute": (lambda h: h.x * 2, [(Holder(torch.ones(n)),) for n in (3, 5, 7)]),
}


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.steps = torch.nn.Linear(4, 4), 3

    def forward(self, x):
        return self.linear(x) * self.steps


@pytest.fixture(autouse=True)
def place(tmp_path):
    with stator.config.patch(cache=True, cache_dir=str(tmp_path), job_id="a job", break_every="0"):
        yield tmp_path
    stator.reset()


def captures(function, calls, **arguments):
    """Of a process that starts here: nothing of what was captured before is known."""
    stator.reset()
    compiled = stator.compile(function, backend="eager", **arguments)
    before = stator.stats()["captures"]
    for call in calls:
        assert_equal(compiled(*call), function(*call))
    return stator.stats()["captures"] - before


def assert_equal(left, right):
    torch.testing.assert_close(left, right, rtol=0, atol=0)


@pytest.mark.parametrize("name", CALLS)
def test_the_second_start_captures_once(name, place):
    function, calls = CALLS[name]
    assert captures(function, calls) >= 2
    assert list(place.glob("*.stator"))
    assert captures(function, calls) == 1
    assert captures(function, calls[::-1]) == 1


def test_a_module_and_one_of_its_ints():
    module = Module()

    def step(module, n, x):
        module.steps = n
        return module(x)

    calls = [(module, n, torch.ones(n, 4)) for n in (3, 5, 7)]
    assert captures(step, calls) == 2
    assert captures(step, calls) == 1


def test_behind_a_break():
    def f(x):
        y = x + 1
        stator.graph_break()
        return y * x.shape[0]

    calls = [(torch.ones(n),) for n in (3, 5, 7)]
    first = captures(f, calls)
    assert captures(f, calls) < first


def test_what_did_not_change_stays_a_constant():
    def f(x, n):
        return x * n

    captures(f, [(torch.ones(n, 3), 4) for n in (2, 5)])
    seen = []
    stator.reset()
    compiled = stator.compile(f, backend=lambda gm, inputs: seen.append(gm) or gm.forward)
    compiled(torch.ones(7, 3), 4)
    (module,) = seen
    (x,) = [n.meta["example_value"] for n in module.graph.nodes if n.op == "placeholder" and "x" in n.name]
    assert isinstance(x.shape[0], torch.SymInt) and x.shape[1] == 3
    assert [n.args[1] for n in module.graph.nodes if n.op == "call_function"] == [4]


@pytest.mark.parametrize(
    "settings",
    [{"automatic_dynamic_local_pgo": False}, {"cache": False}, {"job_id": None}, {"job_id": "another job"}],
    ids=lambda settings: next(iter(settings)) + str(next(iter(settings.values()))),
)
def test_switched_off(settings, place):
    function, calls = CALLS["a size"]
    captures(function, calls)
    with stator.config.patch(settings):
        assert captures(function, calls) == 2
    with stator.config.patch(automatic_dynamic_shapes=False):
        assert captures(function, calls) == len(calls)
    assert captures(function, calls, dynamic=False) == len(calls)
    assert captures(function, calls) == 1


def test_with_inductor_no_job_is_needed():
    with stator.config.patch(job_id=None):
        kept = [
            stator.compile(len, backend=backend)._stator_cache.settings.backend.learned_place() is not None
            for backend in ("inductor", "eager")
        ]
        assert kept == [True, False]


def made(source):
    scope = {}
    exec(source, scope)
    return scope["f"]


def test_a_changed_function_is_another():
    source = "def f(x):\n    return x * 2 + x.shape[0]"
    calls = [(torch.ones(n),) for n in (3, 5, 7)]
    assert captures(made(source), calls) == 2
    assert captures(made("\n\n\n" + source), calls) == 1  # lines are nothing
    for other in (source.replace("2", "4"), source.replace("*", "+"), source.replace("shape[0]", "sum()")):
        assert captures(made(other), calls) == 2


def test_files_that_are_damaged(place):
    function, calls = CALLS["a size"]
    captures(function, calls)
    (file,) = place.glob("*.stator")
    good = file.read_bytes()
    for position in range(0, len(good), 7):
        bad = bytearray(good)
        bad[position] ^= 16
        file.write_bytes(bad)
        assert captures(function, calls[:1]) == 1
    file.write_bytes(b"")
    assert captures(function, calls) == 2
    assert file.read_bytes() == good


@pytest.mark.parametrize(
    "text",
    [b"", b"\n\n", b"0", b"0 1", b"0 zz 1 x\n", b"0 12 2 x\n", b"99999999999999999999 1 1 x\n", b"0 1 " + b"1" * 99],
)
def test_contents_that_mean_nothing(place, text):
    function, calls = CALLS["a size"]
    captures(function, calls)
    (file,) = place.glob("*.stator")
    assert _core.disk_write(str(place), file.stem, [text], 1 << 30) is None
    assert captures(function, calls) == 2
    assert captures(function, calls) == 1


def test_a_folder_that_cannot_be_written():
    function, calls = CALLS["a size"]
    with stator.config.patch(cache_dir="/proc/stator"):
        assert [captures(function, calls) for _ in range(2)] == [2, 2]


PROGRAM = """
import json, sys, torch, stator
def f(d):
    return d["x"] * d["n"]
compiled = stator.compile(f, backend="eager")
assert all(torch.equal(compiled(d), f(d)) for d in [{"x": torch.ones(2, n), "n": n} for n in map(int, sys.argv[1:])])
print(json.dumps(stator.stats()["captures"]))
"""


def test_in_another_process(place):
    def run(*sizes, seed):
        environment = dict(os.environ, STATOR_CACHE="1", STATOR_CACHE_DIR=str(place), TORCH_COMPILE_JOB_ID="a job")
        environment |= {"PYTHONHASHSEED": str(seed), "STATOR_BREAK_EVERY": "0"}
        command = [sys.executable, "-c", PROGRAM, *map(str, sizes)]
        return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)

    assert run(3, 4, seed=1) == 2
    assert run(5, 6, seed=2) == 1
