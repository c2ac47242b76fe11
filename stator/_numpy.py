"""NumPy in captured code. A node of the graph calls NumPy itself on arrays that share the tensors' memory, so that what
comes out is NumPy's to the bit; a backend that traces the graph on tensors of its own gets torch's version of the
function (torch._numpy) instead."""

from __future__ import annotations

import functools
import itertools
import operator
import warnings
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

# Marks in the description of a call's arguments (polyfills/arrays.py).
ARRAY, TENSOR, LIST, TUPLE, DICT, SLICE = "\0array", "\0tensor", "\0list", "\0tuple", "\0dict", "\0slice"

# Facts of an array that do not depend on its elements.
_FACTS = ("attr:shape", "attr:ndim", "attr:size", "attr:dtype", "attr:itemsize", "attr:nbytes", "attr:strides", "np:ndim",
          "np:shape", "np:size", "np:result_type", "np:can_cast", "np:isscalar", "np:iscomplexobj", "np:isrealobj", "np:broadcast_shapes")  # fmt: skip


# They look at more than their arguments, or change states of NumPy's.
OUTSIDE = frozenset(
    [
        "seterr",
        "geterr",
        "setbufsize",
        "getbufsize",
        "seterrcall",
        "geterrcall",
        "set_printoptions",
        "get_printoptions",
        "printoptions",
        "errstate",
        "info",
        "show_config",
        "show_runtime",
        "load",
        "save",
        "savez",
        "savez_compressed",
        "loadtxt",
        "savetxt",
        "genfromtxt",
        "fromfile",
        "fromregex",
        "memmap",
        "test",
        "get_include",
        "nditer",
        "frombuffer",
        "fromiter",
        "fromfunction",
        "fromstring",
        "vectorize",
        "frompyfunc",
        "apply_along_axis",
        "apply_over_axes",
        "piecewise",
        "may_share_memory",
        "shares_memory",
        "array_repr",
        "array_str",
        "array2string",
        "base_repr",
        "binary_repr",
        "format_float_positional",
        "format_float_scientific",
    ]
)


def as_input(array: np.ndarray) -> Any:
    """The tensor with the array's memory (of a single number: with its value); None: there is none such."""
    if isinstance(array, np.generic):
        array = np.asarray(array)
    if not array.flags.writeable or array.dtype.hasobject or not array.dtype.isnative:
        return None
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError):
        return None


def _resolve(path: str) -> Any:
    kind, _, name = path.partition(":")
    if kind == "np":
        return functools.reduce(getattr, name.split("."), np)
    if kind == "op":
        return getattr(operator, name)
    if kind == "method":
        return lambda array, *args, **kwargs: getattr(array, name)(*args, **kwargs)
    return lambda array: getattr(array, name)


# ---- what comes out, from a run on arrays of the same kind


def _sample(places: bool, shape: tuple[int, ...], dtype: torch.dtype, scalar: str | None, frozen: bool = False) -> Any:
    size = int(np.prod(shape, dtype=np.int64))
    kind = torch.empty(0, dtype=dtype).numpy().dtype
    values = (np.arange(size) * 7 + 3) % 11 + 1
    if kind.kind in "fc":
        values = np.sqrt(values) + np.arange(size) % 3
    elif places:
        values = values * 0
    array = values.astype(kind).reshape(shape)
    if frozen:
        array = freeze(array.copy())
    return array[()] if scalar is not None else array


def _build(spec: Any, places: bool) -> Any:
    """`places`: whole numbers are places in others, and have to be small."""
    if type(spec) is not tuple or not spec or not isinstance(spec[0], str) or not spec[0].startswith("\0"):
        return spec
    mark, *rest = spec
    if mark == ARRAY:
        return _sample(places, *rest)
    if mark == TENSOR:
        return torch.from_numpy(_sample(places, rest[0], rest[1], None))
    if mark == SLICE:
        return slice(*rest)
    items = [_build(item, places) for item in rest]
    if mark == DICT:
        return dict(zip(items[::2], items[1::2], strict=True))
    return items if mark == LIST else tuple(items)


def _kind(result: Any, args: Any) -> Any:
    if isinstance(result, np.generic):
        if torch.from_numpy(np.asarray(result)).numpy().dtype != result.dtype:
            raise TypeError
        return "scalar", type(result).__name__, (), (), torch.from_numpy(np.asarray(result)).dtype
    if type(result) is np.ndarray:
        if args and result is args[0]:
            return ("same",)
        frozen = not result.flags.writeable
        if frozen and result.base is not None and result.base.flags.writeable:
            raise TypeError  # a view of what others may write to
        tensor = as_input(result.copy("K") if frozen else result)
        if tensor is None:
            raise TypeError
        return "frozen" if frozen else "array", None, tuple(tensor.shape), tensor.stride(), tensor.dtype
    if type(result) is torch.Tensor:
        return "tensor", None, tuple(result.shape), result.stride(), result.dtype
    if type(result) in (tuple, list) and result:
        return type(result).__name__, tuple(_kind(item, ()) for item in result)
    raise TypeError


