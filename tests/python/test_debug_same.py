"""stator.debug.same: by itself, and beside torch._dynamo.utils.same on 10,000 random pairs."""

import collections
import dataclasses
import random

import numpy
import pytest
import torch

from stator.debug import compare, same, same_two_models

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


class Maker:
    """Pairs of values: equal, nearly equal, unequal, of odd types; with and without an fp64 reference."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.torch = torch.Generator().manual_seed(seed)

    def tensor(self):
        r = self.random
        shape = [r.choice([0, 1, 2, 3, 5, 40]) for _ in range(r.choice([0, 1, 1, 2, 2, 4]))]
        dtype = r.choice(DTYPES)
        if dtype.is_floating_point:
            value = torch.randn(shape, generator=self.torch, dtype=torch.float64) * 10 ** r.randint(-3, 3)
            return value.to(dtype), value
        if dtype.is_complex:
            value = torch.randn(shape, generator=self.torch, dtype=torch.complex64)
            return value, value
        value = torch.randint(0, 2 if dtype is torch.bool else 50, shape, generator=self.torch)
        return value.to(dtype), value.to(dtype)

    def other(self, ref):
        """Something beside a tensor: equal, noisy, or plainly wrong."""
        r = self.random
        kind = r.choice(["equal", "equal", "noise", "noise", "wrong", "nan", "inf", "dtype"])
        res = ref.clone()
        if kind == "noise" and (ref.is_floating_point() or ref.is_complex()):
            noise = torch.randn(ref.shape, generator=self.torch, dtype=torch.float64) * 10 ** r.uniform(-8, -1)
            return (ref.to(torch.complex128 if ref.is_complex() else torch.float64) * (1 + noise)).to(ref.dtype)
        if kind == "dtype":
            return ref.to(r.choice([d for d in DTYPES if not d.is_complex and not ref.is_complex()] or [ref.dtype]))
        if kind in ("wrong", "nan", "inf") and ref.numel():
            flat = res.reshape(-1)
            at = r.randrange(flat.numel())
            if kind == "wrong" or not ref.is_floating_point():
                flat[at] = ~flat[at] if ref.dtype is torch.bool else flat[at] + 1
            else:
                flat[at] = float(kind)
            return flat.reshape(ref.shape)
        return res

    def leaf(self):
        r = self.random
        kind = r.choice(["tensor"] * 6 + ["float", "int", "none", "str", "bool", "numpy", "array", "odd"])
        if kind == "tensor":
            ref, exact = self.tensor()
            res = self.other(ref)
            if r.random() < 0.1 and ref.is_floating_point() and ref.numel():
                ref = ref.clone()
                ref.reshape(-1)[0] = float(r.choice(["nan", "inf"]))
                res = r.choice([ref.clone(), res])
            return ref, res, exact
        if kind == "float":
            ref = r.uniform(-5, 5)
            return ref, r.choice([ref, ref + 1e-6, ref + 1]), ref
        if kind == "numpy":
            ref = r.choice([numpy.float32(1.5), numpy.int64(3), numpy.int8(2)])
            return ref, r.choice([ref, type(ref)(ref + 1), ref.item()]), ref
        if kind == "array":
            ref = numpy.random.default_rng(r.randrange(99)).standard_normal(4).astype(r.choice(["float32", "float64"]))
            return ref, r.choice([ref.copy(), ref + 1]), ref
        if kind == "odd":
            return 3, "3", 3
        ref = {"int": r.randint(0, 3), "none": None, "str": r.choice("ab"), "bool": r.random() < 0.5}[kind]
        res = r.choice(
            [ref, {"int": r.randint(0, 3), "none": None, "str": r.choice("ab"), "bool": r.random() < 0.5}[kind]]
        )
        return ref, res, ref

    def value(self, depth=2):
        r = self.random
        kind = r.choice(["leaf"] * 3 + ["list", "tuple", "dict", "set", "deque"]) if depth else "leaf"
        if kind == "leaf":
            return self.leaf()
        if kind == "set":
            ref = {r.randint(0, 3) for _ in range(2)}
            return ref, r.choice([set(ref), {1, 2}]), ref
        parts = [self.value(depth - 1) for _ in range(r.randint(0, 3))]
        if kind == "dict":
            keys = [f"k{i}" for i in range(len(parts))]
            made = [dict(zip(keys, column)) for column in zip(*parts)] or [{}, {}, {}]
            if r.random() < 0.1:
                made[1] = {**made[1], "more": 1}
            return tuple(made)
        wrap = {"list": list, "tuple": tuple, "deque": collections.deque}[kind]
        made = [wrap(column) for column in zip(*parts)] or [wrap(), wrap(), wrap()]
        if r.random() < 0.1:
            made[1] = wrap([*made[1], 1])
        return tuple(made)


def test_agrees_with_torchdynamo_on_random_pairs(caplog):
    caplog.set_level("CRITICAL", "stator.debug")
    from torch._dynamo.utils import same as theirs

    verdicts = collections.Counter()
    differences = []
    for seed in range(10_000):
        maker = Maker(seed)
        ref, res, exact = maker.value()
        rules = {
            "equal_nan": maker.random.random() < 0.5,
            "exact_dtype": maker.random.random() < 0.8,
            "ignore_non_fp": maker.random.random() < 0.2,
            "relax_numpy_equality": maker.random.random() < 0.3,
            "cos_similarity": maker.random.random() < 0.1,
            "use_larger_multiplier_for_smaller_tensor": maker.random.random() < 0.2,
            "tol": maker.random.choice([1e-4, 1e-3, 3e-2]),
        }
        exact = exact if maker.random.random() < 0.5 else None
        ours = same(ref, res, exact, **rules)
        try:
            wanted = bool(theirs(ref, res, exact, log_error=lambda *a: None, **rules))
        except (AssertionError, TypeError, RuntimeError, ValueError):
            wanted = False  # a documented choice: a difference, not an error
            verdicts["raised"] += 1
        verdicts[ours] += 1
        if ours != wanted:
            differences.append((seed, ours, wanted, rules, compare(ref, res, exact, **rules)))
    assert not differences, f"{len(differences)}: {differences[:5]}"
    assert verdicts[True] > 3000 and verdicts[False] > 3000, verdicts  # the pairs are worth something


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: object


def changed(tensor, at, by):
    made = tensor.clone()
    made[at] += by
    return made


@pytest.mark.parametrize(
    "ref, res, text",
    [
        (
            {"logits": [0, 1, 2, torch.zeros(2, 6)]},
            {"logits": [0, 1, 2, changed(torch.zeros(2, 6), (1, 5), 0.2)]},
            "out['logits'][3]: max abs 0.2 at (1, 5)",
        ),
        (Point(torch.zeros(2), 1), Point(torch.ones(2), 1), "out.x: max abs 1 at (0,)"),
        (Pair(torch.zeros(2), 1), Pair(torch.zeros(2), 2), "out.right: 1 became 2"),
        (torch.zeros(2), torch.zeros(3), "shape (2,) became (3,)"),
        (torch.zeros(2), torch.zeros(2, dtype=torch.float64), "dtype"),
        (torch.zeros(2), torch.tensor([0.0, float("nan")]), "0 became nan at (1,)"),
        ([1, 2], [1], "2 items became 1"),
        ({"a": 1}, {"b": 1}, "keys that are gone: ['a']"),
        (torch.eye(3).to_sparse(), torch.zeros(3, 3).to_sparse(), "max abs 1"),
        (torch.eye(3).to_sparse_csr(), torch.eye(3).to_sparse(), "layout"),
        (
            torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
            torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8),
            "max abs",
        ),
        (
            torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
            torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)]),
            "out[1]: max abs 1",
        ),
        (torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.complex64) * 1j, "max abs 1.4"),
        (None, 0, "None became 0"),
        (1.0, None, "float became a NoneType"),
    ],
)
def test_first_difference_is_named(ref, res, text):
    assert text in compare(ref, res)
    assert not same(ref, res)
    assert same(ref, ref) and compare(ref, ref, equal_nan=True) is None


def test_model_output():
    from transformers.modeling_outputs import BaseModelOutput

    ref, res = BaseModelOutput(torch.zeros(3)), BaseModelOutput(torch.ones(3))
    assert same(ref, BaseModelOutput(torch.zeros(3)))
    assert compare(ref, res).startswith("out['last_hidden_state']: max abs 1")


def test_fp64_reference_judges_rounding():
    exact = torch.linspace(0, 1, 2000, dtype=torch.float64) * 100
    ref = exact.to(torch.bfloat16)
    noise = ref + 0.4 * ref.float().frac().to(torch.bfloat16) * 0.5
    assert not same(ref, noise)
    assert same(ref, noise, exact) == (
        ((noise - exact) ** 2).mean().sqrt() <= 3 * ((ref - exact) ** 2).mean().sqrt() + 1e-5
    )


class Model(torch.nn.Module):
    def __init__(self, factor=1.0, fails=False):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(()))
        self.factor, self.fails = factor, fails

    def forward(self, x, y):
        self.seen += 1
        if self.fails:
            raise ValueError("no")
        return {"a": torch.relu(self.linear(x)) * self.factor + torch.rand(4), "n": 3, "b": (y * 2,)}


def models(**options):
    first, second = Model(), Model(**options)
    second.load_state_dict(first.state_dict())
    return first, second


def test_two_models():
    first, second = models()
    x = torch.randn(3, 4, requires_grad=True)
    y = x.detach()[1]
    state = torch.get_rng_state()
    assert same_two_models(first, second, [x, y])
    assert x.grad is None and first.linear.weight.grad is None and first.seen == 0, "the user's things stay as they are"
    assert torch.equal(state, torch.get_rng_state())
    assert not same_two_models(*models(factor=1.5), [x, y])
    assert not same_two_models(*models(factor=1.5), [x, y], only_fwd=True)
    assert same_two_models(*models(fails=True), [x, y]), "an exception is not a difference"


def test_two_models_gradients_count():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    x = torch.randn(3, requires_grad=True)
    assert not same_two_models(lambda x: x * 2, Twice.apply, [x])
    assert same_two_models(lambda x: x * 2, Twice.apply, [x], only_fwd=True)


def test_clones_keep_aliasing():
    base = torch.arange(6.0)
    seen = []

    def spy(a, b):
        a.add_(1)
        seen.append(torch.equal(b, torch.arange(6.0)[2:4] + 1))
        return b * 1

    assert same_two_models(spy, spy, [base, base[2:4]])
    assert all(seen) and torch.equal(base, torch.arange(6.0))
