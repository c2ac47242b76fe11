"""Tools of torch's that ask a front end for something, or count what it does: its bisector, and its counters."""

from __future__ import annotations

import contextlib
import os

import pytest
import torch
from torch._inductor import config as inductor_config

import stator
from tests.python import children

pytestmark = pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are other captures")


def twice(x):
    return x.exp().sum() * 2


# ---- the bisector, which runs a program with other backends until it finds what is wrong


def bisected(broken):
    """What torch's bisector says of a program whose result is wrong under `broken()`, a context."""
    from torch._inductor.compiler_bisector import CompilerBisector

    x = torch.rand(4)
    calls = []

    def is_right():
        stator.reset()
        calls.append(1)
        with broken():
            return torch.allclose(stator.compile(twice)(x), twice(x))

    found = CompilerBisector.do_bisect(is_right)
    assert len(calls) > 1
    return found


def test_the_bisector_finds_a_wrong_lowering(capsys):
    from torch._inductor.lowering import lowerings

    @contextlib.contextmanager
    def wrong_lowering():
        exp = torch.ops.aten.exp.default
        right, lowerings[exp] = lowerings[exp], lowerings[torch.ops.aten.sin.default]
        try:
            yield
        finally:
            lowerings[exp] = right

    found = bisected(wrong_lowering)
    assert (found.backend, found.subsystem, found.debug_info) == ("inductor", "lowerings", "exp")


def test_the_bisector_says_that_all_is_well(capsys):
    from torch._inductor.compiler_bisector import CompilerBisector

    stator.reset()
    x = torch.rand(4)
    assert CompilerBisector.do_bisect(lambda: torch.allclose(stator.compile(twice)(x), twice(x))) is None
    assert stator.compile(twice)._stator_cache.settings.backend.asked == "inductor"


PROGRAM = """
import json, sys, torch, stator

seen = stator.compile(lambda x: x + 1)._stator_cache.settings.backend.asked
print(json.dumps([seen, "torch._inductor" in sys.modules]))
"""


@pytest.mark.parametrize("way", ["nothing", "variable", "file"])
def test_a_process_is_told_what_to_try_by_a_variable_or_a_file(tmp_path, way):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    variables = {}
    if way == "variable":
        variables["TORCH_BISECT_BACKEND"] = "aot_eager"
    if way == "file":
        status = tmp_path / "inductor" / "bisect" / "bisect_status.txt"
        status.parent.mkdir(parents=True)
        status.write_text("backend=aot_eager\nsubsystem=\n")
    expected = ["inductor", False] if way == "nothing" else ["aot_eager", True]
    assert children.answer_of(script, tmp_path, **variables) == expected


def test_a_backend_of_the_programs_may_stay(monkeypatch):
    def own(graph_module, example_inputs):
        return graph_module.forward

    from torch._inductor.compiler_bisector import CompilerBisector

    monkeypatch.setattr(CompilerBisector, "get_backend", lambda: "inductor")
    assert stator.compile(twice, backend=own)._stator_cache.settings.backend.asked == "inductor"
    with inductor_config.patch({"test_configs.bisect_keep_custom_backend_for_inductor": True}):
        assert stator.compile(twice, backend=own)._stator_cache.settings.backend.asked is own
        assert stator.compile(twice, backend="eager")._stator_cache.settings.backend.asked == "inductor"


# ---- counters


def test_frames_are_counted():
    from torch._dynamo.utils import counters

    def breaks(x):
        x = x + 1
        stator.graph_break()
        return x * 2

    def refuses(graph_module, example_inputs):
        raise ValueError("no")

    counters.clear()
    assert torch.equal(stator.compile(breaks, backend="eager")(torch.ones(2)), torch.full((2,), 4.0))
    assert dict(counters["frames"]) == {"total": 2, "ok": 2}
    with pytest.raises(stator.exc.BackendCompilerFailed):
        stator.compile(twice, backend=refuses)(torch.ones(2))
    assert dict(counters["frames"]) == {"total": 3, "ok": 2}


COUNTING = """
import json, sys, torch, stator
from torch._dynamo.utils import counters

def f(x):
    return (x @ x).sin().sum()

def counted():
    counters.clear()
    stator.reset()
    x = torch.ones(4, 4, requires_grad=True)
    stator.compile(f)(x).backward()
    return {kind: dict(counters[kind]) for kind in ("aot_autograd", "inductor")}

print(json.dumps([counted(), counted(), stator.stats()["disk_hits"]]))
"""


def test_what_is_found_on_the_disk_is_a_hit_in_torchs_counters(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(COUNTING)
    first, second, hits = children.answer_of(script, tmp_path)
    assert hits == 1
    assert first["aot_autograd"] == {"total": 1, "autograd_cache_miss": 1, "ok": 1, "autograd_cache_saved": 1}
    assert second["aot_autograd"] == {"total": 1, "autograd_cache_hit": 1, "ok": 1}
    assert first["inductor"]["fxgraph_cache_miss"] == second["inductor"]["fxgraph_cache_hit"] == 2
    for name, count in first["inductor"].items():  # what the passes did is counted again, as torch's own caches do
        assert name.startswith("fxgraph_cache") or second["inductor"][name] == count


# ---- the backend's configuration


def test_the_configuration_that_inductor_compiles_with():
    def plain(x):
        return x + 1

    assert stator.compile(plain).get_compiler_config()["max_autotune"] is False
    assert stator.compile(plain, mode="max-autotune").get_compiler_config()["max_autotune"] is True
    module = stator.compile(torch.nn.Linear(2, 2), options={"epilogue_fusion": False})
    assert module.get_compiler_config()["epilogue_fusion"] is False
    assert stator.compile(plain, backend="eager").get_compiler_config() is None
