"""Small programs that visit every corner of the language a frame can be in. Each is a function without arguments, or with one input object
whose reference count the runner watches; what it returns, prints and raises has to be the same whoever executes its frames."""

import asyncio
import collections
import contextlib
import functools
import gc
import inspect
import io
import itertools
import sys
import traceback
import types
import warnings
import weakref

PROGRAMS = []
GLOBAL = 10


def program(fn):
    PROGRAMS.append(fn)
    return fn


class Thing:
    """The watched input."""

    def __init__(self, value=3):
        self.value = value
        self.items = [1, 2, 3]

    def method(self, a, b=2, *rest, c=4, **more):
        return self.value, a, b, rest, c, sorted(more.items())

    @property
    def double(self):
        return self.value * 2

    @classmethod
    def make(cls, v):
        return cls(v).value

    @staticmethod
    def static(v):
        return v + 1

    def __getitem__(self, key):
        return key, self.value

    def __add__(self, other):
        return self.value + other

    def __radd__(self, other):
        return other - self.value

    def __eq__(self, other):
        return isinstance(other, Thing) and self.value == other.value

    def __hash__(self):
        return 7

    def __bool__(self):
        return self.value > 0

    def __len__(self):
        return self.value

    def __contains__(self, item):
        return item == self.value

    def __iter__(self):
        return iter(self.items)

    def __call__(self, *args, **kwargs):
        return args, kwargs


class Loud:
    """Says when it dies."""

    log = []

    def __init__(self, name):
        self.name = name

    def __del__(self):
        Loud.log.append(self.name)


class Manager:
    def __init__(self, log, name="m", swallow=False, fail_enter=False, fail_exit=False):
        self.log, self.name, self.swallow, self.fail_enter, self.fail_exit = log, name, swallow, fail_enter, fail_exit

    def __enter__(self):
        self.log.append(("enter", self.name))
        if self.fail_enter:
            raise RuntimeError("enter " + self.name)
        return self.name

    def __exit__(self, kind, value, tb):
        self.log.append(("exit", self.name, kind and kind.__name__, value and value.args, tb is not None))
        if self.fail_exit:
            raise RuntimeError("exit " + self.name)
        return self.swallow


# --- Locals, operators, control flow -------------------------------------------------------------------------------------------------------
@program
def arithmetic():
    a, b = 17, 5
    return [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> b, a & b, a | b, a ^ b, -a, +a, ~a, not a]


@program
def in_place_operators():
    r = []
    for op in range(1):
        a = 17
        a += 5; r.append(a)
        a -= 3; r.append(a)
        a *= 2; r.append(a)
        a //= 3; r.append(a)
        a %= 9; r.append(a)
        a **= 3; r.append(a)
        a <<= 2; r.append(a)
        a >>= 1; r.append(a)
        a &= 1023; r.append(a)
        a |= 3; r.append(a)
        a ^= 5; r.append(a)
        a /= 4; r.append(a)
    return r


@program
def matmul_operators():
    class M:
        def __matmul__(self, o):
            return "mm"

        def __imatmul__(self, o):
            return "imm"

    m = M()
    r = [m @ 1]
    m @= 2
    return r + [m]


@program
def in_place_keeps_identity():
    a = b = [1]
    a += [2]
    return a is b, a


@program
def in_place_on_tuple_item():
    t = ([1],)
    try:
        t[0] += [2]
    except TypeError as e:
        return str(e), t


@program
def comparisons():
    return [1 < 2, 1 <= 1, 1 == 2, 1 != 2, 3 > 2, 3 >= 4, GLOBAL is float, None is not None, 1 in [1], 1 not in [1]]


@program
def chained_comparisons():
    log = []

    def f(v):
        log.append(v)
        return v

    return [f(1) < f(2) < f(3), f(3) < f(2) < f(9), 1 < 2 > 0 != 5], log


@program
def boolean_operators(x):
    return [x and 1, x or 1, None or 0 or "last", 1 and 2 and 0 and 5, not (x and None)]


@program
def conditional_expression(x):
    return (1 if x else 2), (1 if not x else 2)


@program
def while_else():
    r = []
    n = 5
    while n:
        n -= 1
        if n == 3:
            continue
        r.append(n)
    else:
        r.append("else")
    return r


@program
def for_break_else():
    for i in range(10):
        if i == 4:
            break
    else:
        return "else"
    return i


@program
def nested_loops():
    r = []
    for i in range(3):
        for j in range(i, 3):
            if (i + j) % 2:
                continue
            r.append((i, j))
    return r


@program
def return_inside_loop():
    for i in range(3):
        for j in (10, 20):
            if i == 1:
                return i, j


@program
def loop_with_none_tests():
    r = []
    for v in (None, 1, None, 2):
        if v is None:
            r.append("n")
        if v is not None:
            r.append(v)
    while v is not None:
        v = None
    return r


@program
def backward_conditional_jumps():
    r = []
    it = iter([1, 2, 0, 3])
    while (v := next(it)):
        r.append(v)
    it = iter([None, None, 4])
    while (v := next(it)) is None:
        r.append("none")
    while not (v := next(it, True)):
        r.append(v)
    return r


@program
def augmented_assignment_targets(x):
    x.value += 1
    d = {"a": 1}
    d["a"] += 5
    l = [1, 2]
    l[-1] *= 7
    return x.value, d, l


@program
def deletion():
    a = 1
    del a
    try:
        a
    except UnboundLocalError as e:
        return str(e)


@program
def deletion_of_unbound():
    try:
        del nothing
    except UnboundLocalError as e:
        r = str(e)
    nothing = 1
    return r


@program
def deletion_of_items_and_attributes(x):
    l = list(range(5))
    del l[1], l[-1], l[0:1]
    x.extra = 1
    del x.extra
    try:
        del x.extra
    except AttributeError as e:
        return l, str(e)


