"""itertools, functools, operator, math, copy, random, re, json and others, as programs use them."""

import collections
import copy
import datetime
import functools
import itertools
import json
import math
import operator
import os
import random
import re
import string

import torch
import torch.utils._pytree as pytree
from packaging import version

from tests.python.programs import Case, mat, program, vec


@program(full=2)
def itertools_chain_zip_product():
    def f(x):
        a = list(itertools.chain([1], (2, 3), "a"))
        b = list(itertools.chain.from_iterable([[1], [2]]))
        c = list(itertools.product([1, 2], "ab"))
        d = list(itertools.zip_longest([1], [2, 3], fillvalue=0))
        return a, b, c, d, x + len(c), x * 2

    return Case(f, vec())


@program(full=2)
def itertools_infinite():
    def f(x):
        a = list(itertools.islice(itertools.count(5, 2), 3))
        b = list(itertools.islice(itertools.cycle("ab"), 5))
        c = list(itertools.repeat(x + 1, 2))
        return a, b, c, x * 2

    return Case(f, vec())


@program(full=1)
def itertools_selection():
    def f(x):
        n = range(10)
        return (
            list(itertools.takewhile(lambda v: v < 3, n)),
            list(itertools.dropwhile(lambda v: v < 7, n)),
            list(itertools.compress("abc", [1, 0, 1])),
            list(itertools.filterfalse(lambda v: v % 2, n)),
            list(itertools.islice(n, 2, 8, 3)),
            x + 1,
        )

    return Case(f, vec())


@program(full=3)
def itertools_accumulate_and_starmap():
    def f(x):
        a = list(itertools.accumulate([1, 2, 3]))
        b = list(itertools.accumulate([x, x, x], lambda p, q: p + q))
        c = list(itertools.starmap(lambda p, q: p * q, [(x, 2), (3, 4)]))
        d = list(itertools.accumulate([1, 2], operator.mul, initial=10))
        return a, b, c, d

    return Case(f, vec())


@program(full=1)
def itertools_groupby_pairwise_tee():
    def f(x):
        a = [(k, list(g)) for k, g in itertools.groupby("aabbbc")]
        b = list(itertools.pairwise([1, 2, 3]))
        p, q = itertools.tee([1, 2])
        return (
            a,
            b,
            list(p),
            list(q),
            list(itertools.permutations([1, 2])),
            list(itertools.combinations("abc", 2)),
            x + 1,
        )

    return Case(f, vec())


@program(full=1)
def words_of_refusals():
    """What is no class is refused in isinstance's words, whatever is asked about; a deque says what it does not hold."""

    def said(function, *args):
        try:
            return function(*args)
        except (TypeError, ValueError) as error:
            return str(error)

    def f(x, items):
        held = collections.deque("ab", 2)
        asked = [said(isinstance, value, 5) for value in (x, iter(items), 3)]
        generic = [said(isinstance, value, list[int]) for value in (x, zip(items), 3)]
        classes = said(issubclass, int, 5), said(issubclass, int, list[int]), issubclass(int, int | str)
        unions = isinstance(iter(items), int | str), isinstance(3, int | str)
        return x + 1, asked, generic, classes, unions, said(held.remove, 2), said(held.index, "q")

    return Case(f, vec(), [1, 2])


@program(full=2)
def groups_that_are_left_behind():
    """A group ends when the next one begins, keys that are one object are equal, and what cannot be iterated is refused at once."""
    nan = float("nan")

    def f(x):
        groups = itertools.groupby([1, 1, 2])
        unseen = next(groups)[1]
        next(groups)
        others = itertools.groupby("aab")
        _, begun = next(others)
        first = next(begun)
        _, last = next(others)
        try:
            itertools.groupby(5)
        except TypeError as error:
            refused = str(error)
        same = [len(list(group)) for _, group in itertools.groupby([nan, nan, 1.0])]
        by_shape = [len(list(group)) for _, group in itertools.groupby([x, x * 2, x[:1]], key=lambda t: t.shape)]
        return x + 1, list(unseen), first, list(begun), list(last), refused, same, by_shape

    return Case(f, vec())


@program(full=1)
def itertools_object_returned():
    def f(x):
        return itertools.count(3), itertools.chain([x + 1], [2]), itertools.repeat("r", 2)

    return Case(f, vec())


