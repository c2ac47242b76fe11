"""Warnings of captured code under filters that change: what eager shows, raises or keeps to itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator

LOG: list[Any] = []


def plain(x: torch.Tensor) -> torch.Tensor:
    LOG.append("called")
    warnings.warn("old", stacklevel=1)
    LOG.append("went on")
    return x * 2


def of_caller(x: torch.Tensor) -> torch.Tensor:
    return plain(x + 1) + torch.nn.functional.l1_loss(x, x[:1])


def show(message, category, filename, lineno, file=None, line=None):
    LOG.append((str(message), category.__name__, lineno))


def ignored() -> None:
    warnings.filterwarnings("ignore", message="ol.*")


def by_module() -> None:
    warnings.filterwarnings("error", module=__name__)


def shown_by_us() -> None:
    warnings.showwarning = show


WORLDS: dict[str, list[Callable[[], Any]]] = {
    "always": [lambda: warnings.simplefilter("always")],
    "becomes an error": [
        lambda: warnings.simplefilter("always"),
        lambda: warnings.filterwarnings("error", message="old"),
        lambda: warnings.filterwarnings("ignore", message="o.*d"),
    ],
    "errors of a module": [lambda: warnings.simplefilter("default"), by_module, ignored],
    "shown by the program": [lambda: warnings.simplefilter("always"), shown_by_us],
    "once for a place": [lambda: warnings.simplefilter("default"), lambda: None, lambda: None],
    "once": [lambda: warnings.simplefilter("once"), lambda: None],
    "nothing": [warnings.resetwarnings, lambda: None],
}


def told(function: Callable[[torch.Tensor], torch.Tensor], changes: list[Callable[[], Any]]) -> list[Any]:
    """What becomes of two calls after each change of the filters."""
    seen: list[Any] = []
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as caught:
        for change in changes:
            change()
            for _ in range(2):
                LOG.clear()
                caught.clear()
                try:
                    result: Any = function(torch.ones(3)).tolist()
                except Warning as error:
                    result = repr(error)
                seen.append((result, list(LOG), [(str(w.message), w.filename, w.lineno) for w in caught]))
        seen.append(sorted(map(str, globals().get("__warningregistry__", {}))))
    return seen


@pytest.mark.parametrize("function", [plain, of_caller])
@pytest.mark.parametrize("world", WORLDS)
def test_what_becomes_of_it(world: str, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    expected = told(function, WORLDS[world])
    stator.reset()
    before = int(stator.stats()["graph_calls"])
    assert told(stator.compile(function, backend="eager"), WORLDS[world]) == expected
    assert int(stator.stats()["graph_calls"]) > before


def test_it_is_in_one_graph() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert stator.explain(of_caller)(torch.ones(3)).graph_count == 1


class Layer(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        warnings.warn(
            "from the layer", stacklevel=4
        )  # forward, _call_impl, _wrapped_call_impl, and who called the layer
        return x * 2


def test_lines_of_those_who_call_modules() -> None:
    layer = Layer()

    def function(x: torch.Tensor) -> torch.Tensor:
        return layer(x) + layer(x + 1)

    world = [lambda: warnings.simplefilter("always")]
    assert told(stator.compile(function, backend="eager"), world) == told(function, world)