@program
def swaps_and_rotations():
    a, b, c, d = 1, 2, 3, 4
    a, b = b, a
    a, b, c = c, a, b
    a, b, c, d = d, c, b, a
    return a, b, c, d


@program
def many_constants():
    return sum([
        1, 2, 3, 4.5, 1j, True, 2**70, -1, 1e10
    ]), "s", b"b", None, ..., (1, (2, 3)), frozenset({1})


@program
def slices():
    l = list(range(10))
    l[2:4] = "ab"
    del l[::3]
    return l, l[1:5], l[::-1], l[:3], l[-2:], "abcdef"[1:5:2]


@program
def walrus():
    r = [y := 5, y**2, (z := y + 1)]
    if (n := len(r)) > 2:
        r.append(n)
    return r, y, z, [last := i for i in range(3)], last


@program
def assertion():
    try:
        assert 1 == 2, "the message"
    except AssertionError as e:
        return e.args


@program
def plain_assertion():
    assert False


# --- Names --------------------------------------------------------------------------------------------------------------------------------
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


# --- Closures ---------------------------------------------------------------------------------------------------------------------------------
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


# --- Functions and calls ----------------------------------------------------------------------------------------------------------------------
@program
def call_shapes(x):
    def f(a, b=2, /, c=3, *args, d, e=5, **kw):
        return a, b, c, args, d, e, sorted(kw.items())

    return [f(1, d=4), f(1, 2, 3, 4, 5, d=6, z=7), f(*[1, 2], **{"d": 3, "c": 9}), f(1, *(2, 3), 4, d=0, **{"q": 1}, **{"r": 2}),
            x.method(1), x.method(1, c=9, z=0), Thing.make(4), Thing.static(1), x.double, x(1, k=2)]


@program
def call_errors():
    def f(a, b, *, c):
        pass

    def g(a, /, b=1):
        pass

    r = []
    for call in (lambda: f(), lambda: f(1), lambda: f(1, 2), lambda: f(1, 2, 3, c=1), lambda: f(1, 2, c=3, d=4), lambda: f(1, a=2, c=3),
                 lambda: g(a=1), lambda: g(), lambda: f(**{"a": 1}, **{"a": 2}), lambda: f(*5), lambda: f(**5), lambda: GLOBAL(),
                 lambda: f(1, 2, **{1: 2}), lambda: len(), lambda: len(1, 2), lambda: int(x=1, y=2), lambda: f(1, c=1, *3)):
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
    return (list(map(lambda a: a + 1, range(3))), list(filter(lambda a: a % 2, range(5))), functools.reduce(lambda a, b: a * b, range(1, 5)),
            max([3, 1], key=lambda v: -v), sorted("bca", key=lambda c: ord(c)))


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
    exec(f"def f(n):\n  t = 0\n  for k in range(n):\n    {body}\n    if t > 10**9: break\n  else:\n    t += 1\n  return t", ns)
    return ns["f"](3)


# --- Containers ---------------------------------------------------------------------------------------------------------------------------------
@program
def displays(x):
    return [1, *range(3), *"ab"], (0, *[1, 2]), {1, *[2, 3]}, {"a": 1, **{"b": 2}, "c": x.value}, [], (), {}, set()


@program
def comprehensions(x):
    return ([i * j for i in range(3) for j in range(i) if j], {i % 2 for i in range(5)}, {k: v for k, v in zip("abc", range(3))},
            list(i for i in x.items if i > 1), [[j for j in range(i)] for i in range(3)], [x.value for _ in "ab"])


@program
def unhashable_in_set_and_dict():
    r = []
    for f in (lambda: {[1]}, lambda: {[1]: 2}, lambda: {1: 2, **{}, {}: 3}, lambda: {i for i in [[]]}, lambda: {i: 1 for i in [[]]}):
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
    for f, v in ((two, 5), (two, [1]), (two, [1, 2, 3]), (star, [1]), (star, None), (two, Broken()), (two, BreaksLater()), (star, BreaksLater()),
                 (two, {}), (star, iter([1]))):
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
    for f in (lambda: [1][5], lambda: {}["k"], lambda: GLOBAL[0], lambda: tuple("a")["a"], lambda: "s".x, lambda: len([])[0]):
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


# --- Strings ------------------------------------------------------------------------------------------------------------------------------------
@program
def f_strings(x):
    v, w, name = 3.14159, 8, "né"
    return f"{v:.2f} {v!r:>10} {name!a} {x.value:0{w}d} {{}} {w=} {name!s} {'nested ' + f'{w}'} {v}"


@program
def format_errors():
    r = []
    for f in (lambda: f"{5:s}", lambda: f"{'a':d}", lambda: f"{[]:x}", lambda: "%d" % "a", lambda: "%s %s" % 1, lambda: "{} {}".format(1),
              lambda: "{a}".format()):
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


