"""Dicts and sets whose keys are objects with a __hash__ and __eq__ of their own."""

import dataclasses
import enum
from collections import OrderedDict, defaultdict, namedtuple

import stator
from tests.python.programs import Case, mat, program, vec


class Key:
    def __init__(self, n, weight=None):
        self.n = n
        self.weight = weight

    def __hash__(self):
        return hash(self.n)

    def __eq__(self, other):
        return isinstance(other, Key) and self.n == other.n

    def __repr__(self):
        return f"Key({self.n})"


class Counted:
    """Counts the calls of its methods: they are part of what the program does."""

    calls = []

    def __init__(self, n, bucket=None):
        self.n = n
        self.bucket = n if bucket is None else bucket

    def __hash__(self):
        Counted.calls.append(("hash", self.n))
        return self.bucket

    def __eq__(self, other):
        Counted.calls.append(("eq", self.n, other.n))
        return self.n == other.n


@dataclasses.dataclass(frozen=True)
class Frozen:
    name: str
    size: int = 1


Pair = namedtuple("Pair", "first second")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    def __hash__(self):
        return 7 + self.value

    def __eq__(self, other):
        return self is other


class Text(str):
    def __eq__(self, other):
        return str(self).lower() == str(other).lower()

    def __hash__(self):
        return hash(str(self).lower())


@program(full=1)
def made_dict_of_objects():
    def f(x):
        d = {Key(1): x + 1, Key(2): x * 2}
        d[Key(3)] = x
        d[Key(1)] = d[Key(2)] + 1
        return d[Key(1)], Key(2) in d, Key(9) in d, len(d), d.get(Key(7), "none"), [k.n for k in d]

    return Case(f, vec())


@program(full=1)
def dict_of_objects_is_returned():
    def f(x):
        d = {Key(1): x + 1, Key(2): x * 2}
        del d[Key(1)]
        d[Key(4)] = "four"
        return d, d[Key(2)]

    def seen(result):
        return [(k.n, v) for k, v in result[0].items()], result[0][Key(4)], result[1]

    def g(x):
        return seen(f(x))

    return Case(g, vec())


@program(full=1)
def dict_methods_with_objects():
    def f(x):
        d = {}
        first = d.setdefault(Key(1), x + 1)
        again = d.setdefault(Key(1), "other")
        popped = d.pop(Key(1))
        missing = d.pop(Key(1), "gone")
        d.update({Key(5): 5, Key(6): 6})
        d.update([(Key(5), 55)])
        e = d | {Key(7): 7}
        e |= {Key(6): 66}
        copied = dict(e)
        more = {**copied, Key(8): 8}
        last = more.popitem()
        by_keys = dict.fromkeys([Key(1), Key(1), Key(2)], 0)
        return (
            first,
            again is first,
            popped,
            missing,
            [(k.n, v) for k, v in more.items()],
            last[0].n,
            len(by_keys),
            list(copied.values()),
            copied == e,
            copied != d,
        )

    return Case(f, vec())


@program(full=1)
def sets_of_objects():
    def f(x):
        a = {Key(1), Key(2), Key(3), Key(1)}
        b = {Key(n) for n in (3, 4)}
        a.add(Key(2))
        a.discard(Key(9))
        b.remove(Key(4))
        return (
            x + len(a),
            sorted(k.n for k in a | b),
            [k.n for k in a & b],
            sorted(k.n for k in a - b),
            sorted(k.n for k in a ^ {Key(7)}),
            b <= a,
            a == {Key(3), Key(2), Key(1)},
            a.isdisjoint([Key(8)]),
            Key(1) in a,
            Key(5) in frozenset(a),
        )

    return Case(f, vec())


@program(full=1)
def set_of_objects_is_returned():
    def f(x):
        a = {Key(n) for n in range(12)}
        for n in range(0, 12, 3):
            a.discard(Key(n))
        return x + 1, a, frozenset([Key(5), Key(21)]), [k.n for k in a]

    def g(x):
        y, a, b, order = f(x)
        return y, [k.n for k in a], sorted(k.n for k in b), order, Key(5) in b, Key(4) in a

    return Case(g, vec())


@program(full=1)
def set_of_objects_leaves_the_capture():
    def f(x):
        return {Key(n) for n in range(20) if n % 3}, {Key(1): x + 1}, frozenset({Key(2)})

    return Case(f, vec())


@program(full=1)
def outside_dict_of_objects():
    def f(x, d):
        d[Key(2)] = x + 1
        d.pop(Key(1))
        d[Key(7)] = d[Key(3)] * 2
        return x + len(d), [k.n for k in d], Key(1) in d, d[Key(2)]

    return Case(f, vec(), {Key(1): "one", Key(2): "two", Key(3): 3.0})


