"""Small forms of what CPython's own tests found: each once gave another result than eager."""

import collections
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import sys
import types

from tests.python.programs import Case, program, vec


class _Count(enum.IntEnum):
    ONE = 1
    TWO = 2


class _Word(enum.StrEnum):
    FIRST = "first"


@program(full=1)
def text_of_mixed_enums():
    def f(x, member):
        return x + 1, str(member), repr(member), f"{member}", str(_Word.FIRST), repr(_Word.FIRST)

    return Case(f, vec(), _Count.TWO)


@program()
def enum_members_made_by_a_traced_new():
    def f(x):
        class Some(enum.Enum):
            def __new__(cls, value):
                return object.__new__(cls)

            FIRST = 1
            SECOND = 2

        return x + 1, Some.FIRST is Some.SECOND, Some.FIRST.value, Some.SECOND.value

    return Case(f, vec())


@program()
def keys_that_come_back_while_iterated_over():
    def f(x, source):
        seen = []
        numbers = dict(source)
        try:
            for key in numbers:
                seen.append(key)
                del numbers[key]
                numbers[key] = 0
        except RuntimeError as error:
            seen.append(str(error))
        return x + 1, seen, numbers

    return Case(f, vec(), {0: 0})


@program()
def keys_that_come_back_before_a_break():
    def f(x, source):
        seen = []
        numbers = dict(source)
        try:
            for key in numbers:
                seen.append(key)
                del numbers[key]
                numbers[key] = 0
                print(key)
        except RuntimeError as error:
            seen.append(str(error))
        return x + 1, seen, numbers

    return Case(f, vec(), {0: 0})


@program()
def containers_that_hold_themselves():
    def f(x):
        own = []
        own.append(own)
        pair = ([],)
        pair[0].append(pair)
        twin = copy.deepcopy(pair)
        try:
            verdict = pair == twin
        except RecursionError:
            verdict = "too deep"
        return x + 1, repr(own), verdict, twin[0][0] is twin, twin is pair

    return Case(f, vec())


@program(full=1)
def repr_of_a_dataclass_that_holds_itself():
    @dataclasses.dataclass
    class Link:
        to: object = None

    def f(x):
        link = Link()
        link.to = link
        return x + 1, repr(link).split(".")[-1]

    return Case(f, vec())


@program()
def read_only_views_of_dicts():
    class Plain:
        here = 1

    def f(x, settings):
        made = {"a": 1}
        view = types.MappingProxyType(made)
        made["b"] = 2
        lines = [dict(view), settings["a"], type(Plain.__dict__).__name__, "here" in Plain.__dict__]
        try:
            Plain.__dict__["there"] = 2
        except TypeError as error:
            lines.append(str(error))
        return x + 1, lines, made.keys().mapping == made

    return Case(f, vec(), types.MappingProxyType({"a": 1})).changing(vec(), types.MappingProxyType({"a": 2}))


@program(full=1)
def function_made_with_a_doc_and_a_module():
    def f(x):
        def inner(y):
            "What it does."
            return y

        @functools.wraps(max)
        def wrapper(*values):
            return max(*values)

        inner.__module__ = "elsewhere"
        return x + 1, inner, inner.__doc__, wrapper.__doc__[:4], wrapper

    return Case(f, vec())


@program(full=1)
def dict_of_a_subclass_with_its_own_keys():
    class Reversed(dict):
        def keys(self):
            return reversed(list(dict.keys(self)))

        __iter__ = keys

    def f(x):
        return x + 1, list(dict(Reversed(a=1, b=2)).items())

    return Case(f, vec())


@program()
def iterators_asked_about_themselves():
    def f(x):
        count = itertools.count(3, 5)
        places = [type(iter(over)).__name__ for over in ([], (), range(3), "", {}, set(), {}.values())]
        return x + 1, repr(count), places, repr(itertools.repeat("a", 2)), iter(range(7)).__reduce__()[2]

    return Case(f, vec())


@program()
def very_long_ranges():
    def f(x):
        long = range(-sys.maxsize, sys.maxsize)
        try:
            size = len(long)
        except OverflowError as error:
            size = str(error)
        return x + 1, size, long[sys.maxsize + 1], bool(long), next(iter(long))

    return Case(f, vec())


@program(full=1)
def reflected_operator_that_a_subclass_only_inherits():
    class Base:
        def __floordiv__(self, other):
            return "floordiv"

        def __rfloordiv__(self, other):
            return "rfloordiv"

    class Same(Base):
        pass

    class Other(Base):
        def __rfloordiv__(self, other):
            return "other"

    def f(x):
        return x + 1, Base() // Same(), Base() // Other(), 1 // Same()

    return Case(f, vec())


@program(full=1)
def list_subclass_iterated_past_its_getitem():
    class Shouting(list):
        def __getitem__(self, index):
            return str(index) + "!"

    def f(x):
        made = Shouting((1, 2))
        made.__init__([3, 4])
        made.__init__()
        return x + 1, next(iter(Shouting((1, 2)))), Shouting([1]) == [1], made, frozenset(frozenset("a"))

    return Case(f, vec())


