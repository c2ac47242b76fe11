"""Hooks on values of graphs whose backward pass torch._dynamo.compiled_autograd makes a graph of: it asks the hooks
that the plan leaves in a state, which the captured graph gets as an input. AOTAutograd and compiled autograd know such
states.
"""

import functools
import threading

from torch._dynamo import _trace_wrapped_higher_order_op, compiled_autograd, external_utils
from torch.fx.experimental._backward_state import BackwardState as State


class _States(threading.local):
    """`fresh` gives a new state at each read: plans read it as an input of their graph."""

    latest = None

    @property
    def fresh(self):
        self.latest = State()
        return self.latest


states = _States()


def is_on():
    """Captured, so that it is guarded."""
    return compiled_autograd.compiled_autograd_enabled


def register(tensor, state, name):
    """What the graph calls."""
    call = external_utils.call_hook_from_backward_state
    tensor.register_hook(
        functools.partial(_trace_wrapped_higher_order_op.trace_wrapped, fn=call, bw_state=state, hook_name=name)
    )


def fill(name, hook):
    """Called by the plan when its graph has run: the state that it got is this thread's latest."""
    setattr(states.latest, name, hook)
