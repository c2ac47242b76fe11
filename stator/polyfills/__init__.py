"""Python functions that are traced in place of built-in ones which call back into Python, or look into objects."""

from . import autograd, contexts, functions, higher_order, iteration, objects, subgraphs, switches, tensors, transforms

__all__ = [
    "autograd",
    "contexts",
    "functions",
    "higher_order",
    "iteration",
    "objects",
    "subgraphs",
    "switches",
    "tensors",
    "transforms",
]