# --- Exceptions -----------------------------------------------------------------------------------------------------------------------------------
@program
def try_except_else_finally():
    log = []
    for v in (0, 1, 2):
        try:
            log.append(1 // v)
            if v == 2:
                raise KeyError(v)
        except ZeroDivisionError as e:
            log.append(str(e))
        except (KeyError, ValueError) as e:
            log.append(e.args)
        else:
            log.append("else")
        finally:
            log.append("finally")
    return log


@program
def finally_overrides_return():
    def f():
        for i in range(3):
            try:
                return i
            finally:
                if i < 2:
                    continue

    def g():
        try:
            return 1
        finally:
            return 2

    def h():
        try:
            raise ValueError
        finally:
            return "swallowed"

    return f(), g(), h()


@program
def bare_raise():
    try:
        try:
            raise KeyError("k")
        except KeyError:
            raise
    except KeyError as e:
        return e.args


@program
def bare_raise_uncaught():
    try:
        raise KeyError("k")
    except KeyError:
        x = 1
        raise


@program
def bare_raise_in_callee():
    def again():
        raise

    try:
        raise ValueError("v")
    except ValueError:
        again()


@program
def bare_raise_without_exception():
    raise


@program
def raise_from():
    try:
        1 / 0
    except ZeroDivisionError as e:
        raise ValueError("bad") from e


@program
def raise_from_none():
    try:
        1 / 0
    except ZeroDivisionError:
        raise ValueError("bad") from None


@program
def raise_from_class():
    raise ValueError("v") from KeyError


@program
def implicit_context():
    try:
        {}["a"]
    except KeyError:
        [][0]


@program
def context_chain():
    try:
        try:
            raise KeyError(1)
        except KeyError:
            try:
                raise ValueError(2)
            finally:
                raise TypeError(3)
    except TypeError as e:
        return [type(c).__name__ for c in (e, e.__context__, e.__context__.__context__)]


@program
def raise_forms():
    class Weird(Exception):
        def __new__(cls):
            return 5

    r = []
    for f in (lambda: exec("raise 5"), lambda: exec("raise int"), lambda: exec("raise ValueError from 5"), lambda: exec("raise KeyError()"),
              lambda: exec("raise KeyError"), lambda: (_ for _ in ()).throw(5)):
        try:
            f()
        except BaseException as e:
            r.append((type(e).__name__, str(e)))
    try:
        raise Weird
    except TypeError as e:
        r.append("calling" in str(e))
    return r


@program
def exception_name_is_unbound_after():
    try:
        raise ValueError
    except ValueError as e:
        pass
    try:
        e
    except UnboundLocalError as err:
        return str(err)


@program
def catching_non_exceptions():
    try:
        try:
            raise ValueError("v")
        except 5:
            pass
    except TypeError as e:
        return str(e), type(e.__context__).__name__


@program
def catching_non_exceptions_in_tuple():
    try:
        raise ValueError("v")
    except (KeyError, "x"):
        pass


@program
def nested_handlers_exc_info():
    r = []

    def now():
        return sys.exc_info()[0] and sys.exc_info()[0].__name__

    try:
        raise KeyError
    except KeyError:
        r.append(now())
        try:
            raise ValueError
        except ValueError:
            r.append(now())
            (lambda: r.append(now()))()
        r.append(now())
    r.append(now())
    return r


@program
def handler_in_loop_with_continue():
    r = []
    for i in range(4):
        try:
            if i % 2:
                raise IndexError(i)
            r.append(i)
        except IndexError as e:
            r.append(e.args)
            continue
        finally:
            r.append("f")
            if i == 2:
                break
    return r, sys.exc_info()


@program
def exception_through_frames():
    def a():
        b()

    def b():
        c()

    def c():
        raise OSError("deep")

    a()


@program
def exception_in_comprehension():
    return [1 // (2 - i) for i in range(5)]


@program
def exception_multi_line_expression():
    x = {"a": {"b": None}}
    return (x["a"]
            ["b"]
            ["c"])


@program
def exception_in_operator_method():
    class K:
        def __add__(self, o):
            raise ArithmeticError("add")

    return (1 +
            2) + (K() + 3)


@program
def exception_in_property(x):
    class K:
        @property
        def p(self):
            raise AttributeError("inner")

        def __getattr__(self, name):
            if name == "q":
                return "from getattr"
            raise AttributeError(name)

    try:
        K().p
    except AttributeError as e:
        return e.args, K().q


@program
def reraise_keeps_first_line():
    try:
        int("x")
    finally:
        y = 1


@program
def with_reraise_line():
    log = []
    with Manager(log):
        z = 1
        int("y")


@program
def exception_attributes():
    class E(Exception):
        def __init__(self, a, b):
            super().__init__(a)
            self.b = b

        def __str__(self):
            return f"E({self.b})"

    raise E(1, b=2)


@program
def exception_notes():
    e = ValueError("v")
    e.add_note("a note")
    raise e


@program
def except_star():
    log = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), ExceptionGroup("h", [ValueError(3), KeyError(4)])])
    except* ValueError as e:
        log.append(("v", [x.args for x in e.exceptions if not isinstance(x, ExceptionGroup)]))
    except* (TypeError, KeyError) as e:
        log.append(("t", len(e.exceptions)))
    return log, sys.exc_info()


@program
def except_star_leaves_rest():
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError:
        pass


@program
def except_star_naked():
    try:
        raise ValueError(1)
    except* ValueError as e:
        r = type(e).__name__, e.message, e.exceptions[0].args
    return r


@program
def except_star_raises_new():
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), OSError(3)])
    except* ValueError:
        raise KeyError("new")
    except* TypeError as e:
        raise


@program
def except_star_rejects_groups():
    try:
        try:
            raise ValueError(1)
        except* ExceptionGroup:
            pass
    except TypeError as e:
        return str(e)


@program
def except_star_no_match():
    try:
        raise KeyError(1)
    except* ValueError:
        pass


@program
def base_exceptions():
    r = []
    for kind in (SystemExit, KeyboardInterrupt, GeneratorExit):
        try:
            try:
                raise kind(3)
            except Exception:
                r.append("wrong")
        except BaseException as e:
            r.append((type(e).__name__, e.args))
    return r


@program
def traceback_objects():
    def f():
        raise ValueError

    try:
        f()
    except ValueError as e:
        tb = e.__traceback__
        return [(fs.name, fs.lineno - traceback_objects.__code__.co_firstlineno) for fs in traceback.extract_tb(tb)], tb.tb_frame.f_code.co_name


@program
def traceback_positions():
    def f(d):
        return d["a"]["b"]["missing"] + 1

    f({"a": {"b": {}}})


