"""Syntax that CPython 3.11 does not have, as text: the programs do nothing there."""

import sys

from tests.python.driver_programs.common import program

SOURCE = (
    """
def pair[T: int, *Ts, **P](x: T, *rest) -> list[T]:
    return [x, rest]

def choice[T: (int, str)](x: T) -> T:
    return x

class Box[T]:
    kind = "box"
    type Held = list[T]

    def __init__(self, v: T):
        self.v = v

    def mapped[U](self, f) -> "Box[U]":
        return Box(f(self.v))

    class Inner[V]:
        kind = kind if (kind := "inner") else None

type Names = dict[str, Names] | list[Ints]
Ints = int

def comprehensions(n):
    x = "outer"
    squares = [x * x for x in range(n)]
    table = {x: [y for y in range(x)] for x in range(n)}
    cells = [(lambda: x) for x in range(n)]
    return x, squares, table, [c() for c in cells]

class Scope:
    values = [1, 2]
    doubled = [v * 2 for v in values]
    names = [k for k in ("a", "b") if k not in ("a",)]

result = [
    pair(1, 2), pair.__type_params__, choice("a"), choice.__type_params__[0].__constraints__,
    pair.__type_params__[0].__bound__, Box(3).mapped(str).v, Box.__type_params__, Box[int], Box.Held.__name__,
    Box.Held.__value__, Box.Inner.kind, Names.__value__, comprehensions(3), Scope.doubled, Scope.names,
]
"""
    if sys.version_info >= (3, 12)
    else "result = []"
)


@program
def type_parameters_and_inlined_comprehensions():
    space = {"__name__": "newer"}
    exec(compile(SOURCE, "<newer>", "exec"), space)
    return [repr(r) for r in space["result"]]


@program
def unbound_in_inlined_comprehension():
    def f(flag):
        if flag:
            x = 1
        seen = [x for x in (1, 2)]
        try:
            return seen, x
        except UnboundLocalError as e:
            return seen, str(e)

    return f(True), f(False)


@program
def error_inside_of_an_inlined_comprehension():
    def f():
        x = "kept"
        try:
            [1 / x for x in (1, 0)]
        except ZeroDivisionError:
            return x

    return f()


@program
def slices_of_all_kinds():
    a = list(range(10))
    a[2:4] = ["x"]
    a[:1] = []
    b = a[1:3], a[:2], a[3:], a[:], "text"[1:], (1, 2, 3)[:-1]
    del a[1:2]

    class Slices:
        def __getitem__(self, key):
            return key

        def __setitem__(self, key, value):
            self.last = key, value

    s = Slices()
    s[1:"b"] = 5
    return a, b, s["a":None], s.last


@program
def super_in_all_forms():
    class A:
        kind = "A"

        def f(self, x=1):
            return ("A.f", x)

        @classmethod
        def make(cls):
            return cls.__name__

        @property
        def p(self):
            return "A.p"

    class B(A):
        kind = "B"

        def f(self, x=2):
            return super().f(x), super(B, self).f(), super().kind, super().p

        @classmethod
        def make(cls):
            return super().make()

        def missing(self):
            try:
                return super().nothing
            except AttributeError as e:
                return str(e)

        def __getattr__(self, name):
            return "dynamic " + name

    b = B()
    return b.f(), B.make(), b.missing(), b.other


@program
def delegation_that_is_thrown_into():
    def inner():
        try:
            yield 1
        except KeyError as e:
            yield e.args
        return "inner done"

    def outer():
        r = yield from inner()
        yield r
        try:
            yield from [10, 20]
        except ValueError:
            yield "caught"

    class Own:
        def __iter__(self):
            return self

        def __next__(self):
            return "own"

        def throw(self, *args):
            raise StopIteration("thrown")

    def with_own():
        return (yield from Own())

    g = outer()
    log = [next(g), g.throw(KeyError("k")), next(g), next(g), g.throw(ValueError)]
    h = with_own()
    log.append(next(h))
    try:
        h.throw(RuntimeError("x"))
    except StopIteration as e:
        log.append(("value", e.value))
    return log
