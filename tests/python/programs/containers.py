"""The methods of list, dict, tuple, set, range and slice, on containers made in the program."""

import collections

import torch

from tests.python.programs import Case, mat, program, vec


@program(full=2)
def list_building():
    def f(x):
        a = [x, 1]
        b = [*a, x + 1, *(2, 3)]
        c = a + b
        d = [0] * 3
        return c * 2, d, b == b, len(c), x * 2

    return Case(f, vec())


@program(full=1)
def list_methods():
    def f(x):
        a = [3, 1, 2]
        a.append(5)
        a.extend(range(2))
        a.insert(1, 9)
        b = a.copy()
        a.remove(1)
        c = a.pop(0)
        a.sort()
        b.reverse()
        return x + c, a, b, a.index(5), b.count(1), a.pop(), 9 in a

    return Case(f, vec())


@program(full=1)
def list_slicing():
    def f(x):
        a = list(range(10))
        b = a[2:8:2], a[::-1], a[-3:], a[:4], a[5:2]
        a[2:4] = "xyz"
        a[::3] = [0] * len(a[::3])
        del a[1:3]
        return x + len(a), a, b

    return Case(f, vec())


@program(full=1)
def list_comparisons():
    def f(x):
        return [1, 2] < [1, 3], [1] == [1.0], [1, [2]] == [1, [2]], (1, 2) >= (1,), [] != [0], x + 1

    return Case(f, vec())


@program(full=1)
def list_errors():
    def f(x):
        out = []
        a = [1]
        for action in (
            lambda: a[5],
            lambda: a.index(9),
            lambda: a.remove(9),
            lambda: a["k"],
            lambda: [].pop(),
            lambda: a + (1,),
        ):
            try:
                action()
            except Exception as error:
                out.append((type(error).__name__, str(error)))
        return out, x + 1

    return Case(f, vec())


@program(full=2)
def dict_building():
    def f(x):
        a = {"x": x + 1, 2: "two", (1, 2): None}
        b = {**a, "y": x * 2, **{"x": 0}}
        c = dict(a, z=1)
        d = dict([("p", 1)], q=2)
        e = dict.fromkeys("ab", 0)
        return a, b, c, d, e, a | {"w": 1}

    return Case(f, vec())


@program(full=1)
def dict_methods():
    def f(x):
        d = {"a": 1, "b": 2, "c": 3}
        views = list(d.keys()), list(d.values()), list(d.items())
        d.update(b=20, d=4)
        popped = d.pop("a"), d.pop("zz", None), d.popitem()
        d.setdefault("n", []).append(1)
        copy = d.copy()
        copy["extra"] = 1
        return x + len(d), views, popped, d, copy, d.get("none"), "b" in d, list(reversed(d))

    return Case(f, vec())


@program(full=1)
def dict_views():
    def f(x):
        d = {"a": 1, "b": 2}
        keys = d.keys()
        d["c"] = 3
        return len(keys), keys & {"a", "z"}, keys - {"a"}, ("a", 1) in d.items(), 3 in d.values(), x + len(keys)

    return Case(f, vec())


@program(full=1)
def dict_equality_and_order():
    def f(x):
        a = {"p": 1, "q": 2}
        b = {"q": 2, "p": 1}
        return a == b, list(a) == list(b), x + len(a), a != {"p": 1}

    return Case(f, vec())


@program(full=1)
def dict_keys_of_many_types():
    def f(x):
        d = {}
        for key in (1, True, 1.0, "1", (1,), None, frozenset({1}), b"1", 2, 2.5, int, len):
            d[key] = d.get(key, 0) + 1
        return list(d.values()), x + len(d), d[1]

    return Case(f, vec())


@program(full=1)
def dict_errors():
    def f(x):
        out = []
        d = {"a": 1}
        for action in (lambda: d["b"], lambda: d[[]], lambda: d.pop("b"), lambda: {}.popitem(), lambda: dict([1])):
            try:
                action()
            except Exception as error:
                out.append((type(error).__name__, str(error), error.args))
        return out, x + 1

    return Case(f, vec())


