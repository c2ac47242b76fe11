"""Locals, operators, control flow, matching."""

import collections

from tests.python.driver_programs.common import program

GLOBAL = 10


@program
def arithmetic():
    a, b = 17, 5
    return [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> b, a & b, a | b, a ^ b, -a, +a, ~a, not a]


# fmt: off
# ruff: noqa: E702
@program
def in_place_operators():
    r = []
    for op in range(1):
        a = 17
        a += 5; r.append(a)
        a -= 3; r.append(a)
        a *= 2; r.append(a)
        a //= 3; r.append(a)
        a %= 9; r.append(a)
        a **= 3; r.append(a)
        a <<= 2; r.append(a)
        a >>= 1; r.append(a)
        a &= 1023; r.append(a)
        a |= 3; r.append(a)
        a ^= 5; r.append(a)
        a /= 4; r.append(a)
    return r
# fmt: on


@program
def matmul_operators():
    class M:
        def __matmul__(self, o):
            return "mm"

        def __imatmul__(self, o):
            return "imm"

    m = M()
    r = [m @ 1]
    m @= 2
    return r + [m]


@program
def in_place_keeps_identity():
    a = b = [1]
    a += [2]
    return a is b, a


@program
def in_place_on_tuple_item():
    t = ([1],)
    try:
        t[0] += [2]
    except TypeError as e:
        return str(e), t


@program
def comparisons():
    return [1 < 2, 1 <= 1, 1 == 2, 1 != 2, 3 > 2, 3 >= 4, GLOBAL is float, None is not None, 1 in [1], 1 not in [1]]


@program
def chained_comparisons():
    log = []

    def f(v):
        log.append(v)
        return v

    return [f(1) < f(2) < f(3), f(3) < f(2) < f(9), 1 < 2 > 0 != 5], log


@program
def boolean_operators(x):
    return [x and 1, x or 1, None or 0 or "last", 1 and 2 and 0 and 5, not (x and None)]


@program
def conditional_expression(x):
    return (1 if x else 2), (1 if not x else 2)


@program
def while_else():
    r = []
    n = 5
    while n:
        n -= 1
        if n == 3:
            continue
        r.append(n)
    else:
        r.append("else")
    return r


@program
def for_break_else():
    for i in range(10):
        if i == 4:
            break
    else:
        return "else"
    return i


@program
def nested_loops():
    r = []
    for i in range(3):
        for j in range(i, 3):
            if (i + j) % 2:
                continue
            r.append((i, j))
    return r


@program
def return_inside_loop():
    for i in range(3):
        for j in (10, 20):
            if i == 1:
                return i, j


@program
def loop_with_none_tests():
    r = []
    for v in (None, 1, None, 2):
        if v is None:
            r.append("n")
        if v is not None:
            r.append(v)
    while v is not None:
        v = None
    return r


@program
def backward_conditional_jumps():
    r = []
    it = iter([1, 2, 0, 3])
    while v := next(it):
        r.append(v)
    it = iter([None, None, 4])
    while (v := next(it)) is None:
        r.append("none")
    while not (v := next(it, True)):
        r.append(v)
    return r


@program
def augmented_assignment_targets(x):
    x.value += 1
    d = {"a": 1}
    d["a"] += 5
    l = [1, 2]
    l[-1] *= 7
    return x.value, d, l


@program
def deletion():
    a = 1
    del a
    try:
        a
    except UnboundLocalError as e:
        return str(e)


@program
def deletion_of_unbound():
    try:
        del nothing
    except UnboundLocalError as e:
        r = str(e)
    nothing = 1
    return r


@program
def deletion_of_items_and_attributes(x):
    l = list(range(5))
    del l[1], l[-1], l[0:1]
    x.extra = 1
    del x.extra
    try:
        del x.extra
    except AttributeError as e:
        return l, str(e)


@program
def swaps_and_rotations():
    a, b, c, d = 1, 2, 3, 4
    a, b = b, a
    a, b, c = c, a, b
    a, b, c, d = d, c, b, a
    return a, b, c, d


@program
def many_constants():
    return sum([1, 2, 3, 4.5, 1j, True, 2**70, -1, 1e10]), "s", b"b", None, ..., (1, (2, 3)), frozenset({1})


@program
def slices():
    l = list(range(10))
    l[2:4] = "ab"
    del l[::3]
    return l, l[1:5], l[::-1], l[:3], l[-2:], "abcdef"[1:5:2]


@program
def walrus():
    r = [y := 5, y**2, (z := y + 1)]
    if (n := len(r)) > 2:
        r.append(n)
    return r, y, z, [last := i for i in range(3)], last


@program
def assertion():
    try:
        assert 1 == 2, "the message"
    except AssertionError as e:
        return e.args


@program
def plain_assertion():
    assert False


@program
def match_statement():
    import dataclasses

    @dataclasses.dataclass
    class P:
        x: int
        y: int

    def m(v):
        match v:
            case None | True | False:
                return "single"
            case 0 | 1:
                return "small"
            case "s":
                return "string"
            case [] | [_]:
                return "short"
            case [1, [2, *rest], *_]:
                return "nested", rest
            case [a, b, *c]:
                return "seq", a, b, c
            case {"k": v1, "m": {"n": v2}}:
                return "map2", v1, v2
            case {"k": v1, **kw}:
                return "map", v1, kw
            case P(0, y=y):
                return "P0", y
            case P(x, y) if x > y:
                return "Pgt", x, y
            case P() as p:
                return "P", p.x
            case int(n):
                return "int", n
            case str() | bytes():
                return "text"
            case GLOBAL.real:
                return "value"
        return "nothing"

    return [
        m(v)
        for v in (
            None,
            True,
            0,
            "s",
            [],
            [5],
            [1, [2, 3, 4], 5],
            [1, 2, 3],
            {"k": 1, "m": {"n": 2}},
            {"k": 1, "z": 2},
            P(0, 5),
            P(3, 1),
            P(1, 3),
            77,
            b"x",
            "xyz",
            1.5,
            (1, 2),
            range(3),
            collections.deque([1, 2]),
        )
    ]


@program
def match_errors():
    class K:
        __match_args__ = 5

    class L:
        __match_args__ = (1,)

    class M:
        __match_args__ = ("a", "a")
        a = 1

    def k(v):
        match v:
            case K(1):
                pass

    def ell(v):
        match v:
            case L(1):
                pass

    def m(v):
        match v:
            case M(1, 1):
                pass

    def n(v):
        match v:
            case int(1, 2):
                pass

    def o(v):
        match v:
            case GLOBAL():
                pass

    def p(v):
        match v:
            case M(1, a=1):
                pass

    def q(v):
        match v:
            case M(a=1, b=2):
                return "yes"
        return "no"

    r = []
    for f, v in ((k, K()), (ell, L()), (m, M()), (n, 1), (o, 1), (p, M()), (q, M())):
        try:
            r.append(f(v))
        except TypeError as e:
            r.append(str(e))
    return r


@program
def match_mapping_with_get():
    class D(collections.defaultdict):
        pass

    d = D(int, a=1)

    def f(v):
        match v:
            case {"a": x, "b": y}:
                return x, y
            case {"a": x}:
                return x

    return f(d), dict(d), f(collections.ChainMap({"a": 3}))
