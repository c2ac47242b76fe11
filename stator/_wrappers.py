"""Tensors whose class has its own `__torch_dispatch__` and can be taken apart with `__tensor_flatten__` (wrapper
subclasses).

The tracer knows such a tensor by a fake instance of its class, made of FakeTensors; operations are asked by running
them on it once. src/interpret/tensors/wrapper_tensors.cpp calls what is here.
"""

import copy
import functools
import inspect

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConverter
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type
from torch.utils._pytree import tree_map_only

from stator import _core, _fake, exc


class Fakes:
    """Fake instances for the tensors of one trace. They follow what the traced operations do, so no other trace may see
    them."""

    def __init__(self, symbolic, data_sizes):
        """`data_sizes`: what depends on data may be a symbol, whatever the settings say."""
        self.env = None
        self.mode = _fake.mode()
        if symbolic:
            from stator import _symbols

            self.env = _symbols.for_one_run([], [], data_sizes)
            self.mode = self.env.mode
            self.mode._stator_env = self.env
            self.mode.create_symbolic_nested_int = _fake.ragged_size
        self._converter = FakeTensorConverter()
        self._made = {}  # id of a real tensor: the tensor, its fake

    def of(self, real):
        if id(real) in self._made:
            return self._made[id(real)][1]
        with torch.inference_mode(False):
            return _of_class(self._converter.from_real_tensor(self.mode, real), type(real))

    def made(self, sizes, strides, dtype, device):
        """Of a plain tensor that the graph makes; sizes and strides are numbers or texts."""
        with torch.inference_mode(False), torch.no_grad():
            elem = torch.empty_strided(self._values(sizes), self._values(strides), dtype=dtype, device="meta")
            return FakeTensor(self.mode, elem, device)

    def extend(self, symbols):
        """The capture's symbols so far: the value of each, or the ends between which it lies."""
        from stator import _symbols

        _symbols.extend(self.env, symbols)

    def symbolic(self, real, parts):
        """Of sizes with symbols: ((sizes, strides) or None, {name: the same of an inner tensor} or None)."""
        if id(real) in self._made:
            return self._made[id(real)][1]
        shape, inner = parts
        with torch.inference_mode(False), torch.no_grad():
            made = self._plain(real, shape) if inner is None else self._wrapper(real, shape, inner)
            fake = _of_class(made, type(real))
        if real.requires_grad and not fake.requires_grad:
            fake.requires_grad_()
        if getattr(real, "_is_param", False):
            fake._is_param = True
        self._made[id(real)] = real, fake
        return fake

    def _values(self, sizes):
        return tuple(self.env.value(size) if isinstance(size, str) else size for size in sizes)

    def _ragged(self, sizes):
        return tuple(
            _fake.ragged_size(nt_tensor_id=size.node.nested_int()) if _fake._is_ragged(size) else size for size in sizes
        )

    def _plain(self, real, shape):
        sizes, strides = map(self._values, shape)
        return FakeTensor(self.mode, torch.empty_strided(sizes, strides, dtype=real.dtype, device="meta"), real.device)

    def _wrapper(self, real, shape, inner):
        metadata = real.__tensor_flatten__()[1]
        tensors = {name: self.symbolic(getattr(real, name), part) for name, part in inner.items()}
        others = (name for name in real.__tensor_flatten__()[0] if name not in tensors)
        tensors.update((name, getattr(real, name)) for name in others)
        sizes, strides = map(self._ragged, (real.shape, real.stride())) if shape is None else map(self._values, shape)
        with self.mode:
            return type(real).__tensor_unflatten__(tensors, metadata, sizes, strides)


def _of_class(fake, kind):
    """A class may inherit a __tensor_unflatten__ that makes instances of the class it stands in; operations are for its
    own methods to decide."""
    made = type(fake)
    if made is not kind and hasattr(made, "__tensor_flatten__") and issubclass(kind, made):
        fake.__class__ = kind
    return fake


def is_wrapper_type(kind):
    return is_traceable_wrapper_subclass_type(kind)