# --- with -----------------------------------------------------------------------------------------------------------------------------------------
@program
def with_statements():
    log = []
    with Manager(log, "a") as a, Manager(log, "b") as b:
        log.append((a, b))
    with Manager(log, "c", swallow=True):
        raise KeyError("swallowed")
    return log


@program
def with_exceptions():
    log = []
    try:
        with Manager(log, "a"):
            with Manager(log, "b", fail_exit=True):
                raise KeyError("body")
    except RuntimeError as e:
        log.append((str(e), repr(e.__context__)))
    try:
        with Manager(log, "c", fail_enter=True):
            log.append("never")
    except RuntimeError as e:
        log.append(str(e))
    return log


@program
def with_return_break_continue():
    log = []

    def f():
        for i in range(3):
            with Manager(log, i):
                if i == 0:
                    continue
                if i == 1:
                    return i

    def g():
        while True:
            with Manager(log, "w"):
                break
        return "g"

    return f(), g(), log


@program
def with_protocol_errors():
    class OnlyEnter:
        def __enter__(self):
            return 1

    class OnlyExit:
        def __exit__(self, *a):
            pass

    r = []
    for cm in (5, OnlyEnter(), OnlyExit()):
        try:
            with cm:
                pass
        except TypeError as e:
            r.append(str(e))
    return r


@program
def with_contextlib():
    @contextlib.contextmanager
    def cm(log):
        log.append("in")
        try:
            yield 5
        except ValueError as e:
            log.append(str(e))
        finally:
            log.append("out")

    log = []
    with cm(log) as v:
        log.append(v)
        raise ValueError("inside")
    with contextlib.suppress(KeyError), contextlib.ExitStack() as s:
        s.callback(log.append, "callback")
        {}["k"]
    return log


@program
def with_releases_manager():
    Loud.log = log = []

    class M(Loud):
        def __enter__(self):
            return None

        def __exit__(self, *a):
            return True

    with M("m"):
        log.append("body")
        raise ValueError
    log.append("end")
    return log


# --- Generators -----------------------------------------------------------------------------------------------------------------------------------
@program
def generator_basics():
    def g(n):
        for i in range(n):
            yield i
        return "done"

    it = g(3)
    r = [next(it), list(it)]
    try:
        next(it)
    except StopIteration as e:
        r.append(e.value)
    it = g(0)
    try:
        next(it)
    except StopIteration as e:
        r.append(e.value)
    return r


@program
def generator_send_throw_close():
    log = []

    def g():
        while True:
            try:
                v = yield "y"
                log.append(("got", v))
            except ValueError as e:
                log.append(("value", e.args))
                yield "handled"
            except GeneratorExit:
                log.append("closed")
                raise
            finally:
                log.append("finally")

    it = g()
    r = [next(it), it.send(1), it.throw(ValueError("t")), next(it)]
    it.close()
    return r, log, it.gi_frame


@program
def generator_throw_uncaught():
    def g():
        yield 1
        yield 2

    it = g()
    next(it)
    it.throw(KeyError("thrown"))


@program
def generator_throw_before_start():
    def g():
        yield 1

    g().throw(ValueError("early"))


@program
def generator_throw_kinds():
    def g():
        try:
            yield 1
        except BaseException as e:
            yield type(e).__name__, e.args

    r = []
    for kind in (ValueError, ValueError("a"), KeyError("k")):
        it = g()
        next(it)
        r.append(it.throw(kind))
    it = g()
    next(it)
    r.append(it.throw(ValueError, "msg"))
    return r


@program
def generator_send_errors():
    def g():
        yield 1

    r = []
    try:
        g().send(5)
    except TypeError as e:
        r.append(str(e))

    def selfish():
        yield next(it)

    it = selfish()
    try:
        next(it)
    except ValueError as e:
        r.append(str(e))
    return r


@program
def generator_stop_iteration_inside():
    def g():
        yield 1
        raise StopIteration("x")

    it = g()
    next(it)
    next(it)


@program
def generator_ignores_exit():
    def g():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    it = g()
    next(it)
    try:
        it.close()
    except RuntimeError as e:
        return str(e)


@program
def yield_from():
    def inner():
        a = yield 1
        b = yield a
        return a, b

    def outer():
        r = yield from inner()
        yield r
        yield from [7, 8]
        r = yield from iter("ab")
        yield r

    it = outer()
    return [next(it), it.send("A"), it.send("B"), list(it)]


@program
def yield_from_throw_and_close():
    log = []

    def inner():
        try:
            yield 1
        except KeyError as e:
            log.append(e.args)
            yield 2
        finally:
            log.append("inner finally")

    def outer():
        try:
            yield from inner()
        finally:
            log.append("outer finally")

    it = outer()
    r = [next(it), it.throw(KeyError("k"))]
    it.close()
    it = outer()
    next(it)
    try:
        it.throw(ValueError("through"))
    except ValueError as e:
        log.append(str(e))
    return r, log


@program
def yield_from_traceback():
    def a():
        yield 1
        raise ValueError("in a")

    def b():
        yield from a()

    def c():
        yield from b()

    list(c())


@program
def yield_from_non_generator():
    class It:
        def __iter__(self):
            return self

        def __next__(self):
            raise StopIteration("ret")

        def send(self, v):
            return "sent", v

        def throw(self, *a):
            return "thrown"

    def g():
        r = yield from It()
        yield r

    def h():
        yield from 5

    try:
        next(h())
    except TypeError as e:
        return list(g()), str(e)


@program
def yield_inside_try_with():
    log = []

    def g():
        with Manager(log, "g"):
            try:
                yield 1
                yield 2
            finally:
                log.append("fin")

    it = g()
    log.append(next(it))
    del it
    log.append("deleted")
    return log


