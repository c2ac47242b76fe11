"""A call of a function under nonstrict_trace: one node of the graph over the tensors in its arguments and results."""

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from stator._nonstrict import ATOMS

from .subgraphs import call, refuse


def site(function, spec, owners):
    """The call as an object that the graph calls. Done by the tracer: what it is made of are the program's own objects."""
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


def traced(function):
    """What captures run in the function's place."""

    def call_in_graph(*args, **kwargs):
        return run(function, args, kwargs)

    return call_in_graph