@program()
def itertools_count_from_outside():
    counter = itertools.count()

    def f(x):
        return x + next(counter) + next(counter)

    return Case(f, vec()).watching(counter)


@program(full=3)
def functools_reduce():
    def f(x):
        a = functools.reduce(operator.add, [x, x, x])
        b = functools.reduce(lambda p, q: p * q, [1, 2, 3], 10)
        return a, b, functools.reduce(lambda p, q: q, [x], x * 2)

    return Case(f, vec())


@program()
def functools_lru_cache():
    calls = []

    @functools.lru_cache(maxsize=None)
    def slow(n):
        calls.append(n)
        return n * n

    def f(x):
        return x + slow(3) + slow(3) + slow(4)

    return Case(f, vec()).watching(calls)


@program(full=1)
def cached_methods():
    class Scale:
        def __init__(self, by):
            self.by = by

        @functools.lru_cache(maxsize=None)
        def squared(self, plus=0):
            calls.append((self.by, plus))
            return self.by * self.by + plus

    calls = []
    scale = Scale(3)

    def f(x):
        return x * scale.squared() + scale.squared(plus=1) + Scale.squared(scale)

    def change(case):
        scale.by = 5  # not seen by the cache

    return Case(f, vec()).watching(calls).then(change)


@program(full=1)
def functools_partialmethod_and_cmp():
    class A:
        def m(self, x, n):
            return x * n

        double = functools.partialmethod(m, n=2)

    def f(x):
        ordered = sorted([3, 1, 2], key=functools.cmp_to_key(lambda p, q: q - p))
        return A().double(x), ordered

    return Case(f, vec())


@program(full=4)
def operator_module():
    def f(x):
        return (
            operator.add(x, 1),
            operator.mul(2, x),
            operator.itemgetter(1)([1, 2]),
            operator.itemgetter("a", "b")({"a": 1, "b": 2}),
            operator.attrgetter("shape")(x),
            operator.methodcaller("sum", 0)(x),
            operator.getitem(x, 0),
            operator.not_(0),
            operator.contains([1], 1),
            operator.index(5),
            operator.truth([]),
            operator.neg(3),
            operator.is_(x, x),
        )

    return Case(f, vec())


@program(full=1)
def operator_inplace():
    def f(x, items):
        same = operator.iadd(items, [1])
        y = operator.iadd(x, 1)
        return same is items, y is x

    return Case(f, vec(), [0])


@program(full=2)
def math_functions():
    def f(x):
        n = x.shape[-1]
        return (
            x * math.sqrt(n),
            x / math.log2(16),
            math.pi,
            math.floor(2.7),
            math.ceil(2.1),
            math.prod([1, 2, 3]),
            math.gcd(12, 18),
            math.isclose(0.1 + 0.2, 0.3),
            math.inf > 1,
            math.isnan(math.nan),
            math.factorial(5),
            math.hypot(3, 4),
            math.exp(0.5),
            math.fsum([0.1] * 3),
            math.comb(5, 2),
            math.copysign(1, -0.0),
            math.trunc(-2.5),
            math.frexp(8.0),
        )

    return Case(f, vec())


@program(full=1)
def math_errors():
    def f(x):
        out = []
        for action in (lambda: math.sqrt(-1), lambda: math.log(0), lambda: math.factorial(-1), lambda: math.exp(1e5)):
            try:
                action()
            except Exception as error:
                out.append((type(error).__name__, str(error)))
        return out, x + 1

    return Case(f, vec())


@program(full=1)
def copy_and_deepcopy():
    class Node:
        def __init__(self, value):
            self.value = value
            self.children = []

    def f(x, node):
        shallow = copy.copy(node)
        deep = copy.deepcopy(node)
        shallow.value = 5
        deep.children.append(1)
        return shallow, deep, shallow.children is node.children, deep.children is node.children, x + 1

    return Case(f, vec(), Node(1))


@program()
def deepcopy_of_tensors():
    def f(x):
        both = [x, x]
        deep = copy.deepcopy(both)
        deep[0].add_(1)
        return deep, deep[0] is deep[1], x

    return Case(f, vec())


