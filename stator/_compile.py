"""stator.compile: arguments and their errors as torch.compile has them, and what comes out for each kind of
callable."""

import functools
import importlib
import os
import sys
import types
import warnings

import torch

from stator import _caches, _core, _modules, _torch_bisector, _torch_config, config
from stator._backends import Backend
from stator.polyfills import callables


def compile(
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend=None,
    mode=None,
    options=None,
    name=None,
    disable=False,
    recompile_limit=None,
    isolate_recompiles=False,
    shapes_spec=None,
):
    """Captures what `model` does into graphs, compiles them with `backend`, and runs these whenever their guards hold.

    model: a function, method, lambda, other callable, or nn.Module; left out, a decorator is returned.
    fullgraph: one graph or an error; dynamic: True all sizes dynamic, False none, None those that change.
    backend: a name (list_backends()) or a callable (graph_module, example_inputs) -> callable; "inductor" by default.
    mode, options: for the backend; not both. name: a label for the region in debug output.
    disable: return `model` as it is. recompile_limit: in place of config.recompile_limit.
    isolate_recompiles: no sharing of captured graphs with other compile calls.
    shapes_spec: which sizes and ints of the arguments are dynamic, all others being static
    (torch.fx.experimental.dynamic_spec).
    """
    if mode is not None and options is not None:
        raise RuntimeError("mode and options exclude each other: give one of them")
    if recompile_limit is not None and (type(recompile_limit) is not int or recompile_limit < 1):
        raise ValueError(f"recompile_limit is a positive int, not {recompile_limit!r}")
    for argument, value in (("fullgraph", fullgraph), ("disable", disable), ("isolate_recompiles", isolate_recompiles)):
        if value is not None and value not in (True, False):  # `"no"` would be yes
            raise TypeError(f"{argument} is True or False, not {value!r}")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name is a text, not {name!r}")
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TypeError(f"dynamic is None, True or False, not {dynamic!r}")
    if shapes_spec is not None:
        if dynamic is not None:
            raise ValueError("`dynamic` and `shapes_spec` cannot both be set: shapes_spec says what is dynamic")
        shapes_spec = importlib.import_module("stator._shapes_spec").normal(shapes_spec)
    if isinstance(options, dict):
        options = _taken(options)
    given = dict(fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, name=name,
                 recompile_limit=recompile_limit, isolate_recompiles=isolate_recompiles,
                 shapes_spec=shapes_spec)  # fmt: skip
    if model is None:
        return functools.partial(_decorate, dict(given, disable=disable))
    if disable:
        _check_callable(model)
        return model
    return _compiled(model, given)


def _taken(options):
    """A copy, so that later changes of the dict are not changes of what was asked. Under torch's own name compile does
    what torch.compile does with the caller's dict: what is not for the backend is taken out of it, and callers count on
    that (vLLM makes its cache keys of what is left)."""
    taken = dict(options)
    if torch.compile is compile:
        for name in ("guard_filter_fn", "use_aoti"):
            options.pop(name, None)
    return taken


_debugging = os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1"


def compiled_from(model, given, file):
    """compile(model, **given), with what a file has (stator.load)."""
    return _compiled(model, given, file)


def _compiled(model, given, file=None):
    _check_callable(model)
    if _debugging:
        importlib.import_module("stator._debug_dir").start()
    _torch_config.follow_all()  # captures follow it by themselves, but where compiling is switched off there are none
    if config.disable:
        return model
    if torch.compiler.is_exporting():
        warnings.warn("stator.compile does nothing inside torch.export", stacklevel=3)
        return model
    given = dict(given, backend=_torch_bisector.backend_for(given.get("backend")))
    kept = {k: v for k, v in given.items() if v is not None and (k == "dynamic" or v is not False)}
    return Compiler(kept, file)(model)


def compile_with(model, arguments, hooks):
    """compile(model, **arguments) with functions that are told of guards (optimize's guard_export_fn and
    guard_fail_fn)."""
    if not hooks:
        return compile(model, **arguments)
    compile(lambda: None, **dict(arguments, backend="eager"))  # checks the arguments
    return _compiled(model, {**arguments, **hooks})


def _decorate(arguments, model):
    if model is None:
        raise RuntimeError("Model can't be None")
    options = arguments["options"]
    return compile(model, **dict(arguments, options=dict(options) if isinstance(options, dict) else options))


def _check_callable(model):
    if not callable(model):
        raise TypeError(f"stator.compile takes a callable, not {type(model).__name__} ({model!r:.100})")


