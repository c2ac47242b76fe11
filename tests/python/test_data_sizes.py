"""Sizes that depend on data, with config.capture_dynamic_output_shape_ops: operators with such results stay in the
graph, and so does what is done with these results."""

import pytest
import torch

import stator

BACKENDS = ["eager", "aot_eager", "inductor"]


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    with stator.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        yield
    stator.reset()


def nonzero(x):
    rows = torch.nonzero(x > 0)
    return rows * 2, rows.size(0)


def masked(x):
    return x[x > 0].sin().sum() + torch.masked_select(x, x < 0).numel()


def rows_by_mask(x):
    return (x[x.sum(1) > 0] * 2).relu()


def unique(x):
    values, inverse, counts = torch.unique((x * 2).round(), return_inverse=True, return_counts=True)
    return values + 1, inverse.sum(), counts * 2


def repeated(x):
    return torch.repeat_interleave(x, (x[:, 0] > 0).long() + 1, dim=0).cos()


def where(x):
    rows, columns = torch.where(x > 0)
    return x[rows, columns] * 2 + columns


def as_size(x):
    n = (x > 0).nonzero().shape[0]
    return torch.zeros(n, 3) + 1, torch.arange(n) * 2, x.new_ones(n + 1).sum()


def checked(x):
    n = (x > 0).nonzero().shape[0]
    torch._check_is_size(n)
    torch._check(n <= 40)
    if n > 40:
        return x
    return x.flatten()[:n].sum()


def joined(x):
    a, b = x[x > 0], x[x <= 0]
    return torch.cat([a, b, a]).sort().values


def bins(x):
    return torch.bincount((x.flatten() > 0).long() * 3) + 1


def argwhere(x):
    return torch.argwhere(x > 0).float().mean(0)


def reshaped(x):
    return x[x.sum(1) > 0].reshape(-1, 2) + 1


def one_mask(x):
    mask = x.sum(1) > 0
    return x[mask] + (x * 2)[mask].cos()


def several_masks(x):
    first, second = x.sum(1) > 0, x.sum(1) > -1
    mask = first.clone()
    rows = x[mask].sum(0)
    mask.logical_or_(second)
    return x[first].sum(0), x[second].size(0), x[first].size(0), rows, x[mask].sum(0), x[mask].size(0)


def broadcast(x):
    rows = x[x.sum(1) > 0]
    return rows - rows.mean(0, keepdim=True), rows * torch.ones(1, 4), rows[:, :1] + torch.arange(4)


def experts(x):
    out = torch.zeros_like(x)
    choice = x[:, :3].argmax(-1)
    for expert in range(3):
        (rows,) = torch.where(choice == expert)
        out.index_add_(0, rows, x[None, rows].reshape(-1, 4) * (expert + 1))
    return out


def read_as_int(x):
    n = int((x > 0).sum())
    torch._check(n >= 0)
    return torch.zeros(n) + 1, torch.full((n,), 2.0)


def in_pieces(x):
    n = (x[:, 0] > 0).sum().item()
    torch._check(n <= x.size(0))
    first, second = x.split([n, x.size(0) - n])
    return first * 2, second + 1, x[:n].sum(), x[n:].sum()


def largest(x):
    values, where = torch.topk(x.flatten()[(x > -9).flatten()], 3)
    return values, where


PROGRAMS = [
    one_mask, several_masks, broadcast, experts, read_as_int, in_pieces, largest,
    nonzero, masked, rows_by_mask, unique, repeated, where, as_size, checked, joined, bins, argwhere, reshaped,
]  # fmt: skip
SLOW = [rows_by_mask, checked, experts, one_mask]


def inputs():
    torch.manual_seed(1)
    return [torch.randn(6, 4), torch.randn(6, 4), torch.randn(6, 4).abs() + 0.1, torch.randn(6, 4) - 0.5]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_one_graph(program, backend):
    if backend == "inductor" and program not in SLOW:
        pytest.skip("one of a kind is enough where compiling takes seconds")
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    before = stator.stats()["graphs"]
    for x in inputs():
        torch.testing.assert_close(compiled(x), program(x))
    assert stator.stats()["graphs"] - before == 1


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_one_graph_for_other_batches(program):
    """Symbols that have a value beside those that have none."""
    compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
    before = stator.stats()["graphs"]
    for size in (6, 8, 10, 4):
        torch.manual_seed(size)
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), program(x))
    assert stator.stats()["graphs"] - before == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend):
    def f(x):
        return (x[x > 0] ** 2).sum() + torch.masked_select(x, x < 0).sin().sum()

    compiled = stator.compile(f, backend=backend, fullgraph=True)
    for x in inputs():
        x.requires_grad_()
        (mine,) = torch.autograd.grad(compiled(x), x)
        (theirs,) = torch.autograd.grad(f(x), x)
        torch.testing.assert_close(mine, theirs)


