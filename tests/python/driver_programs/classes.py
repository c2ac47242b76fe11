"""Classes."""

import collections
import contextlib

from tests.python.driver_programs.common import Thing, program


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
