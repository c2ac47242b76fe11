"""FakeTensors that a caller made, under a FakeTensorMode of the caller's own: what a capture asks of them.

src/interpret/tensors/callers_fakes.cpp and src/tensor/fake_modes.cpp call what is here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

_FAKE = torch._C._TorchDispatchModeKey.FAKE


def _current_mode() -> Any:
    return torch._C._get_dispatch_mode(_FAKE)


def _hint(size: Any) -> int | None:
    """The value that a size has for now, without a condition on it; None: it has none."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    node = size.node
    return int(node.hint) if node.has_hint() and not node.is_nested_int() else None


def _hints(sizes: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(_hint(size) for size in sizes)


def sizes_for_now(tensor: torch.Tensor) -> tuple[Any, ...]:
    """(sizes, strides, offset, bytes of the storage, which sizes are SymInts)."""
    return (
        _hints(tensor.shape),
        _hints(tensor.stride()),
        _hint(tensor.storage_offset()),
        _hint(tensor.untyped_storage().nbytes()),
        tuple(isinstance(size, torch.SymInt) for size in tensor.shape),
    )


def number(tensor: torch.Tensor, dim: int) -> int | None:
    """As tensor::sizeOf: a size, the offset (-1), a stride (-2 - dim)."""
    if dim == -1:
        return _hint(tensor.storage_offset())
    return _hint(tensor.size(dim) if dim >= 0 else tensor.stride(-2 - dim))


def why_not(tensor: Any, mode: Any) -> str:
    """What is in the way of a capture; empty: nothing."""
    if type(tensor) is not FakeTensor:
        return "a tensor with data"
    if tensor.fake_mode is not mode:
        return "a tensor of another FakeTensorMode"
    if tensor.real_tensor is not None or tensor.pytype is not None:
        return "a fake that stands for more than its sizes"
    if tensor.layout is torch.strided and _hint(tensor.untyped_storage().nbytes()) is None:
        return "memory of a size without a value"
    sizes = tensor.shape
    if not any(isinstance(size, torch.SymInt) for size in (*sizes, *tensor.stride(), tensor.storage_offset())):
        return ""
    if tensor.layout is not torch.strided or isinstance(tensor.storage_offset(), torch.SymInt):
        return "SymInts that are no sizes"
    for size in (*sizes, *tensor.stride()):
        if isinstance(size, torch.SymInt) and (_hint(size) or 0) < 2:
            return "a size without a value, or of 0 or 1, that is a SymInt"
    return ""


def is_parameter(tensor: FakeTensor) -> bool:
    return getattr(tensor, "_is_param", False) is True


class Check:
    """Whether a tensor is a fake of the mode that is entered, like the captured one. Where sizes are SymInts, torch's
    own fields say nothing, and what they are for now is compared here: with `sizes` and `strides`, in which -1 is any
    number, and -2 - n the size times the stride of dim n."""

    def __init__(self, tensor: FakeTensor, sizes: tuple[int, ...] | None, strides: tuple[int, ...] | None) -> None:
        self.device = tensor.fake_device
        self.is_parameter = is_parameter(tensor)
        self.sizes = sizes
        self.strides = strides
        if sizes is not None:
            self.facts = self._facts(tensor)
            self.symbolic = sizes_for_now(tensor)[4]

    @staticmethod
    def _facts(tensor: FakeTensor) -> tuple[Any, ...]:
        return tensor.dtype, tensor.layout, tensor.requires_grad, tensor.is_inference(), torch._C._dispatch_keys(tensor)

    def __call__(self, seen: Any) -> bool:
        if type(seen) is not FakeTensor or why_not(seen, _current_mode()):
            return False
        if seen.fake_device != self.device or is_parameter(seen) != self.is_parameter:
            return False
        symbolic = any(isinstance(size, torch.SymInt) for size in seen.shape)
        if self.sizes is None or self.strides is None:
            return not symbolic
        if not symbolic or seen.dim() != len(self.sizes) or self._facts(seen) != self.facts:
            return False
        sizes, strides, offset, _, found = sizes_for_now(seen)
        if found != self.symbolic or offset != 0:
            return False
        if any(was >= 0 and was != size for was, size in zip(self.sizes, sizes, strict=True)):
            return False
        return all(
            was == stride if was >= 0 else was == -1 or stride == sizes[-2 - was] * strides[-2 - was]
            for was, stride in zip(self.strides, strides, strict=True)
        )


def mode_among(examples: Iterable[Any]) -> Any:
    """The mode of a graph's inputs that are fakes; None: there are none."""
    return next((example.fake_mode for example in examples if type(example) is FakeTensor), None)
