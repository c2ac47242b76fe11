"""Pickles functions and classes by value: those that no importable module has under their name. The module has what
torch.save asks of a `pickle_module`."""

from __future__ import annotations

import contextlib
import dis
import importlib
import marshal
import pickle
import pkgutil
import types
from collections.abc import Callable
from typing import Any


class Null:
    """Stands for nothing: an unbound local, an empty cell, CPython's NULL."""


class Pickler(pickle.Pickler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.namespaces: dict[int, _Namespace] = {}

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            return NotImplemented if _is_importable(value) else self.function(value)
        if isinstance(value, type):
            return NotImplemented if value.__module__ == "builtins" or _is_importable(value) else _class(value)
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if isinstance(value, types.CodeType):
            return marshal.loads, (marshal.dumps(value),)
        if isinstance(value, types.CellType):
            return _new_cell, (), _cell_value(value), None, None, _fill_cell
        return NotImplemented

    def scope(self, function: types.FunctionType) -> tuple[Any, dict[str, Any]]:
        """What stands for a function's globals, one for all functions of a module, and what is put into them."""
        read = function.__globals__
        namespace = self.namespaces.setdefault(id(read), _Namespace(read.get("__name__", "__main__")))
        return namespace, {n: read[n] for n in sorted(_global_names(function.__code__)) if n in read}

    def function(self, value: types.FunctionType) -> Any:
        """As reducer_override gives it."""
        cells = value.__closure__ or ()
        namespace, names = self.scope(value)
        state = {
            "cells": [_cell_value(cell) for cell in cells],
            "globals": names,
            **{n: getattr(value, n) for n in ("__defaults__", "__kwdefaults__", "__module__", "__qualname__")},
            "__dict__": dict(value.__dict__),
        }
        made = _new_function, (marshal.dumps(value.__code__), namespace, len(cells))
        return *made, state, None, None, _fill_function


def _is_importable(value: Any) -> bool:
    """Whether another process finds the very same thing under its name."""
    if value.__module__ is None or value.__module__ == "__main__":
        return False
    try:
        return pkgutil.resolve_name(f"{value.__module__}:{value.__qualname__}") is value
    except (ImportError, AttributeError, ValueError):
        return False


def _global_names(code: types.CodeType) -> set[str]:
    """What code and the functions in it may read of their module."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_global_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))


class _Namespace:
    """The globals of functions: one dict for all of one module."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return _new_namespace, (self.name,)


def _new_namespace(name: str) -> dict[str, Any]:
    return {"__name__": name, "__builtins__": __builtins__}


def _new_function(code: bytes, namespace: dict[str, Any], free: int) -> types.FunctionType:
    return types.FunctionType(marshal.loads(code), namespace, closure=tuple(types.CellType() for _ in range(free)))


def _fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    for cell, value in zip(function.__closure__ or (), state.pop("cells"), strict=True):
        _fill_cell(cell, value)
    function.__globals__.update(state.pop("globals"))
    for name, value in state.items():
        setattr(function, name, value)


def _new_cell() -> types.CellType:
    return types.CellType()


def _fill_cell(cell: types.CellType, value: Any) -> None:
    if not isinstance(value, Null):
        cell.cell_contents = value


def _cell_value(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return Null()


_MADE_BY_PYTHON = ("__dict__", "__weakref__", "__abstractmethods__", "_abc_impl")


def _class(value: type) -> Any:
    slots = value.__dict__.get("__slots__", ())
    members = {slots} if isinstance(slots, str) else set(slots)
    state = {n: v for n, v in value.__dict__.items() if n not in _MADE_BY_PYTHON and n not in members}
    # What the making of a class looks at has to be there at once.
    first = {n: state.pop(n) for n in ("__slots__", "__module__", "__qualname__", "__doc__") if n in state}
    made: Callable[..., Any] = _new_class
    return made, (type(value), value.__name__, value.__bases__, first), state, None, None, _fill_class


def _new_class(metaclass: type, name: str, bases: tuple[type, ...], first: dict[str, Any]) -> type:
    return types.new_class(name, bases, {"metaclass": metaclass}, lambda namespace: namespace.update(first))


def _fill_class(cls: type, state: dict[str, Any]) -> None:
    for name, value in state.items():
        with contextlib.suppress(AttributeError, TypeError):
            type.__setattr__(cls, name, value)
