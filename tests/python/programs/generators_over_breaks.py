"""Generators, and context managers made from them, that a break finds half way: they become real generators and go on."""

import contextlib
import itertools

import torch

import stator
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


def _rising(x, n, log=None):
    try:
        for i in range(n):
            x = x + i
            yield x
    finally:
        if log is not None:
            log.append("ended")


@program(min_ops=2)
def loop_over_a_generator_behind_a_break():
    def f(x):
        total = x
        for k, (a, b) in enumerate(zip(_rising(x, 4), _rising(x * 2, 6))):
            if k == 1:
                stator.graph_break()
            total = total + a * b
        return total

    return Case(f, vec())


@program(min_ops=2)
def generator_that_ends_early_behind_a_break():
    log = []

    def f(x):
        total = x
        for k, a in enumerate(_rising(x, 4, log)):
            if k == 1:
                stator.graph_break()
            total = total + a
            if k == 2:
                break
        log.append("behind")
        return total, len(log)

    return Case(f, vec()).logging(log)


@program(min_ops=2)
def generator_kept_behind_a_break():
    def f(x, holder):
        holder["it"] = _rising(x, 5)
        first = next(holder["it"])
        stator.graph_break()
        return first + next(holder["it"]), next(holder["it"])

    holder = {}

    def rest(case):
        holder["rest"] = list(holder.pop("it"))

    return Case(f, vec(), holder).watching(holder).then(rest)


@program(min_ops=1)
def generator_of_the_programs_call_by_call():
    def f(x, it):
        return x * next(it)

    it = _rising(vec(), 9)
    return Case(f, vec(), it).then_call(vec(), it).then_call(vec(), it)


@program(min_ops=1)
def sent_and_thrown_and_closed_behind_a_break():
    log = []

    def answers(x):
        try:
            while True:
                try:
                    got = yield x
                    x = x + (1 if got is None else got)
                except ValueError as error:
                    log.append(str(error))
        finally:
            log.append("closed")

    def f(x):
        it = answers(x)
        next(it)
        stator.graph_break()
        a = it.send(3)
        b = it.throw(ValueError("told"))
        it.close()
        return a + b, next(it, None), list(log)

    return Case(f, vec()).logging(log)


@program(min_ops=1)
def chained_and_mapped_behind_a_break():
    def f(x):
        it = itertools.chain(_rising(x, 2), [x * 2], _rising(x, 3))
        mapped = map(lambda a, b: a * b, it, _rising(x, 9))
        first = next(mapped)
        stator.graph_break()
        second = next(mapped)
        stator.graph_break()
        return first + second + sum(mapped)

    return Case(f, vec())


@program(min_ops=1)
def yield_from_over_a_break():
    def inner(x, n):
        for i in range(n):
            x = x + i
            yield x
        return n

    def outer(x):
        n = yield from inner(x, 2)
        m = yield from inner(x * 2, n)
        yield x + m

    def f(x):
        it = outer(x)
        values = [next(it)]
        stator.graph_break()
        values.extend(it)
        return values

    return Case(f, vec())


@program(min_ops=1)
def parameters_written_around_a_break():
    layer = torch.nn.Linear(4, 4)
    for p in layer.parameters():
        torch.nn.init.constant_(p, 0.5)

    def f(x):
        with torch.no_grad():
            for k, p in enumerate(layer.parameters()):
                p.mul_(0.5)
                if k == 0:
                    stator.graph_break()
        return [p.clone() for p in layer.parameters()], layer(x)

    return Case(f, vec()).watching(layer)
