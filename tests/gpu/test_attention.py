"""Attention: scaled_dot_product_attention with each of its kernels, flex_attention."""

import pytest
import torch
from checking import DEVICE, needs_cuda, same, tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import stator
from stator import _core


def heads(seed, dtype=torch.float16, grad=False):
    return tensor(2, 4, 128, 64, seed=seed, dtype=dtype, grad=grad)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("kernel", [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
@needs_cuda
def test_kernels(backend, kernel):
    def function(q, k, v):
        with sdpa_kernel(kernel):
            return scaled_dot_product_attention(q, k, v, is_causal=True) * 2

    same(function, heads(0), heads(1), heads(2), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_training(backend):
    def function(q, k, v):
        return scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    args = [heads(i, torch.float32, grad=True) for i in range(3)]
    same(function, *args, backend=backend, backward=True, exact=False, calls=2)


@needs_cuda
def test_multi_head_attention():
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True).to(DEVICE)
    for training in (True, False):
        layer.train(training)
        same(lambda m, x: m(x), layer, tensor(2, 16, 64), exact=False)


@needs_cuda
@pytest.mark.parametrize("backward", [False, True])
def test_flex_attention(backward):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(b, h, q, k):
        return q >= k

    mask = create_block_mask(causal, None, None, 128, 128, device=DEVICE)

    def function(q, k, v):
        def score(score, b, h, qi, ki):
            return score + (qi - ki) * 0.01

        return flex_attention(q, k, v, score_mod=score, block_mask=mask)

    compiled = stator.compile(function, backend="inductor", fullgraph=True)
    mine = [heads(i, torch.float32, grad=backward) for i in range(3)]
    theirs = [t.detach().clone().requires_grad_(backward) for t in mine]
    for _ in range(2):
        seen, expected = compiled(*mine), function(*theirs)
        torch.testing.assert_close(seen, expected, rtol=2e-2, atol=2e-2)
        if backward:
            seen.sum().backward()
            expected.sum().backward()
    if backward:
        torch.testing.assert_close([t.grad for t in mine], [t.grad for t in theirs], rtol=3e-2, atol=3e-2)
    assert _core.stats()["graphs"] == 1 and _core.stats()["graph_calls"] == 2


@needs_cuda
def test_block_mask_made_inside():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def function(q, k, v, window):
        def near(b, h, qi, ki):
            return (qi - ki).abs() < window

        mask = create_block_mask(near, None, None, 128, 128, device=q.device)
        return flex_attention(q, k, v, block_mask=mask)

    compiled = stator.compile(function, backend="inductor")
    q, k, v = (heads(i, torch.float32) for i in range(3))
    for window in (16, 32):
        torch.testing.assert_close(compiled(q, k, v, window), function(q, k, v, window), rtol=2e-2, atol=2e-2)
    assert _core.stats()["graph_calls"] >= 2
