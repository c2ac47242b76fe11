"""A break in each place of a program loses next to nothing: of the tensor calls of a steady call, at least 95 % run
inside of graphs.

The programs are those of the corpus (`programs/breaks.py` and others about breaks), which test_programs.py compares
with eager; here only the share is measured. What is counted are the calls that make tensors, as a mode of torch's sees
them in the eager run.
"""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter

import stator
from stator import _core
from tests.python.programs import load_all

ROOMS = ("breaks", "generators_over_breaks")


class _Calls(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") != "__get__" and any(isinstance(v, torch.Tensor) for v in tree_iter(result)):
            self.count += 1
        return result


def _quietly(function: Any, case: Any) -> None:
    # some end with an exception, which is eager's (test_programs.py)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(Exception):
            function(*case.args, **case.kwargs)


def _programs() -> list[Any]:
    return [p for p in load_all() if p.theme in ROOMS]


@pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks leave nothing to capture")
@pytest.mark.parametrize("program", _programs(), ids=lambda p: p.name)
def test_share_inside_of_graphs(program: Any) -> None:
    case = program.make()
    for _ in range(2):
        _quietly(case.fn, case)
    with _Calls() as calls:
        _quietly(case.fn, case)
    case = program.make()
    compiled = stator.compile(case.fn, backend="eager")
    for _ in range(3):
        _quietly(compiled, case)
    before = _core.stats()["ops_run"]
    _quietly(compiled, case)
    inside = _core.stats()["ops_run"] - before
    assert inside >= 0.95 * calls.count, f"{inside} of {calls.count} tensor calls ran inside of graphs"
