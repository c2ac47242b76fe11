"""What an exception leaves behind ends when eager ends it: generators are closed and finalisers run before the handler, or with it."""

import functools

from tests.python.programs import Case, program, vec


class Watched:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("del")


def watching(log, n):
    try:
        for i in range(n):
            yield i
    finally:
        log.append("closed")


@program()
def loop_left_by_an_exception():
    log = []

    def f(x, d):
        try:
            for _ in watching(log, 2):
                d.popitem()
        except KeyError:
            log.append("caught")
        log.append("after")
        return x + 1

    return Case(f, vec(), {}).logging(log)


@program()
def loop_left_by_raise():
    log = []

    def f(x):
        try:
            for i in watching(log, 3):
                if i == 1:
                    raise KeyError(i)
        except KeyError:
            log.append("caught")
        log.append("after")
        return x + 1

    return Case(f, vec()).logging(log)


@program()
def loop_over_zip_left_by_an_exception():
    log = []

    def f(x, d):
        try:
            for i, _ in zip(watching(log, 2), [1, 2]):
                d[i]
        except KeyError:
            log.append("caught")
        log.append("after")
        return x + 1

    return Case(f, vec(), {}).logging(log)


def inner(x, log, d):
    for _ in watching(log, 2):
        x = x + 1
        d.popitem()
    return x


@program()
def inner_loop_left_by_an_exception():
    log = []

    def f(x, d):
        try:
            x = inner(x, log, d)
        except KeyError:
            log.append("caught")
        log.append("after")
        return x + 1

    return Case(f, vec(), {}).logging(log)


@program()
def two_loops_left_at_once():
    log = []

    def f(x, d):
        try:
            for _ in watching(log, 2):
                for _ in watching(log, 2):
                    d.popitem()
        except KeyError:
            log.append("caught")
        return x + 1

    return Case(f, vec(), {}).logging(log)


@program()
def exception_keeps_a_finaliser():
    log = []

    def f(x):
        items = [Watched(log)]
        items[0] = 0
        log.append("set")
        try:
            raise KeyError(Watched(log))
        except KeyError:
            log.append("handled")
        log.append("after")
        return x + 1

    return Case(f, vec()).logging(log)


@program()
def named_exception_keeps_a_finaliser():
    log = []

    def f(x):
        try:
            raise KeyError(Watched(log))
        except KeyError as error:
            log.append(len(error.args))
        log.append("after")
        return x + 1

    return Case(f, vec()).logging(log)


@program()
def attribute_of_an_exception_is_a_finaliser():
    log = []

    def f(x):
        try:
            error = ValueError("v")
            error.held = Watched(log)
            raise error
        except ValueError:
            error = None
            log.append("handled")
        log.append("after")
        return x + 1

    return Case(f, vec()).logging(log)


class Managed(Watched):
    """A context manager that swallows what it is told to, and is held by the with-statement alone."""

    def __init__(self, log, swallows=False):
        super().__init__(log)
        self.swallows = swallows

    def __enter__(self):
        return 2

    def __exit__(self, *error):
        self.log.append(error[0])
        return self.swallows


@program()
def manager_of_a_with():
    log = []

    def f(x):
        with Managed(log) as n:
            y = x * n
        log.append("after")
        return y + 1

    return Case(f, vec()).logging(log)


@program()
def manager_that_swallows():
    log = []

    def f(x):
        with Managed(log, True) as n:
            x = x * n
            raise KeyError(n)
        log.append("after")
        return x + 1

    return Case(f, vec()).logging(log)


@program()
def manager_that_swallows_an_error_of_torch():
    log = []

    def f(x):
        with Managed(log, True) as n:
            x = x * n
            x.view(77)
        log.append("after")
        return x + 1

    return Case(f, vec()).logging(log)


@program()
def manager_that_lets_pass():
    log = []

    def f(x):
        try:
            with Managed(log) as n:
                x = x * n
                raise KeyError(n)
        except KeyError:
            log.append("caught")
        log.append("after")
        return x + 1

    return Case(f, vec()).logging(log)


class Holder:
    def __init__(self, held):
        self.held = held

    def method(self):
        return self.held


def _holders(log):
    held = Watched(log)
    closure = Watched(log)
    return [
        Holder(Watched(log)),
        [[Watched(log)]],
        {"a": (Watched(log),)},
        Holder(Watched(log)).method,
        functools.partial(print, Watched(log)),
        Holder(Holder({"x": [Watched(log)]})),
        (lambda: closure),
        {held: 1},
    ]


@program()
def what_only_the_holder_held():
    log = []

    def f(x):
        holders = _holders(log)
        x = x + 1
        while holders:
            held = holders.pop()
            log.append(type(held).__name__)
            x = x * 2
            held = None
            log.append("dropped")
            x = x + 1
        return x

    return Case(f, vec()).logging(log)


@program(full=1)
def what_others_hold_too():
    log = []
    kept = Watched(log)

    def f(x):
        held = Holder(kept)
        x = x * 2
        held = [kept]
        x = x + len(held)
        held = None
        log.append("after")
        return x

    return Case(f, vec()).logging(log)


@program()
def what_the_trace_took_out_of_its_holder():
    log = []

    def f(x):
        held = [Watched(log), Watched(log), Watched(log)]
        print(end="")  # a break: the list comes from outside then
        x = x + 1
        try:
            one, two = iter(held)
        except ValueError:
            log.append("caught")
        x = x * 2
        del held
        log.append("dropped")
        return x

    return Case(f, vec()).logging(log)