@program
def yield_in_handler_and_exc_info():
    def g():
        try:
            raise KeyError("g")
        except KeyError:
            yield sys.exc_info()[0].__name__
            yield sys.exc_info()[0].__name__
        yield sys.exc_info()[0]

    r = []
    it = g()
    try:
        raise ValueError
    except ValueError:
        r.append(next(it))
        r.append(sys.exc_info()[0].__name__)
    r.append(next(it))
    r.append(next(it))
    r.append(sys.exc_info())
    return r


@program
def bare_raise_in_generator():
    def g():
        yield
        raise

    it = g()
    next(it)
    try:
        raise KeyError("outer")
    except KeyError:
        next(it)


@program
def generator_expression_errors():
    try:
        list(1 // i for i in (1, 0))
    except ZeroDivisionError as e:
        return str(e), [f.name for f in traceback.extract_tb(e.__traceback__)]


@program
def generator_finalizer_order():
    Loud.log = log = []

    def g():
        a = Loud("a")
        yield 1
        b = Loud("b")
        yield 2

    it = g()
    next(it)
    next(it)
    log.append("before")
    del it
    log.append("after")
    return log


@program
def generator_attributes():
    def g():
        yield 1

    it = g()
    r = [it.gi_running, it.gi_yieldfrom, inspect.getgeneratorstate(it), it.__name__]
    next(it)
    r += [inspect.getgeneratorstate(it), it.gi_frame.f_lineno - generator_attributes.__code__.co_firstlineno]
    list(it)
    return r + [inspect.getgeneratorstate(it)]


@program
def generator_running_flag():
    def g():
        yield it.gi_running, inspect.getgeneratorstate(it)

    it = g()
    return next(it)


@program
def nested_generators():
    def tree(n):
        if n:
            yield from tree(n - 1)
            yield n
            yield from tree(n - 1)

    return list(tree(4))


@program
def generator_pipeline():
    def source():
        for i in itertools.count():
            yield i

    def take(n, it):
        for _, v in zip(range(n), it):
            yield v

    return sum(v * v for v in take(5, source()) if v % 2)


@program
def generator_in_cycle_is_collected():
    Loud.log = log = []

    def g():
        me = holder  # noqa: F841
        keep = Loud("kept")  # noqa: F841
        yield

    holder = []
    it = g()
    holder.append(it)
    next(it)
    del it, holder
    gc.collect()
    return log


@program
def gc_during_generator():
    def g():
        a = [1]
        a.append(a)
        gc.collect()
        yield len(a)
        gc.collect()
        yield from (gc.collect() and 0 or v for v in (1, 2))

    return list(g())


@program
def coroutine_basics():
    async def add(a, b):
        return a + b

    async def main():
        return await add(1, 2), [await add(i, i) for i in range(3)]

    return asyncio.run(main())


@program
def coroutine_by_hand():
    @types.coroutine
    def trap(v):
        r = yield v
        return r

    async def f():
        a = await trap("first")
        try:
            b = await trap("second")
        except KeyError as e:
            b = e.args
        return a, b

    c = f()
    r = [c.send(None), c.send("A")]
    try:
        c.throw(KeyError("K"))
    except StopIteration as e:
        r.append(e.value)
    return r


@program
def coroutine_errors():
    async def f():
        await 5

    async def g():
        return 1

    class BadAwait:
        def __await__(self):
            return 5

    class CoroAwait:
        def __await__(self):
            c = g()
            keep.append(c)
            return c

    keep = []

    async def bad(v):
        return await v

    r = []
    for c in (f(), bad(BadAwait()), bad(CoroAwait())):
        try:
            c.send(None)
        except TypeError as e:
            r.append(str(e))
    for c in keep:
        c.close()
    c = g()
    try:
        c.send(None)
    except StopIteration:
        pass
    try:
        c.send(None)
    except RuntimeError as e:
        r.append(str(e))
    return r


@program
def coroutine_awaited_twice():
    @types.coroutine
    def trap():
        yield

    async def inner():
        await trap()

    async def outer(c):
        await c

    c = inner()
    first, second = outer(c), outer(c)
    first.send(None)
    try:
        second.send(None)
    except RuntimeError as e:
        r = str(e)
    first.close()
    return r


@program
def async_for_and_with():
    class It:
        def __init__(self, n):
            self.n = n

        def __aiter__(self):
            return self

        async def __anext__(self):
            if self.n == 0:
                raise StopAsyncIteration
            self.n -= 1
            await asyncio.sleep(0)
            return self.n

    class CM:
        async def __aenter__(self):
            log.append("in")
            return "v"

        async def __aexit__(self, *a):
            log.append(a[0] and a[0].__name__)
            return True

    log = []

    async def main():
        async for i in It(3):
            log.append(i)
        else:
            log.append("else")
        async with CM() as v:
            log.append(v)
            raise KeyError
        async with CM():
            pass
        return [i async for i in It(2) if i], {i: i async for i in It(2)}

    return asyncio.run(main()), log


@program
def async_protocol_errors():
    class BadAiter:
        def __aiter__(self):
            return 5

    class BadAnext:
        def __aiter__(self):
            return self

        def __anext__(self):
            return 5

    class BadEnter:
        def __aenter__(self):
            return 5

        async def __aexit__(self, *a):
            pass

    class NoExit:
        async def __aenter__(self):
            pass

    async def loop(v):
        async for i in v:
            pass

    async def use(v):
        async with v:
            pass

    r = []
    for c in (loop(5), loop(BadAiter()), loop(BadAnext()), use(5), use(BadEnter()), use(NoExit())):
        try:
            c.send(None)
        except TypeError as e:
            r.append((str(e), repr(e.__cause__)))
    return r


@program
def async_generators():
    log = []

    async def agen():
        try:
            for i in range(3):
                v = yield i
                if v:
                    log.append(v)
                await asyncio.sleep(0)
        finally:
            log.append("finally")

    async def main():
        r = [i async for i in agen()]
        g = agen()
        r.append(await g.__anext__())
        r.append(await g.asend("sent"))
        try:
            await g.athrow(KeyError("k"))
        except KeyError as e:
            r.append(e.args)
        g = agen()
        async for i in g:
            if i:
                break
        await g.aclose()
        return r

    return asyncio.run(main()), log


@program
def async_gather_and_cancel():
    log = []

    async def worker(n):
        try:
            for i in range(n):
                await asyncio.sleep(0)
                log.append((n, i))
            return n
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def main():
        t = asyncio.create_task(worker(100))
        r = await asyncio.gather(worker(2), worker(3))
        t.cancel()
        try:
            await t
        except asyncio.CancelledError:
            r.append("c")
        return r

    return asyncio.run(main()), log[-1]


@program
def async_comprehension_errors():
    async def f():
        return [await g(i) for i in range(3)]

    async def g(i):
        return 1 // (1 - i)

    asyncio.run(f())


@program
def coroutine_never_awaited():
    async def f():
        pass

    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        f()
        gc.collect()
    return [str(x.message) for x in w]


# --- Classes --------------------------------------------------------------------------------------------------------------------------------------
@program
def class_features():
    class Meta(type):
        def __new__(m, name, bases, ns, **kw):
            ns["made"] = sorted(kw)
            return super().__new__(m, name, bases, ns)

        def __init__(cls, name, bases, ns, **kw):
            super().__init__(name, bases, ns)

        @classmethod
        def __prepare__(m, name, bases, **kw):
            return {"prepared": 1}

    class A(metaclass=Meta, flag=True):
        x: int = 1
        y: "str"

        def __init_subclass__(cls, **kw):
            cls.sub = kw

    class B(A, extra=2):
        pass

    return A.made, A.prepared, A.__annotations__, B.sub, A.__name__, A.__qualname__


@program
def class_body_control_flow():
    class K:
        for i in range(3):
            if i == 1:
                continue
            exec(f"a{i} = i")
        try:
            1 / 0
        except ZeroDivisionError as e:
            msg = str(e)
        with contextlib.nullcontext(5) as n:
            m = n + 1
        del i
        f = [j for j in range(3)]

    return K.a0, K.a2, K.msg, K.m, hasattr(K, "i"), hasattr(K, "e"), K.f


@program
def class_body_exception():
    class K:
        x = 1
        y = missing  # noqa: F821


@program
def descriptors():
    class D:
        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, obj, owner):
            return self.name, obj is None

        def __set__(self, obj, v):
            obj.__dict__["set"] = v

        def __delete__(self, obj):
            obj.__dict__["deleted"] = True

    class K:
        d = D()

    k = K()
    k.d = 5
    del k.d
    return K.d, k.d, k.set, k.deleted


