"""Small programs on odd corners of Python, written theme by theme and called in a changing world: what differed from
eager."""

from __future__ import annotations

import abc
import collections
import copy
import enum
import functools
import inspect
import itertools
import types
from typing import Any

import torch

import stator
from tests.python.programs import Case, program, vec


def _in_new_globals(code: types.CodeType, **more: Any) -> dict[str, Any]:
    """What the code of a module leaves behind, as if it had been imported anew: equal code, other globals."""
    module = types.ModuleType("tests.python.programs.made_anew")
    module.__dict__.update(more)
    exec(code, module.__dict__)
    return module.__dict__


_LOCAL_FUNCTIONS = compile(
    """
LOG = []
def f(x, kept):
    class Says:
        def __eq__(self, other):
            LOG.append('eq')
            return True
    def note(what):
        LOG.append(what)
    note('before')
    kept.append(note)
    return x + 1, Says() == 3
""",
    __file__,
    "exec",
)


@program(min_ops=1)
def local_functions_of_equal_code():
    """Functions that a call makes have the globals of that call's function, also where the entry was made for another
    one."""
    space = _in_new_globals(_LOCAL_FUNCTIONS)
    kept: list[Any] = []

    def call_kept(case):
        kept.pop()("later")

    return Case(space["f"], vec(), kept).watching(space["LOG"]).then(call_kept, call_kept)


_HELPER = compile("def helper(x):\n    LOG.append(len(LOG))\n    return x * len(LOG)\n", __file__, "exec")
_DRIVER = compile("def f(x):\n    LOG.append('f')\n    return helper(x) + 1\n", __file__, "exec")


@program(min_ops=2)
def one_helper_of_two_modules():
    """A function keeps its globals; those of its caller are the same dict, or another one with the same function in
    it."""
    home = _in_new_globals(_HELPER, LOG=[])
    exec(_DRIVER, home)
    away = _in_new_globals(_DRIVER, LOG=[], helper=home["helper"])

    def move(case):
        case.fn = away["f"] if case.fn is home["f"] else home["f"]

    def f(which, x):
        return (home if which else away)["f"](x)

    return (
        Case(f, 1, vec()).watching(home["LOG"], away["LOG"]).then_call(0, vec()).then_call(1, vec()).changing(0, vec())
    )


@program(min_ops=1)
def missing_members_of_an_enumeration():
    """`_missing_` is the program's code: it runs at each call, and once."""
    log: list[Any] = []

    class Color(enum.Enum):
        RED = 1
        GREEN = 2

        @classmethod
        def _missing_(cls, value):
            log.append(value)
            return cls.GREEN if value == 1.5 else None

    def f(x, n):
        try:
            return x + 1, Color(n)
        except ValueError as error:
            return x - 1, str(error)

    return (
        Case(f, vec(), 0).watching(log).changing(vec(), 1.5).then_call(vec(), 1).then_call(vec(), 7).then_call(vec(), 0)
    )


@program(min_ops=1)
def enumerations_of_a_metaclass():
    log: list[Any] = []

    class Counts(enum.EnumMeta):
        def __call__(cls, value, *rest):
            log.append(value)
            return super().__call__(value, *rest)

    class Color(enum.Enum, metaclass=Counts):
        RED = 1
        GREEN = 2

    def f(x, n):
        return x + 1, Color(n)

    return Case(f, vec(), 1).watching(log).then_call(vec(), 2).then_call(vec(), 1)


@program(min_ops=1)
def subclass_hooks_of_the_program():
    """A hook runs at each question that is new, and looks at classes that the call itself has written to."""
    log: list[Any] = []

    class Sized(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other):
            log.append(other.__name__)
            return any("size" in base.__dict__ for base in other.__mro__) or NotImplemented

    class Has:
        pass

    def f(x, n):
        if n == 1:
            Has.size = 1
        return x * 2, issubclass(Has, Sized), isinstance(Has(), Sized), isinstance(n, Sized)

    return Case(f, vec(), 0).watching(log).changing(vec(), 1).then_call(vec(), 1).then_call(vec(), 0)


@program(min_ops=1)
def sized_by_a_method_that_the_call_gives():
    """`collections.abc` looks into classes too."""
    from collections.abc import Sized

    def f(x, n):
        class Has:
            pass

        if n:
            Has.__len__ = lambda self: 3
        return x * 2, issubclass(Has, Sized), isinstance(Has(), Sized)

    return Case(f, vec(), 0).changing(vec(), 1).then_call(vec(), 1).then_call(vec(), 0)


