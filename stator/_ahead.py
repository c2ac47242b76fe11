"""aot_compile: a compiled function that was captured and compiled for example inputs before its first call, and
captures nothing more.

    ahead = stator.compile(f, fullgraph=True).aot_compile(((x,), {}))
    ahead.save_compiled_function(path)
    with open(path, "rb") as file:
        ahead = stator.load_compiled_function(file)

What is called is the plain function: of a method that was compiled, the object comes first. A file has the function,
the arguments of compile, the marks of the example inputs and what the backend made. The program itself is captured anew
in the process that loads it, at the first call and in milliseconds, and its guards are its own; the backend is not
called.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import inspect
import io
import linecache
import marshal
import os
import pickle
import re
import sys
import tempfile
import types
from types import CodeType
from typing import Any

import torch
from torch.utils import _pytree

from stator import _backends, _by_value, _caches, _core, _disk, _logs, _saved, exc

_KEY = _core.disk_digest(b"stator.aot_compile, 1")
_MARKS = "_dynamo_"  # attributes of a tensor that say which of its sizes are dynamic
_WITHOUT = "aot_compile: Graph breaks are not supported: compile with fullgraph=True"


@dataclasses.dataclass(frozen=True)
class InlinedSource:
    """A piece of source that was captured; `content` is its whole file, as TorchDynamo has it."""

    module: str
    firstlineno: int
    lastlineno: int
    checksum: str
    content: str


@dataclasses.dataclass
class SourceInfo:
    inlined_sources: set[InlinedSource]


@dataclasses.dataclass
class Artifacts:
    """What a compiled function is made of, under the names that TorchDynamo's has: vLLM asks a loaded one for what its
    backend made."""

    signature: inspect.Signature
    compiled_fn: Any  # None: what inductor made is not had as one object
    original_code: types.CodeType
    source_info: SourceInfo
    backend_name: str


@dataclasses.dataclass
class Saved:
    """What save_compiled_function wrote."""

    serialized_data: bytes


def aot_compile(compiled: Any, example_inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> CompiledAhead:
    if compiled._stator_cache is None:
        raise TypeError("aot_compile takes what stator.compile returned, and this is disabled")
    settings = compiled._stator_cache.settings
    if not settings.fullgraph:
        raise RuntimeError(_WITHOUT)
    args, kwargs = example_inputs
    function: Any = compiled.__wrapped__
    owner: tuple[Any, ...] = ()
    if isinstance(function, types.MethodType):
        function, owner = function.__func__, (function.__self__,)
    made = CompiledAhead(function, settings.arguments)
    made._prepare((*owner, *args), dict(kwargs))
    return made


class _Backend(_backends.Backend):
    """Keeps what the asked backend made, or gives what a file has of it."""

    made: Any = None  # (digest of the graph, callable)
    kept: Any = None  # the same, of a file
    sources: frozenset[tuple[str, int]] = frozenset()  # (file, line) of captured calls

    def __call__(self, graph_module: Any, example_inputs: Any) -> Any:
        self.sources = _lines(graph_module)
        if self.kept is not None:
            digest, compiled = self.kept
            if digest != _digest(graph_module):
                raise exc.PackageError(
                    "this call has another graph than the one that was compiled ahead: its sizes or dtypes, settings of torch, or the "
                    "program are others"
                )
            self.announce(graph_module)
            return compiled
        compiled = super().__call__(graph_module, example_inputs)
        if not isinstance(self.asked, str):
            self.made = _digest(graph_module), compiled
        return compiled

    @property
    def is_watched(self) -> bool:
        return True  # for the lines

    @property
    def runs_unseen(self) -> bool:
        return False


def _digest(graph_module: Any) -> str:
    """Of the code, and of what is known of each input."""
    inputs = [
        f"{node.name} {_facts(node.meta.get('example_value'))}"
        for node in graph_module.graph.nodes
        if node.op == "placeholder"
    ]
    return hashlib.sha256("\n".join([graph_module.code, *inputs]).encode()).hexdigest()


def _facts(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(map(str, value.shape))} {tuple(map(str, value.stride()))} {value.device} {value.requires_grad}"
    return str(value)


_FRAME = re.compile(r'^ *File "(.*)", line (\d+), in ', re.MULTILINE)


def _lines(graph_module: Any) -> frozenset[tuple[str, int]]:
    stacks = {node.meta.get("stack_trace") or "" for node in graph_module.graph.nodes}
    return frozenset((file, int(number)) for stack in stacks for file, number in _FRAME.findall(stack))


class CompiledAhead:
    """What aot_compile returns: called as the plain function is, for inputs like the examples. Others are an error, and
    never captured."""

    def __init__(self, function: Any, arguments: dict[str, Any], file: Any = None) -> None:
        self._function, self._file = function, file
        self._arguments = {k: v for k, v in arguments.items() if k not in ("guard_export_fn", "guard_fail_fn")}
        given = dict(self._arguments)
        options = dict(given.get("options") or {})
        self._asked_filter = options.get("guard_filter_fn")
        self._wanted: list[bool] = list(file.wanted) if file is not None else []
        if self._asked_filter is not None or self._wanted:
            given["options"] = {**options, "guard_filter_fn": self._filter}
        self._cache = _cache(given, file)
        self._call = _core.CompiledFunction(function, self._cache)
        self._ready = False
        self._checks = True
        self._marks: list[tuple[Any, dict[str, Any]]] = file.marks if file is not None else []
        _look_like(self, function)

    @property
    def _backend(self) -> Any:
        return self._cache.settings.backend

    def _filter(self, entries: Any) -> list[bool]:
        if not self._checks:
            return [False] * len(entries)
        if self._asked_filter is not None:
            self._wanted = list(map(bool, self._asked_filter(entries)))
        return self._wanted if len(self._wanted) == len(entries) else [True] * len(entries)

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Captures for these inputs."""
        scope = self._scope(args, kwargs)
        if self._file is None:
            self._marks = [(path, marks) for path, tensor in _tensors(scope) if (marks := _marks_of(tensor))]
        inlined: set[CodeType] = set()
        _logs.inline_listeners.append(inlined.add)
        try:
            with _marked(scope, self._marks):
                served = _core.ahead(self._call, True, args, kwargs)
        finally:
            _logs.inline_listeners.remove(inlined.add)
        self._backend.sources |= {(code.co_filename, code.co_firstlineno) for code in inlined}
        if not served:
            raise RuntimeError(
                f"aot_compile: nothing of {self._function!r} is captured, since its frame runs natively here"
            )
        _core.close_cache(self._call)
        self._ready = True
        if not self._checks:
            _core.drop_guards(self._call)

    def _scope(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = inspect.signature(self._function).bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._ready:
            self._prepare(args, kwargs)
        return self._call(*args, **kwargs)

    def guard_check(self, *args: Any, **kwargs: Any) -> bool:
        """Whether a call with these inputs is served."""
        if not self._ready:
            self._prepare(args, kwargs)
        return _core.ahead(self._call, False, args, kwargs) is True

    def disable_guard_check(self) -> None:
        """From now on what was captured serves whatever it is called with."""
        self._checks = False
        if self._ready:
            _core.drop_guards(self._call)

    def source_info(self) -> SourceInfo:
        """The sources of what was captured."""
        if self._file is not None and not self._ready:
            return self._file.source_info()
        code = self._function.__code__
        return SourceInfo(_inlined(self._backend.sources | {(code.co_filename, code.co_firstlineno)}))

    @property
    def _artifacts(self) -> Artifacts:
        made = self._backend.kept or self._backend.made
        return Artifacts(
            inspect.signature(self._function), made[1] if made is not None else None, self._function.__code__,
            self.source_info(), self._backend.compiler_name,
        )  # fmt: skip

    def save_compiled_function(self, path: Any, external_data: dict[str, Any] | None = None) -> Saved:
        """Writes a file for load_compiled_function. external_data: objects that the function holds and that are not
        written, by name."""
        if self._file is not None:
            raise RuntimeError("save_compiled_function: this came from a file, which can be copied")
        if not self._ready:
            raise RuntimeError("save_compiled_function: nothing was compiled")
        _write(self, os.fspath(path), external_data or {})
        with open(path, "rb") as file:
            return Saved(file.read())

    @classmethod
    def serialize(cls, fn: CompiledAhead, external_data: dict[str, Any] | None = None) -> Saved:
        with tempfile.TemporaryDirectory() as folder:
            return fn.save_compiled_function(os.path.join(folder, "f"), external_data)

    @classmethod
    def deserialize(cls, data: bytes, f_globals: Any = None, external_closure_data: Any = None) -> CompiledAhead:
        return load_compiled_function(io.BytesIO(data), f_globals=f_globals, external_data=external_closure_data)

    def __repr__(self) -> str:
        return f"<compiled ahead {self._function!r}>"


def _look_like(made: CompiledAhead, function: Any) -> None:
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        if hasattr(function, name):
            setattr(made, name, getattr(function, name))
    made.__wrapped__ = function  # type: ignore[attr-defined]


def _of_the_file(graph_module: Any, example_inputs: Any) -> Any:
    raise AssertionError("what it made is in the file")


def _cache(arguments: dict[str, Any], file: Any) -> Any:
    """A cache of its own, which reset() leaves alone."""
    backend, mode, options, dynamic, name = (
        arguments.get(k) for k in ("backend", "mode", "options", "dynamic", "name")
    )
    if file is not None and file.made is not None:
        backend = _of_the_file  # in the place of the program's own, which has done its work
    backend = _Backend(backend, mode, options, dynamic, name, file.graphs if file is not None else None)  # type: ignore[no-untyped-call]
    backend.kept = file.made if file is not None else None
    settings = _caches.Settings(  # type: ignore[no-untyped-call]
        backend, True, arguments.get("dynamic"), arguments.get("recompile_limit"), True, arguments
    )
    return _core.Cache(settings)


# ---- marks of the example inputs


def _tensors(scope: dict[str, Any]) -> list[tuple[Any, torch.Tensor]]:
    """Those among the arguments, with the paths to them; objects that are no containers of torch's pytree are looked
    into by attribute."""
    found: list[tuple[Any, torch.Tensor]] = []

    def look(path: tuple[Any, ...], value: Any, depth: int) -> None:
        for keys, leaf in _pytree.tree_flatten_with_path(value)[0]:
            at = (*path, str(keys))
            if isinstance(leaf, torch.Tensor):
                found.append((at, leaf))
            elif (
                depth and hasattr(leaf, "__dict__") and not isinstance(leaf, (torch.nn.Module, type, types.ModuleType))
            ):
                look((*at, "."), vars(leaf), depth - 1)

    look((), {name: value for name, value in scope.items() if not isinstance(value, torch.nn.Module)}, 2)
    return found


def _marks_of(tensor: torch.Tensor) -> dict[str, Any]:
    return {name: value for name, value in vars(tensor).items() if name.startswith(_MARKS)}


class _marked:
    """While it lives, the tensors have the marks of the examples, and no others."""

    def __init__(self, scope: dict[str, Any], marks: list[tuple[Any, dict[str, Any]]]) -> None:
        wanted = {tuple(path): given for path, given in marks}
        self.tensors = [(tensor, wanted[tuple(path)]) for path, tensor in _tensors(scope) if tuple(path) in wanted]

    def __enter__(self) -> None:
        self.before = [(tensor, _marks_of(tensor)) for tensor, _ in self.tensors]
        for tensor, marks in self.tensors:
            vars(tensor).update(marks)

    def __exit__(self, *error: Any) -> None:
        for (tensor, before), (_, given) in zip(self.before, self.tensors, strict=True):
            for name in given:
                vars(tensor).pop(name, None)
            vars(tensor).update(before)


# ---- sources


def _inlined(lines: Any) -> set[InlinedSource]:
    found = set()
    modules = {getattr(module, "__file__", None): name for name, module in list(sys.modules.items())}
    for file in {file for file, _ in lines}:
        content = "".join(linecache.getlines(file))
        name = modules.get(file)
        if not content or name is None:
            continue
        numbers = [number for path, number in lines if path == file]
        digest = hashlib.sha256(content.encode()).hexdigest()
        found.add(InlinedSource(name, min(numbers), max(numbers), digest, content))
    return found


# ---- files


class _Globals:
    """Stands for the globals of a module: those of the process that loads the file."""

    def __init__(self, module: str) -> None:
        self.module = module


class _Pickler(_by_value.Pickler):
    def __init__(self, file: Any, root: types.FunctionType, external: dict[str, Any]) -> None:
        super().__init__(file)
        self.root = root
        self.names = {id(value): name for name, value in external.items()}
        self.refused: list[Any] = []

    def persistent_id(self, value: Any) -> Any:
        if id(value) in self.names:
            return self.names[id(value)]
        if isinstance(value, _Globals):
            return value.module, value.module == self.root.__module__
        if isinstance(value, torch.nn.Module):
            self.refused.append(value)
            return "?"
        return None

    def reducer_override(self, value: Any) -> Any:
        # The module may have something else under the function's name: what compile returned.
        return self.function(value) if value is self.root else super().reducer_override(value)

    def scope(self, function: types.FunctionType) -> tuple[Any, dict[str, Any]]:
        return _Globals(function.__module__), {}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, external: dict[str, Any], f_globals: dict[str, Any] | None) -> None:
        super().__init__(file)
        self.external, self.f_globals = external, f_globals

    def persistent_load(self, name: Any) -> Any:
        if isinstance(name, tuple):
            module, is_own = name
            given = self.f_globals if is_own else None
            return given if given is not None else importlib.import_module(module).__dict__
        if name not in self.external:
            raise RuntimeError(f"load_compiled_function: external_data has no {name!r}, which the function holds")
        return self.external[name]


