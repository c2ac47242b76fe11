"""What the processes of test_disk_cache.py run: each program, compiled by inductor, beside eager. Prints one JSON
object."""

import json
import sys

import torch
import torch.nn.functional as F
from checking import DEVICE, seed, tensor
from torch import nn
from torch.utils import _pytree

import stator


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(64), nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        heads = self.norm(x).view(*x.shape[:2], 4, 16).transpose(1, 2)
        x = x + F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape(x.shape)
        return x + self.outer(F.gelu(self.inner(x))).softmax(-1)


def blocks(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block(), Block()).to(DEVICE, dtype)


def forward():
    model = blocks(torch.bfloat16).eval()
    return (
        torch.no_grad()(model),
        torch.no_grad()(stator.compile(model)),
        [(tensor(2, 8, 64, dtype=torch.bfloat16),)] * 2,
    )


def training():
    model = blocks()

    def step(run):
        def stepped(x):
            model.zero_grad()
            loss = run(x).square().mean()
            loss.backward()
            return loss.detach(), [p.grad.clone() for p in model.parameters()]

        return stepped

    return step(model), step(stator.compile(model)), [(tensor(2, 8, 64),)] * 2


def lengths():
    model = blocks().eval()
    run = torch.no_grad()(stator.compile(model, dynamic=True))
    return torch.no_grad()(model), run, [(tensor(2, n, 64),) for n in (8, 12, 20)]


def misaligned():
    """Inputs that begin where inductor's code does not take them to, and are written to."""

    def function(x, y):
        x.mul_(2)
        return (x + y).sum(1)

    def whole(run):
        def each(offset):
            x, y = tensor(9, 16).flatten()[offset : offset + 128].view(8, 16), tensor(8, 16, seed=1)
            return run(x, y), x

        return each

    return whole(function), whole(stator.compile(function)), [(0,), (1,), (4,)]


def random_numbers():
    def function(x):
        return F.dropout(x, 0.5).ne(0).float().mean() < 0.9, torch.rand_like(x).mean() < 0.9

    return function, stator.compile(function), [(tensor(64, 64) + 10,)] * 2


PROGRAMS = {each.__name__: each for each in (forward, training, lengths, misaligned, random_numbers)}


def equal(expected, seen):
    """Without torch.testing, which imports half of torch."""
    expected, seen = _pytree.tree_leaves(expected), _pytree.tree_leaves(seen)
    return len(expected) == len(seen) and all(
        a.dtype == b.dtype and torch.allclose(a.float(), b.float(), rtol=2e-2, atol=2e-2)
        for a, b in zip(expected, seen, strict=True)
    )


def main():
    answers = {}
    for name, make in PROGRAMS.items():
        stator.reset()
        before = dict(stator._core.stats())
        eager, compiled, calls = make()
        same = []
        for arguments in calls:
            seed()
            expected = eager(*arguments)
            seed()
            same.append(equal(expected, compiled(*arguments)))
        now = stator._core.stats()
        answers[name] = [
            same == [True] * len(calls) or same,
            now["disk_hits"] - before["disk_hits"],
            now["disk_misses"] - before["disk_misses"],
        ]
    heavy = [name for name in ("torch._dynamo", "torch._inductor", "sympy", "triton") if name in sys.modules]
    print(json.dumps({"programs": answers, "modules": heavy, "reasons": stator._disk.reasons}))


if __name__ == "__main__":
    import stator._disk

    main()
