"""Inputs of a repro: saved by content, described in a script, built again exactly.

A script has a function `inputs(load)`. Its lines are written here (`write`), and run with one of two loaders: `Loader`
makes the tensors, `Recorder` only notes what they are. What is saved are raw bytes of storages, as uint8 tensors in
files named by their SHA-256: one file for equal contents, read with weights_only=True and compared with its name, so
that nothing damaged or foreign is taken for an input.
"""

import contextlib
import dataclasses
import hashlib
import math
import os
import re
import tempfile
from typing import Any

import torch
from torch.utils.weak import TensorWeakRef

from stator.debug import _models


class InputsError(Exception):
    """Inputs that cannot be written or read; the message says which and why."""


# ---- descriptions


class Description:
    """A call of a loader's method, with the fields as its arguments; those that are as by default are not written."""

    def text(self, *first):
        """The expression in a script; `first` are the expressions of the first fields."""
        given = list(first)
        for field in dataclasses.fields(self)[len(first) :]:
            value = getattr(self, field.name)
            if field.default is dataclasses.MISSING and not field.kw_only:
                given.append(_literal(value))
            elif value != field.default:
                given.append(f"{field.name}={_literal(value)}")
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
class PartsSpec(Description):
    """A tensor made of others: sparse, nested, quantized, or a subclass that can be taken apart."""

    kind: str
    parts: list
    facts: dict

    def text(self, parts):
        facts = "".join(f", {key}={_literal(value)}" for key, value in self.facts.items())
        return f"load.parts({self.kind!r}, [{', '.join(parts)}]{facts})"


@dataclasses.dataclass
class LiteralSpec(Description):
    value: Any
    symbol: str | None = None  # an int that the compiler must not rely on

    def text(self):
        return _literal(self.value) if self.symbol is None else f"load.symbol({self.value!r}, {self.symbol!r})"


_LITERALS = (int, float, bool, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def _literal(value):
    if isinstance(value, (tuple, list)):
        inner = ", ".join(_literal(v) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value!r}')"
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, _LITERALS):
        return repr(value)
    raise InputsError(f"an input of type {type(value).__name__} cannot be written in a script")


# ---- saving