class _Any:
    """Equal to everything: a symbolic int in metadata is not compared."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other):
        return True


class _Check:
    """Whether a tensor consists of what the captured one consisted of. The inner tensors have guards of their own."""

    def __init__(self, real, names, metadata, outer, open_sizes):
        self.kind = type(real)
        self.names = names
        # A DTensor's sizes are compared as the tensor's own, where they may be symbols.
        known = self.kind.__module__.startswith("torch.distributed.tensor")
        open_types = (torch.SymInt, torch.Size) if open_sizes and known else torch.SymInt
        self.metadata = copy.deepcopy(
            tree_map_only(open_types, lambda _: _Any(), metadata, is_leaf=lambda part: isinstance(part, torch.Size))
        )
        self.others = {
            name: value for name in names if not isinstance(value := getattr(real, name), torch.Tensor)
        }  # processes' meshes and their like: compared, never copied
        self.outer = outer
        self.own_guard = getattr(self.kind, "__metadata_guard__", None)

    def __call__(self, seen):
        with torch._C.DisableTorchFunctionSubclass():
            return self._compare(seen)

    def _compare(self, seen):
        if type(seen) is not self.kind:
            return f"a {type(seen).__name__}"
        names, metadata = seen.__tensor_flatten__()
        if list(names) != self.names:
            return f"made of {', '.join(names)}"
        same = self.own_guard(self.metadata, metadata) if self.own_guard is not None else metadata == self.metadata
        if not same:
            return f"with metadata {metadata!r}"
        for name, value in self.others.items():
            now = getattr(seen, name)
            if now is not value and now != value:
                return f"with {name} {now!r}"
        if self.outer is not None and _outer_facts(seen) != self.outer:
            return "with other sizes, dtype or device"
        return True


def _outer_facts(tensor):
    return tensor.dim(), tensor.dtype, tensor.device, tensor.requires_grad


def _has_plain_sizes(tensor):
    return not any(isinstance(size, torch.SymInt) for size in (*tensor.shape, *tensor.stride()))


def describe(real, open_sizes):
    """(names of the inner tensors, check of all else, whether outer sizes are numbers, name of the tensor that ragged
    sizes come from); a text: why it cannot be captured."""
    if not is_traceable_wrapper_subclass(real):
        return "has __torch_dispatch__, but no __tensor_flatten__"
    names, metadata = real.__tensor_flatten__()
    plain = _has_plain_sizes(real)
    _check_guard_method(type(real))
    check = _Check(real, list(names), metadata, None if plain else _outer_facts(real), open_sizes and plain)
    if check(real) is not True:
        return "has metadata that does not equal a copy of itself"
    tensors = tuple(name for name in names if name not in check.others)
    ragged = None if plain else next((name for name in tensors if name == "_lengths"), "_offsets")
    return tensors, _core.CompiledFunction(check, None), plain, next((name for name in tensors if name == ragged), None)


def _check_guard_method(kind):
    """__metadata_guard__(cls, captured, seen) has no other form."""
    method = inspect.getattr_static(kind, "__metadata_guard__", None)
    if method is None:
        return
    said = "Tensor subclass method __metadata_guard__ must"
    if not isinstance(method, classmethod):
        raise exc.InternalError(f"{said} be a classmethod")
    if len(inspect.signature(kind.__metadata_guard__).parameters) != 2:
        raise exc.InternalError(f"{said} take exactly two subclass metadata arguments")


@functools.cache  # what captures saw of it is known by this object
def getter(name):
    """Reads an attribute that is no entry of the instance's dict."""

    def read(tensor):
        return getattr(tensor, name)

    read.__name__ = name
    return _core.CompiledFunction(read, None)


def equals(value):
    """A check whether something is of the same class and equal."""
    return _core.CompiledFunction(lambda seen: type(seen) is type(value) and bool(seen == value), None)


def bound(function, rest, named):
    """function(tensor, *rest, **named) of the tensor alone, for nodes of graphs: meshes and placements are no arguments
    there."""

    def call(tensor):
        return function(tensor, *rest, **named)

    call.__name__ = call.__qualname__ = f"prim_{function.__name__}"
    return call


def filled(function, constants):
    """function with these arguments, by position or name, in their places, for nodes of graphs."""
    positions = sorted(key for key in constants if isinstance(key, int))
    named = {key: value for key, value in constants.items() if isinstance(key, str)}

    def call(*args, **kwargs):
        values = list(args)
        for position in positions:
            values.insert(position, constants[position])
        return function(*values, **kwargs, **named)

    call.__name__ = call.__qualname__ = function.__name__
    return call


def ragged_reader(fake, size):
    """What reads this ragged size from the real tensor that `fake` stands for; None: it has another."""
    from torch.nested._internal.nested_tensor import get_tensor_symint

    if isinstance(fake, torch.SymInt) or size.node.nested_int_coeff() != 1:
        return None
    if not isinstance(fake, FakeTensor):
        place = next((i for i, own in enumerate(fake.shape) if _same_ragged(own, size)), None)
        return None if place is None else _core.CompiledFunction(lambda tensor: tensor.shape[place], None)
    if _same_ragged(fake.nested_int_memo, size):
        return _core.CompiledFunction(lambda tensor: get_tensor_symint(tensor, coeff=1), None)
    return None


def _same_ragged(own, size):
    return (
        _fake._is_ragged(own) and own.node.nested_int() == size.node.nested_int() and own.node.nested_int_coeff() == 1
    )


# ---- fakes for node.meta


def moved(fake, mode, plain):
    """The same facts in another mode; `plain` makes a plain fake of them."""
    if isinstance(fake, torch.SymInt):
        return fake  # a ragged size, which is equal to itself alone
    env = getattr(_fake._mode_of(fake), "_stator_env", None)

    def sizes(of):
        if env is None:
            return of
        texts = ((size, size) if _fake._is_ragged(size) else (size, env._text(size)) for size in of)
        return tuple(mode._stator_symbols.value(text) if isinstance(text, str) else size for size, text in texts)

    if isinstance(fake, FakeTensor):
        return plain(mode, sizes(fake.shape), sizes(fake.stride()), fake.dtype, fake.device, fake.requires_grad)
    names, metadata = fake.__tensor_flatten__()
    inner = {
        name: moved(value, mode, plain) if isinstance(value := getattr(fake, name), torch.Tensor) else value
        for name in names
    }
    with mode, torch.no_grad():
        made = type(fake).__tensor_unflatten__(inner, metadata, sizes(fake.shape), sizes(fake.stride()))
    if fake.requires_grad and not made.requires_grad:
        made.requires_grad_()
    return made
