"""Loops with a break inside: behind it the iterator is one that existed before, and the rest of the loop is captured."""

import itertools

import torch

from tests.python.programs import Case, program, vec


def _leave():
    print(end="")


def _three():
    return [vec() + i for i in range(3)]


@program(graphs=2, min_ops=4)
def rest_of_a_list():
    def f(x, items):
        for n, one in enumerate(items):
            x = x * one
            if n == 0:
                _leave()
            x = x + 1
        return x

    return Case(f, vec(), [vec() + i for i in range(4)]).changing(vec(), [vec(), vec()])


@program(graphs=2)
def rest_of_a_zip():
    def f(x, items):
        total = 0
        for a, b in zip(items, items[1:]):
            x = x + a * b
            if total == 0:
                _leave()
            total += 1
        return x, total

    return Case(f, vec(), _three()).changing(vec(), _three() + _three())


@program(graphs=2)
def rest_of_a_dict():
    def f(x, table):
        keys = []
        for key, value in table.items():
            x = x + value
            if not keys:
                _leave()
            keys.append(key)
        return x, keys

    return Case(f, vec(), {"a": vec(), "b": vec() + 1, "c": vec() + 2}).changing(vec(), {"b": vec()})


@program(graphs=2)
def rest_of_values_and_of_a_reversed_list():
    def f(x, table, items):
        left = False
        for value in table.values():
            x = x + value
            if not left:
                _leave()
                left = True
        for item in reversed(items):
            x = x * item
        return x

    return Case(f, vec(), {"a": vec(), "b": vec() + 1}, _three()).changing(vec(), {}, [])


@program()
def reversed_list_left_inside():
    def f(x, items):
        for item in reversed(items):
            x = x * item
            _leave()
        return x

    return Case(f, vec(), _three()).changing(vec(), _three()[:1])


@program(graphs=2)
def rest_of_the_children():
    layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])
    with torch.no_grad():
        for i, layer in enumerate(layers):
            layer.weight.copy_(torch.eye(4) * (i + 1))
            layer.bias.zero_()

    def f(x):
        for n, layer in enumerate(layers):
            x = layer(x)
            if n == 0:
                _leave()
        return x

    return Case(f, torch.arange(4.0)).watching(layers)


@program()
def left_in_another_round_each_time():
    def f(x, at):
        for i in range(6):
            x = x + i
            if i == at:
                _leave()
        return x

    case = Case(f, vec(), 0)
    for at in range(1, 6):
        case = case.then_call(vec(), at)
    return case.changing(vec(), 4)


@program()
def list_that_grows_behind_the_break():
    def f(x, items):
        for n, item in enumerate(items):
            x = x + item
            if n == 0:
                _leave()
            if n < 4:
                items.append(item + 1)
        return x, len(items)

    return Case(f, vec(), [1, 2]).changing(vec(), [3])


@program()
def dict_that_changes_behind_the_break():
    def f(x, table):
        rounds = 0
        try:
            for key in table:
                rounds += 1
                _leave()
                x = x + table[key]
                table[key + "x"] = 1
        except RuntimeError as error:
            return x, str(error), rounds
        return x, rounds

    return Case(f, vec(), {"a": 1, "b": 2}).changing(vec(), {})


@program()
def values_that_change_behind_the_break():
    def f(x, table):
        for key, value in table.items():
            x = x + value
            _leave()
            table["c"] = value * 10
        return x, dict(table)

    return Case(f, vec(), {"a": 1, "b": 2, "c": 3}).changing(vec(), {"c": 5})


@program()
def attributes_gone_over_while_one_is_set():
    class Holder:
        def __init__(self):
            self.a, self.b, self.c = 1, 2, 3

    def f(x, holder):
        for value in holder.__dict__.values():
            x = x + value
            _leave()
            holder.c = 30
        return x, holder.c

    return Case(f, vec(), Holder()).changing(vec(), Holder())


@program()
def an_iterator_with_two_owners():
    def f(x, items):
        inner = iter(items)
        pairs = []
        for n, item in enumerate(inner):
            x = x + item
            _leave()
            pairs.append((n, item, next(inner, None)))
        return x, pairs

    return Case(f, vec(), [1, 2, 3, 4, 5]).changing(vec(), [1, 2])


@program()
def zipped_with_itself():
    def f(x, items):
        inner = iter(items)
        for a, b in zip(inner, inner):
            x = x * a + b
            _leave()
        return x, list(inner)

    return Case(f, vec(), [1, 2, 3, 4, 5]).changing(vec(), [1, 2])


@program()
def zip_whose_second_ends_first():
    def f(x, items):
        first = iter(items)
        for a, b in zip(first, items[:2]):
            x = x * a + b
            _leave()
        return x, list(first)

    return Case(f, vec(), [1, 2, 3, 4, 5]).changing(vec(), [1, 2, 3])


@program()
def strict_zip():
    def f(x, items, others):
        try:
            for a, b in zip(items, others, strict=True):
                x = x * a + b
                _leave()
        except ValueError as error:
            return x, str(error)
        return x

    return Case(f, vec(), [1, 2], [3, 4]).changing(vec(), [1, 2], [3])


@program()
def counted_from_a_large_number():
    def f(x, items):
        for n, item in enumerate(items, 2**31):
            x = x + item
            _leave()
        return x, n

    return Case(f, vec(), [1, 2, 3]).changing(vec(), [1])


@program()
def pairs_that_are_kept():
    def f(x, items):
        kept = []
        for pair in enumerate(items):
            kept.append(pair)
            x = x + pair[0]
            if len(kept) == 1:
                _leave()
        return x, kept, kept[0] is kept[-1]

    return Case(f, vec(), _three()).changing(vec(), _three()[:1])


@program()
def many_containers_at_once():
    def f(x, a):
        for p, q, r, s, t in zip(a, a, a, a, a):
            x = x + p + q + r + s + t
            _leave()
        return x

    return Case(f, vec(), [1, 2, 3]).changing(vec(), [1])


@program()
def other_iterators():
    def f(x, items):
        for item in itertools.chain(items, items):
            x = x + item
            _leave()
        for item in itertools.islice(items, 2):
            x = x * item
            _leave()
        for item in map(abs, items):
            x = x - item
            _leave()
        return x

    return Case(f, vec(), [1, 2, 3]).changing(vec(), [1])


@program()
def a_long_loop():
    def f(x, n):
        for i in range(n):
            x = x + i
            if i == 1:
                _leave()
        return x

    return Case(f, vec(), 300).changing(vec(), 5)