def write_file(path, data, mode=0o644, sync=False):
    """Whole or not at all: nothing that was there is touched before the new file is complete. With sync, it is on the
    disk then."""
    folder = os.path.dirname(path) or "."
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            if callable(data):
                data(file)
            else:
                file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def sync_folder(folder):
    """New names in a folder reach the disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest_of(data):
    return hashlib.sha256(data.numpy()).hexdigest()[:40]


class Store:
    """A folder of storages."""

    def __init__(self, folder):
        self.folder = folder
        self.sync = False  # level 3: the process may not live to see the system write things
        self.known = {}  # id of a tensor -> (weak reference, version, digest): parameters are hashed once, not at every call

    def path(self, digest):
        return os.path.join(self.folder, digest + ".pt")

    def save(self, data):
        """Bytes as a uint8 tensor on the CPU; gives their digest."""
        digest = digest_of(data)
        path = self.path(digest)
        if not os.path.exists(path):
            os.makedirs(self.folder, exist_ok=True)
            write_file(path, lambda file: torch.save(data, file), sync=self.sync)
        return digest

    def save_storage(self, tensor):
        key = id(tensor)
        with torch.inference_mode(False):
            version = None if tensor.is_inference() else tensor._version
        known = self.known.get(key)
        if known is not None and known[0]() is tensor and version is not None and known[1] == version:
            return known[2]
        digest = self.save(_models.whole_storage(tensor, torch.uint8).cpu())
        if type(tensor) in (torch.Tensor, torch.nn.Parameter):
            self.known[key] = (TensorWeakRef(tensor), version, digest)
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
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            hint = value.node.hint if value.node.has_hint() else 2
            return LiteralSpec(hint)
        if not isinstance(value, torch.Tensor):
            _literal(value)  # raises for what no script can hold
            return LiteralSpec(value)
        with torch.no_grad():
            return self.tensor(value)

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
        grad = {"requires_grad": True} if value.requires_grad else {}
        plain = value.detach()
        if value.layout is torch.sparse_coo:
            parts = [plain._indices(), plain._values()]
            facts = {"shape": tuple(value.shape), "coalesced": value.is_coalesced(), **grad}
            return PartsSpec("sparse_coo", [self.spec(p) for p in parts], facts)
        if value.layout in _COMPRESSED:
            parts = [getattr(plain, name)() for name in _COMPRESSED[value.layout]]
            facts = {"shape": tuple(value.shape), "layout": value.layout, **grad}
            return PartsSpec("sparse_compressed", [self.spec(p) for p in parts], facts)
        if value.is_quantized and value.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            facts = {"scale": value.q_scale(), "zero_point": value.q_zero_point(), "dtype": value.dtype}
            return PartsSpec("quantized", [self.spec(plain.int_repr())], facts)
        if value.is_nested and value.layout is torch.strided:
            parts = [self.spec(p.contiguous()) for p in plain.unbind()]
            return PartsSpec("nested", parts, {"dtype": value.dtype, **grad})
        if hasattr(value, "__tensor_flatten__"):
            names, context = value.__tensor_flatten__()
            module, name = type(value).__module__, type(value).__qualname__
            _literal(context)
            facts = {"module": module, "name": name, "names": tuple(names), "context": context, **grad}
            facts |= {"shape": tuple(value.shape), "stride": tuple(value.stride())}
            return PartsSpec("subclass", [self.spec(getattr(value, n)) for n in names], facts)
        raise InputsError(
            f"a tensor of type {type(value).__name__} and layout {value.layout} cannot be written in a script"
        )


_BY_ROWS = ("crow_indices", "col_indices", "values")
_BY_COLUMNS = ("ccol_indices", "row_indices", "values")
_COMPRESSED = {
    torch.sparse_csr: _BY_ROWS,
    torch.sparse_bsr: _BY_ROWS,
    torch.sparse_csc: _BY_COLUMNS,
    torch.sparse_bsc: _BY_COLUMNS,
}


def _reach(offset, shape, stride):
    """How many elements a storage has to have."""
    return offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if all(shape) else offset


def _hint(size):
    if isinstance(size, int):
        return size
    return int(size.node.hint) if size.node.has_hint() else 2


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
                low, high = _rounded(float(finite.min()), float(finite.max()))
    storage = RandomStorage(seed=seed, dtype=value.dtype, count=count, low=low, high=high, device=str(value.device))
    return dataclasses.replace(spec, storage=storage)


def _rounded(low, high):
    """Two digits are enough to say where values lie, and are easier to read."""
    if low == high:
        return low, high
    digits = 2 - math.ceil(math.log10(max(abs(low), abs(high), 1e-30)))
    return round(low, digits), round(high, digits)


def with_shape(spec, shape):
    """A description that says which sizes are symbols: names in a tensor's sizes, or a name for an int; None: none
    is."""
    if isinstance(spec, TensorSpec):
        fits = isinstance(shape, tuple) and len(shape) == len(spec.shape)
        known = (
            tuple(name if isinstance(name, str) else size for name, size in zip(shape, spec.shape, strict=True))
            if fits
            else ()
        )
        return dataclasses.replace(spec, sizes=known if any(isinstance(size, str) for size in known) else None)
    if isinstance(spec, LiteralSpec) and type(spec.value) is int:
        return LiteralSpec(spec.value, shape if isinstance(shape, str) else None)
    return spec


def shape_of(spec):
    return getattr(spec, "sizes", None) or getattr(spec, "symbol", None)


def write(names, specs):
    """The body of `inputs(load)` in a script, and the list that it returns."""
    lines, storages, counter = [], {}, [0]

    def storage(spec):
        if id(spec) not in storages:
            storages[id(spec)] = f"s{len(storages)}"
            lines.append(f"{storages[id(spec)]} = {spec.text()}")
        return storages[id(spec)]

    def emit(name, spec):
        if isinstance(spec, TensorSpec):
            lines.append(f"{name} = {spec.text(storage(spec.storage))}")
        elif isinstance(spec, PartsSpec):
            parts = []
            for part in spec.parts:
                counter[0] += 1
                parts.append(f"part{counter[0]}")
                emit(parts[-1], part)
            lines.append(f"{name} = {spec.text(parts)}")
        else:
            lines.append(f"{name} = {spec.text()}")

    for name, spec in zip(names, specs, strict=True):
        emit(name, spec)
    lines.append(f"return [{', '.join(names)}]")
    return "".join(f"    {line}\n" for line in lines)


# ---- from a script to values


class Recorder:
    """Runs `inputs(load)` for its descriptions alone."""

    storage, random, tensor, symbol = SavedStorage, RandomStorage, TensorSpec, LiteralSpec

    def parts(self, kind, parts, **facts):
        return PartsSpec(kind, [described(part) for part in parts], facts)


def described(value):
    return value if isinstance(value, Description) else LiteralSpec(value)


_FRAME = 1 << 16  # what a file of torch.save holds beside the values, at most


class Loader:
    """Makes the tensors that a script describes."""

    def __init__(self, folder):
        self.folder = folder

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

    def storage(self, digest, nbytes, device="cpu"):
        return self.read(digest, nbytes).to(device).untyped_storage()

    def random(self, seed, dtype, count, low, high, device="cpu"):
        try:
            source = torch.Generator().manual_seed(seed)
            if dtype.is_floating_point or dtype.is_complex:
                wide = torch.complex128 if dtype.is_complex else torch.float64
                values = torch.rand(count, generator=source, dtype=wide)
                values = values * (high - low) + (complex(low, low) if dtype.is_complex else low)
            else:
                values = torch.randint(int(low), int(high) + 1, (count,), generator=source)
            return values.to(dtype).to(device).untyped_storage()
        except (RuntimeError, MemoryError, OverflowError) as error:
            raise InputsError(f"{count} random numbers cannot be made: {str(error).splitlines()[0]}") from None

    def tensor(self, *args, **flags):
        spec = TensorSpec(*args, **flags)
        storage, shape, stride, offset = spec.storage, spec.shape, spec.stride, spec.offset
        made = torch.empty(0, dtype=spec.dtype, device=storage.device)
        reach = _reach(offset, shape, stride) if 0 not in shape else 0
        if min((offset, *shape, *stride)) < 0 or reach > storage.nbytes() // made.itemsize:
            raise InputsError(
                f"a tensor of {tuple(shape)}, strides {tuple(stride)}, reaches beyond its {storage.nbytes()} bytes"
            )
        made.set_(storage, offset, shape, stride)
        made = made.conj() if spec.conj else made
        made = made._neg_view() if spec.neg else made
        if spec.parameter:
            return torch.nn.Parameter(made, spec.requires_grad)
        if spec.requires_grad:
            made.requires_grad_()
        return made if spec.leaf or not spec.requires_grad else made.view_as(made)

    def symbol(self, value, name):
        return value

    def parts(self, kind, parts, requires_grad=False, **facts):
        made = self.together(kind, parts, facts)
        return made.requires_grad_() if requires_grad else made

    def together(self, kind, parts, facts):
        if kind == "sparse_coo":
            made = torch.sparse_coo_tensor(*parts, facts["shape"])
            return made._coalesced_(facts["coalesced"])
        if kind == "sparse_compressed":
            return torch.sparse_compressed_tensor(*parts, facts["shape"], layout=facts["layout"])
        if kind == "quantized":
            return torch._make_per_tensor_quantized_tensor(parts[0], facts["scale"], facts["zero_point"])
        if kind == "nested":
            return torch.nested.nested_tensor(parts, dtype=facts["dtype"])
        if kind == "subclass":
            import importlib
            import operator

            cls = operator.attrgetter(facts["name"])(importlib.import_module(facts["module"]))
            inner = dict(zip(facts["names"], parts, strict=True))
            return cls.__tensor_unflatten__(inner, facts["context"], facts["shape"], facts["stride"])
        raise InputsError(f"no kind of tensor {kind!r}: the script was written by another version or edited")