@program()
def comparison_that_empties_the_lists():
    class Clearing:
        def __init__(self, other):
            self.other = other

        def __eq__(self, other):
            self.other.clear()
            return NotImplemented

        __hash__ = None

    def f(x):
        first, second = [], []
        first.append(Clearing(second))
        second.append(Clearing(first))
        return x + 1, first == second

    return Case(f, vec())


@program()
def arguments_too_many_for_object():
    class OwnNew:
        def __new__(cls, *args):
            return object.__new__(cls, *args)

    class OwnInit:
        def __init__(self, *args):
            object.__init__(self, *args)

    def f(x):
        seen = []
        for kind in (OwnNew, OwnInit):
            kind()
            try:
                kind(1)
            except TypeError as error:
                seen.append(str(error))
        try:
            collections.OrderedDict.fromkeys("ab").__reduce_ex__(None)
        except TypeError:
            seen.append("no protocol")
        return x + 1, seen, operator.index(True)

    return Case(f, vec())


@program()
def contexts_of_exceptions_in_a_circle():
    def f(x):
        first, second = ValueError("first"), KeyError("second")
        first.__context__ = second
        second.__context__ = first
        try:
            try:
                raise first
            except ValueError:
                raise TypeError("third")
        except TypeError as error:
            return x + 1, type(error.__context__).__name__

    return Case(f, vec())


class _Frozen(frozenset):
    pass


class _Own(set):
    pass


@program(min_ops=1)
def sets_of_a_subclass_show_their_class():
    def f(x, frozen, own):
        copied = frozen.copy()
        texts = [str(frozen), repr(own), f"{frozen}", "%s" % (own,), str(own | frozen)]
        return x + 1, texts, copied is frozen, type(copied).__name__, type(own.copy()).__name__

    return Case(f, vec(), _Frozen([1, 2]), _Own([3]))


def _grown_and_emptied():
    """Three elements in a large table: another order than that of a set made of these three."""
    numbers = set(range(100))
    for i in range(100):
        if i not in (1, 8, 17):
            numbers.discard(i)
    return numbers


@program(full=1)
def order_of_a_set_that_has_shrunk():
    def f(x, outside):
        made = set(range(100))
        for i in range(100):
            if i not in (1, 8, 17):
                made.discard(i)
        orders = list(outside), list(made), list(outside.copy()), list(set(outside)), str(outside | {64})
        outside.add(64)
        return x + 1, orders, [list(outside)], made, str(made), frozenset(made), made.union(outside)

    return Case(f, vec(), _grown_and_emptied())


@program()
def classes_that_take_no_keywords():
    def f(x):
        class Plain(frozenset):
            pass

        class Pair(tuple):
            pass

        class Number(int):
            pass

        seen = []
        for make in (lambda: Plain(items=()), lambda: Pair(items=()), lambda: Pair(1, 2), lambda: Number("12", base=3)):
            try:
                seen.append(make())
            except TypeError as error:
                seen.append(str(error))
        return x + 1, seen

    return Case(f, vec())


@program(max_breaks=0, min_ops=2)
def long_loop_before_the_first_tensor():
    def f(x, n):
        total = 0
        for i in range(n):
            total += i % 7
        return x + total, x * 2

    return Case(f, vec(), 2000)


class _Sized:
    def __init__(self):
        self.log = []

    def __iter__(self):
        self.log.append("iter")
        return iter([1, 2])

    def __len__(self):
        self.log.append("len")
        return 2


class _Hinted(_Sized):
    def __len__(self):
        self.log.append("len")
        raise TypeError

    def __length_hint__(self):
        self.log.append("hint")
        return 3


@program(min_ops=1)
def list_asks_for_a_length_before_it_takes():
    def f(x):
        seen = []
        for kind in (_Sized, _Hinted):
            for take in (list, tuple, set, sorted, lambda items: [*items], lambda items: [].extend(items)):
                items = kind()
                seen.append((take(items), items.log))
        return x + 1, seen

    return Case(f, vec())


@program(full=1)
def unpacking_takes_no_more_than_it_needs():
    def f(x):
        seen = []

        def numbers():
            for i in range(9):
                seen.append(i)
                yield i

        try:
            a, b = numbers()
        except ValueError as error:
            return x + 1, seen, str(error)
        return x + a + b, seen

    return Case(f, vec())


class _Identical(int):
    __eq__ = object.__eq__
    __hash__ = int.__hash__


class _WrongClass(int):
    __eq__ = str.__eq__
    __hash__ = int.__hash__


class _SameList(list):
    __eq__ = object.__eq__


@program(min_ops=1)
def special_methods_taken_from_other_classes():
    def f(x, number, wrong, items):
        seen = [number == number, number == _Identical(1), items == _SameList(items), items == items]
        try:
            wrong == wrong
        except TypeError as error:
            seen.append(str(error))
        return x + 1, seen

    return Case(f, vec(), _Identical(1), _WrongClass(1), _SameList([1]))


class _NoSuch:
    near = 1

    def __getattr__(self, name):
        raise AttributeError()

    @property
    def broken(self):
        raise AttributeError("broken")


