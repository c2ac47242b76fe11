"""Functions that a graph calls (torch._higher_order_ops.wrap stands for all of them): what else they do, and what they take from around."""

import numpy
import torch
from torch._higher_order_ops.wrap import wrap

from tests.python.programs import Case, program, vec

settings = {"scale": 2.0}
count = 0


class Box:
    value = 0


@program()
def sets_an_attribute_of_a_new_object():
    def f(x):
        box = Box()

        def inner(x):
            box.value = x.dim()
            return x.sin()

        return wrap(inner, x) + box.value, box.value

    return Case(f, vec(4))


@program()
def appends_to_a_new_list():
    def f(x):
        seen = [0]

        def inner(x):
            seen.append(len(seen))
            return x * 2

        y = wrap(inner, x)
        return y + len(seen), seen

    return Case(f, vec(4))


@program()
def counts_in_a_global():
    global count
    count = 0

    def f(x):
        def inner(x):
            global count
            count += 1
            return x + count

        return wrap(inner, x) * 2, count

    return Case(f, vec(4))


@program()
def counts_in_a_closure():
    def f(x):
        calls = 0

        def inner(x):
            nonlocal calls
            calls += 1
            return x.cos()

        return wrap(inner, x) + calls

    return Case(f, vec(4))


@program(full=2)
def one_in_another():
    def f(x):
        z = x.cos()
        return wrap(lambda a: wrap(lambda b: b + z, a) * settings["scale"], x)

    return Case(f, vec(4))


@program(full=1)
def with_a_number_of_numpy():
    factor = numpy.float32(1.5)

    def f(x):
        return wrap(lambda a: a * factor, x)

    return Case(f, vec(4))


@program(full=2)
def tensors_by_the_old_constructor():
    def f(x):
        return x + torch.Tensor([1, 2, 3, 4]), torch.Tensor(2, 3).shape

    return Case(f, vec(4))
