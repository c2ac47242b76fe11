"""The ways to run a program: eagerly, by Stator, by TorchDynamo. Each counts what its graphs did."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

FORCED_BREAKS = "STATOR_BREAK_EVERY"


@dataclass
class Counts:
    """What ran inside graphs, and how often capture stopped."""

    graphs: int = 0
    ops: int = 0
    breaks: int = 0

    def __sub__(self, earlier: Counts) -> Counts:
        return Counts(self.graphs - earlier.graphs, self.ops - earlier.ops, self.breaks - earlier.breaks)


class FrontendMissing(Exception):
    """The front end cannot be used here; the message says why."""


class Eager:
    """No front end: the reference, and the check that a program agrees with itself."""

    name = "eager"

    def compile(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    def reset(self) -> None:
        pass

    def counts(self) -> Counts | None:
        return None

    def internal_errors(self) -> int:
        return 0


class _Counting:
    """A backend that runs the graph as it is, and counts graphs and operations each time one runs."""

    def __init__(self) -> None:
        self.graphs = 0
        self.ops = 0

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        ops = sum(_is_tensor_op(node) for node in graph_module.graph.nodes)
        forward = graph_module.forward

        def run(*args: Any) -> Any:
            self.graphs += 1
            self.ops += ops
            return forward(*args)

        return run


def _is_tensor_op(node: torch.fx.Node) -> bool:
    if node.op not in ("call_function", "call_method", "call_module"):
        return False
    if node.target is operator.getitem:  # not an operation when it only takes an output of another one apart
        source = node.args[0]
        return not (isinstance(source, torch.fx.Node) and isinstance(source.meta.get("example_value"), (tuple, list)))
    return True


class Stator:
    name = "stator"

    def __init__(self, backend: Any = None) -> None:
        os.environ.setdefault("STATOR_STRICT", "1")
        try:
            import stator
        except Exception as error:
            raise FrontendMissing(f"stator cannot be imported: {error}") from error
        if not hasattr(stator, "compile"):
            raise FrontendMissing("stator.compile does not exist yet")
        self._stator = stator
        self._counting = _Counting()
        self._backend: Any = backend or self._counting

    def compile(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return self._stator.compile(fn, backend=self._backend)

    def reset(self) -> None:
        self._stator.reset()

    def _stats(self) -> dict[str, int]:
        return dict(self._stator.stats()) if hasattr(self._stator, "stats") else {}

    def counts(self) -> Counts | None:
        stats = self._stats()
        if self._backend is self._counting:
            return Counts(self._counting.graphs, self._counting.ops, stats.get("breaks", 0))
        if not stats:
            return None
        return Counts(stats.get("graphs", 0), stats.get("ops", 0), stats.get("breaks", 0))

    def internal_errors(self) -> int:
        return self._stats().get("internal_errors", 0)


class Dynamo:
    """TorchDynamo, for comparison: where it differs from eager is information, not a failure of the runner."""

    name = "dynamo"

    def __init__(self, backend: str | None = None) -> None:
        import torch._dynamo  # noqa: F401
        from torch._dynamo.utils import counters

        self._counters = counters
        self._counting = _Counting()
        self._backend: Any = backend or self._counting

    def compile(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(fn, backend=self._backend)

    def reset(self) -> None:
        torch._dynamo.reset()
        self._counters.clear()

    def counts(self) -> Counts | None:
        return Counts(self._counting.graphs, self._counting.ops, sum(self._counters["graph_break"].values()))

    def internal_errors(self) -> int:
        return 0


def frontend(name: str, backend: Any = None) -> Any:
    if name == "eager":
        return Eager()
    if name == "dynamo":
        return Dynamo(backend)
    if name == "stator":
        return Stator(backend)
    raise ValueError(f"no front end is called {name!r}; there are eager, stator, dynamo")


def forced_breaks() -> str:
    """The setting that makes Stator break where nothing asks for it, or the empty string."""
    return os.environ.get(FORCED_BREAKS, "")


class CountTensorCalls(TorchFunctionMode):
    """Counts the calls on tensors that an eager run makes: what a perfect capture would have in its graphs."""

    _QUESTIONS = frozenset(("__get__", "__set__", "size", "dim", "numel", "stride", "item", "tolist", "__bool__", "__len__", "__repr__",
                            "__format__", "__hash__", "__contains__", "is_floating_point", "is_contiguous", "storage_offset", "data_ptr",
                            "ndimension", "nelement", "element_size", "__iter__", "__int__", "__float__", "__index__", "is_complex",
                            "register_hook", "backward", "__torch_function__", "is_tensor"))  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") not in self._QUESTIONS:
            self.calls += 1
        return func(*args, **(kwargs or {}))
