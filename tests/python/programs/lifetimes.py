"""What captured code does not keep: classes and functions of a function's body go when the program drops them. And an object's own dict, which
is one object with it."""

import datetime
import decimal
import functools
import gc
import re
import sys
import weakref

import numpy as np
import torch

from tests.python.programs import Case, program, vec


@program(min_ops=3)
def classes_and_functions_of_the_body_go():
    def f(x):
        class Local:
            __slots__ = ("value", "__weakref__")
            count = 0

            def __init__(self, value):
                self.value = value

            def method(self, y):
                return y + self.value

            @staticmethod
            def plain(y):
                return y * 2

            @classmethod
            def counted(cls, y):
                return y + cls.count

            @property
            def double(self):
                return self.value * 2

        def inner(y):
            return y - 1

        refs = [weakref.ref(o) for o in (Local, Local.method, Local.plain, inner)]
        print("made")
        x = Local.plain(x)
        print("called")
        one = Local(3)
        x = inner(one.method(x)) + one.double + Local.counted(1)
        print("used")
        before = [r() is not None for r in refs]
        x = x + one.value
        del Local, inner, one
        gc.collect()
        return x, before, [r() for r in refs]

    return Case(f, vec())


@program(min_ops=1)
def caches_of_the_body_go():
    def f(x):
        @functools.lru_cache
        def cached(n):
            return n + 1

        ref = weakref.ref(cached)
        x = x + cached(2)
        print(cached(2))
        x = x * cached(3)
        del cached
        gc.collect()
        return x, ref()

    return Case(f, vec())


@program(min_ops=1)
def subclasses_are_forgotten():
    class Parent:
        pass

    def f(x):
        class Child(Parent):
            pass

        names = [c.__name__ for c in Parent.__subclasses__()]
        x = x + len(names)
        print(isinstance(Child(), Parent))
        x = x * 2
        del Child
        gc.collect()
        return x, names, Parent.__subclasses__()

    return Case(f, vec())


@program(min_ops=2)
def class_of_the_body_is_changed():
    """Its entry is looked at again when the class has changed, though it holds nothing of it."""

    def make():
        class Box:
            __slots__ = ("a", "b")
            total = 0

            @staticmethod
            def scale(y):
                return y * 2

            @property
            def both(self):
                return self.a + self.b

        return Box

    Box = make()

    def f(x, box):
        box.a, box.b = 1, 2
        Box.total += 1
        return Box.scale(x) + box.both + Box.total

    def other_scale(case):
        Box.scale = staticmethod(lambda y: y * 5)

    def other_slot(case):
        Box.b = Box.a

    def other_property(case):
        Box.both = property(lambda self: 100)

    return Case(f, vec(), Box()).then(other_scale, other_slot, other_property)


@program(min_ops=1)
def own_dict_over_a_break():
    class Thing:
        pass

    def f(x):
        thing = Thing()
        thing.a = x + 1
        d = vars(thing)
        print(sorted(d))
        d["b"] = 2
        thing.c = 3
        return thing.b, sorted(d), d is thing.__dict__, d["a"] * thing.c

    return Case(f, vec())


@program(min_ops=1)
def own_dict_outlives_its_object():
    class Thing:
        pass

    def f(x):
        first, second = Thing(), Thing()
        for thing in (first, second):
            thing.x, thing.y, thing.z = 1, x + 2, 3
        d, other = first.__dict__, second.__dict__
        first.me = d
        print(list(d))
        same = d is first.__dict__ and d["me"] is d
        del first, second, thing
        return list(d), list(other), other["y"] * 2, same

    return Case(f, vec())


@program(min_ops=1)
def own_dict_that_was_replaced():
    class Thing:
        pass

    def f(x):
        thing = Thing()
        old = thing.__dict__
        thing.a = x + 1
        thing.__dict__ = {"b": 2}
        print(sorted(old))
        old["c"] = 3
        return sorted(old), sorted(vars(thing)), old["a"] * thing.b, hasattr(thing, "c")

    return Case(f, vec())


@program(min_ops=1)
def sizes_of_dicts_that_share_keys():
    class A:
        pass

    def f(x):
        for _ in range(30):
            A()
        a = A()
        a.x, a.y = 1, 2
        small = sys.getsizeof(vars(a)) < sys.getsizeof({"x": 1, "y": 2})
        d = a.__dict__
        x = x + 1
        d.popitem()
        return x, small, list(d)

    return Case(f, vec())


