"""The object model, looked at from its corners: metaclasses, descriptors, slots, operators, hooks, and classes changed between calls."""

import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import numbers
import operator
import types
import typing
import warnings
import weakref

import torch
import torch.utils._pytree as pytree

from tests.python.programs import Case, program, vec


@program(full=1)
def metaclass_call_counts():
    class Meta(type):
        made = 0

        def __call__(cls, *a, **k):
            Meta.made += 1
            o = super().__call__(*a, **k)
            o.serial = Meta.made
            return o

        def __getattr__(cls, name):
            if name.startswith("dyn_"):
                return name[4:]
            raise AttributeError(name)

        def __len__(cls):
            return 42

        def __contains__(cls, x):
            return x == 3

        def __iter__(cls):
            return iter([1, 2, 3])

        def __bool__(cls):
            return False

        @property
        def info(cls):
            return cls.__name__ + "!"

    class A(metaclass=Meta):
        def __init__(self, v):
            self.v = v

    def f(x):
        a, b = A(1), A(x)
        return a.serial, b.serial, A.dyn_foo, len(A), 3 in A, [i for i in A], bool(A), A.info, x + a.v

    return Case(f, vec()).watching(Meta)


@program(full=1)
def metaclass_instancecheck():
    class Duck(type):
        def __instancecheck__(cls, o):
            return hasattr(o, "quack")

        def __subclasscheck__(cls, c):
            return "quack" in dir(c)

        def __eq__(cls, other):
            return True

        def __hash__(cls):
            return 5

    class D(metaclass=Duck):
        pass

    class Q:
        quack = 1

    def f(x):
        return x + 1, isinstance(Q(), D), isinstance(3, D), issubclass(Q, D), D == 3

    return Case(f, vec())


@program()
def metaclass_prepare_and_order():
    class Meta(type):
        @classmethod
        def __prepare__(m, name, bases, **kw):
            d = {}
            d["tag"] = kw.get("tag")
            return d

        def __new__(m, name, bases, ns, **kw):
            ns["fields"] = [k for k in ns if not k.startswith("__")]
            return super().__new__(m, name, bases, ns)

        def __init__(cls, name, bases, ns, **kw):
            super().__init__(name, bases, ns)

    def f(x):
        class A(metaclass=Meta, tag=5):
            b = 1
            a = 2

        return x + A.tag, A.fields

    return Case(f, vec())


@program(full=1)
def descriptor_variants():
    class Log:
        def __set_name__(self, owner, name):
            self.name = "_" + name
            self.owner = owner.__name__

        def __get__(self, o, t=None):
            if o is None:
                return self
            return getattr(o, self.name, "unset")

        def __set__(self, o, v):
            setattr(o, self.name, (self.owner, v))

        def __delete__(self, o):
            delattr(o, self.name)

    class A:
        x = Log()
        y = Log()

    def f(t):
        a = A()
        r = [a.x]
        a.x = t + 1
        a.y = 2
        r.append(a.y)
        del a.x
        r.append(a.x)
        r.append(A.x.name)
        return r, a, "x" in vars(a)

    return Case(f, vec())


@program(full=1)
def non_data_descriptor_shadowed():
    class ND:
        def __get__(self, o, t=None):
            return ("nd", o is None)

    class A:
        v = ND()

    def f(x, a):
        r = [a.v, A.v]
        a.v = 5
        r.append(a.v)
        del a.v
        r.append(a.v)
        a.__dict__["v"] = 6
        r.append(a.v)
        return x + 1, r

    return Case(f, vec(), A())


@program(full=1)
def descriptor_in_instance_is_not_used():
    class D:
        def __get__(self, o, t=None):
            return 1

    class A:
        pass

    def f(x):
        a = A()
        a.d = D()
        return x + 1, type(a.d).__name__

    return Case(f, vec())


@program(full=1)
def property_override_and_super():
    class A:
        def __init__(self):
            self._v = 1

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, n):
            self._v = n * 2

        @v.deleter
        def v(self):
            self._v = None

    class B(A):
        @property
        def v(self):
            return super().v + 100

        @v.setter
        def v(self, n):
            A.v.fset(self, n + 1)

    def f(x, b):
        b.v = 3
        r = b.v
        A.v.fdel(b)
        return x + r, b._v

    return Case(f, vec(), B())


@program(full=1)
def property_without_setter():
    class A:
        @property
        def v(self):
            return 1

    def f(x, a):
        try:
            a.v = 3
        except AttributeError as e:
            m = str(e)
        try:
            del a.v
        except AttributeError as e:
            m2 = str(e)
        return x + a.v, m, m2

    return Case(f, vec(), A())


@program(full=1)
def slots_unset_and_inherit():
    class A:
        __slots__ = ("a", "b")

    class B(A):
        __slots__ = ("c", "__dict__")

    def f(x, b):
        r = [hasattr(b, "a"), hasattr(b, "c")]
        b.a = x + 1
        b.c = 2
        b.extra = 3
        del b.c
        try:
            b.c
        except AttributeError as e:
            r.append(str(e))
        n = A()
        try:
            n.zzz = 1
        except AttributeError as e:
            r.append(str(e))
        n.a = 4
        return r, n, b.a, b.extra

    return Case(f, vec(), B())


@program(full=1)
def init_subclass_registry():
    class Base:
        registry = {}

        def __init_subclass__(cls, key=None, **kw):
            super().__init_subclass__(**kw)
            Base.registry[key or cls.__name__] = cls

    class P(Base):
        pass

    class Q(Base, key="q"):
        def run(self, x):
            return x * 2

    def f(x):
        return Base.registry["q"]().run(x), sorted(Base.registry)

    return Case(f, vec())


@program(full=1)
def class_getitem_user():
    class Typed:
        def __init__(self, t=None):
            self.t = t

        def __class_getitem__(cls, item):
            return cls(item)

    T = typing.TypeVar("T")

    class G(typing.Generic[T]):
        def get(self, x: T) -> T:
            return x

    def f(x):
        return Typed[int].t, Typed["a", 2].t, G[int]().get(x) + 1, list[int] == list[int]

    return Case(f, vec())


@program()
def getattr_fallbacks():
    class A:
        cls_attr = 1

        def __init__(self):
            self.log = []

        def __getattr__(self, name):
            if name == "log":
                raise AttributeError(name)
            self.log.append(name)
            if name.startswith("no"):
                raise AttributeError("no " + name)
            return name.upper()

        @property
        def prop(self):
            return self.missing_inside

        @property
        def bad(self):
            raise AttributeError("inside")

    def f(x, a):
        r = [a.foo, a.cls_attr, getattr(a, "nope", "dflt"), hasattr(a, "nono"), a.prop, a.bad]
        return x + 1, r, list(a.log)

    return Case(f, vec(), A())


