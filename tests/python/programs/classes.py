"""The object model: construction, lookup, descriptors, operators, metaclasses, dataclasses, enums."""

import abc
import dataclasses
import enum
import functools
import types
import typing

import torch

from tests.python.programs import Case, program, vec


@program(full=2)
def init_and_methods():
    class Affine:
        def __init__(self, scale, offset=1):
            self.scale = scale
            self.offset = offset

        def apply(self, x):
            return x * self.scale + self.offset

    def f(x):
        return Affine(2).apply(x), Affine(scale=3, offset=4).apply(x)

    return Case(f, vec())


@program(full=1)
def instance_escapes():
    class Box:
        def __init__(self, value):
            self.value = value
            self.me = self

    def f(x):
        return Box(x + 1)

    return Case(f, vec())


@program(full=1)
def dunder_new():
    class Unique:
        made = 0

        def __new__(cls, *args):
            cls.made += 1
            self = super().__new__(cls)
            self.args = args
            return self

        def __init__(self, *args):
            self.ready = True

    def f(x):
        u = Unique(x, 2)
        return u.args[0] + Unique.made, u.ready

    return Case(f, vec())


@program(full=1)
def new_returns_another_type():
    class Odd:
        def __new__(cls, x):
            return [x]

        def __init__(self, x):
            raise AssertionError("not called")

    def f(x):
        return Odd(x + 1)

    return Case(f, vec())


@program(full=1)
def singleton():
    class Single:
        instance = None

        def __new__(cls):
            if cls.instance is None:
                cls.instance = super().__new__(cls)
                cls.instance.uses = 0
            return cls.instance

    def f(x):
        a, b = Single(), Single()
        a.uses += 1
        return a is b, x + b.uses

    return Case(f, vec())


@program()
def init_returns_something():
    class Bad:
        def __init__(self):
            return 3

    def f(x):
        x = x + 1
        return Bad()

    return Case(f, vec())


@program(full=2)
def inheritance_and_super():
    class A:
        def __init__(self, n):
            self.n = n

        def m(self, x):
            return x + self.n

    class B(A):
        def __init__(self, n):
            super().__init__(n * 2)

        def m(self, x):
            return super().m(x) * 3

    class C(B):
        pass

    def f(x):
        return C(1).m(x), super(B, B(2)).m(x), A.m(C(3), x)

    return Case(f, vec())


@program(full=3)
def diamond():
    log = []

    class A:
        def m(self, x):
            log.append("A")
            return x

    class B(A):
        def m(self, x):
            log.append("B")
            return super().m(x + 1)

    class C(A):
        def m(self, x):
            log.append("C")
            return super().m(x * 2)

    class D(B, C):
        def m(self, x):
            log.append("D")
            return super().m(x - 3)

    def f(x):
        return D().m(x), [c.__name__ for c in D.__mro__]

    return Case(f, vec()).watching(log)


@program(full=2)
def properties():
    class Circle:
        def __init__(self, r):
            self.r = r

        @property
        def area(self):
            return self.r * self.r * 3

        @functools.cached_property
        def slow(self):
            self.computed = getattr(self, "computed", 0) + 1
            return self.r + 1

    def f(c):
        return c.area, c.slow, c.slow, c.computed

    return Case(f, Circle(vec()))


@program()
def property_raises_attribute_error():
    class A:
        @property
        def p(self):
            raise AttributeError("inner")

    def f(x, a):
        x = x + 1
        return hasattr(a, "p"), getattr(a, "p", 5), a.p

    return Case(f, vec(), A())


@program()
def read_only_property():
    class A:
        @property
        def p(self):
            return 1

    def f(x, a):
        x = x + a.p
        a.p = 3

    return Case(f, vec(), A())


@program(full=2)
def descriptors():
    class Scaled:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, obj, owner=None):
            if obj is None:
                return self
            return getattr(obj, self.name, 0) * 2

        def __set__(self, obj, value):
            setattr(obj, self.name, value)

    class A:
        v = Scaled()
        w = Scaled()

    def f(x, a):
        a.v = x
        a.w = 4
        return a.v + a.w, isinstance(A.v, Scaled)

    return Case(f, vec(), A())


@program(full=1)
def data_and_non_data_descriptors():
    class Data:
        def __get__(self, obj, owner=None):
            return 1

        def __set__(self, obj, value):
            raise AssertionError

    class NonData:
        def __get__(self, obj, owner=None):
            return 2

    class A:
        d = Data()
        n = NonData()

    def f(x, a):
        a.__dict__["d"] = 100
        before = a.n
        a.__dict__["n"] = 200
        return x + a.d, before, a.n

    return Case(f, vec(), A())


