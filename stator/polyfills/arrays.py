"""NumPy arrays as traces have them: a tensor with the array's memory, and operations on it as nodes of the graph. A
frame of this file is never left half way: a break is at the instruction of the program that led here
(src/interpret/tensors/arrays.cpp)."""

import functools
import operator

import numpy
import torch

from stator import _numpy

from .subgraphs import call, refuse


def make(tensor, scalar, frozen=False):
    """An Array; `scalar`: the name of NumPy's type for a single number, or None; `frozen`: read-only."""
    raise RuntimeError("only for captured code")


def _described(value):
    if type(value) is Array:
        return _numpy.ARRAY, tuple(value._tensor.shape), value._tensor.dtype, value._scalar, value._frozen
    if type(value) is tuple:
        return (_numpy.TUPLE, *[_described(item) for item in value])
    if type(value) is list:
        return (_numpy.LIST, *[_described(item) for item in value])
    if type(value) is dict:
        described = [_numpy.DICT]
        for key, item in value.items():
            described += [key, _described(item)]
        return tuple(described)
    if type(value) is slice:
        return _numpy.SLICE, value.start, value.stop, value.step
    if isinstance(value, torch.Tensor):
        _check_has_array(value)
        if type(value) is not torch.Tensor:
            refuse("a function of NumPy's that gets a tensor of this class")
        return _numpy.TENSOR, tuple(value.shape), value.dtype
    return value


def _lowered(value, own):
    """`own`: is told of each tensor whether the program has it as one; None: it is a single number."""
    if type(value) is Array:
        own.append(False if value._scalar is None else None)
        return value._tensor
    if type(value) is tuple:
        return tuple([_lowered(item, own) for item in value])
    if type(value) is list:
        return [_lowered(item, own) for item in value]
    if type(value) is dict:
        return {key: _lowered(item, own) for key, item in value.items()}
    if isinstance(value, torch.Tensor):
        own.append(True)
    if isinstance(value, numpy.dtype):
        return _numpy.dtype_argument(value)
    return value


def _strides(tensor):
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size != 1]


def _raised(result, kind):
    word = kind[0]
    if word == "tuple" or word == "list":
        items = [_raised(item, own) for item, own in zip(result, kind[1])]
        return items if word == "list" else tuple(items)
    sizes, strides, dtype = kind[2:]
    if tuple(result.shape) != sizes or result.dtype != dtype:
        refuse("a function of NumPy's that torch has otherwise")
    if _strides(result) != [stride for size, stride in zip(sizes, strides) if size != 1]:
        refuse("a function of NumPy's whose result lies otherwise in memory")
    if word == "tensor":
        return result
    return make(result, kind[1], word == "frozen")


def _run(path, args, kwargs):
    kind = _numpy.kinds(path, (_numpy.TUPLE, _described(args), _described(kwargs)))
    if kind is None:
        refuse("NumPy: " + path)
    if kind[0] == "constant":
        return kind[1]
    own = []
    lowered, keywords = _lowered(args, own), _lowered(kwargs, own)
    if True in own:
        if None in own:
            refuse("a tensor and a single number of NumPy's")
        tensors = tuple([i for i, whether in enumerate(own) if whether])
        result = call(_numpy.apply, path, lowered, keywords, tensors)
    else:
        result = call(_numpy.apply, path, lowered, keywords)
    if kind[0] == "none":
        return None
    if kind[0] == "same":
        return args[0]
    if kind[0] == "out":
        return kwargs["out"][0] if type(kwargs["out"]) is tuple else kwargs["out"]
    return _raised(result, kind)


def function(path, *args, **kwargs):
    return _run(path, args, kwargs)


def standing_for(path):
    """What a trace calls in place of a function of NumPy's ("np:linalg.norm"); None: it stays outside."""
    return None if path.replace(":", ".").rpartition(".")[2] in _numpy.OUTSIDE else functools.partial(function, path)


def _check_has_array(tensor):
    if tensor.requires_grad or tensor.device.type != "cpu" or tensor.dtype == torch.bfloat16 or tensor.is_sparse:
        refuse("numpy() of this tensor")
    if tensor.is_conj() or tensor.is_neg() or tensor.numel() == 0:  # arrays without elements have strides of their own
        refuse("numpy() of this tensor")


def numpy_of(tensor, *, force=False):
    """Tensor.numpy()"""
    if force:
        tensor = tensor.detach()
    _check_has_array(tensor)
    return make(tensor, None)


def from_numpy(array):
    if type(array) is not Array or array._scalar is not None:
        refuse("from_numpy of what is no array")
    if array._frozen:
        _numpy.warn_of_frozen()
    return array._tensor.detach()


def _part(item):
    """An array, or a single number of NumPy's, as a tensor."""
    return item._tensor.detach() if type(item) is Array and item._scalar is not None else from_numpy(item)


