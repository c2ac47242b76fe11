"""Marks on tensors: which sizes are dynamic or static, and which tensors stay at their address.

A mark is an attribute of the tensor, under the name that TorchDynamo gives it, so that marks of either kind are
honoured. Guards take them into account: a tensor with other marks is captured anew.
"""

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from stator._loaded import loaded


def _dims(index):
    return index if isinstance(index, (list, tuple)) else (index,)


def _of(tensor, dim):
    return f"dimension {dim} of a tensor of sizes {tuple(tensor.shape)}"


def _add(name, tensor, mark, index):
    dims = _dims(index)
    for dim in dims:
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise TypeError(f"{name} expects dimensions as ints but received {type(dim).__name__}")
        if not 0 <= dim < tensor.dim():
            known = f"its dimensions are 0 to {tensor.dim() - 1}" if tensor.dim() else "it has none"
            raise IndexError(f"{name}: {_of(tensor, dim)}: {known}")
    for dim in dims:
        if not hasattr(tensor, mark):
            setattr(tensor, mark, set())
        getattr(tensor, mark).add(dim)
    tensor._has_dynamo_dim_marking = True


def _check(name, tensor):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} expects a tensor but received {type(tensor).__name__}")


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """Sizes of these dimensions (an int, or several) are dynamic from the first capture on, between min and max if
    given."""
    _check("mark_dynamic", t)
    for which, bound in (("min", min), ("max", max)):
        if bound is not None and not isinstance(bound, (int, torch.SymInt)):
            raise TypeError(f"mark_dynamic: {_of(t, index)}: {which} is an int, not {bound!r}")
    if min is not None and max is not None and min > max:
        raise ValueError(f"mark_dynamic: {_of(t, index)}: min is {min}, and max is {max}")
    _add("mark_dynamic", t, "_dynamo_dynamic_indices", index)
    if not hasattr(t, "_dynamo_dynamic_range"):
        t._dynamo_dynamic_range = set()
    for dim in _dims(index):
        if hint_override is not None:
            if not hasattr(t, "_dynamo_hint_overrides"):
                t._dynamo_hint_overrides = {}
            t._dynamo_hint_overrides[dim] = hint_override
        t._dynamo_dynamic_range.add(_range(dim, min, max))
    for inner in _inner(t):
        mark_dynamic(inner, index, hint_override=hint_override, min=min, max=max)


def _inner(tensor):
    """What an instance of a wrapper class is made of, as far as it has as many dimensions: its sizes go with the
    tensor's."""
    if not is_traceable_wrapper_subclass(tensor):
        return []
    parts = (getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])
    return [part for part in parts if isinstance(part, torch.Tensor) and part.dim() == tensor.dim()]


def _range(dim, low, high):
    theirs = loaded("torch._dynamo.decorators")
    return (theirs._DimRange if theirs is not None else _DimRange)(dim, low, high)


class _DimRange(tuple):
    """dim, min, max, under the names by which torch's own form has them."""

    def __new__(cls, dim, low, high):
        return super().__new__(cls, (dim, low, high))

    def __getnewargs__(self):
        return tuple(self)

    dim = property(lambda self: self[0])
    min = property(lambda self: self[1])
    max = property(lambda self: self[2])


def maybe_mark_dynamic(t, index):
    """The same as a wish: a capture that needs the size as a constant may have it."""
    _check("maybe_mark_dynamic", t)
    _add("maybe_mark_dynamic", t, "_dynamo_weak_dynamic_indices", index)
    for inner in _inner(t):
        maybe_mark_dynamic(inner, index)


def mark_unbacked(t, index, hint_override=None, strict=False, specialize_on=None):
    """Sizes of these dimensions are dynamic, and nothing may be assumed of them."""
    _check("mark_unbacked", t)
    _add("mark_unbacked", t, "_dynamo_strict_unbacked_indices" if strict else "_dynamo_unbacked_indices", index)


def mark_static(t, index=None):
    """Sizes of these dimensions (all by default) are constants also where they would become dynamic. Takes classes of
    modules too."""
    if isinstance(t, type) and issubclass(t, torch.nn.Module):
        t._dynamo_marked_static = True
        return t
    _check("mark_static", t)
    _add("mark_static", t, "_dynamo_static_indices", tuple(range(t.dim())) if index is None else index)
    for inner in _inner(t):
        mark_static(inner, index)


def mark_static_address(t, guard=False):
    """t stays at its address from call to call: CUDA graphs need not copy it. With guard=True its identity is
    guarded."""
    _check("mark_static_address", t)
    t._dynamo_static_input_type = "guarded" if guard else "unguarded"
