"""Python's own random numbers: drawn when the captured part runs, with eager's stream and eager's state afterwards."""

import random

import torch

from tests.python.programs import Case, program, vec


@program(min_ops=2)
def drawn_from_the_module():
    def f(x):
        return (x + 1) * random.uniform(0, 1), random.randint(0, 1000), random.choice([1, 2, 3])

    random.seed(3)
    return Case(f, vec())


@program(full=3)
def drawn_from_an_object():
    def f(x, g):
        r, k = g.random(), g.randint(3, 9)
        return x * r + k * g.gauss(0, 1), r, k, g

    return Case(f, vec(), random.Random(7))


@program(full=2)
def every_distribution():
    def f(x, g):
        numbers = [
            g.random(), g.uniform(1, 2), g.triangular(0, 1, 0.5), g.betavariate(1, 2), g.expovariate(2), g.gammavariate(2, 3),
            g.lognormvariate(0, 1), g.normalvariate(0, 1), g.vonmisesvariate(0, 4), g.paretovariate(3), g.weibullvariate(1, 2),
            g.randrange(10), g.randrange(3, 9), g.randrange(0, 100, 7), g.getrandbits(16), g.randrange(start=2, stop=5),
        ]  # fmt: skip
        return x * numbers[0] + numbers[3], numbers, g.getrandbits(3) >= 0

    return Case(f, vec(), random.Random(11))


@program(full=1)
def seeded_inside():
    def f(x, g):
        a = g.randint(0, 100)
        g.seed(4)
        return x + g.random(), a, g.choice([1, 2, 3]), g

    return Case(f, vec(), random.Random(3))


@program(full=1)
def generator_made_inside():
    def f(x):
        g = random.Random(9)
        g.gauss(0, 1)
        return x * g.random(), g

    return Case(f, vec())


@program(full=1)
def state_copied():
    def f(x, g):
        other = random.Random(2)
        other.random()
        g.setstate(other.getstate())
        return x * g.uniform(0, 1), g.getstate() == other.getstate(), g

    return Case(f, vec(), random.Random(3))


@program(min_ops=2)
def branch_on_a_number():
    def f(x, g):
        if g.random() < 0.5:
            x = x + 1
        return x * g.gauss(0, 1), g

    return Case(f, vec(), random.Random(3)).then_call(vec(), random.Random(4)).then_call(vec(), random.Random(5))


@program(min_ops=1)
def shuffled_and_sampled():
    def f(x, g):
        items = [1, 2, 3, 4]
        g.shuffle(items)
        return x + items[0], g.sample(items, 2), g.choices(items, k=3), g

    return Case(f, vec(), random.Random(3))


@program(min_ops=1)
def numbers_that_raise():
    def f(x, g):
        y = x + g.random()
        try:
            g.randint(5, 1)
        except ValueError:
            y = y * 2
        return y, g.random(), g

    return Case(f, vec(), random.Random(3))


@program(min_ops=1)
def methods_of_its_own():
    class Fixed(random.Random):
        def random(self):
            return 0.25

    def f(x, g, h):
        return x * g.random(), g.uniform(0, 2), h.uniform(0, 1)

    g = Fixed(1)
    h = random.Random(2)
    h.random = lambda: 0.5
    return Case(f, vec(), g, h)


@program()
def size_from_a_number():
    def f(x, g):
        return torch.zeros(g.randint(2, 4)), x + 1

    return Case(f, vec(), random.Random(3)).then_call(vec(), random.Random(4))


@program(min_ops=1)
def error_after_drawing():
    def f(x, y, g):
        try:
            return x * g.random() + y.view(5, 5), g.random()
        except RuntimeError:
            return g.random(), g

    return Case(f, vec(), vec(), random.Random(3))
