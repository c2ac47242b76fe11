"""`with` and context managers: user classes, contextlib, nesting, suppression, breaks in every place."""

import contextlib

import torch

from tests.python.programs import Case, program, vec


class Recorder:
    def __init__(self, log, name, swallow=False):
        self.log = log
        self.name = name
        self.swallow = swallow

    def __enter__(self):
        self.log.append(("enter", self.name))
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(("exit", self.name, kind.__name__ if kind else None, error.args if error else None))
        return self.swallow


@contextlib.contextmanager
def recording(log, name):
    log.append(("enter", name))
    try:
        yield name + "!"
    except ValueError as error:
        log.append(("caught", name, error.args))
    finally:
        log.append(("leave", name))


@program(full=2)
def user_class():
    log = []

    def f(x):
        with Recorder(log, "a") as r:
            y = x + 1
        return y * len(r.log)

    return Case(f, vec()).watching(log)


@program(full=2)
def manager_passed_in():
    log = []

    def f(x, manager):
        with manager as same:
            y = x + (same is manager)
        return y * 2

    return Case(f, vec(), Recorder(log, "arg")).watching(log)


@program(full=2)
def two_managers_in_order():
    log = []

    def f(x):
        with Recorder(log, "a"), Recorder(log, "b"):
            x = x + 1
        with Recorder(log, "c") as c, Recorder(log, "d") as d:
            x = x * 2
        return x, c.name + d.name

    return Case(f, vec()).watching(log)


@program(full=1)
def swallowed_exception():
    log = []

    def f(x):
        with Recorder(log, "s", swallow=True):
            x = x + 1
            raise ValueError("gone")
        return x

    return Case(f, vec()).watching(log)


@program()
def exception_leaves_with():
    log = []

    def f(x):
        with Recorder(log, "s"):
            x = x + 1
            raise ValueError("stays")

    return Case(f, vec()).watching(log)


@program(full=2)
def return_inside_with():
    log = []

    def f(x):
        with Recorder(log, "r"):
            for i in range(3):
                with Recorder(log, i):
                    x = x + i
                    if i == 1:
                        return x

    return Case(f, vec()).watching(log)


@program(full=3)
def break_and_continue_inside_with():
    log = []

    def f(x):
        for i in range(5):
            with Recorder(log, i):
                if i == 1:
                    continue
                if i == 4:
                    break
                x = x + i
        return x

    return Case(f, vec()).watching(log)


@program(full=2)
def contextmanager_function():
    log = []

    def f(x):
        with recording(log, "g") as name:
            x = x + len(name)
        return x * 2

    return Case(f, vec()).watching(log)


@program(full=1)
def contextmanager_catches():
    log = []

    def f(x):
        with recording(log, "g"):
            x = x + 1
            raise ValueError("inside")
        return x

    return Case(f, vec()).watching(log)


@program()
def contextmanager_passes_on():
    log = []

    def f(x):
        with recording(log, "g"):
            x = x + 1
            raise KeyError("other")

    return Case(f, vec()).watching(log)


@program(full=2)
def contextmanager_as_decorator():
    log = []

    @recording(log, "decorated")
    def step(x):
        return x + 1

    def f(x):
        return step(step(x))

    return Case(f, vec()).watching(log)


@program(full=2)
def exit_stack():
    log = []

    def f(x):
        with contextlib.ExitStack() as stack:
            for name in "ab":
                stack.enter_context(Recorder(log, name))
            stack.callback(log.append, "callback")
            x = x + 1
        return x * 2

    return Case(f, vec()).watching(log)


@program(full=2)
def null_context_and_closing():
    class Thing:
        open = True

        def close(self):
            self.open = False

    def f(x):
        thing = Thing()
        with contextlib.nullcontext(3) as n, contextlib.closing(thing):
            x = x + n
        return x * thing.open, thing.open

    return Case(f, vec())