@program(full=1)
def getattribute_user():
    class A:
        def __init__(self):
            self.n = 0

        def __getattribute__(self, name):
            if name == "virtual":
                return "v"
            v = object.__getattribute__(self, name)
            if name == "n":
                object.__setattr__(self, "n", v + 1)
            return v

    def f(x, a):
        return x + a.n, a.n, a.virtual, a.n

    return Case(f, vec(), A())


@program(full=1)
def getattribute_and_getattr():
    class A:
        def __getattribute__(self, name):
            if name == "x":
                raise AttributeError("gone")
            return super().__getattribute__(name)

        def __getattr__(self, name):
            return "fallback " + name

    def f(x):
        a = A()
        a.x = 1
        return x + 1, a.x, a.y, vars(a)

    return Case(f, vec())


@program(full=1)
def setattr_transforms():
    class A:
        def __setattr__(self, k, v):
            super().__setattr__(k, ("set", v))

        def __delattr__(self, k):
            super().__setattr__("deleted", k)
            super().__delattr__(k)

    def f(x, a):
        a.p = x + 1
        a.q = 2
        del a.q
        return a.p, a.deleted

    return Case(f, vec(), A())


@program(full=1)
def reflected_ops_subclass_priority():
    class A:
        def __add__(self, o):
            return "A.add"

        def __radd__(self, o):
            return "A.radd"

        def __lt__(self, o):
            return "A.lt"

        def __gt__(self, o):
            return "A.gt"

        def __eq__(self, o):
            return "A.eq"

    class B(A):
        def __radd__(self, o):
            return "B.radd"

        def __gt__(self, o):
            return "B.gt"

        def __eq__(self, o):
            return "B.eq"

    class C(A):
        pass

    def f(x):
        return x + 1, A() + B(), B() + A(), A() + C(), A() < B(), A() == B(), 1 + A(), A() < C(), A() != B()

    return Case(f, vec())


@program(full=1)
def not_implemented_chain():
    class A:
        def __mul__(self, o):
            return NotImplemented

        def __matmul__(self, o):
            return NotImplemented

        def __le__(self, o):
            return NotImplemented

        def __eq__(self, o):
            return NotImplemented

    class B:
        def __rmul__(self, o):
            return "B.rmul"

        def __ge__(self, o):
            return "B.ge"

    def f(x):
        r = [A() * B(), A() <= B(), A() == B(), A() != A()]
        for op in (operator.mul, operator.le, operator.matmul):
            try:
                op(A(), A())
            except TypeError as e:
                r.append(str(e))
        return x + 1, r

    return Case(f, vec())


@program(full=1)
def inplace_operators():
    class Acc:
        def __init__(self):
            self.items = []

        def __iadd__(self, o):
            self.items.append(o)
            return self

        def __isub__(self, o):
            return "replaced"

        def __imul__(self, o):
            return NotImplemented

        def __mul__(self, o):
            return ("mul", o)

    def f(x, acc):
        a = acc
        a += x + 1
        a += 2
        same = a is acc
        b = acc
        b -= 1
        c = acc
        c *= 5
        d = [1]
        e = d
        e += (2, 3)
        t = (1,)
        t += (2,)
        return same, b, c, d, t, len(acc.items)

    return Case(f, vec(), Acc())


@program(full=1)
def inplace_on_attribute_and_item():
    class Num:
        def __init__(self, n):
            self.n = n

        def __iadd__(self, o):
            self.n += o
            return self

    class Box:
        pass

    def f(x, box, d):
        box.n += 1
        box.v += 2
        d["k"] += 3
        d["l"] += [4]
        return x + 1, box.n.n, box.v, d

    b = Box()
    b.n = Num(1)
    b.v = 1
    return Case(f, vec(), b, {"k": 1, "l": []})


@program(full=1)
def missing_hook():
    class D(dict):
        def __missing__(self, k):
            self[k] = v = k * 2
            return v

    class E(collections.OrderedDict):
        def __missing__(self, k):
            return "m" + k

    class F(collections.UserDict):
        def __missing__(self, k):
            return k

    def f(x, d):
        e = E(a=1)
        u = F(a=1)
        return x + d[3], d.get(4), 4 in d, e["zz"], e.get("q"), u["b"], "b" in u, d

    return Case(f, vec(), D())


@program()
def length_hint_and_iter():
    class It:
        def __init__(self, n):
            self.n = n
            self.hints = 0

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

        def __length_hint__(self):
            self.hints += 1
            return 99

    def f(x):
        i = It(3)
        j = It(2)
        k = It(4)
        return x + 1, list(i), i.hints, tuple(j), j.hints, [*k], k.hints, operator.length_hint(It(1))

    return Case(f, vec())


@program()
def index_hook():
    class Int:
        def __init__(self, n):
            self.n = n

        def __index__(self):
            return self.n

    def f(x):
        l = [10, 20, 30, 40]
        l[Int(0)] = 11
        del l[Int(3)]
        return (
            x[Int(1)],
            l[Int(1)],
            l[Int(0) : Int(2)],
            "abc"[Int(1)],
            range(5)[Int(2)],
            (1, 2)[Int(-1)],
            list(range(Int(3))),
            hex(Int(255)),
            operator.index(Int(7)),
            l,
            [0] * Int(2),
            bytes(Int(2)),
            x.view(Int(2), Int(2)),
        )

    return Case(f, vec())


@program(full=1)
def index_hook_bad():
    class Int:
        def __index__(self):
            return "x"

    class J:
        def __index__(self):
            raise ValueError("no index")

    def f(x):
        r = []
        for k in (Int(), J(), 1.5, None):
            try:
                r.append([1, 2][k])
            except Exception as e:
                r.append((type(e).__name__, str(e)))
        return x + 1, r

    return Case(f, vec())


@program(full=1)
def bool_hook():
    class T:
        def __init__(self, v):
            self.v = v
            self.asked = 0

        def __bool__(self):
            self.asked += 1
            return self.v

    class L:
        def __init__(self, n):
            self.n = n

        def __len__(self):
            return self.n

    def f(x, t):
        a = "yes" if t else "no"
        b = not t
        c = t and 5
        d = L(0) or 7
        e = [bool(L(2)), any([L(0), T(False)]), all([L(1), T(True)])]
        while t:
            t.v = False
        return x + 1, a, b, c is t, d, e, t.asked, [i for i in (L(0), L(1)) if i][0].n

    return Case(f, vec(), T(True))


@program()
def bool_hook_bad():
    class B:
        def __bool__(self):
            return 1

    class N:
        def __len__(self):
            return -1

    def f(x):
        r = []
        for o in (B(), N()):
            try:
                r.append(bool(o))
            except Exception as e:
                r.append((type(e).__name__, str(e)))
            try:
                r.append(len(o))
            except Exception as e:
                r.append((type(e).__name__, str(e)))
        return x + 1, r

    return Case(f, vec())