_LENGTH = property(len)


@program()
def members_that_cannot_be_written():
    def f(x, module):
        seen = []
        for owner, name in ((_LENGTH, "fget"), (module, "__dict__")):
            try:
                setattr(owner, name, {})
            except (AttributeError, TypeError) as error:
                seen.append(str(error))
        module.__dict__["added"] = 3
        return x + module.added, seen

    return Case(f, vec(), types.ModuleType("made_up"))


@program()
def subclasses_made_in_a_trace():
    class Base:
        pass

    def f(x):
        class First(Base):
            pass

        first = Base.__subclasses__()[-1].__name__

        class Second(Base):
            pass

        return x + 1, first, Base.__subclasses__()[-1].__name__

    return Case(f, vec())


@program()
def object_setattr_of_a_class():
    def f(x):
        class Meta(type):
            def __setattr__(cls, key, value):
                object.__setattr__(cls, key, value)

        class Some(metaclass=Meta):
            pass

        try:
            Some.value = 1
        except TypeError as error:
            return x + 1, str(error)
        return x

    return Case(f, vec())


@program()
def line_of_a_frame_behind_a_with():
    class Nothing:
        def __enter__(self):
            return self

        def __exit__(self, *args):
            pass

    def fails():
        with Nothing():
            1 / 0
            pass

    def named():
        try:
            1 / 0
        except Exception as error:
            1 / 0
            str(error)

    def f(x):
        lines = []
        for function in (fails, named):
            try:
                function()
            except ZeroDivisionError as error:
                frame = error.__traceback__.tb_next.tb_frame
                lines.append(frame.f_lineno - frame.f_code.co_firstlineno)
        return x + 1, lines

    return Case(f, vec())


@program()
def a_class_derived_from_super():
    class Base:
        def method(self, a):
            return f"Base({a!r})"

    class MySuper(super):
        def __init__(self, *args):
            return super(MySuper, self).__init__(*args)  # noqa: PLE0101, UP008

    class Derived(Base):
        def method(self, a):
            return "Derived" + MySuper(Derived, self).method(a)

    def f(x):
        unbound = MySuper(Derived)
        return x + 1, Derived().method(3), unbound.__thisclass__ is Derived

    return Case(f, vec())


@program()
def a_wrapper_of_lru_cache_that_is_copied():
    @functools.lru_cache
    def cached(x):
        return x + 1

    def f(x):
        copied = copy.copy(cached)
        return x + copied(1), copied is cached

    return Case(f, vec())


@program()
def a_cache_that_is_full_and_then_goes():
    def f(x):
        @functools.lru_cache(maxsize=2)
        def cached(n):
            return n * 2

        return x + sum(cached(n) for n in (1, 2, 3, 1, 4))

    @functools.lru_cache(maxsize=2)
    def outside(n):
        return n * 2

    def g(x, n):
        return f(x) + outside(n) + outside(n + 1) + outside(n + 2)

    return Case(g, vec(), 1).then_call(vec(), 5)


class _LikeA:
    """Equal to the string "a", as only its own __eq__ knows."""

    asked = 0

    def __hash__(self):
        return hash("a")

    def __eq__(self, other):
        _LikeA.asked += 1
        return other == "a" if isinstance(other, str) else other is self


@program(min_ops=1)
def key_that_is_found_by_its_own_eq():
    _LikeA.asked = 0
    settings = {"b": 2, _LikeA(): 1}

    def f(x):
        return x + settings.get("a", 5) + settings["b"], settings.get("c"), _LikeA.asked

    return Case(f, vec()).watching(_LikeA)


@program(min_ops=1)
def attribute_deleted_by_the_eq_of_a_key():
    class Descriptor:
        def __get__(self, instance, owner=None):
            return 1

    class Thing:
        attribute = Descriptor()

    class Evil:
        def __hash__(self):
            return hash("attribute")

        def __repr__(self):
            return "Evil"

        def __eq__(self, other):
            if "attribute" in Thing.__dict__:
                del Thing.attribute
            return False

    thing = Thing()
    thing.__dict__[Evil()] = 0

    def f(x):
        first = getattr(thing, "attribute", None)
        return x + 1, first, hasattr(thing, "attribute")

    return Case(f, vec())


@program(min_ops=1)
def keys_that_change_the_dict_they_are_in():
    def f(x):
        class Key(int):
            def __hash__(self):
                return 13

            def __eq__(self, other):
                if len(d) > 1:
                    d.clear()
                return False

        d = {}
        d = {Key(1): 1, Key(2): 2}
        try:
            made = dict.fromkeys(d)
        except RuntimeError:
            made = None
        return x + len(d), made is None or len(made) <= 2

    return Case(f, vec())


@program()
def generator_of_a_renamed_function():
    def f(x):
        def numbers():
            yield 1

        made = numbers()
        made.__name__ = "other"
        numbers.__qualname__ = "qualified"
        numbers.__name__ = "named"
        later = numbers()
        return x + 1, made.__name__, later.__name__, later.__qualname__

    return Case(f, vec())
