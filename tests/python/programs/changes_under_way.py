"""Containers that change while they are iterated over, sorted or searched."""

import collections
from functools import cmp_to_key

import torch

from tests.python.programs import Case, program, vec


def _error(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


@program(min_ops=1)
def next_after_a_deletion():
    def f(x):
        d = dict.fromkeys("abc")
        it = iter(d)
        key = next(it)
        del d[key]
        return x + 1, next(it)

    return Case(f, vec())


@program(min_ops=1)
def size_changes_are_remembered():
    def f(x):
        out = []
        for make in (
            lambda d: iter(d),
            lambda d: iter(d.keys()),
            lambda d: iter(d.values()),
            lambda d: iter(d.items()),
        ):
            d = {"a": 1, "b": 2}
            it = make(d)
            out.append(next(it))
            d["c"] = 3
            out.append(_error(lambda: next(it)))
            del d["c"]
            out.append(_error(lambda: next(it)))
        return x + 1, out

    return Case(f, vec())


@program(min_ops=1)
def changed_dict_over_a_break():
    def f(x):
        d = {"a": 1, "b": 2, "c": 3}
        it = iter(d)
        first = next(it)
        del d["a"]
        x = x + 1
        torch._dynamo.graph_break()
        return x, first, _error(lambda: next(it)), d

    return Case(f, vec())


@program(min_ops=1)
def changed_outside_containers():
    def f(x, d, s, q):
        a, b, c = iter(d), iter(s), iter(q)
        out = [next(a), next(b), next(c)]
        d["new"] = 1
        s.add(99)
        q.append(1)
        return x + 1, out, _error(lambda: next(a)), _error(lambda: next(b)), _error(lambda: next(c))

    return Case(f, vec(), {"a": 1, "b": 2}, {1, 2}, collections.deque([1, 2]))


@program(min_ops=1)
def changed_deques():
    def f(x):
        q = collections.deque([1, 2, 3])
        out = []
        for change in (
            lambda: q.append(4),
            lambda: q.rotate(1),
            lambda: q.pop(),
            lambda: q.extend([]),
            lambda: q.clear(),
        ):
            it = iter(q)
            out.append(_error(lambda: next(it)))
            change()
            out += [_error(lambda: next(it)), _error(lambda: next(it))]
        return x + 1, out, list(q)

    return Case(f, vec())


@program(min_ops=1)
def changed_deque_over_a_break():
    def f(x):
        q = collections.deque([1, 2, 3])
        it = iter(q)
        next(it)
        q.append(q.pop())
        x = x + 1
        torch._dynamo.graph_break()
        return x, _error(lambda: next(it)), list(q)

    return Case(f, vec())


@program(min_ops=1)
def ordered_dict_changes():
    def f(x):
        d = collections.OrderedDict.fromkeys("abc")
        out = []

        def loop():
            for k in d:
                out.append(k)
                d.pop("c", None)

        return x + 1, _error(loop), out

    return Case(f, vec())


@program(min_ops=1)
def set_changes_in_a_loop():
    def f(x):
        s = {1, 2, 3}

        def loop():
            for k in s:
                s.discard(3)

        return x + 1, _error(loop), sorted(s)

    return Case(f, vec())


@program(min_ops=1)
def sort_by_what_changes_the_list():
    def f(x):
        out = []
        for change in ("append", "nothing", "clear", "both", "extend"):
            a = [5, 1, 2]
            sizes = []

            def compare(left, right):
                sizes.append(len(a))
                if change == "append":
                    a.append(3)
                elif change == "both":
                    a.append(3)
                    a.pop()
                elif change == "clear":
                    a.clear()
                elif change == "extend":
                    a.extend([])
                return (left > right) - (left < right)

            out += [_error(lambda: a.sort(key=cmp_to_key(compare))), a, sizes]
        return x + 1, out

    return Case(f, vec())


@program(min_ops=1)
def sort_by_keys_that_look_at_the_list():
    def f(x, outside):
        a, seen = [3, 1, 2], []

        def key(item):
            seen.append((len(a), len(outside)))
            return item

        def changing(item):
            outside.append(item)
            return -item

        a.sort(key=key, reverse=True)
        out = _error(lambda: outside.sort(key=changing))
        return x + 1, a, seen, out, outside

    return Case(f, vec(), [6, 4, 5])


@program(min_ops=1)
def sort_that_raises_half_way():
    def f(x, outside):
        class Item:
            def __init__(self, value):
                self.value = value

            def __lt__(self, other):
                if self.value == 9:
                    raise ValueError("nine")
                return self.value < other.value

        plain = [2, 3, 1, "a", 0]
        objects = [Item(i) for i in (2, 3, 1, 9, 0)]
        keyed = [3, 1, 2]
        out = [_error(plain.sort), _error(objects.sort), _error(lambda: keyed.sort(key=lambda i: 1 // (i - 2)))]
        out += [_error(lambda: plain.sort(reverse=True)), _error(outside.sort)]
        return x + 1, out, plain, [i.value for i in objects], keyed, outside

    return Case(f, vec(), [4, 5, 3, "b"])


@program(min_ops=1)
def the_order_of_comparisons():
    """Runs that rise, fall, stand still and turn; a comparison that raises in the middle of one."""

    def f(x, numbers):
        told = []

        class Item:
            def __init__(self, value):
                self.value = value

            def __lt__(self, other):
                told.append((self.value, other.value))
                if len(told) % 61 == 0:
                    raise ValueError(self.value)
                return int(self.value) < int(other.value)

        out = []
        for row in numbers:
            items = [Item(value + place / 100) for place, value in enumerate(row)]
            out += [_error(items.sort), [item.value for item in items]]
            out += [_error(lambda: items.sort(reverse=True)), [item.value for item in items]]
        return x + 1, out, told

    rows = [
        [],
        [1],
        [1, 1],
        [2, 1],
        [1, 1, 0],
        [2, 2, 1],
        [3, 2, 2, 1],
        [3, 2, 2, 1, 1, 4, 0],
        [3, 2, 3, 4, 1],
        [1, 2, 2, 0, 0, 5],
        [2, 1, 1, 1, 0, 0, 3, 3, 1],
    ]
    return Case(f, vec(), rows)


@program(min_ops=1)
def lists_that_change_while_searched():
    def f(x):
        class Item:
            def __init__(self, of, act):
                self.of = of
                self.act = act

            def __eq__(self, other):
                getattr(self.of, self.act)()
                return False

        out = []
        for act in ("clear", "pop"):
            for search in (lambda a: 7 in a, lambda a: a.count(7), lambda a: a.index(7), lambda a: a.remove(7)):
                a = []
                a += [Item(a, act), 1, 2, 7, 8]
                out += [_error(lambda: search(a)), len(a)]
        return x + 1, out

    return Case(f, vec())


class _Search:
    def __init__(self, found, change):
        self.found, self.change = found, change

    def __eq__(self, other):
        self.change()
        return other == self.found


@program(min_ops=1)
def deques_that_change_while_searched():
    def f(x):
        y = x + 1
        out = []
        for use in (lambda q, s: q.index(s), lambda q, s: q.count(s), lambda q, s: s in q, lambda q, s: q.remove(s)):
            for change in ("append", "popleft", "rotate", "clear", "extend"):
                q = collections.deque([1, 2, 3, 4])
                changes = {"append": lambda: q.append(9), "popleft": lambda: q.popleft(), "rotate": lambda: q.rotate(1)}
                changes |= {"clear": lambda: q.clear(), "extend": lambda: q.extend([])}
                out += [_error(lambda: use(q, _Search(3, changes[change]))), list(q)]
        return y, out

    return Case(f, vec())


@program(min_ops=1)
def dicts_that_change_while_gone_through_backwards():
    def f(x):
        y = x + 1
        out = []
        for kind in (dict, collections.OrderedDict):
            for view in (lambda d: d, lambda d: d.items(), lambda d: d.values()):
                for change in ("add", "delete", "clear", "set", "again", "nothing"):
                    d = kind({1: 2, 3: 4, 5: 6})

                    def loop():
                        seen = []
                        for item in reversed(view(d)):
                            seen.append(item)
                            if change == "add":
                                d[len(d) + 10] = 1
                            elif change == "delete":
                                d.pop(1, None)
                            elif change == "clear":
                                d.clear()
                            elif change == "set":
                                d[3] = 7
                            elif change == "again":
                                d[1] = d.pop(1)
                        return seen

                    out += [_error(loop), list(d.items())]
        return y, out

    return Case(f, vec())


@program(min_ops=1)
def one_key_goes_and_another_comes():
    """As many keys as before, in a table that was made anew: CPython goes on at the same place of the new one."""

    def f(x, over):
        x = x + 1
        out = []
        for view in (lambda d: d, dict.keys, dict.values, dict.items, reversed):
            d = {i: i for i in range(5)}
            for seen in view(d):
                if seen in (2, (2, 2)):
                    del d[0]
                    d[77] = 0
                out.append(seen)
            d = {i: i for i in range(5)}
            it = iter(d)
            next(it)
            del d[0], d[4]
            d[4], d[0] = 4, 0
            out.append(list(it))
        for key in over:
            if key == 1:
                del over[0]
                over[0] = 1
            out.append(key)
        return x + len(out), out

    return Case(f, vec(), {i: i for i in range(5)}).changing(vec(), {1: 0, 0: 1, 2: 2})


@program(min_ops=1)
def one_item_of_a_set_goes_and_another_comes():
    def f(x, items):
        out = []
        for item in items:
            if not out:
                items.remove(item)
                items.add(12)
            out.append(item)
        return x + len(out), out

    return Case(f, vec(), {1, 2, 3}).changing(vec(), {4, 5})
