"""Programs as people write them, each with one thing that went wrong once."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import operator
from typing import Any

import torch

from tests.python.programs import Case, program


def _nodes(tensor: torch.Tensor) -> list[str]:
    """The functions that a tensor came from, the last one first."""
    names = []
    node: Any = tensor.grad_fn
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return names


@program()
def functions_of_tensors_written_before_an_index_out_of_range() -> Case:
    def f(base: torch.Tensor, plain: torch.Tensor, leaf: torch.Tensor, index: torch.Tensor) -> Any:
        row = base[1]
        try:
            base.neg_()
            row.mul_(2)
            plain.sub_(leaf.sum())
            rows = base[:, index]
        except IndexError as error:
            return str(error), _nodes(base), _nodes(row), _nodes(plain)
        return rows, _nodes(base), _nodes(row), _nodes(plain)

    def arguments(index: int) -> tuple[torch.Tensor, ...]:
        leaf = torch.ones(2, 4, requires_grad=True)
        return leaf * 3, torch.zeros(4), leaf, torch.tensor([index])

    return Case(f, *arguments(1)).changing(*arguments(9)).then_call(*arguments(9)).then_call(*arguments(2))


@program()
def keys_that_are_tuples_and_are_missing() -> Case:
    def f(x: torch.Tensor, table: dict[Any, Any]) -> list[Any]:
        found = []
        error = KeyError(3)
        for key in (x.shape, (1, 2), (), error):
            for look in (lambda k: {}[k], lambda k: {}.pop(k), lambda k: table[k], lambda k: table.pop(k)):
                try:
                    look(key)
                except KeyError as raised:
                    found.append((raised.args, str(raised)))
            try:
                del table[key]
            except KeyError as raised:
                found.append(raised.args)
        return found

    return Case(f, torch.ones(3), {"a": 1})


@program()
def the_largest_of_many_numbers_as_a_size() -> Case:
    def f(x: torch.Tensor, items: list[int]) -> torch.Tensor:
        return torch.ones(max(items), min(items)) + x.sum()

    case = Case(f, torch.ones(4), [4, 4, 8])
    for items in ([9, 2, 4], [5, 3, 2], [1, 2, 6]):
        case.then_call(torch.ones(4), items)
    return case


class _Slotted:
    __slots__ = ("value",)

    @functools.cached_property
    def late(self) -> int:
        return 1


class _Unnamed:
    pass


_Unnamed.late = functools.cached_property(lambda self: 3)  # type: ignore[attr-defined]


class _Base:
    @functools.cached_property
    def size(self) -> int:
        return 6


class _Derived(_Base):
    @functools.cached_property
    def size(self) -> int:
        return super().size + 1


@dataclasses.dataclass(frozen=True)
class _Frozen:
    value: torch.Tensor

    @functools.cached_property
    def twice(self) -> torch.Tensor:
        return self.value * 2


def _own_class() -> type:
    class cached_property:  # noqa: N801
        def __init__(self, function: Any) -> None:
            self.func = function
            self.attrname = "kept"

        def __get__(self, owner: Any, kind: Any = None) -> Any:
            return self.func(owner) * 2

    return cached_property


class _OwnProperty:
    @_own_class()
    def value(self) -> int:
        return 5


def _said(function: Any) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


@program()
def cached_properties_without_a_place_and_of_other_classes() -> Case:
    def f(x: torch.Tensor) -> Any:
        derived, frozen, own = _Derived(), _Frozen(x), _OwnProperty()
        sizes = [derived.size, derived.size, vars(derived), _Base.size.__get__(derived)]
        kept = frozen.twice is frozen.twice
        refused = [_said(lambda: _Slotted().late), _said(lambda: _Unnamed().late)]
        return frozen.twice, kept, sizes, refused, own.value, own.value, vars(own)

    return Case(f, torch.ones(3))


class OpOverload:
    def __call__(self, value: torch.Tensor) -> torch.Tensor:
        LOG.append("called")
        return value * 2


class ABCMeta(type):
    def __instancecheck__(cls, value: Any) -> bool:
        LOG.append("asked")
        return True


class _Asks(metaclass=ABCMeta):
    pass


LOG: list[str] = []


@program()
def classes_named_as_torchs_and_pythons_own() -> Case:
    LOG.clear()

    def f(x: torch.Tensor) -> Any:
        return OpOverload()(x), isinstance(_Asks(), _Asks), isinstance(1, _Asks)

    return Case(f, torch.ones(3)).watching(LOG)


@program()
def calls_of_repr_that_are_refused() -> Case:
    def f(x: torch.Tensor, show: Any) -> Any:
        calls = (lambda: show(), lambda: show(1, 2), lambda: show(obj=1), lambda: show(1))
        return x + 1, [_said(call) for call in calls]

    return Case(f, torch.ones(3), repr)


@program()
def nans_that_are_one_object_and_that_are_not() -> Case:
    def f(x: torch.Tensor, one: float, many: list[float]) -> Any:
        fresh = [one]
        found = one in many, many == [one], many.count(one), one is many[0], {one: 1}.get(many[0])
        torch._dynamo.graph_break()
        return x + 1, found, one in fresh, fresh[0] is one

    first, second = float("nan"), float("nan")
    case = Case(f, torch.ones(3), first, [first]).changing(torch.ones(3), first, [second])
    for one, other in ((first, second), (second, second), (second, first), (float("nan"), second), (first, first)):
        case.then_call(torch.ones(3), one, [other])
    return case


@program()
def a_hook_of_a_view_that_is_written_behind_it() -> Case:
    def f(p: torch.Tensor, log: list[Any]) -> torch.Tensor:
        p.register_hook(lambda gradient: log.append(gradient.tolist()))
        with torch.no_grad():
            p.unsqueeze(0).mul_(2)
        return p * 3

    def call_f(leaf: torch.Tensor) -> Any:
        log: list[Any] = []
        view = leaf.unsqueeze(0).squeeze(0)
        f(view, log).sum().backward()
        return log, leaf.grad, view

    return Case(call_f, torch.ones(4, requires_grad=True))


@program()
def deques_written_before_and_inside_of_a_loop_with_a_break() -> Case:
    def f(x: torch.Tensor, items: Any, write: Any) -> Any:
        write(items)
        seen = []
        for item in items:
            if x.sum() > 0:
                seen.append(item)
            items[0] = 7
        own = collections.deque(range(3))
        pairs = enumerate(own)
        first = next(pairs)
        torch._dynamo.graph_break()
        own[2] = x
        return seen, items, first, list(pairs)

    def more(items: Any) -> None:
        items.append(5)

    def turned(items: Any) -> None:
        items.rotate(1)
        items.pop()

    case = Case(f, torch.ones(2), collections.deque([1, 2]), more)
    return case.changing(torch.ones(2), collections.deque([1, 2, 3], 3), turned)


def _compared(left: int, right: int) -> int:
    return left - right


_KEY = functools.cmp_to_key(_compared)
_FIRST_KEY = _KEY(1)


@program()
def keys_of_cmp_to_key_from_inside_and_outside() -> Case:
    def f(x: torch.Tensor) -> Any:
        own = functools.cmp_to_key(_compared)
        one = own(1)
        torch._dynamo.graph_break()
        two = own(2)
        orders = [one < two, two > one, _FIRST_KEY < _KEY(2), one == _FIRST_KEY, sorted([3, 1, 2], key=own)]
        return x + 1, orders, sorted([3, 1], key=_KEY), _said(lambda: one < 3)

    return Case(f, torch.ones(3))


@program()
def names_that_functions_of_pythons_do_not_take() -> Case:
    def f(x: torch.Tensor) -> Any:
        calls = (
            lambda: str(zz=[1]),
            lambda: sum([1, 2], zz=1),
            lambda: type(zz=1),
            lambda: enumerate([1], zz=1),
            lambda: itertools.accumulate([1], zz=1),
            lambda: [1].index(value=1),
            lambda: (1,).index(value=1),
            lambda: collections.deque([1]).index(value=1),
            lambda: dict.fromkeys(value=1),
            lambda: operator.truth(),
            lambda: str(object=3),
            lambda: sum([1, 2], start=1),
        )
        return x + 1, [_said(call) for call in calls]

    return Case(f, torch.ones(3))


@program()
def a_call_that_was_asked_for_its_error_and_has_none() -> Case:
    def f(x: torch.Tensor) -> Any:
        table = collections.OrderedDict(a=1, b=2)
        return x + 1, table.pop(key="a"), list(table)

    return Case(f, torch.ones(3))