@program
def slots_and_properties():
    class K:
        __slots__ = ("a", "_b")

        @property
        def b(self):
            return self._b

        @b.setter
        def b(self, v):
            self._b = v * 2

    k = K()
    k.a, k.b = 1, 2
    r = [k.a, k.b]
    try:
        k.c = 1
    except AttributeError as e:
        r.append(str(e))
    del k.a
    try:
        k.a
    except AttributeError as e:
        r.append(str(e))
    return r


@program
def getattr_hooks():
    class K:
        def __getattr__(self, n):
            return "?" + n

        def __setattr__(self, n, v):
            object.__setattr__(self, n, (v,))

        def __delattr__(self, n):
            object.__delattr__(self, n)

    k = K()
    k.a = 1
    r = k.a, k.b, k.m
    del k.a
    return r, k.a


@program
def init_and_new():
    class K:
        def __new__(cls, *a):
            self = super().__new__(cls)
            self.new = a
            return self

        def __init__(self, *a):
            self.init = a

    class Bad:
        def __init__(self):
            return 5

    k = K(1, 2)
    try:
        Bad()
    except TypeError as e:
        return k.new, k.init, str(e)


@program
def operator_dispatch(x):
    return x + 1, 1 + x, x == Thing(3), x != 5, hash(x), bool(x), len(x), 3 in x, list(x), {x: 1}[Thing(3)]


@program
def truth_errors():
    class K:
        def __bool__(self):
            return 5

    class L:
        def __len__(self):
            return -1

    class M:
        def __bool__(self):
            raise KeyError("b")

    r = []
    for k in (K(), L(), M()):
        for f in (lambda: 1 if k else 2, lambda: not k, lambda: k and 1, lambda: k or 1):
            try:
                f()
            except Exception as e:
                r.append((type(e).__name__, str(e)))
    return r


@program
def named_tuples_dataclasses_enums():
    import dataclasses
    import enum

    @dataclasses.dataclass(order=True, frozen=True)
    class P:
        x: int
        y: int = 2
        z: list = dataclasses.field(default_factory=list)

    class E(enum.Enum):
        A = 1
        B = enum.auto()

    T = collections.namedtuple("T", "a b", defaults=[5])
    return P(1), P(1) < P(2), E.A, E(2), [e.name for e in E], T(1), T(1)._replace(b=2)


