"""Every program of the corpus under Stator: equal to eager, and captured as the program says."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tests.python.differential import Verdict, compare, prepare_process
from tests.python.frontends import FrontendMissing, forced_breaks, frontend
from tests.python.programs import Program, load_all

_PROGRAMS = {program.name: program for program in load_all()}
_EXPECTING = [name for name, program in _PROGRAMS.items() if program.expects_capture()]


@functools.cache
def _stator() -> Any:
    prepare_process()
    try:
        return frontend("stator")
    except FrontendMissing as missing:
        return missing


@functools.cache
def _verdict(name: str) -> Verdict:
    stator = _stator()
    if isinstance(stator, FrontendMissing):
        pytest.skip(str(stator))
    return compare(_PROGRAMS[name], stator)


@pytest.mark.parametrize("name", _PROGRAMS)
def test_as_eager(name: str) -> None:
    verdict = _verdict(name)
    assert not verdict.differences, "\n".join(verdict.differences[:6])


@pytest.mark.parametrize("name", _EXPECTING)
def test_captured(name: str) -> None:
    if forced_breaks():
        pytest.skip("breaks are forced")
    verdict = _verdict(name)
    assert not verdict.unmet, "; ".join(verdict.unmet)


@pytest.mark.parametrize("program", list(_PROGRAMS.values())[::8], ids=lambda program: program.name)
def test_runner_agrees_with_itself(program: Program) -> None:
    """Two eager runs show no difference: what the runner reports is never its own noise."""
    prepare_process()
    assert compare(program, frontend("eager")).differences == []
