"""`disable_saved_tensors_hooks` in captured code: in the graph where TorchDynamo has it, and eager's state whatever
happens."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import pytest
import torch
from torch.autograd.graph import disable_saved_tensors_hooks

import stator
from stator import _core

BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
FORCED = "STATOR_BREAK_EVERY" in os.environ
unforced = pytest.mark.skipif(FORCED, reason="forced breaks make other graphs")


def message() -> str | None:
    return torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()


@pytest.fixture(autouse=True)
def enabled() -> Any:
    yield
    torch._C._autograd._saved_tensors_hooks_enable()


def in_with(x: Any) -> Any:
    with disable_saved_tensors_hooks("inside"):
        y = x.sin()
        seen = message()
    return y * 2, seen, message()


def over_a_break(x: Any) -> Any:
    seen = []
    with disable_saved_tensors_hooks("inside"):
        y = x.sin()
        seen.append(message())
        stator.graph_break()
        y = y * 2
        seen.append(message())
    return y, seen, message()


def decorated(x: Any) -> Any:
    seen = []

    @disable_saved_tensors_hooks("decorated")
    def f(a: Any, depth: int) -> Any:
        seen.append(message())
        return f(a.cos(), depth - 1) + 1 if depth else a * 3

    seen.append(message())
    y = x.sin()
    seen.append(message())
    z = f(y, 2)
    return z, seen, message()


def never_called(x: Any) -> Any:
    @disable_saved_tensors_hooks("never")
    def f(a: Any) -> Any:
        return a

    return x.sin(), message()


def nested(x: Any) -> Any:
    seen = []
    with disable_saved_tensors_hooks("outer"):
        y = x.sin()
        with disable_saved_tensors_hooks("inner"):
            seen.append(message())
            y = y + 1
        seen.append(message())
        y = y * 2
    return y, seen, message()


def raises_inside(x: Any) -> Any:
    seen = []
    try:
        with disable_saved_tensors_hooks("inside"):
            y = x.sin()
            seen.append(message())
            raise ValueError("out of it")
    except ValueError:
        y = x.cos()
    return y, seen, message()


def entered_twice(x: Any) -> Any:
    context = disable_saved_tensors_hooks("once")
    with context:
        y = x + 1
    try:
        with context:
            y = y + 2
    except AttributeError as error:
        return y, str(error), message()
    return y, message()


def stays_disabled(x: Any) -> Any:
    torch._C._autograd._saved_tensors_hooks_disable("stays")
    return x.sin() + 1, message()


PROGRAMS = [in_with, over_a_break, decorated, never_called, nested, raises_inside, entered_twice, stays_disabled]


def run(function: Any, before: str | None) -> Any:
    """Results, gradient and the state behind the call."""
    torch._C._autograd._saved_tensors_hooks_enable()
    x = torch.linspace(0.1, 1.0, 4, requires_grad=True)
    with disable_saved_tensors_hooks(before) if before is not None else contextlib.nullcontext():
        out, *seen = function(x)
        after = message()
    torch._C._autograd._saved_tensors_hooks_enable()
    out.sum().backward()
    return out.detach(), x.grad, seen, after


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_as_eager(function: Any, backend: str) -> None:
    compiled = stator.compile(function, backend=backend)
    graphs = _core.stats()["graphs"]
    for before in (None, "before", None, "another", "before"):
        wanted = run(function, before)
        got = run(compiled, before)
        torch.testing.assert_close(got[:2], wanted[:2])
        assert got[2:] == wanted[2:]
    assert FORCED or _core.stats()["graphs"] > graphs


@unforced
def test_the_state_is_guarded() -> None:
    compiled = stator.compile(in_with, backend="eager")
    x = torch.ones(3)
    compiled(x)
    captures = _core.stats()["captures"]
    compiled(x)
    assert _core.stats()["captures"] == captures
    with disable_saved_tensors_hooks("outside"):
        assert compiled(x)[2] == "outside"
        assert message() == "outside"


def graph_of(function: Any) -> list[str]:
    lines: list[str] = []

    def backend(gm: Any, inputs: Any) -> Any:
        lines.extend(n.name for n in gm.graph.nodes if n.op not in ("placeholder", "output"))
        return gm.forward

    stator.compile(function, backend=backend)(torch.ones(3))
    return lines


@unforced
def test_nodes_as_torchdynamos() -> None:
    def fn(x: Any) -> Any:
        @disable_saved_tensors_hooks("no hooks")
        def f(a: Any) -> Any:
            return a + 1

        y = x.sin()
        return f(y)

    names = graph_of(fn)
    assert names[0] == "_saved_tensors_hooks_disable"
    assert names[-1] == "_saved_tensors_hooks_enable"
    assert len(names) == 4
    first, second, third, *rest = graph_of(over_a_break)
    assert (first, third) == ("_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable")
    assert (rest[0], rest[-1]) == ("_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable")


@pytest.mark.parametrize("in_place", [False, True])
def test_a_graph_that_fails(in_place: bool) -> None:
    def fn(x: Any, index: Any) -> Any:
        @disable_saved_tensors_hooks("no hooks")
        def f(a: Any) -> Any:
            return a[index] + 1

        if in_place:
            x.add_(1)
        y = x[index]  # fails before f is called
        return f(y)

    x = torch.arange(4.0)
    good, bad = torch.tensor([1, 2]), torch.tensor([9, 9])
    compiled = stator.compile(fn, backend="eager")
    with pytest.raises(IndexError):
        fn(x.clone(), bad)
    compiled(x.clone(), torch.tensor([0, 1]))
    with pytest.raises(IndexError):
        compiled(x.clone(), bad)
    assert message() is None
    with disable_saved_tensors_hooks("outside"):
        with pytest.raises(IndexError):
            compiled(x.clone(), bad)
        assert message() == "outside"
    with contextlib.suppress(IndexError):
        compiled(x.clone(), good)
    assert message() is None
