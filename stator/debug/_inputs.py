"""Inputs of a repro: saved by content, described in a script, built again exactly.

A script has a function `inputs(load)`, whose lines are written here (`write`). What it calls of `load` gives
descriptions of values (`recorded`), of which a Loader makes the values. What is saved are raw bytes of storages, as
uint8 tensors in files named by their SHA-256: one file for equal contents, read with weights_only=True and compared
with its name, so that nothing damaged or foreign is taken for an input.
"""

import contextlib
import dataclasses
import hashlib
import os
import pkgutil
import re
import threading
import types
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

from stator.debug import _models, _text
from stator.debug._program import ScriptError


class InputsError(ScriptError):
    """Inputs that cannot be written or read; the message says which and why."""


# ---- descriptions


class Description:
    """A call of `load` in a script, with the fields as its arguments; those that are as by default are not written."""

    def text(self, spell):
        """The expression in a script; spell(description) gives that of a part."""
        given = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.default is dataclasses.MISSING and not field.kw_only:
                given.append(literal(value, spell))
            elif value != field.default:
                given.append(f"{field.name}={literal(value, spell)}")
        return f"load.{self.method}({', '.join(given)})"


@dataclasses.dataclass
class SavedStorage(Description):
    method = "storage"
    digest: str
    nbytes: int
    device: str = "cpu"


@dataclasses.dataclass(kw_only=True)
class RandomStorage(Description):
    method = "random"
    seed: int
    dtype: torch.dtype
    count: int
    low: float
    high: float
    device: str = "cpu"


@dataclasses.dataclass
class TensorSpec(Description):
    method = "tensor"
    storage: Any
    shape: tuple
    stride: tuple
    dtype: torch.dtype
    offset: int = 0
    requires_grad: bool = False
    parameter: bool = False
    leaf: bool = True
    conj: bool = False
    neg: bool = False
    sizes: tuple | None = None  # with names in the places of sizes that the compiler must not rely on


@dataclasses.dataclass
class CallSpec(Description):
    """A tensor that a function makes of others: sparse, nested, quantized, or a subclass that can be taken apart."""

    method = "call"
    function: str  # module:name
    arguments: tuple
    requires_grad: bool = False


@dataclasses.dataclass
class SymbolSpec(Description):
    """An int that the compiler must not rely on."""

    method = "symbol"
    value: int
    symbol: str


def literal(value, spell=lambda value: None):
    """The expression of a value. spell(part) gives that of what is in it and is no constant."""

    def spelled(part):
        text = _text.constant(part) or spell(part)
        if text is None:
            raise InputsError(f"a value of type {type(part).__name__} cannot be written in a script")
        return text

    return _text.Specimen.literal(value, spelled)


# ---- saving


