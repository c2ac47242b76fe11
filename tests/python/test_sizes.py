"""What programs do with sizes: each item with eager's results, and with one graph for all sizes after the second, or
with a guard where the number itself is needed. Then the ways to say which sizes are dynamic."""

import math
import random
import subprocess
import sys
import warnings

import pytest
import torch

import stator

SIZES = (8, 9, 12, 5, 33)


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    yield
    stator.reset()


def counted(function, calls, backend="eager", **options):
    """How many graphs each call needed."""
    compiled = stator.compile(function, backend=backend, **options)
    counts = []
    for arguments in calls:
        before = stator.stats()["graphs"]
        got = compiled(*arguments)
        counts.append(stator.stats()["graphs"] - before)
        expected = function(*arguments)
        assert type(got) is type(expected)
        if isinstance(expected, str):
            assert got == expected
        else:
            torch.testing.assert_close(got, expected)
    return counts


def batches(*sizes):
    return [(torch.randn(size, 6),) for size in sizes]


def unpacked(x):
    rows, columns = x.shape
    return x.reshape(columns, rows) * rows


def counts_down(x):
    n = x.size(0)
    while n > 40:
        n -= 1
    return x + n


SERVED = {
    "len": lambda x: x * len(x),
    "arithmetic": lambda x: x.new_zeros(x.shape[0] * 2 + 1, x.shape[1] // 2) + (x.shape[0] - x.shape[1]),
    "remainder": lambda x: x + x.shape[0] % 4,
    "power": lambda x: x * x.size(0) ** 2,
    "shift": lambda x: x * (x.size(0) << 1) + (x.size(0) >> 1),
    "negative": lambda x: x * -x.size(0) + abs(-x.size(0)),
    "divmod": lambda x: x * divmod(x.size(0), 4)[0] + divmod(x.size(0), 4)[1],
    "min and max": lambda x: x[: min(x.size(0), 4)] * max(x.size(0), 2),
    "sum and prod": lambda x: x + sum(x.shape) + math.prod(x.shape) + x.shape.numel(),
    "division": lambda x: x / (x.size(0) / 2) + 1.0 / x.size(0),
    "float": lambda x: x * float(x.size(0)) + x.size(0) * 0.5,
    "root": lambda x: x / math.sqrt(x.size(0)) + x.size(0) ** 0.5,
    "rounded": lambda x: (
        x[: math.ceil(x.size(0) / 4)] + math.floor(x.size(0) / 3),
        torch.ones(int(x.size(0) / 2)),
        math.ceil(7 / x.size(0)) - math.floor((3 - x.size(0)) / 2),
    ),
    "a float comes out": lambda x: (x + 1, x.size(0) / 4),
    "slices": lambda x: (x[: x.size(0) // 2], x[x.size(0) // 3 :], x[1:-1], x[-3:]),
    "index": lambda x: x[x.size(0) - 1] + x[-1],
    "view": lambda x: x.view(x.size(0), -1, 2).sum(-1) + x.view(-1, 3).sum(),
    "reshape": unpacked,
    "flatten": lambda x: x.t().contiguous().view(-1) + x.flatten() + x.unflatten(1, (2, 3)).sum(),
    "arange": lambda x: torch.arange(x.size(0)) * 2,
    "factories": lambda x: (torch.ones(x.size(0), 2), torch.full((x.size(0),), x.size(0)), torch.eye(x.size(0))),
    "linspace": lambda x: torch.linspace(0, 1, x.size(0)),
    "triangle": lambda x: torch.ones(x.size(0), x.size(0)).tril(),
    "tensor of sizes": lambda x: torch.tensor([x.size(0), 2]) + torch.tensor(x.size(0)),
    "as_tensor of sizes": lambda x: torch.as_tensor([x.size(0), 2]) + torch.as_tensor(x.size(), dtype=torch.int32),
    "views in place": lambda x: (x + 1).unsqueeze_(1).squeeze_().t_() * 2,
    "writes beside rows of one tensor": lambda x: x.new_zeros(6).scatter_reduce_(
        0, torch.arange(3).expand(2, 3).unbind()[1], x[0, :3], "amax", include_self=False
    ),
    "einsum": lambda x: (
        torch.einsum("bi,bj->bij", x, x),
        torch.einsum("...i,ij->...j", x, x.new_ones(6, 3)),
        torch.einsum("bi,ci->cb", x, x + 1).stride(),
    ),
    "scatter": lambda x: (
        x.scatter_reduce(0, torch.zeros(2, 6, dtype=torch.long), x[:2], "sum"),
        x.masked_scatter(x > 0, x.flatten()),
    ),
    "stack of strided": lambda x: torch.stack([-x[:, 1::2], x[:, ::2]], dim=-1).flatten(1),
    "norm": lambda x: x / torch.linalg.norm(x, dim=-1, keepdim=True) + torch.linalg.norm(x),
    "grid": lambda x: torch.nn.functional.grid_sample(
        x.view(-1, 1, 2, 3), x.new_zeros(x.size(0), 2, 2, 2), align_corners=False
    ),
    "expand": lambda x: torch.ones(1, 6).expand(x.size(0), 6) + x,
    "repeat": lambda x: x.repeat(x.size(0), 1),
    "cat and stack": lambda x: (torch.cat([x, x]), torch.stack([x] * 3)),
    "roll and narrow": lambda x: x.roll(x.size(0) // 2, 0).narrow(0, 1, x.size(0) - 2),
    "select": lambda x: x.select(0, x.size(0) // 2),
    "strided": lambda x: x.as_strided((x.size(0), 2), (6, 1)) + x.stride(0),
    "shape comes out": lambda x: (x + 1, x.shape, tuple(x.size()), [x.numel()]),
    "unequal": lambda x: x + 1 if x.size(0) != x.size(1) else x - 1,
    "between": lambda x: x + 1 if 2 < x.size(0) < 100 else x,
    "truth": lambda x: x + 1 if x.size(0) else x,
    "any": lambda x: x + 1 if any(n > 100 for n in x.shape) else x - 1,
    "in": lambda x: x + 1 if x.size(0) in (1, 2, 64) or x.size(1) not in x.shape else x - 1,
    "even": lambda x: x * 2 if x.numel() % 2 == 0 else x,
    "isinstance": lambda x: x + 1 if isinstance(x.size(0), int) and type(len(x)) is int else x,
    "while": counts_down,
    "zip and enumerate": lambda x: (
        x + sum(a * b for a, b in zip(x.shape, (1, 2), strict=True)) + [i * n for i, n in enumerate(x.shape)][1]
    ),
}


@pytest.mark.parametrize("name", SERVED)
def test_one_graph_serves(name):
    assert counted(SERVED[name], batches(*SIZES)) == [1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    "name",
    [
        *["division", "float", "root", "rounded", "a float comes out", "factories", "slices", "view"],
        *["shape comes out", "tensor of sizes", "as_tensor of sizes", "views in place", "einsum", "scatter"],
    ],
)
def test_one_graph_serves_with_a_backend(name):
    assert counted(SERVED[name], batches(*SIZES), backend="aot_eager") == [1, 1, 0, 0, 0]


def test_one_graph_serves_with_inductor():
    def f(x):
        return x / math.sqrt(x.size(0)) + float(x.size(0)), x[: x.size(0) // 2] * (x.size(0) / 4)

    assert counted(f, batches(*SIZES), backend="inductor") == [1, 1, 0, 0, 0]


def looped(x):
    total = 0
    for i in range(x.size(0)):
        total = total + x[i] * i
    return total


def text(x):
    return x + len(f"{x.size(0)} rows")


def in_a_set(x):
    seen = set()
    seen.add(x.size(0))
    seen.add(9)
    return x * len(seen)


def as_key(x):
    return x + {8: 1, 9: 2}.get(x.size(0), 3)


def of_a_quotient(x):
    return x + 1 if x.size(0) / 2 > 4.3 else x - 1


@pytest.mark.parametrize("function", [looped, text, in_a_set, as_key], ids=lambda f: f.__name__)
def test_the_number_itself_is_guarded(function):
    """An entry for each size; a size that was there is served by its own."""
    assert counted(function, batches(8, 9, 12, 9, 8, 12)) == [1, 1, 1, 0, 0, 0]


def test_what_a_quotient_is_compared_with_is_guarded():
    """And not the size that it is made of."""
    assert counted(of_a_quotient, batches(8, 9, 12, 6, 8, 12, 7)) == [1, 1, 0, 1, 0, 0, 0]


def test_dividing_by_what_may_be_zero():
    def f(x):
        return x * (1.0 / (x.size(0) - 7)) + (x.size(0) - 7) ** 0.5

    compiled = stator.compile(f, backend="eager")
    for size in (9, 10, 12):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), f(x))
    for size in (7, 5):
        x = torch.randn(size)
        try:
            expected = f(x)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError, match="float division by zero"):
                compiled(x)
        else:
            torch.testing.assert_close(compiled(x), expected)  # a complex number


def columns(*shapes):
    """The first four columns of larger tensors: their first stride follows from no size."""
    return [(torch.randn(rows, width)[:, :4],) for rows, width in shapes]


def pooled(x):
    y = x[:, 0]
    print(end="")  # behind a break y is an argument whose stride is that of x
    return y * 2 + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_strides_that_changed_are_dynamic(backend):
    def f(x):
        return x * 2 + 1, x.sum(0), x.reshape(-1).sin()

    assert counted(f, columns((8, 6), (8, 7), (8, 9), (8, 30)), backend=backend) == [1, 1, 0, 0]
    # with the size beside it; one that is contiguous is another program
    stator.reset()
    assert counted(f, columns((8, 6), (9, 7), (3, 9), (5, 4), (7, 4), (6, 20)), backend=backend) == [1, 1, 0, 1, 0, 0]
    stator.reset()
    assert counted(f, [(torch.randn(4, n, 3)[:, 1],) for n in (5, 6, 9)], backend=backend) == [1, 1, 0]


def test_a_stride_that_is_asked_for():
    assert counted(lambda x: (x + 1, x.stride(0), x.stride()), columns((8, 6), (8, 7), (8, 9))) == [1, 1, 0]
    calls = [(torch.randn(4, n, 8),) for n in (5, 6, 9, 11)]
    assert counted(pooled, calls, backend="aot_eager") == [2, 2, 0, 0]
    compiled = stator.compile(lambda x: x + 1, backend="eager")
    compiled(torch.randn(8, 6)[:, :4])
    with (
        stator.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match=r"L\['x'\]\.stride\(0\): was 6, is 7"),
    ):
        compiled(torch.randn(8, 7)[:, :4])


def test_rounding_of_quotients_is_that_of_floats():
    def f(x, a, b):
        return x + math.ceil(a / b), math.floor(a / b), int(a / b)

    rng = random.Random(0)
    calls = [(torch.ones(2), 7, 3), (torch.ones(2), 8, 5)]
    calls += [(torch.ones(2), rng.randrange(-50, 1 << 31), rng.randrange(2, 40)) for _ in range(30)]
    calls += [(torch.ones(2), (1 << 31) - 1 - n, 3 + n) for n in range(10)] + [
        (torch.ones(2), -9, 2),
        (torch.ones(2), 9, -2),
    ]
    counts = counted(f, calls, recompile_limit=64)
    assert sum(counts[2:]) <= 6  # negative ones are programs of their own


def test_ints_and_floats_that_are_passed():
    def f(x, n, scale):
        return x[:n] * scale + n

    x = torch.randn(40)
    calls = [(x, 8, 0.5), (x, 9, 1.5), (x, 12, 2.5), (x, 33, 3.5)]
    assert counted(f, calls) == [1, 1, 0, 0]
    assert counted(f, calls, dynamic=False) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("dynamic", "expected"), [(None, [1, 1, 0, 0, 1, 1]), (True, [1, 0, 0, 0, 1, 1]), (False, [1, 1, 1, 1, 1, 1])]
)
def test_which_sizes_are_dynamic(dynamic, expected):
    """0 and 1 are constants in each case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert counted(lambda x: x * 2, batches(8, 9, 12, 5, 1, 0), dynamic=dynamic) == expected


def test_marks():
    def f(x):
        return x * 2

    def marked(mark, *sizes, **options):
        made = [torch.randn(size, 6) for size in sizes]
        for x in made:
            mark(x, 0, **options)
        return [(x,) for x in made]

    assert counted(f, marked(stator.mark_dynamic, 8, 9, 12)) == [1, 0, 0]
    stator.reset()
    assert counted(f, marked(stator.mark_dynamic, 8, 9, 12, min=4, max=20)) == [1, 0, 0]
    stator.reset()
    assert counted(f, marked(stator.maybe_mark_dynamic, 8, 9, 12)) == [1, 0, 0]
    stator.reset()
    assert counted(f, marked(stator.mark_unbacked, 8, 1, 0)) == [1, 0, 0]
    stator.reset()
    assert counted(f, marked(stator.mark_static, 8, 9, 12)) == [1, 1, 1]


def test_dynamic_tells_once_of_zero_and_one():
    program = """
import torch, stator
def f(x):
    return x * 2
compiled = stator.compile(f, backend="eager", dynamic=True)
for size in (8, 1, 0, 1, 5):
    compiled(torch.randn(size, 4))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == (
        "<string>:3 in f: with dynamic=True, sizes of 0 and 1 are constants all the same: "
        "L['x'].size(0) is 1, and other sizes are captured anew\n"
    )


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks change what is captured")
def test_sizes_kept_in_an_object():
    """A torch.Size in an attribute is made of symbols once it changed, and stays a torch.Size."""

    class Batch:
        pass

    def f(x, batch):
        size = batch.size
        return x.expand(*size, 3) * size.numel(), size, type(size) is torch.Size, size[0] + 1

    graphs = []
    compiled = stator.compile(f, backend=lambda module, inputs: graphs.append(module) or module.forward)
    for n in range(2, 8):
        batch = Batch()
        batch.size = torch.Size([n, n + 1])
        got, wanted = compiled(torch.ones(3), batch), f(torch.ones(3), batch)
        torch.testing.assert_close(got[0], wanted[0])
        assert got[1:] == wanted[1:] and type(got[1]) is torch.Size
    assert len(graphs) == 2


_LIBRARY = torch.library.Library("stator_sizes", "FRAGMENT")
_LIBRARY.define("rounded(Tensor x, str how) -> Tensor")
_ROUNDINGS = {
    "up": lambda n: math.ceil(n / 32) * 32,  # as attention on CUDA sizes its logsumexp
    "down": lambda n: math.floor(n / 4) + 1,
    "cut": lambda n: math.trunc((n - 20) / 4) + 10,
}


@torch.library.impl(_LIBRARY, "rounded", "CPU")
@torch.library.register_fake("stator_sizes::rounded", lib=_LIBRARY)
def _rounded(x, how):
    return x.new_zeros(_ROUNDINGS[how](x.shape[0]))


ROUNDED = torch.ops.stator_sizes.rounded


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks change what is captured")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("how", _ROUNDINGS)
def test_sizes_that_an_operator_rounds(how, backend):
    """What an operator's own inference says about sizes may divide and round: no reason to keep a size as it is."""

    def f(x):
        return ROUNDED(x * 2, how) + x.sum()

    assert counted(f, [(torch.randn(n),) for n in (16, 24, 31, 40, 64)], backend) == [1, 1, 0, 0, 0]


_LIBRARY.define("fill(Tensor x, Tensor y, Tensor(a!) out, Tensor? before=None) -> ()")
FILLED = []


@torch.library.impl(_LIBRARY, "fill", "CPU")
def _fill(x, y, out, before=None):
    FILLED.append(len(out))
    out.copy_(x + y)


torch.library.register_fake("stator_sizes::fill", lambda x, y, out, before=None: None, lib=_LIBRARY)


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks change what is captured")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_operator_without_results_says_what_it_writes(backend):
    """It reads views that begin somewhere in another's memory, and writes to another tensor: sizes stay symbols."""

    def f(x):
        left, right = x.split([2, 4], dim=1)
        out = x.new_empty(x.shape[0], 2)
        torch.ops.stator_sizes.fill(left, right[:, 2:], out.view(-1, 2))
        return out * 2

    FILLED.clear()
    assert counted(f, [(torch.randn(n, 6),) for n in (16, 24, 31)], backend) == [1, 1, 0]
    assert FILLED == [16, 16, 24, 24, 31, 31]


_LIBRARY.define("turn(Tensor(a!) x, Tensor(b!) y) -> ()")


@torch.library.impl(_LIBRARY, "turn", "CPU")
def _turn(x, y):
    x.mul_(2)
    y.add_(1)


torch.library.register_fake("stator_sizes::turn", lambda x, y: None, lib=_LIBRARY)


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks change what is captured")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_operator_writes_to_parts_of_one_tensor(backend):
    """As rotary embeddings do to queries and keys: the whole is written to, and sizes stay symbols."""

    def f(x):
        whole = x * 3
        left, rest = whole.split([2, 4], dim=1)
        torch.ops.stator_sizes.turn(rest[:, 1:3], left)
        return whole + 1, left * 2

    def g(x):
        left, rest = x.split([2, 4], dim=1)
        torch.ops.stator_sizes.turn(left, rest[:, 2:])
        return x + 1

    assert counted(lambda x: torch.cat(f(x), 1), [(torch.randn(n, 6),) for n in (16, 24, 31)], backend) == [1, 1, 0]
    compiled = stator.compile(g, backend=backend)
    for n in (16, 24, 31):
        x = torch.randn(n, 6)
        y = x.clone()
        assert torch.equal(compiled(x), g(y)) and torch.equal(x, y)


def test_an_operator_without_results_is_called_once():
    """What is called for its effect may do more than write what it says: a graph that raises behind it does not do it
    again."""

    def f(x, y):
        out = torch.empty_like(x)
        torch.ops.stator_sizes.fill(x, x, out)
        return out.index_select(0, y)

    x, y = torch.ones(3), torch.tensor([0])
    compiled = stator.compile(f, backend="eager")
    assert torch.equal(compiled(x, y), f(x, y))
    FILLED.clear()
    with pytest.raises(IndexError):
        compiled(x, y + 5)
    assert FILLED == [3]


F = torch.nn.functional
CONSISTS_OF_OTHERS = {
    "bilinear": lambda x: F.bilinear(x, x, torch.ones(3, 6, 6)),
    "unfold": lambda x: F.unfold(x[None, None], 2),
    "rfft": lambda x: torch.fft.rfft(x, dim=0).abs(),
    "stft": lambda x: torch.stft(x.reshape(-1), 8, window=torch.ones(8), return_complex=True).abs(),
    "grid_sample": lambda x: F.grid_sample(x[None, None], torch.zeros(1, 2, 2, 2), align_corners=False),
    "grid_sample that warns": lambda x: F.grid_sample(x[None, None], torch.zeros(1, 2, 2, 2)),
}


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks change what is captured")
@pytest.mark.filterwarnings("ignore:Default grid_sample")
@pytest.mark.parametrize("name", CONSISTS_OF_OTHERS)
def test_operators_that_consist_of_others(name):
    """torch's C++ asks for their sizes as numbers where its Python computes with symbols, or the other way round."""
    assert counted(CONSISTS_OF_OTHERS[name], batches(16, 24, 31, 40)) == [1, 1, 0, 0]


def test_attention_without_dropout_draws_nothing():
    """The fused kernels of other devices may draw, and say so; a graph that draws is called with more care."""
    from stator import _fake

    fact = (
        (2, 4, 24, 16),
        (1536, 384, 16, 1),
        torch.float32,
        torch.device("cuda", 0),
        *[False, True] + [False] * 4,
        0,
        12288,
        0,
    )
    state = False, False, torch.float32, None, False, False, torch.bfloat16, torch.float16

    def draws(call):
        (fake,) = _fake.make([fact])
        status, *_, random, _ = _fake.call(call, (fake,), {}, [fake], state)
        assert status == _fake.OK
        return random

    assert not draws(lambda q: F.scaled_dot_product_attention(q, q, q))
    assert draws(lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5))
    assert draws(lambda q: F.dropout(q))
    assert not draws(lambda q: F.dropout(q, training=False))
