"""Where a graph ends early, why, and how the program looks without it."""

import torch

import stator


def normalise(x):
    largest = x.abs().max()
    if largest > 1:  # Python has to know: the graph ends here
        x = x / largest
    return x.exp()


def normalise_in_one_graph(x):
    largest = x.abs().max()
    x = torch.where(largest > 1, x / largest, x)
    return x.exp()


x = torch.randn(64)
found = stator.explain(normalise)(x)
print(found.breaks[0])  # the line, the reason, what to do
assert found.graph_count == 2 and found.breaks[0].name == "kDataDependentBranch"

mended = stator.explain(normalise_in_one_graph)(x)
assert mended.graph_count == 1 and not mended.breaks
assert torch.allclose(mended.result, normalise(x))

# fullgraph=True makes a break an error, with the same text.
try:
    stator.compile(normalise, backend="eager", fullgraph=True)(x)
except stator.exc.Unsupported as error:
    print("\nfullgraph=True:", error)
else:
    raise AssertionError("a break was expected")