@program(full=2)
def dunder_getattr():
    class Lazy:
        def __init__(self):
            self.real = 1
            self.asked = []

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            self.asked.append(name)
            return len(name)

    def f(x, lazy):
        return x + lazy.real + lazy.missing, hasattr(lazy, "_no"), getattr(lazy, "_no", 9)

    return Case(f, vec(), Lazy())


@program(full=1)
def dunder_getattribute():
    class Spy:
        def __init__(self):
            self.n = 3

        def __getattribute__(self, name):
            if name == "virtual":
                return 10
            return object.__getattribute__(self, name)

    def f(x, spy):
        return x + spy.virtual + spy.n

    return Case(f, vec(), Spy())


@program(full=1)
def dunder_setattr_and_delattr():
    class Guarded:
        def __setattr__(self, name, value):
            if name == "locked":
                raise AttributeError("locked")
            super().__setattr__(name, value)

        def __delattr__(self, name):
            super().__setattr__("deleted", name)
            super().__delattr__(name)

    def f(x, g):
        g.a = x + 1
        try:
            g.locked = 1
        except AttributeError as error:
            g.why = str(error)
        g.b = 2
        del g.b

    return Case(f, vec(), Guarded())


class Vector:
    """Operators with reflected and in-place forms."""

    def __init__(self, value, log=None):
        self.value = value
        self.log = log if log is not None else []

    def _note(self, what):
        self.log.append(what)

    def __add__(self, other):
        self._note("add")
        if isinstance(other, Vector):
            return Vector(self.value + other.value, self.log)
        return Vector(self.value + other, self.log)

    def __radd__(self, other):
        self._note("radd")
        return Vector(other + self.value, self.log)

    def __iadd__(self, other):
        self._note("iadd")
        self.value = self.value + other
        return self

    def __mul__(self, other):
        if isinstance(other, str):
            return NotImplemented
        return Vector(self.value * other, self.log)

    __rmul__ = __mul__

    def __matmul__(self, other):
        return self.value @ other.value

    def __neg__(self):
        return Vector(-self.value, self.log)

    def __invert__(self):
        return "inverted"

    def __abs__(self):
        return Vector(abs(self.value), self.log)

    def __getitem__(self, key):
        self._note(("getitem", key))
        return self.value[key] if not isinstance(key, str) else key

    def __eq__(self, other):
        return isinstance(other, Vector) and self.value is other.value

    def __hash__(self):
        return 7

    def __lt__(self, other):
        return len(self.log) < len(other.log)

    def __bool__(self):
        self._note("bool")
        return True

    def __len__(self):
        return 3

    def __index__(self):
        return 2

    def __int__(self):
        return 20

    def __float__(self):
        return 2.5

    def __call__(self, *args):
        return args

    def __divmod__(self, other):
        return "divmod", other

    def __round__(self, n=None):
        return "round", n

    def __pow__(self, other, mod=None):
        return "pow", other, mod


@program(full=4)
def operators():
    def f(x):
        a, b = Vector(x), Vector(x + 1)
        c = a + b
        d = 5 + a
        e = a * 3
        g = 3 * a
        a += 2
        return c.value, d.value, e.value, g.value, a.value, (-b).value, a @ b, ~a, a.log

    return Case(f, vec())


@program(full=1)
def operators_of_an_argument():
    def f(v):
        v += 1
        w = v
        w += 1
        return (
            w is v,
            v[0],
            v["key"],
            v[1:2],
            len(v),
            bool(v),
            [1, 2, 3][v],
            int(v),
            float(v),
            v(1),
            divmod(v, 2),
            round(v),
            pow(v, 2, 3),
        )

    return Case(f, Vector(vec()))


@program()
def operator_not_supported():
    def f(x, v):
        x = x + 1
        return v * "text"

    return Case(f, vec(), Vector(1))


@program(full=1)
def comparison_and_sorting():
    @functools.total_ordering
    class Version:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

        def __lt__(self, other):
            return self.n < other.n

        def __hash__(self):
            return hash(self.n)

    def f(x):
        items = [Version(3), Version(1), Version(2)]
        return (
            [v.n for v in sorted(items)],
            max(items).n,
            Version(1) >= Version(1),
            Version(1) in items,
            x + 1,
            len({Version(1), Version(1)}),
        )

    return Case(f, vec())


@program(full=1)
def objects_as_dict_keys():
    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return hash(self.n)

        def __eq__(self, other):
            return isinstance(other, Key) and self.n == other.n

    def f(x, d):
        d[Key(1)] = x + 1
        d[Key(2)] = "two"
        return d[Key(1)], Key(3) in d, d.pop(Key(2)), len(d)

    return Case(f, vec(), {Key(1): "old"})


@program(full=1)
def reflected_operator_on_tensor():
    class Left:
        def __radd__(self, other):
            return "radd", other

    def f(x):
        try:
            return x + 1, x + Left()
        except TypeError as error:
            return str(error)[:20]

    return Case(f, vec())