@program(full=1)
def outside_set_of_objects():
    def f(x, s):
        s.add(Key(4))
        s.remove(Key(1))
        s |= {Key(9)}
        return x + len(s), Key(2) in s, Key(1) in s, sorted(k.n for k in s)

    return Case(f, vec(), {Key(1), Key(2), Key(3)})


@program(full=1)
def outside_key_object():
    def f(x, key, d):
        d[key] = x
        return d[Key(key.n)] + 1, {key: 1}[key], Key(1) == key

    return Case(f, vec(), Key(1), {Key(1): 0})


@program(full=1)
def order_of_hash_and_eq_calls():
    Counted.calls = []

    def f(x):
        Counted.calls.clear()
        d = {Counted(1, 5): "a", Counted(2, 5): "b"}
        d[Counted(1, 5)] = "c"
        found = d.get(Counted(3, 5))
        a = d.setdefault(Counted(2, 5), "d")
        s = {Counted(1, 5), Counted(2, 5), Counted(1, 5)}
        t = s | {Counted(9, 5)}
        return x + len(t), found, a, len(d), list(Counted.calls)

    return Case(f, vec())


@program(full=1)
def calls_are_replayed_once():
    Counted.calls = []

    def f(x, d):
        Counted.calls.clear()
        d[Counted(8)] = x + 1
        return d[Counted(8)], len(d), Counted(1) in d

    def g(x, d):
        return f(x, d), list(Counted.calls)

    return Case(g, vec(), {Counted(1): 0})


@program(full=1)
def frozen_dataclasses_as_keys():
    def f(x, table):
        key = Frozen("a", 2)
        cache = {key: x + 1, Frozen("b"): x}
        table[Frozen("c", 3)] = cache[Frozen("a", 2)]
        return (
            cache[dataclasses.replace(key)] * 2,
            Frozen("b", 1) in cache,
            table[Frozen("t")],
            {key, Frozen("a", 2)} == {key},
        )

    return Case(f, vec(), {Frozen("t"): 1})


@program(full=1)
def enum_with_its_own_hash():
    def f(x, d):
        e = {Colour.RED: x + 1, Colour.BLUE: 2}
        d[Colour.BLUE] = 5
        return e[Colour.RED], d[Colour.RED], Colour.BLUE in {Colour.RED}, hash(Colour.BLUE), d[Colour.BLUE]

    return Case(f, vec(), {Colour.RED: 3})


@program(full=1)
def tuples_of_objects_as_keys():
    def f(x):
        d = {(Key(1), "a"): x + 1, Pair(Key(2), 3): x * 2}
        d[(Key(1), "b")] = 7
        s = {(1, Key(2)), (1, Key(2)), frozenset([Key(3)])}
        return d[Key(1), "a"], d[(Key(2), 3)], (Key(1), "c") in d, len(s), hash((Key(1), 2)) == hash((Key(1), 2)), d

    return Case(f, vec())


@program(full=1)
def exceptions_of_hash_and_eq():
    class Broken:
        def __init__(self, where):
            self.where = where

        def __hash__(self):
            if self.where == "hash":
                raise ValueError("no hash")
            return 1

        def __eq__(self, other):
            if "eq" in (self.where, other.where):
                raise KeyError("no eq")
            return self is other

    class NoHash:
        def __eq__(self, other):
            return True

    def f(x):
        log = []
        d = {Broken("-"): 1}
        for key in (Broken("hash"), Broken("eq"), Broken("-"), NoHash(), (Broken("-"), [])):
            try:
                d[key] = x
                log.append(len(d))
            except Exception as error:
                log.append((type(error).__name__, str(error)))
            try:
                log.append(key in {Broken("-"), Broken("*")})
            except Exception as error:
                log.append((type(error).__name__, str(error)))
        return x + 1, log

    return Case(f, vec())


@program(full=1)
def missing_object_raises_key_error():
    def f(x, d):
        try:
            return d[Key(5)], x
        except KeyError as error:
            missing = error.args[0].n
        try:
            {Key(1)}.remove(Key(2))
        except KeyError as error:
            missing += error.args[0].n
        try:
            del d[Key(8)]
        except KeyError as error:
            missing += error.args[0].n
        return x + missing

    return Case(f, vec(), {Key(1): 2})


@program(full=1)
def text_that_compares_otherwise():
    def f(x, d):
        d[Text("ALPHA")] = x + 1
        e = {"one": 1, Text("Two"): 2}
        return d[Text("alpha")], len(d), "two" in e, e.get("ONE"), "ONE" in {Text("one")}

    return Case(f, vec(), {Text("alpha"): 0, "beta": 1})


