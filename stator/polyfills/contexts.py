"""Context managers of torch that are traced as classes of ours. They work natively too: a break may leave one to the real interpreter."""

import functools

from stator import _contexts


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

    def __init__(self, query, key, value, attn_mask, dropout, is_causal, enable_gqa):
        self.query = query
        self.key = key
        self.value = value
        self.attn_mask = attn_mask
        self.dropout = dropout
        self.is_causal = is_causal
        self.enable_gqa = enable_gqa
