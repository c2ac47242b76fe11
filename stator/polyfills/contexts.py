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
