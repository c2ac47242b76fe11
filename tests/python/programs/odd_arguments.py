"""Arguments that built-in functions take, or refuse, and that nobody thinks of: very large numbers, read-only views, cells."""

import collections
import functools
import itertools
import operator
import sys
import types

import torch

from tests.python.programs import Case, program, vec


def _result(call):
    try:
        result = call()
    except Exception as error:
        return type(error).__name__, str(error)
    return result if type(result) in (int, bool, str, list, tuple, dict) else type(result).__name__


_LARGE = (2**63 - 2, 2**63, -(2**63) - 1, 2**70, True)


@program(min_ops=1)
def very_large_numbers():
    def f(x):
        y = x + 1
        out = []
        items = [1, 2, 3]
        for n in _LARGE:
            out += [
                _result(lambda: list(enumerate("abc", n))),
                _result(lambda: list(enumerate("abc", start=n))),
                _result(lambda: items[n]),
                _result(lambda: (1, 2)[n]),
                _result(lambda: items[n:]),
                _result(lambda: items.pop(n)),
                _result(lambda: items.insert(n, 0)),
                _result(lambda: items.index(2, n)),
                _result(lambda: list(itertools.islice(items, n))),
                _result(lambda: list(itertools.islice(items, n, None))),
                _result(lambda: list(itertools.islice(itertools.count(n), 3))),
                _result(lambda: next(itertools.repeat("a", n))),
                _result(lambda: "abc"[n]),
                _result(lambda: range(n)[1]),
                _result(lambda: len(range(n))),
                _result(lambda: round(1.5, n)),
            ]
        for n in (2**63, -1):
            out += [_result(lambda: len(itertools.tee(items, n)))]
        return y, out

    return Case(f, vec())


@program(min_ops=1)
def large_index_into_what_was_there_before():
    def f(x, items, pair, n):
        return x + 1, _result(lambda: items[n]), _result(lambda: pair[n]), _result(lambda: items[-n])

    return Case(f, vec(), [1, 2], (1, 2), 2**70)


class _Asked:
    def __init__(self):
        self.asked = []

    def __len__(self):
        self.asked.append("len")
        return 4

    def __getitem__(self, index):
        self.asked.append(index)
        if index == 1:
            raise IndexError
        return index * 10


class _Shrinks:
    called = False

    def __len__(self):
        if self.called:
            raise ZeroDivisionError
        self.called = True
        return 10

    def __getitem__(self, index):
        return index


@program(min_ops=1)
def reversed_asks_when_it_is_asked():
    def f(x):
        asked = _Asked()
        backwards = reversed(asked)
        first = next(backwards)
        seen = list(asked.asked)
        rest = list(backwards)
        hint = _result(lambda: operator.length_hint(reversed(_Shrinks())))
        types_ = [type(reversed(kind)).__name__ for kind in ([1], (1,), "a", range(1), _Asked())]
        return x + 1, first, seen, rest, asked.asked, hint, types_, next(backwards, "end")

    return Case(f, vec())


_OF_DICT = (
    "get",
    "__getitem__",
    "__contains__",
    "__len__",
    "__iter__",
    "keys",
    "copy",
    "__repr__",
    "__eq__",
    "pop",
    "update",
)


@program()
def methods_of_dict_on_a_read_only_view():
    def f(x, given):
        out = []
        for view in (types.MappingProxyType({"a": 1}), given):
            for name in _OF_DICT:
                method = getattr(dict, name)
                out += [_result(lambda: method(view)), _result(lambda: method(view, "a"))]
                out += [_result(lambda: getattr(view, name)("a") if name not in ("keys", "copy") else 0)]
            out += [
                _result(lambda: view.__ior__({})),
                _result(lambda: type("A", (), view)),
                _result(lambda: view | {"b": 1}),
            ]
        return x + 1, out

    return Case(f, vec(), types.MappingProxyType({"a": 1}))