@program(full=1)
def contains_hook():
    class C:
        def __contains__(self, v):
            return v and "truthy"

    class Int:
        def __iter__(self):
            return iter((1, 2.0, "c"))

    class G:
        def __getitem__(self, i):
            if i > 3:
                raise IndexError
            return i * i

    class N:
        __contains__ = None

        def __iter__(self):
            return iter(())

    def f(x):
        r = [1 in C(), 0 in C(), 2 in Int(), "d" not in Int(), 4 in G(), 5 in G(), list(G())]
        try:
            1 in N()
        except TypeError as e:
            r.append(str(e))
        return x + 1, r

    return Case(f, vec())


@program(full=1)
def singledispatch_types():
    @functools.singledispatch
    def g(v):
        return "object"

    @g.register
    def _(v: int):
        return "int"

    @g.register(list)
    def _(v):
        return "list"

    @g.register(torch.Tensor)
    def _(v):
        return v + 1

    class S(list):
        pass

    class A:
        @functools.singledispatchmethod
        def m(self, v):
            return "obj"

        @m.register
        def _(self, v: str):
            return "str"

    def f(x):
        return g(1), g(True), g(S()), g("s"), g(x), A().m("a"), A().m(1), g.dispatch(bool)(3)

    return Case(f, vec())


@program(min_ops=1, max_breaks=0)
def singledispatch_method_of_given_objects():
    class A:
        @functools.singledispatchmethod
        def m(self, v):
            return "object"

        @m.register
        def _(self, v: str):
            return self, v

        @m.register
        def _(self, v: torch.Tensor):
            return v * 2

    def f(x, a, b):
        return a.m(x), a.m("s"), b.m(1), a.m(x + 1), a.m is a.m

    def other(case):
        case.args = (case.args[0], case.args[1], A())

    return Case(f, vec(), A(), A()).then(other)


@program(full=2)
def weak_dict_entries_of_given_objects():
    class A:
        pass

    counts = weakref.WeakKeyDictionary()
    a, b = A(), A()

    def f(x, a):
        new = A()
        try:
            n = counts[a]
        except KeyError as error:
            n = 0 if error.args[0]() is a else -1
        counts[a] = n + 1
        counts[new] = n - 1
        return x * counts[a] + counts[new], new

    def forget(case):
        del counts[a]

    def other(case):
        case.args = (case.args[0], b)

    return Case(f, vec(), a).then(forget, other).watching(counts)


@program()
def weak_dict_read_by_its_own_dict():
    class A:
        pass

    counts, kept = weakref.WeakKeyDictionary(), []

    def f(x):
        new = A()
        counts[new] = 1
        kept.append(new)
        return x + len(counts.data) + sum(counts.data.values()), [key() is new for key in counts.data]

    return Case(f, vec()).watching(counts)


@program(full=1)
def singledispatch_registered_later():
    @functools.singledispatch
    def g(v):
        return "object"

    class A:
        pass

    def f(x, a):
        return x + 1, g(a)

    def register(case):
        g.register(A)(lambda v: "A")

    return Case(f, vec(), A()).then(register)


@program(full=1)
def cached_property_cases():
    class A:
        runs = 0

        @functools.cached_property
        def v(self):
            A.runs += 1
            return A.runs

        @functools.cached_property
        def t(self):
            return torch.ones(2) * 3

    def f(x, a):
        b = A()
        r = a.v, a.v, b.v
        del a.v
        return x + a.v, r, a.t, "t" in a.__dict__, b

    def make():
        A.runs = 0

    return Case(f, vec(), A()).watching(A)


@program()
def lru_cache_cases():
    calls = []

    @functools.lru_cache(maxsize=2)
    def g(n, k=1):
        calls.append(n)
        return n * k

    def f(x):
        r = g(1), g(1), g(2), g(3), g(1), g(1, k=2)
        return x + 1, r, g.cache_info().hits, list(calls)

    return Case(f, vec())


@program(full=1)
def abstract_and_virtual_subclass():
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...
        @property
        @abc.abstractmethod
        def name(self): ...
        def twice(self):
            return self.area() * 2

    class Sq(Shape):
        def __init__(self, s):
            self.s = s

        def area(self):
            return self.s * self.s

        name = "sq"

    class Dup:
        pass

    Shape.register(Dup)

    def f(x):
        try:
            Shape()
        except TypeError as e:
            m = str(e)
        return (
            Sq(x + 1).twice(),
            isinstance(Dup(), Shape),
            isinstance(3, Shape),
            m,
            Sq(1).name,
            isinstance([], collections.abc.Sequence),
            isinstance({}, collections.abc.Mapping),
            isinstance(3, numbers.Integral),
        )

    return Case(f, vec())


@program(full=1)
def runtime_protocols():
    @typing.runtime_checkable
    class HasLen(typing.Protocol):
        def __len__(self) -> int: ...

    @typing.runtime_checkable
    class Runner(typing.Protocol):
        speed: int

        def run(self) -> None: ...

    class R:
        speed = 1

        def run(self):
            return 5

    class Half:
        speed = 2

    def f(x):
        return x + 1, isinstance([], HasLen), isinstance(3, HasLen), isinstance(R(), Runner), isinstance(Half(), Runner)

    return Case(f, vec())


@program()
def copies_of_objects():
    class A:
        def __init__(self, t):
            self.t = t
            self.l = [1, [2]]
            self.me = self

    class B:
        def __init__(self):
            self.v = 1

        def __copy__(self):
            n = B()
            n.v = "copied"
            return n

        def __deepcopy__(self, memo):
            n = B()
            n.v = "deep"
            return n

    def f(x, a):
        c = copy.copy(a)
        d = copy.deepcopy({"l": [1, (2, [3])], "b": B()})
        return x + 1, c.l is a.l, c.t is a.t, copy.copy(B()).v, d["b"].v, d["l"], copy.copy([a])[0] is a

    return Case(f, vec(), A(vec()))


@program(full=1)
def deepcopy_with_cycle():
    class A:
        pass

    def f(x, a):
        c = copy.deepcopy(a)
        c.n = 2
        return x + 1, c.me is c, c.l is not a.l, c.l[0] is c.l[1], c.n, a.n

    a = A()
    a.me = a
    s = [1]
    a.l = [s, s]
    a.n = 1
    return Case(f, vec(), a)


