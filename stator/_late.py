"""Calls that captures leave for their ends (config.reorderable_logging_functions). Nothing in them is captured."""

from stator import _switches


@_switches.disable
def run(function, args, kwargs):
    function(*args, **kwargs)