@program(full=1)
def copy_protocol():
    class A:
        def __init__(self, n):
            self.n = n

        def __copy__(self):
            return A(self.n + 1)

        def __deepcopy__(self, memo):
            return A(self.n + 10)

    def f(x, a):
        return x + copy.copy(a).n, copy.deepcopy([a])[0].n

    return Case(f, vec(), A(1))


@program()
def random_module():
    def f(x):
        a = random.random()
        b = random.randint(1, 10)
        random.seed(7)
        c = random.choice([1, 2, 3])
        items = [1, 2, 3, 4]
        random.shuffle(items)
        return x * a + b, c, items, random.uniform(0, 1), random.sample(range(9), 2)

    return Case(f, vec())


@program()
def random_instance():
    rng = random.Random(3)

    def f(x):
        return x * rng.random() + rng.randint(0, 5)

    return Case(f, vec()).watching(rng)


@program(full=1)
def regular_expressions():
    pattern = re.compile(r"(\w+)=(\d+)")

    def f(x, text):
        found = pattern.match(text)
        return (
            x + int(found.group(2)),
            found.groups(),
            re.sub(r"\d", "#", text),
            re.split("=", text),
            bool(re.fullmatch("a+", "aaa")),
        )

    return Case(f, vec(), "key=12")


@program(full=1)
def json_round_trip():
    def f(x):
        text = json.dumps({"a": [1, 2.5, None, True], "b": "s"}, sort_keys=True)
        data = json.loads(text)
        return x + data["a"][0], text, data

    return Case(f, vec())


@program(full=1)
def string_module():
    def f(x):
        return string.ascii_lowercase[:3], string.Template("$a b").substitute(a=1), string.capwords("ab cd"), x + 1

    return Case(f, vec())


@program(full=2)
def pytree_map():
    def f(tree):
        doubled = pytree.tree_map(lambda leaf: leaf * 2, tree)
        leaves, spec = pytree.tree_flatten(tree)
        return doubled, len(leaves), pytree.tree_unflatten([leaf + 1 for leaf in leaves], spec)

    return Case(f, {"a": vec(), "b": [mat(), (vec(2), 3)]})


@program()
def time_and_environment():
    import os
    import time

    def f(x):
        start = time.perf_counter()
        name = os.environ.get("SURELY_NOT_SET", "default")
        return x + len(name), time.perf_counter() >= start, os.path.join("a", "b"), os.path.basename("/x/y.z")

    return Case(f, vec())


@program()
def environment_changed_between_calls():
    import os

    os.environ.pop("CORPUS_SWITCH", None)

    def f(x):
        return x + int(os.environ.get("CORPUS_SWITCH", "0"))

    return Case(f, vec()).then(
        lambda case: os.environ.update(CORPUS_SWITCH="5"), lambda case: os.environ.pop("CORPUS_SWITCH")
    )


@program()
def inspect_frames():
    import inspect
    import sys

    def where():
        frame = sys._getframe(1)
        return frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)

    def f(x):
        y = x + 1
        found = where()
        stack = [s.function for s in inspect.stack()[:2]]
        return y * 2, found, stack

    return Case(f, vec())


@program(full=1)
def inspect_signature():
    import inspect

    def g(a, b=2, *args, c, **kwargs):
        return a

    def f(x):
        return x + len(inspect.signature(g).parameters), inspect.isfunction(g), inspect.ismethod(g), callable(g)

    return Case(f, vec())


@program()
def numpy_round_trip():
    def f(x):
        a = (x + 1).numpy()
        b = a * 2
        return torch.from_numpy(b) + 1, float(b.sum())

    return Case(f, vec())


@program()
def string_io_and_pickle():
    import io
    import pickle

    def f(x):
        out = io.StringIO()
        out.write("text")
        data = pickle.loads(pickle.dumps({"a": [1, 2]}))
        return x + len(out.getvalue()), data

    return Case(f, vec())


@program(full=1)
def heapq_and_bisect():
    import bisect
    import heapq

    def f(x):
        heap = [5, 1, 4]
        heapq.heapify(heap)
        heapq.heappush(heap, 0)
        return x + heapq.heappop(heap), heap, bisect.bisect_left([1, 3, 5], 3), heapq.nlargest(2, [4, 9, 2])

    return Case(f, vec())


