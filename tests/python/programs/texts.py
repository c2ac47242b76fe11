"""repr, str and format of containers, of classes made from them and of what C makes of them."""

import collections
import time
import types

import torch

from tests.python.programs import Case, program, vec


class Ordered(collections.OrderedDict):
    pass


class Frozen(frozenset):
    def __repr__(self):
        return "<" + frozenset.__repr__(self) + ">"


class PlainFrozen(frozenset):
    pass


class PlainSet(set):
    pass


class PlainList(list):
    pass


class PlainTuple(tuple):
    pass


class PlainDict(dict):
    pass


class Filled(collections.defaultdict):
    pass


class Queue(collections.deque):
    pass


class Tagged(list):
    def __repr__(self):
        return "T" + super().__repr__()


class Shown:
    def __repr__(self):
        return "shown"


def _all():
    return [
        Ordered(a=3),
        Ordered(),
        collections.OrderedDict(a=1),
        collections.OrderedDict(),
        Frozen(range(3)),
        PlainFrozen([1]),
        PlainFrozen(),
        PlainSet([1]),
        PlainSet(),
        {1, 2},
        set(),
        frozenset([1]),
        PlainList([1, "a"]),
        PlainTuple((1,)),
        PlainTuple(),
        PlainDict(a=1),
        Filled(),
        Filled(int, a=1),
        collections.defaultdict(list, a=[1]),
        collections.defaultdict(),
        Queue([1, 2]),
        Queue([1], 3),
        collections.deque([1], maxlen=2),
        collections.Counter("aab"),
        Tagged([1, 2]),
        time.gmtime(0),
        torch.Size([2, 3]),
        types.MappingProxyType(collections.OrderedDict()),
        types.MappingProxyType({"a": [1]}),
        types.SimpleNamespace(a=1),
        [Shown(), PlainTuple((Shown(),))],
        {"k": Shown()},
    ]


@program(min_ops=1)
def texts_of_outside_containers():
    def f(x, values):
        y, out = x + 1, []
        for value in values:
            out += [repr(value), str(value), f"{value}", f"{value!r}", f"{value!s}", f"{value!a}"]
        return y, out

    return Case(f, vec(), _all())


@program(min_ops=1)
def texts_by_format_functions():
    def f(x, values):
        y, out = x + 1, []
        for value in values:
            out += ["%r" % (value,), "{}".format(value), "{!r}".format(value), format(value), ascii(value)]
        return y, out

    return Case(f, vec(), _all())


@program(min_ops=1)
def texts_of_made_containers():
    def f(x):
        out = []
        for value in (Ordered(a=3), Frozen(range(3)), PlainSet([1]), PlainList([1]), PlainTuple((1, 2)), Filled(int)):
            out += [repr(value), str(value), f"{value}"]
        for value in (collections.defaultdict(), time.gmtime(0), types.MappingProxyType(collections.OrderedDict())):
            out += [repr(value), str(value), f"{value}"]
        return x + 1, out, "%s" % Queue([1])

    return Case(f, vec())


@program(min_ops=1)
def texts_by_the_base_class():
    def f(x, values):
        ordered, default, tagged = values
        out = [dict.__repr__(ordered), dict.__repr__(default), list.__repr__(tagged), object.__str__(tagged)]
        return (
            x + 1,
            out,
            frozenset.__repr__(Frozen([1])),
            set.__repr__(PlainSet([1])),
            tuple.__repr__(PlainTuple((1,))),
        )

    return Case(f, vec(), [Ordered(a=1), Filled(int, a=1), Tagged([1])])


@program(min_ops=1)
def text_of_changed_containers():
    def f(x, ordered, chosen, default):
        ordered["z"] = 1
        chosen.add(5)
        default["n"] += 1
        return x + 1, repr(ordered), str(chosen), f"{default}"

    return Case(f, vec(), Ordered(a=1), PlainSet([1]), Filled(int, a=1))