@program(full=1)
def tuple_methods():
    def f(x):
        t = (1, 2, 2, x)
        return t[:3].count(2), t[:3].index(2), t + (5,), t[:2] * 2, t[-1] + 1, len(t), hash((1, 2)) == hash((1, 2))

    return Case(f, vec())


@program(full=1)
def set_methods():
    def f(x):
        a = {1, 2, 3}
        b = set([3, 4])
        c = frozenset(a)
        a.add(7)
        a.discard(100)
        return a | b, a & b, a - b, a ^ b, a <= c, c.issubset(a), a.isdisjoint({9}), sorted(a.union([50])), x + len(a)

    return Case(f, vec())


@program(full=1)
def set_updates():
    def f(x):
        a = {1, 2, 3}
        a.update([4], (5,))
        a.intersection_update(range(2, 10))
        a.difference_update({3})
        a.symmetric_difference_update({4, 40})
        b = a.copy()
        b.clear()
        return x + len(a), a, b, min(a), max(a), sum(a), a == {2, 5, 40}

    return Case(f, vec())


@program(full=1)
def set_errors():
    def f(x):
        out = []
        for action in (
            lambda: {1}.remove(2),
            lambda: set().pop(),
            lambda: {[]},
            lambda: {1} | [2],
            lambda: frozenset().add(1),
        ):
            try:
                action()
            except Exception as error:
                out.append((type(error).__name__, str(error)))
        return out, x + 1

    return Case(f, vec())


@program(full=1)
def range_methods():
    def f(x):
        r = range(1, 20, 3)
        return (
            list(r),
            len(r),
            r[2],
            r[-1],
            r[1:3],
            7 in r,
            8 in r,
            r.index(7),
            r.count(1),
            r.start,
            r.step,
            list(reversed(r)),
            x + r[0],
        )

    return Case(f, vec())


@program(full=2)
def slice_objects():
    def f(x):
        s = slice(1, 3)
        t = slice(None, None, 2)
        return x[s], x[t], s.indices(10), s.start, t.step, [1, 2, 3, 4][s], s == slice(1, 3)

    return Case(f, vec())


@program(full=3)
def sum_min_max_of_things():
    def f(x):
        values = [3, 1, 2]
        tensors = [x, x + 1, x * 2]
        return (
            sum(values),
            min(values),
            max(values, default=0),
            sum(tensors),
            min([], default=5),
            max(3, 7, 5),
            max(values, key=lambda v: -v),
        )

    return Case(f, vec())


@program(full=1)
def sorted_with_keys():
    def f(x):
        words = ["pear", "fig", "apple"]
        pairs = sorted([(2, "b"), (1, "c"), (2, "a")], key=lambda p: p[0], reverse=True)
        return sorted(words), sorted(words, key=len), sorted(words, key=str.upper, reverse=True), pairs, x + 1

    return Case(f, vec())


@program(full=2)
def zip_map_filter():
    def f(x):
        a = list(zip([1, 2, 3], "ab"))
        b = list(map(lambda p, q: p * q, [x, 2], [2, 3]))
        c = list(filter(None, [0, 1, "", "s"]))
        d = list(filter(lambda n: n > 1, [1, 2, 3]))
        e = list(enumerate("ab", 1))
        return a, b, c, d, e, list(reversed([1, 2])), x + 1

    return Case(f, vec())


@program(full=1)
def zip_strict():
    def f(x):
        try:
            list(zip([1], [1, 2], strict=True))
        except ValueError as error:
            return str(error), x + 1

    return Case(f, vec())


@program(full=1)
def iterators_by_hand():
    def f(x):
        it = iter([1, 2, 3])
        first = next(it)
        rest = list(it)
        second = iter({"a": 1})
        calls = iter([4, 5, 0, 6].pop, 4)
        return first, rest, next(second), next(second, "end"), list(calls), x + first

    return Case(f, vec())


