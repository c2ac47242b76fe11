"""Many entries of one function (src/runtime/entry_guess.h): a guess finds the one that serves, and a wrong guess
changes nothing."""

import random

import pytest
import torch

import stator
from stator import _core

COUNT = 20


class Scaled(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by


def by_number(x, n):
    return x * n


def by_text(x, text):
    return x + len(text)


def by_size(x, other):
    return x.sum() + other.sum()


def by_module(x, module):
    return module(x) + 1


def by_items(x, items):
    return x * items[0] + items[-1]


ARGUMENTS = {
    by_number: [*range(2, 12), *(n + 0.5 for n in range(10))],
    by_text: ["a" * n for n in range(1, COUNT + 1)],
    by_size: [torch.ones(n) for n in range(2, COUNT + 2)],
    by_module: [Scaled(n) for n in range(COUNT)],
    by_items: [[n, 2 * n] for n in range(3, COUNT + 3)],
}


@pytest.mark.parametrize("function", ARGUMENTS, ids=lambda function: function.__name__)
def test_entries_in_turn(function):
    x = torch.rand(3)
    with stator.config.patch(recompile_limit=50):
        compiled = stator.compile(function, backend="eager", dynamic=False)
        arguments = ARGUMENTS[function]
        calls = arguments * 2 + arguments[:1] * 12 + arguments[::-1]
        calls += random.Random(0).choices(arguments, k=60)
        for argument in calls[: 2 * COUNT]:
            assert torch.equal(compiled(x, argument), function(x, argument))
        captures = _core.stats()["captures"]
        for argument in calls[2 * COUNT :]:
            assert torch.equal(compiled(x, argument), function(x, argument))
        assert _core.stats()["captures"] == captures
    stator.reset()


def test_a_guess_that_is_wrong():
    """The arguments are the same objects, and what they hold has changed."""
    modules = [Scaled(n) for n in range(COUNT)]
    x = torch.rand(3)
    with stator.config.patch(recompile_limit=50):
        compiled = stator.compile(by_module, backend="eager", dynamic=False)
        for turn in range(4):
            for index, module in enumerate(modules):
                module.by = (index * 7 + turn) % COUNT
                assert torch.equal(compiled(x, module), by_module(x, module))
    stator.reset()
