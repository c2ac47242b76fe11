"""Iterators of C's over objects of the program's own: `__iter__` and its kin run once, also where a break makes the iterator anew."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.python.programs import Case, program, vec

LOG: list[Any] = []


class Counts:
    """An iterator that tells of each question."""

    def __init__(self) -> None:
        self.n = 0

    def __iter__(self) -> Counts:
        LOG.append("iter")
        return self

    def __next__(self) -> int:
        self.n += 1
        LOG.append(("next", self.n))
        if self.n > 4:
            raise StopIteration
        return self.n


class OwnList(list):
    def __iter__(self) -> Iterator[Any]:
        LOG.append("iter")
        return super().__iter__()

    def __reversed__(self) -> Iterator[Any]:
        LOG.append("reversed")
        return super().__reversed__()

    def __len__(self) -> int:
        LOG.append("len")
        return 42

    def __getitem__(self, i: Any) -> Any:
        LOG.append(("item", i))
        return super().__getitem__(i)


class OwnTuple(tuple):
    def __iter__(self) -> Iterator[Any]:
        LOG.append("iter")
        return super().__iter__()

    def __len__(self) -> int:
        LOG.append("len")
        return 42


class OwnDict(dict):
    def __iter__(self) -> Iterator[Any]:
        LOG.append("iter")
        return super().__iter__()

    def __reversed__(self) -> Iterator[Any]:
        LOG.append("reversed")
        return super().__reversed__()


class OwnSet(set):
    def __iter__(self) -> Iterator[Any]:
        LOG.append("iter")
        return super().__iter__()


class ByIndex:
    def __getitem__(self, i: int) -> int:
        LOG.append(("item", i))
        if i > 2:
            raise IndexError
        return i


def over(make: Callable[[], Any]) -> Case:
    LOG.clear()

    def take(it: Any, out: list[Any]) -> None:
        LOG.append(type(it).__name__)
        for item in it:
            out.append(item)
            LOG.append(len(out))

    def f(x: torch.Tensor) -> Any:
        out: list[Any] = []
        take(make(), out)
        take(iter(make()), out)
        take(zip(make(), [1, 2, 3]), out)
        take(enumerate(make()), out)
        take(map(str, make()), out)
        take(filter(None, make()), out)
        x = x + len(out)
        take(itertools.chain([0], make()), out)
        take(itertools.chain.from_iterable([make()]), out)
        take(itertools.islice(make(), 1, 3), out)
        take(zip(itertools.cycle(make()), range(5)), out)
        take(itertools.accumulate(make(), lambda a, b: b), out)
        take(itertools.takewhile(lambda v: True, make()), out)
        take(itertools.dropwhile(lambda v: False, make()), out)
        take(itertools.filterfalse(lambda v: False, make()), out)
        take(itertools.compress(make(), [1, 1, 1]), out)
        take(itertools.starmap(str, zip(make())), out)
        take(itertools.zip_longest(make(), [5]), out)
        take(itertools.pairwise(make()), out)
        take(itertools.combinations(make(), 2), out)
        take(itertools.tee(make())[0], out)
        take(((k, list(g)) for k, g in itertools.groupby(make())), out)
        try:
            take(reversed(make()), out)
        except TypeError as error:
            LOG.append(str(error))
        return x * 2, out

    return Case(f, vec()).watching(LOG)


@program(min_ops=1)
def own_iterator() -> Case:
    return over(Counts)


@program(min_ops=1)
def own_list() -> Case:
    return over(lambda: OwnList([3, 4]))


@program(min_ops=1)
def own_tuple() -> Case:
    return over(lambda: OwnTuple((3, 4)))


@program(min_ops=1)
def own_set() -> Case:
    return over(lambda: OwnSet((3, 4)))


@program(min_ops=1)
def own_dict() -> Case:
    return over(lambda: OwnDict(a=3, b=4))


@program(min_ops=1)
def by_index() -> Case:
    return over(ByIndex)


@program(min_ops=1)
def tee_of_a_tee() -> Case:
    def f(x: torch.Tensor) -> Any:
        a, b = itertools.tee([1, 2, 3, 4])
        first = next(a)
        c, d = itertools.tee(a)
        x = x + first
        return x * next(c), c is a, next(a), list(b), list(d), list(c), itertools.tee(iter([1]), 0)

    return Case(f, vec())
