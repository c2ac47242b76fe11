"""Numbers that differ from call to call: the program's ints, sizes, NumPy's numbers, what is read from tensors."""

import math
import os

import numpy as np
import pytest
import torch

import stator

FORCED = "STATOR_BREAK_EVERY" in os.environ


class Counting:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return graph_module.forward


def check(function, calls, graphs, **arguments):
    backend = Counting()
    compiled = stator.compile(function, backend=backend, fullgraph=not FORCED, **arguments)
    for call in calls:
        expected, found = function(*call), compiled(*call)
        torch.testing.assert_close(found, expected)
        assert [type(part) for part in found] == [type(part) for part in expected]
    assert FORCED or len(backend.graphs) == graphs


X = torch.arange(12.0).reshape(3, 4)
SHAPES = [(torch.randn(3, 4),), (torch.randn(5, 4),), (torch.randn(7, 6),), (torch.randn(6, 9),)]


def test_ints_of_any_sign():
    def f(x, n):
        return x * n, n + 1

    check(f, [(X, n) for n in (1, 2, 3, 0, -5, 1)], 2)


def test_an_int_that_is_asked_for_its_sign():
    def f(x, n):
        return x * n if n >= 0 else x - n, n

    check(f, [(X, n) for n in (5, 2, 0, -5, -1, 7)], 3)


def test_the_larger_of_two_sizes():
    def f(x):
        return x[: min(x.size(0), x.size(1)), : max(1, x.size(1) - 2)] * 2, max(x.shape), min(x.size(0), 4)

    check(f, SHAPES, 1, dynamic=True)


def test_bits_and_truncated_quotients():
    def f(x):
        return x.new_ones(math.trunc(x.size(0) / 2) + 1, (x.size(1) & 3) + 1), x.size(0) & 1

    check(f, SHAPES, 1, dynamic=True)


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.float64, np.int32])
def test_numpy_s_numbers_beside_tensors(kind):
    def f(x, n):
        return x * n, n * x, n - x, x > n, n + kind(1)

    check(f, [(X, kind(n)) for n in (3, 4, 5, 6)], 2)
    check(f, [(X.int(), kind(n)) for n in (3, 4, 5, 6)], 2)


def test_numpy_s_numbers_that_decide():
    """What only a constant can do is done with a constant, for each number anew."""

    def f(x, n):
        for _ in range(n):
            x = x + n
        return x if n > 3 else -x, n

    check(f, [(X, np.int64(n)) for n in (3, 4, 5)], 3)


@pytest.mark.skipif(FORCED, reason="forced breaks read tensors themselves")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_int_of_a_float_that_is_read(backend):
    def f(x):
        n = int(x.sum())
        return x + n, n, int(x.max().item())

    compiled = stator.compile(f, backend=backend, fullgraph=True)
    before = stator._core.stats()["captures"]
    for value in (2.7, -2.7, 0.2):
        x = torch.tensor([value, value])
        torch.testing.assert_close(compiled(x), f(x))
        assert type(compiled(x)[1]) is int
    assert stator._core.stats()["captures"] == before + 1
    for function in (f, compiled):
        with pytest.raises(OverflowError):
            function(torch.tensor([math.inf, 1.0]))