def _made_state(backend: _Backend) -> Any:
    """What a backend of the program's made, as (digest, how to make it of bytes, bytes); None: the backend is called by
    its name again."""
    if backend.made is None:
        return None
    digest, compiled = backend.made
    kind = type(compiled)
    if not hasattr(kind, "serialize_compile_artifacts") or not hasattr(kind, "deserialize_compile_artifacts"):
        raise RuntimeError(
            f"save_compiled_function: what the backend {backend.compiler_name!r} made ({kind.__qualname__}) has no "
            "serialize_compile_artifacts and deserialize_compile_artifacts (torch._dynamo.aot_compile.SerializableCallable)"
        )
    return digest, kind.deserialize_compile_artifacts, kind.serialize_compile_artifacts(compiled)


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    options = {k: v for k, v in (arguments.get("options") or {}).items() if k != "guard_filter_fn"}
    kept = {k: v for k, v in arguments.items() if k not in ("options", "backend")}
    if options:
        kept["options"] = options
    if isinstance(arguments.get("backend"), str):
        kept["backend"] = arguments["backend"]
    return _saved._plain_arguments(kept)  # type: ignore[no-untyped-call, no-any-return]


def _write(made: CompiledAhead, path: str, external: dict[str, Any]) -> None:
    backend = made._backend
    parts = _saved._Parts()  # type: ignore[no-untyped-call]
    if backend.asked == "inductor":
        for place, keys in _core.kept(made._call)[0]:
            for key in keys:
                found = _saved._parts_of(key, _disk.folder(), None)  # type: ignore[no-untyped-call]
                if isinstance(found, str):
                    raise RuntimeError(f"save_compiled_function: {_saved._place(place)}: {found}")  # type: ignore[no-untyped-call]
                parts.add(key, _saved._place(place), found)  # type: ignore[no-untyped-call]
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, made._function, external)
    code = made._function.__code__
    lines = backend.sources | {(code.co_filename, code.co_firstlineno)}
    sources = [dataclasses.astuple(source) for source in _inlined(lines)]
    pickler.dump({"function": made._function, "marks": made._marks, "made": _made_state(backend),
                  "wanted": made._wanted, "sources": sources})  # fmt: skip
    if pickler.refused:
        raise RuntimeError(
            f"save_compiled_function: the function holds modules, which are not written: {pickler.refused!r:.300}. "
            "Name them in external_data={...}, here and at load_compiled_function"
        )
    facts = {"versions": _disk.versions(), "machine": _core.disk_machine(), "graphs": parts.graphs, "learned": {},  # type: ignore[no-untyped-call]
             "arguments": _plain(made._arguments)}  # fmt: skip
    problem = _core.disk_write_file(path, _KEY, [marshal.dumps(facts), *parts.parts, buffer.getvalue()])
    if problem is not None:
        raise OSError(f"{path}: {problem}")


