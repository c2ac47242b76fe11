"""Switches that a program sets on its own functions: disable, allow_in_graph, graph_break and their relatives."""

import functools
import inspect
import weakref
from typing import Any

from stator import _answers, _backends, _compile, _core, config, exc
from stator.polyfills.switches import error_on_graph_break as error_on_graph_break  # public from here

_rules: dict[int, Any] = {}  # id(callable) -> (callable or weak reference, rule)


def _set_rule(function, rule, *extra):
    """Tells the tracer how to treat calls of `function`, for as long as it lives."""
    key = id(function)
    try:
        held = weakref.ref(function, functools.partial(_forget, _rules, _core.drop_call_rule, key))
    except TypeError:
        held = function  # no weak references: kept, so that the id stays its own
    _rules[key] = (held, rule)
    _core.set_call_rule(function, rule, *extra)


def _forget(rules, drop, key, _=None):
    # Also called while the interpreter goes down, when the module's names are gone.
    if rules.pop(key, None) is not None:
        drop(key)


def _drop_rule(key):
    _forget(_rules, _core.drop_call_rule, key)


def call_rule(function):
    """The rule set for a callable, or None."""
    found = _rules.get(id(function))
    return found[1] if found else None


def _for_callables(name, doc):
    """A decorator of one callable or a list of them, from the function that does it to one."""

    def make(one):
        def decorator(fn):
            if isinstance(fn, (list, tuple)):
                return [decorator(f) for f in fn]
            if not callable(fn):
                raise TypeError(f"{name} takes a callable, not {type(fn).__name__}")
            one(fn)
            return fn

        decorator.__name__ = decorator.__qualname__ = name
        decorator.__doc__ = doc
        return decorator

    return make


@_for_callables("allow_in_graph", "Calls of fn become one graph node; its body is not looked into.")
def allow_in_graph(fn):
    if _core.goes_into_graph(fn):
        _drop_rule(id(fn))  # takes back disallow_in_graph
    else:
        _set_rule(fn, "allow_in_graph")


@_for_callables(
    "disallow_in_graph", "Calls of fn, one of torch's or an allowed one, never become a graph node: a break."
)
def disallow_in_graph(fn):
    # torch asks for some of its own functions, which are captured or not as they are.
    of_torch = (getattr(fn, "__module__", None) or "").split(".")[0] == "torch"
    if not (of_torch or _core.goes_into_graph(fn)) and call_rule(fn) not in (
        "allow_in_graph",
        "nonstrict_trace",
        "disallow_in_graph",
    ):
        raise exc.IncorrectUsage(
            f"disallow_in_graph is for what would become a graph node (torch's functions, allow_in_graph's), and {fn!r:.100} "
            "would not; stator.disable keeps a Python function out of graphs"
        )
    _set_rule(fn, "disallow_in_graph")


@_for_callables("forbid_in_graph", "A captured call of fn is an error.")
def forbid_in_graph(fn):
    try:
        fn._dynamo_forbidden = True
    except (AttributeError, TypeError):
        pass  # built-in: the rule below serves
    _set_rule(fn, "forbid_in_graph")


def nonstrict_trace(traceable_fn):
    """Calls of the function that is returned become one graph node, whose arguments and results are any pytree of
    tensors and constants, and modules. Captures do not look into it, backends that trace do; tensors that it reads from
    outside are not guarded."""
    if not callable(traceable_fn):
        raise TypeError(f"nonstrict_trace takes a callable, not {type(traceable_fn).__name__}")
    from stator.polyfills import nonstrict

    @functools.wraps(traceable_fn)
    def wrapped(*args, **kwargs):
        return traceable_fn(*args, **kwargs)

    _set_rule(wrapped, "nonstrict_trace", nonstrict.traced(traceable_fn))
    return wrapped