@program(full=1)
def iterator_returned():
    def f(x):
        it = iter([x + 1, 2, 3])
        next(it)
        return it, zip([1], [2]), map(len, ["a"]), enumerate([7]), reversed([1, 2])

    return Case(f, vec())


@program(full=1)
def iterator_argument():
    def f(x, it):
        return x + next(it), next(it)

    return Case(f, vec(), iter([1, 2, 3, 4, 5, 6, 7, 8])).changing(vec(), iter(range(5)))


@program(full=1)
def user_iterator():
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def f(x, outside):
        total = x
        for i in Countdown(3):
            total = total + i
        return total, list(Countdown(2)), next(outside)

    return Case(f, vec(), Countdown(9))


@program(full=2)
def old_style_sequence_iteration():
    class Seq:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i * 10

    def f(x):
        return [x + v for v in Seq()], 20 in Seq(), list(Seq())

    return Case(f, vec())


@program(full=1)
def user_container():
    class Bag:
        def __init__(self, *items):
            self.items = list(items)

        def __len__(self):
            return len(self.items)

        def __contains__(self, item):
            return any(item is i for i in self.items)

        def __iter__(self):
            return iter(self.items)

        def __getitem__(self, key):
            if isinstance(key, slice):
                return Bag(*self.items[key])
            return self.items[key]

        def __reversed__(self):
            return iter(["r", *self.items[::-1]])

    def f(x):
        bag = Bag(x, 2, 3)
        return x in bag, 9 in bag, len(bag[1:]), list(reversed(bag)), bag[0] + len(bag), bool(Bag())

    return Case(f, vec())


@program(full=1)
def deque_methods():
    def f(x):
        d = collections.deque([1, 2, 3], maxlen=4)
        d.append(4)
        d.append(5)
        d.appendleft(0)
        d.rotate(2)
        return list(d), d.count(1), d[0], d.index(2), len(d), d.maxlen, x + d.pop(), d

    return Case(f, vec())


@program(full=1)
def ordered_and_default_dicts():
    def f(x):
        o = collections.OrderedDict([("a", x + 1), ("b", 2)])
        o.move_to_end("a")
        n = collections.defaultdict(int)
        for c in "hello":
            n[c] += 1
        m = collections.defaultdict(lambda: [x])
        m["k"].append(1)
        return o, list(o), dict(n), m["k"], n.default_factory

    return Case(f, vec())


@program(full=1)
def counter_and_chainmap():
    def f(x):
        c = collections.Counter("abracadabra")
        m = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
        return c.most_common(2), c["z"], sum(c.values()), (c + c)["a"], m["a"], m["b"], len(m), x + c["a"]

    return Case(f, vec())


@program(full=1)
def namedtuples():
    Point = collections.namedtuple("Point", ["x", "y"], defaults=[7])

    def f(t):
        p = Point(t + 1)
        q = p._replace(y=3)
        x, y = q
        return p, q, p.y, q[1], y, q._fields, q._asdict()["y"], isinstance(p, tuple), Point._make([1, 2])

    return Case(f, vec())


@program(full=2)
def namedtuple_argument():
    Point = collections.namedtuple("Point", "x y")

    def f(p):
        return Point(p.y + 1, p.x), p._replace(x=p[0] * 2)

    return Case(f, Point(vec(), vec(4, 2.0)))


@program(full=2)
def nested_structures():
    def f(x):
        tree = {"a": [x + 1, (x * 2, {"b": [1, 2, {3}]})], "c": ((), [], {})}
        return tree, tree["a"][1][1]["b"][0], tree["a"][1][0] is tree["a"][1][0]

    return Case(f, vec())


@program(full=1)
def contains_on_everything():
    def f(x):
        return (
            1 in [1],
            2 in (1,),
            "a" in {"a": 1},
            3 in {3},
            "b" in "abc",
            4 in range(5),
            None in [None],
            b"a" in b"abc",
            x + 1,
        )

    return Case(f, vec())