@program(full=1)
def dataclass_replace_and_fields():
    @dataclasses.dataclass
    class P:
        a: int
        b: object = None
        c: list = dataclasses.field(default_factory=list)
        d: int = dataclasses.field(default=4, init=False, repr=False, compare=False)

        def __post_init__(self):
            self.d = self.a * 10

    @dataclasses.dataclass(order=True)
    class Ordered:
        k: int
        v: str = dataclasses.field(compare=False, default="")

    @dataclasses.dataclass(frozen=True, slots=True)
    class S:
        n: int

    @dataclasses.dataclass(kw_only=True)
    class K(P):
        z: dataclasses.InitVar[int] = 3

        def __post_init__(self, z):
            super().__post_init__()
            self.c.append(z)

    def f(x, p):
        q = dataclasses.replace(p, a=2)
        r = dataclasses.replace(p, b=x + 1)
        k = K(a=1, z=9)
        try:
            S(1).n = 2
        except dataclasses.FrozenInstanceError as e:
            m = str(e)
        return (
            q,
            r.b,
            q.d,
            P(1) == P(1),
            sorted([Ordered(2), Ordered(1, "z")])[0].v,
            [f.name for f in dataclasses.fields(p)],
            S(3),
            hash(S(3)) == hash(S(3)),
            m,
            k.c,
            dataclasses.asdict(q),
            dataclasses.is_dataclass(q),
            Ordered(1) < Ordered(2),
            repr(Ordered(1)),
        )

    return Case(f, vec(), P(1))


@program(full=1)
def pytree_of_objects():
    Point = collections.namedtuple("Point", "x y")

    def f(x):
        tree = {"a": [x, (x + 1, 3)], "p": Point(x * 2, None), "o": collections.OrderedDict(q=x)}
        leaves, spec = pytree.tree_flatten(tree)
        doubled = pytree.tree_map(lambda v: v * 2 if isinstance(v, torch.Tensor) else v, tree)
        back = pytree.tree_unflatten(leaves, spec)
        return doubled["p"].x, back["a"][1][0], len(leaves), pytree.tree_all(lambda v: v is not None, [1, 2]), doubled

    return Case(f, vec())


@program(full=1)
def model_output():
    from transformers.utils import ModelOutput

    @dataclasses.dataclass
    class Out(ModelOutput):
        loss: typing.Optional[torch.Tensor] = None
        logits: typing.Optional[torch.Tensor] = None
        extra: typing.Optional[tuple] = None

    def f(x):
        o = Out(logits=x + 1)
        r = [o[0], o["logits"], o.loss, len(o), list(o.keys()), "loss" in o, o.to_tuple()]
        o.loss = x.sum()
        o["extra"] = (1,)
        r += [list(o), o[:2], o.get("extra")]
        return o, r

    return Case(f, vec())


@program(full=1)
def method_replaced_in_mro():
    class A:
        k = 1

        def m(self, x):
            return x + 1

        @property
        def p(self):
            return 1

    class B(A):
        pass

    class C(B):
        pass

    def f(x, c):
        return c.m(x), c.k, c.p, isinstance(c, A), len(c.__class__.__mro__)

    def s1(case):
        B.m = lambda self, x: x * 10

    def s2(case):
        A.k = 5

    def s3(case):
        C.p = property(lambda self: 99)

    def s4(case):
        del B.m

    def s5(case):
        C.__getattr__ = lambda self, n: "got " + n

    def s6(case):
        del A.k

    return Case(f, vec(), C()).then(s1, s2, s3, s4, s5, s6)


@program(full=1)
def special_methods_replaced():
    class A:
        def __init__(self):
            self.v = 1

        def __call__(self, x):
            return x + 1

        def __len__(self):
            return 1

        def __getitem__(self, i):
            return i

        def __eq__(self, o):
            return True

        def __add__(self, o):
            return "add"

    def f(x, a):
        return a(x), len(a), a[3], a == 5, a + 1, bool(a)

    def s1(case):
        A.__call__ = lambda self, x: x * 7

    def s2(case):
        A.__len__ = lambda self: 0

    def s3(case):
        A.__getitem__ = lambda self, i: -i

    def s4(case):
        A.__eq__ = lambda self, o: False

    def s5(case):
        A.__add__ = lambda self, o: "other"

    def s6(case):
        A.__bool__ = lambda self: True

    return Case(f, vec(), A()).then(s1, s2, s3, s4, s5, s6)


@program(full=1)
def hash_and_eq_added_to_key_class():
    class K:
        def __init__(self, n):
            self.n = n

    def f(x):
        d = {K(1): "a"}
        return x + 1, K(1) in d, len({K(1), K(1)})

    def s1(case):
        K.__hash__ = lambda self: self.n
        K.__eq__ = lambda self, o: self.n == o.n

    return Case(f, vec()).then(s1)


@program(full=1)
def eq_added_to_list_element_class():
    class K:
        def __init__(self, n):
            self.n = n

    def f(x, l):
        return x + 1, K(1) in l, l.count(K(1)), l == [K(1)], K(1) == K(1)

    def s1(case):
        K.__eq__ = lambda self, o: self.n == o.n

    return Case(f, vec(), [K(1)]).then(s1)


@program(full=1)
def new_and_init_replaced():
    class A:
        def __init__(self, n):
            self.n = n

    def f(x):
        return x + A(1).n

    def s1(case):
        def init(self, n):
            self.n = n * 100

        A.__init__ = init

    def s2(case):
        A.__new__ = staticmethod(lambda cls, n: types.SimpleNamespace(n=7))

    return Case(f, vec()).then(s1, s2)


@program(full=1)
def bases_changed():
    class A:
        def m(self):
            return 1

    class B:
        def m(self):
            return 2

    class C(A):
        pass

    class D(C):
        pass

    def f(x, d):
        return x + d.m(), isinstance(d, A), isinstance(d, B)

    def s1(case):
        C.__bases__ = (B,)

    return Case(f, vec(), D()).then(s1)


@program(full=1)
def instance_attribute_hides_method():
    class A:
        def m(self):
            return 1

    def f(x, a):
        return x + a.m()

    def s1(case):
        case.args[1].m = lambda: 50

    def s2(case):
        del case.args[1].m

    return Case(f, vec(), A()).then(s1, s2)


@program(full=1)
def class_attribute_becomes_descriptor():
    class A:
        v = 1

    class D:
        def __get__(self, o, t=None):
            return 77

    class DD(D):
        def __set__(self, o, v):
            pass

    def f(x, a):
        return x + a.v

    def s0(case):
        case.args[1].v = 3

    def s1(case):
        A.v = D()

    def s2(case):
        A.v = DD()

    def s3(case):
        D.__get__ = lambda self, o, t=None: 78

    def s4(case):
        del DD.__set__

    return Case(f, vec(), A()).then(s0, s1, s2, s3, s4)


@program(full=1)
def class_method_static_method_wrappers():
    class A:
        n = 5

        @classmethod
        def c(cls, x):
            return x + cls.n

        @staticmethod
        def s(x):
            return x * 2

        @classmethod
        @property
        def cp(cls):
            return cls.n + 1

    class B(A):
        n = 7

        @classmethod
        def c(cls, x):
            return super().c(x) * 10

    def f(x):
        b = B()
        m = b.c
        return B.c(x), b.s(x), m(x), A.s(1), B.cp, A.c.__func__ is A.__dict__["c"].__func__, m.__self__ is B

    return Case(f, vec())


