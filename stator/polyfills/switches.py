"""Context managers that switch the tracer: traced, so that they hold for the part of a captured function that they enclose."""

import functools

from stator import _core


class error_on_graph_break:
    """As context manager or decorator: whether a graph break is an error here. fullgraph=True comes first."""

    def __init__(self, error_on_graph_break):
        self.error = error_on_graph_break
        self.before = []

    def __enter__(self):
        self.before.append(_core.error_on_break())
        _core.set_error_on_break(self.error)

    def __exit__(self, *_):
        _core.set_error_on_break(self.before.pop())

    def __call__(self, function):
        error = self.error

        @functools.wraps(function)
        def switched(*args, **kwargs):
            with error_on_graph_break(error):
                return function(*args, **kwargs)

        return switched
