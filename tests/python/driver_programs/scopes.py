"""Names, closures, imports."""

import sys
import types

from tests.python.driver_programs.common import program

GLOBAL = 10


@program
def undefined_global():
    return undefined_name  # noqa: F821


@program
def undefined_global_message_and_name():
    try:
        undefined_name  # noqa: F821
    except NameError as e:
        return e.args, e.name


@program
def unbound_local():
    if GLOBAL < 0:
        v = 1
    return v


@program
def unbound_free():
    def f():
        return late

    try:
        f()
    except NameError as e:
        r = type(e).__name__, e.args, e.name
    late = 1
    return r, f()


@program
def unbound_cell():
    def f():
        return v  # noqa: F821

    v = 1
    del v
    try:
        v
    except UnboundLocalError as e:
        r = e.args
    try:
        del v
    except UnboundLocalError as e:
        return r, e.args


@program
def global_statement():
    global GLOBAL, _fresh
    old = GLOBAL
    GLOBAL += 1
    _fresh = 5
    r = GLOBAL, _fresh
    del _fresh
    GLOBAL = old
    try:
        del _fresh
    except NameError as e:
        return r, e.args, e.name


@program
def name_suggestion_in_traceback():
    global_list = []
    return global_lst  # noqa: F821


@program
def attribute_suggestion_in_traceback(x):
    return x.metod


@program
def builtins_shadowed():
    g = {"len": lambda v: "mine", "__builtins__": __builtins__}
    exec("r = len([1]), abs(-2)", g)
    return g["r"]


@program
def globals_subclass():
    class D(dict):
        def __missing__(self, key):
            if key == "magic":
                return 42
            raise KeyError(key)

    g = D(__builtins__=__builtins__)
    f = types.FunctionType((lambda: (magic, len("ab"))).__code__, g)  # noqa: F821
    h = types.FunctionType((lambda: absent).__code__, g)  # noqa: F821
    try:
        h()
    except NameError as e:
        return f(), e.args


@program
def custom_builtins():
    class B(dict):
        def __getitem__(self, key):
            if key == "special":
                return "sp"
            return super().__getitem__(key)

    g = {"__builtins__": B(vars(__import__("builtins")))}
    return eval("(special, len('abc'))", g)


@program
def exec_with_mapping_locals():
    class L(dict):
        def __getitem__(self, key):
            print("get", key)
            return super().__getitem__(key)

        def __setitem__(self, key, value):
            print("set", key)
            super().__setitem__(key, value)

        def __delitem__(self, key):
            print("del", key)
            super().__delitem__(key)

    loc = L()
    exec("a = 1\nb = a + len('xy')\ndel a\nc: int = 5\nclass K:\n  q = b", {}, loc)
    try:
        exec("del zz", {}, loc)
    except NameError as e:
        print(e)
    return sorted(loc)


@program
def locals_and_vars():
    a, b = 1, "x"
    seen = sorted(locals().items())
    c = 3
    return seen, sorted(k for k in vars()), sorted(dir())


@program
def exec_and_eval_see_frame():
    a = 5
    exec("a = 6; b = 7")
    return a, eval("a + 1"), "b" in locals()


@program
def closure_counter():
    def make():
        n = 0

        def inc(by=1):
            nonlocal n
            n += by
            return n

        return inc, lambda: n

    inc, get = make()
    return inc(), inc(5), get()


@program
def closures_share_cell():
    fs = []
    for i in range(3):
        fs.append(lambda: i)
    return [f() for f in fs], [f() for f in [lambda i=i: i for i in range(3)]]


@program
def argument_as_cell(x):
    def f(a, b):
        g = lambda: (a, b, x.value)
        a = a + 1
        return g()

    return f(1, 2)


@program
def deep_closure():
    def a(p):
        def b(q):
            def c(r):
                nonlocal p
                p += r
                return p, q, r

            return c

        return b

    c = a(1)(2)
    return c(3), c(4)


@program
def class_cell_and_super():
    class A:
        def f(self):
            return ["A"]

    class B(A):
        def f(self):
            return super().f() + ["B", __class__.__name__]

    class C(B):
        def f(self):
            return super(C, self).f() + ["C"]

    return C().f()


@program
def class_body_closure():
    v = "outer"

    class K:
        w = v
        v = "inner"
        x = v

        def f(self):
            return v

    return K.w, K.x, K().f()


@program
def class_body_unbound_free():
    def f():
        class K:
            y = late

        late = 1

    try:
        f()
    except NameError as e:
        return type(e).__name__, e.args


@program
def recursive_closure():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return fib(12)


@program
def imports():
    import os.path as p
    import xml.dom
    from collections import OrderedDict as O
    from collections import namedtuple
    from math import pi

    return p.basename("/a/b"), xml.dom.__name__, O.__name__, namedtuple.__name__, round(pi, 2)


@program
def import_errors():
    r = []
    for text in (
        "import no_such_module_at_all",
        "from math import no_such_name",
        "from os.path import nope",
        "import os.nothing",
        "from . import x",
        "from .y import z",
    ):
        try:
            exec(text, {"__name__": "m", "__package__": ""})
        except ImportError as e:
            r.append((type(e).__name__, str(e).split(" (/")[0], e.name))
    return r


@program
def import_star():
    ns = {}
    exec("from math import *\nfrom string import *\nr = (floor(2.5), ascii_lowercase[:3])", ns)
    m = types.ModuleType("fake_module_for_star")
    m.__all__ = ["a", "missing"]
    m.a = 1
    sys.modules[m.__name__] = m
    try:
        exec("from fake_module_for_star import *", ns)
    except AttributeError as e:
        return ns["r"], str(e)
    finally:
        del sys.modules[m.__name__]


@program
def import_from_missing_in_traceback():
    from collections import does_not_exist  # noqa: F401


@program
def import_overridden():
    g = {
        "__builtins__": dict(
            vars(__import__("builtins")), __import__=lambda *a: types.SimpleNamespace(got=a[0], sub=a[3])
        )
    }
    exec("import some.thing as t\nfrom other import sub\nr = sub", g)
    h = {"__builtins__": {}}
    try:
        exec("import os", h)
    except ImportError as e:
        return g["r"], str(e)