@program(full=1)
def length_of_everything():
    def f(x):
        return (
            len([1]),
            len(()),
            len({1: 2}),
            len({1, 2}),
            len("abc"),
            len(range(9)),
            len(x),
            len(b"12"),
            len({}.keys()),
            x + len(x),
        )

    return Case(f, vec())


@program(full=1)
def bytes_and_bytearray():
    def f(x):
        b = b"abc"
        a = bytearray(b)
        a.append(100)
        a[0] = 65
        return b[0], b[1:], b.upper(), a, list(b), bytes([1, 2]), b"".join([b, b]), x + b[0]

    return Case(f, vec())


@program(full=2)
def lists_of_tensors():
    def f(x):
        parts = list(x.unbind(0))
        parts.reverse()
        parts.append(x[0] + 1)
        return torch.stack(parts), len(parts), torch.cat([p.unsqueeze(0) for p in parts[:2]])

    return Case(f, mat())


@program(full=1)
def in_place_concatenation_of_tuple_in_dict():
    def f(x):
        d = {"t": (1,)}
        d["t"] += (x + 1,)
        d["l"] = []
        d["l"] += [1]
        return d

    return Case(f, vec())


@program(full=1)
def star_unpack_into_set_and_list():
    def f(x):
        return [*range(3), *"ab"], {*[1, 1, 2]}, (*{}, *[x + 1]), {**{}, "a": 1}

    return Case(f, vec())


@program(full=1)
def divmod_round_abs_pow():
    def f(x):
        return (
            divmod(7, 3),
            round(2.567, 1),
            abs(-3),
            pow(2, 5),
            pow(2, -1),
            pow(3, 4, 5),
            x + round(1.5),
            int("12", 3),
            float("1e3"),
            bin(5),
        )

    return Case(f, vec())


@program(full=1)
def integer_arithmetic():
    def f(x, a, b):
        return (
            a // b,
            a % b,
            -a // b,
            a**b,
            a << b,
            a >> 1,
            a & b,
            a | b,
            a ^ b,
            ~a,
            a / b,
            x + (a // b),
            a.bit_length(),
            (a + 0.5).is_integer(),
        )

    return Case(f, vec(), 17, 5).changing(vec(), -3, 2)


@program(full=1)
def conversions():
    def f(x):
        return (
            int(3.9),
            float(2),
            bool("a"),
            str(1.0),
            list("ab"),
            tuple([1]),
            set("aa"),
            complex(1, 2),
            chr(65),
            ord("a"),
            hex(255),
            x + int(True),
        )

    return Case(f, vec())


@program(min_ops=1)
def copies_and_unions_of_special_dicts():
    class Upper(collections.OrderedDict):
        def __setitem__(self, key, value):
            super().__setitem__(key.upper(), value)

    def f(x, lists, upper):
        lists["n"].append(x)
        copied, joined, reversed_join = lists.copy(), lists | {"z": 1}, {"y": 1} | lists
        copied["q"].append(2)
        upper["b"] = x
        more = upper.copy(), upper | {"c": 1}, {"d": 1} | upper
        shared = copied["a"] is lists["a"]
        return copied, joined, reversed_join, joined.default_factory, more, [type(one) for one in more], shared, x + 1

    return Case(f, vec(), collections.defaultdict(list, {"a": [1]}), Upper(a=1))


@program(min_ops=1)
def subclasses_with_methods_under_the_native_ones():
    class Upper(collections.OrderedDict):
        def __setitem__(self, key, value):
            super().__setitem__(key.upper(), value)

        def __getitem__(self, key):
            return super().__getitem__(key.upper())

    class Numbered(collections.defaultdict):
        def __missing__(self, key):
            self[key] = number = len(self)
            return number

    class Single(set):
        def __iter__(self):
            return iter([1])

    def f(x, upper, numbered, single):
        kept = upper.setdefault("q", 3)
        numbers = numbered["a"], numbered["b"], numbered["a"]
        return kept, upper, numbers, numbered, set(single), list(single), frozenset(single), x + 1

    return Case(f, vec(), Upper(a=1), Numbered(int), Single([1, 2]))
