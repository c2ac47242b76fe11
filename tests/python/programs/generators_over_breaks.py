"""Generators, and context managers made from them, that a break finds half way: they become real generators and go on."""

import contextlib

from tests.python.programs import Case, program, vec


def _numbers(x, n):
    total = 0

    def so_far():
        return total

    for i in range(n):
        total += i
        sent = yield x + i + so_far()
        if sent:
            x = x + sent


@program(min_ops=3)
def break_inside_of_a_generator_context():
    log = []

    @contextlib.contextmanager
    def tagged(tag):
        log.append("enter " + tag)
        try:
            yield tag * 2
        finally:
            log.append("leave " + tag)

    def f(x):
        with tagged("a") as text:
            x = x + 1
            print("inside", text)
            x = x * 2
        return x + len(log)

    return Case(f, vec())


@program()
def error_inside_of_a_generator_context_after_a_break():
    log = []

    @contextlib.contextmanager
    def catching():
        try:
            yield
        except ValueError as error:
            log.append(str(error))

    def f(x):
        with catching():
            x = x + 1
            print("inside")
            raise ValueError("seen")
        return x * 2, list(log)

    return Case(f, vec())


@program(min_ops=6)
def generator_goes_on_after_a_break():
    def f(x):
        numbers = _numbers(x, 5)
        first = next(numbers)
        second = numbers.send(2)
        print("break")
        return first + second + next(numbers)

    return Case(f, vec())


@program()
def generators_are_returned():
    def f(x):
        fresh = _numbers(x, 3)
        begun = (x + i for i in range(3))
        ended = _numbers(x, 1)
        return fresh, next(begun), begun, len(list(ended)), ended

    def use(x):
        fresh, first, begun, count, ended = f(x)
        print("break")
        return first + sum(fresh) + sum(begun), count, list(ended)

    return Case(use, vec())


@program(min_ops=2)
def generator_that_delegates_over_a_break():
    def f(x):
        def outer():
            result = yield from _numbers(x, 3)
            yield x, result

        items = outer()
        first = next(items)
        print("break")
        return [first, *items]

    return Case(f, vec())


@program(min_ops=2)
def generator_in_an_object_over_a_break():
    class Holder:
        pass

    def f(x):
        holder = Holder()
        holder.items = _numbers(x, 4)
        holder.me = holder
        first = next(holder.items)
        print("break", holder.items.__name__)
        return first + next(holder.items)

    return Case(f, vec())


@program(min_ops=2)
def names_of_a_generator():
    def f(x):
        items = _numbers(x, 2)
        return next(items) + 1, items.__name__, items.__qualname__

    return Case(f, vec())
