"""stator.install(): torch.compile, torch.compiler.*, nn.Module.compile and the names of torch._dynamo that libraries call mean Stator's.

torch._dynamo itself is not imported for this: its names are replaced at once if it is loaded, and otherwise when somebody loads it. Its
settings (torch._dynamo.config) stay where they are; changes there hold for Stator too.
"""

import contextlib
import importlib.abc
import importlib.machinery
import sys
import threading

import torch

import stator
from stator import _backends, exc

# Under these names torch.compiler and torch._dynamo have what Stator has.
_COMPILER = (
    "allow_in_graph", "assume_constant_result", "compile", "disable", "is_compiling", "is_dynamo_compiling", "list_backends", "reset",
    "set_enable_guard_collectives", "set_stance", "substitute_in_graph",
)  # fmt: skip
_DYNAMO = (
    "allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "dont_skip_tracing", "error_on_graph_break", "explain",
    "export",
    "forbid_in_graph", "graph_break", "is_compiling", "list_backends", "lookup_backend", "mark_dynamic", "mark_static",
    "mark_static_address", "maybe_mark_dynamic", "nonstrict_trace", "optimize", "optimize_assert", "OptimizedModule", "register_backend",
    "reset", "run", "set_stance", "skip_frame", "substitute_in_graph",
)  # fmt: skip

_lock = threading.RLock()
_undo = None  # while installed: what puts everything back


def optimize(backend="inductor", *, nopython=False, disable=False, dynamic=None, guard_fail_fn=None, **_):
    """torch._dynamo.optimize's form of stator.compile: returns a decorator."""
    if disable:
        return lambda fn: fn
    return lambda fn: stator.compile(fn, backend=backend, fullgraph=nopython, dynamic=dynamic)


def optimize_assert(backend="inductor", **arguments):
    """The same with fullgraph=True."""
    return optimize(backend, nopython=True, **arguments)


def _replacement(name):
    if name == "is_dynamo_compiling":
        return stator.is_compiling
    if name in ("optimize", "optimize_assert"):
        return globals()[name]
    return getattr(stator, name)


def _compile_module(self, *args, **kwargs):
    """Compiles this module's calls in place, with stator.compile's arguments."""
    self._compiled_call_impl = stator.compile(self._call_impl, *args, **kwargs)


def _replace(undo, owner, name, new):
    if not hasattr(owner, name):
        return
    old = getattr(owner, name)
    setattr(owner, name, new)
    undo.callback(setattr, owner, name, old)


def _replace_dynamo(undo, dynamo):
    for name in _DYNAMO:
        _replace(undo, dynamo, name, _replacement(name))
    # Errors are caught by their names in torch._dynamo.exc.
    theirs = sys.modules.get("torch._dynamo.exc")
    for name in exc.__all__ if theirs is not None else ():
        if isinstance(getattr(theirs, name, None), type):
            _replace(undo, theirs, name, getattr(exc, name))


class _WhenLoaded(importlib.abc.MetaPathFinder):
    """Calls back once torch._dynamo has been executed."""

    def __init__(self, call):
        self.call = call

    def find_spec(self, name, path=None, target=None):
        if name != "torch._dynamo":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self.call(module)

        spec.loader.exec_module = exec_module
        return spec


def install():
    """Routes torch.compile and its relatives to Stator until uninstall(). Calling it twice is calling it once."""
    global _undo
    with _lock:
        if _undo is not None:
            return
        undo = contextlib.ExitStack()
        _replace(undo, torch, "compile", stator.compile)
        _replace(undo, torch.nn.Module, "compile", _compile_module)
        for name in _COMPILER:
            _replace(undo, torch.compiler, name, _replacement(name))
        _replace(undo, torch.compiler, "set_default_backend", _backends.set_default_backend)
        _replace(undo, torch.compiler, "get_default_backend", _backends.get_default_backend)
        if "torch._dynamo" in sys.modules:
            _replace_dynamo(undo, sys.modules["torch._dynamo"])
        else:
            finder = _WhenLoaded(lambda module: _loaded(undo, module))
            sys.meta_path.insert(0, finder)
            undo.callback(lambda: finder in sys.meta_path and sys.meta_path.remove(finder))
        _undo = undo


def _loaded(undo, module):
    with _lock:
        if _undo is undo:
            _replace_dynamo(undo, module)


def uninstall():
    """Gives torch its own functions back. What was compiled meanwhile stays Stator's."""
    global _undo
    with _lock:
        if _undo is not None:
            _undo.close()
            _undo = None


def installed():
    return _undo is not None