@program(min_ops=1)
def metaclasses_that_look_at_numbers():
    """`__instancecheck__` is asked about the value, also where the value is one of the graph's."""

    class One(type):
        def __instancecheck__(cls, value):
            return value == 1

    class IsOne(metaclass=One):
        pass

    def f(x, n):
        return x + 1, isinstance(n, IsOne), isinstance(n, (str, IsOne))

    case = Case(f, vec(), 0)
    return case.then_call(vec(), 1).then_call(vec(), 2).then_call(vec(), 1.5).then_call(vec(), 1).then_call(vec(), 1.0)


@program(min_ops=1)
def dicts_that_say_what_they_hold():
    """Where a dict's class has an `__iter__` of its own, C asks its `keys`: in the order of the program."""
    log: list[Any] = []

    class Asked(dict):
        def __getitem__(self, key):
            log.append(("get", key))
            return "got"

        def __iter__(self):
            log.append("iter")
            return iter(["z"])

        def keys(self):
            log.append("keys")
            return ["k"]

    def f(x, table):
        d = Asked(a=1)
        log.append("or")
        a = d | {"q": 1}, {"q": 1} | d, Asked() | {}
        log.append("copy")
        b = d.copy()
        log.append("update")
        c: dict[Any, Any] = {}
        c |= d
        table |= d
        return x + 1, a, b, c, table | d

    return Case(f, vec(), {"t": 1}).watching(log)


@program(min_ops=1)
def indices_that_raise():
    """torch has words of its own for an index that cannot be made an int."""

    class Raises:
        def __index__(self):
            raise ValueError("no")

    class NoInt:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            return self.value

    def asked(call):
        try:
            return call()
        except Exception as error:
            return type(error).__name__, str(error)

    def f(x, n):
        first = asked(lambda: x[Raises()])
        return x + 1, first, asked(lambda: x[NoInt(n)]), asked(lambda: [1, 2][NoInt(n)]), asked(lambda: [1][Raises()])

    return Case(f, vec(), 1.5).changing(vec(), 1).then_call(vec(), 2.5).then_call(vec(), 0)


@program(min_ops=1)
def iterators_with_a_sentinel():
    """What is called has to be callable, before anything is taken."""

    def asked(call):
        try:
            return call()
        except TypeError as error:
            return str(error)

    def f(x, items):
        taken = iter(items.pop, 0)
        return x + 1, type(taken).__name__, list(taken), asked(lambda: iter(items, 0)), asked(lambda: iter(x, 0))

    return Case(f, vec(), [3, 0, 1, 2]).changing(vec(), [0])


@program(min_ops=1)
def signatures_of_functions_made_anew():
    """Functions of equal code may differ in their defaults."""

    def f(x, make):
        local = make()
        return x + 1, str(inspect.signature(local)), local()

    def maker(default):
        def make():
            def made(a=default, *, b=default):
                return a, b

            return made

        return make

    return Case(f, vec(), maker(1)).changing(vec(), maker(2)).then_call(vec(), maker("x")).then_call(vec(), maker(1))


@program(min_ops=1)
def partials_of_partials():
    """CPython takes them apart unless they have a `__dict__`, which nobody but the program brings into being."""

    def g(*args, **named):
        return args, named

    def f(x, given):
        p = functools.partial(g, 1)
        q = functools.partial(p, k=7)
        r = functools.partial(given, 3)
        given.name = "named"
        s = functools.partial(given, 4)
        return x + 1, q.args, q.keywords, q(2), r.args, r.func is g, s.args, s.func is given, s()

    return Case(f, vec(), functools.partial(g, 2))


@program(min_ops=1)
def locals_asked_for_again():
    """Up to 3.12 a frame has one dict for its locals, which each call brings up to date."""

    def f(x, n):
        y = x + 1
        seen = locals()
        seen["more"] = n
        z = n
        again = sorted(locals())
        return y, again, seen is locals(), "z" in seen, z

    return Case(f, vec(), 1).changing(vec(), "a")


@program(min_ops=1)
def locals_in_a_loop():
    def f(x, n):
        kept = []
        for i in range(n):
            x = x + 1
            kept.append(locals())
        return x, [sorted(table) for table in kept], [table.get("i") for table in kept]

    return Case(f, vec(), 3).changing(vec(), 1)


@program()
def a_functions_dict_with_names_of_its_class():
    def f(x):
        class Old:
            pass

        def wrapped():
            pass

        wrapped.__dict__.update(Old.__dict__)
        stator.graph_break()
        return x + 1, sorted(wrapped.__dict__), wrapped.__name__

    return Case(f, vec())


