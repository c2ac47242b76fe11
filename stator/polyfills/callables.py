"""Frames for callables that have none of their own, so that compiling them captures their calls."""


def calling(function):
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


def forbidden(name):
    """In the place of a function that may not run in compiled code."""

    def call(*args, **kwargs):
        raise AssertionError(f"Attempt to trace forbidden callable: {name}, which sets a stance, is compiled itself")

    return call
