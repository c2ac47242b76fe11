"""sum(): what C adds by itself (ints, then floats, whose rounding some versions of CPython make up for), and what
operators add."""

import torch

from tests.python.programs import Case, program, vec

TENTHS = [0.1] * 10
MIXED = [1, True, 0.1, 0.2, 3, 0.3, -1e-17, 1e16, 1.0, -1e16]


class Own(int):
    def __radd__(self, other):
        return "own"

    def __add__(self, other):
        return "own too"


class Fraction(float):
    def __radd__(self, other):
        return float.__radd__(self, other) + 100


@program(full=1)
def floats():
    def f(x):
        return x * 2, sum(TENTHS), sum(TENTHS, 0.0), sum(TENTHS, start=1), sum(tuple(TENTHS[:2])), sum(MIXED)

    return Case(f, vec())


@program(full=1)
def made_in_the_trace():
    def f(x):
        numbers = [0.1 * i for i in range(x.shape[0] + 8)]
        return x + sum(numbers), sum(n * n for n in numbers), sum({0.1: 1, 0.2: 2, 0.7: 3}), sum(map(float, range(9)))

    return Case(f, vec())


@program(full=1)
def large_and_odd():
    def f(x):
        inf, nan = float("inf"), float("nan")
        return (
            x + 1,
            sum([2**63, 0.1, 0.1, 0.1]),
            sum([0.1, 0.1, 0.1, 2**63]),
            sum([0.1, 2**64, 0.1, 0.1, 0.1]),
            sum([2**62, 2**62, 0.1, 0.2, 0.3]),
            sum([1e308, 1e308, -1e308]),
            sum([inf, 0.1, 0.2]),
            str(sum([inf, -inf, 0.1])),
            str(sum([0.1, nan, 0.2])),
            sum([0.1, 0.2, 0.3 + 0j, 0.1, 0.2, 0.3]),
            sum([0.1, 0.2, 0.3], 1j),
            str(sum([], -0.0)),
            str(sum([-0.0, -0.0])),
        )

    return Case(f, vec())


@program()
def classes_of_their_own():
    def f(x):
        own, fraction = Own(3), Fraction(0.5)
        return (
            x + 1,
            sum([0.1, own, 0.2, 0.3]),
            sum([0.1, 0.2, fraction, 0.3]),
            sum([own]),
            sum([1, own]),
            sum([0.1, 0.1, 0.1], fraction),
            sum([0.1, True, 0.1, 0.1]),
        )

    return Case(f, vec())


@program()
def floats_that_change():
    def f(x, a, b, n):
        return x * sum([a, b]), sum([a, b, 0.1]), sum([0.1, n, a, b]), sum([n, a]), sum([a, n])

    case = Case(f, vec(), 0.1, 0.2, 3)
    return case.then_call(vec(), 0.1, 0.3, 4).then_call(vec(), 0.5, 1e-17, 5).then_call(vec(), 1e16, 1.0, 6)


@program(full=1)
def tensors_among_them():
    def f(x):
        return sum([0.1, 0.2, 0.3, x, 0.1, 0.2]), sum([x, 0.1, 0.2]), sum([1, 0.5, x.sum()]), sum(x.unbind())

    return Case(f, vec())


@program()
def a_generator_from_outside():
    def f(x, numbers, tensors, mixed, start):
        return x * 2, sum(numbers), sum(tensors), sum(mixed), sum(start, 0.5), sum((t for t in [x, x]), x)

    def arguments():
        many = (0.1 for _ in range(10))
        return vec(), many, (torch.ones(2) * i for i in range(3)), iter_of(MIXED), iter_of([Own(2), 0.1, 0.2, True, x])

    x = vec()

    def iter_of(items):
        return (item for item in items)

    return Case(f, *arguments())


@program()
def thrown_in_parts():
    def f(x):
        def turns():
            while True:
                try:
                    yield x + 1
                except ValueError as error:
                    yield error.args

        generator = turns()
        return next(generator), generator.throw(ValueError, "one"), generator.throw(ValueError("two")), x * 2

    return Case(f, vec())
