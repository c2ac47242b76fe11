"""Symbols as a backend gets them among its example inputs: SymInts that make a ShapeEnv only when somebody looks into them."""

from typing import Any

import torch
from torch.fx.experimental.sym_node import SymNode


class _LazyNode(SymNode):
    """Becomes the real SymNode at the first read of anything that belongs to one: all that one has stands in its dict."""

    def __init__(self, record: Any, name: str) -> None:
        self.__dict__["_stator_origin"] = record, name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        record, symbol = self.__dict__.pop("_stator_origin")
        from stator import _fx

        real = _fx.symbolic_value(record, symbol).node
        self.__dict__.update(real.__dict__)
        self.__class__ = SymNode
        return getattr(self, name)


def example(record: Any, name: str) -> torch.SymInt:
    return torch.SymInt(_LazyNode(record, name))
