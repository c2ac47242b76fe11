"""Random numbers in graphs: eager's numbers, and eager's state behind them."""

import pytest
import torch
from checking import DEVICE, needs_cuda, same, tensor

import stator
from stator import _core


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_draws(backend):
    def function(x):
        a = torch.rand(3, device=x.device)
        b = torch.randn_like(x)
        c = torch.nn.functional.dropout(x, 0.5)
        d = torch.randint(0, 10, (3,), device=x.device)
        return a + b + c + d + torch.bernoulli(a)

    same(function, tensor(3), backend=backend)


def test_state_read_and_set():
    def function(x):
        y = torch.rand_like(x)
        torch.manual_seed(3)
        return y + torch.rand_like(x)

    same(function, tensor(3), breaks=None)


def test_generators():
    def function(x, generator):
        return x + torch.rand(3, device=x.device, generator=generator)

    compiled = stator.compile(function, backend="eager")
    mine, theirs = (torch.Generator(DEVICE).manual_seed(5) for _ in range(2))
    x = tensor(3)
    for _ in range(3):
        assert torch.equal(compiled(x, mine), function(x, theirs))
        assert torch.equal(mine.get_state(), theirs.get_state())


@needs_cuda
def test_cuda_random_state():
    def function(x):
        y = x + torch.rand(3, device="cuda")
        torch.cuda.manual_seed(4)
        z = torch.rand(3, device="cuda")
        return y, z, torch.cuda.initial_seed()

    same(function, tensor(3), breaks=None)

    def kept(x):
        with torch.random.fork_rng(devices=[0]):
            y = torch.rand_like(x)
        return y + torch.rand_like(x)

    same(kept, tensor(3), breaks=None)


@needs_cuda
def test_inductor_draws_anew_and_keeps_the_state():
    torch._inductor.config.fallback_random, before = True, torch._inductor.config.fallback_random
    try:
        same(lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x), tensor(64), backend="inductor")
    finally:
        torch._inductor.config.fallback_random = before
    compiled = stator.compile(lambda x: torch.nn.functional.dropout(x, 0.5), backend="inductor")
    x = torch.ones(1000, device="cuda")
    first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second) and 300 < first.count_nonzero() < 700
    torch.manual_seed(1)
    again = compiled(x)
    torch.manual_seed(1)
    assert torch.equal(compiled(x), again)
    assert _core.stats()["breaks"] == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_dropout_in_training(backend):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2)).to(DEVICE)
    same(lambda m, x: m(x), model, tensor(3, 4, grad=True), backend=backend, backward=True)


def test_checkpoint_keeps_the_random_state():
    from torch.utils.checkpoint import checkpoint

    def block(x):
        return torch.nn.functional.dropout(x.sin(), 0.5)

    def function(x):
        return checkpoint(block, x, use_reentrant=False) * 2

    same(function, tensor(8, grad=True), backward=True, breaks=None)


@torch.library.custom_op("stator_gpu_tests::refused", mutates_args=())
def refused(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() < 0):
        raise ValueError("refused")
    return x.clone()


@refused.register_fake
def _(x):
    return torch.empty_like(x)


def test_a_graph_that_fails_leaves_the_state_that_eager_leaves():
    def function(x):
        y = torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)
        return y, refused(x)

    compiled = stator.compile(function, backend="aot_eager")
    x = tensor(3, 3)
    compiled(x.abs())
    states = []
    for each in (function, compiled):
        torch.manual_seed(5)
        with pytest.raises(ValueError, match="refused"):
            each(-x.abs())
        states.append((torch.rand(3, device=x.device), torch.rand(3)))
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))
    assert _core.stats()["graph_calls"] >= 2
