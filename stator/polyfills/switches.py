"""Context managers that switch the tracer: traced, so that they hold for the part of a captured function that they
enclose."""

import functools

from stator import _core


class error_on_graph_break:
    """As context manager or decorator: whether a graph break is an error here. fullgraph=True comes first."""

    def __init__(self, error_on_graph_break):
        if error_on_graph_break not in (True, False):
            raise TypeError(f"error_on_graph_break takes True or False, not {error_on_graph_break!r}")
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


class LateText:
    """A text of tensors, for a call that runs later: its parts are texts and (value, conversion, format)."""

    def __init__(self, parts):
        self.parts = parts


def text_later(value, conversion, spec):
    """What FORMAT_VALUE makes of a tensor, where the text goes into such a call alone."""
    return LateText([(value, conversion, spec)])


def join_later(*texts):
    """What BUILD_STRING makes then."""
    parts = []
    for text in texts:
        if isinstance(text, LateText):
            parts.extend(text.parts)
        else:
            parts.append(text)
    return LateText(parts)


def later(function):
    """What is traced in the place of a function that may run behind the captured part
    (config.reorderable_logging_functions)."""

    def reordered(*args, **kwargs):
        run_later(function, args, kwargs)

    return reordered


def ignored(*args, **kwargs):
    """What is traced in the place of a function that is left out (config.ignore_logging_functions)."""


def is_enabled(logger, level):
    """logger.isEnabledFor(level) past the rule for that."""
    return logger.isEnabledFor(level)


def ignored_of(loggers, level):
    """The same for a method of these loggers; others log as before. Without a level it is isEnabledFor, which is asked
    and says nothing."""

    def method(self, *args, **kwargs):
        if not any(self is logger for logger in loggers):
            self.log(level, *args, **kwargs)

    def enabled(self, level):
        if not any(self is logger for logger in loggers):
            return is_enabled(self, level)

    return method if level is not None else enabled
