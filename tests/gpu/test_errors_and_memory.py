"""Errors of the device are eager's; nothing lives longer than in eager."""

import gc
import os
import subprocess
import sys
import textwrap
import weakref

import pytest
import torch
from checking import DEVICE, needs_cuda, tensor
from torch import nn

import stator
from stator import _core


@needs_cuda
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_out_of_memory(backend):
    def function(x):
        y = x + 1
        return y.expand(1 << 20, -1).repeat(1 << 6, 1), y

    compiled = stator.compile(function, backend=backend)
    x = torch.ones(1 << 14, device=DEVICE)
    for call in (function, compiled, compiled):
        with pytest.raises(torch.cuda.OutOfMemoryError):
            call(x)
    small = torch.ones(4, device=DEVICE)
    good = stator.compile(lambda x: x * 2, backend=backend)
    assert torch.equal(good(small), small * 2)


ASSERTING = """
import os, sys, torch, stator
def function(x, i):
    y = x * 2
    return y[i] + 1
call = function if sys.argv[1] == "none" else stator.compile(function, backend=sys.argv[1])
x = torch.ones(4, device="cuda")
if sys.argv[1] != "none":
    call(x, torch.tensor([1, 2], device="cuda"))
try:
    call(x, torch.tensor([1, 100], device="cuda"))
    torch.cuda.synchronize()
except Exception as error:
    print(type(error).__name__, "|", str(error).splitlines()[0])
    os._exit(0)
os._exit(1)
"""


@needs_cuda
def test_device_side_assert():
    """In processes of their own: the device is of no use to them afterwards."""
    found = {}
    for backend in ("none", "eager", "inductor"):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(ASSERTING), backend],
            capture_output=True, text=True, timeout=200, check=False, env={**os.environ, "STATOR_STRICT": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        found[backend] = done.stdout.split("|")[0].strip(), "device-side assert" in done.stdout
    assert found["none"][1] and found["none"] == found["eager"] == found["inductor"], found


def allocated():
    gc.collect()
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


@needs_cuda
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_nothing_is_kept(backend):
    def function(x, w):
        return (x @ w).relu() @ w

    compiled = stator.compile(function, backend=backend)
    w = tensor(256, 256)
    compiled(tensor(256, 256), w)
    before = allocated()
    for turn in range(4):
        x = tensor(256, 256, seed=turn)
        gone = weakref.ref(x)
        out = compiled(x, w)
        del x, out
        assert gone() is None
        assert allocated() == before


@needs_cuda
def test_values_of_a_graph_end_with_their_last_use():
    """Peak memory of a chain of large values: two at a time, as in eager."""

    def function(x):
        for _ in range(20):
            x = x + 1
        return x

    def peak(call):
        x = torch.zeros(1 << 22, device=DEVICE)
        call(x)
        allocated()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call(x)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    theirs = peak(function)
    assert peak(stator.compile(function, backend="eager")) <= theirs * 1.01
    assert peak(stator.compile(function, backend="inductor")) <= theirs * 1.01


@needs_cuda
@pytest.mark.parametrize("train", [False, True])
def test_peak_memory_beside_torchdynamo(train):
    def peak(wrap):
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512)) for _ in range(8)))
        model.to(DEVICE)
        call = wrap(model)
        x = tensor(1024, 512)

        def step():
            with torch.set_grad_enabled(train):
                out = call(x)
                if train:
                    out.sum().backward()
                    model.zero_grad(set_to_none=True)

        for _ in range(3):
            step()
        allocated()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    for backend in ("aot_eager", "inductor"):
        torch._dynamo.reset()
        theirs = peak(lambda m, b=backend: torch.compile(m, backend=b))
        torch._dynamo.reset()
        mine = peak(lambda m, b=backend: stator.compile(m, backend=b))
        assert mine <= theirs * 1.01, (backend, mine, theirs)


def test_model_is_freed_with_its_compiled_form():
    model = nn.Linear(8, 8).to(DEVICE)
    compiled = stator.compile(model, backend="inductor")
    compiled(tensor(2, 8))
    gone = weakref.ref(model.weight)
    del model, compiled
    gc.collect()
    assert gone() is None
    assert _core.stats()["graphs"] >= 1


def test_error_in_the_middle_of_a_graph():
    def function(x, log):
        log.append(1)
        y = x + 1
        z = y @ torch.ones(7, 2, device=x.device)
        log.append(2)
        return z

    for backend in ("eager", "inductor"):
        mine, theirs = [], []
        with pytest.raises(RuntimeError) as expected:
            function(tensor(3, 4), theirs)
        with pytest.raises(RuntimeError) as seen:
            stator.compile(function, backend=backend)(tensor(3, 4), mine)
        assert str(seen.value).split("\n")[0] == str(expected.value).split("\n")[0] and mine == theirs


def test_checks_on_data():
    def function(x):
        if (x < 0).any():
            raise ValueError("negative")
        return x.sqrt() * 2

    compiled = stator.compile(function, backend="eager")
    good, bad = tensor(4).abs(), tensor(4).abs().neg_()
    for _ in range(2):
        assert torch.equal(compiled(good), function(good))
        with pytest.raises(ValueError, match="negative"):
            compiled(bad)
    assert _core.stats()["graph_calls"] > 0
