"""What libraries do besides computing: subclasses looked up, struct sequences made, attributes in C read through their descriptors."""

import time

import torch
from torch._higher_order_ops.wrap import wrap

from tests.python.programs import Case, program, vec


@program(full=1)
def subclasses_of_a_class():
    class Base:
        factor = 1

    class Two(Base):
        factor = 2

    class Three(Base):
        factor = 3

    def f(x):
        return [x * found.factor for found in Base.__subclasses__()], Base.__subclasses__() is Base.__subclasses__()

    kept = [Two, Three]
    return Case(f, vec()).watching(kept)


@program()
def a_subclass_that_comes_later():
    class Base:
        factor = 1

    class Two(Base):
        factor = 2

    kept = [Two]

    def f(x):
        return [x * found.factor for found in Base.__subclasses__()]

    def another(case):
        kept.append(type("Five", (Base,), {"factor": 5}))

    return Case(f, vec()).then(another)


@program(full=1)
def a_class_without_subclasses():
    class Leaf:
        pass

    def f(x):
        return x + len(Leaf.__subclasses__())

    return Case(f, vec())


@program()
def a_first_subclass_that_comes_later():
    class Leaf:
        pass

    kept = []

    def f(x):
        return x + len(Leaf.__subclasses__())

    def another(case):
        kept.append(type("Five", (Leaf,), {}))

    return Case(f, vec()).then(another)


@program()
def subclasses_made_inside():
    class Base:
        pass

    def f(x):
        class Inner(Base):
            pass

        return x + 1, [found.__name__ for found in Base.__subclasses__()], Inner.__name__

    return Case(f, vec())


@program(full=2)
def struct_sequences_of_torch():
    def f(x):
        made = torch.return_types.max((x + 1, x * 2))
        return made, made.values + made.indices, tuple(torch.return_types.qr([x, x]))

    return Case(f, vec())


@program()
def a_struct_sequence_of_the_wrong_length():
    def f(x):
        try:
            torch.return_types.max((x, x, x))
        except TypeError as error:
            return x + 1, str(error)

    return Case(f, vec())


@program(full=1)
def a_struct_sequence_of_time():
    def f(x):
        moment = time.struct_time((2026, 1, 2, 3, 4, 5, 6, 7, 0))
        return x * moment.tm_year, moment

    return Case(f, vec())


@program(full=1)
def attributes_in_c_through_their_descriptors():
    shape, ndim = torch.Tensor.shape, torch.Tensor.ndim

    def f(x):
        return x * ndim.__get__(x), shape.__get__(x), torch.Tensor.dtype.__get__(x)

    return Case(f, vec())


@program(full=1)
def a_member_of_slots_through_its_descriptor():
    class Slots:
        __slots__ = ("factor",)

        def __init__(self, factor):
            self.factor = factor

    def f(x, slots):
        return x * Slots.factor.__get__(slots)

    return Case(f, vec(), Slots(3)).changing(vec(5), Slots(4))


@program(full=1)
def a_function_of_the_graph_with_a_float_that_changes():
    def g(x, y):
        return x * y + y

    def f(x, y):
        return wrap(g, x, y)

    return Case(f, vec(), 4.0).changing(vec(), 5.0).then_call(vec(), 6.5)


@program(full=1)
def a_function_of_the_graph_takes_what_it_uses():
    def g(x, unused, more):
        return more["a"].sin() + x.cos()

    def f(x, y):
        return wrap(g, x, y, {"a": y, "b": x})

    return Case(f, vec(), vec(start=1.0))


@program(full=1)
def a_function_of_the_graph_writes_to_its_argument():
    def g(x, y):
        x.add_(1)
        return x * y

    def f(x, y):
        z = x * 2
        return wrap(g, z, y), z

    return Case(f, vec(), vec(start=1.0))