class _File:
    """A file of save_compiled_function's."""

    def __init__(self, path: str, external: dict[str, Any], f_globals: dict[str, Any] | None) -> None:
        self.graphs: Any = _saved.File(path, "error", _KEY)  # type: ignore[no-untyped-call]
        self.arguments = self.graphs.arguments
        state = _Unpickler(io.BytesIO(self.graphs.last_part()), external, f_globals).load()  # type: ignore[no-untyped-call]
        self.function, self.marks, self.wanted = state["function"], state["marks"], state["wanted"]
        self.sources = state["sources"]
        self.made = None
        if state["made"] is not None:
            digest, load, data = state["made"]
            self.made = digest, load(data)
        if not self.graphs.graphs:
            self.graphs = None  # nothing of inductor's: the backend is called, or `made` is what it gave

    def source_info(self) -> SourceInfo:
        return SourceInfo({InlinedSource(*each) for each in self.sources})


def is_saved(data: bytes) -> bool:
    """Whether these are a file of ours, and not one of TorchDynamo's."""
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(data)
        copy.flush()
        return not isinstance(_core.disk_read_file(copy.name, _KEY), str)


def load_compiled_function(
    file: Any, *, f_globals: dict[str, Any] | None = None, external_data: dict[str, Any] | None = None
) -> CompiledAhead:
    """What save_compiled_function wrote, from a file that is open for reading bytes.

    f_globals: the globals of the function, by default those of its module, which is imported. external_data: as it was
    given when the file was written. The file holds code that runs: load it from nobody whose code you would not run.
    """
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(file.read())
        copy.flush()
        kept = _File(copy.name, external_data or {}, f_globals)
    return CompiledAhead(kept.function, kept.arguments, kept)
