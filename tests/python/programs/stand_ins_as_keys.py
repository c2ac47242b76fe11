"""Tensors where native code compares, hashes or stores objects: dict keys, sets, `in`, sorting, identity maps."""

import collections
import copy
import functools

import torch

from tests.python.programs import Case, mat, program, vec


@program(full=2)
def argument_as_dict_key():
    def f(x, y):
        d = {x: 1, y: 2}
        return x + d[x], y * d[y], len(d), x in d, d.get(x), list(d)[0] is x

    return Case(f, vec(), vec())


@program(full=2)
def result_as_dict_key():
    def f(x):
        y = x + 1
        z = x + 1
        d = {y: "y", z: "z"}
        return d[y], d[z], len(d), x in d, d

    return Case(f, vec())


@program(full=1)
def set_of_tensors():
    def f(x):
        y = x + 1
        s = {x, y, x}
        s.add(y)
        return len(s), x in s, (x * 2) in s, s

    return Case(f, vec())


@program(full=1)
def same_tensor_under_two_names():
    def f(a, b):
        s = {a, b}
        return len(s), a + 1

    def alias(case):
        case.args = (case.args[0],) * 2

    return Case(f, vec(), vec()).then(alias)


@program(full=1)
def tensor_from_two_sources():
    class Box:
        pass

    def f(x, box):
        d = {x: 1}
        d[box.x] = 2
        return len(d), x + d[x]

    def alias(case):
        case.args[1].x = case.args[0]

    box = Box()
    box.x = vec()
    return Case(f, vec(), box).then(alias)


@program(full=1)
def dict_from_outside_with_tensor_keys():
    def f(x, d):
        d[x] = x + 1
        return len(d), x in d

    x = vec()
    return Case(f, x, {vec(): 0}).changing(x, {x: 0})


@program(full=2)
def memo_by_identity():
    def f(x, y):
        memo = {}
        out = []
        for t in (x, y, x):
            if id(t) not in memo:
                memo[id(t)] = t + 1
            out.append(memo[id(t)])
        return out, len(memo)

    return Case(f, vec(), vec())


@program()
def in_list_by_identity():
    def f(x, y):
        items = [x, y]
        return x in items, items.index(x), items.count(x) if x is y else -1

    return Case(f, vec(1), vec(1))


@program()
def in_list_by_value_raises():
    def f(x, y):
        try:
            return x in [y]
        except RuntimeError as error:
            return str(error), x + 1

    return Case(f, vec(), vec())


@program()
def in_list_of_scalars_by_value():
    def f(x, y):
        return x in [y], y in (1, x), x + 1

    return Case(f, torch.tensor(1.0), torch.tensor(2.0)).changing(torch.tensor(1.0), torch.tensor(1.0))


@program()
def list_equality_with_tensors():
    def f(x):
        y = x + 1
        return [x, y] == [x, y], (x,) == (x,), [x] != [x]

    return Case(f, vec())


@program()
def list_equality_of_different_tensors():
    def f(x, y):
        try:
            return [x] == [y]
        except RuntimeError as error:
            return str(error)

    return Case(f, vec(), vec())


@program()
def remove_and_index():
    def f(x):
        y = x + 1
        items = [x, y, 3]
        items.remove(x)
        return len(items), items[0] is y

    return Case(f, vec())


@program(full=2)
def default_dict_by_tensor():
    def f(x):
        groups = collections.defaultdict(list)
        y = x + 1
        for t in (x, y, x):
            groups[t].append(1)
        return len(groups), groups[x], groups[y], y * 2

    return Case(f, vec())


@program(full=2)
def counter_of_tensors():
    def f(x):
        y = x + 1
        counts = collections.Counter([x, y, x])
        return counts[x], counts[y], y * 2

    return Case(f, vec())


@program(full=2)
def dict_fromkeys_and_zip():
    def f(x):
        y = x + 1
        d = dict.fromkeys([x, y], 0)
        e = dict(zip([x, y], "ab"))
        return len(d), e[y], y * 2

    return Case(f, vec())


@program(full=1)
def hash_of_tensor():
    def f(x):
        y = x + 1
        return hash(x) == hash(x), hash(x) == id(x), hash(y) == id(y), y

    return Case(f, vec())


@program(full=2)
def isinstance_and_callable():
    def f(x):
        y = x + 1
        return (
            isinstance(y, torch.Tensor),
            isinstance(y, (int, str)),
            callable(y),
            type(y) is torch.Tensor,
            type(y).__name__,
            issubclass(type(y), object),
            y * 2,
        )

    return Case(f, vec())


