"""A graph break in every place: what is around it stays captured, and effects happen once.

`min_ops` says how many tensor operations a steady call has to run inside graphs; nothing of these programs needs to be lost.
"""

import contextlib
import functools
import logging
import types

import torch

from tests.python.programs import Case, leaf, mat, program, vec

LOGGER = logging.getLogger("corpus")


@program(min_ops=2)
def plain():
    def f(x):
        y = x + 1
        print("here")
        return y * 2

    return Case(f, vec())


@program(min_ops=4)
def several():
    def f(x):
        x = x + 1
        print("one")
        x = x * 2
        print("two")
        x = x - 3
        print("three")
        return x / 4

    return Case(f, vec())


@program(min_ops=8)
def in_a_for_loop():
    def f(x):
        for i in range(4):
            x = x + i
            print("round", i)
            x = x * 2
        return x

    return Case(f, vec()).watching()


@program(min_ops=6)
def in_a_while_loop():
    def f(x):
        n = 0
        while n < 3:
            x = x + n
            print("n", n)
            x = x * 2
            n += 1
        else:
            print("else")
        return x

    return Case(f, vec())


@program(min_ops=8)
def in_nested_loops():
    def f(x):
        for i in range(2):
            for j in range(2):
                x = x + i
                print(i, j)
                x = x * 2
        return x

    return Case(f, vec())


@program(min_ops=6)
def in_a_loop_with_continue_and_break():
    def f(x):
        for i in range(6):
            if i == 1:
                continue
            x = x + i
            print(i)
            if i == 3:
                break
            x = x * 2
        return x - 1

    return Case(f, vec())


@program(min_ops=4)
def in_with():
    @contextlib.contextmanager
    def manager():
        yield 2

    def f(x):
        x = x + 1
        with manager() as n:
            x = x * n
            print("in with")
            x = x + 3
        return x - 1

    return Case(f, vec())


@program(min_ops=4)
def in_no_grad():
    def f(x):
        x = x + 1
        with torch.no_grad():
            y = x * 2
            print("in no_grad")
            y = y + 3
        return x * y

    return Case(f, leaf(vec()))


@program(min_ops=5)
def in_try_finally():
    def f(x):
        x = x + 1
        try:
            x = x * 2
            print("in try")
            x = x + 3
        finally:
            x = x / 2
        return x - 1

    return Case(f, vec())


@program(min_ops=5)
def in_except():
    def f(x):
        x = x + 1
        try:
            x = x * 2
            raise ValueError("v")
        except ValueError as error:
            x = x + 3
            print("in except", error)
            x = x / 2
        return x - 1

    return Case(f, vec())


@program(min_ops=4)
def in_finally():
    def f(x):
        try:
            x = x + 1
        finally:
            x = x * 2
            print("in finally")
            x = x + 3
        return x - 1

    return Case(f, vec())


@program(min_ops=3)
def in_finally_while_an_exception_passes():
    def inner(x, log):
        try:
            y = x + 1
            raise ValueError("passes")
        finally:
            y = y * 2
            print("in finally")
            log.append(y + 3)

    def f(x):
        log = []
        try:
            inner(x, log)
        except ValueError as error:
            return log, str(error)

    return Case(f, vec())


@program(min_ops=6)
def in_a_generator():
    def source(x):
        for i in range(3):
            y = x + i
            print("yield", i)
            yield y

    def f(x):
        total = x
        for y in source(x):
            total = total + y
        return total

    return Case(f, vec())


@program(min_ops=6)
def between_steps_of_a_generator():
    def source(x):
        for i in range(3):
            yield x + i

    def f(x):
        total = x
        for y in source(x):
            print("step")
            total = total + y
        return total

    return Case(f, vec())


@program(min_ops=6)
def in_a_comprehension():
    def loud(x, i):
        y = x + i
        print("item", i)
        return y * 2

    def f(x):
        return [loud(x, i) for i in range(3)]

    return Case(f, vec())


@program(min_ops=6)
def two_calls_deep():
    def deep(x):
        y = x + 1
        print("deep")
        return y * 2

    def middle(x):
        y = x - 1
        z = deep(y)
        return z + 5

    def f(x):
        y = x / 2
        return middle(y) * 3

    return Case(f, vec())


@program(min_ops=4)
def five_calls_deep():
    def deep(x, n):
        if n == 0:
            print("bottom")
            return x * 2
        x = x + n
        return deep(x, n - 1) - n

    def f(x):
        return deep(x, 5)

    return Case(f, vec())


