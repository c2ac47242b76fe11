"""A call of a function under nonstrict_trace: one node of the graph over the tensors in its arguments and results."""

from dataclasses import fields, is_dataclass

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from stator._nonstrict import ATOMS

from .subgraphs import call, refuse


def site(function, spec, owners):
    """The call as an object that the graph calls. Done by the tracer: what it is made of are the program's own
    objects."""
    raise RuntimeError("only for captured code")


def out_spec(site):
    """The structure of the results of the call that has become a node."""
    raise RuntimeError("only for captured code")


def run(function, args, kwargs):
    leaves, spec = tree_flatten((args, kwargs))
    owners, given = [], []
    for leaf in leaves:
        if isinstance(leaf, torch.nn.Module):
            names = []
            for name, tensor in [*leaf.named_parameters(), *leaf.named_buffers()]:
                names.append(name)
                given.append(tensor)
            owners.append((leaf, names))
        elif isinstance(leaf, ATOMS):
            owners.append(None)
            given.append(leaf)
        else:
            refuse(
                f"an argument of {function.__name__}, which is under nonstrict_trace, is a {type(leaf).__name__}: its class can be registered with "
                "torch.utils._pytree.register_pytree_node, register_dataclass or register_constant"
            )
    node = site(function, spec, owners)
    results = call(node, *given)
    return tree_unflatten(list(results), out_spec(node))


def take_apart(value, leaves):
    """The shape of an argument: None for a leaf, otherwise (class, names, shapes of the parts)."""
    if isinstance(value, ATOMS):
        leaves.append(value)
        return None
    kind = type(value)
    if kind is list or kind is tuple:
        return (kind, None, [take_apart(part, leaves) for part in value])
    if kind is dict:
        return (kind, list(value), [take_apart(part, leaves) for part in value.values()])
    if issubclass(kind, (list, tuple, dict, set, frozenset)) or kind.__new__ is not object.__new__:
        refuse(f"an argument of a function under allow_in_graph is a {kind.__name__}")
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
    else:
        names = list(vars(value))
    return (kind, names, [take_apart(getattr(value, name), leaves) for name in names])


def allowed_site(function, spec, count):
    """As `site`, for a function under allow_in_graph."""
    raise RuntimeError("only for captured code")


def run_allowed(function, args, kwargs):
    leaves = []
    spec = take_apart(args, leaves), take_apart(kwargs, leaves)
    node = allowed_site(function, spec, len(leaves))
    results = call(node, *leaves)
    return tree_unflatten(list(results), out_spec(node))


def traced(function):
    """What captures run in the function's place."""

    def call_in_graph(*args, **kwargs):
        return run(function, args, kwargs)

    return call_in_graph
