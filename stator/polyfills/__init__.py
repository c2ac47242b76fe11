"""Python functions that are traced in place of built-in ones which call back into Python, or look into objects."""

from . import functions, iteration, objects, switches

__all__ = ["functions", "iteration", "objects", "switches"]
