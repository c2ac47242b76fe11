"""The exec recorder: with config.replay_record_enabled, a capture that raises leaves a record, from which it can be run
again elsewhere.

A record is the frame as it was where the capture began: its function, the values in it, and the instruction. Functions
and classes that no importable module has are in it by value, with the globals that they read. A record is a pickle:
replaying one runs what it holds.
"""

import contextlib
import dataclasses
import dis
import importlib
import logging
import marshal
import os
import pickle
import sys
import types
from typing import Any

import torch

from stator import _core, config, exc

log = logging.getLogger("stator.debug")


@dataclasses.dataclass
class ExecutionRecord:
    """A frame whose capture raised."""

    function: Any
    slots: list  # values of locals, cells and closure, in the code's order; Null for what is unbound
    stack: list
    offset: int  # of the instruction where the capture began
    settings: dict = dataclasses.field(default_factory=dict)  # arguments of stator.compile that can be kept
    config: dict = dataclasses.field(default_factory=dict)  # what is not as by default
    error: str = ""

    @property
    def code(self):
        return self.function.__code__

    @property
    def locals(self):
        names = self.code.co_varnames
        return {n: v for n, v in zip(names, self.slots, strict=False) if not isinstance(v, Null)}

    def dump(self, file):
        torch.save(self, file, pickle_module=_ByValue)

    @classmethod
    def load(cls, file):
        record = torch.load(file, weights_only=False)
        if not isinstance(record, cls):
            raise TypeError(f"not a record of stator.debug: a {type(record).__name__}")
        return record


class Null:
    """Stands for nothing: an unbound local, CPython's NULL."""


# ---- pickling by value


def _is_importable(value):
    """Whether another process finds the very same thing under its name."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    if module is None or module.__name__ == "__main__":
        return False
    found = module
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def _global_names(code):
    """What code and the functions in it may read of their module."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


class _Namespace:
    """The globals of functions that are pickled by value: one dict for all of one module."""

    def __init__(self, name):
        self.name = name

    def __reduce__(self):
        return _new_namespace, (self.name,)


def _new_namespace(name):
    return {"__name__": name, "__builtins__": __builtins__}


def _new_function(code, namespace, free):
    return types.FunctionType(marshal.loads(code), namespace, closure=tuple(types.CellType() for _ in range(free)))


def _fill_function(function, state):
    for cell, value in zip(function.__closure__ or (), state.pop("cells"), strict=True):
        _fill_cell(cell, value)
    function.__globals__.update(state.pop("globals"))
    for name, value in state.items():
        setattr(function, name, value)


def _new_cell():
    return types.CellType()


def _fill_cell(cell, value):
    if not isinstance(value, Null):
        cell.cell_contents = value


def _cell_value(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return Null()


def _new_class(metaclass, name, bases, first):
    return types.new_class(name, bases, {"metaclass": metaclass}, lambda namespace: namespace.update(first))


def _fill_class(cls, state):
    for name, value in state.items():
        with contextlib.suppress(AttributeError, TypeError):
            type.__setattr__(cls, name, value)


_MADE_BY_PYTHON = ("__dict__", "__weakref__", "__abstractmethods__", "_abc_impl")


class _ByValue:
    """A pickle module, as torch.save takes one."""

    class Pickler(pickle.Pickler):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.namespaces = {}

        def reducer_override(self, value):
            if isinstance(value, types.FunctionType):
                return NotImplemented if _is_importable(value) else self.function(value)
            if isinstance(value, type):
                return NotImplemented if value.__module__ == "builtins" or _is_importable(value) else self.cls(value)
            if isinstance(value, types.ModuleType):
                return importlib.import_module, (value.__name__,)
            if isinstance(value, types.CodeType):
                return marshal.loads, (marshal.dumps(value),)
            if isinstance(value, types.CellType):
                return _new_cell, (), _cell_value(value), None, None, _fill_cell
            return NotImplemented

        def function(self, value):
            read = value.__globals__
            namespace = self.namespaces.setdefault(id(read), _Namespace(read.get("__name__", "__main__")))
            cells = value.__closure__ or ()
            state = {
                "cells": [_cell_value(cell) for cell in cells],
                "globals": {n: read[n] for n in sorted(_global_names(value.__code__)) if n in read},
                **{n: getattr(value, n) for n in ("__defaults__", "__kwdefaults__", "__module__", "__qualname__")},
                "__dict__": dict(value.__dict__),
            }
            made = _new_function, (marshal.dumps(value.__code__), namespace, len(cells))
            return *made, state, None, None, _fill_function

        def cls(self, value):
            slots = value.__dict__.get("__slots__", ())
            members = {slots} if isinstance(slots, str) else set(slots)
            state = {n: v for n, v in value.__dict__.items() if n not in _MADE_BY_PYTHON and n not in members}
            # What the making of a class looks at has to be there at once.
            first = {n: state.pop(n) for n in ("__slots__", "__module__", "__qualname__", "__doc__") if n in state}
            state.pop("__slots__", None)
            made = _new_class, (type(value), value.__name__, value.__bases__, first)
            return *made, state, None, None, _fill_class

    dumps = staticmethod(pickle.dumps)
    __name__ = "stator.debug._record"


# ---- making and replaying


def _settings(arguments):
    """Those arguments of a compile call that mean the same in another process."""
    return {k: v for k, v in arguments.items() if k in ("fullgraph", "dynamic", "recompile_limit")}


def capture_failed(function, slots, stack, offset, settings, error):
    """Called where a capture raises (runtime/entry.cpp). Puts the record on the error, and writes it."""
    if isinstance(error, exc.BackendCompilerFailed):
        return  # repro_after is for these
    changed = {n: v for n, v in config.get_config_copy().items() if v != config._ENTRIES[n].default}
    changed.pop("replay_record_enabled", None)
    values, rest = ([Null() if v is _core.NULL else v for v in part] for part in (slots, stack))
    record = ExecutionRecord(
        function, values, rest, offset, _settings(settings.arguments), changed, f"{type(error).__name__}: {error}"
    )
    error.exec_record = record
    try:
        path = _write(record, error)
    except Exception as problem:  # whatever a program holds that cannot be pickled
        log.warning("the failing capture was not recorded: %s: %s", type(problem).__name__, problem)
        return
    error.record_filename = path
    error.add_note(f"recorded; stator.replay({path!r}) runs it again")


def _write(record, error):
    from stator.debug import _inputs, _scripts

    code = record.code
    folder = os.path.join(_scripts.this_run().folder, "error_recordings")
    path = os.path.join(folder, f"{code.co_name}_{type(error).__name__}_{code.co_firstlineno}.rec")
    os.makedirs(folder, exist_ok=True)
    _inputs.write_file(path, record.dump)
    return path


def replay(filename, backend="eager", **arguments):
    """Runs a recorded frame again, compiled: what its capture raised is raised again, or its value is returned.

    The file is a pickle: replay records that you trust.
    """
    from stator._compile import Compiler

    with open(filename, "rb") as file:
        record = ExecutionRecord.load(file)
    compiler = Compiler({**record.settings, "backend": backend, **arguments})
    slots, stack = ([_core.NULL if isinstance(v, Null) else v for v in part] for part in (record.slots, record.stack))
    with config.patch({**record.config, "replay_record_enabled": False}):
        return _core.run_pending([(record.function, record.offset, slots, stack)], compiler.cache)
