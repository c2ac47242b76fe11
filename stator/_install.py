"""stator.install(): torch.compile, torch.compiler.*, nn.Module.compile and the names of torch._dynamo that libraries
call mean Stator's.

torch._dynamo itself is not imported for this: its names are replaced at once if it is loaded, and otherwise when
somebody loads it. Its settings (torch._dynamo.config) stay where they are; changes there hold for Stator too.
"""

import contextlib
import functools
import io
import sys
import threading

import torch

import stator
from stator import _answers, _backends, _compile, _dynamo_settings, _held_classes, _torch_names
from stator import config as _config
from stator._loaded import when_loaded

# Under these names torch.compiler and torch._dynamo have what Stator has.
_COMPILER = (
    "allow_in_graph", "assume_constant_result", "compile", "disable", "is_compiling", "is_dynamo_compiling", "list_backends", "reset",
    "set_enable_guard_collectives", "set_stance", "substitute_in_graph",
)  # fmt: skip
_DYNAMO = (
    "allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "dont_skip_tracing", "error_on_graph_break", "explain",
    "export",
    "forbid_in_graph", "graph_break", "is_compiling", "list_backends", "lookup_backend", "mark_dynamic", "mark_static",
    "mark_static_address", "maybe_mark_dynamic", "nonstrict_trace", "optimize", "optimize_assert", "OptimizedModule",
    "replay", "reset", "run", "set_stance", "skip_frame", "step_unsupported", "substitute_in_graph", "patch_dynamo_config",
)  # fmt: skip

_lock = threading.RLock()
_undo = None  # while installed: what puts everything back


def optimize(
    backend="inductor",
    *,
    nopython=False,
    error_on_graph_break=None,
    guard_export_fn=None,
    guard_fail_fn=None,
    guard_filter_fn=None,
    disable=False,
    dynamic=None,
    package=None,
    recompile_limit=None,
    isolate_recompiles=False,
    shapes_spec=None,
):
    """torch._dynamo.optimize's form of stator.compile: returns a decorator."""
    if package is not None:
        _answers.once("optimize(package=...)", "captures are not kept in TorchDynamo's packages", "leave it out")
    if disable:
        return lambda fn: fn
    given = dict(backend=backend, fullgraph=nopython, dynamic=dynamic, recompile_limit=recompile_limit,
                 isolate_recompiles=isolate_recompiles, shapes_spec=shapes_spec)  # fmt: skip
    if guard_filter_fn is not None:
        given["options"] = {"guard_filter_fn": guard_filter_fn}
    hooks = {"guard_export_fn": guard_export_fn, "guard_fail_fn": guard_fail_fn}
    hooks = {name: function for name, function in hooks.items() if function is not None}

    def decorate(fn):
        compiled = _compile.compile_with(fn, given, hooks)
        return compiled if error_on_graph_break is None else stator.error_on_graph_break(error_on_graph_break)(compiled)

    return decorate


def optimize_assert(backend="inductor", **arguments):
    """The same with fullgraph=True."""
    return optimize(backend, nopython=True, **arguments)


def _replacement(name):
    if name == "is_dynamo_compiling":
        return stator.is_compiling
    if name in ("optimize", "optimize_assert", "patch_dynamo_config"):
        return globals()[name]
    if name == "step_unsupported":
        return stator.graph_break
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


class _answering(contextlib.ContextDecorator, contextlib.nullcontext):
    """In the place of a decorator or context manager that has no effect."""


def _answer_for(name, returns, why, instead):
    def answer(*args, **kwargs):
        _answers.once(f"torch._dynamo.{name}", why, instead)
        if returns == "nothing":
            return None
        if args and (returns == "first" or callable(args[0])):
            return args[0]
        return _answering()

    answer.__name__ = answer.__qualname__ = name
    return answer


