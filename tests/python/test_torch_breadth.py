"""What torch offers beyond single operators: memory that inputs share, higher-order operators, autograd functions. Each test compares with
eager and asserts that the capture happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    stator.reset()
    yield
    stator.reset()


def counting(inner: str | None = None) -> tuple[Callable[..., Any], list[torch.fx.GraphModule]]:
    """A backend that keeps the graphs, and hands them on to AOTAutograd where that is asked for."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(gm)
        if inner is None:
            return gm.forward
        from torch._dynamo.backends.registry import lookup_backend

        return lookup_backend(inner)(gm, inputs)

    return backend, graphs


def separate() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(4), torch.zeros(4)


def same() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.zeros(4)
    return x, x


def overlapping() -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.zeros(6)
    return base[:4], base[2:]


def beside() -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.zeros(9)
    return base[:4], base[5:]


def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return y * 2


def write_through_a_view(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.view(-1)[1:].add_(3)
    return y + x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [write, write_through_a_view])
def test_inputs_that_come_to_share_memory(function: Callable[..., Any], backend: str) -> None:
    compiled = stator.compile(function, backend=backend, fullgraph=True)
    before = stator.stats()["hits"]
    for make in (separate, overlapping, same, beside, separate, overlapping, same):
        expected, actual = make(), make()
        assert torch.equal(function(*expected), compiled(*actual))
        assert torch.equal(expected[0], actual[0]) and torch.equal(expected[1], actual[1])
    assert stator.stats()["hits"] - before == 3  # each pattern was captured once


def test_facts_that_are_guarded_when_read() -> None:
    base = torch.zeros(8)

    def offset(x: torch.Tensor) -> torch.Tensor:
        return x + x.storage_offset()

    compiled = stator.compile(offset, backend="eager")
    for x in (base[:4], base[2:6], base[4:]):
        assert torch.equal(compiled(x), offset(x))

    def leaf(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        return x * 2, x.is_leaf

    compiled = stator.compile(leaf, backend="eager", fullgraph=True)
    w = torch.zeros(4, requires_grad=True)
    assert [compiled(x)[1] for x in (w, w * 2, w)] == [True, False, True]