def apart(result, known):
    """A constant's tensors with those that the program has elsewhere (their addresses are `known`) as tensors of their
    own."""
    import torch
    from torch.utils import _pytree as pytree

    if isinstance(result, torch.Tensor):
        return result.detach() if id(result) in known else result
    leaves, spec = pytree.tree_flatten(result)
    if not any(isinstance(leaf, torch.Tensor) and id(leaf) in known for leaf in leaves):
        return result
    return pytree.tree_unflatten([apart(leaf, known) for leaf in leaves], spec)


def assume_constant_result(fn):
    """fn's result is taken once, at capture, and stays a constant of the graph."""
    fn._dynamo_marked_constant = True
    return fn


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False):
    """Decorates a Python function that is traced wherever original_fn, usually one written in C, is called in a
    trace."""
    if not inspect.isroutine(original_fn):
        raise TypeError(f"substitute_in_graph expects a function, not {type(original_fn).__name__}")

    def decorator(traceable_fn):
        if not inspect.isroutine(traceable_fn):
            raise TypeError(f"substitute_in_graph decorates a function, not {type(traceable_fn).__name__}")
        if not skip_signature_check:
            _compare_signatures(original_fn, traceable_fn)
        if call_rule(original_fn) == "substitute_in_graph":
            raise ValueError(f"Duplicate substitute for {original_fn!r}")

        @functools.wraps(traceable_fn)
        def wrapped(*args, **kwargs):
            return original_fn(*args, **kwargs)

        wrapped.__torch_dynamo_original__ = original_fn
        wrapped.__torch_dynamo_polyfill__ = traceable_fn
        wrapped.__torch_dynamo_can_constant_fold_through__ = can_constant_fold_through
        _set_rule(original_fn, "substitute_in_graph", traceable_fn)
        _set_rule(wrapped, "substitute_in_graph", traceable_fn)
        return wrapped

    return decorator


def _compare_signatures(original, traceable):
    try:
        theirs = inspect.signature(original)
    except ValueError:
        return
    mine = inspect.signature(traceable)

    def essence(signature):
        """Names, their order where it counts, and defaults; None for (*args, **kwargs), which fits all."""
        parameters = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if not parameters:
            return None
        named = {p.name: p.default for p in parameters}
        return [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY], named

    if None not in (essence(theirs), essence(mine)) and essence(theirs) != essence(mine):
        raise TypeError(f"Signature mismatch between {original!r} and {traceable!r}: {theirs} != {mine}")


def graph_break(msg=""):
    """Ends the graph here when captured; does nothing otherwise."""


def skip_frame(msg=""):
    """The same, under the name of TorchDynamo's test switch: what follows is captured as after any break."""


def is_compiling():
    """Whether this very call is being captured: True in graphs, False where Python runs it."""
    return False


def dont_skip_tracing(fn=None):
    """Modules that are never captured by themselves are inlined anyway, as a decorator of the caller: accepted, without
    effect."""
    return fn if fn is not None else dont_skip_tracing


class _Disabler:
    """disable() with its arguments: a decorator, and what a disabled module is made again with when it is copied or
    pickled."""

    def __init__(self, reason):
        self.reason = reason

    def __call__(self, fn):
        if isinstance(fn, type):
            fn.__init__ = self._disabled(_compile.innermost(fn.__init__))
        return _compile.apply(fn, self, self._disabled)

    def _disabled(self, function):
        disabled = _core.CompiledFunction(function, None)
        disabled._torchdynamo_disable = True
        disabled._torchdynamo_disable_msg = self.reason
        disabled._torchdynamo_disable_recursive = True
        return disabled


def disable(fn=None, recursive=True, *, reason=None, wrapping=True):
    """fn runs eagerly also where compiled code calls it; with recursive=False only fn itself does, not what it
    calls."""
    if recursive not in (True, False):
        raise TypeError(f"disable: recursive is True or False, not {recursive!r}")
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason, wrapping=wrapping)
    if recursive:
        return _Disabler(reason)(fn)
    return _skip_alone(fn, reason)