@program(full=1)
def permutations_by_keyword():
    def f(x, items):
        chosen = sorted(set(itertools.permutations(items, r=2)))
        return x + len(chosen), chosen, list(itertools.combinations(items, r=1))

    return Case(f, vec(), [4, 3, 2])


@program()
def squeeze_of_a_size_that_is_not_one():
    def f(x, dim):
        return x.clone().squeeze_(dim) + 1

    return Case(f, torch.ones(5, 1, 5, 1), 1).then_call(torch.ones(1, 1, 1, 1), 0).then_call(torch.ones(5, 1, 5, 1), 2)


def _error(call, *args):
    try:
        return call(*args)
    except Exception as error:
        return type(error).__name__, str(error)


@program(full=1)
def count_of_what_is_no_number():
    def f(x, start):
        out = [_error(lambda: list(zip([], itertools.count(start)))), _error(itertools.count, 1, [1])]
        return x + 1, out, next(itertools.count(x)), next(itertools.count(2.5, True))

    return Case(f, vec(), "a").changing(vec(), 3)


class _Bound:
    def __init__(self, value, log):
        self.value = value
        self.log = log

    def __index__(self):
        self.log.append(self.value)
        return self.value


@program(min_ops=1)
def parts_of_a_slice_in_their_order():
    def f(x, items):
        log = []
        i = functools.partial(_Bound, log=log)
        out = [items[i(1) : i(7) : i(2)], "abcdef"[i(1) :], range(9)[i(0) : i(5) : i(3)], x[i(0) : i(3) : i(2)]]
        items[i(0) : i(4) : i(2)] = "xy"
        del items[i(1) : i(2)]
        return x + 1, out, log

    return Case(f, vec(), list(range(8))).changing(vec(), list(range(9)))


def _slices(start, stop, step):
    log = []
    return slice(_Bound(start, log), _Bound(stop, log), _Bound(step, log)), slice(torch.tensor(start), stop), log


@program(min_ops=2)
def slices_from_outside_whose_bounds_are_objects():
    def f(x, slices, items):
        own, tensors, _ = slices
        out = [items[own], "abcdefgh"[own], (1, 2, 3, 4, 5)[own], range(9)[own], own.indices(5), items[tensors]]
        return x[own] + 1, x[tensors] + 1, out

    return Case(f, vec(), _slices(0, 3, 2), list(range(8))).changing(vec(), _slices(1, 4, 1), list(range(9)))


@program(min_ops=1)
def ends_inside_of_containers():
    def f(x):
        y, log = x + 1, []

        class Ends:
            def __del__(self):
                log.append("gone")

        for make in (lambda: types.SimpleNamespace(d=Ends()), lambda: collections.deque([Ends()])):
            holder = make()
            log.append("there")
            holder = None
            log.append("after")
        return y, log, holder

    return Case(f, vec())


@program(min_ops=1)
def groups_that_are_asked_for_while_they_are_made():
    def f(x, count):
        seen = []

        def key(n):
            if n == count - 5:
                seen.append(list(group))
            return n != count - 4

        for k, group in itertools.groupby(range(count), key):
            seen.append((k, list(group)))
        return x + 1, seen

    return Case(f, vec(), 10).changing(vec(), 12)


@program(full=1)
def what_is_no_iterable_is_assigned_to_a_slice():
    class Bad:
        def __iter__(self):
            raise TypeError("mine")

    def f(x, value):
        items = [1, 2, 3]
        out = [_error(items.__setitem__, part, value) for part in (slice(1), slice(0, 3, 1), slice(0, 3, 2))]
        out += [_error(items.__setitem__, slice(1), Bad()), _error(",".join, value), _error(",".join, Bad())]
        return x + 1, out, items

    return Case(f, vec(), 3).changing(vec(), None)


class _Text(str):
    pass


@program()
def a_text_without_fields_gives_itself():
    def f(x, text):
        formed = [text.format(1), text.format_map({}), text.strip(), text % (), text[:], f"{text}", "{}".format(text)]
        return x + 1, formed, [type(each).__name__ for each in formed]

    return (
        Case(f, vec(), _Text("abc")).changing(vec(), _Text("")).then_call(vec(), "abc").then_call(vec(), _Text("a{{"))
    )


class _Slotted:
    __slots__ = ("__hidden", "shown")

    def __init__(self, hidden):
        self.__hidden = hidden


class _Takes:
    def __new__(cls, a):
        return super().__new__(cls)


@program()
def a_copy_whose_class_wants_arguments():
    def f(x, value):
        y = x + 1
        return y, copy.copy(value)

    return Case(f, vec(), _Takes(1)).changing(vec(), _Slotted(2))
