"""What a call does beside giving results, seen while it runs on FakeTensors: draws random numbers, writes to arguments,
meets types that its kernel refuses and fakes take.
"""

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._python_dispatch import _disable_current_modes as disable_current_modes


class Watch(TorchDispatchMode):
    """Notes whether the call drew random numbers, and whether it wrote to one of its arguments."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # skipping would import torch._dynamo

    def __init__(self, storages):
        super().__init__()
        self.storages = storages
        self.random = False
        self.mutates = 0  # 1: it writes to arguments; 2: it was called for its effect, which may be more than that
        self.written = set()  # numbers of arguments

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.HigherOrderOperator):
            return func(*args, **kwargs)
        schema = func._schema
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(schema, args, kwargs):
            self.random = True
        if schema.name.startswith(_QUANTIZES):
            raise NotImplementedError("the fake result is not quantised")
        if not schema.returns and not schema.name.startswith(_CHECKS):
            self.mutates = 2
        if schema.is_mutable:
            self._note_writes(schema, args, kwargs)
        elif func._schema.name in _UPDATES_STATISTICS and _trains(schema, args, kwargs):
            self._note(kwargs.get("running_mean", args[3] if len(args) > 3 else None))
            self._note(kwargs.get("running_var", args[4] if len(args) > 4 else None))
        result = func(*args, **kwargs)
        if _in_doubt(func, args, kwargs):
            _try_with_data(func, args, kwargs)
        return result

    def _note_writes(self, schema, args, kwargs):
        for position, argument in enumerate(schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                self._note(tensor)

    def _note(self, tensor):
        if isinstance(tensor, torch.Tensor):
            for storage in storages_of(tensor):
                if (number := self.storages.get(storage)) is not None:
                    self.mutates = max(self.mutates, 1)
                    self.written.add(number)


# Operators without results that raise, or do nothing at all (graph/raising.cpp knows the calls that lead to them).
_CHECKS = ("aten::_assert", "aten::_linalg_check_errors", "aten::_validate")

# Zeros say nothing about these.
_WITHOUT_DATA = {torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}


def _any_unknown(tensors, leaves):
    """Whether a size or number is known only when the graph runs."""
    numbers = [size for t in tensors for size in t.shape] + leaves
    return any(isinstance(number, torch.SymInt) and not number.node.has_hint() for number in numbers)


def _in_doubt(func, args, kwargs):
    """Whether a kernel may refuse the types, which fakes take: several that meet, or others than those of floating
    point."""
    if func.namespace != "aten" or not _WITHOUT_DATA.isdisjoint(func.tags):
        return False
    leaves = pytree.tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not tensors or not all(t.device.type == "cpu" and t.layout is torch.strided for t in tensors):
        return False
    if _any_unknown(tensors, leaves):
        return False
    if any(isinstance(leaf, complex) for leaf in leaves) or not all(t.is_floating_point() for t in tensors):
        return True
    if torch.Tag.pointwise in func.tags:
        return False
    return len({t.dtype for t in tensors if t.dim() > 0}) > 1


# What kernels say about types; of anything else zeros say nothing.
_ABOUT_TYPES = (
    "type",
    "complex",
    "Complex",
    "not implemented for",
    "not supported",
    "cannot be converted",
    "bool tensor",
)


def _try_with_data(func, args, kwargs):
    """Calls the operator on zeros of these sizes, or smaller ones that differ where they do. Raises what it raises
    about types."""
    sizes = {}

    def number(value):
        return value.node.hint if isinstance(value, torch.SymInt) else value

    def small(size):
        return size if size <= 8 else sizes.setdefault(size, 9 + len(sizes))

    def with_data(value):
        if isinstance(value, torch.Tensor):
            return torch.zeros([small(number(size)) for size in value.shape], dtype=value.dtype)
        return number(value)

    with disable_current_modes():
        try:
            func(*pytree.tree_map(with_data, args), **pytree.tree_map(with_data, kwargs))
        except RuntimeError as error:
            if any(words in str(error) for words in _ABOUT_TYPES):
                raise


# Fakes say that the result has the dtype of the argument.
_QUANTIZES = ("aten::quantize_per_", "aten::_make_per_", "aten::_empty_affine_", "aten::_empty_per_", "quantized::")

# Write to running_mean and running_var without saying so in their schemas.
_UPDATES_STATISTICS = {
    "aten::batch_norm",
    "aten::native_batch_norm",
    "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm",
    "aten::_batch_norm_impl_index",
}


def _by_name(schema, args, kwargs):
    return {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)} | kwargs


def _draws(schema, args, kwargs):
    """Whether an operator that may draw random numbers does so here: attention and recurrent layers do for dropout
    alone, in training alone."""
    names = {argument.name: argument.default_value for argument in schema.arguments}
    values = names | _by_name(schema, args, kwargs)
    return (
        values.get("train") is not False
        and values.get("training") is not False
        and not any(name in values and values[name] == 0 for name in ("dropout_p", "dropout"))
    )


def _trains(schema, args, kwargs):
    values = _by_name(schema, args, kwargs)
    return bool(values.get("training")) and values.get("running_mean") is not None


def _storage_of(tensor):
    return tensor.untyped_storage()._cdata


def storages_of(tensor):
    """Of an instance of a wrapper class also those of all that it is made of. Results that alias have one in common."""
    if isinstance(tensor, FakeTensor):
        return [_storage_of(tensor)]
    found = []
    try:
        found.append(_storage_of(tensor))
    except (RuntimeError, NotImplementedError):
        pass  # it has none
    for name in tensor.__tensor_flatten__()[0] if is_traceable_wrapper_subclass(tensor) else ():
        if isinstance(inner := getattr(tensor, name), torch.Tensor):
            found += storages_of(inner)
    return found
