"""Metaclasses, hooks of the class statement, subscripted classes, dispatch by type, properties that are kept, protocols, weak references."""

import abc
import contextlib
import functools
import logging
import typing
import warnings
import weakref

import torch

from tests.python.programs import Case, program, vec


class _Meta(type):
    made: list = []

    def __new__(mcs, name, bases, namespace, **options):
        cls = super().__new__(mcs, name, bases, namespace)
        cls.options = options
        return cls

    def __init__(cls, name, bases, namespace, **options):
        super().__init__(name, bases, namespace)
        _Meta.made.append(name)

    def __call__(cls, *args):
        instance = super().__call__(*args)
        instance.called = len(args)
        return instance

    def __len__(cls):
        return 3

    def __iter__(cls):
        return iter("abc")

    def __contains__(cls, item):
        return item == "in"

    def __getitem__(cls, key):
        return key * 2

    def __eq__(cls, other):
        return cls is other

    def __hash__(cls):
        return 7

    @property
    def upper(cls):
        return cls.__name__.upper()


@program(full=1)
def metaclass_of_an_outside_class():
    class Thing(metaclass=_Meta, tag=5):
        def __init__(self, n):
            self.n = n

    def f(x):
        thing = Thing(4)
        return (
            x + thing.n + thing.called + len(Thing) + Thing[2] + Thing.options["tag"],
            list(Thing),
            "in" in Thing,
            "out" in Thing,
            Thing.upper,
            Thing == Thing,
            bool(Thing),
        )

    return Case(f, vec())


@program(min_ops=1)
def class_statement_with_hooks_inside():
    log = []

    class Named:
        def __set_name__(self, owner, name):
            log.append((owner.__name__, name))
            self.name = name

        def __get__(self, instance, owner=None):
            return self if instance is None else len(self.name)

    class Base:
        registry: typing.ClassVar[list] = []

        def __init_subclass__(cls, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.tag = tag
            Base.registry.append(cls.__name__)

    def f(x):
        class Inner(Base, tag=2):
            field = Named()

        return x + Inner.tag + Inner().field, list(log), list(Base.registry)

    return Case(f, vec()).watching(log)


@program(min_ops=1)
def hooks_in_order_with_several_bases():
    log = []

    class Field:
        def __set_name__(self, owner, name):
            log.append(("name", owner.__name__, name, sorted(k for k in owner.__dict__ if k[0] != "_")))

    class A:
        def __init_subclass__(cls, a=1, **kwargs):
            log.append(("A", cls.__name__, a, sorted(kwargs)))
            super().__init_subclass__(**kwargs)
            cls.a = a

        def value(self):
            return 10

    class B:
        def __init_subclass__(cls, b=2, **kwargs):
            log.append(("B", cls.__name__, b))
            super().__init_subclass__(**kwargs)
            cls.b = b

    def f(x):
        class C(A, B, a=5, b=7):
            one = Field()
            plain = 3
            two = Field()

            def value(self):
                return super().value() + self.a + self.b

        class D(C):
            pass

        return x + C().value() + D().value(), list(C.__dict__)[1:5], [c.__name__ for c in D.__mro__], list(log)

    return Case(f, vec()).watching(log)


@program()
def hooks_that_refuse():
    class Base:
        def __init_subclass__(cls, need):
            if need < 0:
                raise ValueError(f"{cls.__name__} needs more")

    class Field:
        def __set_name__(self, owner, name):
            raise KeyError(name)

    def f(x):
        out = []
        for make in (1, 2, 3, 4):
            try:
                if make == 1:

                    class A(Base, need=-1):
                        pass

                elif make == 2:

                    class B(Base):
                        pass

                elif make == 3:

                    class C:
                        field = Field()

                else:

                    class E(metaclass=type, other=3):
                        pass

            except (ValueError, TypeError, RuntimeError) as error:
                out.append((type(error).__name__, str(error).split(" at 0x")[0], type(error.__cause__).__name__))
        return x + len(out), out

    return Case(f, vec())


@program(min_ops=1)
def class_with_hooks_that_gets_out():
    made = []

    class Base:
        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__(**kwargs)
            made.append(cls)

    def f(x):
        class Inner(Base):
            n = 4

        return x + Inner.n, made[-1] is Inner, Inner.__mro__[1] is Base, Base.__subclasses__()[-1] is Inner

    return Case(f, vec())


@program(full=1)
def subscripted_classes():
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, value):
            self.value = value

    class Own:
        def __class_getitem__(cls, item):
            return f"{cls.__name__}[{item}]"

    def f(x):
        box = Box[int](3)
        return x + box.value, Own[4], Own["a"], type(box) is Box, list[int] == list[int], isinstance(box, Box)

    return Case(f, vec())