@program(full=1)
def default_dict_of_objects():
    def f(x):
        d = defaultdict(list)
        for n in (1, 2, 1):
            d[Key(n)].append(x + n)
        return [len(v) for v in d.values()], d[Key(1)][1]

    return Case(f, vec())


@program()
def ordered_dict_of_objects():
    def f(x):
        d = OrderedDict()
        d[Key(1)] = x + 1
        d[Key(2)] = 2
        d.move_to_end(Key(1))
        return [k.n for k in d], d[Key(1)] * 2

    return Case(f, vec())


@program(full=1)
def hash_by_address():
    class Node:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return id(self)

        def __eq__(self, other):
            return self is other

    def f(x, outside):
        a, b = Node(1), Node(2)
        users = {a: [x + 1], b: []}
        users[b].append(a)
        users[outside] = 3
        return users[a][0], len(users), Node(1) in users, users[b][0] is a, users, outside in users

    return Case(f, vec(), Node(0))


@program(full=1)
def object_that_hashes_a_tensor():
    class Holder:
        def __init__(self, t):
            self.t = t

        def __hash__(self):
            return hash((type(self), self.t.shape))

        def __eq__(self, other):
            return self.t is other.t

    def f(x):
        y = x + 1
        d = {Holder(y): y * 2}
        return d[Holder(y)], Holder(x) in d

    return Case(f, mat())


@program(full=1)
def tuple_hash_escapes():
    def f(x, y):
        z = x + 1
        table = {hash((z, 1)): "made", hash((y, 2)): "given"}
        return z, table[hash((z, 1))], table.get(hash((y, 3))), hash((z, 5)) == hash((z, 5))

    return Case(f, vec(), vec())


@program(full=1)
def other_keys_on_a_later_call():
    def f(x, d, key):
        return x + 1, d.get(Key(1)), key in d, len(d)

    key = Key(3)
    return (
        Case(f, vec(), {Key(1): "a", Key(2): "b"}, Key(2))
        .then_call(vec(), {Key(5): "a", Key(1): "c"}, Key(2))
        .then_call(vec(), {Key(1): "a", key: "b"}, key)
        .then_call(vec(), {Key(1): "a", Key(3): "b"}, Key(3))
        .then_call(vec(), {Key(1): "a", "b": 1}, Key(3))
        .then_call(vec(), {}, Key(3))
    )


@program(full=1)
def other_elements_on_a_later_call():
    def f(x, s):
        s.discard(Key(2))
        return x + len(s), Key(1) in s

    return Case(f, vec(), {Key(1), Key(2)}).then_call(vec(), {Key(4), Key(2)}).then_call(vec(), {Key(1), Key(7)})


@program(full=1)
def key_class_changes_between_calls():
    class Name:
        def __init__(self, text):
            self.text = text

        def __hash__(self):
            return hash(self.text)

        def __eq__(self, other):
            return self.text == other.text

    def f(x, d):
        d[Name("b")] = 2
        return x + 1, Name("A") in d, Name("a") in d, len({Name("p"), Name("P")})

    def fold(case):
        Name.__hash__ = lambda self: hash(self.text.lower())
        Name.__eq__ = lambda self, other: self.text.lower() == other.text.lower()
        case.args = (vec(), {Name("a"): 1})

    def by_identity(case):
        Name.__eq__ = object.__eq__
        Name.__hash__ = object.__hash__
        case.args = (vec(), {Name("a"): 1})

    return Case(f, vec(), {Name("a"): 1}).then(fold, by_identity)


@program(full=1)
def key_changed_after_it_was_put_in():
    def f(x, d, key):
        key.n = 9
        return x + 1, Key(1) in d, Key(9) in d, key in d, d

    key = Key(1)
    return Case(f, vec(), {key: "a"}, key)


@program(full=1)
def eq_that_looks_at_tensors():
    class Holder:
        def __init__(self, t):
            self.t = t

        def __hash__(self):
            return self.t.shape[0]

        def __eq__(self, other):
            return self.t is other.t

    def f(x, y):
        d = {Holder(x): x + 1}
        return d[Holder(x)] * 2, Holder(y) in d

    same = vec()
    return Case(f, vec(), vec()).then_call(same, same)


@program()
def hashes_of_a_whole_machine_word():
    class Key(list):
        def __init__(self, parts):
            self[:] = parts
            self.number = hash(parts)

        def __hash__(self):
            return self.number

    mark = (object(),)  # its hash is an address's, mixed to all 64 bits

    def f(x):
        seen, log = {}, []
        for number in (3, 3, 4, 3):
            key = Key(mark + ("n", number))
            log.append(key in seen)
            seen[key] = number
            stator.graph_break()
        return x + 1, log, len(seen)

    return Case(f, vec())
