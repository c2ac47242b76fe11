"""Symbols as a backend gets them among its example inputs: SymInts that make a ShapeEnv only when somebody looks into them."""

from typing import Any

import torch
from torch.fx.experimental.sym_node import SymNode


class _LazyNode(SymNode):
    """Becomes the real SymNode at the first read of anything that belongs to one: all that one has stands in its dict."""

    def __init__(self, make: Any) -> None:
        self.__dict__["_stator_make"] = make

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        real = self.__dict__["_stator_make"]().node
        self.__dict__.clear()
        self.__dict__.update(real.__dict__)
        self.__class__ = SymNode  # type: ignore[assignment]
        return getattr(self, name)


def example(record: Any, position: int, value: Any, shape: Any) -> Any:
    """The input at this position as a backend gets it: a symbol for a number that is none, otherwise the value."""
    from stator import _fx

    if isinstance(shape, str):
        return torch.SymInt(_LazyNode(lambda: _fx.symbolic_value(record, shape)))
    if type(value) is float:
        return torch.SymFloat(_LazyNode(lambda: _fx.symbolic_float(record, position, value)))
    return value
