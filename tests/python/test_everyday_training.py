"""Whole training loops as programs write them, compiled as they stand: meters, progress lines, early stopping, lists
and deques that grow, numbers that are drawn. Their results are eager's, and no place gives up capturing."""

import collections
import copy
import json
import math
import random
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import stator

pytestmark = pytest.mark.filterwarnings("ignore")


class Meter:
    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.value = self.average = self.sum = self.count = 0

    def update(self, value, n=1):
        self.value = value
        self.sum += value * n
        self.count += n
        self.average = self.sum / self.count

    def __str__(self):
        return f"{self.name} {self.value:.2f} ({self.average:.2f})"


def step(net, optimizer, x, y):
    out = net(x)
    loss = functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return out, loss


def meters(net, optimizer, batches, lines):
    losses, right = Meter("loss"), Meter("right")
    for _ in range(3):
        losses.reset()
        right.reset()
        for i, (x, y) in enumerate(batches):
            out, loss = step(net, optimizer, x, y)
            losses.update(loss.item(), x.size(0))
            right.update((out.argmax(1) == y).float().mean().item(), x.size(0))
            if i % 5 == 0:
                lines.append(str(losses) + str(right))
    return losses.average, right.average


def accumulated(net, optimizer, batches, lines):
    done, running = 0, 0.0
    for _ in range(2):
        for i, (x, y) in enumerate(batches):
            loss = functional.cross_entropy(net(x), y) / 4
            loss.backward()
            running += loss.item()
            if (i + 1) % 4 == 0 or i + 1 == len(batches):
                norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                done += 1
                lines.append(f"step {done} loss {running:.2f} norm {float(norm):.2f}")
                running = 0.0
    return done


def timed(net, optimizer, batches, lines):
    seen = 0
    for _ in range(2):
        begun = time.perf_counter()
        for x, y in batches:
            step(net, optimizer, x, y)
            seen += len(x)
        lines.append(seen / (time.perf_counter() - begun) > 0)
    return seen


def stopped_early(net, optimizer, batches, lines):
    best, kept, waited = float("inf"), None, 0
    for epoch in range(14):
        net.train()
        total = 0.0
        for x, y in batches[:2]:
            total += step(net, optimizer, x, y)[1].item()
        net.eval()
        with torch.no_grad():
            now = sum(functional.cross_entropy(net(x), y).item() for x, y in batches[2:4]) / 2
        if now < best - 1e-4:
            best, kept, waited = now, copy.deepcopy(net.state_dict()), 0
        else:
            waited += 1
            if waited > 3:
                break
        lines.append({"epoch": epoch, "train": round(total / 2, 2), "now": round(now, 2)})
    net.load_state_dict(kept)
    return best, epoch


def warmed_up(net, optimizer, batches, lines):
    done = 0
    for _ in range(2):
        for x, y in batches:
            rate = 0.1 * min(1.0, (done + 1) / 20) * (0.5 * (1 + math.cos(math.pi * done / 36)))
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss = step(net, optimizer, x, y)[1]
            done += 1
            if done % 10 == 0:
                lines.append(json.dumps({"done": done, "rate": rate, "loss": round(float(loss), 2)}))
    return done


def with_lists_that_grow(net, optimizer, batches, lines):
    predicted, wanted, last = [], [], collections.deque(maxlen=5)
    for _ in range(2):
        for x, y in batches:
            out, loss = step(net, optimizer, x, y)
            predicted.append(out.detach().argmax(-1).numpy())
            wanted.extend(y.tolist())
            last.append(round(loss.item(), 2))
    lines.append(list(last))
    return float((np.concatenate(predicted) == np.array(wanted)).mean())


def with_averages(net, optimizer, batches, lines):
    shadow = {name: value.clone() for name, value in net.state_dict().items()}
    done = 0
    for _ in range(2):
        for x, y in batches:
            step(net, optimizer, x, y)
            done += 1
            share = min(0.9, (1 + done) / (10 + done))
            with torch.no_grad():
                for name, value in net.state_dict().items():
                    shadow[name].mul_(share).add_(value, alpha=1 - share)
    return {name: value.sum().item() for name, value in shadow.items()}


