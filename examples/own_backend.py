"""A backend is a function: it gets the graph and example inputs, and returns what is to run."""

import torch

import stator

seen = []


@stator.register_backend
def counting(graph_module, example_inputs):
    """Counts the operations by name, and runs the graph as it is."""
    names = [str(node.target) for node in graph_module.graph.nodes if node.op in ("call_function", "call_method")]
    seen.append(names)
    graph_module.print_readable()
    return graph_module.forward


@stator.compile(backend="counting", fullgraph=True)
def attention(q, k, v):
    weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v


q, k, v = (torch.randn(2, 4, 8) for _ in range(3))
expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
assert torch.allclose(attention(q, k, v), expected, atol=1e-6)
assert len(seen) == 1 and len(seen[0]) == 5, seen
print(f"{len(seen[0])} operations: {', '.join(seen[0])}")