@program(full=1)
def partialmethod_and_wraps():
    def deco(g):
        @functools.wraps(g)
        def inner(*a, **k):
            return g(*a, **k) + 1

        return inner

    class A:
        def m(self, x, k):
            return x * k

        twice = functools.partialmethod(m, k=2)

        @deco
        def w(self, x):
            "doc"
            return x

    def f(x):
        a = A()
        return a.twice(x), a.w(x), A.w.__name__, A.w.__doc__, A.w.__wrapped__ is not None

    return Case(f, vec())


@program(full=1)
def iteration_protocol_objects():
    class It:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            for i in range(self.n):
                yield i

        def __reversed__(self):
            return iter("rev")

    class Seq:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            if not 0 <= i < 3:
                raise IndexError(i)
            return i * 10

    def f(x):
        a, *b = It(3)
        return (
            x + a,
            b,
            list(reversed(It(2))),
            list(reversed(Seq())),
            dict(zip(Seq(), It(3))),
            max(Seq()),
            sorted(It(3), key=lambda v: -v),
            sum(It(4)),
            [*Seq()],
            set(It(2)),
            list(enumerate(Seq(), 1)),
        )

    return Case(f, vec())


@program(full=1)
def context_manager_objects():
    class CM:
        def __init__(self, log, swallow):
            self.log = log
            self.swallow = swallow

        def __enter__(self):
            self.log.append("in")
            return self

        def __exit__(self, t, v, tb):
            self.log.append(t.__name__ if t else None)
            return self.swallow

    def f(x):
        log = []
        with CM(log, True) as a, CM(log, False) as b:
            raise ValueError("v")
        with contextlib.suppress(KeyError), CM(log, False):
            {}["k"]
        return x + 1, log

    return Case(f, vec())


@program()
def format_and_text_hooks():
    class A:
        def __format__(self, spec):
            return f"<{spec}>"

        def __str__(self):
            return "str"

        def __repr__(self):
            return "repr"

        def __bytes__(self):
            return b"by"

        def __int__(self):
            return 5

        def __float__(self):
            return 2.5

        def __complex__(self):
            return 1j

        def __round__(self, n=0):
            return ("round", n)

        def __trunc__(self):
            return 8

        def __ceil__(self):
            return 9

        def __floor__(self):
            return 10

        def __abs__(self):
            return 11

        def __neg__(self):
            return 12

        def __invert__(self):
            return 13

        def __divmod__(self, o):
            return 14

        def __pow__(self, o, m=None):
            return (15, o, m)

    def f(x):
        a = A()
        return (
            x + int(a),
            f"{a:>3}",
            f"{a!r}",
            f"{a!s}",
            "%s %r" % (a, a),
            "{:q}".format(a),
            bytes(a),
            float(a),
            complex(a),
            round(a),
            round(a, 2),
            math.trunc(a),
            math.ceil(a),
            math.floor(a),
            abs(a),
            -a,
            ~a,
            divmod(a, 2),
            pow(a, 2, 3),
            [a].__repr__(),
        )

    return Case(f, vec())


@program(full=1)
def callable_instances_and_bound():
    class F:
        def __init__(self):
            self.n = 0

        def __call__(self, x, *a, k=1):
            self.n += 1
            return x * k + len(a)

        def method(self):
            return self

    def f(x, c):
        m = c.method
        g = c.__call__
        return (
            c(x, 1, k=2),
            g(x),
            m() is c,
            m.__func__ is F.method,
            c.n,
            callable(c),
            list(map(c, [1, 2])),
            (lambda *a, **k: c(*a, **k))(x, k=3),
        )

    return Case(f, vec(), F())


@program()
def user_containers():
    class L(list):
        def append(self, v):
            super().append(("own", v))

        def __getitem__(self, i):
            return super().__getitem__(i) if not isinstance(i, str) else i

        def __len__(self):
            return super().__len__() + 100

    class D(dict):
        def __getitem__(self, k):
            return ("own", dict.__getitem__(self, k))

        def __setitem__(self, k, v):
            super().__setitem__(k, v * 2)

        def __iter__(self):
            return iter(["fake"])

        def keys(self):
            return ["k1"]

        def __contains__(self, k):
            return True

    class U(collections.UserList):
        def __add__(self, o):
            return U([*self.data, "+"])

    def f(x, l, d):
        l.append(x)
        l.extend([1])
        l += [2]
        d["a"] = 3
        d.update(b=4)
        return (
            l["s"],
            len(l),
            l[0][0],
            d["a"],
            d["b"],
            list(d),
            "q" in d,
            d.get("a"),
            {**{"z": 1}},
            list(d.values()),
            U([1]) + [2],
            list(l)[1:],
            bool(L()),
        )

    return Case(f, vec(), L(), D())


@program()
def int_and_str_subclasses():
    class Int(int):
        def __add__(self, o):
            return Int(int(self) + int(o) + 1000)

        def __repr__(self):
            return "I!"

    class S(str):
        def __getitem__(self, i):
            return "item"

        def upper(self):
            return "UP"

        extra = 1

    class Fl(float):
        def __mul__(self, o):
            return "mul"

    def f(x):
        i = Int(3)
        s = S("abc")
        return (
            x + int(i),
            i + 1,
            1 + i,
            sum([i, i]),
            repr(i),
            s[0],
            s.upper(),
            s.lower(),
            s + "d",
            s == "abc",
            len(s),
            Fl(2.0) * 3,
            3 * Fl(2.0),
            type(s + "").__name__,
            {s: 1}["abc"],
            hash(s) == hash("abc"),
            i * 2,
            [1, 2, 3, 4][i],
            "%d" % i,
        )

    return Case(f, vec())


@program(full=1)
def enum_behaviour():
    class C(enum.Enum):
        A = 1
        B = 2
        AA = 1

        def twice(self):
            return self.value * 2

        @classmethod
        def first(cls):
            return cls.A

        @property
        def low(self):
            return self.name.lower()

        @classmethod
        def _missing_(cls, v):
            return cls.B if v == "b" else None

    class F(enum.Flag):
        R = 1
        W = 2
        RW = 3

    class Int(enum.IntEnum):
        X = 5

    class S(str, enum.Enum):
        P = "p"

    def f(x):
        r = [
            C(1) is C.A,
            C["B"].twice(),
            C.AA is C.A,
            C.first().low,
            len(C),
            [m.name for m in C],
            C("b") is C.B,
            C.A in C,
            (F.R | F.W) is F.RW,
            F.R in F.RW,
            bool(F.R & F.W),
            Int.X + 1,
            Int.X == 5,
            S.P == "p",
            S.P.upper(),
            C.A == 1,
            {C.A: 1}[C.AA],
            C.A.__class__ is C,
            isinstance(Int.X, int),
            f"{S.P.value}",
            F.RW & ~F.R is F.W,
        ]
        try:
            C(99)
        except ValueError as e:
            r.append(str(e))
        return x + 1, r

    return Case(f, vec())


