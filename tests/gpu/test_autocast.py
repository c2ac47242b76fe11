"""autocast for the device, GradScaler, precision flags."""

import pytest
import torch
from checking import DEVICE, needs_cuda, same, tensor
from torch import nn

import stator
from stator import _core

BACKENDS = ["eager", "aot_eager", "inductor"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", BACKENDS)
def test_inside(backend, dtype):
    def function(x, w):
        with torch.autocast(DEVICE.type, dtype=dtype):
            y = x @ w
            facts = torch.is_autocast_enabled(DEVICE.type), torch.get_autocast_dtype(DEVICE.type)
        return y.float() + x @ w, y.dtype, facts

    counted = same(function, tensor(8, 8), tensor(8, 8, seed=1), backend=backend, exact=backend == "eager")
    assert counted.graphs == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_around(backend):
    def function(x, w):
        return nn.functional.linear(x, w).relu()

    def run(call):
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
            return call(x, w)

    x, w = tensor(8, 8), tensor(8, 8, seed=1)
    compiled = stator.compile(function, backend=backend)
    for call in (run, lambda f: f(x, w), run):
        expected, seen = call(function), call(compiled)
        assert seen.dtype == expected.dtype
        torch.testing.assert_close(seen, expected, rtol=2e-2, atol=2e-2)
    assert _core.stats()["graphs"] == 2


def test_nested_and_turned_off():
    def function(x):
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
            a = x @ x
            with torch.autocast(DEVICE.type, enabled=False):
                b = x @ x
            c = x @ x
        return a, b, c

    same(function, tensor(8, 8))


def test_over_a_break():
    def function(x):
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
            a = x @ x
            stator.graph_break()
            b = a @ x
        return b, x @ x

    same(function, tensor(8, 8), breaks=None)


@needs_cuda
def test_the_older_name():
    def function(x):
        with torch.cuda.amp.autocast(dtype=torch.float16):
            return x @ x

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(function, tensor(8, 8), breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_training_with_a_scaler(backend):
    def run(wrap):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(DEVICE.type, init_scale=128.0)

        def loss_of(x, y):
            with torch.autocast(DEVICE.type, dtype=torch.float16):
                return nn.functional.mse_loss(model(x), y)

        call = wrap(loss_of)
        losses = []
        for i in range(4):
            optimizer.zero_grad()
            loss = call(tensor(4, 8, seed=i), tensor(4, 4, seed=i + 9))
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.detach())
        return torch.stack(losses), scaler.get_scale(), [p.detach() for p in model.parameters()]

    expected = run(lambda f: f)
    _core.reset_stats()
    seen = run(lambda f: stator.compile(f, backend=backend))
    assert _core.stats()["graph_calls"] == 4 and expected[1] == seen[1]
    torch.testing.assert_close(seen, expected, rtol=1e-3, atol=1e-3)


def test_the_scaler_s_own_calls_in_a_compiled_step():
    def run(wrap):
        torch.manual_seed(0)
        model = nn.Linear(8, 4).to(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(DEVICE.type, init_scale=128.0)

        def step(x):
            with torch.autocast(DEVICE.type, dtype=torch.float16):
                loss = model(x).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            return loss.detach()

        call = wrap(step)
        return [call(tensor(4, 8, seed=i)) for i in range(3)], [p.detach() for p in model.parameters()]

    expected = run(lambda f: f)
    _core.reset_stats()
    seen = run(lambda f: stator.compile(f, backend="eager"))
    assert _core.stats()["graph_calls"] > 0
    torch.testing.assert_close(seen, expected, rtol=1e-3, atol=1e-3)


@needs_cuda
def test_matmul_precision_is_guarded():
    def function(x):
        return x @ x

    x = tensor(256, 256)
    compiled = stator.compile(function, backend="inductor")
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high", "highest"):
            torch.set_float32_matmul_precision(precision)
            torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-3)
    finally:
        torch.set_float32_matmul_precision(before)
    assert _core.stats()["graphs"] == 2