# --- match ------------------------------------------------------------------------------------------------------------------------------------
@program
def match_statement():
    import dataclasses

    @dataclasses.dataclass
    class P:
        x: int
        y: int

    def m(v):
        match v:
            case None | True | False:
                return "single"
            case 0 | 1:
                return "small"
            case "s":
                return "string"
            case [] | [_]:
                return "short"
            case [1, [2, *rest], *_]:
                return "nested", rest
            case [a, b, *c]:
                return "seq", a, b, c
            case {"k": v1, "m": {"n": v2}}:
                return "map2", v1, v2
            case {"k": v1, **kw}:
                return "map", v1, kw
            case P(0, y=y):
                return "P0", y
            case P(x, y) if x > y:
                return "Pgt", x, y
            case P() as p:
                return "P", p.x
            case int(n):
                return "int", n
            case str() | bytes():
                return "text"
            case GLOBAL.real:
                return "value"
        return "nothing"

    return [m(v) for v in (None, True, 0, "s", [], [5], [1, [2, 3, 4], 5], [1, 2, 3], {"k": 1, "m": {"n": 2}}, {"k": 1, "z": 2}, P(0, 5), P(3, 1),
                           P(1, 3), 77, b"x", "xyz", 1.5, (1, 2), range(3), collections.deque([1, 2]))]


@program
def match_errors():
    class K:
        __match_args__ = 5

    class L:
        __match_args__ = (1,)

    class M:
        __match_args__ = ("a", "a")
        a = 1

    def k(v):
        match v:
            case K(1):
                pass

    def l(v):
        match v:
            case L(1):
                pass

    def m(v):
        match v:
            case M(1, 1):
                pass

    def n(v):
        match v:
            case int(1, 2):
                pass

    def o(v):
        match v:
            case GLOBAL():
                pass

    def p(v):
        match v:
            case M(1, a=1):
                pass

    def q(v):
        match v:
            case M(a=1, b=2):
                return "yes"
        return "no"

    r = []
    for f, v in ((k, K()), (l, L()), (m, M()), (n, 1), (o, 1), (p, M()), (q, M())):
        try:
            r.append(f(v))
        except TypeError as e:
            r.append(str(e))
    return r


@program
def match_mapping_with_get():
    class D(collections.defaultdict):
        pass

    d = D(int, a=1)

    def f(v):
        match v:
            case {"a": x, "b": y}:
                return x, y
            case {"a": x}:
                return x

    return f(d), dict(d), f(collections.ChainMap({"a": 3}))


# --- Imports ----------------------------------------------------------------------------------------------------------------------------------
@program
def imports():
    import os.path as p
    import xml.dom
    from collections import OrderedDict as O, namedtuple
    from math import pi

    return p.basename("/a/b"), xml.dom.__name__, O.__name__, namedtuple.__name__, round(pi, 2)


@program
def import_errors():
    r = []
    for text in ("import no_such_module_at_all", "from math import no_such_name", "from os.path import nope", "import os.nothing",
                 "from . import x", "from .y import z"):
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
    g = {"__builtins__": dict(vars(__import__("builtins")), __import__=lambda *a: types.SimpleNamespace(got=a[0], sub=a[3]))}
    exec("import some.thing as t\nfrom other import sub\nr = sub", g)
    h = {"__builtins__": {}}
    try:
        exec("import os", h)
    except ImportError as e:
        return g["r"], str(e)


# --- Frames as seen by the program ------------------------------------------------------------------------------------------------------------
@program
def getframe_sees_caller():
    def callee():
        f = sys._getframe(1)
        return f.f_code.co_name, f.f_lineno - getframe_sees_caller.__code__.co_firstlineno, sorted(k for k in f.f_locals if k != "callee")

    a = 1
    r = callee()
    b = 2
    return r, callee(), a, b


@program
def inspect_stack():
    def f():
        return [(i.function, i.lineno - inspect_stack.__code__.co_firstlineno) for i in inspect.stack()[:2]]

    return f()


@program
def frame_locals_of_generator():
    def g():
        a = 1
        yield sys._getframe().f_locals.copy()
        b = 2
        yield sys._getframe().f_locals.copy()

    it = g()
    return next(it), it.gi_frame.f_locals, next(it)


@program
def frame_object_outlives_call():
    def f(a):
        b = a + 1
        return sys._getframe()

    fr = f(1)
    r = fr.f_locals, fr.f_lineno - frame_object_outlives_call.__code__.co_firstlineno, fr.f_back
    fr.clear()
    return r, fr.f_locals


@program
def frame_in_traceback_keeps_locals():
    def f(a):
        b = a * 2
        raise ValueError

    try:
        f(4)
    except ValueError as e:
        return e.__traceback__.tb_next.tb_frame.f_locals


@program
def clear_of_running_frame():
    try:
        sys._getframe().clear()
    except RuntimeError as e:
        return str(e)


@program
def warnings_name_the_line():
    def f():
        warnings.warn("here")
        warnings.warn("caller", stacklevel=2)

    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        f()
    return [x.lineno - warnings_name_the_line.__code__.co_firstlineno for x in w]


@program
def settrace_in_the_middle():
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "traced":
            events.append((event, frame.f_lineno - settrace_in_the_middle.__code__.co_firstlineno))
        return tracer

    def traced(n):
        a = n + 1
        return a

    traced(0)
    sys.settrace(tracer)
    traced(1)
    sys.settrace(None)
    traced(2)
    return events


@program
def setprofile_in_the_middle():
    events = []

    def f():
        return len("abc")

    def prof(frame, event, arg):
        events.append((event, frame.f_code.co_name))

    sys.setprofile(prof)
    f()
    sys.setprofile(None)
    return events


@program
def lambda_line_numbers():
    f = (
        lambda:
        1 / 0
    )
    f()


# --- Lifetimes ----------------------------------------------------------------------------------------------------------------------------------
@program
def del_timing():
    Loud.log = log = []
    a = Loud("a")
    log.append(1)
    a = Loud("b")
    log.append(2)
    del a
    log.append(3)
    Loud("temp")
    log.append(4)
    [Loud("in list"), 1][1]
    log.append(5)
    x, y = Loud("x"), Loud("y")
    x = y = None
    log.append(6)
    return log


@program
def locals_die_at_return():
    Loud.log = log = []

    def f():
        a = Loud("a")  # noqa: F841
        b = Loud("b")  # noqa: F841
        return log.append("returning")

    f()
    log.append("returned")
    return log


