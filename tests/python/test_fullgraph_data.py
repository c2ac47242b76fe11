"""fullgraph=True: sizes and numbers that depend on data are values of the graph without any setting, as TorchDynamo has
them there."""

import pytest
import torch

import stator

BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    yield
    stator.reset()


def masked(x, n):
    return x[x > 1] * 2


def nonzero(x, n):
    return torch.nonzero(x) + 1, torch.where(x > 1)[0].float().sum()


def unique(x, n):
    return torch.unique(x) + 1


def selected(x, n):
    return torch.masked_select(x, x > 1).sin()


def repeated(x, n):
    return torch.repeat_interleave(x, (x > 1).long() + 1).cos()


def counted(x, n):
    return torch.bincount(x.long()) + 1


def up_to(x, n):
    return x[:n] + 1, x[n:] * 2, x[1:n].sum()


def one_mask_each(x, n):
    return x[x > 1] + (x * 2)[x > 1]


def two_masks(x, n):
    return x[x > 1] * x[x * 2 > 2] + 1


def joined(x, n):
    return torch.cat([x[x > 1], x[x > 2]]) + 1


def lengths(x, n):
    return x + len(x[x > 1]), x[x > 1].sum() / x[x > 1].numel()


def written_by_mask(x, n):
    y = x.clone()
    y[y > 1] = y[y > 1] * 2
    return y


def ranged(x, n):
    return torch.arange(n) * 2


def split(x, n):
    first = n.item()
    torch._check(first <= 6)
    return x.split([first, 6 - first])


PROGRAMS = [
    masked, nonzero, unique, selected, repeated, counted, up_to, one_mask_each, two_masks, joined, lengths,
    written_by_mask, ranged, split,
]  # fmt: skip
DATA = [
    (torch.tensor([0.0, 1.0, 2.0, 3.0, 0.0, 5.0]), torch.tensor(3)),
    (torch.tensor([4.0, 4.0, 2.0, 3.0, 0.0, 5.0]), torch.tensor(2)),
    (torch.tensor([4.0, 1.0, 0.0, 3.0, 0.0, 0.0]), torch.tensor(4)),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_for_all_data(program, backend):
    graphs = []
    handle = stator.on_graph(graphs.append)
    try:
        compiled = stator.compile(program, backend=backend, fullgraph=True)
        for x, n in DATA:
            torch.testing.assert_close(compiled(x.clone(), n), program(x.clone(), n), rtol=0, atol=0)
    finally:
        handle.remove()
    assert len(graphs) == 1
    assert sum(node.op.startswith("call_") for node in graphs[0].graph.nodes) > 0


def test_sizes_that_have_to_be_equal_and_are_not():
    compiled = stator.compile(two_masks, backend="eager", fullgraph=True)
    good = torch.tensor([0.0, 1.0, 2.0, 3.0, 0.0, 5.0])
    torch.testing.assert_close(compiled(good, None), two_masks(good, None))
    bad = torch.tensor([0.6, 0.7, 2.0, 3.0, 0.0, 1.0])
    # Eager's own error: the operation raises before the check behind it.
    errors = []
    for function in (two_masks_apart, stator.compile(two_masks_apart, backend="eager", fullgraph=True)):
        with pytest.raises(RuntimeError) as error:
            function(bad, None)
        errors.append(str(error.value))
    assert errors[0] == errors[1]


def two_masks_apart(x, n):
    return x[x > 1] * x[x > 0.5]


def test_a_size_of_one_where_another_was_expected():
    """Eager broadcasts it, and the graph's sizes do not hold then: the check behind the operation sees it, and the call
    runs without the graph."""
    compiled = stator.compile(two_masks_apart, backend="eager", fullgraph=True)
    data = torch.tensor([0.6, 0.7, 2.0])
    torch.testing.assert_close(compiled(data, None), two_masks_apart(data, None))


def test_without_fullgraph_nothing_changes():
    graphs = []
    handle = stator.on_graph(graphs.append)
    try:
        compiled = stator.compile(masked, backend="eager")
        for x, n in DATA:
            torch.testing.assert_close(compiled(x, n), masked(x, n))
    finally:
        handle.remove()
    assert len(graphs) >= 2


def divided(x):
    a, b = x.tolist()
    return torch.ones(3) * (a // b), a % b


def checked(x):
    a, b = x.tolist()
    torch._check(a > b, lambda: "a text of mine")
    return torch.ones(2) * a


def checked_sizes(x):
    a, b = x.tolist()
    torch._check_is_size(a)
    torch._check(b >= 0, lambda: "less than nothing")
    return torch.zeros(a + b).cos()


def outcome(function, x):
    try:
        return function(x)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [divided, checked, checked_sizes], ids=lambda program: program.__name__)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_what_raises_when_the_graph_runs_raises_as_in_eager(program, backend):
    """What only the graph knows is checked there: a divisor, a condition of torch._check."""
    graphs = []

    def counted(gm, inputs):
        graphs.append(gm)
        return stator.lookup_backend(backend)(gm, inputs)

    compiled = stator.compile(program, backend=counted, fullgraph=True)
    for numbers in ([7, 2], [7, 0], [-7, 2], [2, 7], [0, 0], [3, -1], [9, 4]):
        x = torch.tensor(numbers)
        assert repr(outcome(compiled, x)) == repr(outcome(program, x)), numbers
    assert len(graphs) == 1
