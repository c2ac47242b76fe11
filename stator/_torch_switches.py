"""Switches and marks that are set by torch's own names, before install() or without it: they hold for what Stator
compiles too.

torch._dynamo is not loaded for this; once somebody loads it, the few functions that its switches go through tell Stator
as well. What torch leaves on a function (disable, assume_constant_result, forbid_in_graph) the tracer sees by itself.
"""

import functools
import sys

from stator import _core


def follow(dynamo):
    decorators, rules = (sys.modules["torch._dynamo." + name] for name in ("decorators", "trace_rules"))
    _follow_marks(dynamo, rules)
    _follow_stance(decorators)
    _follow_error_on_break(decorators)
    _follow_reset(dynamo)


def _follow_marks(dynamo, rules):
    disallowed = rules._disallowed_callable_ids()
    of_torch = (getattr(dynamo, name, None) for name in ("graph_break", "skip_frame", "step_unsupported"))
    own = sum(id(function) in disallowed for function in of_torch)
    nonstrict = getattr(rules, "_nonstrict_trace_callable_ids", set)()

    def adopt(function):
        if id(function) in nonstrict:
            from stator import _switches
            from stator.polyfills import nonstrict as polyfills

            _switches._set_rule(function, "nonstrict_trace", polyfills.traced(function.__wrapped__))

    _core.set_torch_marks(rules._allowed_callable_ids(), disallowed, adopt, own)


def _follow_stance(decorators):
    theirs = decorators._set_stance
    before = None  # Stator's stance while torch's is another than the default

    def hold(stance):
        nonlocal before
        from stator import _switches

        if stance.skip_guard_eval_unsafe:
            _switches.answer_unsafe_stance()
        asked = (stance.stance, stance.backend)
        if asked == ("default", None):
            if before is None:
                return  # it says nothing: stator.set_stance's holds
            asked, before = before, None
        elif before is None:
            before = _switches._stance
        _switches._change_stance(asked)

    @functools.wraps(theirs)
    def set_stance(stance):
        last = theirs(stance)
        try:
            hold(stance)
        except BaseException:
            theirs(last)
            raise
        return last

    decorators._set_stance = set_stance
    now = sys.modules["torch._dynamo.eval_frame"]._stance
    if (now.stance, now.backend) != ("default", None):
        hold(now)


def _follow_error_on_break(decorators):
    theirs = getattr(decorators, "_set_error_on_graph_break", None)
    if theirs is None:
        return

    @functools.wraps(theirs)
    def set_error_on_graph_break(value):
        theirs(value)
        _core.set_error_on_break(value)

    decorators._set_error_on_graph_break = set_error_on_graph_break
    if decorators._get_error_on_graph_break():
        _core.set_error_on_break(True)


def _follow_reset(dynamo):
    theirs = dynamo.reset_code_caches  # which torch._dynamo.reset calls, and torch.compiler.reset by it

    @functools.wraps(theirs)
    def reset_code_caches():
        theirs()
        from stator import _compile

        _compile.reset()

    dynamo.reset_code_caches = reset_code_caches
