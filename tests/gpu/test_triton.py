"""Triton kernels that a program launches itself."""

import pytest
import torch
from checking import needs_cuda, same, tensor

import stator

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

pytestmark = needs_cuda
BACKENDS = ["eager", "aot_eager", "inductor"]


@triton.jit
def add_kernel(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(a + i, mask=m) + tl.load(b + i, mask=m), mask=m)


@triton.autotune(configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 128}, num_warps=8)], key=["n"])
@triton.jit
def tuned_kernel(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(a + i, mask=m) * tl.load(b + i, mask=m), mask=m)


@triton.heuristics({"BLOCK": lambda args: 64 if args["n"] > 64 else 32})
@triton.jit
def heuristic_kernel(a, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(a + i, mask=m) + 1, mask=m)


def with_tuple(a, b):
    out = torch.empty_like(a)
    add_kernel[(triton.cdiv(a.numel(), 16),)](a, b, out, a.numel(), BLOCK=16)
    return out * 2


def with_function(a, b):
    out = torch.empty_like(a)
    add_kernel[lambda meta: (triton.cdiv(a.numel(), meta["BLOCK"]),)](a + 1, b, out, n=a.numel(), BLOCK=16)
    return out.relu()


def into_argument(a, b):
    add_kernel[(triton.cdiv(a.numel(), 16),)](a, b, a, a.numel(), BLOCK=16)
    return a + 1


def tuned(a, b):
    out = torch.empty_like(a)
    tuned_kernel[lambda meta: (triton.cdiv(a.numel(), meta["BLOCK"]),)](a, b, out, a.numel())
    return out - 1


@pytest.mark.parametrize("function", [with_tuple, with_function, into_argument, tuned])
@pytest.mark.parametrize("backend", BACKENDS)
def test_launches(function, backend):
    counted = same(function, tensor(200), tensor(200, seed=1), backend=backend, fullgraph=True)
    assert counted.graphs == 1


def test_other_sizes():
    compiled = stator.compile(tuned, backend="inductor")
    for n in (40, 77, 130, 500):
        a, b = tensor(n), tensor(n, seed=1)
        torch.testing.assert_close(compiled(a, b), tuned(a, b))


def test_heuristics():
    def function(a):
        out = torch.empty_like(a)
        heuristic_kernel[lambda meta: (triton.cdiv(a.numel(), meta["BLOCK"]),)](a * 2, out, a.numel())
        return out.sin()

    same(function, tensor(100), breaks=None)


def test_triton_op():
    from torch.library import triton_op, wrap_triton

    @triton_op("stator_gpu_tests::added", mutates_args={})
    def added(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(a)
        wrap_triton(add_kernel)[(triton.cdiv(a.numel(), 16),)](a, b, out, a.numel(), BLOCK=16)
        return out

    for backend in BACKENDS:
        same(lambda a, b: added(a, b) * 2, tensor(64), tensor(64, seed=1), backend=backend)


def test_under_cuda_graphs():
    compiled = stator.compile(with_tuple, mode="reduce-overhead")
    for turn in range(5):
        a, b = tensor(64, seed=turn), tensor(64, seed=turn + 9)
        torch.testing.assert_close(compiled(a, b).clone(), with_tuple(a, b))