def _skip_alone(fn, reason=None):
    fn = _compile.innermost(fn)
    if not callable(fn):
        raise TypeError(f"disable takes a callable, not {type(fn).__name__}")

    @functools.wraps(fn)
    def eager_frame(*args, **kwargs):
        return fn(*args, **kwargs)

    eager_frame._torchdynamo_disable = True
    eager_frame._torchdynamo_disable_msg = reason
    eager_frame._torchdynamo_disable_recursive = False
    _skip_code(fn)
    return eager_frame


def skip(fn=None):
    """fn's own frame runs eagerly, what it calls is captured."""
    if fn is None:
        return skip
    fn = _compile.innermost(fn)
    _skip_code(fn)
    fn._torchdynamo_disable = True
    return fn


def _skip_code(fn):
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if code is None:
        call = getattr(type(fn), "__call__", None)  # noqa: B004
        code = getattr(call, "__code__", None)
    if code is not None:
        _core.skip_code(code)


_STANCES = (
    "default",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
    "eager_then_compile",
    "aot_eager_then_compile",
)
_stance = ("default", None)


def answer_unsafe_stance():
    _answers.once("set_stance(skip_guard_eval_unsafe=True)", "guards are always checked, which costs microseconds here",
                  "leave it out; to check fewer, options={'guard_filter_fn': ...} of compile", 4)  # fmt: skip


class set_stance:
    """How compiled code behaves from now on; as context manager or decorator, for a while.

    "default"; "force_eager": run eagerly; "eager_on_recompile": use what is captured, run new cases eagerly;
    "fail_on_recompile": raise for a new case; "eager_then_compile" (and "aot_eager_then_compile", which is the same
    here): run what is new eagerly once, then capture it, with the sizes dynamic that were others the first time.
    force_backend, with the default stance: compile with this backend, whatever the compile calls said.
    """

    _dynamo_forbidden = True

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if stance not in _STANCES:
            raise RuntimeError(f"unknown stance {stance!r}, there are {', '.join(_STANCES)}{_near(stance)}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if isinstance(force_backend, str):
            _backends.lookup_backend(force_backend)  # an unknown one is an error here, and not at some later call
        if skip_guard_eval_unsafe:
            answer_unsafe_stance()
        self.stance = (stance, force_backend)
        self.before = _change_stance(self.stance)  # called as a function, it holds from here on

    def __enter__(self):
        _change_stance(self.stance)

    def __exit__(self, *_):
        _change_stance(self.before)

    def __call__(self, function):
        # As a decorator it holds during the function's calls alone.
        _change_stance(self.before)
        stance, backend = self.stance

        @functools.wraps(function)
        def with_stance(*args, **kwargs):
            with set_stance(stance, force_backend=backend):
                return function(*args, **kwargs)

        with_stance._dynamo_forbidden = with_stance._stator_sets_stance = True
        return with_stance


_set_rule(set_stance, "forbid_in_graph")


def _near(stance):
    found = exc.nearest(stance, _STANCES)
    return f"; did you mean {found!r}?" if found else ""


def _change_stance(stance):
    global _stance
    if _core.in_compiled_region():
        raise RuntimeError("attempted to set_stance in a torch.compile region")
    before, _stance = _stance, stance
    name, backend = stance
    _core.set_force_eager(name == "force_eager")
    config._push("stance", name)
    _core.force_cache(None if backend is None else _compile.forced_caches(backend))
    return before


def get_stance():
    return _stance[0]


def run(fn=None):
    """fn, which was compiled, without new captures: what is captured is used, all else runs eagerly."""
    if fn is None:
        return run
    if not callable(fn):
        raise TypeError(f"run takes a callable, not {type(fn).__name__}")

    @functools.wraps(fn)
    def run_only(*args, **kwargs):
        before = _stance
        if before[0] == "default":
            config._push("stance", "eager_on_recompile")
        try:
            return fn(*args, **kwargs)
        finally:
            config._push("stance", before[0])

    _set_rule(run_only, "substitute_in_graph", fn)  # in compiled code it is a part of what is captured
    return run_only