@program(min_ops=1)
def objects_of_the_collector_are_the_programs():
    def f(x):
        class G:
            def __eq__(self, other):
                return False

        g = G()
        x = x + 1
        g == g  # what a first comparison loads is there from here on
        before = len(gc.get_objects())
        for _ in range(10):
            g == g
        after = len(gc.get_objects())
        return x * 2, after - before < 10  # none for each: what a process loads once may come in between

    return Case(f, vec())


@program()
def descriptor_of_a_class_made_in_the_call():
    """It reads data, so that a capture is about the class that has it, and would hold the tensor through its closure."""

    def f(x):
        class Sign:
            def __get__(self, instance, owner=None):
                return int(x[0] > 0)

        class Signed:
            sign = Sign()

        y = x + 1
        return y, Signed().sign

    return Case(f, vec())


def _ended_by(holding):
    """`holding(one)` makes what alone holds an object whose end is noticed."""

    def make():
        log = []

        class Noticed:
            def __del__(self):
                log.append("gone")

        def f(x):
            held = holding(Noticed())
            x = x + 1
            held = None
            log.append("after")
            return x * 2, held

        return Case(f, vec()).logging(log)

    make.__name__ = make.__qualname__ = holding.__name__
    return program()(make)


@_ended_by
def end_by_an_iterator(one):
    return iter([one])


@_ended_by
def end_by_an_iterator_that_goes_backwards(one):
    return reversed([one])


@_ended_by
def end_by_a_zip(one):
    return zip([one], [1], strict=True)


@_ended_by
def end_by_a_map(one):
    return map(str, (one,))


@_ended_by
def end_by_an_iterator_over_keys(one):
    return iter({one: 1})


@_ended_by
def end_by_a_view_of_items(one):
    return {1: one}.items()


@_ended_by
def end_by_an_enumeration(one):
    return enumerate((0, one))


@program()
def end_by_a_loop_over_a_list():
    log = []

    class Noticed:
        def __init__(self, n):
            self.n = n

        def __del__(self):
            log.append(("gone", self.n))

    def f(x):
        for one in [Noticed(1), Noticed(2)]:
            log.append(one.n)
            x = x + one.n
        log.append("after")
        return x * 2

    return Case(f, vec()).logging(log)


def _values():
    return [
        range(3, int("10")),
        slice(1, int("1000")),
        (1, int("1000"), range(int("5"))),
        frozenset([1, int("1000")]),
        decimal.Decimal("1.50"),
        datetime.date(2020, 1, 2),
        datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc),
        datetime.timedelta(3),
        re.match("a+", "aab"),
        np.float32(1.5),
        torch.Size([2, int("1000")]),
    ]


@program(full=1)
def values_that_guards_compare_are_not_held():
    def f(x, values):
        x = x + len([str(value) for value in values])
        return x, values[-1], [value for value in values if value is values[4]]

    case = Case(f, vec(), _values())
    # Equal values serve; what comes out is what came in.
    case.then(lambda case: case.args[1].__setitem__(slice(None), _values()))
    return case


@program(min_ops=1)
def values_that_differ_a_little():
    def f(x, number, day, found, picked):
        return x + 1, str(number), number * 2, day.isoformat(), day - day, found.group(), found.span(), picked[1]

    case = Case(
        f, vec(), decimal.Decimal("1.5"), datetime.datetime(2020, 1, 2), re.search("b", "abc"), (1, np.float32(2))
    )
    case.then(lambda case: setattr(case, "args", (case.args[0], decimal.Decimal("1.50"), *case.args[2:])))
    fold = datetime.datetime(2020, 1, 2, fold=1)
    case.then(lambda case: setattr(case, "args", (*case.args[:2], fold, *case.args[3:])))
    case.then(lambda case: setattr(case, "args", (*case.args[:3], re.search("b", "bbc"), case.args[4])))
    case.then(lambda case: setattr(case, "args", (*case.args[:4], (1, np.float64(2)))))
    return case


@program(min_ops=1)
def a_match_reads_what_it_was_found_in():
    def f(x, found):
        return x + 1, bytes(found.group()), found.span()

    text = bytearray(b"abcabc")
    case = Case(f, vec(), re.search(b"b.", text))
    case.then(lambda case: text.__setitem__(1, ord("x")))
    return case
