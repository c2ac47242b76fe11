"""Random expressions over s0 ... s3, compared with Python's integers and with sympy. As a command: 100,000 of them.

python tests/python/symbolic_cases.py [count] [seed]
"""

import random
import sys

from stator import _core

SYMBOLS = 4


def expression(rng, depth):
    """Text of an integer expression; divisors are never 0, exponents small."""
    if depth == 0 or rng.random() < 0.2:
        return f"s{rng.randrange(SYMBOLS)}" if rng.random() < 0.7 else str(rng.randrange(-4, 9))
    left, right = expression(rng, depth - 1), expression(rng, depth - 1)
    kind = rng.randrange(9)
    if kind == 0:
        return f"({left}) // {rng.choice([2, 3, 4, -2])}"
    if kind == 1:
        return f"({left}) % {rng.choice([2, 3, 5, -3])}"
    if kind == 2:
        return f"({left}) // s{rng.randrange(SYMBOLS)}"
    if kind == 3:
        return f"({left}) % s{rng.randrange(SYMBOLS)}"
    if kind == 4:
        return f"{rng.choice(['min', 'max'])}({left}, {right})"
    if kind == 5:
        return f"({left})**{rng.randrange(3)}"
    return f"({left}) {rng.choice('+-*')} ({right})"


def condition(rng, depth):
    if depth > 0 and rng.random() < 0.4:
        kind = rng.randrange(3)
        if kind == 2:
            return f"not ({condition(rng, depth - 1)})"
        return f"({condition(rng, depth - 1)}) {('and', 'or')[kind]} ({condition(rng, depth - 1)})"
    sign = rng.choice(["==", "!=", "<", "<=", ">", ">="])
    return f"{expression(rng, depth)} {sign} {expression(rng, depth)}"


def values(rng):
    return [rng.randrange(1, 30) for _ in range(SYMBOLS)]


def truth(text, numbers):
    names = {f"s{i}": number for i, number in enumerate(numbers)}
    return eval(text, {"__builtins__": {}, "min": min, "max": max}, names)


def check_values(rng, count):
    """The canonical form has Python's value, and so has its text."""
    done = 0
    while done < count:
        text = expression(rng, 3) if rng.random() < 0.7 else condition(rng, 2)
        numbers = values(rng)
        try:
            canonical = _core.symbolic_text(text)
        except OverflowError:
            continue
        expected = truth(text, numbers)
        if abs(int(expected)) >= 1 << 62:
            continue
        seen = _core.symbolic_evaluate(text, numbers)
        assert seen == expected and isinstance(seen, bool) == isinstance(expected, bool), (
            text,
            canonical,
            numbers,
            seen,
            expected,
        )
        assert truth(canonical, numbers) == expected, (text, canonical, numbers)
        assert _core.symbolic_text(canonical) == canonical, (text, canonical)
        done += 1
    return done


def check_conditions(rng, count):
    """sympy's simplified form of linear comparisons has the same truth as ours."""
    import sympy

    symbols = sympy.symbols(f"s0:{SYMBOLS}", integer=True, positive=True)
    names = {str(symbol): symbol for symbol in symbols}
    signs = {"==": sympy.Eq, "!=": sympy.Ne, "<": sympy.Lt, "<=": sympy.Le, ">": sympy.Gt, ">=": sympy.Ge}
    for _ in range(count):
        terms = [f"{rng.randrange(-3, 4)}*s{rng.randrange(SYMBOLS)}*s{rng.randrange(SYMBOLS)}" for _ in range(2)]
        left = " + ".join([*terms, str(rng.randrange(-5, 6))])
        right = f"{rng.randrange(-3, 4)}*s{rng.randrange(SYMBOLS)} + {rng.randrange(-5, 6)}"
        sign = rng.choice(list(signs))
        theirs = signs[sign](eval(left, {}, dict(names)), eval(right, {}, dict(names)))
        for _ in range(3):
            numbers = values(rng)
            expected = bool(theirs.subs(dict(zip(symbols, numbers, strict=True))))
            seen = _core.symbolic_evaluate(f"{left} {sign} {right}", numbers)
            assert seen is expected, (left, sign, right, numbers)
    return count


def check_known(rng, count):
    """What the environment knows after some decisions holds for every assignment that the decisions allow."""
    known_count = 0
    for _ in range(count):
        hints = values(rng)
        conditions = [condition(rng, 1) for _ in range(3)]
        try:
            known, decided, decisions = _core.symbolic_decide(hints, [1] * SYMBOLS, [1 << 62] * SYMBOLS, conditions)
        except (OverflowError, ArithmeticError):
            continue
        assert decided == truth(conditions[-1], hints), (conditions, hints)
        for text in decisions:
            assert truth(text, hints), (text, hints)
        if known is None:
            continue
        known_count += 1
        for _ in range(20):
            numbers = values(rng)
            if all(truth(text, numbers) for text in decisions):
                assert truth(conditions[-1], numbers) == known, (conditions, hints, numbers, decisions)
    return known_count


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    source = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(check_values(source, total), "expressions have Python's values")
    print(check_conditions(source, total // 20), "comparisons agree with sympy")
    print(check_known(source, total // 10), "known conditions hold")
