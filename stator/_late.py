"""Calls that captures leave for their ends (config.reorderable_logging_functions). Nothing in them is captured."""

from typing import Any

from stator import _switches
from stator.polyfills.switches import LateText

_CONVERSIONS = (lambda value: value, str, repr, ascii)


def _written(value: Any) -> Any:
    """The text that a LateText stands for; anything else as it is."""
    if type(value) is not LateText:
        return value
    return "".join(
        part if isinstance(part, str) else format(_CONVERSIONS[part[1]](part[0]), part[2]) for part in value.parts
    )


@_switches.disable
def run(function, args, kwargs):
    function(*map(_written, args), **{name: _written(value) for name, value in kwargs.items()})