def test_without_the_setting_it_is_a_break():
    with stator.config.patch(capture_dynamic_output_shape_ops=False):
        compiled = stator.compile(nonzero, backend="eager")
        for x in inputs():
            torch.testing.assert_close(compiled(x), nonzero(x))
        # Where a break is an error they are values of the graph without it (test_fullgraph_data.py).
        compiled = stator.compile(nonzero, backend="eager", fullgraph=True)
        for x in inputs():
            torch.testing.assert_close(compiled(x), nonzero(x))


def test_a_break_leaves_dynamic_sizes_dynamic():
    def f(x):
        y = x * 2
        return y[y > 0].sum() + 1

    with stator.config.patch(capture_dynamic_output_shape_ops=False):
        compiled = stator.compile(f, backend="eager")
        graphs = []
        for size in (6, 7, 8, 9):
            x = torch.randn(size, 4)
            before = stator.stats()["graphs"]
            torch.testing.assert_close(compiled(x), f(x))
            graphs.append(stator.stats()["graphs"] - before)
        assert graphs[2:] == [0, 0]


def test_a_branch_on_such_a_size_breaks():
    def f(x):
        rows = x[x.sum(1) > 0]
        if rows.size(0) > 3:
            return rows * 2
        return rows - 1

    compiled = stator.compile(f, backend="eager")
    for x in inputs():
        torch.testing.assert_close(compiled(x), f(x))
    with pytest.raises(stator.exc.Unsupported):
        stator.compile(f, backend="eager", fullgraph=True)(inputs()[0])


def test_a_check_that_fails_raises_as_in_eager():
    def f(x):
        n = (x > 0).nonzero().size(0)
        torch._check(n <= 5, lambda: "more than five")
        return x.flatten()[:n] * 2

    few = torch.tensor([[1.0, -1.0], [2.0, -3.0]])
    compiled = stator.compile(f, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(few), f(few))
    many = few.repeat(2, 2).abs()
    compiled(torch.randn(4, 4) - 5)
    with pytest.raises(RuntimeError, match="more than five"):
        f(many)
    with pytest.raises(RuntimeError, match="more than five"):
        compiled(many)


def test_none_at_all():
    compiled = stator.compile(rows_by_mask, backend="eager", fullgraph=True)
    for x in (torch.randn(6, 4), -torch.ones(6, 4), torch.tensor([[1.0] * 4] + [[-1.0] * 4] * 5)):
        torch.testing.assert_close(compiled(x), rows_by_mask(x))


def test_a_bound_of_a_slice_may_be_any_number():
    def from_there(x, i):
        y = x[i.item() :]
        return y + 1, y.size(0)

    def up_to(x, i):
        n = i.item()
        torch._check_is_size(n)
        y = x[:1][:n]
        return y + 1, y.size(0), x[:n] * 2, x[n:].shape

    for function, numbers in ((from_there, (2, -1, 0, 1, 9, -9)), (up_to, (3, 0, 1, 9, 6))):
        compiled = stator.compile(function, backend="eager", fullgraph=function is up_to)
        for number in numbers:
            arguments = torch.randn(6), torch.tensor(number)
            torch.testing.assert_close(compiled(*arguments), function(*arguments))


def test_one_that_broadcasts_is_no_guess():
    """A mask that leaves one row, against five: eager's answer is five rows."""

    def f(x, y):
        rows = x[x.sum(1) > 0]
        z = rows + y
        return z, z.size(0)

    compiled = stator.compile(f, backend="eager")
    y = torch.randn(5, 4)
    five, one = torch.ones(5, 4), torch.tensor([[1.0] * 4] + [[-1.0] * 4] * 4)
    for x in (five, one, five):
        torch.testing.assert_close(compiled(x, y), f(x, y))
    with pytest.raises(RuntimeError, match="must match the size"):
        compiled(torch.tensor([[1.0] * 4] * 2 + [[-1.0] * 4] * 3), y)


def test_a_dim_that_may_be_one_is_not_squeezed_by_guess():
    def f(x):
        rows = x[x.sum(1) > 0].squeeze()
        return rows.dim(), rows * 2

    compiled = stator.compile(f, backend="eager")
    for x in (torch.ones(5, 4), torch.tensor([[1.0] * 4] + [[-1.0] * 4] * 4), torch.ones(5, 4)):
        torch.testing.assert_close(compiled(x), f(x))
