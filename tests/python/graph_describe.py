"""Describes a captured graph to stator._core's doors: each call also runs eagerly, so that the facts of its result are
known."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import stator._core as core
from stator._node_meta import DEVICES, DTYPES


@dataclass(frozen=True)
class Value:
    index: int


def facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    device = tensor.device
    index = -1 if device.index is None else device.index
    return (
        tuple(tensor.shape),
        tuple(tensor.stride()),
        DTYPES.index(tensor.dtype),
        DEVICES.index(device.type),
        index,
        int(tensor.requires_grad),
        int(isinstance(tensor, torch.nn.Parameter)),
    )


class Describe:
    def __init__(self, locations: Any = (), scopes: Any = ()) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.values: list[Any] = []
        self.inputs: list[Any] = []
        self.locations = list(locations)
        self.scopes = list(scopes)

    def _add(self, value: Any, **node: Any) -> Value:
        if isinstance(value, torch.Tensor):
            node["facts"] = facts(value)
        self.nodes.append(node)
        self.values.append(value)
        return Value(len(self.nodes) - 1)

    def input(self, value: Any, *source: tuple[str, Any], **more: Any) -> Value:
        self.inputs.append(value)
        if source:
            more["source"] = list(source)
        return self._add(value, op="input", example=value, **more)

    def _run(self, op: str, target: Any, args: Any, kwargs: Any, more: Any) -> Any:
        real_args, real_kwargs = pytree.tree_map_only(Value, lambda ref: self.values[ref.index], (args, kwargs))
        if op == "call_method":
            result = getattr(real_args[0], target)(*real_args[1:], **real_kwargs)
        else:
            result = target(*real_args, **real_kwargs)
        made = self._add(result, op=op, target=target, args=args, kwargs=kwargs, **more)
        if isinstance(result, torch.Tensor):
            return made
        items = [self.call(operator.getitem, made, i) for i in range(len(result))]
        structure = type(result)(items) if not hasattr(result, "_fields") else type(result)(*items)
        self.nodes[made.index]["structure"] = tuple(items) if hasattr(type(result), "n_fields") else structure
        return items

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        more = {key: kwargs.pop(key) for key in ("location", "scope", "mutates") if key in kwargs}
        return self._run("call_function", target, args, kwargs, more)

    def method(self, name: str, *args: Any, **kwargs: Any) -> Any:
        more = {key: kwargs.pop(key) for key in ("location", "scope", "mutates") if key in kwargs}
        return self._run("call_method", name, args, kwargs, more)

    def build(self, *outputs: Value) -> Any:
        handle = core.graph_build(Value, self.nodes, [ref.index for ref in outputs], self.locations, self.scopes)
        core.graph_drop_dead(handle)
        return handle