class _Zero:
    def plain(self):
        return super().__repr__ is not None

    def with_a_cell(self):
        def inner():
            return self

        return super().__repr__ is not None, inner() is self


@program(min_ops=1)
def super_with_a_cell_for_self():
    cell = (lambda y: lambda: y)(_Zero()).__closure__[0]

    def f(x):
        return x + 1, _result(lambda: _Zero.plain(cell)), _Zero().plain(), _Zero().with_a_cell()

    return Case(f, vec())


@program(min_ops=1)
def dir_of_what_has_its_own():
    def f(x):
        try:
            raise IndexError
        except IndexError as error:
            names = dir(error.__traceback__)
        return x + 1, names, "get" in dir({}), "exit" in dir(types)

    return Case(f, vec())


class _Pair(tuple):
    pass


_Named = collections.namedtuple("_Named", "a b")


@program(min_ops=1)
def plain_results_of_kinds_of_tuples():
    def f(x, pair, named):
        out = []
        for items in (pair, named, _Pair((3, 4)), _Named(3, 4)):
            for result in (items[:], items[0:2], items * 1, 1 * items, items * True, items + (), () + items):
                out += [type(result).__name__, result, result is items]
        return x + 1, out

    return Case(f, vec(), _Pair((1, 2)), _Named(1, 2))


class _Text(str):
    pass


@program(min_ops=1)
def wrong_numbers_and_kinds_of_arguments():
    def f(x, items):
        calls = (
            lambda: sum(["a"], ""),
            lambda: sum(["a"], _Text()),
            lambda: sum([b"a"], b""),
            lambda: sum(items, 1, 2),
            lambda: list(itertools.compress(items, items, items)),
            lambda: next(itertools.count(1, 2, 3)),
            lambda: next(itertools.repeat(1, 2, 3)),
            lambda: operator.length_hint(items, "a"),
            lambda: dict.popitem(collections.OrderedDict(a=1), True),
            lambda: functools.reduce(max, 3),
            lambda: list(itertools.product(_NoLength())),
            lambda: int.__repr__(True),
            lambda: object.__str__("a"),
            lambda: list.__str__("a"),
            lambda: range.__len__([]),
            lambda: range.__contains__([1], 1),
            lambda: map.__next__([]),
            lambda: zip.__next__(iter([])),
            lambda: filter.__iter__([]),
            lambda: enumerate.__next__(zip([1], [2])),
        )
        return x + 1, [_result(call) for call in calls]

    return Case(f, vec(), [1, 2])


class _NoLength:
    def __len__(self):
        return -1

    def __getitem__(self, index):
        raise IndexError


@program()
def deep_groups_of_exceptions():
    def f(x):
        error = TypeError(1)
        for _ in range(60):
            error = ExceptionGroup("group", [error])
        depth = 0
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
            depth += 1
        return x + 1, depth

    return Case(f, vec())


@program(min_ops=1)
def containers_that_take_a_tensor_in_place():
    def f(x, items, queue, several):
        same = items
        items += x
        also = several
        several *= torch.tensor(2)
        first = queue
        queue += x
        return x + 1, items is same, items, several is also, several, queue is first, list(queue)

    return Case(f, vec(2), [1], collections.deque([1]), [1, 2])


@program()
def words_for_what_cannot_be_unpacked():
    def f(x, value):
        said = []
        for unpack in (_into_two, _into_rest):
            try:
                unpack(value)
            except TypeError as error:
                said.append(str(error))
        return said, x + len(said)

    return Case(f, vec(), 2.5).changing(vec(), None).then_call(vec(), 3.5).then_call(vec(), object())


def _into_two(value):
    a, b = value
    return a, b


def _into_rest(value):
    a, *b = value
    return a, b


@program()
def words_for_numbers_that_are_no_iterables():
    def f(x, value):
        said = []
        for make in (list, tuple, dict, set, iter, sum, sorted):
            try:
                make(value)
            except TypeError as error:
                said.append(str(error))
        return said, x * value

    return Case(f, vec(), 2.5).then_call(vec(), 3.5).then_call(vec(), 4.5).then_call(vec(), 4).then_call(vec(), 5)


