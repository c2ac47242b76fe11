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


# ---- texts of tensors that nobody reads


def checked(condition, message, kind=ValueError):
    """A check as libraries write them: the message is made by the caller, and read where the check fails."""

    def late():
        return message

    if condition is False:
        raise kind(late())


@program(full=3)
def message_of_a_check():
    def f(x):
        count = (x > 0).sum()
        text = f"{count} of {x.shape[0]} are positive: {x!r}"
        checked(x.dim() == 1, text)
        checked(x.dim() == 1, f"again {count}!")
        return x * 2, count

    return Case(f, vec()).then_call(vec() + 1)


@program(full=2)
def text_that_is_kept_and_dropped():
    def f(x):
        text = f"{x.sum()}"
        other = text
        if text is None or other is None:
            return x
        text = other = None
        return x * 2 + 1

    return Case(f, vec()).then_call(vec() + 1)


@program(min_ops=2)
def text_that_is_read_later():
    def f(x, log):
        text = f"sum {x.sum()}"
        y = x * 2
        checked(True, text)
        log.append(text)
        return y + len(text)

    log = []
    return Case(f, vec(), log).then_call(vec() + 1, log).watching(log)


@program(min_ops=2)
def text_in_an_exception_of_the_trace():
    def f(x):
        y = x * 2
        text = f"sum {y.sum()}"
        try:
            checked(False, text)
        except ValueError as error:
            return y + 1, str(error)

    return Case(f, vec()).then_call(vec() + 1)


@program(min_ops=2)
def text_among_other_arguments():
    def joined(*parts, **named):
        return " ".join(parts) + "".join(named)

    def f(x):
        text = f"{x.sum()}"
        return x * 2 + 1, joined(text, "and", other=text)

    return Case(f, vec()).then_call(vec() + 1)


@program(min_ops=2)
def text_that_a_break_leaves_behind():
    def f(x, log):
        text = f"{x.sum()}"
        y = x * 2
        log.append(print())
        return y + 1 if text else y

    log = []
    return Case(f, vec(), log).watching(log)


@program(min_ops=2)
def text_that_a_closure_holds():
    def f(x):
        text = f"{x.sum()}"

        def late():
            return text + "!"

        return x * 2 + 1, late

    def call(x):
        y, late = f(x)
        return y, late()

    return Case(call, vec()).then_call(vec() + 1)


@program(full=3)
def check_of_all_elements():
    def f(x):
        y = x * 2
        torch._check_tensor_all(y < 100, lambda: f"too large: {y}")
        return y + 1

    return Case(f, vec()).then_call(vec() + 1).then_call(vec() + 1000)