@program(full=1)
def super_variants():
    class A:
        def m(self):
            return ["A"]

        @classmethod
        def c(cls):
            return [cls.__name__]

        attr = "A.attr"

    class B(A):
        def m(self):
            return ["B"] + super().m()

    class C(A):
        def m(self):
            return ["C"] + super(C, self).m()

        @classmethod
        def c(cls):
            return ["C"] + super().c()

        def inner(self):
            def g():
                return super(C, self).m()

            return g()

        attr = "C.attr"

    class D(B, C):
        def m(self):
            return ["D"] + super().m()

        def a(self):
            return super().attr, super(B, self).attr, super(C, self).attr

    def f(x):
        d = D()
        return x + 1, d.m(), D.c(), d.inner(), d.a(), [t.__name__ for t in D.__mro__], super(B, d).m()

    return Case(f, vec())


@program()
def weak_and_finalizers_simple():
    class A:
        pass

    def f(x, a):
        r = weakref.ref(a)
        return x + 1, r() is a, weakref.proxy(a).v

    a = A()
    a.v = 3
    return Case(f, vec(), a)


@program(full=1)
def namedtuple_subclasses():
    class P(collections.namedtuple("P", "x y")):
        __slots__ = ()

        @property
        def s(self):
            return self.x + self.y

        def __add__(self, o):
            return P(self.x + o.x, self.y + o.y)

        def __eq__(self, o):
            return "eq"

    class N(typing.NamedTuple):
        a: int
        b: torch.Tensor = None

        def total(self):
            return self.a + 1

    def f(x):
        p = P(x, 1)
        q = p + P(2, 3)
        n = N(1)._replace(b=x * 2)
        a, b = n
        return (
            q.s,
            q.y,
            n.b,
            n.total(),
            p == q,
            n._asdict()["a"],
            N._fields,
            q._replace(y=0).y,
            isinstance(n, tuple),
            P._make([1, 2]).s,
        )

    return Case(f, vec())


@program()
def operator_module_on_objects():
    class A:
        def __init__(self):
            self.v = {"k": [1, 2]}

        def m(self, n):
            return n + 1

        def __getitem__(self, i):
            return i

    def f(x, a):
        return (
            x + 1,
            operator.attrgetter("v")(a),
            operator.itemgetter(1, 2)(a),
            operator.methodcaller("m", 4)(a),
            operator.attrgetter("v", "m")(a)[0],
            operator.contains([1], 1),
            operator.concat([1], [2]),
            operator.setitem(a.v, "z", 1),
            operator.countOf([1, 1], 1),
            functools.reduce(operator.add, [1, 2, 3]),
        )

    return Case(f, vec(), A())


@program()
def vars_dir_getattr_builtins():
    class A:
        z = 1

        def __init__(self):
            self.q = 2

        def __dir__(self):
            return ["b", "a"]

    def f(x, a):
        setattr(a, "n" + "ew", 5)
        r = [
            getattr(a, "new"),
            hasattr(a, "zz"),
            getattr(a, "zz", None),
            dir(a),
            sorted(vars(a)),
            "q" in a.__dict__,
            type(a).__name__,
            A.__qualname__,
            a.__class__ is A,
            A.__dict__["z"],
        ]
        delattr(a, "q")
        return x + 1, r, vars(a)

    return Case(f, vec(), A())


@program(full=1)
def exceptions_in_hooks():
    class A:
        def __getattr__(self, n):
            raise KeyError(n)

        def __len__(self):
            raise RuntimeError("len")

        def __eq__(self, o):
            raise ValueError("eq")

        def __iter__(self):
            raise TypeError("iter")

        def __bool__(self):
            raise IndexError("bool")

        def __add__(self, o):
            raise ArithmeticError("add")

    def f(x, a):
        r = []
        for g in (
            lambda: a.foo,
            lambda: len(a),
            lambda: a == 1,
            lambda: list(a),
            lambda: bool(a),
            lambda: a + 1,
            lambda: hasattr(a, "b"),
            lambda: a in [a],
            lambda: 1 in a,
            lambda: [a] == [1],
        ):
            try:
                r.append(g())
            except Exception as e:
                r.append((type(e).__name__, str(e), type(e.__context__).__name__))
        return x + 1, r

    return Case(f, vec(), A())


@program(full=1)
def metaclass_denies_instances():
    class Meta(type):
        seen = []

        def __instancecheck__(cls, o):
            Meta.seen.append("i")
            return False

        def __subclasscheck__(cls, c):
            Meta.seen.append("s")
            return c is int

    class A(metaclass=Meta):
        pass

    class B(A):
        pass

    def f(x):
        return (
            x + 1,
            isinstance(B(), A),
            isinstance(A(), A),
            issubclass(B, A),
            issubclass(int, A),
            issubclass(A, A),
            list(Meta.seen),
        )

    Meta.seen = []
    return Case(f, vec()).watching(Meta)


@program(full=1)
def bases_changed_isinstance_only():
    class A:
        pass

    class B:
        pass

    class C(A):
        pass

    def f(x, c):
        return x + 1, isinstance(c, A)

    def g(case):
        C.__bases__ = (B,)

    return Case(f, vec(), C()).then(g)


@program()
def number_hooks_give_other_types():
    class A:
        def __int__(self):
            return "x"

    class B:
        def __float__(self):
            return 1

    class C:
        def __index__(self):
            return 3

    def f(x):
        r = [int(C()), float(C())]
        for g in (lambda: int(A()), lambda: float(B())):
            try:
                r.append(g())
            except TypeError as e:
                r.append(str(e))
        return x + 1, r

    return Case(f, vec())


@program()
def lru_full_cache():
    @functools.lru_cache(maxsize=2)
    def g(n):
        return n * 10

    def f(x, a, b, c):
        return x + 1, g(a), g(b), g(c), g(a), g.cache_info()

    return Case(f, vec(), 1, 2, 1).then_call(vec(), 7, 8, 7).then_call(vec(), 1, 2, 3).then_call(vec(), 1, 2, 3)


@program(full=1)
def lru_room_on_a_later_call():
    @functools.lru_cache(maxsize=3)
    def g(n):
        return n * 10

    g("k")

    def f(x):
        return x + 1, g("a"), g("b"), g("k")

    def fill(case):
        g.cache_clear()
        g("k")
        g("p")
        g("q")

    def ask(case):
        case.state = (g.cache_info(),)

    return Case(f, vec()).then(fill, ask)


