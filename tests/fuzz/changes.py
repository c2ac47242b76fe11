"""Random changes of random module trees, each followed by a call that has to give what eager gives: whatever a guard rests on may change.

    python -m tests.fuzz.changes --count 100000 --seed 0

Changes come from every side: attributes, classes, hooks, parameters, buffers, globals, code, defaults, cells, dicts written directly or replaced, threads,
objects that go while their dicts stay, tensors changed in place. A finding names the seed, the step and the changes since the call before.
"""

from __future__ import annotations

import argparse
import random

import torch

import stator
from tests.fuzz.changing_tree import Changes, Counting

STEPS_OF_A_TREE = 120


def outcome(model, function, x, gradients):
    """What a call gives or raises; with `gradients`, those of all that requires them too."""
    try:
        out = function(x)
        if not gradients or not out.requires_grad:
            return [out]
        leaves = [x, *(parameter for parameter in model.parameters() if parameter.requires_grad)]
        return [out, *torch.autograd.grad(out.sum(), leaves, allow_unused=True)]
    except Exception as error:
        return type(error), str(error).splitlines()[:1]


def same(left, right):
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        alike = left.dtype == right.dtype and left.shape == right.shape and left.requires_grad == right.requires_grad
        return alike and torch.equal(left.nan_to_num(7), right.nan_to_num(7))
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return all(map(same, left, right))
    return type(left) is type(right) and not isinstance(left, torch.Tensor) and left == right


def counted(model):
    return [module.calls for module in model.modules() if isinstance(module, Counting)]


def difference(changes, compiled, x, gradients):
    """How the compiled call differs from eager's; None: it does not."""
    before = counted(changes.model)
    expected = outcome(changes.model, changes.model, x, gradients)
    between = counted(changes.model)
    got = outcome(changes.model, compiled, x, gradients)
    after = counted(changes.model)
    if not same(expected, got):
        return f"eager {expected}, compiled {got}"
    if [b - a for a, b in zip(before, between, strict=True)] != [b - a for a, b in zip(between, after, strict=True)]:
        return f"calls were counted otherwise: {before}, {between}, {after}"
    return None


def run(seed, steps=STEPS_OF_A_TREE):
    """How many calls were made, how many found an entry, and what was found."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    changes = Changes(rng)
    stator.reset()
    compiled = stator.compile(changes.model, backend="eager")
    since = []
    calls = 0
    stator._core.reset_stats()
    try:
        with stator.config.patch(recompile_limit=1000, accumulated_recompile_limit=10000):
            for step in range(steps):
                since = [changes.change() for _ in range(rng.choice([0, 1, 1, 1, 2]))]
                gradients = rng.random() < 0.1
                x = torch.rand(2, 4, dtype=changes.dtype(), requires_grad=gradients)
                with torch.set_grad_enabled(gradients or rng.random() < 0.6):
                    for _ in range(rng.choice([1, 1, 3])):
                        calls += 1
                        if found := difference(changes, compiled, x, gradients):
                            return calls, 0, f"seed {seed}, step {step}, behind {since}: {found}"
    finally:
        changes.end()
    return calls, stator._core.stats()["hits"], None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--count", type=int, default=100000, help="changes in all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = seed = calls = hits = 0
    while done < options.count:
        made, found, finding = run(options.seed + seed)
        if finding is not None:
            raise SystemExit(finding)
        calls, hits, done, seed = calls + made, hits + found, done + STEPS_OF_A_TREE, seed + 1
        print(f"\r{done} changes, {calls} calls, {hits} found an entry", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