@program(max_breaks=0)
def tensor_in_tuple_as_key():
    def f(x):
        y = x + 1
        d = {(x, 1): "a", (y, 2): "b"}
        return d[(x, 1)], d[y, 2], len(d)

    return Case(f, vec())


@program(full=1)
def tensor_in_frozenset_and_nested():
    def f(x):
        y = x + 1
        a = frozenset([x, y])
        b = frozenset([y, x])
        return a == b, len({a, b}), y

    return Case(f, vec())


@program(full=2)
def object_holding_a_tensor_as_key():
    class Holder:
        def __init__(self, t):
            self.t = t

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return self.t is other.t

    def f(x):
        y = x + 1
        d = {Holder(x): 1, Holder(y): 2}
        return d[Holder(x)], d[Holder(y)], Holder(x + 0) in d

    return Case(f, vec())


@program()
def min_and_max_of_tensors():
    def f(x, y):
        return max(x, y), min([x, y, x + 5]), max([x, y], key=lambda t: -t)

    return Case(f, torch.tensor(1.0), torch.tensor(2.0))


@program()
def sorting_tensors():
    def f(items):
        return sorted(items), sorted(items, key=lambda t: -t)

    return Case(f, [torch.tensor(2.0), torch.tensor(1.0), torch.tensor(3.0)])


@program()
def any_all_of_tensors():
    def f(x):
        return any([x > 10, x < 10]), all([x > 0]), x + 1

    return Case(f, torch.tensor(1.0))


@program(full=2)
def sum_of_parameters():
    p = torch.nn.Parameter(vec())

    def f(x):
        return sum([p, p]) + x, sum((p * 2, x))

    return Case(f, vec())


@program()
def copies_of_containers():
    def f(x):
        y = x + 1
        items = [y, {"k": y}]
        shallow = copy.copy(items)
        return shallow[0] is y, shallow[1] is items[1], shallow

    return Case(f, vec())


@program()
def string_join_of_names_by_tensor():
    def f(x, names):
        return ", ".join(names[t] for t in names), x + 1

    x, y = vec(), vec()
    return Case(f, x, {x: "x", y: "y"})


@program(full=2)
def dict_views_with_tensors():
    def f(x):
        y = x + 1
        d = {"a": x, "b": y}
        values = list(d.values())
        return (
            [v is x for v in values],
            ("a", x) in [(k, v) for k, v in d.items() if v is x],
            d.keys() == {"a", "b"},
            y * 2,
        )

    return Case(f, vec())


@program()
def lru_cache_keyed_by_tensor():
    calls = []

    @functools.lru_cache(maxsize=4)
    def double(t):
        calls.append(1)
        return t * 2

    def f(x):
        return double(x) + double(x)

    return Case(f, vec()).watching(calls)


@program()
def partial_and_map_with_tensors():
    def f(x):
        g = functools.partial(max, x)
        return g(torch.tensor(0.5)), list(map(abs, [x, x + 1]))

    return Case(f, torch.tensor(1.0))


@program()
def getattr_hasattr_by_tensor_name():
    def f(x):
        y = x + 1
        return hasattr(y, "grad_fn"), getattr(y, "missing", y) is y, vars(y), y

    return Case(f, vec())


@program()
def setattr_of_tensor_on_foreign_object():
    import types

    def f(x, space):
        space.t = x + 1
        space.items = [space.t]
        return space.t is space.items[0]

    return Case(f, vec(), types.SimpleNamespace())


@program(full=1)
def tuple_hash_and_equality():
    def f(x):
        y = x + 1
        a, b = (y, 1), (y, 1)
        return a == b, a is b, hash(a) == hash(b), y

    return Case(f, mat())


@program()
def set_operations_with_tensors():
    def f(x):
        y = x + 1
        a, b = {x, y}, {y}
        return (a - b) == {x}, len(a & b), len(a | b), b <= a

    return Case(f, vec())


@program()
def comparison_returns_tensor():
    def f(x, y):
        r = x == y
        return r, x != None, (x == None) is False, r.all()  # noqa: E711

    return Case(f, vec(), vec())


@program()
def tensor_equals_string_and_none():
    def f(x):
        return x == "text", x != "text", x == None, x in [None, x]  # noqa: E711

    return Case(f, vec())