@program(full=1)
def set_display_with_objects():
    class K:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return self.n

        def __eq__(self, o):
            return self.n == o.n

    def f(x):
        items = [K(1), K(2), K(1)]
        s = {*items, K(3)}
        d = {**{K(1): 1}, **{K(1): 2, K(4): 4}}
        return (
            x + len(s),
            sorted(k.n for k in s),
            [(k.n, v) for k, v in d.items()],
            s > {K(1)},
            {K(1)} | set(items),
            max(s, key=lambda k: k.n).n,
        )

    return Case(f, vec())


@program(full=1)
def eq_without_hash_in_containers():
    class E:
        def __init__(self, n):
            self.n = n

        def __eq__(self, o):
            return isinstance(o, E) and self.n == o.n

    def f(x):
        l = [E(1), E(2)]
        l.remove(E(1))
        r = [
            E(2) in l,
            l.index(E(2)),
            l.count(E(3)),
            l == [E(2)],
            (E(1), 2) == (E(1), 2),
            {"k": E(1)} == {"k": E(1)},
            E(1) != E(2),
        ]
        try:
            hash(E(1))
        except TypeError as e:
            r.append(str(e))
        try:
            {E(1)}
        except TypeError as e:
            r.append(str(e))
        return x + 1, r

    return Case(f, vec())


@program()
def getitem_setitem_delitem_hooks():
    class M:
        def __init__(self):
            self.log = []

        def __getitem__(self, k):
            self.log.append(("get", k))
            return k

        def __setitem__(self, k, v):
            self.log.append(("set", k, v))

        def __delitem__(self, k):
            self.log.append(("del", k))

    def f(x, m):
        m[1, 2:3] = x + 1
        m[...] += 1 if False else 0 if m["z"] else 2
        del m["q"]
        return m[::2], m[1:2, ...], m.log

    class Z(M):
        def __getitem__(self, k):
            return 5

    return Case(f, vec(), M()).then_call(vec(), Z())


@program(full=1)
def attribute_on_function_and_class_state():
    class A:
        count = 0
        table = {}

        def __init__(self):
            A.count += 1
            type(self).table[A.count] = self

    def g():
        g.calls += 1
        return g.calls

    def f(x):
        A()
        A()
        return x + A.count, g(), g(), len(A.table)

    A.count = 0
    A.table = {}
    g.calls = 0
    return Case(f, vec()).watching(A)


@program(full=1)
def delattr_class_and_instance():
    class A:
        v = 1

    def f(x, a):
        a.v = 2
        r = [a.v]
        del a.v
        r.append(a.v)
        try:
            del a.v
        except AttributeError as e:
            r.append(str(e))
        return x + 1, r

    return Case(f, vec(), A())


@program(full=1)
def custom_sequence_unpacking_and_star():
    class S:
        def __iter__(self):
            yield from (1, 2, 3)

        def keys(self):
            return ["a", "b"]

        def __getitem__(self, k):
            return {"a": 10, "b": 20}.get(k, 0)

    def g(*a, **k):
        return a, sorted(k.items())

    def f(x):
        a, b, c = S()
        *h, t = S()
        r = []
        try:
            p, q = S()
        except ValueError as e:
            r.append(str(e))
        try:
            p, q, s, u = S()
        except ValueError as e:
            r.append(str(e))
        return x + a, h, t, g(*S(), **S()), [*S(), *S()], {**S()}, r

    return Case(f, vec())


@program(full=1)
def match_statement_on_objects():
    class P:
        __match_args__ = ("x", "y")

        def __init__(self, x, y):
            self.x = x
            self.y = y

    @dataclasses.dataclass
    class Q:
        a: int
        b: object = None

    def kind(o):
        match o:
            case P(0, y):
                return ("p0", y)
            case P(x=px) if px is None:
                return "none"
            case Q(a=1, b=[h, *t]):
                return ("q", h, t)
            case {"k": v, **rest}:
                return ("map", v, rest)
            case [1, _, *r]:
                return ("seq", r)
            case str() | int():
                return "scalar"
            case _:
                return "other"

    def f(x):
        return x + 1, [
            kind(o) for o in (P(0, 5), P(None, 1), P(3, 4), Q(1, [2, 3]), {"k": 1, "z": 2}, [1, 2, 3], "s", 4, None)
        ]

    return Case(f, vec())


@program(full=1)
def property_on_module():
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.s = 2

        @property
        def scale(self):
            return self.s * 2

        @scale.setter
        def scale(self, v):
            self.s = v

        @functools.cached_property
        def big(self):
            return self.s + 100

        def forward(self, x):
            self.scale = self.scale + 1
            return x * self.scale + self.big

        def __getattr__(self, n):
            if n == "virtual":
                return 7
            return super().__getattr__(n)

    def f(x, m):
        return m(x), m.virtual, m.s

    return Case(f, vec(), M())


@program(full=1)
def comparisons_chain_and_not_bool():
    class V:
        def __init__(self, v):
            self.v = v

        def __lt__(self, o):
            return V(("lt", self.v, o.v))

        def __bool__(self):
            return False

    def f(x):
        r = V(1) < V(2) < V(3)
        return (
            x + 1,
            r.v,
            (not (V(1) < V(2))),
            [V(1)] < [V(2)] if False else 0,
            sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)),
            min([V(1), V(2)]).v,
        )

    return Case(f, vec())


@program(full=1)
def iterators_with_state_and_return():
    class It:
        def __init__(self):
            self.i = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.i += 1
            if self.i > 3:
                raise StopIteration("done")
            return self.i

    def f(x, it):
        first = next(it)
        rest = [v for v in it]
        again = list(it)
        e = next(it, "default")
        try:
            next(it)
        except StopIteration as s:
            val = s.value
        return x + first, rest, again, e, val, it.i

    return Case(f, vec(), It())


@program(full=1)
def operators_on_classes():
    class Meta(type):
        def __add__(cls, o):
            return ("cls+", o)

        def __or__(cls, o):
            return "or"

        def __getitem__(cls, k):
            return ("item", k)

        def __call__(cls, *a):
            return ("called", a)

        def __lt__(cls, o):
            return True

        def __repr__(cls):
            return "REPR"

    class A(metaclass=Meta):
        pass

    def f(x):
        return x + 1, A + 1, A | int, A[3], A(4), A < A, repr(A), f"{A}"

    return Case(f, vec())


@program(full=1)
def dict_subclass_protocols():
    class Attr(dict):
        __getattr__ = dict.get
        __setattr__ = dict.__setitem__
        __delattr__ = dict.__delitem__

    class Case2(dict):
        def __init__(self, *a, **k):
            super().__init__(*a, **k)
            self["init"] = 1

        def copy(self):
            return "copied"

    def f(x, a):
        a.p = x + 1
        a.q = 2
        del a.q
        c = Case2(b=2)
        return (
            a.p,
            a.zzz,
            sorted(a),
            c.copy(),
            dict(c),
            {**c},
            c | {"z": 1},
            type(c | {}).__name__,
            list(reversed(c)),
            c == {"b": 2, "init": 1},
        )

    return Case(f, vec(), Attr(o=1))