def write_file(path, data):
    """Whole or not at all, and on the disk: nothing that was there is touched before the new file is complete. data:
    bytes, or a function of the open file."""
    folder, name = os.path.split(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    unfinished = os.path.join(folder, f".writing-{os.getpid()}-{threading.get_ident()}-{name}")
    try:
        with open(unfinished, "wb") as file:
            data(file) if callable(data) else file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
    names = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(names)
    finally:
        os.close(names)


def digest_of(data):
    return hashlib.sha256(data.numpy()).hexdigest()[:40]


class Store:
    """A folder of storages."""

    def __init__(self, folder):
        self.folder = folder
        self.made = []  # files that were not there
        self.known = WeakTensorKeyDictionary()  # (version, digest): parameters are hashed once, not at every call

    def path(self, digest):
        return os.path.join(self.folder, digest + ".pt")

    def save(self, data):
        """Bytes as a uint8 tensor on the CPU; gives their digest."""
        digest = digest_of(data)
        path = self.path(digest)
        if not os.path.exists(path):
            write_file(path, lambda file: torch.save(data, file))
            self.made.append(path)
        return digest

    def save_storage(self, tensor):
        with torch.inference_mode(False):
            version = None if tensor.is_inference() else tensor._version
        known, digest = self.known.get(tensor, (None, None))
        if known is None or known != version:
            digest = self.save(_models.whole_storage(tensor, torch.uint8).cpu())
            self.known[tensor] = version, digest
        return digest


def random_state(store):
    """Random state as a digest for each device."""
    made = {"cpu": store.save(torch.get_rng_state())}
    if torch.cuda.is_initialized():
        for i, state in enumerate(torch.cuda.get_rng_state_all()):
            made[f"cuda:{i}"] = store.save(state)
    return made


# ---- from values to descriptions


class Describer:
    """Descriptions of values. Storages are shared by what shares them."""

    def __init__(self, store):
        self.store = store
        self.storages = {}
        self.seeds = 0

    def spec(self, value):
        """A description of a tensor; other values, and what is a description already, as they are."""
        if isinstance(value, torch.Tensor):
            with torch.no_grad():
                return self.tensor(value)
        value = _hint(value)
        if not isinstance(value, Description):
            literal(value)  # raises for what no script can hold
        return value

    def tensor(self, value):
        if isinstance(value, torch._subclasses.FakeTensor) or value.device.type == "meta":
            return self.fake(value)
        return self.plain(value) if _models.is_plain(value) else self.in_parts(value)

    def plain(self, value):
        whole = value.untyped_storage()
        storage = SavedStorage(self.store.save_storage(value), whole.nbytes(), str(value.device))
        return TensorSpec(
            self.storages.setdefault(whole._cdata, storage),
            tuple(int(d) for d in value.shape),
            tuple(int(d) for d in value.stride()),
            value.dtype,
            int(value.storage_offset()),
            value.requires_grad,
            isinstance(value, torch.nn.Parameter),
            value.is_leaf,
            value.is_conj(),
            value.is_neg(),
        )

    def fake(self, value):
        """There are no values yet: some that look like them."""
        shape = tuple(_hint(d) for d in value.shape)
        stride = tuple(_hint(d) for d in value.stride())
        offset = _hint(value.storage_offset())
        self.seeds += 1
        integral = not (value.is_floating_point() or value.is_complex())
        low, high = (0, 1) if integral else (-1.0, 1.0)
        count = _reach(offset, shape, stride)
        storage = RandomStorage(
            seed=self.seeds, dtype=value.dtype, count=count, low=low, high=high, device=str(value.device)
        )
        parameter = isinstance(value, torch.nn.Parameter)
        return TensorSpec(storage, shape, stride, value.dtype, offset, value.requires_grad, parameter)

    def in_parts(self, value):
        plain = value.detach()
        if hasattr(value, "__tensor_flatten__"):
            names, context = value.__tensor_flatten__()
            function = f"{type(value).__module__}:{type(value).__qualname__}.__tensor_unflatten__"
            inner = {name: getattr(value, name) for name in names}
            arguments = inner, context, tuple(value.shape), tuple(value.stride())
        elif value.is_quantized and value.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            function = "torch:_make_per_tensor_quantized_tensor"
            arguments = plain.int_repr(), value.q_scale(), value.q_zero_point()
        elif type(value) in (torch.Tensor, torch.nn.Parameter) and not value.is_quantized:
            made, arguments = plain.__reduce_ex__(2)  # sparse, nested: what torch makes a pickle of
            function = f"{made.__module__}:{made.__name__}"
        else:
            raise InputsError(
                f"a tensor of type {type(value).__name__} and layout {value.layout} cannot be written in a script"
            )
        return CallSpec(function, pytree.tree_map(self.spec, arguments), value.requires_grad)


def _reach(offset, shape, stride):
    """How many elements a storage has to have."""
    return offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if all(shape) else offset


def _hint(value):
    """A number in the place of a symbol."""
    if not isinstance(value, torch.types.py_sym_types):
        return value
    return value.node.hint if value.node.has_hint() else 2


def like(spec, value, seed):
    """A random storage with the range of a real tensor: what a repro holds when no particular values are needed."""
    if not isinstance(spec, TensorSpec) or value.numel() == 0:
        return None
    count = value.untyped_storage().nbytes() // value.dtype.itemsize
    low, high = (0, 1) if value.dtype is torch.bool else (-1.0, 1.0)
    small = value.dtype.itemsize == 1 and (value.dtype.is_floating_point or value.dtype is torch.bool)
    if not small and not value.dtype.is_complex:
        with torch.no_grad():
            whole = _models.whole_storage(value, value.dtype)
            if not value.dtype.is_floating_point:
                low, high = int(whole.min()), int(whole.max())
            elif (finite := whole[torch.isfinite(whole)].double()).numel():
                # A few digits are enough to say where values lie, and are easier to read.
                low, high = (float(f"{float(end):.3g}") for end in (finite.min(), finite.max()))
    storage = RandomStorage(seed=seed, dtype=value.dtype, count=count, low=low, high=high, device=str(value.device))
    return dataclasses.replace(spec, storage=storage)


def with_shape(spec, shape):
    """A description that says which sizes are symbols: by names in a tensor's sizes, or a name for an int; None: none
    is."""
    if isinstance(spec, TensorSpec):
        fits = isinstance(shape, tuple) and len(shape) == len(spec.shape)
        known = zip(shape, spec.shape, strict=True) if fits else ()
        sizes = tuple(name if isinstance(name, str) else size for name, size in known)
        return dataclasses.replace(spec, sizes=sizes or None)
    value = spec.value if isinstance(spec, SymbolSpec) else spec
    return SymbolSpec(value, shape) if type(value) is int and isinstance(shape, str) else value


def shape_of(spec):
    return getattr(spec, "sizes", None) or getattr(spec, "symbol", None)


def write(names, specs):
    """The body of `inputs(load)` in a script: what values are made of has names of its own, and comes first."""
    lines, known = [], {}

    def part(spec):
        if not isinstance(spec, Description):
            return None
        if id(spec) not in known:
            text = spec.text(part)
            known[id(spec)] = f"S{len(known) + 1}"
            lines.append(f"{known[id(spec)]} = {text}")
        return known[id(spec)]

    for name, spec in zip(names, specs, strict=True):
        lines.append(f"{name} = {spec.text(part) if isinstance(spec, Description) else literal(spec)}")
    lines.append(f"return [{', '.join(names)}]")
    return "".join(f"    {line}\n" for line in lines)


# ---- from a script to values

_KINDS = (SavedStorage, RandomStorage, TensorSpec, CallSpec, SymbolSpec)


def recorded(inputs):
    """The descriptions that a script's function `inputs` gives."""
    return inputs(types.SimpleNamespace(**{kind.method: kind for kind in _KINDS}))


_FRAME = 1 << 16  # what a file of torch.save holds beside the values, at most


class Loader:
    """Makes the values that descriptions tell of."""

    def __init__(self, folder):
        self.folder = folder
        self.storages = {}  # by the id of the description: what shares one shares the other

    def value(self, spec):
        if isinstance(spec, TensorSpec):
            return self.tensor(spec)
        if isinstance(spec, CallSpec):
            return self.call(spec)
        return spec.value if isinstance(spec, SymbolSpec) else spec

    def read(self, digest, nbytes):
        if not re.fullmatch("[0-9a-f]{40}", str(digest)):
            raise InputsError(f"{digest!r} is no name of values: a script names them by 40 hexadecimal digits")
        path = os.path.join(self.folder, digest + ".pt")
        if not os.path.exists(path):
            raise InputsError(
                f"the file {path} is missing: a script needs the folder of values that was written with it"
            )
        if not os.path.isfile(path) or (nbytes is not None and os.path.getsize(path) > nbytes + _FRAME):
            raise InputsError(f"{path} is no file, or larger than the {nbytes} bytes that the script says")
        try:
            data = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise InputsError(f"{path} cannot be read ({type(error).__name__}): it is truncated or damaged") from None
        good = (
            isinstance(data, torch.Tensor) and data.dtype is torch.uint8 and (nbytes is None or data.numel() == nbytes)
        )
        if not good or digest_of(data) != digest:
            raise InputsError(f"{path} does not hold what its name says: it is truncated, damaged or edited")
        return data

    def storage(self, spec):
        if id(spec) not in self.storages:
            saved = isinstance(spec, SavedStorage)
            data = self.read(spec.digest, spec.nbytes) if saved else random_values(spec)
            self.storages[id(spec)] = data.to(spec.device).untyped_storage()
        return self.storages[id(spec)]

    def tensor(self, spec):
        storage, shape, stride, offset = self.storage(spec.storage), spec.shape, spec.stride, spec.offset
        reach = _reach(offset, shape, stride) if 0 not in shape else 0
        if min((offset, *shape, *stride)) < 0 or reach > storage.nbytes() // spec.dtype.itemsize:
            raise InputsError(
                f"a tensor of {tuple(shape)}, strides {tuple(stride)}, reaches beyond its {storage.nbytes()} bytes"
            )
        made = _models.over(storage, spec.dtype, offset, shape, stride, spec.conj, spec.neg)
        if spec.parameter:
            return torch.nn.Parameter(made, spec.requires_grad)
        if spec.requires_grad:
            made.requires_grad_()
        return made if spec.leaf or not spec.requires_grad else made.view_as(made)

    def call(self, spec):
        try:
            function = pkgutil.resolve_name(spec.function)
        except (ValueError, ImportError, AttributeError) as error:
            raise InputsError(f"{spec.function} is not there to make a tensor: {error}") from None
        made = function(*pytree.tree_map(self.value, spec.arguments))
        return made.requires_grad_() if spec.requires_grad else made


def random_values(spec):
    try:
        source = torch.Generator().manual_seed(spec.seed)
        if not (spec.dtype.is_floating_point or spec.dtype.is_complex):
            return torch.randint(int(spec.low), int(spec.high) + 1, (spec.count,), generator=source).to(spec.dtype)
        wide = torch.complex128 if spec.dtype.is_complex else torch.float64
        values = torch.rand(spec.count, generator=source, dtype=wide) * (spec.high - spec.low)
        return (values + (complex(spec.low, spec.low) if spec.dtype.is_complex else spec.low)).to(spec.dtype)
    except (RuntimeError, MemoryError, OverflowError) as error:
        raise InputsError(f"{spec.count} random numbers cannot be made: {str(error).splitlines()[0]}") from None