@program(min_ops=2)
def in_a_sort_key():
    def f(x, items):
        y = x + 1
        ordered = sorted(items, key=lambda n: print("key", n) or -n)
        return y * ordered[0], ordered

    return Case(f, vec(), [1, 3, 2])


@program(min_ops=2)
def in_list_sort_key():
    def f(x, items):
        y = x + 1
        items.sort(key=lambda n: print("key", n) or -n)
        return y * items[0]

    return Case(f, vec(), [1, 3, 2])


@program(min_ops=2)
def in_map_and_filter():
    def f(x):
        y = x + 1
        a = list(map(lambda n: print("map", n) or n * 2, [1, 2]))
        b = list(filter(lambda n: print("filter", n) or n > 1, [1, 2]))
        return y * sum(a), b

    return Case(f, vec())


@program(min_ops=2)
def in_equality_from_in():
    class Key:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            print("eq", self.n, other)
            return self.n == other

        __hash__ = None

    def f(x):
        y = x + 1
        found = 2 in [Key(1), Key(2), Key(3)]
        return y * found, found

    return Case(f, vec())


@program(min_ops=2)
def in_hash_and_eq_of_a_dict_key():
    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            print("hash")
            return hash(self.n)

        def __eq__(self, other):
            print("eq")
            return self.n == other.n

    def f(x):
        y = x + 1
        d = {Key(1): 10}
        return y * d[Key(1)]

    return Case(f, vec())


@program(min_ops=2)
def in_a_property():
    class Loud:
        @property
        def n(self):
            print("property")
            return 3

    def f(x, thing):
        y = x + 1
        return y * thing.n

    return Case(f, vec(), Loud())


@program(min_ops=2)
def in_dunder_getattr():
    class Loud:
        def __getattr__(self, name):
            print("getattr", name)
            return len(name)

    def f(x, thing):
        y = x + 1
        return y * thing.abc

    return Case(f, vec(), Loud())


@program(min_ops=2)
def in_an_operator():
    class Loud:
        def __init__(self, value):
            self.value = value

        def __add__(self, other):
            print("add")
            return Loud(self.value + other)

    def f(x):
        y = Loud(x * 2) + 3
        return y.value * 1

    return Case(f, vec())


@program(min_ops=2)
def in_init():
    class Loud:
        def __init__(self, x):
            self.a = x + 1
            print("init")
            self.b = self.a * 2

    def f(x):
        thing = Loud(x)
        return thing.a + thing.b, thing

    return Case(f, vec())


@program(min_ops=2)
def in_new():
    class Loud:
        def __new__(cls, x):
            print("new")
            self = super().__new__(cls)
            self.x = x + 1
            return self

    def f(x):
        return Loud(x).x * 2

    return Case(f, vec())


@program(min_ops=2)
def in_a_decorated_function():
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            print("before")
            result = fn(*args, **kwargs)
            print("after")
            return result + 1

        return wrapper

    @decorate
    def g(x, k=1):
        return x * k

    def f(x):
        return g(x, k=3)

    return Case(f, vec())


@program(min_ops=2)
def in_enter():
    class Loud:
        def __enter__(self):
            print("enter")
            return 4

        def __exit__(self, *details):
            return None

    def f(x):
        y = x + 1
        with Loud() as n:
            return y * n

    return Case(f, vec())


@program(min_ops=3)
def in_exit_with_exception():
    class Loud:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            print("exit", kind.__name__, error)
            return True

    def f(x):
        y = x + 1
        with Loud():
            y = y * 2
            raise ValueError("gone")
        return y - 1

    return Case(f, vec())


@program(min_ops=3)
def behind_a_data_dependent_branch():
    def f(x):
        y = x + 1
        if y.sum() > 0:
            z = y * 2
        else:
            z = y * 3
        return z - 1

    return Case(f, vec()).changing(vec(4, -9.0))


@program(min_ops=2)
def as_an_argument_of_a_call():
    def g(a, b, *, c):
        return a * b + c

    def f(x):
        return g(x + 1, int(x.sum().item() * 0) + 2, c=len(str(print("arg"))))

    return Case(f, vec())


@program(min_ops=2)
def with_values_on_the_stack():
    def f(x):
        return [x + 1, 2, (x * 2, print("stack")), {"k": x.shape}]

    return Case(f, vec())


@program(min_ops=3)
def in_the_middle_of_an_expression():
    def noisy(n):
        print("noisy")
        return n

    def f(x):
        return (x + 1) * noisy(2) + (x - noisy(3))

    return Case(f, vec())


