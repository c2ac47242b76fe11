"""Containers and strings."""

import sys

from tests.python.driver_programs.common import Loud, program

GLOBAL = 10


@program
def displays(x):
    return [1, *range(3), *"ab"], (0, *[1, 2]), {1, *[2, 3]}, {"a": 1, **{"b": 2}, "c": x.value}, [], (), {}, set()


@program
def comprehensions(x):
    return (
        [i * j for i in range(3) for j in range(i) if j],
        {i % 2 for i in range(5)},
        {k: v for k, v in zip("abc", range(3))},
        list(i for i in x.items if i > 1),
        [[j for j in range(i)] for i in range(3)],
        [x.value for _ in "ab"],
    )


@program
def unhashable_in_set_and_dict():
    r = []
    for f in (
        lambda: {[1]},
        lambda: {[1]: 2},
        lambda: {1: 2, **{}, {}: 3},
        lambda: {i for i in [[]]},
        lambda: {i: 1 for i in [[]]},
    ):
        try:
            f()
        except TypeError as e:
            r.append(str(e))
    return r


@program
def display_errors():
    r = []
    for f in (lambda: [*5], lambda: {*5}, lambda: {**5}, lambda: (*None,), lambda: {**[1]}):
        try:
            f()
        except TypeError as e:
            r.append(str(e))
    return r


@program
def unpacking():
    a, b, c = "xyz"
    (d, e), f = [1, 2], 3
    [g, *h] = range(4)
    *i, j = range(4)
    k, *l, m = {1: 2, 3: 4, 5: 6}
    n, *o = [9]
    return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o


@program
def unpacking_errors():
    def two(v):
        a, b = v

    def star(v):
        a, *b, c = v

    class Broken:
        def __iter__(self):
            raise RuntimeError("no iterator")

    class BreaksLater:
        def __iter__(self):
            yield 1
            raise RuntimeError("later")

    r = []
    for f, v in (
        (two, 5),
        (two, [1]),
        (two, [1, 2, 3]),
        (star, [1]),
        (star, None),
        (two, Broken()),
        (two, BreaksLater()),
        (star, BreaksLater()),
        (two, {}),
        (star, iter([1])),
    ):
        try:
            f(v)
        except Exception as e:
            r.append((type(e).__name__, str(e)))
    return r


@program
def unpacking_releases_items():
    Loud.log = log = []

    def gen():
        for n in "abc":
            yield Loud(n)

    try:
        a, b = gen()
    except ValueError as e:
        log.append(str(e))
    return log


@program
def star_unpacking_list_size():
    a, *b, c = range(10)
    b.append(1)
    return b, sys.getsizeof(b) > 0


@program
def subscripts(x):
    class K:
        def __getitem__(self, k):
            return k

        def __setitem__(self, k, v):
            self.kv = k, v

        def __delitem__(self, k):
            self.d = k

    k = K()
    k[1:2, ...] = 5
    del k[::2]
    return k[1], k[1:2], k[1, 2], k[:, None], k.kv, k.d, x["key"]


@program
def subscript_errors():
    r = []
    for f in (
        lambda: [1][5],
        lambda: {}["k"],
        lambda: GLOBAL[0],
        lambda: tuple("a")["a"],
        lambda: "s".x,
        lambda: len([])[0],
    ):
        try:
            f()
        except Exception as e:
            r.append((type(e).__name__, e.args))
    return r


@program
def dict_views_and_merge():
    d = {"a": 1} | {"b": 2}
    d |= [("c", 3)]
    return d, sorted(d.keys() & {"a", "z"}), [*d.items()]


@program
def generator_expression_scoping():
    n = 3
    g = (i + n for i in range(n))
    n = 10
    return list(g)


@program
def f_strings(x):
    v, w, name = 3.14159, 8, "né"
    return f"{v:.2f} {v!r:>10} {name!a} {x.value:0{w}d} {{}} {w=} {name!s} {'nested ' + f'{w}'} {v}"


@program
def format_errors():
    r = []
    for f in (
        lambda: f"{5:s}",
        lambda: f"{'a':d}",
        lambda: f"{[]:x}",
        lambda: "%d" % "a",
        lambda: "%s %s" % 1,  # noqa: F507
        lambda: "{} {}".format(1),  # noqa: F524
        lambda: "{a}".format(),  # noqa: F524
    ):
        try:
            f()
        except Exception as e:
            r.append((type(e).__name__, str(e)))
    return r


@program
def format_with_custom_type():
    class F:
        def __format__(self, spec):
            return f"<{spec}>"

        def __repr__(self):
            return "R"

        def __str__(self):
            return "S"

    f = F()
    return f"{f} {f:abc} {f!r} {f!s:>3}", "%s %r" % (f, f)


@program
def string_building():
    s = ""
    for i in range(100):
        s += str(i)
        t = s
    return s, t
