"""Programs for the tests of the debugging tools. Run as a script: python debug_programs.py <fault> <op> <stage>
[layers]"""

import sys

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        y = self.before(x)
        q, k, v = self.split(self.q(y)), self.split(self.k(y)), self.split(self.v(y))
        weights = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
        y = self.up(self.after(x))
        return x + self.down(F.relu(y) * torch.sigmoid(y))


class Transformer(nn.Module):
    """About 26 calls a layer, and one tanh in the middle."""

    def __init__(self, layers=11, width=16, heads=2):
        super().__init__()
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i == len(self.layers) // 2:
                x = torch.tanh(x)
        return self.head(x)


def transformer(layers=11):
    torch.manual_seed(0)
    return Transformer(layers), torch.randn(2, 6, 16)


def main(fault, op, stage, layers="11"):
    import stator

    torch.set_num_threads(1)
    model, x = transformer(int(layers))
    compiled = stator.compile(model, backend="planted_fault", options={"fault": fault, "op": op, "stage": stage})
    out = compiled(x)
    out.sum().backward()
    print("ran", tuple(out.shape), float(sum(p.grad.abs().sum() for p in model.parameters())))


if __name__ == "__main__":
    main(*sys.argv[1:])
