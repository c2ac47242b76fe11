"""Closures, cells, nonlocal variables, and functions made inside functions."""

import torch

from tests.python.programs import Case, mat, program, vec


@program(full=2)
def reads_outer_tensor():
    scale = vec(4, 1.0)

    def f(x):
        return x * scale + 1

    return Case(f, vec())


@program(full=2)
def nonlocal_counter():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * count + count

    return Case(f, vec())


@program(full=3)
def nonlocal_through_two_levels():
    total = 0

    def f(x):
        def inner(y):
            nonlocal total
            total += 2

            def innermost(z):
                nonlocal total
                total *= 3
                return z + total

            return innermost(y)

        return inner(x) + inner(x * 2)

    return Case(f, vec())


@program(full=3)
def closure_made_and_called():
    def f(x):
        def add(n):
            def apply(y):
                return y + x * n

            return apply

        return add(2)(add(3)(x))

    return Case(f, vec())


@program(full=1)
def closure_escapes():
    def f(x):
        y = x * 2

        def later(z):
            return z + y

        return later

    return Case(f, vec())


@program()
def escaped_closure_called_later():
    kept = []

    def f(x):
        y = x * 2
        if kept:
            y = kept[-1](y)
        kept.append(lambda z: z + y)
        return y

    return Case(f, vec()).watching(kept)


@program(full=1)
def escaped_closures_share_a_cell():
    def f(x):
        count = x.sum()

        def get():
            return count

        def put(value):
            nonlocal count
            count = value

        return get, put

    return Case(f, vec())


@program(full=3)
def loop_variable_is_late_bound():
    def f(x):
        functions = []
        for i in range(3):
            functions.append(lambda y: y * i)
        return [fn(x) for fn in functions]

    return Case(f, vec())


@program(full=3)
def loop_variable_bound_by_default():
    def f(x):
        functions = [lambda y, i=i: y * i for i in range(3)]
        return [fn(x) for fn in functions]

    return Case(f, vec())


@program(full=2)
def empty_cell_raises_name_error():
    def f(x):
        def peek():
            return later

        try:
            peek()
        except NameError as error:
            message = str(error)
        later = x + 1
        return message, peek() * 2

    return Case(f, vec())


@program(full=1)
def deleted_cell():
    def f(x):
        y = x + 1

        def peek():
            return y

        first = peek()
        del y
        try:
            peek()
        except NameError as error:
            return first, str(error)

    return Case(f, vec())


@program(full=2)
def parameter_is_a_cell():
    def f(x, n):
        def grow():
            nonlocal x, n
            n += 1
            x = x + n

        grow()
        grow()
        return x, n

    return Case(f, vec(), 3).changing(vec(), 10)


@program(full=2)
def cell_shared_between_functions_from_outside():
    value = 1

    def bump():
        nonlocal value
        value += 1
        return value

    def f(x):
        return x + bump() * value - bump()

    return Case(f, vec()).watching(bump)


@program()
def cell_rebound_between_calls():
    scale = 2

    def rescale(value):
        nonlocal scale
        scale = value

    def f(x):
        return x * scale

    return Case(f, vec()).then(lambda case: rescale(3), lambda case: rescale(3), lambda case: rescale(2.5))


@program()
def cell_emptied_between_calls():
    scale = 2

    def forget():
        nonlocal scale
        del scale

    def f(x):
        try:
            return x * scale
        except NameError as error:
            return str(error)

    return Case(f, vec()).then(lambda case: forget())


@program(full=2)
def recursive_closure():
    def f(x):
        def power(y, n):
            return y if n == 0 else power(y * x, n - 1)

        return power(x, 3)

    return Case(f, vec())


@program(full=4)
def mutually_recursive_closures():
    def f(x):
        def even(n, y):
            return y if n == 0 else odd(n - 1, y + 1)

        def odd(n, y):
            return y if n == 0 else even(n - 1, y * 2)

        return even(4, x)

    return Case(f, vec())


@program(full=2)
def class_cell():
    class Base:
        def scale(self, x):
            return x * 2

    class Derived(Base):
        def scale(self, x):
            return super().scale(x) + __class__.offset

        offset = 5

    thing = Derived()

    def f(x):
        return thing.scale(x)

    return Case(f, vec())


@program(full=1)
def class_made_in_the_function():
    def f(x):
        class Box:
            width = 3

            def __init__(self, value):
                self.value = value

            def get(self):
                return self.value * self.width

        return Box(x).get()

    return Case(f, vec())


@program(full=1)
def class_body_reads_closure():
    def f(x):
        n = 4

        class Holder:
            m = n + 1

        return x * Holder.m

    return Case(f, vec())


@program(full=2)
def dict_changed_by_a_method_of_a_local_class():
    counts = {"calls": 0}

    def f(x):
        class Counter:
            def hit(self, y):
                counts["calls"] += 1
                return y + counts["calls"]

        counter = Counter()
        return counter.hit(counter.hit(x))

    return Case(f, vec()).watching(counts)


@program(full=2)
def decorator_made_in_the_function():
    def f(x):
        def twice(fn):
            def wrapper(*args):
                return fn(fn(*args))

            return wrapper

        @twice
        def step(y):
            return y * 3 + 1

        return step(x)

    return Case(f, vec())


@program(full=1)
def function_attributes():
    def helper(x):
        helper.calls += 1
        return x + helper.calls

    helper.calls = 0

    def f(x):
        return helper(x)

    return Case(f, vec())


@program(full=1)
def function_with_attributes_escapes():
    def f(x):
        def g(y):
            return y

        g.tag = x + 1
        g.__name__ = "renamed"
        return g

    return Case(f, vec())


@program(full=2)
def immediately_called_lambda():
    def f(x):
        return (lambda y, *rest, k=2: y * k + len(rest))(x, 1, 2)

    return Case(f, vec())


@program(full=2)
def cells_of_a_comprehension():
    def f(x):
        n = 3
        return sum([(lambda: x + n * i)() for i in range(2)])

    return Case(f, mat())


@program()
def break_with_live_cells():
    def f(x):
        count = 1

        def bump(y):
            nonlocal count
            count += 1
            print("bump", count)
            return y + count

        z = bump(x)
        z = bump(z)
        return z * count

    return Case(f, vec())


@program()
def cell_holds_generator_state():
    def f(x):
        sent = []

        def source():
            while True:
                value = yield x + len(sent)
                sent.append(value)
                if value is None:
                    return

        it = source()
        out = [next(it), it.send(1), it.send(2)]
        return out, sent

    return Case(f, vec())


@program(full=1)
def star_args_captured():
    def f(*args, **kwargs):
        def total():
            return sum(args, kwargs["start"])

        return total()

    return Case(f, vec(), vec(4, 2.0), start=torch.ones(4))
