"""Context managers of torch that are traced as classes of ours. They work natively too: a break may leave one to the
real interpreter."""

import contextlib
import functools

import torch

from stator import _contexts

from .subgraphs import call_like, refuse


class Range:
    """torch.profiler.record_function: captured code has no ranges."""

    def __init__(self, name, args=None):
        self.name = name
        self.args = args

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with Range(self.name, self.args):
                return function(*args, **kwargs)

        return inside


def use_deterministic_algorithms(mode, *, warn_only=False):
    _contexts.set_deterministic((bool(mode), bool(warn_only)))


def deterministic_algorithms_enabled():
    return _contexts.get_deterministic()[0]


def deterministic_warn_only_enabled():
    return _contexts.get_deterministic()[1]


def enter_sdpa(context, backends, set_priority):
    chosen = list(dict.fromkeys(backends if isinstance(backends, list) else [backends]))
    context.token = _contexts.enter_sdpa(tuple([int(backend) for backend in chosen]), set_priority)


def leave_sdpa(context):
    _contexts.leave_sdpa(context.token)


class SdpaKernel:
    """torch.nn.attention.sdpa_kernel."""

    def __init__(self, backends, set_priority=False):
        self.backends = backends
        self.set_priority = set_priority

    def __enter__(self):
        enter_sdpa(self, self.backends, self.set_priority)
        return {}

    def __exit__(self, *exception):
        leave_sdpa(self)
        return None


class DisableSavedTensorsHooks(contextlib._GeneratorContextManager):
    """torch.autograd.graph.disable_saved_tensors_hooks, without the generator: a break inside of the `with` leaves a
    plain object."""

    def __init__(self, error_message):
        _contexts.mark_hooks(error_message)
        self.args = (error_message,)
        self.__doc__ = torch.autograd.graph.disable_saved_tensors_hooks.__doc__

    def _recreate_cm(self):
        again = DisableSavedTensorsHooks.__new__(DisableSavedTensorsHooks)
        again.args = self.args
        return again

    def __enter__(self):
        (error_message,) = self.args
        del self.args  # entered once, as those that contextlib makes
        self.before = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()
        torch._C._autograd._saved_tensors_hooks_disable(error_message)

    def __exit__(self, *exception):
        if self.before is None:
            torch._C._autograd._saved_tensors_hooks_enable()
        else:
            torch._C._autograd._saved_tensors_hooks_disable(self.before)
        return False


# what the program sees of it
DisableSavedTensorsHooks.__name__ = DisableSavedTensorsHooks.__qualname__ = "_GeneratorContextManager"


def switch_torch_function(context, state):
    context.guard = _contexts.enter_torch_function_off(state)
    return 0


def restore_torch_function(context, before):
    _contexts.leave_torch_function_off(context.guard)


class DisableTorchFunctionSubclass:
    """torch._C.DisableTorchFunctionSubclass: instances of tensor subclasses count as plain tensors."""

    _state = 1

    def __enter__(self):
        self.before = switch_torch_function(self, self._state)

    def __exit__(self, *exception):
        restore_torch_function(self, self.before)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """torch._C.DisableTorchFunction: modes do not count either."""

    _state = 2


class SdpaParams:
    """torch._C._SDPAParams while it is in a trace; becomes a real one where it leaves it."""

    def __init__(self, query, key, value, attn_mask, dropout, is_causal, enable_gqa, /):
        for tensor in (query, key, value):
            if not isinstance(tensor, torch.Tensor):
                refuse("SDPAParams without a tensor")
        if attn_mask is not None and not isinstance(attn_mask, torch.Tensor):
            refuse("SDPAParams with a mask that is no tensor")
        if type(dropout) is not float or type(is_causal) is not bool or type(enable_gqa) is not bool:
            refuse("SDPAParams with a number that becomes another one")
        self.query = query
        self.key = key
        self.value = value
        self.attn_mask = attn_mask
        self.dropout = dropout
        self.is_causal = is_causal
        self.enable_gqa = enable_gqa


def nothing(*args):
    return None


def sdpa_params_in_graph(*args):
    """Of a class that the program wants in its graphs (allow_in_graph): the node is there for who reads the graph. What
    the program goes on with is made where it leaves the trace, of the program's own tensors."""
    params = SdpaParams(*args)
    call_like(torch._C._SDPAParams, nothing, *args)
    return params
