"""Graphs inside of DistributedDataParallel, compiled in parts: one for each bucket of gradients. A backward that is one
piece would give its gradients at its end, and nothing would overlap with their reduction. torch's own splitter does the
cutting."""

import torch

from stator import config
from stator._loaded import loaded


def _active():
    parallel = loaded("torch.nn.parallel.distributed")
    if parallel is None or not config.optimize_ddp:
        return None
    return parallel.DistributedDataParallel._get_active_ddp_module()


def are_cut():
    """Whether graphs are compiled in parts now."""
    return _active() is not None


def at_bucket_bounds(function):
    """The backend `function`, or, while a DistributedDataParallel module runs, one that compiles in parts."""
    active = _active()
    if active is None:
        return function
    from torch._dynamo.backends.distributed import DDPOptimizer

    cap = active.bucket_bytes_cap
    # Buckets smaller than the usual first one (1 MiB) have none of their own.
    split = DDPOptimizer(cap, function, min(cap, torch.distributed._DEFAULT_FIRST_BUCKET_BYTES)).compile_fn

    def compile_parts(graph_module, example_inputs, **arguments):
        sizes = _add_sizes(graph_module)
        if not sizes:
            return split(graph_module, example_inputs, **arguments)
        compiled = split(graph_module, [*(size for _, _, size in sizes), *example_inputs], **arguments)
        places = [(position, dim) for position, dim, _ in sizes]
        return lambda *inputs: compiled(*(inputs[position].size(dim) for position, dim in places), *inputs)

    return compile_parts


def _add_sizes(graph_module):
    """The splitter hands sizes from part to part, and wants each symbol as an input of the graph. A captured graph has
    those that it computes with; the others are added in front: [(position of a tensor among the inputs, dim,
    SymInt)]."""
    inputs = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    known, added = set(), []
    for node in inputs:
        value = node.meta["example_value"]
        if isinstance(value, torch.SymInt):
            known.add(value.node.expr)
    for position, node in enumerate(inputs):
        value = node.meta["example_value"]
        for dim, size in enumerate(value.shape) if isinstance(value, torch.Tensor) else ():
            if isinstance(size, torch.SymInt) and size.node.expr.is_symbol and size.node.expr not in known:
                known.add(size.node.expr)
                added.append((position, dim, size))
    if added:
        graph = graph_module.graph
        with graph.inserting_before(inputs[0]):
            for _, _, size in added:
                node = graph.placeholder(str(size.node.expr))
                node.meta["example_value"] = size
                node._dynamo_source = None
        graph_module.recompile()
    return added