@program(full=1)
def single_dispatch():
    @functools.singledispatch
    def show(value, x):
        return x

    @show.register
    def _(value: int, x):
        return x + value

    @show.register(list)
    def _(value, x):
        for item in value:
            x = show(item, x)
        return x

    class Shower:
        @functools.singledispatchmethod
        def of(self, value):
            return "any"

        @of.register
        def _(self, value: str):
            return "str " + value

    def f(x):
        shower = Shower()
        return show([1, [2, 3], "s"], x) * 2, shower.of(1), shower.of("a")

    return Case(f, vec())


@program(min_ops=1)
def cached_properties():
    calls = []

    class Thing:
        def __init__(self, x):
            self.x = x

        @functools.cached_property
        def doubled(self):
            calls.append("doubled")
            return self.x * 2

    def f(thing):
        first, second = thing.doubled, thing.doubled
        fresh = Thing(thing.x)
        return first + second, fresh.doubled, first is second, "doubled" in vars(thing), list(calls)

    return Case(f, Thing(vec())).watching(calls)


@program(full=1)
def protocols():
    @typing.runtime_checkable
    class Sized2(typing.Protocol):
        def size2(self) -> int: ...

    class Good:
        def size2(self):
            return 2

    class Bad:
        size2 = None

    class Virtual(abc.ABC):  # noqa: B024
        pass

    Virtual.register(Bad)

    def f(x, good, bad):
        checks = [
            isinstance(good, Sized2),
            isinstance(bad, Sized2),
            isinstance(3, Sized2),
            issubclass(Good, Sized2),
            isinstance(bad, Virtual),
            isinstance(good, Virtual),
            isinstance(Good(), Sized2),
        ]
        return x + sum(checks), checks

    return Case(f, vec(), Good(), Bad())


@program(min_ops=2)
def weak_references():
    class Thing:
        def __init__(self, n):
            self.n = n

    def f(x, thing, table):
        ref = weakref.ref(thing)
        x = x + ref().n
        table[thing] = 5
        values = weakref.WeakValueDictionary()
        values["t"] = thing
        x = x * table[thing] + len(values)
        return x, ref() is thing, values["t"] is thing, ref is weakref.ref(thing), hash(ref) == hash(thing)

    return Case(f, vec(), Thing(2), weakref.WeakKeyDictionary())


@program(full=1)
def identities():
    class Thing:
        pass

    def f(x, a, b):
        made = Thing()
        seen = {id(a): "a", id(b): "b", id(made): "m"}
        return x + len(seen), id(a) == id(b), id(a) == id(a), seen[id(made)], id(x) == id(x), made is not a

    thing = Thing()
    return Case(f, vec(), thing, thing).changing(vec(), Thing(), Thing())


@program(min_ops=2)
def logging_in_a_forward():
    log = logging.getLogger("stator.tests.object_model")
    log.setLevel(logging.WARNING)

    class Layer(torch.nn.Module):
        def forward(self, x):
            log.debug("input %s", x.shape)
            if log.isEnabledFor(logging.DEBUG):
                log.debug("more")
            x = x + 1
            log.info("after %d", 3)
            return x * 2

    return Case(Layer(), vec())


@program(min_ops=2)
def warnings_in_a_forward():
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("not seen", stacklevel=2)
            x = x + 1
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            warnings.warn("seen", UserWarning, stacklevel=1)
            x = x * 2
        return x, [str(w.message) for w in seen], [w.category.__name__ for w in seen]

    return Case(f, vec())


@program(full=2)
def exit_stacks():
    log = []

    class Manager:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append("enter " + self.name)
            return self.name

        def __exit__(self, kind, error, traceback):
            log.append("exit " + self.name + (" " + kind.__name__ if kind else ""))
            return kind is KeyError

    @contextlib.contextmanager
    def made(name):
        log.append("begin " + name)
        try:
            yield name
        finally:
            log.append("end " + name)

    def f(x):
        with contextlib.ExitStack() as stack:
            names = [stack.enter_context(Manager(n)) for n in "ab"]
            names.append(stack.enter_context(made("c")))
            stack.callback(log.append, "called")
            stack.push(Manager("pushed").__exit__)
            x = x + len(names)
            raise KeyError("inside")
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            kept = stack.pop_all()
            x = x * 2
        kept.close()
        return x, names, list(log), torch.is_grad_enabled()

    return Case(f, vec()).watching(log)


