"""Whether a difference under a backend that traces is AOTAutograd's own.

What docs/ERRORS.md lists is told by two rules. A difference in words is told by the words. All else is told by the graphs: each is run as it was captured
beside what AOTAutograd made of it, on copies of the same inputs. Where these two differ, or where it does not compile a graph that runs, nothing is to
be said about the program.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch._dynamo.backends.registry import lookup_backend

from tests.python.observe import Describer

# One node stands for all of a graph: it has another name, is freed as a whole, and keeps all inputs that require a gradient.
_NODE_NAME = re.compile(r"grad_fn=<\w+>|\w+Backward\w*|Output \d+ of \w+| \| function\.py:\d+ apply_boxed")
_FREED = "backward through the graph a second time"
_IN_BACKWARD = "apply_boxed"  # what raises there has a note of ours too
_ZERO_GRADIENT = re.compile(
    r"\.grad: #\d+ torch\.Tensor .* \[[-0., \[\]]+\]$"
)  # of what led to another result of the graph


def not_by_words(differences: list[str]) -> list[str]:
    """The differences that are no matter of words."""
    if any(_FREED in text or _IN_BACKWARD in text or _ZERO_GRADIENT.search(text) for text in differences):
        return []
    return [text for text in differences if not _is_wording(text)]


def _is_wording(text: str) -> bool:
    if ": references" in text.partition("\n")[0]:
        return True
    eager, found, compiled = text.partition("\n    compiled ")
    _, at, eager = eager.partition("\n    eager    ")
    return bool(found and at) and _NODE_NAME.sub("_", eager) == _NODE_NAME.sub("_", compiled)


def _copies(values: tuple[Any, ...]) -> list[Any]:
    """The same inputs once more: leaves with the same facts, over copies of the same memory."""
    memory: dict[int, torch.UntypedStorage] = {}
    made: dict[int, Any] = {}
    for value in values:
        if id(value) in made or not isinstance(value, torch.Tensor):
            made.setdefault(id(value), value)
            continue
        storage = value.untyped_storage()
        own = memory.setdefault(storage._cdata, storage.clone())
        copy = torch.empty(0, dtype=value.dtype, device=value.device)
        with torch.no_grad():
            copy.set_(own, value.storage_offset(), value.size(), value.stride())
        copy.requires_grad_(value.requires_grad)
        if isinstance(value, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, value.requires_grad)
        elif not value.is_leaf:
            copy = copy.view_as(copy)
        made[id(value)] = copy
    return [made[id(value)] for value in values]


def _outcome(call: Any, inputs: Any) -> list[tuple[str, str]]:
    describer = Describer()
    try:
        describer.describe("result", list(call(*inputs)))
    except Exception as error:
        return [("raised", f"{type(error).__name__}: {str(error).splitlines()[:1]}")]
    for index, value in enumerate(inputs):
        describer.describe(f"input {index}", value)
    return describer.lines


class Watched:
    """A backend that compares what it makes with the graph."""

    def __init__(self, name: str) -> None:
        self.backend = lookup_backend(name)
        self.differs = False

    def __call__(self, graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        try:
            compiled = self.backend(graph, examples)
        except Exception:
            self.differs = True
            raise

        def run(*inputs: Any) -> Any:
            states = torch.get_rng_state(), torch.is_grad_enabled()
            expected = _outcome(graph.forward, _copies(inputs))
            torch.set_rng_state(states[0])
            torch.set_grad_enabled(states[1])
            found = _outcome(compiled, _copies(inputs))
            torch.set_rng_state(states[0])
            torch.set_grad_enabled(states[1])
            self.differs |= expected != found
            return compiled(*inputs)

        return run