@program()
def print_inside_with():
    log = []

    def f(x):
        with Recorder(log, "w"):
            y = x + 1
            print("inside")
            y = y * 2
        return y - 1

    return Case(f, vec()).watching(log)


@program()
def print_inside_contextmanager_body():
    log = []

    def f(x):
        with recording(log, "w"):
            y = x + 1
            print("inside")
            y = y * 2
            raise ValueError(3)
        return y - 1

    return Case(f, vec()).watching(log)


@program()
def print_inside_enter_and_exit():
    class Loud:
        def __enter__(self):
            print("enter")
            return 5

        def __exit__(self, *details):
            print("exit", details[0])

    def f(x):
        y = x + 1
        with Loud() as n:
            y = y * n
        return y - 1

    return Case(f, vec())


@program()
def print_inside_no_grad():
    def f(x):
        with torch.no_grad():
            y = x * 2
            print("inside", torch.is_grad_enabled())
            z = y + 1
        return z, x * 3, torch.is_grad_enabled()

    return Case(f, vec().requires_grad_())


@program()
def exception_after_break_inside_with():
    log = []

    def f(x):
        try:
            with Recorder(log, "w"):
                y = x + 1
                print("inside")
                raise ValueError("after the break")
        except ValueError as error:
            return y * 2, error.args

    return Case(f, vec()).watching(log)


@program()
def enter_raises():
    class Bad:
        def __enter__(self):
            raise ValueError("enter")

        def __exit__(self, *details):
            raise AssertionError("never")

    def f(x):
        try:
            with Bad():
                x = x + 100
        except ValueError as error:
            return x + 1, str(error)

    return Case(f, vec())


@program()
def exit_raises():
    class Bad:
        def __enter__(self):
            return self

        def __exit__(self, *details):
            raise KeyError("exit")

    def f(x):
        with Bad():
            x = x + 1
            raise ValueError("body")

    return Case(f, vec())


@program()
def not_a_manager():
    def f(x):
        x = x + 1
        with 3:
            return x

    return Case(f, vec())


@program()
def missing_exit():
    class Half:
        def __enter__(self):
            return self

    def f(x):
        x = x + 1
        with Half():
            return x

    return Case(f, vec())


@program(full=2)
def manager_changes_state_for_its_body():
    class Settings:
        factor = 1

    @contextlib.contextmanager
    def factor(value):
        before = Settings.factor
        Settings.factor = value
        try:
            yield
        finally:
            Settings.factor = before

    def f(x):
        with factor(3):
            y = x * Settings.factor
        return y + x * Settings.factor

    return Case(f, vec())


@program(full=2)
def manager_class_derived_from_contextdecorator():
    class Doubling(contextlib.ContextDecorator):
        depth = 0

        def __enter__(self):
            Doubling.depth += 1
            return self

        def __exit__(self, *details):
            Doubling.depth -= 1
            return False

    @Doubling()
    def scaled(x):
        return x * 2**Doubling.depth

    def f(x):
        with Doubling():
            return scaled(x), scaled(x) + Doubling.depth

    return Case(f, vec())


@program()
def generator_manager_that_does_not_stop():
    @contextlib.contextmanager
    def twice():
        yield 1
        yield 2

    def f(x):
        with twice() as n:
            x = x + n
        return x

    return Case(f, vec())


@program()
def with_in_a_loop_with_break_each_time():
    log = []

    def f(x):
        for i in range(3):
            with Recorder(log, i):
                x = x + i
                print(i)
                x = x * 2
        return x

    return Case(f, vec()).watching(log)


@program()
def async_with_driven_by_hand():
    log = []

    class Manager:
        async def __aenter__(self):
            log.append("enter")
            return 2

        async def __aexit__(self, *details):
            log.append("exit")

    async def work(x):
        async with Manager() as n:
            x = x + n
        return x

    def f(x):
        try:
            work(x).send(None)
        except StopIteration as stop:
            return stop.value

    return Case(f, vec()).watching(log)