@program(full=1)
def fractions_and_decimals():
    import decimal
    import fractions

    def f(x):
        a = fractions.Fraction(1, 3) + fractions.Fraction(1, 6)
        b = decimal.Decimal("1.10") + decimal.Decimal("2.2")
        return x * float(a), a, b

    return Case(f, vec())


@program(full=1)
def decimals_in_another_context():
    import decimal

    def f(x):
        d = decimal.Decimal("1.2345")
        return x + 1, d + 1, -d, d * 2, f"{d:f}", d < 2, decimal.Decimal("1.5") * 2

    def imprecise(case):
        decimal.getcontext().prec = 3

    def precise(case):
        decimal.getcontext().prec = 28

    decimal.setcontext(decimal.Context(prec=28))
    return Case(f, vec()).then(imprecise, precise)


@program()
def decimals_that_set_flags():
    import decimal

    def f(x):
        d = decimal.Decimal("1.25")
        third = d / 3
        return x + 1, third, round(d, 1), [k.__name__ for k, v in decimal.getcontext().flags.items() if v]

    decimal.setcontext(decimal.Context(prec=9))
    return Case(f, vec())


@program()
def threading_local_and_lock():
    import threading

    lock = threading.Lock()
    store = threading.local()

    def f(x):
        with lock:
            store.n = getattr(store, "n", 0) + 1
        return x + store.n, lock.locked()

    return Case(f, vec())


@program(min_ops=2)
def replacements_made_by_a_function():
    import re

    def f(x):
        seen = []

        def number(match):
            seen.append(match.group())
            return "<%d>" % len(match.group())

        pattern = re.compile("b*")
        texts = [
            pattern.sub(number, "abbcb"),
            pattern.sub(number, "abbcb", 2),
            re.sub(r"(\w)(\d)", lambda m: m[2] + m[1], "a1 b2"),
            re.sub("b", r"[\g<0>]", "abc"),
        ]
        y = x + len(seen)
        texts.append(re.sub("a", lambda m: print("found", m.span()) or "z", "aba"))
        try:
            re.sub("a", lambda m: 5, "a")
        except TypeError as error:
            texts.append(str(error))
        return y * 2, texts, seen

    return Case(f, vec())


@program(full=2)
def operator_functions_on_containers():
    def f(x):
        items, table = [1, x, 2], {"a": 1, "b": 2}
        operator.delitem(items, 0)
        operator.delitem(table, "a")
        grown = operator.iconcat(items, [5])
        counts = operator.countOf([1, 1.0, True, 2], 1), operator.indexOf("abc", "c"), operator.concat((1,), (2,))
        return items, table, grown is items, counts, operator.call(torch.sin, x), operator.inv(5), x + 1

    return Case(f, vec())


@program(full=1)
def operator_functions_with_wrong_arguments():
    def f(x):
        texts = []
        for call in (
            lambda: operator.countOf(3, 1),
            lambda: operator.indexOf([1, 2], 3),
            lambda: operator.concat(1, 2),
            lambda: operator.delitem([1], 4),
            lambda: operator.iconcat(1, [2]),
        ):
            try:
                call()
            except (TypeError, ValueError, IndexError) as error:
                texts.append((type(error), str(error)))
        return texts, x + 1

    return Case(f, vec())


@program(full=2)
def itertools_product_repeated():
    def f(x):
        pairs = itertools.product([x, 1], repeat=2)
        first = next(pairs)
        return (
            first,
            pairs,
            list(itertools.product("ab", [1], repeat=1)),
            list(itertools.product([1], repeat=0)),
            x * 2,
            x + 1,
        )

    return Case(f, vec())


@program(full=2)
def versions_paths_and_dates():
    def f(x):
        if torch.__version__ >= "2.0" and version.parse(torch.__version__) >= version.parse("2.0"):
            x = x + 1
        letters = [letter for letter in torch.__version__][:1]
        match = re.compile(r"(\d+)").match(torch.__version__)
        age = datetime.timedelta(days=2) + datetime.timedelta(hours=12)
        where = os.path.join("models", "small"), os.path.basename("a/b.c"), os.fspath("a")
        return x * 2, letters, match.group(1), age.days, where

    return Case(f, vec())
