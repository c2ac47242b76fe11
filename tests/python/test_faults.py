"""Faults on purpose (src/base/faults.h): whichever point of a capture fails, the program does what it does eagerly, and
the next call is captured.

`make test` tries some points of a few programs, `make test-faults` (STATOR_TEST_FAULTS=1) each point of a sample of the
corpus.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch

import stator
from stator import _core
from tests.python.differential import run
from tests.python.frontends import forced_breaks, frontend
from tests.python.observe import differences
from tests.python.programs import Program, load_all

ALL = os.environ.get("STATOR_TEST_FAULTS") == "1"
FEW = (
    "tensors_basic.",
    "graphs_that_raise.caught_behind_a_write",
    "random_draws.",
    "with_statements.",
    "closures_cells.",
    "nn_modules.",
)
POINTS = 12

pytestmark = pytest.mark.skipif(bool(forced_breaks()), reason="breaks are forced")


def _programs() -> list[Program]:
    every = load_all()
    if ALL:
        return every[::25]
    return [next(program for program in every if program.name.startswith(prefix)) for prefix in FEW]


@pytest.fixture(autouse=True)
def _not_strict():
    before = stator.config.strict
    stator.config.strict = False
    yield
    _core.fail_at(0)
    stator.config.strict = before


def _seen(program: Program, with_frontend: Any) -> dict[str, Any]:
    """Without the warning that tells of the fault."""
    seen = run(program, with_frontend, fresh_calls=2, repeated_calls=1).seen
    for observation in seen.values():
        if "warnings" in observation:
            observation["warnings"] = [line for line in observation["warnings"] if "stator" not in line[1]]
    return seen


def _compare(expected: dict[str, Any], actual: dict[str, Any], what: str) -> None:
    for name, observation in expected.items():
        found = differences(observation, actual[name])
        assert not found, f"{what}, {name}: " + "\n".join(found)


@pytest.mark.parametrize("program", _programs(), ids=lambda program: program.name)
def test_every_point(program: Program) -> None:
    compiled = frontend("stator")
    for once in (frontend("eager"), compiled):  # what happens once in a process has happened then
        _seen(program, once)
    expected = _seen(program, frontend("eager"))
    _core.fail_at(-1)
    _compare(expected, _seen(program, compiled), "no fault")
    points = _core.fail_at(0)
    assert points > 0
    step = 1 if ALL else max(1, points // POINTS)
    failed = 0
    for n in range(1, points + 1, step):
        errors = compiled.internal_errors()
        _core.fail_at(n)
        actual = _seen(program, compiled)
        assert _core.fail_at(0) >= n
        failed += compiled.internal_errors() > errors
        _compare(expected, actual, f"fault {n} of {points}")
    assert failed > 0
    before = compiled.counts()
    _compare(expected, _seen(program, compiled), "after the faults")
    if program.min_ops:
        assert (compiled.counts() - before).ops > 0


def test_no_turn_is_held() -> None:
    """Behind a fault another thread captures."""
    for n in (1, 3, 6, 9):
        stator.reset()
        fn = stator.compile(lambda x, n=n: x * n + 1, backend="eager")
        _core.fail_at(n)
        errors = stator.stats()["internal_errors"]
        assert fn(torch.ones(2)).tolist() == [n + 1.0] * 2
        assert _core.fail_at(0) == n
        assert stator.stats()["internal_errors"] == errors + 1
        graphs = stator.stats()["graphs"]
        other = stator.compile(lambda x: x - 1, backend="eager")
        got: list[Any] = []
        thread = threading.Thread(target=lambda other=other, got=got: got.append(other(torch.ones(2)).tolist()))
        thread.start()
        thread.join(20)
        assert got == [[0.0, 0.0]]
        assert stator.stats()["graphs"] == graphs + 1


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_backend_that_fails_once(at: int) -> None:
    """With suppress_errors the part whose backend failed runs as it was captured."""
    calls = 0

    def backend(module, _inputs):
        nonlocal calls
        calls += 1
        if calls == at:
            raise MemoryError
        return module.forward

    log: list[Any] = []

    def f(x):
        y = x + 1
        log.append("first")
        print(end="")
        y.add_(1)
        log.append("second")
        print(end="")
        return y * 2

    with stator.config.patch(suppress_errors=True):
        fn = stator.compile(f, backend=backend)
        for _ in range(2):
            log.clear()
            assert fn(torch.ones(2)).tolist() == [6.0, 6.0]
            assert log == ["first", "second"]
    assert calls >= 3


def test_by_environment() -> None:
    code = (
        "import warnings, torch, stator\n"
        "warnings.simplefilter('ignore')\n"
        "f = stator.compile(lambda x: x + 1, backend='eager')\n"
        "assert f(torch.ones(2)).tolist() == [2.0, 2.0]\n"
        "print(stator.stats()['internal_errors'])\n"
    )
    environment = {**os.environ, "STATOR_FAIL_AT": "3", "STATOR_STRICT": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1", done.stdout + done.stderr
