"""What an exception leaves behind ends when eager ends it: generators are closed and finalisers run before the handler, or with it."""

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
