"""Switches that a program sets on its own functions: disable, allow_in_graph, graph_break and their relatives."""

import contextlib
import functools
import weakref

from stator import _compile, _core, config

_rules = {}  # id(callable) -> (callable or weak reference, rule)


def _set_rule(function, rule):
    """Tells the tracer how to treat calls of `function`."""
    key = id(function)
    try:
        held = weakref.ref(function, lambda _: _rules.pop(key, None))
    except TypeError:
        held = function  # no weak references: kept, so that the id stays its own
    _rules[key] = (held, rule)
    native = getattr(_core, "set_call_rule", None)
    if native is not None:
        native(function, rule)


def call_rule(function):
    """The rule set for a callable, or None."""
    found = _rules.get(id(function))
    return found[1] if found else None


def _for_callables(rule):
    def decorator(fn):
        if isinstance(fn, (list, tuple)):
            return [decorator(f) for f in fn]
        if not callable(fn):
            raise TypeError(f"{rule} takes a callable, not {type(fn).__name__}")
        _set_rule(fn, rule)
        return fn

    decorator.__name__ = decorator.__qualname__ = rule
    return decorator


allow_in_graph = _for_callables("allow_in_graph")
allow_in_graph.__doc__ = "Calls of fn become one graph node; its body is not looked into."
disallow_in_graph = _for_callables("disallow_in_graph")
disallow_in_graph.__doc__ = "Calls of fn never become a graph node: a break."
forbid_in_graph = _for_callables("forbid_in_graph")
forbid_in_graph.__doc__ = "A captured call of fn is an error."
nonstrict_trace = _for_callables("nonstrict_trace")
nonstrict_trace.__doc__ = "Calls of fn become one graph node; tensors that it reads from outside are not guarded."


def assume_constant_result(fn):
    """fn's result is taken once, at capture, and stays a constant of the graph."""
    fn._dynamo_marked_constant = True
    _set_rule(fn, "assume_constant_result")
    return fn


def graph_break(msg=""):
    """Ends the graph here when captured; does nothing otherwise."""


_set_rule(graph_break, "graph_break")


class _Disabler:
    """disable() with its arguments: a decorator, and what a disabled module is made again with when it is copied or pickled."""

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
    """fn runs eagerly also where compiled code calls it; with recursive=False only fn itself does, not what it calls."""
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
    _set_rule(eager_frame, "skip_frame")
    _set_rule(fn, "skip_frame")
    return eager_frame


def skip(fn=None):
    """fn's own frame runs eagerly, what it calls is captured."""
    if fn is None:
        return skip
    fn = _compile.innermost(fn)
    _set_rule(fn, "skip_frame")
    fn._torchdynamo_disable = True
    return fn


_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
_stance = "default"


class set_stance(contextlib.ContextDecorator):
    """How compiled code behaves from now on; as context manager or decorator, for a while.

    "default"; "force_eager": run eagerly; "eager_on_recompile": use what is captured, run new cases eagerly; "fail_on_recompile":
    raise for a new case.
    """

    def __init__(self, stance="default"):
        if stance not in _STANCES:
            near = _near(stance)
            raise RuntimeError(f"unknown stance {stance!r}, there are {', '.join(_STANCES)}{near}")
        self.stance = stance
        self.before = []
        self.first = _change_stance(stance)  # called as a function, it holds from here on

    def __enter__(self):
        if self.first is not None:
            self.before.append(self.first)
            self.first = None
        else:
            self.before.append(_change_stance(self.stance))
        return self

    def __exit__(self, *_):
        _change_stance(self.before.pop())

    def __call__(self, function):
        # As a decorator it holds during the function's calls alone.
        if self.first is not None:
            _change_stance(self.first)
            self.first = None
        return super().__call__(function)


def _near(stance):
    from stator.exc import nearest

    found = nearest(stance, _STANCES)
    return f"; did you mean {found!r}?" if found else ""


def _change_stance(stance):
    global _stance
    before, _stance = _stance, stance
    _core.set_force_eager(stance == "force_eager")
    config._push("stance", stance)
    return before


def get_stance():
    return _stance