@program
def operands_die_in_order():
    Loud.log = log = []

    class V(Loud):
        def __add__(self, o):
            log.append("add")
            return 5

        def __getitem__(self, k):
            log.append("item")
            return 6

        def __setitem__(self, k, v):
            log.append("setitem")

        def __lt__(self, o):
            log.append("lt")
            return True

        def __contains__(self, o):
            log.append("contains")
            return True

    V("l") + V("r")
    V("c")[V("k")]
    V("c2")[V("k2")] = V("v2")
    V("l3") < V("r3")
    V("l4") in V("r4")
    V("l5") is V("r5")
    return log


@program
def exception_frees_locals():
    Loud.log = log = []

    def f():
        a = Loud("a")  # noqa: F841
        raise ValueError

    try:
        f()
    except ValueError:
        log.append("caught")
    log.append("after")
    return log


@program
def loop_variable_lifetime():
    Loud.log = log = []
    for v in (Loud(str(i)) for i in range(3)):
        log.append("body")
    log.append("end")
    del v
    return log


@program
def weakrefs(x):
    class K:
        pass

    k = K()
    w = weakref.ref(k, lambda r: log.append("dead"))
    log = []
    alive = w() is k
    del k
    return alive, w(), log, weakref.ref(x)() is x


@program
def resurrecting():
    kept = []

    class K:
        def __del__(self):
            kept.append(self)

    k = K()
    del k
    return len(kept)


@program
def exception_in_del(x):
    class K:
        def __del__(self):
            raise ValueError("ignored")

    seen = []
    old = sys.unraisablehook
    sys.unraisablehook = lambda u: seen.append(str(u.exc_value))
    try:
        k = K()
        del k
    finally:
        sys.unraisablehook = old
    return seen


@program
def reference_cycles(x):
    Loud.log = log = []
    a = Loud("cycle")
    a.self = a
    a.x = x
    del a
    gc.collect()
    return log


@program
def input_is_passed_around(x):
    def f(v, *args, **kw):
        l = [v, v]
        d = {"v": v, **kw}
        for w in (v, *args):
            y = w
        try:
            raise ValueError(v)
        except ValueError as e:
            z = e.args[0]
        return y is z, len(l), sorted(d)

    g = (v for v in [x, x])
    return f(x, x, k=x), next(g) is x, [i for i in [x]][0] is x


@program
def input_escapes_by_exception(x):
    def f(v):
        raise KeyError(v.value)

    f(x)


# --- Output, threads, signals -------------------------------------------------------------------------------------------------------------------
@program
def printing():
    print("a", 1, sep="-")
    print("b", end="")
    buf = io.StringIO()
    print("c", file=buf)
    return buf.getvalue()


@program
def interactive_display():
    code = compile("1 + 1\nNone\n'x'\n", "<display>", "single") if False else compile("1 + 1", "<display>", "single")
    exec(code, {})
    old = sys.displayhook
    sys.displayhook = lambda v: print("hook", v)
    try:
        exec(code, {})
    finally:
        sys.displayhook = old


@program
def threads():
    import threading

    r = []

    def work(n):
        t = 0
        for i in range(20000):
            t += i % n
        r.append(t)

    ts = [threading.Thread(target=work, args=(n,)) for n in (3, 5, 7)]
    for t in ts:
        t.start()
    for i in range(1000):
        pass
    for t in ts:
        t.join()
    return sorted(r)


@program
def signal_interrupts_loop():
    import signal

    def handler(num, frame):
        raise TimeoutError("alarm")

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        while True:
            pass
    except TimeoutError as e:
        return str(e)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@program
def keyboard_interrupt():
    import _thread

    try:
        _thread.interrupt_main()
        for i in range(10**6):
            i += 1
    except KeyboardInterrupt:
        return "interrupted"


@program
def async_exception_from_other_thread():
    import ctypes
    import threading

    me = threading.get_ident()
    t = threading.Timer(0.05, lambda: ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(me), ctypes.py_object(LookupError)))
    t.start()
    try:
        while True:
            pass
    except LookupError:
        t.join()
        return "got it"


# --- Library code ---------------------------------------------------------------------------------------------------------------------------------
@program
def json_round_trip():
    import json

    text = json.dumps({"a": [1, 2.5, None, True, "é"], "b": {"c": {}}}, indent=1, sort_keys=True)
    return json.loads(text), text


@program
def regular_expressions():
    import re

    return re.sub(r"(\w+)-(\d+)", lambda m: m[2] + m[1], "ab-1 cd-22"), re.findall("[a-c]+", "aabdcc")


@program
def textwrap_and_string():
    import string
    import textwrap

    return textwrap.fill("the quick brown fox jumps over the lazy dog", 20), string.Template("$a ${b}").substitute(a=1, b=2)


@program
def copy_and_pickle(x):
    import copy
    import pickle

    y = copy.deepcopy(x)
    z = pickle.loads(pickle.dumps(x))
    return y == x, z == x, y.items, z.items is x.items


@program
def fractions_and_decimal():
    from decimal import Decimal
    from fractions import Fraction

    return Fraction(3, 4) + Fraction(1, 3), Decimal("1.1") * 3, sum(Fraction(1, n) for n in range(1, 10))


@program
def ast_and_compile():
    import ast

    tree = ast.parse("def f(x):\n  return [i for i in x if i]")
    ns = {}
    exec(compile(tree, "<x>", "exec"), ns)
    return ns["f"]([0, 1, 2]), ast.unparse(tree)


@program
def argparse_error():
    import argparse

    p = argparse.ArgumentParser(prog="p")
    p.add_argument("--n", type=int, default=3)
    p.add_argument("files", nargs="*")
    return sorted(vars(p.parse_args(["--n", "5", "a", "b"])).items())
