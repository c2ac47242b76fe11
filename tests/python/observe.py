"""What can be seen of a call: its result, its effects and what it left behind, as lines of text that two runs can be
compared by.

Objects are walked from named roots. Each object with an identity gets a number at its first visit, so that equal text
means equal structure of aliases too. Scalars and strings have no number: CPython promises nothing about their identity.
"""

from __future__ import annotations

import collections
import contextlib
import dis
import enum
import functools
import gc
import hashlib
import importlib.util
import inspect
import io
import itertools
import logging
import os
import random
import re
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

Line = tuple[str, str]
Observation = dict[str, list[Line]]

# Modules whose functions and classes belong to the programs: these are walked into, all others are only named.
OWN_MODULES = ("tests.python.programs.", "fuzz_program")

_SCALARS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), type(NotImplemented))
_ITERATORS = tuple(
    {
        type(it)
        for it in (
            iter([]), iter(()), iter({}), iter(set()), iter(""), iter(range(0)), iter(b""), iter({}.items()), iter({}.values()),
            reversed([]), zip(), enumerate([]), map(len, []), filter(None, []), reversed({}), iter(collections.deque()),
            itertools.chain(), itertools.count(), itertools.cycle([]), itertools.repeat(0), itertools.accumulate([]),
            itertools.islice([], 0), itertools.starmap(len, []), itertools.takewhile(len, []), itertools.dropwhile(len, []),
            itertools.product(), itertools.permutations([]), itertools.combinations([], 0), itertools.zip_longest(),
            itertools.compress([], []), itertools.filterfalse(None, []), iter(int, 0), iter(range(2**70)),
        )
    }
)  # fmt: skip
# Guards and plans may well hold on to these: they live as long as the program, or are one of a kind.
_SHARED_BY_NATURE = (
    type,
    types.FunctionType,
    types.ModuleType,
    types.BuiltinFunctionType,
    enum.Enum,
    torch.dtype,
    torch.device,
)
_GLOBAL_WRITES = (dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"])
_RECOMPILE_LIMIT = re.compile(
    r"captured \d+ times, and no entry fits"
)  # announced: from there on the function runs eagerly
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")

_HERE = os.path.dirname(os.path.abspath(__file__))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_MODULE_FILE = os.path.join(_TORCH, "nn", "modules", "module.py")
_HIDDEN_FILES = {os.path.join(_HERE, name) for name in ("observe.py", "differential.py", "frontends.py")}


def _packages(name: str) -> list[str]:
    """The folders of a package, wherever it was built, without an import: the front end may be another one."""
    spec = importlib.util.find_spec(name)
    return list(spec.submodule_search_locations or ()) if spec is not None else []


_HIDDEN_FOLDERS = (
    *(os.path.join(folder, "") for folder in _packages("stator")),
    os.path.join(_TORCH, "_dynamo") + os.sep,
    os.path.join(_TORCH, "_functorch", "_aot_autograd") + os.sep,
)


def _is_own(module: Any) -> bool:
    return isinstance(module, str) and module.startswith(OWN_MODULES)


def _type_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def is_plain(value: Any) -> bool:
    """Immutable all through: nothing but its value can be told, since Python may share such objects or not."""
    if type(value) in _SCALARS or isinstance(value, np.generic):
        return True
    return type(value) in (tuple, frozenset, torch.Size) and all(is_plain(item) for item in value)


def plain_text(text: str) -> str:
    """Text without addresses, which differ from run to run."""
    return _ADDRESS.sub("0x", text)


def _is_plumbing(code: types.CodeType) -> bool:
    """The frames between a module and its `forward`, which a compiled module need not have."""
    return code.co_filename == _MODULE_FILE and code.co_name in ("_wrapped_call_impl", "_call_impl", "inner")


def traceback_lines(trace: types.TracebackType | None) -> list[str]:
    """The user's view of a traceback: file, line and function of each frame that is not a front end's own."""
    lines = []
    while trace is not None:
        code = trace.tb_frame.f_code
        path = code.co_filename
        if path not in _HIDDEN_FILES and not path.startswith(_HIDDEN_FOLDERS) and not _is_plumbing(code):
            lines.append(f"{os.path.basename(path)}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return lines


class Describer:
    """Walks objects from named roots and writes a line for each thing found."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._labels: dict[int, int] = {}
        self._alive: list[Any] = []  # a number stays true only while its object lives
        self._storages: dict[int, int] = {}

    def describe(self, path: str, value: Any) -> None:
        if is_plain(value):
            self._say(path, f"{type(value).__name__} {value!r}")
            return
        known = self._labels.get(id(value))
        if known is not None:
            self._say(path, f"same as #{known}")
            return
        number = len(self._labels)
        self._labels[id(value)] = number
        self._alive.append(value)
        try:
            self._describe_new(path, value, f"#{number} {_type_name(type(value))}")
        except Exception as error:  # something that should not be here, such as a stand-in of the front end
            self._say(path, f"#{number} {_type_name(type(value))} cannot be looked at: {error}")

    def _say(self, path: str, text: str) -> None:
        self.lines.append((path, plain_text(text)))

    def _describe_new(self, path: str, value: Any, head: str) -> None:
        if isinstance(value, torch.Tensor):
            self._tensor(path, value, head)
        elif isinstance(value, type):
            self._class(path, value, head)
        elif isinstance(value, types.FunctionType):
            self._function(path, value, head)
        elif isinstance(value, types.MethodType):
            self._say(path, f"{head} {value.__func__.__qualname__}")
            self.describe(path + ".__func__", value.__func__)
            self.describe(path + ".__self__", value.__self__)
        elif isinstance(value, BaseException):
            self._exception(path, value, head)
        elif isinstance(value, functools.partial):
            self._say(path, head)
            self.describe(path + ".func", value.func)
            self.describe(path + ".args", value.args)
            self.describe(path + ".keywords", value.keywords)
        elif isinstance(value, types.CellType):
            self._cell(path, value, head)
        elif isinstance(value, types.GeneratorType):
            self._generator(path, value, head)
        elif isinstance(value, _ITERATORS):
            self._iterator(path, value, head)
        elif isinstance(value, weakref.ref):
            target = value()
            self._say(path, f"{head} {'dead' if target is None else 'alive'}")
            if target is not None:
                self.describe(path + "()", target)
        elif isinstance(
            value, (types.ModuleType, types.BuiltinFunctionType, torch.dtype, torch.device, enum.Enum, range, slice)
        ):
            self._say(path, f"{head} {value!r}")
        elif isinstance(value, torch.Generator):
            self._say(path, f"{head} {_digest(value.get_state())}")
        elif isinstance(value, random.Random):
            self._say(path, f"{head} {hash(value.getstate())}")
        else:
            self._plain_object(path, value, head)

    def _plain_object(self, path: str, value: Any, head: str) -> None:
        cls = type(value)
        if isinstance(value, dict):
            self._say(path, f"{head} of {dict.__len__(value)}")
            for index, (key, item) in enumerate(dict.items(value)):
                if type(key) in _SCALARS:
                    self.describe(f"{path}[{key!r}]", item)
                else:
                    self.describe(f"{path}.key{index}", key)
                    self.describe(f"{path}.value{index}", item)
        elif isinstance(value, (list, tuple, collections.deque)):
            items = (
                list(cls.__mro__[-2].__iter__(value))
                if cls.__mro__[-2] in (list, tuple, collections.deque)
                else list(value)
            )
            self._say(path, f"{head} of {len(items)}")
            for index, item in enumerate(items):
                self.describe(f"{path}[{index}]", item)
        elif isinstance(value, (set, frozenset)):
            self._say(path, f"{head} of {len(value)}")
            for index, item in enumerate(sorted(value, key=_sort_key)):
                self.describe(f"{path}{{{index}}}", item)
        elif isinstance(value, _SCALARS):
            self._say(path, f"{head} {_base_repr(value)}")
        elif isinstance(value, (type({}.keys()), type({}.values()), type({}.items()), types.MappingProxyType)):
            self._say(path, f"{head}")
            self.describe(path + "()", list(value))
        elif not hasattr(value, "__dict__") and cls.__module__ not in ("builtins",) and not _has_slots(cls):
            self._say(path, f"{head} {_safe_repr(value)}")
            return
        else:
            self._say(path, head)
        self._attributes(path, value)

    def _attributes(self, path: str, value: Any) -> None:
        try:
            attributes = object.__getattribute__(value, "__dict__")
        except AttributeError:
            attributes = None
        if isinstance(attributes, dict):
            for name, item in list(attributes.items()):
                self.describe(f"{path}.{name}", item)
        for cls in type(value).__mro__:
            if "__slots__" not in vars(cls) or not _is_own(cls.__module__):
                continue
            for name, member in vars(cls).items():
                if isinstance(member, types.MemberDescriptorType):
                    try:
                        item = member.__get__(value)
                    except AttributeError:
                        self._say(f"{path}.{name}", "unset")
                    else:
                        self.describe(f"{path}.{name}", item)

    def _tensor(self, path: str, value: torch.Tensor, head: str) -> None:
        if torch.nn.parameter.is_lazy(value):
            self._say(path, f"{head} {value.dtype} uninitialised")
            return
        if isinstance(value, torch._subclasses.FakeTensor):  # a front end let one of its own out
            self._say(path, f"{head} is a FakeTensor")
            return
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            facts = [head, str(value.dtype), str(tuple(value.shape)), str(value.device)]
            if value.layout is torch.strided and not value.is_quantized:
                facts.append(f"stride {tuple(value.stride())} offset {value.storage_offset()}")
                pointer = value.untyped_storage().data_ptr()
                if pointer:
                    facts.append(f"storage {self._storages.setdefault(pointer, len(self._storages))}")
            else:
                facts.append(str(value.layout))
            for name in ("requires_grad", "is_leaf"):
                facts.append(f"{name} {getattr(value, name)}")
            facts.append(f"grad_fn {value.grad_fn is not None}")
            for name in ("is_conj", "is_neg", "is_inference"):
                if getattr(value, name)():
                    facts.append(name)
            facts.append(_tensor_values(value))
            grad = value.grad if value.is_leaf else None
        self._say(path, " ".join(facts))
        if grad is not None:
            self.describe(path + ".grad", grad)
        for name, item in value.__dict__.items():
            if name != "_dynamo_propagated_dynamic_indices":  # AOTAutograd's, on results
                self.describe(f"{path}.{name}", item)

    def _function(self, path: str, value: types.FunctionType, head: str) -> None:
        self._say(path, f"{head} {value.__qualname__}")
        if not _is_own(value.__module__):
            return
        self._parts(path, value, ("__defaults__", "__kwdefaults__"))
        for name, item in value.__dict__.items():
            self.describe(f"{path}.{name}", item)
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            self.describe(f"{path}<{name}>", cell)
        for name in _names_of(value.__code__):
            if name in value.__globals__:
                self.describe(f"global {name}", value.__globals__[name])
            elif name in _rebindable(value.__code__):
                self._say(f"global {name}", "unset")

    def _parts(self, path: str, value: Any, names: tuple[str, ...]) -> None:
        for name in names:
            item = getattr(value, name)
            if item is not None:
                self.describe(f"{path}.{name}", item)

    def _class(self, path: str, value: type, head: str) -> None:
        self._say(path, f"{head} {_type_name(value)}")
        if not _is_own(value.__module__):
            return
        self.describe(path + ".__bases__", value.__bases__)
        for name, item in list(vars(value).items()):
            if name in ("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__slots__", "_abc_impl"):
                continue
            if isinstance(item, (staticmethod, classmethod)):
                item = item.__func__
            elif isinstance(item, property):
                item = (item.fget, item.fset, item.fdel)
            if not isinstance(
                item, (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)
            ):
                self.describe(f"{path}.{name}", item)

    def _cell(self, path: str, value: types.CellType, head: str) -> None:
        try:
            content = value.cell_contents
        except ValueError:
            self._say(path, f"{head} empty")
            return
        self._say(path, head)
        self.describe(path + "*", content)

    def _generator(self, path: str, value: types.GeneratorType[Any, Any, Any], head: str) -> None:
        state = inspect.getgeneratorstate(value)
        frame = value.gi_frame
        self._say(path, f"{head} {value.gi_code.co_qualname} {state} line {frame.f_lineno if frame else None}")
        if frame is not None:
            for name, item in frame.f_locals.items():
                self.describe(f"{path}.{name}", item)

    def _iterator(self, path: str, value: Any, head: str) -> None:
        self._say(path, head)
        try:
            reduced = value.__reduce__()
        except TypeError:
            return
        self.describe(path + ".reduced", list(reduced[1:]))

    def _exception(self, path: str, value: BaseException, head: str) -> None:
        self._say(path, f"{head} {_safe_repr(value)}")
        self.describe(path + ".args", value.args)
        lines = traceback_lines(value.__traceback__)
        if isinstance(value, UnboundLocalError) and lines:
            # CPython 3.11 fuses STORE_FAST and LOAD_FAST once code is warm, and then blames the line of the first of
            # them.
            lines[-1] = re.sub(r":\d+ ", ":? ", lines[-1])
        self._say(path + ".traceback", " | ".join(lines))
        self._say(path + ".suppress", str(value.__suppress_context__))
        self._parts(path, value, ("__cause__", "__context__"))
        for name, item in value.__dict__.items():
            self.describe(f"{path}.{name}", item)
        if isinstance(value, BaseExceptionGroup):
            self.describe(path + ".exceptions", value.exceptions)


@functools.lru_cache(maxsize=4096)
def _names_of(code: types.CodeType) -> tuple[str, ...]:
    """Names that the code or code nested in it may read from its globals, in order."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(dict.fromkeys(_names_of(constant)))
    return tuple(names)


@functools.lru_cache(maxsize=4096)
def _rebindable(code: types.CodeType) -> frozenset[str]:
    """Names that the code binds or deletes as globals (among the first 256 names, which is enough here)."""
    steps = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    names = {
        code.co_names[argument]
        for operation, argument in steps
        if operation in _GLOBAL_WRITES and argument < len(code.co_names)
    }
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _rebindable(constant)
    return frozenset(names)


def forget_code() -> None:
    """Lets go of code objects of earlier programs, which would otherwise never be freed."""
    _names_of.cache_clear()
    _rebindable.cache_clear()


def _has_slots(cls: type) -> bool:
    return any("__slots__" in vars(base) for base in cls.__mro__)


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"<repr raises {type(error).__name__}>"


def _base_repr(value: Any) -> str:
    for base in (bool, int, float, complex, str, bytes):
        if isinstance(value, base):
            return base.__repr__(value)
    return _safe_repr(value)


def _tensor_values(value: torch.Tensor) -> str:
    plain = value.detach()
    if plain.device.type == "meta":
        return "meta"
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    if plain.is_quantized:
        plain = plain.dequantize()
    plain = plain.resolve_conj().resolve_neg()
    if type(plain) is not torch.Tensor:
        plain = plain.as_subclass(torch.Tensor)
    if plain.numel() <= 64:
        return str(plain.tolist())
    return _digest(plain.to(torch.float64) if plain.dtype is torch.bfloat16 else plain)


def _digest(value: torch.Tensor) -> str:
    return hashlib.sha1(value.contiguous().cpu().numpy().tobytes()).hexdigest()


def _sort_key(value: Any) -> tuple[str, str]:
    if isinstance(value, torch.Tensor):
        return ("tensor", _tensor_values(value))
    if isinstance(value, (frozenset, set)):
        return (type(value).__name__, str(sorted(map(_sort_key, value))))
    return (type(value).__name__, plain_text(_safe_repr(value)))


def _ambient() -> str:
    """State of the thread that a call could leave changed."""
    return " ".join(
        map(
            str,
            (
                torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype(), torch.get_default_device(),
                torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled(),
                torch.are_deterministic_algorithms_enabled(), torch._C._len_torch_function_stack(), sys.exc_info()[0],
                sys.getrecursionlimit(), sys.gettrace(), sys.getprofile(),
            ),
        )
    )  # fmt: skip


def reset_ambient() -> None:
    """Sets that back, and random numbers to a fixed start."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch._C._set_deterministic_algorithms(False, warn_only=False)  # the public function imports inductor
    torch.default_generator.manual_seed(1234)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed(1234)
    random.seed(1234)


def _random_state() -> str:
    cuda = _digest(torch.cuda.get_rng_state()) if torch.cuda.is_initialized() else ""
    return f"{_digest(torch.get_rng_state())} {cuda} {hashlib.sha1(repr(random.getstate()).encode()).hexdigest()}"


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Line] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(("torch", "stator", "filelock")):
            where = f"{os.path.basename(record.pathname)}:{record.lineno} {record.funcName}"
            self.lines.append((record.name, f"{record.levelname} {record.getMessage()} {where}"))


@contextlib.contextmanager
def _recording(observation: Observation) -> Iterator[None]:
    """Collects output, warnings and log records of the body."""
    output = io.StringIO()
    records = _Records()
    root = logging.getLogger()
    root.addHandler(records)
    if root.level != logging.DEBUG:  # setting it clears a cache of every logger
        root.setLevel(logging.DEBUG)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
        ):
            warnings.simplefilter("always")
            yield
    finally:
        root.removeHandler(records)
    observation["output"] = [("", plain_text(line)) for line in output.getvalue().splitlines()]
    observation["logging"] = records.lines
    observation["warnings"] = [
        (w.category.__name__, f"{plain_text(str(w.message))} {os.path.basename(w.filename)}:{w.lineno}")
        for w in caught
        if not _RECOMPILE_LIMIT.search(str(w.message))
    ]


@contextlib.contextmanager
def no_automatic_collection() -> Iterator[None]:
    """Cycles go only where `observe` collects them, or the program itself, so that finalisers run at the same moment in
    every run."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _counted_objects(path: str, value: Any, depth: int, found: list[tuple[str, Any]]) -> None:
    """The objects of the arguments whose reference counts a call has to leave as eager does."""
    if is_plain(value) or isinstance(value, _SHARED_BY_NATURE):
        return
    found.append((path, value))
    if depth == 0:
        return
    if type(value) in (list, tuple):
        for index, item in enumerate(value):
            _counted_objects(f"{path}[{index}]", item, depth - 1, found)
    elif type(value) is dict:
        for key, item in value.items():
            _counted_objects(f"{path}[{key!r}]" if type(key) in _SCALARS else f"{path}[..]", item, depth - 1, found)


def observe(call: Callable[..., Any], case: Any) -> Observation:
    """Calls once and reports all that can be seen. `case` is a `Case`; its `fn` is described, `call` is what runs."""
    observation: Observation = {}
    counted: list[tuple[str, Any]] = []
    _counted_objects("args", case.args, 3, counted)
    _counted_objects("kwargs", case.kwargs, 3, counted)
    _counted_objects("state", case.state, 2, counted)
    reset_ambient()
    before = [sys.getrefcount(value) for _, value in counted]
    result, raised = _call(call, case, observation)
    observation["ambient"] = [("", _ambient())]
    observation["random"] = [("", _random_state())]
    reset_ambient()

    describer = Describer()
    if raised is not None:
        describer.describe("raised", raised)
    else:
        describer.describe("result", result)
    for name in ("args", "kwargs", "fn", "state", "log"):
        describer.describe(name, getattr(case, name))
    observation["objects"] = describer.lines

    del describer
    if raised is not None:
        raised.__traceback__ = None
    result = raised = None
    gc.collect()
    observation["references"] = [
        (path, f"{sys.getrefcount(value) - count:+d}") for (path, value), count in zip(counted, before, strict=True)
    ]
    return observation


def _call(call: Callable[..., Any], case: Any, observation: Observation) -> tuple[Any, BaseException | None]:
    with _recording(observation), no_automatic_collection():
        try:
            return call(*case.args, **case.kwargs), None
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not error.args:
                raise
            return None, error


def observe_release(case: Any) -> Observation:
    """Drops all that the case holds but its function, and reports the events that followed."""
    log = case.log
    case.args = case.kwargs = case.state = None
    case.change = None
    case.steps = []
    gc.collect()
    describer = Describer()
    describer.describe("log", log)
    return {"released": describer.lines}


def differences(expected: Observation, seen: Observation, limit: int = 4) -> list[str]:
    """Where two observations differ, as readable lines; empty when they agree."""
    found = []
    for section in expected.keys() | seen.keys():
        left = expected.get(section, [])
        right = seen.get(section, [])
        if left == right:
            continue
        count = 0
        for one, other in itertools.zip_longest(left, right, fillvalue=("", "(nothing)")):
            if one != other:
                path = one[0] or other[0]
                found.append(
                    f"{section} {path}:\n    eager    {_with_path(one, path)}\n    compiled {_with_path(other, path)}"
                )
                count += 1
                if count == limit:
                    found.append(f"{section}: more differences left out")
                    break
    return found


def _with_path(line: Line, path: str) -> str:
    return line[1] if line[0] in ("", path) else f"{line[0]}: {line[1]}"