@program()
def words_of_operators_in_place():
    def f(x, value):
        said = []
        try:
            value += None
        except TypeError as error:
            said.append(str(error))
        try:
            value **= "a"
        except TypeError as error:
            said.append(str(error))
        try:
            operator.ior(value, "a")
        except TypeError as error:
            said.append(str(error))
        return said, x + 1

    return Case(f, vec(), 2).changing(vec(), None).then_call(vec(), 2.5).then_call(vec(), 3.5).then_call(vec(), "s")


class _Both:
    """A number by __index__, and a sequence: torch takes it for the latter."""

    def __index__(self):
        return 0

    def __len__(self):
        return 1

    def __getitem__(self, i):
        if i > 0:
            raise IndexError(i)
        return 1


@program()
def index_of_a_tensor_that_is_a_sequence_too():
    def f(x, index):
        return x[index] + 1, [7, 8][index], x[index:] * 2

    return Case(f, vec(), _Both())


@program()
def locals_and_line_of_the_frame_itself():
    def f(x):
        here = sys._getframe()
        y = x * 2
        names = sorted(here.f_locals)
        first = here.f_lineno - here.f_code.co_firstlineno
        z = y + 1

        second = here.f_lineno - here.f_code.co_firstlineno
        return names, first, second, sorted(here.f_locals), z

    return Case(f, vec())


@program()
def numbers_of_graphs_as_keys():
    table = {}

    def f(x, n):
        table.clear()
        y = x * n
        try:
            first = table.setdefault(n, y)
            second = table.setdefault(n, None) is first
            third = table.pop(n + 1, 7)
        except Exception as error:
            return type(error), error.args, sorted(table.items())
        return second, third

    case = Case(f, vec(), -1)
    for n in (1.5, 2.5, 3.5, 2, 3, 4):
        case = case.then_call(vec(), n)
    return case


@program(min_ops=1)
def what_tensor_operations_refuse():
    """Some have no node of their own, so that no graph would raise for them."""
    functional = torch.nn.functional

    def f(x, buffer):
        buffer.add_(1)
        y = x + buffer
        out = [
            _result(lambda: x.contiguous(None)),
            _result(lambda: x.float(None)),
            _result(lambda: x.flatten(None)),
            _result(lambda: x.clamp(0.5, y)),
            _result(lambda: torch.Tensor.add(1, x)),
            _result(lambda: torch.add(x, y, alpha=None)),
            _result(lambda: x.sum(keepdim=True)),
            _result(lambda: x.sum(dim=(0, 0))),
            _result(lambda: x.size(1.5)),
            _result(lambda: x.abs(1)),
            _result(lambda: x.abs(*[1])),
            _result(lambda: x.abs(wrong=1)),
            _result(lambda: torch.dot(x > 0, y > 0)),
            _result(lambda: torch.full((2,), 1j, dtype=torch.float32)),
            _result(lambda: functional.threshold(x)),
            _result(lambda: functional.avg_pool1d(x.view(1, 1, -1), [])),
            _result(lambda: functional.max_pool1d(x.view(1, 1, -1), [])),
            _result(lambda: functional.dropout(x, p=None)),
        ]
        buffer.mul_(2)
        return y, out

    return Case(f, vec(), vec())


@program(min_ops=1)
def sets_that_are_looked_for_in_sets():
    """A set stands for the frozenset of its elements there."""

    def f(x, known):
        y = x + 1
        out = [
            _result(lambda: known.remove({0})),
            _result(lambda: known.discard({0})),
            _result(lambda: {0} in known),
            _result(lambda: {1} in known),
            _result(lambda: {1}.remove({0})),
            _result(lambda: {frozenset([0])}.remove({0})),
            _result(lambda: known.add({0})),
        ]
        return y, out

    return Case(f, vec(), {2, frozenset([1])})
