"""Exceptions that leave, with eager's frames, lines and chains; frames seen by sys and traceback."""

import sys
import traceback

import torch

from tests.python.programs import Case, program, vec


def _frames(limit=3):
    frame = sys._getframe(1)
    found = []
    while frame is not None and len(found) < limit and "programs" in frame.f_code.co_filename:
        found.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found


@program()
def from_a_loop_in_a_callee():
    def check(x, i):
        if i == 2:
            raise ValueError(i)
        return x + i

    def f(x):
        for i in range(4):
            x = check(x, i)
        return x

    return Case(f, vec())


@program()
def multi_line_expression():
    def f(x):
        y = x + 1
        return (
            y * 2
            + [
                1,
            ][5]
        )

    return Case(f, vec())


@program()
def multi_line_call():
    def g(a, b):
        return a / b

    def f(x):
        return g(
            1,
            0,
        )

    return Case(f, vec())


@program()
def from_a_comprehension():
    def f(x):
        return [x + int(s) for s in ["1", "two"]]

    return Case(f, vec())


@program()
def from_a_generator():
    def source(x):
        yield x
        yield x / 0
        yield [][0]

    def f(x):
        return list(source(x))

    return Case(f, vec())


@program()
def from_a_lambda():
    def f(x):
        g = lambda v: v + {}["k"]  # noqa: E731
        return g(x)

    return Case(f, vec())


@program()
def from_a_method_and_super():
    class A:
        def m(self, x):
            raise NotImplementedError("A.m")

    class B(A):
        def m(self, x):
            y = x + 1
            return super().m(y)

    b = B()

    def f(x):
        return b.m(x)

    return Case(f, vec())


@program()
def from_init_of_a_class():
    class A:
        def __init__(self, n):
            if n > 1:
                raise ValueError("n")

    def f(x):
        y = x + 1
        return A(3)

    return Case(f, vec())


@program()
def from_a_property_and_getattr():
    class A:
        @property
        def p(self):
            return self.missing

        def __getattr__(self, name):
            raise AttributeError(f"no {name}")

    a = A()

    def f(x):
        return x + a.p

    return Case(f, vec())


@program()
def from_a_sort_key():
    def f(x):
        y = x + 1
        return sorted([1, "a"], key=lambda v: v + 1), y

    return Case(f, vec())


@program()
def from_a_module_forward():
    class Inner(torch.nn.Module):
        def forward(self, x):
            return x + self.missing_parameter

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x * 2)

    return Case(Outer(), vec())


@program()
def from_a_torch_function_in_a_callee():
    def g(x, y):
        z = x + 1
        return torch.matmul(z, y)

    def f(x):
        return g(x, torch.ones(3, 3))

    return Case(f, vec())


@program()
def reraised_in_a_handler():
    def g():
        raise ValueError("first")

    def f(x):
        try:
            g()
        except ValueError as error:
            y = x + 1
            raise error

    return Case(f, vec())


@program()
def chained_through_two_functions():
    def g():
        try:
            {}["a"]
        except KeyError as error:
            raise ValueError("converted") from error

    def f(x):
        try:
            x = x + 1
            g()
        except ValueError:
            raise RuntimeError("outer")

    return Case(f, vec())


@program()
def raised_in_finally():
    def f(x):
        try:
            raise ValueError("try")
        finally:
            x = x + 1
            raise KeyError("finally")

    return Case(f, vec())


@program()
def raised_after_a_break():
    def g(x):
        y = x + 1
        print("break")
        return y[10]

    def f(x):
        return g(x)

    return Case(f, vec())


@program()
def raised_in_a_with_block():
    class M:
        def __enter__(self):
            return self

        def __exit__(self, *details):
            return False

    def f(x):
        with M():
            with torch.no_grad():
                x = x + 1
                raise ValueError("inside")

    return Case(f, vec())


@program()
def formatted_traceback_as_value():
    def g(x):
        return x + 1 / 0

    def f(x):
        try:
            g(x)
        except ZeroDivisionError as error:
            lines = traceback.format_exception(error)
            return [line.rsplit("/", 1)[-1] for line in lines], x + 1

    return Case(f, vec())


@program()
def traceback_object_walked():
    def g():
        raise ValueError("walk")

    def f(x):
        try:
            g()
        except ValueError as error:
            found = []
            trace = error.__traceback__
            while trace is not None:
                found.append((trace.tb_frame.f_code.co_name, trace.tb_lineno))
                trace = trace.tb_next
            return found, x + 1

    return Case(f, vec())


@program()
def frames_seen_by_getframe():
    def g(x):
        return _frames(), x * 2

    def f(x):
        y = x + 1
        return g(y)

    return Case(f, vec())


@program()
def caller_name():
    def who():
        return sys._getframe(1).f_code.co_name

    def f(x):
        return who(), [who() for _ in range(1)], x + 1

    return Case(f, vec())


@program()
def locals_of_the_caller():
    def peek():
        return {k: v for k, v in sys._getframe(1).f_locals.items() if isinstance(v, int)}

    def f(x, n):
        y = x + n
        m = n * 2
        return peek(), y

    return Case(f, vec(), 3).changing(vec(), 4)


@program()
def extract_stack():
    def f(x):
        y = x + 1
        names = [s.name for s in traceback.extract_stack(limit=1)]
        return y, names

    return Case(f, vec())


@program()
def error_message_names_the_argument():
    def f(x):
        y = x + 1
        y.sum(dim=7)

    return Case(f, vec())


@program()
def error_in_inplace_operator_line():
    def f(x, items):
        x = x + 1
        items[5] += 1
        return x

    return Case(f, vec(), [1])


@program()
def error_in_unpacking():
    def f(x):
        y = x + 1
        a, b, c = y
        return a

    return Case(f, vec())


@program()
def error_in_delete():
    def f(x, d):
        y = x + 1
        del d["missing"]
        return y

    return Case(f, vec(), {})


@program()
def error_in_attribute_assignment():
    def f(x):
        y = x + 1
        (3).real = 5
        return y

    return Case(f, vec())


@program()
def error_in_iteration():
    def f(x):
        y = x + 1
        for _ in 5:
            y = y + 1

    return Case(f, vec())


@program()
def error_in_import():
    def f(x):
        y = x + 1
        import surely_not_a_module  # noqa: F401

        return y

    return Case(f, vec())


@program()
def exception_group_from_callees():
    def bad(n):
        raise ValueError(n)

    def f(x):
        errors = []
        for n in range(2):
            try:
                bad(n)
            except ValueError as error:
                errors.append(error)
        x = x + 1
        raise ExceptionGroup("several", errors)

    return Case(f, vec())


@program()
def assertion_rewritten_message():
    def f(x, n):
        assert n > 5, ("too small", n, x + 1)
        return x

    return Case(f, vec(), 3)
