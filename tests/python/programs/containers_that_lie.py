"""Subclasses of the built-in containers whose special methods lie: C goes by its own layout in some places and asks the class in others."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.python.programs import Case, program, vec

LOG: list[Any] = []


class Lies:
    def __iter__(self) -> Iterator[str]:
        LOG.append("iter")
        return iter(["zz"])

    def __len__(self) -> int:
        LOG.append("len")
        return 7

    def __contains__(self, key: Any) -> bool:
        LOG.append(("in", key))
        return True


class Table(Lies, dict):
    def __eq__(self, other: object) -> Any:
        LOG.append("eq")
        return "eq"

    __hash__ = None


class KeyedTable(Table):
    def keys(self) -> Any:
        LOG.append("keys")
        return ["a"]

    def __getitem__(self, key: Any) -> Any:
        LOG.append(("get", key))
        return 5


class Ordered(Lies, collections.OrderedDict):
    pass


class Count(Lies, collections.Counter):
    pass


class Elements(Lies, set):
    pass


class Items(Lies, list):
    def __getitem__(self, key: Any) -> Any:
        LOG.append(("get", key))
        return 5


class Row(Lies, tuple):
    def __getitem__(self, key: Any) -> Any:
        LOG.append(("get", key))
        return 5


def asked(make: Callable[[], Any], questions: list[Callable[[Any, torch.Tensor], Any]]) -> Case:
    """Each question about a container of the trace and one from outside, each anew."""
    LOG.clear()

    def answer(ask: Callable[[Any, torch.Tensor], Any], container: Any, x: torch.Tensor) -> Any:
        try:
            result = ask(container, x)
        except Exception as error:
            return type(error).__name__, str(error)
        return (type(result).__name__, list(result)) if isinstance(result, Iterator) else result

    def f(x: torch.Tensor, given: list[Any]) -> Any:
        out = []
        for ask, container in zip(questions, given):
            out.append(answer(ask, make(), x))
            out.append(answer(ask, container, x))
        return x + 1, out

    def arguments() -> tuple[torch.Tensor, list[Any]]:
        return vec(3), [make() for _ in questions]

    return Case(f, *arguments()).watching(LOG).then_call(*arguments())


_ABOUT_DICTS: list[Callable[[Any, torch.Tensor], Any]] = [
    lambda c, x: list(c.items()),
    lambda c, x: list(c.values()),
    lambda c, x: list(c.keys()),
    lambda c, x: list(c),
    lambda c, x: dict(c),
    lambda c, x: {**c},
    lambda c, x: c | {'c': 1},
    lambda c, x: {'c': 1} | c,
    lambda c, x: {} == c,
    lambda c, x: c == {},
    lambda c, x: c.copy(),
    lambda c, x: len(c),
    lambda c, x: 'q' in c,
    lambda c, x: sorted(c.items()),
    lambda c, x: dict(c),
    lambda c, x: {**c},
    lambda c, x: (lambda **q: q)(**c),
    lambda c, x: (lambda **q: q)(**c),
    lambda c, x: {}.update(c),
    lambda c, x: [*c],
    lambda c, x: set(c),
    lambda c, x: reversed(c),
    lambda c, x: c.keys() & {'a'},
    lambda c, x: c.keys() | {'c'},
    lambda c, x: c.items() == {'a': 1, 'b': 2}.items(),
    lambda c, x: 'a' in c.keys(),
    lambda c, x: 1 in c.values(),
    lambda c, x: len(c.values()),
    lambda c, x: bool(c),
    lambda c, x: c.pop('a'),
    lambda c, x: c.popitem(),
    lambda c, x: c.get('a'),
    lambda c, x: c.setdefault('c', 4),
    lambda c, x: c.update(e=1) or list(c.items()),
    lambda c, x: repr(dict(c.items())),
    lambda c, x: type(c).fromkeys('ab') == 1,
    lambda c, x: collections.ChainMap(c)['a'],
    lambda c, x: collections.Counter(c),
    lambda c, x: collections.OrderedDict(c),
    lambda c, x: frozenset(c),
    lambda c, x: list(c.items())[0][1] + x,
    lambda c, x: zip(c.values(), c),
    lambda c, x: max(c.values()),
    lambda c, x: sum(c.values()),
    lambda c, x: c.__or__({'x': 1}),
]  # fmt: skip

_ABOUT_SETS: list[Callable[[Any, torch.Tensor], Any]] = [
    lambda c, x: list(c),
    lambda c, x: set(c),
    lambda c, x: frozenset(c),
    lambda c, x: c | {3},
    lambda c, x: {3} | c,
    lambda c, x: c & {1},
    lambda c, x: {1} & c,
    lambda c, x: c - {1},
    lambda c, x: {1} - c,
    lambda c, x: c ^ {1},
    lambda c, x: c <= {1,2},
    lambda c, x: c.issubset({1,2}),
    lambda c, x: {1}.issubset(c),
    lambda c, x: {1}.issuperset(c),
    lambda c, x: {1, 2}.union(c),
    lambda c, x: {1}.update(c),
    lambda c, x: c.copy(),
    lambda c, x: len(c),
    lambda c, x: 1 in c,
    lambda c, x: sorted(c),
    lambda c, x: c == {1, 2},
    lambda c, x: {1, 2} == c,
    lambda c, x: c.isdisjoint({1}),
    lambda c, x: {1}.isdisjoint(c),
    lambda c, x: {*c},
    lambda c, x: [*c],
    lambda c, x: tuple(c),
    lambda c, x: bool(c),
    lambda c, x: c.pop() in (1, 2),
    lambda c, x: {'a': 1}.keys() & c,
    lambda c, x: dict.fromkeys(c, 1),
    lambda c, x: [1].extend(c),
    lambda c, x: min(c),
    lambda c, x: any(c),
    lambda c, x: c.add(9) or set.__len__(c),
    lambda c, x: hash(frozenset(c)),
    lambda c, x: c.union(c),
    lambda c, x: c.__or__({4}),
]  # fmt: skip

_ABOUT_LISTS: list[Callable[[Any, torch.Tensor], Any]] = [
    lambda c, x: list(c),
    lambda c, x: c + [3],
    lambda c, x: [3] + c,
    lambda c, x: c * 2,
    lambda c, x: c == [1,2],
    lambda c, x: [1,2] == c,
    lambda c, x: [0].extend(c),
    lambda c, x: tuple(c),
    lambda c, x: c[0],
    lambda c, x: c[:],
    lambda c, x: c[-1],
    lambda c, x: len(c),
    lambda c, x: 1 in c,
    lambda c, x: c.index(2),
    lambda c, x: c.count(1),
    lambda c, x: c.copy(),
    lambda c, x: sorted(c),
    lambda c, x: c.sort() or list.__len__(c),
    lambda c, x: c.reverse() or list.__len__(c),
    lambda c, x: reversed(c),
    lambda c, x: [*c],
    lambda c, x: {*c},
    lambda c, x: (lambda *a: a)(*c),
    lambda c, x: max(c),
    lambda c, x: sum(c),
    lambda c, x: ','.join(c),
    lambda c, x: c.pop(),
    lambda c, x: c.insert(0, 5) or list.__len__(c),
    lambda c, x: c < [3],
    lambda c, x: c.extend(c) or list.__len__(c),
    lambda c, x: c.__iadd__([4]) is c,
    lambda c, x: zip(c, c),
    lambda c, x: enumerate(c),
    lambda c, x: map(str, c),
    lambda c, x: [a for a in c],
    lambda c, x: dict(enumerate(c)),
    lambda c, x: bool(c),
    lambda c, x: list.__getitem__(c, 0),
    lambda c, x: '%s' % c,
    lambda c, x: repr(c),
    lambda c, x: c.remove(1) or list.__len__(c),
    lambda c, x: str(c),
    lambda c, x: f'{c}',
    lambda c, x: [i for i in reversed(c)],
    lambda c, x: list.__contains__(c, 1),
    lambda c, x: set(c),
    lambda c, x: c.clear() or list.__len__(c),
    lambda c, x: all(c),
    lambda c, x: min(c, default=0),
    lambda c, x: slice(*c),
    lambda c, x: range(*c),
]  # fmt: skip

_ABOUT_TUPLES: list[Callable[[Any, torch.Tensor], Any]] = [
    lambda c, x: list(c),
    lambda c, x: c + (3,),
    lambda c, x: (3,) + c,
    lambda c, x: c * 2,
    lambda c, x: c == (1,2),
    lambda c, x: (1,2) == c,
    lambda c, x: tuple(c),
    lambda c, x: c[0],
    lambda c, x: c[:],
    lambda c, x: len(c),
    lambda c, x: 1 in c,
    lambda c, x: c.index(2),
    lambda c, x: c.count(1),
    lambda c, x: hash(c),
    lambda c, x: (lambda *a: a)(*c),
    lambda c, x: sorted(c),
    lambda c, x: reversed(c),
    lambda c, x: '%s %s' % c,
    lambda c, x: max(c),
    lambda c, x: {c: 1},
    lambda c, x: isinstance(c, tuple),
    lambda c, x: c < (3,),
    lambda c, x: [*c],
    lambda c, x: zip(c),
    lambda c, x: bool(c),
    lambda c, x: tuple.__len__(c),
    lambda c, x: str(c),
    lambda c, x: c.__add__((4,)),
    lambda c, x: any(c),
    lambda c, x: torch.zeros(c),
    lambda c, x: x.expand(c),
    lambda c, x: dict([c]),
    lambda c, x: str.format('{} {}', *c),
    lambda c, x: 'ab'.startswith(c),
]  # fmt: skip


@program(min_ops=1)
def table() -> Case:
    return asked(lambda: Table(a=1, b=2), _ABOUT_DICTS)


@program(min_ops=1)
def keyed_table() -> Case:
    return asked(lambda: KeyedTable(a=1, b=2), _ABOUT_DICTS)


@program(min_ops=1)
def ordered() -> Case:
    return asked(lambda: Ordered(a=1, b=2), _ABOUT_DICTS)


@program(min_ops=1)
def count() -> Case:
    return asked(lambda: Count(a=1, b=2), _ABOUT_DICTS)


@program(min_ops=1)
def elements() -> Case:
    return asked(lambda: Elements([1, 2]), _ABOUT_SETS)


@program(min_ops=1)
def items() -> Case:
    return asked(lambda: Items([1, 2]), _ABOUT_LISTS)


@program(min_ops=1)
def row() -> Case:
    return asked(lambda: Row((1, 2)), _ABOUT_TUPLES)
