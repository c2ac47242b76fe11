"""Functions and calls."""

import collections
import functools
import sys

from tests.python.driver_programs.common import Loud, Thing, program

GLOBAL = 10


@program
def call_shapes(x):
    def f(a, b=2, /, c=3, *args, d, e=5, **kw):
        return a, b, c, args, d, e, sorted(kw.items())

    return [
        f(1, d=4),
        f(1, 2, 3, 4, 5, d=6, z=7),
        f(*[1, 2], **{"d": 3, "c": 9}),
        f(1, *(2, 3), 4, d=0, **{"q": 1}, **{"r": 2}),
        x.method(1),
        x.method(1, c=9, z=0),
        Thing.make(4),
        Thing.static(1),
        x.double,
        x(1, k=2),
    ]


@program
def call_errors():
    def f(a, b, *, c):
        pass

    def g(a, /, b=1):
        pass

    r = []
    for call in (
        lambda: f(),
        lambda: f(1),
        lambda: f(1, 2),
        lambda: f(1, 2, 3, c=1),
        lambda: f(1, 2, c=3, d=4),
        lambda: f(1, a=2, c=3),
        lambda: g(a=1),
        lambda: g(),
        lambda: f(**{"a": 1}, **{"a": 2}),
        lambda: f(*5),
        lambda: f(**5),
        lambda: GLOBAL(),
        lambda: f(1, 2, **{1: 2}),
        lambda: len(),
        lambda: len(1, 2),
        lambda: int(x=1, y=2),
        lambda: f(1, c=1, *3),
    ):
        try:
            call()
        except TypeError as e:
            r.append(str(e))
    return r


@program
def uncaught_call_error():
    def f(a):
        pass

    f(1, 2, 3)


@program
def keyword_mapping_errors():
    class Bad:
        def keys(self):
            return ["a", "b"]

        def __getitem__(self, k):
            raise RuntimeError("no " + k)

    def f(**kw):
        return kw

    r = []
    for arg in (Bad(), 5, [1], {1: 2}):
        try:
            f(**arg)
        except Exception as e:
            r.append((type(e).__name__, str(e)))
    return r


@program
def keyword_mapping_objects():
    class Map:
        def keys(self):
            return iter(["a", "b"])

        def __getitem__(self, k):
            return k * 2

    def f(*args, **kw):
        return args, kw

    return f(*"ab", **Map()), f(*(i for i in range(2)), **collections.OrderedDict(z=1))


@program
def default_values_evaluated_once():
    def f(a, acc=[]):
        acc.append(a)
        return list(acc)

    return f(1), f(2), f(3, [])


@program
def keyword_only_defaults_and_annotations():
    def f(a: int, *b: str, c: float = 1.5, **d: bool) -> list:
        "doc"
        return c

    return f(1), f.__annotations__, f.__kwdefaults__, f.__doc__, f.__name__, f.__qualname__


@program
def lambdas():
    return (lambda: 1)(), (lambda a, b=2, *c, d=3, **e: (a, b, c, d, e))(1, d=4, q=5), (lambda *, k: k)(k=1)


@program
def decorators():
    def deco(tag):
        def wrap(fn):
            @functools.wraps(fn)
            def inner(*a, **k):
                return tag, fn(*a, **k)

            return inner

        return wrap

    @deco("outer")
    @deco("inner")
    def f(x):
        return x + 1

    @deco("class")
    class K:
        pass

    return f(1), f.__name__, K()[0]


@program
def bound_methods(x):
    m = x.method
    f = Thing.method
    return m(1), f(x, 2), [g(5) for g in (m, Thing.make, Thing.static)]


@program
def callable_instances_and_partials(x):
    p = functools.partial(x.method, 1, c=8)
    return p(), p(2, z=1), list(map(x, [1, 2])), sorted([3, 1, 2], key=lambda v: -v)


@program
def functions_called_from_c():
    return (
        list(map(lambda a: a + 1, range(3))),
        list(filter(lambda a: a % 2, range(5))),
        functools.reduce(lambda a, b: a * b, range(1, 5)),
        max([3, 1], key=lambda v: -v),
        sorted("bca", key=lambda c: ord(c)),
    )


@program
def deep_recursion():
    def rec(n):
        return 0 if n == 0 else 1 + rec(n - 1)

    return rec(700)


@program
def recursion_error():
    def rec(n):
        return rec(n + 1)

    try:
        rec(0)
    except RecursionError as e:
        return str(e)


@program
def very_deep_recursion():
    def rec(n):
        return 0 if n == 0 else 1 + rec(n - 1)

    old = sys.getrecursionlimit()
    sys.setrecursionlimit(30000)
    try:
        return rec(20000)
    finally:
        sys.setrecursionlimit(old)


@program
def mutual_recursion_with_exception():
    def even(n):
        if n == 0:
            raise ValueError("bottom")
        return odd(n - 1)

    def odd(n):
        return even(n - 1)

    even(6)


@program
def arguments_die_in_callee():
    Loud.log = log = []

    def f(a):
        log.append("in")
        del a
        log.append("out")

    f(Loud("arg"))
    f(a=Loud("kw"))
    Thing.static(1)
    return log


@program
def arguments_die_after_c_call():
    Loud.log = log = []
    id(Loud("a"))
    log.append("after")
    len([Loud("b")])
    log.append("end")
    return log


@program
def keyword_call_evaluation_order():
    log = []

    def v(n):
        log.append(n)
        return n

    def f(*a, **k):
        return a, k

    f(v(1), *[v(2)], b=v(3), **{"c": v(4)}, d=v(5))
    return log


@program
def many_arguments():
    ns = {}
    names = [f"a{i}" for i in range(300)]
    exec(f"def f({', '.join(names)}): return {' + '.join(names)}", ns)
    exec(f"def g(): return f({', '.join(n + '=1' for n in names)})", ns)
    exec("def h(f):\n  " + "\n  ".join(f"v{i} = {i}" for i in range(400)) + "\n  return v399 + v0, f(*range(300))", ns)
    return ns["f"](*range(300)), ns["g"](), ns["h"](ns["f"])


@program
def long_jumps():
    ns = {}
    body = "\n    ".join(f"t += {i} if t % 2 else {i + 1}" for i in range(200))
    exec(
        f"def f(n):\n  t = 0\n  for k in range(n):\n    {body}\n    if t > 10**9: break\n  else:\n    t += 1\n  return t",
        ns,
    )
    return ns["f"](3)