@program(full=1)
def slots_class():
    class Point:
        __slots__ = ("x", "y")

        def __init__(self, x, y):
            self.x = x
            self.y = y

    def f(t):
        p = Point(t + 1, 2)
        p.y += 1
        return p, p.y, hasattr(p, "__dict__")

    return Case(f, vec())


@dataclasses.dataclass
class Config:
    width: int
    name: str = "c"
    items: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.area = self.width**2


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: object = None


@program(full=2)
def dataclass_use():
    def f(x, config):
        local = Config(3, items=[x + 1])
        config.items.append(local.width)
        changed = dataclasses.replace(config, width=5)
        return local, changed, config == changed, x * config.area, [fld.name for fld in dataclasses.fields(local)]

    return Case(f, vec(), Config(2))


@program(full=1)
def frozen_dataclass():
    def f(x, frozen):
        try:
            frozen.a = 5
        except dataclasses.FrozenInstanceError as error:
            message = str(error)
        return (
            x + frozen.a,
            message,
            Frozen(1) < Frozen(2),
            Frozen(1) == Frozen(1),
            hash(Frozen(1)) == hash(Frozen(1)),
            Frozen(3, x),
        )

    return Case(f, vec(), Frozen(1))


@program(full=1)
def dataclass_asdict_and_repr():
    def f(x):
        c = Config(2, "n", [1, 2])
        return dataclasses.asdict(c), dataclasses.astuple(c), repr(c), dataclasses.is_dataclass(c), x + 1

    return Case(f, vec())


class Color(enum.Enum):
    RED = 1
    GREEN = 2

    @property
    def half(self):
        return self.value / 2


class Flag(enum.IntFlag):
    A = 1
    B = 2


Flag(3)  # a combination becomes a member of the class at its first use


@program(full=1)
def enums():
    def f(x, color):
        if color is Color.RED:
            return x + color.value, color.name, Color(2), Color["GREEN"], list(Color), color.half, color == Color.RED
        return x - 1, Flag.A | Flag.B, Flag.A in Flag(3)

    return Case(f, vec(), Color.RED).changing(vec(), Color.GREEN)


@program(full=1)
def enum_as_dict_key():
    table = {Color.RED: 10, Color.GREEN: 20}

    def f(x, color):
        return x * table[color], str(color), repr(color), color in table

    return Case(f, vec(), Color.RED).changing(vec(), Color.GREEN)


@program(full=1)
def metaclass():
    class Meta(type):
        def __new__(mcs, name, bases, namespace, **options):
            namespace["extra"] = options.get("extra", 0)
            return super().__new__(mcs, name, bases, namespace)

        def __init__(cls, name, bases, namespace, **options):
            super().__init__(name, bases, namespace)

        def __contains__(cls, item):
            return item == cls.extra

        def __len__(cls):
            return 5

        @property
        def meta_value(cls):
            return cls.extra + 1

    class A(metaclass=Meta, extra=4):
        pass

    def f(x):
        return x + A.extra, 4 in A, len(A), A.meta_value, type(A) is Meta

    return Case(f, vec())


@program(full=1)
def class_with_metaclass_made_in_the_function():
    made = []

    class Meta(type):
        def __init__(cls, name, bases, namespace):
            super().__init__(name, bases, namespace)
            made.append(name)

    def f(x):
        class Local(metaclass=Meta):
            n = 2

        return x * Local.n

    return Case(f, vec()).watching(made)


@program(full=1)
def init_subclass():
    registry = []

    class Base:
        def __init_subclass__(cls, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.tag = tag
            registry.append(cls.__name__)

    def f(x):
        class Derived(Base, tag="t"):
            pass

        return x + len(Derived.tag), len(registry)

    return Case(f, vec()).watching(registry)


@program(full=1)
def class_getitem_and_generics():
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, value: T):
            self.value = value

    class Plain:
        def __class_getitem__(cls, item):
            return f"{cls.__name__}[{item}]"

    def f(x):
        return Box[int](x + 1).value, Plain["k"], list[int] == list[int]

    return Case(f, vec())


@program(full=1)
def abstract_classes():
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

        def double(self):
            return self.area() * 2

    class Square(Shape):
        def __init__(self, n):
            self.n = n

        def area(self):
            return self.n * self.n

    def f(x):
        try:
            Shape()
        except TypeError as error:
            message = str(error)
        return Square(x).double(), message, isinstance(Square(1), Shape), issubclass(Square, Shape)

    return Case(f, vec())


@program(full=1)
def isinstance_with_hooks():
    class Meta(type):
        def __instancecheck__(cls, obj):
            return obj == 3

        def __subclasscheck__(cls, sub):
            return sub is int

    class Three(metaclass=Meta):
        pass

    def f(x):
        return (
            isinstance(3, Three),
            isinstance(4, Three),
            issubclass(int, Three),
            isinstance(x, (int, torch.Tensor)),
            isinstance(x, int | str),
            x + 1,
        )

    return Case(f, vec())