class Compiler:
    """Compiles callables with the same settings and one cache, which it owns. Pickles as the arguments of the compile
    call."""

    def __init__(self, arguments, file=None):
        self.settings = _caches.Settings(
            backend=Backend(*(arguments.get(k) for k in ("backend", "mode", "options", "dynamic", "name")), file=file),
            fullgraph=bool(arguments.get("fullgraph")),
            dynamic=arguments.get("dynamic"),
            recompile_limit=arguments.get("recompile_limit"),
            isolate_recompiles=bool(arguments.get("isolate_recompiles")),
            arguments=arguments,
        )
        self.cache = _caches.cache_for(self.settings)

    def __call__(self, model):
        return apply(model, self, self._compiled)

    def _compiled(self, function):
        spec = self.settings.arguments.get("shapes_spec")
        if spec is not None:
            checks, asks = importlib.import_module("stator._shapes_spec").enforcing(function, spec)
            self.settings.dynamic_sources = checks.__code__, asks
            return _core.CompiledFunction(checks, self.cache)
        with_frame = _with_frame(function)
        if with_frame is function:
            _caches.keep(function, self.cache)
        return _core.CompiledFunction(with_frame, self.cache)

    def __reduce__(self):
        return Compiler, (self.settings.arguments,)


_TORCH = os.path.dirname(torch.__file__) + os.sep
# Callables whose calls make no frame that could be captured. Functions of torch's own have one, but captures do not
# begin in them.
_FRAMELESS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
)


def _with_frame(function):
    """The function, or one of ours that calls it, where its own call has nothing to capture."""
    if getattr(function, "_stator_sets_stance", False):
        return functools.wraps(function)(callables.forbidden(function.__name__))
    called = function
    while isinstance(called, functools.partial):
        called = called.func
    of_torch = isinstance(called, types.FunctionType) and called.__code__.co_filename.startswith(_TORCH)
    if not of_torch and not isinstance(called, _FRAMELESS):
        return function
    return functools.update_wrapper(callables.calling(function), function)


def forced_caches(backend):
    """For set_stance(force_backend=): a function from a cache to the one that serves in its place."""
    made = {}

    def forced(cache):
        found = made.get(id(cache))
        if found is None:
            arguments = {k: v for k, v in cache.settings.arguments.items() if k not in ("mode", "options")}
            found = made[id(cache)] = (cache, Compiler({**arguments, "backend": backend}).cache)
        return found[1]

    return forced


def apply(model, again, make):
    """What compiling or disabling gives for each kind of callable: `make` wraps a function, `again` any callable."""
    _check_callable(model)
    model = innermost(model)
    if isinstance(model, torch.nn.Module):
        if isinstance(model, torch.jit.ScriptModule):
            raise RuntimeError(
                "a torch.jit.ScriptModule cannot be captured: compile the eager module that it was made from"
            )
        return _modules.wrap(model, again)
    if isinstance(model, type):
        # A decorated class: its objects' calls are compiled.
        model.__call__ = make(innermost(model.__call__))
        if issubclass(model, torch.nn.Module):
            model._call_impl = make(innermost(model._call_impl))
        return model
    return make(model)


def innermost(model):
    """The callable inside compiled and disabled ones, Stator's and TorchDynamo's: compiling twice means the second
    arguments."""
    while True:
        model = _modules.unwrap(model)
        inner = getattr(model, "_torchdynamo_orig_callable", None)
        # TorchDynamo's mark is copied along by functools.wraps; the id tells whose it is.
        if inner is None or getattr(model, "_torchdynamo_wrapper_id", None) != id(model):
            return model
        model = model._orig_mod if isinstance(model, torch.nn.Module) else inner


def compile_module_inplace(module, **arguments):
    """Compiles calls of this very module object, as `module.compile()` does with torch.compile. Arguments are
    compile's."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"compile_module_inplace takes an nn.Module, not {type(module).__name__}")
    _modules.compile_in_place(module, lambda call: compile(call, **arguments))


def _reduce_compiled(compiled):
    """How a compiled function pickles: by name if it is found under its name, as functions are, otherwise to be
    compiled again."""
    module, qualname = (
        getattr(compiled, "__module__", None),
        getattr(compiled, "__qualname__", None),
    )
    found = sys.modules.get(module)
    for part in (qualname or "").split("."):
        found = getattr(found, part, None)
    if found is compiled:
        return qualname
    if compiled._stator_cache is None:
        return importlib.import_module("stator._switches").disable, (compiled.__wrapped__,)
    return _compile_again, (compiled.__wrapped__, compiled._stator_cache.settings.arguments)


def _compile_again(function, arguments):
    return compile(function, **arguments)


def compiled_call(fn, what):
    """The compiled object behind what stator.compile returned; `what` asks for it."""
    call = type(fn).__call__.__get__(fn) if _modules.is_compiled(fn) else fn
    if type(call) is not _core.CompiledFunction:
        raise TypeError(f"{what} takes what stator.compile returned, not {type(fn).__name__}")
    return call


def compiler_config(compiled):
    """What get_compiler_config() of a compiled object returns."""
    settings = getattr(getattr(compiled, "_stator_cache", compiled), "settings", None)  # what is disabled has none
    return None if settings is None else settings.backend.configuration()


def reset(fn=None):
    """Forgets what was captured: all, or what was captured for one compiled function (of a module: for modules compiled
    with equal arguments).

    Compiled objects stay usable and capture again.
    """
    if fn is None:
        _caches.reset_all()
    else:
        compiled_call(fn, "reset")._stator_reset()