class AttrDict(dict):
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.__dict__ = self


@program()
def attrdict_made():
    def f(x):
        d = AttrDict(a=1)
        d.b = x + 1
        d["c"] = 3
        return d.a, d["b"], d.c, sorted(d), d

    return Case(f, vec())


@program()
def dicts_of_new_objects_over_breaks():
    def f(x):
        d, apart, held = AttrDict(a=1), AttrDict(), {"z": 1}
        apart.__dict__ = held
        print(end="")
        d.b = x + 1
        apart.y = x + 2
        print(end="")
        return d.b, d["b"], sorted(d), d.__dict__ is d, apart.__dict__ is held, sorted(held), apart

    return Case(f, vec())


@program(min_ops=1, max_breaks=1)
def dict_of_a_dict_replaced():
    def f(x, d):
        held = {"z": 1}
        d.__dict__ = held
        y = x + 1
        d.k = 2
        return y, d.__dict__ is held, sorted(held), d.z, len(d)

    apart = AttrDict()
    apart.__dict__ = {"w": 3}
    return Case(f, vec(), AttrDict()).then_call(vec(), apart)


@program()
def attrdict_given():
    def f(x, d):
        d.b = x + 1
        d["c"] = 3
        r = d.a, d.get("b"), getattr(d, "c", None), sorted(d)
        del d.a
        return r, "a" in d, len(d)

    apart = AttrDict(a=1)
    apart.__dict__ = {"a": 5}
    return Case(f, vec(), AttrDict(a=1)).then_call(vec(), apart)


@program()
def made_objects_around_given_containers():
    class W:
        def __init__(self, d):
            self.d = d

    def f(x, l, d):
        w = W(l)
        w.d.append(x + 1)
        u = collections.UserDict()
        u.data = d
        u["k"] = 2
        n = types.SimpleNamespace(**d)
        n.z = 3
        p = functools.partial(l.append)
        p(5)
        m = types.MappingProxyType(d)
        vars(w).update(q=l)
        w.q.append(6)
        c = collections.ChainMap(d, {})
        c["cm"] = 1
        return len(l), m["k"], n, w.q is l, sorted(d), c["cm"]

    return Case(f, vec(), [], {"a": 1})


@program()
def dict_given_to_instances_update():
    class A:
        pass

    def f(x, d):
        a = A()
        a.__dict__.update(d)
        a.new = x + 1
        b = A()
        vars(b)["t"] = x
        b.__dict__ |= {"u": 1}
        return a, sorted(d), b

    return Case(f, vec(), {"p": [1]})


@program()
def copy_protocol_of_given():
    class A:
        def __init__(self):
            self.l = [1]
            self.d = {"k": 2}

        def __reduce_ex__(self, p):
            return (A.make, (5,))

        @staticmethod
        def make(n):
            a = A()
            a.n = n
            return a

    class S:
        __slots__ = ("a", "b")

        def __init__(self):
            self.a = [1]

    class G:
        def __getstate__(self):
            return {"v": 9}

        def __setstate__(self, s):
            self.got = s

    def f(x, a, s):
        c = copy.copy(a)
        t = copy.copy(s)
        t.a.append(2)
        g = copy.copy(G())
        return x + 1, c.n, t.a is s.a, hasattr(t, "b"), g.got

    return Case(f, vec(), A(), S())


@program()
def exception_objects_state():
    class E(Exception):
        def __init__(self, a, b=2):
            super().__init__(a)
            self.b = b
            self.log = []

    def f(x, e):
        e.log.append(1)
        e.b = x + 1
        e.args = (1, 2)
        n = E("m")
        n.extra = e
        try:
            raise n from e
        except E as c:
            return c.b, c.args, c.__cause__ is e, e.args, c.extra is e

    return Case(f, vec(), E(1))


@program()
def class_attribute_containers():
    class A:
        table = {}
        items = []

        def add(self, k, v):
            self.table[k] = v
            self.items.append(k)
            self.__class__.last = k

    class B(A):
        pass

    A.table, A.items = {}, []

    def f(x, b):
        b.add("p", x + 1)
        B.table = {}
        b.add("q", 1)
        return len(A.table), len(B.table), A.items, hasattr(A, "last"), b.last

    return Case(f, vec(), B()).watching(A, B)


@program()
def function_attributes_and_defaults():
    def g(v, acc=None, *, k={}):
        g.count = getattr(g, "count", 0) + 1
        k[v] = g.count
        return len(k)

    def f(x):
        r = g(1), g(2), g.count
        g.__kwdefaults__["k"].clear()
        g.tag = x + 1
        return r, g(3), g.tag

    g.__dict__.clear()
    g.__kwdefaults__["k"].clear()
    return Case(f, vec()).watching(g)


@program()
def iterators_over_given_containers():
    def f(x, d, s, l):
        it = iter(d.items())
        a = next(it)
        z = zip(l, s)
        l2 = list(map(lambda v: v + 1, l))
        e = enumerate(l)
        next(e)
        l.append(9)
        return x + a[1], list(it), len(list(z)), l2, list(e), [*itertools.chain(l, [1])]

    return Case(f, vec(), {"a": 1, "b": 2}, {1, 2}, [1, 2])


@program()
def sorting_with_keys_that_write():
    class R:
        def __init__(self, n):
            self.n = n
            self.seen = 0

        def __lt__(self, o):
            self.seen += 1
            return self.n < o.n

    def f(x, l):
        l.sort()
        m = min(l, key=lambda r: -r.n)
        s = sorted(l, key=lambda r: (r.n % 2, -r.n), reverse=True)
        return x + m.n, [r.n for r in l], [r.n for r in s], [r.seen > 0 for r in l]

    return Case(f, vec(), [R(3), R(1), R(2)])


@program()
def nested_functions_sharing_cells():
    def f(x):
        n = 0
        fs = []

        def inc(k=1):
            nonlocal n
            n += k
            return n

        for i in range(3):
            fs.append(lambda j=i: inc(j) + i)
        r = [g() for g in fs]

        class A:
            def m(self):
                return inc(100)

        return x + n, r, A().m(), n

    return Case(f, vec())


@program(min_ops=1)
def class_with_keys_that_compare_themselves():
    log = []

    class Key:
        def __hash__(self):
            return hash("named")

        def __repr__(self):
            return "Key"

        def __eq__(self, other):
            if "compared" not in log:
                log.append("compared")
            return False

    class Base:
        named = 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = type("Made", (Base,), {Key(): 5})

    def f(x, cls, obj):
        y = x + 1
        log.append("reads")
        n = cls.named
        log.append(n)
        return y * n, obj.named, log

    return Case(f, vec(), made, made())
