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


def run_later(function, args, kwargs):
    """A call that a capture leaves for its end; what runs then is _late.run."""
    function(*args, **kwargs)


def later(function):
    """What is traced in the place of a function that may run behind the captured part (config.reorderable_logging_functions)."""

    def reordered(*args, **kwargs):
        run_later(function, args, kwargs)

    return reordered


def ignored(*args, **kwargs):
    """What is traced in the place of a function that is left out (config.ignore_logging_functions)."""


def ignored_of(loggers, level):
    """The same for a method of these loggers; others log as before."""

    def method(self, *args, **kwargs):
        if not any(self is logger for logger in loggers):
            self.log(level, *args, **kwargs)

    return method
