"""Convolutions with a dynamic batch: which kernel torch takes is no guard of a graph, as long as the memory format does
not depend on it."""

import pytest
import torch
from torch import nn

import stator

SIZES = (4, 5, 16, 17, 2, 64)


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    yield
    stator.reset()


def layers(kind):
    torch.manual_seed(0)
    return {
        "2d": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1)), (3, 16, 16)),
        "1d": lambda: (nn.Sequential(nn.Conv1d(4, 8, 3), nn.GELU(), nn.Conv1d(8, 8, 3, groups=8)), (4, 24)),
        "3d": lambda: (nn.Conv3d(2, 4, 3), (2, 5, 6, 7)),
        "depthwise": lambda: (nn.Conv2d(8, 8, 3, groups=8), (8, 12, 12)),
        "large": lambda: (nn.Conv2d(3, 8, 7, stride=4), (3, 64, 64)),
        "transposed": lambda: (nn.ConvTranspose2d(4, 3, 2, stride=2), (4, 8, 8)),
        "double": lambda: (nn.Conv2d(3, 4, 3).double(), (3, 9, 9)),
        "channels last": lambda: (nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last), (4, 9, 9)),
    }[kind]()


@pytest.mark.parametrize("kind", ["2d", "1d", "3d", "depthwise", "large", "transposed", "double", "channels last"])
@pytest.mark.parametrize("train", [False, True])
def test_one_graph_on_both_sides_of_every_choice(kind, train):
    model, shape = layers(kind)
    dtype = next(model.parameters()).dtype
    compiled = stator.compile(model, backend="aot_eager")
    graphs = []
    for size in SIZES:
        x = torch.randn(size, *shape, dtype=dtype, requires_grad=train)
        if kind == "channels last":
            x = x.detach().to(memory_format=torch.channels_last).requires_grad_(train)
        before = stator.stats()["graphs"]
        with torch.set_grad_enabled(train):
            got, expected = compiled(x), model(x)
        graphs.append(stator.stats()["graphs"] - before)
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride()
        if train:
            weights = [x, *model.parameters()]
            mine = torch.autograd.grad(got.square().sum(), weights)
            for ours, theirs in zip(mine, torch.autograd.grad(expected.square().sum(), weights), strict=True):
                torch.testing.assert_close(ours, theirs)
    assert graphs == [1, 1, 0, 0, 0, 0]


def test_with_inductor():
    model, shape = layers("2d")
    compiled = stator.compile(model, backend="inductor")
    graphs = []
    with torch.no_grad():
        for size in SIZES:
            x = torch.randn(size, *shape)
            before = stator.stats()["graphs"]
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
            graphs.append(stator.stats()["graphs"] - before)
    assert graphs == [1, 1, 0, 0, 0, 0]


def test_a_format_that_depends_on_sizes_is_decided():
    """Where answers lead to different formats, torch's own inference answers, and its guards come back."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    from stator import _convolutions

    env = ShapeEnv()
    mode = _convolutions.symbolic_mode(env)
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] + [DimDynamic.STATIC] * 3)
    x = mode.from_tensor(torch.randn(4, 3, 8, 8), symbolic_context=context)
    weight = mode.from_tensor(torch.randn(8, 3, 3, 3), static_shapes=True)
    known = len(env.guards)
    with mode:
        out = torch.conv2d(x, weight)
    assert len(env.guards) == known and out.size(0).node.expr == x.size(0).node.expr
    ask = _convolutions._ask_format
    try:
        _convolutions._ask_format = lambda mode, values: (
            torch.channels_last if values["input"].size(0) > 16 else torch.contiguous_format
        )
        assert _convolutions._infer(mode, torch.ops.aten.convolution.default,
                                    (x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1), {}) is None  # fmt: skip
    finally:
        _convolutions._ask_format = ask
    assert len(env.guards) == known


def test_all_ways_are_tried():
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

    from stator import _convolutions, _symbols

    env = ShapeEnv()
    source = _symbols._SymbolSource("s0")
    size = env.create_symintnode(env.create_symbol(5, source, dynamic_dim=DimDynamic.DYNAMIC), hint=5, source=source)

    def ask():
        if size > 1:  # known
            return (bool(size > 16), bool(size > 16), bool(size % 2 == 0))
        return None

    assert set(_convolutions._all_ways(env, ask)) == {
        (False, False, False), (False, False, True), (True, True, False), (True, True, True)}  # fmt: skip
    with pytest.raises(_convolutions._Open):
        list(_convolutions._all_ways(env, lambda: int(size)))
    assert not env.guards


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_kernels_that_grow_with_their_padding(backend):
    """padding="same" of a kernel of changing size: torch asks whether sums of sizes fit into 64 bits."""

    def f(x, weight):
        return torch.nn.functional.conv2d(x, weight, padding="same")

    compiled = stator.compile(f, backend=backend)
    for size in (3, 5, 7, 4):
        x, weight = torch.randn(2, 4, 8, 8), torch.randn(4, 4, size, size)
        torch.testing.assert_close(compiled(x, weight), f(x, weight))
