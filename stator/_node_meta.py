"""What the nodes of a graph say beside their calls (`node.meta`): fakes, where inputs are read, stack traces. Called
from graph/fx_record.cpp when somebody reads them, and by what needs fakes of inputs.
"""

from __future__ import annotations

import collections
import functools
import linecache
import os
import weakref
from typing import Any

import torch
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.weak import TensorWeakRef

from stator import _fx

# By c10's numbers (torch/headeronly/core/ScalarType.h, DeviceType.h).
_DTYPE_NAMES = """
    uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 bfloat16 quint4x2
    quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64
    uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 int7 float8_e8m0fnu float4_e2m1fn_x2
"""
_DEVICE_NAMES = (
    "cpu cuda mkldnn opengl opencl ideep hip fpga maia xla vulkan metal xpu mps meta hpu ve lazy ipu mtia privateuseone"
)
DTYPES = [getattr(torch, name, None) for name in _DTYPE_NAMES.split()]
DEVICES = _DEVICE_NAMES.split()

_NN_MODULES = os.path.join(os.path.dirname(torch.nn.__file__), "modules") + os.sep


class GraphArg:
    """meta["grapharg"] of a placeholder. Does not keep the example alive."""

    pass_arg_as_tensor = False

    def __init__(self, source: _fx.InputSource, example: Any, fake_tensor: Any) -> None:
        self.source = source
        self.is_tensor = isinstance(example, torch.Tensor)
        self.fake_tensor = fake_tensor
        self._example = TensorWeakRef(example) if self.is_tensor else example

    @property
    def example(self) -> Any:
        return self._example() if self.is_tensor else self._example

    def __repr__(self) -> str:
        return f"GraphArg({self.source})"


def mode_of(record: Any) -> Any:  # a FakeTensorMode with _stator_symbols
    if record.fake_mode is None:
        context = TracingContext.try_get()
        if isinstance(context, _fx.Context) and (record is context.record or record in context.functions):
            return context.fake_mode
        if record.symbols is None:
            record.fake_mode = FakeTensorMode()
        else:
            from stator import _symbols

            _symbols.make_mode(record, _fx.sources_of(record))
    elif isinstance(record.fake_mode, weakref.ref):  # a function's: that of the graph around it
        outer = record.fake_mode()
        record.fake_mode = None if outer is None else mode_of(outer._stator_record)
        return record.fake_mode or mode_of(record)
    return record.fake_mode


def symbolic_value(record: Any, text: str) -> Any:
    """The SymInt of an expression over the graph's symbols."""
    return mode_of(record)._stator_symbols.value(text)


def _symbols_of(record: Any) -> Any:
    """A graph without sizes that change may have floats that do."""
    mode = mode_of(record)
    if not hasattr(mode, "_stator_symbols"):
        from stator import _symbols

        mode._stator_symbols = _symbols.Symbols(mode.shape_env, [])
    return mode._stator_symbols


def symbolic_float(record: Any, position: int, value: float) -> Any:
    return _symbols_of(record).float_input(position, value)


def note_floats(record: Any) -> None:
    """Which symbols torch has given to floats that are tensors among the inputs, for what a backend decides on them."""
    symbols = _symbols_of(record)
    for position in record.floats:
        memo = record.input_fake(position).item_memo
        if isinstance(memo, torch.SymFloat):
            symbols.floats[memo.node._expr] = position