@program(min_ops=2)
def in_a_conditional_expression():
    def noisy(n):
        print("noisy")
        return n

    def f(x):
        return x + 1 if noisy(True) and not noisy(False) else x - 1, x * 2

    return Case(f, vec())


@program(min_ops=2)
def in_a_chained_comparison():
    def noisy(n):
        print("noisy", n)
        return n

    def f(x):
        y = x + 1
        if 0 < noisy(1) < noisy(2) < 5:
            return y * 2
        return y

    return Case(f, vec())


@program(min_ops=2)
def in_an_f_string():
    def noisy(n):
        print("noisy")
        return n

    def f(x):
        y = x + 1
        text = f"a {noisy(3)} b {noisy(4):>3}"
        return y * len(text), text

    return Case(f, vec())


@program(min_ops=2)
def in_an_item_assignment():
    def noisy(n):
        print("noisy")
        return n

    def f(x, d):
        y = x + 1
        d[noisy("k")] = y * noisy(2)
        d["n"] += noisy(1)
        return d

    return Case(f, vec(), {"n": 0})


@program(min_ops=2)
def in_a_default_argument_of_a_local_function():
    def noisy(n):
        print("noisy")
        return n

    def f(x):
        def g(y, k=noisy(3)):
            return y * k

        return g(x + 1)

    return Case(f, vec())


@program(min_ops=2)
def in_a_class_body():
    def f(x):
        y = x + 1

        class A:
            print("class body")
            n = 3

        return y * A.n

    return Case(f, vec())


@program(min_ops=3)
def in_a_lambda_in_a_dict():
    table = {"loud": lambda v: print("loud") or v * 2}

    def f(x):
        return table["loud"](x + 1) - 1

    return Case(f, vec())


@program(min_ops=3)
def in_a_partial():
    def g(n, x):
        y = x + n
        print("partial")
        return y * n

    h = functools.partial(g, 3)

    def f(x):
        return h(x) - 1

    return Case(f, vec())


@program(min_ops=2)
def logging_calls():
    def f(x):
        y = x + 1
        LOGGER.warning("value %d", 3)
        LOGGER.info("info")
        return y * 2

    return Case(f, vec())


@program(min_ops=3)
def same_callee_with_and_without_break():
    def g(x, loud):
        y = x + 1
        if loud:
            print("loud")
        return y * 2

    def f(x):
        return g(x, False) + g(x, True)

    return Case(f, vec())


@program(min_ops=4)
def callee_that_always_breaks_called_in_sequence():
    def g(x):
        print("g")
        return x + 1

    def f(x):
        x = g(x)
        x = g(x)
        x = g(x)
        return x * 2

    return Case(f, vec())


@program(min_ops=3)
def in_a_method_that_changes_self():
    class Model:
        def __init__(self):
            self.steps = 0
            self.total = torch.zeros(4)

        def step(self, x):
            self.steps += 1
            self.total = self.total + x
            print("step", self.steps)
            self.total = self.total * 2
            return self.total - self.steps

    model = Model()
    return Case(model.step, vec()).watching(model)


@program(min_ops=4)
def in_a_recursive_function():
    def tree(x, n):
        if n == 0:
            print("leaf")
            return x
        return tree(x + 1, n - 1) + tree(x * 2, n - 1)

    def f(x):
        return tree(x, 2)

    return Case(f, vec())


@program(min_ops=2)
def star_arguments_live():
    def g(*args, **kwargs):
        print(len(args), sorted(kwargs))
        return args[0] * kwargs["k"]

    def f(x):
        return g(x + 1, *[1, 2], k=3, **{"z": 4})

    return Case(f, vec())


@program(min_ops=2)
def del_of_a_live_tensor():
    def f(x):
        y = x + 1
        z = y * 2
        del y
        print("break")
        return z

    return Case(f, vec())


@program(min_ops=2)
def unused_locals_are_released():
    class Watched:
        def __init__(self, log):
            self.log = log

        def __del__(self):
            self.log.append("gone")

    log = []

    def f(x):
        w = Watched(log)
        y = x + 1
        del w
        print("break", log)
        return y * 2

    return Case(f, vec()).logging(log)


@program(min_ops=3)
def closing_over_a_live_iterator():
    def f(x):
        it = iter([1, 2, 3])
        x = x + next(it)
        print("break")
        x = x * next(it)
        return x - next(it), list(it)

    return Case(f, vec())