@program(min_ops=1)
def list_grows_while_it_is_iterated():
    def f(x, outside):
        made = [1]
        for item in made:
            if len(made) < 5:
                made.append(item + 1)
            x = x + item
        for item in outside:
            if item < 3:
                outside.append(item + 1)
            x = x + item
        shrinking = [1, 2, 3, 4]
        for item in shrinking:
            shrinking.remove(item)
        return x, made, list(outside), shrinking

    return Case(f, vec(), [0]).changing(vec(), [1, 2])


@program(full=1)
def tuples_with_tensors_are_ordered():
    def f(x):
        a, b = x + 1, x
        out = [
            (1, a) < (2, b),
            (1, a) == (1, a),
            (1, a) != (2, a),
            (2, a) > (1, b),
            (a, 1) == (a, 1),
            (a, 1) < (a, 2),
            [1, a] < [2, b],
            (1, "x", a) <= (1, "y", b),
            min((2, a), (1, b))[0],
            sorted([(2, a), (1, b)], key=lambda p: p[0])[0][0],
            max([(1, a), (3, b), (2, a)])[0],
        ]
        return a + b, out

    return Case(f, vec())


@program()
def tuples_whose_order_asks_a_tensor():
    def f(x):
        out = []
        for left, right in (((x, 1), (x + 1, 1)), ((x[0], 1), (x[0] + 1, 1))):
            try:
                out.append(left < right)
            except RuntimeError as error:
                out.append(str(error)[:30])
        return x * 2, out

    return Case(f, vec())


@program(full=1)
def attribute_errors_say_what_they_are_about():
    class Plain:
        pass

    class Hook:
        def __getattr__(self, name):
            raise AttributeError(f"no {name}")

    class Property:
        @property
        def p(self):
            return self.missing

    class Slots:
        __slots__ = ("a",)

    def f(x, plain, hook):
        out = []
        for thing in (plain, hook, Plain(), Hook(), Property(), Slots(), Plain, 3, "s"):
            for name in ("missing", "p", "a"):
                try:
                    getattr(thing, name)
                except AttributeError as error:
                    out.append((str(error).split(" at 0x")[0], error.name, error.obj is thing))
        try:
            plain.other
        except AttributeError as error:
            out.append((error.name, error.obj is plain, error.args))
        try:
            del plain.other
        except AttributeError as error:
            out.append((error.name, error.obj is plain, error.args))
        try:
            Slots().b = 1
        except AttributeError as error:
            out.append((error.name, error.args))
        return x + 1, out

    return Case(f, vec(), Plain(), Hook())


@program(min_ops=1)
def name_errors_say_the_name():
    def f(x):
        out = []
        try:
            not_there  # noqa: B018, F821
        except NameError as error:
            out.append((error.name, str(error)))
        try:
            print(later)  # noqa: F821
            later = 1
        except UnboundLocalError as error:
            out.append((error.name, str(error)))
        try:
            import not_a_module_of_anybody  # noqa: F401
        except ImportError as error:
            out.append((error.name, error.path, str(error)))
        return x + 1, out

    return Case(f, vec())


class _Held:
    pass


class _Alike:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def _with_weak_cache(x, cache):
    new, kept = _Held(), _Held()
    try:
        cache[new]
    except KeyError as error:
        missed = error.args[0]() is new
    cache[new] = x * 2
    cache[kept] = [kept]
    return cache[new] + 1, missed, cache[kept][0] is kept


@program(full=1)
def weak_dicts_of_new_objects():
    """A cache by object, of an object that the call makes."""
    cache = weakref.WeakKeyDictionary()

    def f(x):
        return _with_weak_cache(x, cache)

    return Case(f, vec())


@program()
def weak_dicts_of_all_objects():
    cache = weakref.WeakKeyDictionary()
    old = _Held()

    def f(x):
        cache[old] = 5
        out = _with_weak_cache(x, cache)
        one = _Alike()
        cache[one] = 1
        return *out, len(cache), cache[old], cache[_Alike()]

    return Case(f, vec())