class _AnsweringModule:
    """In the place of a module that is of no use here: every look at it is answered, and goes to torch's."""

    def __init__(self, module, why, instead):
        self.__dict__.update(module=module, why=why, instead=instead)

    def __getattr__(self, name):
        value = getattr(self.module, name)
        if sys._getframe(1).f_globals.get("__name__", "").startswith("torch."):
            return value  # TorchDynamo at work, for a function of its own
        _answers.once(self.module.__name__, self.why, self.instead)
        return value


def patch_dynamo_config(arg1=None, arg2=None, **changes):
    """Settings of torch._dynamo.config for a while, as far as Stator has them: a context manager and decorator."""
    given = {arg1: arg2} if isinstance(arg1, str) else {**(arg1 or {}), **changes}
    known = {name: value for name, value in given.items() if name in _config.get_config_copy()}
    for name, value in given.items():
        if name not in known:
            answered = _dynamo_settings.answer(name, value)
            if answered is not None:
                _answers.once(f"patch_dynamo_config({name}={value!r})", *answered)
    return _config.patch(known) if known else _answering()


def _replace_dynamo(undo, dynamo):
    for name in _DYNAMO:
        _replace(undo, dynamo, name, _replacement(name))
    for name, (returns, why, instead) in _torch_names.ANSWERED.items():
        _replace(undo, dynamo, name, _answer_for(name, returns, why, instead))
    debugger = getattr(dynamo, "bytecode_debugger", None)
    if debugger is not None:
        why, instead = "there is no generated bytecode", "TORCH_LOGS=bytecode shows what runs instead"
        _replace(undo, dynamo, "bytecode_debugger", _AnsweringModule(debugger, why, instead))
    # Errors are caught by TorchDynamo's classes. Those stay where they are: TorchDynamo, which may have functions of
    # its own in the process, raises and catches them by these names.
    theirs = sys.modules.get("torch._dynamo.exc")
    if theirs is not None:
        _held_classes.join_errors(undo, theirs)
    frames = sys.modules.get("torch._dynamo.eval_frame")
    if frames is not None:
        _replace(undo, frames, "OptimizedModule", _held_classes.standing_for(frames.OptimizedModule))


def _late_artifacts(name):
    """stator/_artifacts.py's function, which is imported when it is called."""
    theirs = getattr(torch.compiler, name)

    @functools.wraps(theirs)
    def call(*args, **kwargs):
        from stator import _artifacts

        return getattr(_artifacts, name)(*args, **kwargs)

    return call


def _loading(theirs):
    """torch.compiler.load_compiled_function: of files of ours, and of TorchDynamo's by TorchDynamo."""

    @functools.wraps(theirs)
    def load_compiled_function(file, **arguments):
        from stator import _ahead

        data = io.BytesIO(file.read())
        return (_ahead.load_compiled_function if _ahead.is_saved(data.getvalue()) else theirs)(data, **arguments)

    return load_compiled_function


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
        for name in ("save_cache_artifacts", "load_cache_artifacts"):
            _replace(undo, torch.compiler, name, _late_artifacts(name))
        if hasattr(torch.compiler, "load_compiled_function"):
            _replace(undo, torch.compiler, "load_compiled_function", _loading(torch.compiler.load_compiled_function))
        _undo = undo
        _now_or_when_loaded(undo, "torch._dynamo", _replace_dynamo)
        # torch.export(strict=True) then asks torch._dynamo.export, which is Stator's.
        _now_or_when_loaded(
            undo,
            "torch._export.config",
            lambda undo, module: _replace(undo, module, "use_new_tracer_experimental", False),
        )


def _now_or_when_loaded(undo, name, replace):
    def loaded(module):
        with _lock:
            if _undo is undo:
                replace(undo, module)

    undo.callback(when_loaded(name, loaded))


def uninstall():
    """Gives torch its own functions back. What was compiled meanwhile stays Stator's."""
    global _undo
    with _lock:
        if _undo is not None:
            _undo.close()
            _undo = None


for _switch in (install, uninstall):
    _switch.__dict__["_torchdynamo_disable"] = True  # captures of TorchDynamo's do not look into them


def installed():
    return _undo is not None
