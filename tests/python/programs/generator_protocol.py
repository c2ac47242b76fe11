"""Generators by their whole protocol: send, throw, close, `yield from`, half consumed from outside, given back to the program."""

import sys
import types

from tests.python.programs import Case, program, vec


def _echo(x, log):
    value = None
    while True:
        try:
            value = yield x if value is None else x + value
            log.append(("sent", value))
        except ValueError as error:
            log.append(("caught", str(error)))
            value = 10
        except GeneratorExit:
            log.append("closed")
            raise
        if value == 99:
            return x * 2


@program(min_ops=3)
def send_throw_close():
    def f(x):
        log = []
        g = _echo(x, log)
        out = [next(g), g.send(1), g.send(2), g.throw(ValueError("in"))]
        try:
            g.send(99)
        except StopIteration as stop:
            out.append(stop.value)
        closed = _echo(x, log)
        next(closed)
        closed.close()
        closed.close()
        try:
            next(closed)
        except StopIteration as stop:
            out.append(stop.value)
        return out, log

    return Case(f, vec())


@program(min_ops=1)
def outside_generator_half_consumed():
    def f(x, g, log):
        first = next(g)
        second = g.send(3)
        print("between")
        third = g.throw(ValueError("late"))
        return x + 1, first + second + third, list(log)

    def make():
        log = []
        g = _echo(vec(), log)
        next(g)
        return g, log

    g, log = make()
    return Case(f, vec(), g, log)


@program(min_ops=2)
def delegation_passes_all_on():
    def f(x):
        log = []

        def outer():
            try:
                result = yield from _echo(x, log)
                log.append("result")
                yield result
            finally:
                log.append("outer ends")

        g = outer()
        out = [next(g), g.send(5), g.throw(ValueError("through")), g.send(99)]
        out.append(next(g, "nothing more"))
        h = outer()
        next(h)
        h.close()
        return out, log

    return Case(f, vec())


@program(min_ops=1)
def delegation_to_other_iterators():
    class Own:
        def __init__(self):
            self.got = []

        def __iter__(self):
            return self

        def __next__(self):
            return self.send(None)

        def send(self, value):
            self.got.append(value)
            if len(self.got) > 3:
                raise StopIteration("own")
            return len(self.got)

        def throw(self, error):
            self.got.append(str(error))
            return 50

    def f(x):
        own = Own()

        def outer():
            got = yield from own
            rest = yield from [x, x + 1]
            return got, rest

        g = outer()
        out = [next(g), g.send("a"), g.throw(ValueError("t"))]
        try:
            while True:
                out.append(g.send(None))
        except StopIteration as stop:
            out.append(stop.value)
        return out, own.got

    return Case(f, vec())


@program(min_ops=1)
def misuse_raises():
    def f(x):
        out = []

        def numbers():
            yield x + 1
            raise StopIteration("inside")

        def again():
            yield next(me)

        g = numbers()
        try:
            g.send(1)
        except TypeError as error:
            out.append(str(error))
        out.append(next(g))
        try:
            next(g)
        except RuntimeError as error:
            out.append((str(error), type(error.__cause__).__name__))
        me = again()
        try:
            next(me)
        except ValueError as error:
            out.append(str(error))

        def stubborn():
            try:
                yield 1
            except GeneratorExit:
                yield 2

        s = stubborn()
        next(s)
        try:
            s.close()
        except RuntimeError as error:
            out.append(str(error))
        try:
            numbers().throw(KeyError("fresh"))
        except KeyError as error:
            out.append(str(error))
        return out

    return Case(f, vec())


@program(min_ops=2)
def state_that_a_program_can_see():
    def f(x):
        def numbers(n):
            for i in range(n):
                yield x + i

        g = numbers(3)
        seen = [g.gi_running, g.gi_frame is None, g.__name__, g.gi_yieldfrom, isinstance(g, types.GeneratorType)]
        first = next(g)
        seen.append(g.gi_frame.f_locals["i"])
        rest = list(g)
        seen.append(g.gi_frame is None)
        return first, rest, seen, iter(g) is g

    return Case(f, vec())


@program(min_ops=2)
def given_back_and_used_outside():
    def make(x):
        def numbers():
            total = x
            while True:
                sent = yield total
                total = total + (1 if sent is None else sent)

        g = numbers()
        next(g)
        return g, g.send(4)

    def f(x, kept):
        g, first = make(x)
        kept.append(g)
        kept.append(g)
        return first, g.send(2), kept[0] is kept[1]

    kept = []
    return Case(f, vec(), kept)


@program(min_ops=2)
def context_inside_of_a_generator():
    log = []

    class Manager:
        def __enter__(self):
            log.append("enter")
            return self

        def __exit__(self, *error):
            log.append(error[0].__name__ if error[0] else None)
            return False

    def numbers(x):
        with Manager():
            yield x + 1
            yield x + 2
        yield x + 3

    def f(x):
        g = numbers(x)
        a = next(g)
        g.close()
        h = numbers(x)
        b = sum(h)
        k = numbers(x)
        next(k)
        try:
            k.throw(OSError("out"))
        except OSError:
            log.append("caught")
        return a + b, list(log)

    return Case(f, vec()).watching(log)


@program(min_ops=1)
def infinite_generators():
    import itertools

    def powers(x):
        while True:
            yield x
            x = x * 2

    def f(x):
        g = powers(x)
        some = list(itertools.islice(g, 3))
        more = [y for y, _ in zip(g, range(2), strict=False)]
        pairs = dict(zip("ab", g, strict=False))
        return some, more, pairs, next(g)

    return Case(f, vec())


@program(full=1)
def closing_gives_what_is_returned():
    """From CPython 3.13 on."""

    def values(x):
        try:
            yield x
        except GeneratorExit:
            return x * 2

    def f(x):
        it = values(x)
        first = next(it)
        return it.close(), it.close(), first + 1

    return Case(f, vec())


@program()
def handled_by_who_resumes():
    def values(x, seen):
        seen.append(repr(sys.exception()))
        print(end="")
        yield x + 1
        seen.append(repr(sys.exception()))
        try:
            raise TypeError("inner")
        except TypeError as error:
            seen.append((repr(sys.exception()), str(error)))
        print(end="")
        yield x + 2

    def f(x):
        seen = []
        it = values(x, seen)
        try:
            raise ValueError("outer")
        except ValueError:
            print(end="")
            one = next(it)
            two = next(it)
        return one, two, seen, repr(sys.exception())

    return Case(f, vec())


def _chain(error):
    names = []
    while error is not None:
        names.append(type(error).__name__)
        error = error.__context__
    return " < ".join(names)


@program()
def raised_while_who_resumes_handles():
    """An exception that is raised and caught in a generator has what its caller handles as its context, over breaks too."""

    def values(x):
        print(end="")
        yield x + 1
        try:
            raise TypeError
        except TypeError as error:
            yield _chain(error)
            print(end="")
            try:
                raise KeyError
            except KeyError as inner:
                yield _chain(inner)
        yield _chain(sys.exception())

    def resumed(it):
        try:
            raise IndexError
        except IndexError:
            return next(it)

    def f(x):
        it = values(x)
        out = []
        try:
            raise ValueError
        except ValueError:
            out += [next(it), next(it)]
            print(end="")
            out.append(resumed(it))
        out.append(next(it))
        return out, x * 2

    return Case(f, vec())
