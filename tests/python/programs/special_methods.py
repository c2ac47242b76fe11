"""Special methods that are None or no functions, comparisons along all of their steps, dict methods past what a subclass puts over them."""

import collections
import functools
import types
import typing

import torch

from tests.python.programs import Case, program, vec


def _error(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


class Denied:
    def __add__(self, other):
        return 5

    def __getitem__(self, index):
        return index

    __iadd__ = __radd__ = __sub__ = __neg__ = __lt__ = __eq__ = __len__ = __iter__ = __reversed__ = __contains__ = None
    __hash__ = object.__hash__


@program(min_ops=1)
def entries_that_are_none():
    def f(x):
        def add():
            a = Denied()
            a += 1
            return a

        out = [_error(add), _error(lambda: 3 + Denied()), _error(lambda: Denied() - 1), _error(lambda: -Denied())]
        out += [_error(lambda: Denied() < 1), _error(lambda: Denied() == 1), _error(lambda: Denied() != 1)]
        out += [_error(lambda: len(Denied())), _error(lambda: iter(Denied())), _error(lambda: list(reversed(Denied())))]
        out += [_error(lambda: 1 in Denied()), _error(lambda: 1 > Denied()), _error(lambda: 2 - Denied())]
        return x + 1, out

    return Case(f, vec())


@program(min_ops=1)
def iterating_what_says_no():
    def f(x):
        return x + 1, _error(lambda: iter(typing.List)), _error(lambda: list(Denied())), _error(lambda: [*Denied()])

    return Case(f, vec())


class _Plus:
    def __init__(self, log):
        self.log = log

    def __call__(self, other):
        self.log.append(type(other).__name__)
        return "called"


@program(min_ops=1)
def callables_as_special_methods():
    def f(x):
        log = []

        class A:
            __add__ = _Plus(log)
            __eq__ = staticmethod(lambda other: ("eq", other))
            __lt__ = functools.partial(lambda a, b: (a, b), "first")
            __hash__ = None

            @classmethod
            def __mul__(cls, other):
                return cls.__name__, other

        return x * 2, A() + 1, A() == 2, A() < 3, A() * 4, 5 > A(), log

    return Case(f, vec())


@program(min_ops=1)
def unequal_asks_equal():
    def f(x):
        calls = []

        class Left:
            def __eq__(self, other):
                calls.append("Left.__eq__")
                return NotImplemented

        class Right:
            def __ne__(self, other):
                calls.append("Right.__ne__")
                return NotImplemented

        class Sub(Left):
            def __eq__(self, other):
                calls.append("Sub.__eq__")
                return NotImplemented

        out = [Left() != Right(), Right() != Left(), Left() != Sub(), Left() == Sub(), Sub() != Left(), Left() != 3]
        out += [3 != Left(), Left().__ne__(3), Right().__eq__(3), Left() != Left()]
        return x + len(calls), out, calls

    return Case(f, vec())


@program()
def order_of_reflected_comparisons():
    def f(x):
        calls = []

        def method(name, answer):
            def compare(self, other):
                calls.append((type(self).__name__, name))
                return answer

            return compare

        class Base:
            __lt__, __gt__, __le__ = method("lt", NotImplemented), method("gt", NotImplemented), method("le", True)

        class Derived(Base):
            __gt__ = method("own gt", "greater")

        out = [Base() < Derived(), Derived() < Base(), Base() <= Derived(), _error(lambda: Base() > Base())]
        return x + 1, out, calls

    return Case(f, vec())


class OwnList(list):
    def __eq__(self, other):
        return NotImplemented

    __hash__ = None


class OwnText(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


@program(min_ops=1)
def comparisons_of_subclasses():
    def f(x):
        a, b = OwnList([1, x]), OwnList([1, x])
        out = [a == b, a != b, [1] == OwnList([1]), OwnList([1]) == [1], OwnList([1]) != [1], OwnList([1]) < [2]]
        out += [OwnText("a") == "b", OwnText("a") != "b", OwnText("a") != "a", "a" == OwnText("b"), OwnText("a") < "b"]
        return x + 1, out

    return Case(f, vec())


@program(min_ops=1)
def slots_called_by_name():
    def f(x):
        out = [(3).__eq__("a"), (3).__eq__(3.0), (3.0).__eq__(3), "a".__eq__(1), "a".__ne__("b"), (1).__lt__(2)]
        out += [[1].__eq__((1,)), [1].__eq__([1]), {}.__eq__([]), {1: 2}.__ne__({1: 2}), {1}.__eq__(frozenset([1]))]
        out += [{1}.__lt__([1]), (1,).__lt__((2,)), [1].__ge__([2]), object.__eq__(out, 1), object.__ne__(3, 3)]
        out += [_error(lambda: int.__eq__("a", 1)), {}.__lt__({}), object.__lt__(1, 2), None.__eq__(None)]
        return x + 1, out

    return Case(f, vec())


class Watched(dict):
    log = []

    def __missing__(self, key):
        self.log.append(("missing", key))
        return "made"

    def __getitem__(self, key):
        self.log.append(("get", key))
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        self.log.append(("set", key))
        super().__setitem__(key, value)

    def __delitem__(self, key):
        self.log.append(("del", key))
        super().__delitem__(key)

    def __contains__(self, key):
        self.log.append(("in", key))
        return super().__contains__(key)


@program(min_ops=1)
def dict_methods_past_overrides():
    def make():
        Watched.log.clear()

        def f(x, outside):
            out = []
            for d in (Watched(a=1, b=2, c=3), outside):
                out += [d.pop("a"), d.pop("zz", 0), d.get("b"), d.get("zz"), d["zz"], d.setdefault("n", 5), d["b"]]
                d.update(k=7)
                d["s"] = 8
                del d["b"]
                out += [
                    "s" in d,
                    dict(d),
                    d.popitem(),
                    d.copy(),
                    list(d.items()),
                    len(d),
                    _error(lambda: d.pop("gone")),
                ]
            return x + len(out), out, list(Watched.log)

        return Case(f, vec(), Watched(a=1, b=2, c=3))

    return make()


@program(min_ops=1)
def counters():
    def f(x, outside):
        out = []
        for c in (collections.Counter(a=3, f=4), outside):
            out += [c.pop("f"), c["zz"], sorted(c.items()), c.pop("gone", None)]
            del c["gone"]
            del c["a"]
            out += [_error(lambda: c.pop("a")), len(c)]
        return x + 1, out

    return Case(f, vec(), collections.Counter(a=3, f=4))


class _Filled(collections.defaultdict):
    def __getitem__(self, key):
        return super().__getitem__(key)


@program(min_ops=1)
def missing_that_is_no_function():
    def f(x):
        class D(dict):
            __missing__ = None

        class E(dict):
            __missing__ = staticmethod(lambda key: ("static", key))

        d = _Filled(list)
        return x + 1, _error(lambda: D()["a"]), E()["a"], d["k"], dict(d), D(a=1)["a"]

    return Case(f, vec())


class _Grown(list):
    def __iter__(self):
        return iter(["own"])

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return "item"


@program()
def list_methods_past_overrides():
    def f(x):
        a = _Grown([3, 1, 2])
        before = list(reversed(a))
        a.extend(a)
        out = [before, 3 in a, "own" in a, a.index(2), a.count(1), list(reversed(a)), list.__len__(a)]
        a.remove(3)
        a.sort()
        return x + 1, out, [list.__getitem__(a, i) for i in range(list.__len__(a))]

    return Case(f, vec())


class _Named(list):
    def __init__(self, items):
        super().__init__(item for item in items)


@program(min_ops=1)
def containers_extended_by_themselves():
    def f(x, a, b):
        a.extend(b)
        a += a
        d = collections.deque([1, 2])
        d.extend(d)
        d.extendleft(d)
        s = {1, 2}
        s.update(s)
        e = {1: 2}
        e.update(e)
        n = _Named([1, 2])
        n.extend(n)
        n[1:1] = n
        return x + len(a), len(b), d, s, e, n

    same = _Named([vec(), vec()])
    return Case(f, vec(), same, same)


class _OddSet(set):
    def __iter__(self):
        return iter(["odd"])


@program(min_ops=1)
def set_operations_past_overrides():
    def f(x):
        odd = _OddSet([1, 2])
        s = {2, 3}
        out = [sorted(s.union(odd)), sorted(s.intersection(odd)), sorted(s.difference(odd)), s.isdisjoint(odd)]
        out += [sorted(s.symmetric_difference(odd)), s.issubset(odd), s.issuperset(odd)]
        s.update(odd)
        return x + 1, out, sorted(s), len(odd)

    return Case(f, vec())


@program(min_ops=1)
def set_questions_end_early():
    def f(x):
        seen = []

        def items(*values):
            for value in values:
                seen.append(value)
                yield value

        left = iter([1, 2, 3, 4])
        out = [{2}.isdisjoint(items(1, 2, 3)), {1, 2}.issuperset(items(1, 5, 2)), frozenset([2]).isdisjoint(left)]
        out += [list(left), {1, 2}.issuperset(_OddSet([1])), {"odd"}.isdisjoint(_OddSet([1]))]
        for ask in ({1}.isdisjoint, {1}.issuperset):
            try:
                ask(items({1}, 2))
            except TypeError as error:
                out.append(str(error))
        return x + 1, out, seen

    return Case(f, vec())


class _Back(list):
    def __reversed__(self):
        return iter(["back"])


class _Mirror(dict):
    def __iter__(self):
        return iter("xyz")


@program(min_ops=1)
def reversed_by_own_methods():
    def f(x):
        class T(tuple):
            def __len__(self):
                return 2

            def __getitem__(self, index):
                return index * 10

        return x + 1, list(reversed(_Back([1]))), list(reversed(_Mirror(a=1, b=2))), list(reversed(T((5, 6, 7))))

    return Case(f, vec())


@program(min_ops=1)
def proxies_compared():
    def f(x):
        a = types.MappingProxyType({"a": 1})
        return x + 1, a == {"a": 1}, a != {"a": 2}, a == a

    return Case(f, vec())


@program(min_ops=1)
def smaller_of_tensors_objects():
    class Box:
        def __init__(self, value):
            self.value = value

        def __lt__(self, other):
            return self.value < other.value

    def f(x):
        log = []

        def items():
            for i in (3, 1, 2):
                log.append(("item", i))
                yield i

        def key(i):
            log.append(("key", i))
            return -i

        return x + 1, max(items(), key=key), min(items(), key=key), min([Box(2), Box(1)]).value, log, torch.sum(x)

    return Case(f, vec())


@program(min_ops=1)
def a_length_that_changes_and_turns_negative():
    class Sized:
        def __init__(self, n):
            self.n = n

        def __len__(self):
            return self.n

    def f(x, sized):
        try:
            return x * len(sized), bool(sized)
        except ValueError as e:
            return x + 1, str(e)

    case = Case(f, torch.ones(3), Sized(2))
    for n in (3, -1, 0, 5, -2, 1):
        case.then_call(torch.ones(3), Sized(n))
    return case


class _Row(tuple):
    """As libraries have them: a tuple whose methods end in tuple's own."""

    def __new__(cls, items):
        return super().__new__(cls, items)

    def __getitem__(self, index):
        found = super().__getitem__(index)
        return _Row(found) if isinstance(index, slice) else found

    def __contains__(self, value):
        return super().__contains__(value) or value == 99

    def __len__(self):
        return super().__len__() + 1

    def __iter__(self):
        return super().__iter__()

    @property
    def first(self):
        return self[0]


class _Items(list):
    def __contains__(self, value):
        return super().__contains__(value) or value == 99

    def __len__(self):
        return super().__len__() + 1


_ROW, _ITEMS = _Row((1, 2)), _Items([1, 2])


@program(full=3)
def slots_of_the_base_under_those_of_a_class():
    def f(x, row):
        made, items = _Row((3, x)), _Items([2, 5])
        x = x * _ROW.first + made.first + made[1:][0] + row[0]
        answers = [1 in _ROW, 99 in _ROW, 7 in _ROW, 5 in items, 99 in items, 6 in _ITEMS, row.first in row]
        try:
            made[5]
        except IndexError as e:
            answers.append(str(e))
        return x, answers, len(made), len(items), len(_ROW), sum(row), [*row], type(made[:1]) is _Row

    return Case(f, vec(), _Row((4, 5))).then_call(vec(), _Row((6, 5))).then_call(vec(), _Row((4, 5, 6)))


def _reading(base):
    class Reads(base):
        def __init__(self, *rest):
            self.n = 2

        def __getattribute__(self, name):
            return super().__getattribute__(name)

    return Reads


@program(min_ops=1)
def attributes_read_by_the_class_of_a_built_in_value():
    objects = [_reading(base)() for base in (object, str, int, float, bytes, tuple, list, dict, set, frozenset)]

    def f(x, objects):
        found = [(getattr(o, "n", 0), hasattr(o, "n"), hasattr(o, "m"), getattr(o, "m", 7)) for o in objects]
        return x + sum(n for n, *_ in found), found

    return Case(f, vec(), objects).then(lambda case: setattr(case.args[1][1], "n", 5))


class _AnswersAll(int):
    def __getattr__(self, name):
        return None


class _AnswersNothing(float):
    def __getattr__(self, name):
        raise AttributeError(name)


class _ReadsItself(float):
    def __getattribute__(self, name):
        return super().__getattribute__(name)


@program(min_ops=1)
def numbers_whose_class_reads_attributes_beside_tensors():
    """torch asks for __torch_function__, and gets an answer."""

    def f(x, number):
        answers = []
        x = x + 1
        for call in (lambda: number + x, lambda: x + number, lambda: torch.mul(x, number), lambda: x.add(number)):
            try:
                answers.append(call())
            except TypeError as e:
                answers.append(str(e))
        return answers

    case = Case(f, vec(), _AnswersAll(3))
    return case.then_call(vec(), _AnswersNothing(3)).then_call(vec(), _ReadsItself(3))


@program()
def is_tensor_asks_for_the_class():
    log = []

    class Watched:
        def __getattribute__(self, name):
            log.append(name)
            return super().__getattribute__(name)

    watched = Watched()

    def f(x):
        return x + 1, torch.is_tensor(watched), torch.is_tensor(x)

    return Case(f, vec()).logging(log)
