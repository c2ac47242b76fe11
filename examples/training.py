"""A training loop: forward and loss compiled, backward and optimiser as always; the same numbers as in eager."""

import copy

import torch

import stator

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
twin = copy.deepcopy(model)
x = torch.randn(64, 8)
y = x.sum(1, keepdim=True).sin()


def loss_of(model, x, y):
    return torch.nn.functional.mse_loss(model(x), y)


def train(model, loss_of, steps=20):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


eager = train(twin, loss_of)
before = stator.stats()
compiled = train(model, stator.compile(loss_of, backend="aot_eager", fullgraph=True))
after = stator.stats()
torch.testing.assert_close(torch.tensor(compiled), torch.tensor(eager))
assert compiled[-1] < 0.7 * compiled[0]
assert after["graphs"] - before["graphs"] == 1 and after["graph_calls"] - before["graph_calls"] == 20
print(f"loss {compiled[0]:.4f} -> {compiled[-1]:.4f} in 20 steps, one graph, captured once")