def _has_arrays(spec: Any) -> bool:
    return (
        type(spec) is tuple
        and bool(spec)
        and ((isinstance(spec[0], str) and spec[0] in (ARRAY, TENSOR)) or any(_has_arrays(item) for item in spec))
    )


def kinds(path: str, spec: Any) -> Any:
    """What the call gives: ("constant", value), ("none",), ("same",), ("out",), ("array", "frozen", "tensor" or
    "scalar", type, sizes, strides, dtype), or ("tuple" or "list", kinds). None: it is left to NumPy."""
    try:
        return _kinds(path, spec, False)
    except IndexError:
        return _kinds(path, spec, True)


def _kinds(path: str, spec: Any, places: bool) -> Any:
    try:
        args, kwargs = _build(spec, places)
        with warnings.catch_warnings(record=True) as given, np.errstate(all="ignore"):
            warnings.simplefilter("always")
            result = _resolve(path)(*args, **kwargs)
            if any(issubclass(warning.category, DeprecationWarning) for warning in given):
                return None  # which names the line of the program
            if path in _FACTS or (isinstance(result, np.generic) and not _has_arrays(spec)):
                return "constant", result
            if result is None:
                return ("none",)
            if type(result) in (bool, int, float, str) and not _has_arrays(spec):
                return "constant", result
            out = kwargs.get("out")
            if out is not None and result is (out[0] if type(out) is tuple and len(out) == 1 else out):
                return ("out",)
            return _kind(result, args)
    except Exception as error:
        if isinstance(error, IndexError) and not places:
            raise
        return None


def dtype_argument(dtype: np.dtype) -> Any:
    """One that a graph can have as an argument, where there is one."""
    return dtype.type if dtype == np.dtype(dtype.type) else dtype


def warn_of_frozen() -> None:
    """torch's own warning about a tensor that shares a read-only array's memory. It is given once."""
    array = np.zeros(1)
    array.flags.writeable = False
    torch.from_numpy(array)


def freeze(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


# ---- the node of the graph


def _map(function: Any, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([_map(function, item) for item in value])
    if isinstance(value, dict):
        return {key: _map(function, item) for key, item in value.items()}
    return function(value)


def _is_traced(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_is_traced(item) for item in value)
    if isinstance(value, dict):
        return _is_traced(list(value.values()))
    return isinstance(value, torch.Tensor) and type(value) not in (torch.Tensor, torch.nn.Parameter)


def _array(value: Any) -> Any:
    return value.numpy() if isinstance(value, torch.Tensor) else value


def _tensor(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        return value
    return torch.from_numpy(value if value.flags.writeable else value.copy("K"))


def _torch_array(value: Any) -> Any:
    import torch._numpy as tnp

    if isinstance(value, torch.Tensor):
        return tnp.ndarray(value)
    if isinstance(value, np.float64):  # which tnp takes for one of Python's, and does not know
        return tnp.ndarray(torch.tensor(float(value), dtype=torch.float64))
    if isinstance(value, np.dtype):
        return tnp.dtype(value.name)
    if isinstance(value, type) and issubclass(value, np.generic):
        return getattr(tnp, value.__name__)
    return value


def _floating(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and not value.dtype.is_complex:
        return value.to(torch.float64)
    return value


def _through_torch(path: str, args: Any, kwargs: Any) -> Any:
    import torch._numpy as tnp

    kind, _, name = path.partition(":")
    target: Any = functools.reduce(getattr, name.split("."), tnp) if kind == "np" else _resolve(path)
    if name in ("truediv", "true_divide", "divide"):
        args = _map(_floating, args)  # NumPy divides ints as doubles
    if name in ("array", "asarray", "asanyarray", "ascontiguousarray") and args:
        args = (_stacked(args[0]), *args[1:])  # tnp would read the numbers
    result = target(*_map(_torch_array, args), **_map(_torch_array, kwargs))
    return _map(lambda item: item.tensor if isinstance(item, tnp.ndarray) else item, result)


def _stacked(value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or not value:
        return value
    parts = [_stacked(item) for item in value]
    if not all(isinstance(part, torch.Tensor) and part.shape == parts[0].shape for part in parts):
        return value
    dtype = functools.reduce(torch.promote_types, [part.dtype for part in parts])
    return torch.stack([part.to(dtype) for part in parts])


def apply(path: str, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: tuple[int, ...] = ()) -> Any:
    """`tensors`: which of the tensors among the arguments, counted in their order, are the program's own. The others
    stand for arrays."""
    if _get_current_dispatch_mode() is not None or _is_traced(args) or _is_traced(kwargs):
        return _through_torch(path, args, kwargs)
    seen = itertools.count()

    def given(value: Any) -> Any:
        return value if isinstance(value, torch.Tensor) and next(seen) in tensors else _array(value)

    return _map(_tensor, _resolve(path)(*_map(given, args), **_map(given, kwargs)))