def _sizes(mode: Any, sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(mode._stator_symbols.value(size) if isinstance(size, str) else size for size in sizes)


def bare_fake(
    mode: FakeTensorMode, size: Any, stride: Any, dtype: Any, device: torch.device, requires_grad: bool
) -> FakeTensor:
    """What FakeTensor(mode, torch.empty_strided(...), device) makes, at a third of the time: its Python state is the
    same for all."""
    templates = mode.__dict__.setdefault("_stator_templates", {})
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        plain = torch.empty_strided(size, stride, dtype=dtype, device="meta")
        template = templates.get(device)
        if template is None:
            template = templates[device] = dict(FakeTensor(mode, plain, device).__dict__)
        fake = torch.Tensor._make_subclass(
            FakeTensor, plain, requires_grad, dispatch_device=True, device_for_backend_keys=device
        )
    if not mode._allow_unsafe_data_ptr_access:
        torch._C._set_throw_on_mutable_data_ptr(fake)
    fake.__dict__.update(template)
    return fake


def fake_from_facts(record: Any, facts: tuple[Any, ...]) -> FakeTensor:
    size, stride, dtype, device, device_index, _layout, _offset, requires_grad, _parameter = facts
    mode = mode_of(record)
    if hasattr(mode, "_stator_symbols"):
        size, stride = _sizes(mode, size), _sizes(mode, stride)
    return bare_fake(mode, size, stride, DTYPES[dtype], place_of(device, device_index), bool(requires_grad))


@functools.cache
def place_of(device: int, index: int) -> torch.device:
    return torch.device(DEVICES[device], index) if index >= 0 else torch.device(DEVICES[device])


def fake_wrapper(record: Any, fake: torch.Tensor) -> torch.Tensor:
    """Of a class with its own __torch_dispatch__: the trace's fake instance, in the record's mode."""
    from stator import _wrappers

    return _wrappers.moved(fake, mode_of(record), bare_fake)


_is_of_transform = torch._C._functorch.is_functorch_wrapped_tensor  # which has no storage to ask for


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether size, stride, dtype and device say all that a fake of the tensor has to know (its storage is its own)."""
    return (
        (type(tensor) is torch.Tensor or type(tensor) is torch.nn.Parameter)
        and tensor.layout is torch.strided
        and tensor.dim() > 0  # a number on the CPU keeps its value
        and tensor.device.type != "meta"
        and not tensor._is_view()
        and tensor.storage_offset() == 0
        and tensor.is_leaf
        and tensor.grad is None
        and not tensor.is_inference()
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not _is_of_transform(tensor)
        and (not tensor.requires_grad or tensor.grad_dtype == tensor.dtype)
    )


def fake_plain_inputs(record: Any) -> None:
    """Puts fakes of plain inputs where the mode looks for them; the others, and those with symbols among their sizes,
    are left to it. The mode's own memory of them is weak, so they are kept beside it: while a backend is at work, and
    otherwise as long as the mode."""
    mode = record.fake_mode
    held = mode.__dict__.setdefault("_stator_inputs", [])
    memo = mode.fake_tensor_converter
    examples = record.examples
    shapes = [None] * len(examples) if record.symbols is None else record.shapes
    # Aliases have to alias as fakes too.
    owners = collections.Counter(
        tensor.untyped_storage()._cdata
        for tensor in examples
        if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and not _is_of_transform(tensor)
    )
    for tensor, symbolic in zip(examples, shapes, strict=True):
        if symbolic is not None or not isinstance(tensor, torch.Tensor) or not _is_plain(tensor):
            continue
        if owners[tensor.untyped_storage()._cdata] == 1 and memo._get_memo(tensor) is None:
            fake = bare_fake(mode, tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad)
            if type(tensor) is torch.nn.Parameter:
                fake.__dict__["_is_param"] = True
            memo.set_tensor_memo(tensor, fake)
            held.append(fake)


def fake_input(record: Any, position: int, example: Any) -> Any:
    if not isinstance(example, torch.Tensor):
        return example
    mode = mode_of(record)
    context = TracingContext.try_get()
    symbolic = context.tensor_to_context.get(example) if context is not None and context.fake_mode is mode else None
    if symbolic is not None:
        with torch._C.DisableTorchFunctionSubclass():
            return mode.from_tensor(example, symbolic_context=symbolic, source=symbolic.tensor_source)
    if "_stator_inputs" not in mode.__dict__:
        fake_plain_inputs(record)
    with torch._C.DisableTorchFunctionSubclass():
        return mode.from_tensor(example, static_shapes=True)


def graph_arg(record: Any, position: int, example: Any) -> GraphArg:
    if record.sources is None:
        record.sources = _fx.sources_of(record)
    return GraphArg(record.sources[position], example, fake_input(record, position, example))


def tensor_dict(is_static: bool, example: Any) -> dict[str, Any]:
    own = getattr(example, "__dict__", {})
    marks = {key: own[key] for key in ("_dynamo_static_input_type", "tag") if key in own}
    if is_static:
        # Memory of parameters and buffers stays in place, so CUDA graphs need no copy of it.
        marks.setdefault("_dynamo_static_input_type", "unguarded")
    return marks


def frame_text(filename: str, line: int, function: str) -> str:
    """One frame of a stack trace. torch's own modules are left out: the user's line is what counts."""
    if filename.startswith(_NN_MODULES):
        return ""
    text = f'  File "{filename}", line {line}, in {function}\n'
    source = linecache.getline(filename, line).strip()
    return f"{text}    {source}\n" if source else text


# ---- which sizes of an input are symbols, as ShapeEnv is told it


def input_context(example: torch.Tensor, source: _fx.InputSource, number: Any, like: torch.Tensor | None = None) -> Any:
    """Of a tensor and of what it is made of. number: the DimDynamic of sizes that are numbers, in `like` if it is
    given: the tensor's fake in the trace. Others (also of nested tensors) are dynamic."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatefulSymbolicContext

    from stator import _torch_versions

    def of_part(part: torch.Tensor, name: str, number: Any, like: torch.Tensor | None) -> Any:
        return input_context(part, _fx.InputSource(f"{source.name}.{name}", source.position), number, like)

    told = example if like is None else like
    parts: dict[str, Any] = {
        "dynamic_sizes": [DimDynamic.DYNAMIC if isinstance(size, torch.SymInt) else number for size in told.shape],
        "constraint_sizes": [None] * told.dim(),
        "tensor_source": source,
    }
    if not is_traceable_wrapper_subclass(told):
        return StatefulSymbolicContext(**parts)
    if example._is_view():
        base = example._base
        base_like = None if like is None else _inner_like(like, example, base)
        # A view whose sizes are symbols is made of a base whose sizes are.
        unknown = like is not None and base_like is None
        parts["view_base_context"] = of_part(base, "_base", DimDynamic.DYNAMIC if unknown else number, base_like)
    inner = {
        name: of_part(getattr(example, name), name, number, None if like is None else value)
        for name in told.__tensor_flatten__()[0]
        if isinstance(value := getattr(told, name), torch.Tensor)
    }
    ragged = any(isinstance(size, torch.SymInt) and size.node.is_nested_int() for size in told.shape)
    return _torch_versions.subclass_context(parts, inner, tracks_outer=not ragged)


def _inner_like(fake: Any, example: torch.Tensor, base: torch.Tensor) -> torch.Tensor | None:
    """The fake of the inner tensor that has the base's memory and sizes: a nested tensor is a view of its values."""
    if hasattr(base, "__tensor_flatten__"):
        return None
    for name in fake.__tensor_flatten__()[0]:
        real, inner = getattr(example, name), getattr(fake, name)
        plain = isinstance(real, torch.Tensor) and not hasattr(real, "__tensor_flatten__")
        if plain and real.shape == base.shape and real.stride() == base.stride() and real.data_ptr() == base.data_ptr():
            return inner
    return None
