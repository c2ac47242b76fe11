"""How many graphs a loop with a break inside takes, by the kind of its iterator. Results:
tests/python/programs/loops_over_breaks.py."""

import pytest
import torch
import torch._dynamo

import stator

pytestmark = pytest.mark.filterwarnings("ignore")

_KINDS = {
    "items": "x + i",
    "tuple(items)": "x + i",
    "enumerate(items)": "x * (i[0] + 2) + i[1]",
    "zip(items, items[1:])": "x + i[0] * i[1]",
    "enumerate(zip(items, items))": "x + i[1][0] * i[0]",
    "range(len(items))": "x * (i + 2)",
    "table.items()": "x + i[1]",
    "table.values()": "x + i",
    "table": "x + table[i]",
    "reversed(items)": "x + i",
    "layers": "i(x)",
    "(item * 2 for item in items)": "x + i",
    "enumerate(item * 2 for item in items)": "x * (i[0] + 2) + i[1]",
}


class _Counter:
    def __init__(self):
        self.graphs = self.calls = 0

    def __call__(self, module, inputs):
        self.graphs += 1
        self.calls += sum(node.op.startswith("call") for node in module.graph.nodes)
        return module.forward


def _function(kind, where):
    names = {"torch": torch}
    body = f"""
def f(x, items, table, layers, where):
    n = 0
    for i in {kind}:
        x = {_KINDS[kind]}
        if n {where} where:
            torch._dynamo.graph_break()
        n += 1
        x = x.tanh()
    return x, n
"""
    exec(body, names)
    return names["f"]


def _arguments(length):
    torch.manual_seed(length)
    items = [torch.randn(4) for _ in range(length)]
    layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(length)])
    return torch.ones(4), items, {str(k): item for k, item in enumerate(items)}, layers


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks change what is captured")
@pytest.mark.parametrize("kind", _KINDS)
def test_two_graphs_around_one_break(kind):
    f, counter = _function(kind, "=="), _Counter()
    compiled = stator.compile(f, backend=counter)
    for _ in range(2):
        arguments = _arguments(6)
        torch.testing.assert_close(compiled(*arguments, 1), f(*arguments, 1))
        assert counter.graphs == 2
    # Rounds that the loop has in all, and places at which it is left: no end of either makes an end of graphs.
    for length in range(2, 10):
        for where in range(length):
            arguments = _arguments(length)
            torch.testing.assert_close(compiled(*arguments, where), f(*arguments, where))
    assert counter.graphs <= 48


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks change what is captured")
@pytest.mark.parametrize("kind", [kind for kind in _KINDS if kind != "table"])
def test_a_break_in_each_round(kind):
    """One graph from break to break, whatever the number of rounds; each of a generator's first places has its own."""
    f, counter = _function(kind, ">="), _Counter()
    compiled = stator.compile(f, backend=counter)
    for _ in range(2):
        arguments = _arguments(12)
        torch.testing.assert_close(compiled(*arguments, 0), f(*arguments, 0))
    assert counter.graphs <= (9 if " for " in kind else 5)


def test_never_fewer_calls_in_graphs_than_torchdynamo():
    for kind in ("items", "enumerate(items)", "table.items()"):
        f, ours, theirs = _function(kind, "=="), _Counter(), _Counter()
        torch._dynamo.reset()
        torch.compile(f, backend=theirs)(*_arguments(5), 1)
        stator.compile(f, backend=ours)(*_arguments(5), 1)
        assert ours.calls >= theirs.calls
    torch._dynamo.reset()


def _over_a_generator(pairs, x):
    """Each kind of statement that takes only what lies on top of the stack, with the generator under it."""
    kept = []
    for number, item in pairs:
        if (number % 2 and item.ndim == 1) or item is None:
            x = -x + item
        elif not number:
            x = x * item
        kept.append({"at": number, "length": (*item.shape, f"{item.ndim}").__len__()})
        first, *_ = number, item
        x = x + torch.stack([item[i : i + 2].sum() for i in range(2)], **{"dim": 0}).sum() + first
    return x, kept


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks change what is captured")
def test_a_round_over_a_generator_is_one_graph():
    """A generator's end is noticed, so it cannot be taken along: but what is above it on the stack can."""

    def pairs():
        torch._dynamo.graph_break()
        for number in range(6):
            yield number, torch.full((4,), float(number))

    counter = _Counter()
    compiled = stator.compile(_over_a_generator, backend=counter)
    for _ in range(3):
        torch.testing.assert_close(compiled(pairs(), torch.ones(4)), _over_a_generator(pairs(), torch.ones(4)))
    # Rounds by what they do (the first, odd and even ones), with a number and with any; and those of the generator.
    assert counter.graphs <= 6