@program(min_ops=3)
def zip_and_enumerate_live():
    def f(x):
        for i, (a, b) in enumerate(zip([x, x + 1, x + 2], "abc")):
            print(i, b)
            x = x + a
        return x

    return Case(f, vec())


@program(min_ops=3)
def dict_iteration_live():
    def f(x, d):
        for k, v in d.items():
            print(k)
            x = x + v
        return x

    return Case(f, vec(), {"a": 1, "b": 2, "c": 3})


@program(min_ops=3)
def set_and_reversed_iteration_live():
    def f(x):
        for v in reversed([1, 2, 3]):
            print(v)
            x = x + v
        for v in sorted({3, 1}):
            print(v)
            x = x * v
        return x

    return Case(f, vec())


@program(min_ops=3)
def tensor_rows_live():
    def f(x):
        total = 0
        for row in x:
            print("row")
            total = total + row
        return total

    return Case(f, mat())


@program(min_ops=4)
def two_managers_live():
    log = []

    class Note:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append("+" + self.name)

        def __exit__(self, *details):
            log.append("-" + self.name)

    def f(x):
        with Note("a"):
            x = x + 1
            with Note("b"), torch.no_grad():
                x = x * 2
                print("inside two")
                x = x + 3
            print("inside one")
            x = x - 1
        return x

    return Case(f, vec()).watching(log)


@program(min_ops=2)
def in_match():
    def noisy(n):
        print("noisy")
        return n

    def f(x):
        y = x + 1
        match noisy([1, 2]):
            case [a, b] if noisy(a) == 1:
                return y * b
            case _:
                return y

    return Case(f, vec())


@program(min_ops=2)
def unpacking_with_star():
    def noisy():
        print("noisy")
        return [1, 2, 3]

    def f(x):
        a, *b = noisy()
        return x + a, x * len(b)

    return Case(f, vec())


@program(min_ops=2)
def import_inside():
    def f(x):
        y = x + 1
        import math as m
        from collections import OrderedDict

        return y * m.floor(2.5), OrderedDict(a=1)

    return Case(f, vec())


@program(min_ops=2)
def exec_and_eval():
    def f(x):
        y = x + 1
        n = eval("2 + 3")
        space = {}
        exec("k = 4", space)
        return y * n + space["k"]

    return Case(f, vec())


@program(min_ops=2)
def sleep_and_time():
    import time

    def f(x):
        y = x + 1
        time.sleep(0)
        return y * 2

    return Case(f, vec())


@program(min_ops=2)
def open_file():
    import os

    def f(x):
        y = x + 1
        with open(os.devnull) as handle:
            text = handle.read()
        return y * 2, text, handle.closed

    return Case(f, vec())


@program(min_ops=3)
def numpy_in_the_middle():
    def f(x):
        y = x + 1
        a = y.numpy() * 2
        z = torch.from_numpy(a)
        return z * 3 - 1

    return Case(f, vec())


@program(min_ops=3)
def item_in_the_middle_of_a_loop():
    def f(x):
        for _ in range(3):
            x = x + x.max().item()
        return x

    return Case(f, vec())


@program()
def break_then_exception_out():
    def deep(x):
        y = x + 1
        print("deep")
        raise KeyError("after the break")

    def f(x):
        with torch.no_grad():
            for _ in range(2):
                deep(x * 2)

    return Case(f, leaf(vec()))


@program(min_ops=4)
def exception_from_a_broken_callee_is_caught():
    def deep(x, n):
        y = x + 1
        print("deep", n)
        if n == 1:
            raise KeyError(n)
        return y * 2

    def f(x):
        for n in range(3):
            try:
                x = deep(x, n)
            except KeyError:
                x = x - 100
        return x

    return Case(f, vec())


@program(min_ops=2)
def thread_in_the_middle():
    import threading

    def f(x):
        y = x + 1
        out = []
        thread = threading.Thread(target=lambda: out.append(y * 3))
        thread.start()
        thread.join()
        return out[0] + y * 2

    return Case(f, vec())


@program(min_ops=1)
def method_or_bound_function_under_the_arguments():
    """A method found on a class lies on the stack beside its object, what an object has for itself beside CPython's NULL."""

    def f(x, table):
        return x * table.get("n", print("asked") or print("again") or 2) + 1

    class Table:
        def __init__(self):
            self.get = lambda key, default: default + 1

    return (
        Case(f, vec(), {"m": 1})
        .changing(vec(), types.MappingProxyType({"m": 1}))
        .then_call(vec(), Table())
        .then_call(vec(), {"m": 2})
        .then_call(vec(), types.MappingProxyType({"m": 1}))
    )