@program(full=1)
def type_call_with_three_arguments():
    def f(x):
        A = type("A", (), {"n": 3, "m": lambda self, y: y * self.n})
        return A().m(x), A.__name__

    return Case(f, vec())


@program(full=1)
def simple_namespace_and_types():
    def f(x):
        n = types.SimpleNamespace(a=x + 1, b=2)
        n.c = n.b + 1
        return n, n.a, n.c, vars(n)["b"]

    return Case(f, vec())


@program(full=1)
def name_mangling():
    class A:
        __secret = 4

        def __init__(self):
            self.__own = 2

        def get(self, x):
            return x * self.__secret + self.__own

    def f(x):
        a = A()
        return a.get(x), a._A__own, hasattr(a, "__own")

    return Case(f, vec())


@program(full=1)
def str_and_repr_methods():
    class A:
        def __str__(self):
            return "str"

        def __repr__(self):
            return "repr"

        def __format__(self, spec):
            return f"format<{spec}>"

    def f(x):
        a = A()
        return str(a), repr(a), f"{a}", f"{a!r}", f"{a:>4}", [a].__repr__(), x + len(str(a))

    return Case(f, vec())


@program(full=1)
def class_attributes_and_lookup_order():
    class A:
        v = 1

    class B(A):
        pass

    def f(x, b):
        first = b.v
        B.v = 2
        second = b.v
        b.v = 3
        third = b.v
        del b.v
        del B.v
        return x + first * 100 + second * 10 + third, b.v

    return Case(f, vec(), B())


@program(full=1)
def method_resolution_dynamic():
    class A:
        def __init__(self, kind):
            self.kind = kind

        def run(self, x):
            return getattr(self, f"run_{self.kind}")(x)

        def run_add(self, x):
            return x + 1

        def run_mul(self, x):
            return x * 2

    def f(x, a):
        return a.run(x)

    return Case(f, vec(), A("add")).changing(vec(), A("mul"))


@program(full=2)
def singledispatch_function():
    @functools.singledispatch
    def kind(value, x):
        return x + 0

    @kind.register
    def _(value: int, x):
        return x + value

    @kind.register(list)
    def _(value, x):
        return x * len(value)

    def f(x):
        return kind(2, x), kind([1, 2, 3], x), kind("other", x)

    return Case(f, vec())


@program(full=1)
def typed_dict_and_protocol():
    class Options(typing.TypedDict):
        n: int

    @typing.runtime_checkable
    class HasN(typing.Protocol):
        n: int

    class A:
        n = 1

    def f(x):
        o: Options = {"n": 3}
        return x + o["n"], isinstance(A(), HasN), isinstance(3, HasN), typing.cast(int, 5)

    return Case(f, vec())


@program(full=2)
def objects_calling_each_other():
    class Layer:
        def __init__(self, n, next_layer=None):
            self.n = n
            self.next_layer = next_layer

        def __call__(self, x):
            x = x * self.n
            return self.next_layer(x) if self.next_layer else x

    def f(x, layer):
        return layer(x)

    return Case(f, vec(), Layer(2, Layer(3)))


@program(full=1)
def callable_class_attributes():
    class A:
        activation = torch.relu
        plain = staticmethod(torch.neg)
        cast = float

    def f(x, a):
        return A.activation(x), a.plain(x), a.cast(3)

    return Case(f, vec(), A())


@program(full=1)
def dir_vars_type():
    class A:
        n = 1

        def __init__(self):
            self.m = 2

    def f(x, a):
        return (
            [d for d in dir(a) if not d.startswith("_")],
            vars(a),
            type(a).__name__,
            a.__class__.__qualname__,
            A.__bases__,
            x + 1,
        )

    return Case(f, vec(), A())


@program(full=2)
def kinds_of_property():
    class noted(property):
        def __init__(self, get=None, set=None, delete=None, doc=None, note=None):
            super().__init__(get, set, delete, doc)
            self.note = note

    class Box:
        def __init__(self, value):
            self._value = value

        @noted
        def value(self):
            return self._value + 1

        twice = noted(lambda self: self._value * 2, note="twice")

        @value.setter
        def value(self, new):
            self._value = new

    class strange(property):
        def __get__(self, object, owner=None):
            return 7 if object is None else 8

    class Other:
        three = strange(lambda self: 3)

    box = Box(2)

    def f(x):
        box.value = 4
        try:
            box.twice = 1
        except AttributeError as error:
            text = str(error)
        return x * box.value + box.twice, text, Box.twice.note, type(Box.value).__name__, Other.three

    return Case(f, vec()).watching(box)