def as_tensor(data, dtype=None, device=None):
    tensor = from_numpy(data)
    return tensor if dtype is None and device is None else tensor.to(device, dtype)


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    if requires_grad or pin_memory:
        refuse("torch.tensor of arrays, with these options")
    if type(data) is list or type(data) is tuple:
        parts = [_part(item) for item in data]
        for part in parts:
            if dtype is None and part.dtype is not parts[0].dtype:
                refuse("torch.tensor of numbers of several types")
            whole = dtype is None or dtype.is_floating_point or dtype is part.dtype
            if not whole and (part.is_floating_point() or part.dtype is torch.bool):
                refuse("torch.tensor of numbers that are no whole ones")
        made = torch.stack(parts)
    elif type(data) is Array and data._scalar is not None:
        made = data._tensor.detach().clone()
    else:
        made = from_numpy(data).clone()
    return made if dtype is None and device is None else made.to(device, dtype)


def _number(array):
    """A single number of NumPy's as a tensor's operators take it: for Python's."""
    if array._tensor.is_complex():
        refuse("a tensor and a complex number of NumPy's")
    return array._tensor.item()


def _fact(name):
    def read(self):
        return _run("attr:" + name, (self,), {})

    return property(read)


def _method(name):
    def method(self, *args, **kwargs):
        return _run("method:" + name, (self, *args), kwargs)

    method.__name__ = name  # at an exit it is looked up on the real array
    return method


def _operator(name):
    with_tensor = getattr(operator, name)

    def forward(self, other):
        if isinstance(other, torch.Tensor) and self._scalar is not None:
            return with_tensor(_number(self), other)
        return _run("op:" + name, (self, other), {})

    return forward


def _reflected(name):
    with_tensor = getattr(operator, name)

    def backward(self, other):
        if isinstance(other, torch.Tensor) and self._scalar is not None:
            return with_tensor(other, _number(self))
        return _run("op:" + name, (other, self), {})

    return backward


def _in_place(name):
    def change(self, other):
        if self._scalar is not None or isinstance(other, torch.Tensor):  # a tensor's operators come before an array's
            return _run("op:" + name, (self, other), {})
        _run("op:i" + name.rstrip("_"), (self, other), {})
        return self

    return change


class Array:
    __hash__ = None  # type: ignore[assignment]

    shape, ndim, size, dtype = _fact("shape"), _fact("ndim"), _fact("size"), _fact("dtype")
    itemsize, nbytes, strides = _fact("itemsize"), _fact("nbytes"), _fact("strides")
    T, real, imag = _fact("T"), _fact("real"), _fact("imag")

    def __getattr__(self, name):
        refuse("the attribute " + name + " of an array")

    def __len__(self):
        sizes = self._tensor.shape
        if len(sizes) == 0:
            refuse("the length of a single number")
        return sizes[0]

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, index):
        return _run("op:getitem", (self, index), {})

    def __setitem__(self, index, value):
        _run("op:setitem", (self, index, value), {})

    def tolist(self):
        return self._tensor.item() if self._scalar is not None else self._tensor.tolist()

    def item(self, *index):
        if index:
            refuse("item() of an array, with a place")
        return self._tensor.item()

    def __neg__(self):
        return _run("op:neg", (self,), {})

    def __pos__(self):
        return _run("op:pos", (self,), {})

    def __abs__(self):
        return _run("op:abs", (self,), {})

    def __invert__(self):
        return _run("op:invert", (self,), {})

    def __bool__(self):
        refuse("the truth of an array")

    def __int__(self):
        refuse("reads a number from an array")

    def __float__(self):
        refuse("reads a number from an array")

    def __index__(self):
        refuse("reads a number from an array")

    def __contains__(self, item):
        refuse("`in` an array")

    def __repr__(self):
        refuse("the text of an array")

    def __format__(self, how):
        refuse("the text of an array")


for _name, _word in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "truediv"), ("floordiv", "floordiv"), ("mod", "mod"),
                     ("pow", "pow"), ("matmul", "matmul"), ("and", "and_"), ("or", "or_"), ("xor", "xor"), ("lshift", "lshift"),
                     ("rshift", "rshift")):  # fmt: skip
    setattr(Array, f"__{_name}__", _operator(_word))
    setattr(Array, f"__r{_name}__", _reflected(_word))
    setattr(Array, f"__i{_name}__", _in_place(_word))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Array, f"__{_name}__", _operator(_name))
for _name in (
    "all any argmax argmin argsort astype clip conj conjugate copy cumprod cumsum diagonal dot fill flatten max mean min prod ravel repeat "
    "reshape round searchsorted sort squeeze std sum swapaxes take trace transpose var"
).split():
    setattr(Array, _name, _method(_name))
