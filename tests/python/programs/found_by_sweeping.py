"""What a sweep over the public surface and programs of idioms have found: checks by what is no class, names that are no str, iterators at their end."""

import abc
import collections
import itertools
import types
import weakref

import torch

from tests.python.programs import Case, program, vec

LOG = []


def _said(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


class _Claims:
    def __init__(self, claimed):
        self.__dict__["claimed"] = claimed

    @property
    def __class__(self):
        return self.claimed


class _ClaimsByReading:
    def __getattribute__(self, name):
        LOG.append(name)
        return int if name == "__class__" else object.__getattribute__(self, name)


class _Abstract(abc.ABC):  # noqa: B024
    pass


_Abstract.register(int)


@program(full=1)
def instances_by_what_they_say_of_themselves():
    def f(x):
        claims, reads = _Claims(int), _ClaimsByReading()
        return (
            x + 1, isinstance(claims, int), isinstance(claims, _Claims), isinstance(claims, (str, int)), isinstance(claims, bool),
            isinstance(claims, _Abstract), claims.__class__, type(claims) is _Claims, isinstance(reads, int), isinstance(reads, _Abstract),
            isinstance(_Claims(3), int),
        )  # fmt: skip

    LOG.clear()
    return Case(f, vec()).watching(LOG)


@program(min_ops=1)
def instances_through_a_weak_proxy():
    class Own:
        pass

    def f(x):
        own = Own()
        proxy = weakref.proxy(own)
        return x + 1, isinstance(proxy, Own), isinstance(proxy, int)

    return Case(f, vec())


class _Asked:
    def __init__(self, n):
        self.n = n

    def __instancecheck__(self, value):
        LOG.append(("instance", value))
        return value == self.n

    def __subclasscheck__(self, value):
        LOG.append(("subclass", value))
        return [value]


@program(full=1)
def checks_by_an_object_with_a_word_of_its_own():
    outside = _Asked(3)

    def f(x):
        made = _Asked(4)
        return (
            x + 1, isinstance(3, outside), isinstance(4, outside), isinstance(4, made), isinstance(4, (str, (made,))), issubclass(int, made),
            issubclass(str, (int, outside)),
        )  # fmt: skip

    LOG.clear()
    return Case(f, vec()).watching(LOG)


@program(min_ops=1)
def checks_by_what_is_no_class():
    class Bases:
        __bases__ = ()

    def f(x, other):
        out = []
        for info in (
            3,
            [int],
            "a",
            (int, 3),
            None,
            x,
            x + 1,
            {},
            (str, (x,)),
            iter([1]),
            lambda: 1,
            other,
            list[int],
            int | str,
            int | None,
        ):
            out += [_said(lambda info=info: isinstance("q", info)), _said(lambda info=info: issubclass(str, info))]
        return x + 1, out

    return Case(f, vec(), Bases())


@program()
def names_that_are_no_strings():
    class Plain:
        pass

    def f(x, name):
        plain = Plain()
        out = []
        for odd in (3, None, 1.5, (1,), name, x):
            out += [
                _said(lambda odd=odd: setattr(plain, odd, 1)),
                _said(lambda odd=odd: delattr(plain, odd)),
                _said(lambda odd=odd: object.__setattr__(plain, odd, 1)),
                _said(lambda odd=odd: object.__delattr__(plain, odd)),
            ]
        return x + 1, out, vars(plain)

    return Case(f, vec(), b"a").changing(vec(), float("nan"))


@program(min_ops=1)
def names_that_are_no_strings_of_containers():
    def f(x, name, ordered, counter, chain):
        out = []
        for held in (ordered, counter, chain, [1], range(3), torch.Size([1])):
            out += [_said(lambda held=held: held.__setattr__(name, 1)), _said(lambda held=held: held.__delattr__(name))]
            out += [_said(lambda held=held: delattr(held, name)), _said(lambda held=held: setattr(held, name, 1))]
        return x + 1, out

    made = collections.OrderedDict(a=1), collections.Counter("ab"), collections.ChainMap({"a": 1})
    return Case(f, vec(), [1], *made).changing(vec(), 2.5, *made)


def _spent():
    table, ordered = {"a": 1, "b": 2}, collections.OrderedDict(a=1)
    iterators = [
        iter([1]), iter((1,)), iter("ab"), iter(b"ab"), iter(bytearray(b"a")), iter({1, 2}), iter(table), iter(table.values()),
        iter(table.items()), iter(ordered), reversed([1]), reversed((1,)), reversed(table), reversed(table.items()),
    ]  # fmt: skip
    for iterator in iterators:
        list(iterator)
    return iterators


def _spent_over_others():
    iterators = [
        iter(range(2)), iter(collections.deque([1])), zip([1]), enumerate([1]), map(str, [1]), filter(None, [1]), itertools.chain([1]), itertools.islice([1], 1), itertools.accumulate([1]),
        itertools.starmap(max, [(1, 2)]), itertools.takewhile(bool, [1]), itertools.dropwhile(bool, [0]), itertools.filterfalse(bool, [0]),
        itertools.compress([1], [1]), itertools.zip_longest([1], [2]), itertools.pairwise([1, 2]), *itertools.tee([1]), itertools.repeat(1, 2),
        itertools.product([1]), itertools.permutations([1]), itertools.combinations([1], 1), itertools.combinations_with_replacement([1], 1),
    ]  # fmt: skip
    for iterator in iterators:
        list(iterator)
    return iterators


@program(full=1)
def iterators_at_their_end_keep_their_types():
    def f(x):
        iterators = _spent()
        return x + 1, [next(iterator, "end") for iterator in iterators], iterators

    return Case(f, vec())


@program(min_ops=1)
def iterators_over_others_at_their_end_keep_their_types():
    def f(x):
        iterators = _spent_over_others()
        y = x + 1
        print("leaves")
        return (
            y * 2,
            [type(iterator).__name__ for iterator in iterators],
            [next(iterator, "end") for iterator in iterators],
        )

    return Case(f, vec())


@program(full=1)
def iterators_over_nothing_of_the_callers():
    def f(x, table):
        over = iter(table), iter(table.values()), iter(table.items()), reversed(table)
        return x + 1, [next(iterator, None) for iterator in over], over

    return Case(f, vec(), {}).then(lambda case: case.args[1].update(a=1))


@program(full=1)
def a_read_only_view_is_given_back():
    def f(x, view):
        return x + view["a"], view, [view]

    return Case(f, vec(), types.MappingProxyType({"a": 1}))


@program(min_ops=1)
def tensors_set_to_one_another():
    def f(x):
        return (
            x + 1,
            x.is_set_to(x),
            x.is_set_to(x.clone()),
            x.is_set_to(x.view(-1)),
            x.is_set_to(x[:2]),
            (x + 1).is_set_to(x),
        )

    return Case(f, vec())


@program(min_ops=1)
def functions_over_elements():
    def f(x, other):
        y = x.clone()
        y.apply_(lambda value: value + 1)
        y.map_(other, lambda a, b: a * b)
        return y, y.storage_type()

    return Case(f, vec(), vec())


@program(full=1)
def exceptions_that_take_their_arguments_apart():
    def f(x):
        y = x + 1
        return (
            y,
            _said(lambda: SyntaxError("s", ("file", 1, 2, "text")).lineno),
            _said(lambda: OSError(2, "none").strerror),
        )

    return Case(f, vec())


@program(min_ops=1)
def exceptions_that_take_tensors_apart():
    def f(x):
        y = x + 1
        return (
            y,
            _said(lambda: SyntaxError("s", y.sum())),
            _said(lambda: TabError((2, 2), y)),
            _said(lambda: UnicodeDecodeError("a", y, 1, 2, "r")),
        )

    return Case(f, vec())


@program(min_ops=1)
def arguments_too_many():
    def f(x):
        out = _said(lambda: enumerate([1], 2, 3)), _said(lambda: torch.overrides.has_torch_function_unary(x, x))
        return x + 1, out, _said(lambda: torch.overrides.has_torch_function((x,), a=1))

    return Case(f, vec())


def _echo(t, log):
    while True:
        try:
            yield t
        except ValueError:
            log.append("value")
        except GeneratorExit:
            log.append("exit")
            raise
        finally:
            log.append("finally")


def _tidy(t, log):
    try:
        try:
            yield t
        except ValueError:
            log.append("value")
    finally:
        log.append("outer")


@program(min_ops=1)
def generators_that_see_their_end_in_a_later_clause():
    def f(x):
        log = []
        for make in (_echo, _tidy):
            generator = make(x + 1, log)
            next(generator)
            log.append("before")
            generator = None
            log.append("after")
        return x + 2, log

    return Case(f, vec())


class _Equal:
    def __eq__(self, other):
        LOG.append("asked")
        return True

    __hash__ = None


@program(min_ops=1)
def tuples_of_other_lengths_compare_their_items_first():
    def f(x):
        a, b = _Equal(), _Equal()
        out = [
            (a, 1) == (b,),
            (a, 1) != (b,),
            (a,) == (b, 1),
            [a] == [b, 1],
            [a] != [b, 1],
            (1, a) < (1, b, 3),
            [1, a] < [1, b, 3],
        ]
        return (
            x + 1,
            out,
            _said(lambda: (1, x, 3) == (1, 2)),
            _said(lambda: (x,) != (2, 3)),
            _said(lambda: [x] == [1, 2]),
        )

    LOG.clear()
    return Case(f, vec()).watching(LOG)