def with_numbers_drawn(net, optimizer, batches, lines):
    own = random.Random(3)
    for _ in range(2):
        for x, y in batches:
            if own.random() < 0.5:
                x = x.flip(-1)
            x = x * own.uniform(0.9, 1.1)
            if random.random() < 0.3:
                x = x + 0.1 * torch.ones_like(x)
            if random.random() * 2 - 0.5 > -random.random():
                x = x - 0.01
            loss = step(net, optimizer, x, y)[1]
    return loss.item()


def by_rewards(net, optimizer, batches, lines):
    average, last = 0.0, collections.deque(maxlen=10)
    for episode in range(12):
        x = batches[episode % len(batches)][0][:1]
        chances, rewards = [], []
        for turn in range(4):
            chance = torch.log_softmax(net(x), -1)
            action = (turn * 7 + episode) % 3
            chances.append(chance[0, action])
            rewards.append(float(chance.argmax().item() == action))
            x = torch.roll(x, 1, -1)
        total, returns = 0.0, []
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        loss = -(torch.stack(chances) * torch.tensor(returns)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last.append(sum(rewards))
        average = 0.05 * sum(rewards) + 0.95 * average
    return average, list(last)


PROGRAMS = [
    meters, accumulated, timed, stopped_early, warmed_up, with_lists_that_grow, with_averages, with_numbers_drawn,
    by_rewards,
]  # fmt: skip


def trained(function):
    torch.manual_seed(0)
    random.seed(5)
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    if function.__name__ in ("with_averages", "meters"):
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    sizes = [8] * 11 + [5]
    batches = [(torch.randn(size, 8), torch.randint(0, 3, (size,))) for size in sizes]
    return net, optimizer, batches, []


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_results_and_no_place_that_gives_up(program, backend):
    results = []
    for compiled in (False, True):
        arguments = trained(program)
        before = dict(stator._core.stats())
        result = (stator.compile(program, backend=backend) if compiled else program)(*arguments)
        results.append((result, repr(arguments[3]), list(arguments[0].parameters()), random.random()))
    after = stator._core.stats()
    assert results[1][1] == results[0][1]
    assert results[1][3] == results[0][3]
    torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(results[1][2], results[0][2], rtol=1e-3, atol=1e-4)
    if stator.config.break_every != "0":
        return
    assert after["graph_calls"] - before["graph_calls"] >= 12
    # With backends of AOTAutograd SGD is a graph for each rate.
    if not (program is warmed_up and backend == "aot_eager"):
        assert after["fallbacks"] == before["fallbacks"]


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks have limits of their own")
def test_the_user_is_told_where_values_are_read():
    def report(x, n):
        return x + 1, f"step {n}"

    compiled = stator.compile(report, backend="eager")
    with pytest.warns(UserWarning, match="captured 8 times.*captures end where such a value is read") as told:
        for n in range(100):
            assert compiled(torch.ones(2), n)[1] == report(torch.ones(2), n)[1]
    assert len([one for one in told if "captured 8 times" in str(one.message)]) == 1
    assert stator._core.stats()["fallbacks"] <= 3 * 100


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks have limits of their own")
def test_limits_that_are_errors_stay_so():
    def report(x, n):
        return x + 1, f"step {n}"

    with stator.config.patch(fail_on_recompile_limit_hit=True), pytest.raises(stator.exc.FailOnRecompileLimitHit):
        compiled = stator.compile(report, backend="eager")
        for n in range(20):
            compiled(torch.ones(2), n)
    with pytest.raises(stator.exc.FailOnRecompileLimitHit):
        compiled = stator.compile(report, backend="eager", fullgraph=True)
        for n in range(20):
            compiled(torch.ones(2), n)
