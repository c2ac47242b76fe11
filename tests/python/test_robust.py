"""What must not end the process, or be swallowed: backends that return something odd, structures of any depth, trace
functions set midway."""

from __future__ import annotations

import collections
import gc
import subprocess
import sys
from typing import Any

import pytest
import torch

import stator


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: collections.OrderedDict(a=torch.ones(2)), "returned a collections.OrderedDict"),
        (lambda: torch.ones(2), "returned a Tensor"),
        (lambda: None, "returned a NoneType"),
        (lambda: (), "returned a tuple of 0"),
    ],
)
def test_what_a_backend_returns_is_checked(made: Any, words: str) -> None:
    calls: list[int] = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            calls.append(1)
            return made()

        return run

    compiled = stator.compile(lambda x: x + 1, backend=backend)
    for turn in range(3):  # a capture, an entry found, a call without a frame
        with pytest.raises(TypeError, match=words):
            compiled(torch.ones(2))
        assert len(calls) == turn + 1


def test_a_backend_may_return_a_list() -> None:
    compiled = stator.compile(lambda x: x + 1, backend=lambda gm, inputs: lambda *args: list(gm.forward(*args)))
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def _inner(a: int) -> int:
    b = a + 1
    return b


def _traced(setter: Any, wants_local: bool) -> list[tuple[str, str]]:
    events: list[tuple[str, str]] = []

    def look(frame: Any, event: str, arg: Any) -> Any:
        if event in ("call", "line", "return", "exception"):
            events.append((frame.f_code.co_name, event))
        return look if wants_local else None

    setter(look)
    _inner(1)
    try:
        _inner("a")  # type: ignore[arg-type]
    except TypeError:
        pass
    setter(None)
    return events


@pytest.mark.parametrize("setter", [sys.settrace, sys.setprofile], ids=["settrace", "setprofile"])
@pytest.mark.parametrize("wants_local", [True, False])
def test_a_trace_function_set_midway_sees_what_follows(setter: Any, wants_local: bool) -> None:
    expected = _traced(setter, wants_local)
    assert expected
    compiled = stator.compile(_traced, backend="eager")
    for _ in range(3):
        assert compiled(setter, wants_local) == expected
    assert stator.stats()["internal_errors"] == 0


@pytest.mark.parametrize("setter", [sys.settrace, sys.setprofile], ids=["settrace", "setprofile"])
def test_a_trace_function_is_not_told_what_stator_does_at_moments_of_its_own(setter: Any) -> None:
    """A full collection, the end of a function with captures, and of a cache."""

    def own_backend(module: Any, inputs: Any) -> Any:
        return module.forward

    def short_lived(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    events: list[tuple[str, str]] = []
    held = [stator.compile(short_lived, backend=own_backend)]
    held[0](torch.ones(2))
    setter(lambda frame, event, arg: events.append((frame.f_code.co_name, event)))
    gc.collect()
    held.clear()
    del short_lived, own_backend
    gc.collect()
    setter(None)
    assert [event for event in events if not event[1].startswith("c_")] == []


def _branches(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x * 2
    return x - 1


def test_a_trace_function_that_a_graph_sets_sees_the_branch_behind_it() -> None:
    """CPython's own jump takes over with a tensor at hand, of which it knows nothing from 3.13 on."""

    def backend(module: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            sys.settrace(lambda *_: None)
            return module.forward(*args)

        return run

    compiled = stator.compile(_branches, backend=backend)
    try:
        for x in (torch.ones(2), -torch.ones(2), torch.ones(2), -torch.ones(2)):
            expected = _branches(x)
            assert torch.equal(compiled(x), expected)
            assert sys.gettrace() is not None
            sys.settrace(None)
    finally:
        sys.settrace(None)
    assert stator.stats()["graph_calls"] >= 4


_AUDITED = """
import sys, torch, stator
told = torch.zeros(1)
def hook(event, arguments):
    if event == "stator.told":
        told.add_(arguments[0])
sys.addaudithook(hook)
def f(x):
    y = x + 1
    sys.audit("stator.told", 2)
    return y * 2
graphs = []
compiled = stator.compile(f, backend=lambda module, inputs: graphs.append(module) or module.forward)
for _ in range(3):
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
assert told.item() == 6 and stator.stats()["graph_calls"] >= 3
assert not [node for module in graphs for node in module.graph.nodes if node.target == "add_"]
print("alive")
"""


def test_an_audit_hook_is_no_part_of_the_program() -> None:
    done = subprocess.run([sys.executable, "-c", _AUDITED], capture_output=True, text=True, timeout=120)
    assert done.stdout == "alive\n", done.stderr


_DEEP = """
import sys, torch, stator
def nested(n):
    t = ()
    for _ in range(n):
        t = (t,)
    return t
T = nested(100_000)
def argument(x, t=T):
    return x + len(t)
def of_globals(x):
    return x + len(T)
def compared(x):
    return x + 1 if T in [T] else x
def as_key(x):
    return x + {1: 2, "a": T}.__len__()
x = torch.ones(2)
f = globals()[sys.argv[1]]
compiled = stator.compile(f, backend="eager")
for _ in range(4):
    assert torch.equal(compiled(x), f(x))
assert stator.stats()["internal_errors"] == 0
print("alive")
"""


@pytest.mark.parametrize("name", ["argument", "of_globals", "compared", "as_key"])
def test_depth_does_not_end_the_process(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", _DEEP, name], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "alive", f"{done.returncode} {done.stderr[-500:]}"
