"""Random expressions over s0 ... s3, compared with Python's integers and with sympy. As a command: 100,000 of them.

python tests/python/symbolic_cases.py [count] [seed]
"""

import ast
import random
import sys
import time

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


def check_values(rng, count, tick=lambda: None):
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
        tick()
    return done


class _Sympy:
    """Texts as sympy expressions, in its own forms: torch's FloorDiv merges divisors that are negative, and is off by
    one then."""

    def __init__(self):
        import sympy

        self.symbols = sympy.symbols(f"s0:{SYMBOLS}", integer=True, positive=True)
        self.names = {str(symbol): symbol for symbol in self.symbols}
        self.integer = sympy.Integer
        self.truths = (sympy.false, sympy.true)
        self.operators = {
            ast.Add: lambda a, b: a + b,
            ast.Sub: lambda a, b: a - b,
            ast.Mult: lambda a, b: a * b,
            ast.FloorDiv: lambda a, b: sympy.floor(a / b),
            ast.Mod: sympy.Mod,
            ast.Pow: lambda a, b: a**b,
        }
        self.relations = {
            ast.Eq: sympy.Eq,
            ast.NotEq: sympy.Ne,
            ast.Lt: sympy.Lt,
            ast.LtE: sympy.Le,
            ast.Gt: sympy.Gt,
            ast.GtE: sympy.Ge,
        }
        self.words = {ast.And: sympy.And, ast.Or: sympy.Or}
        self.negation = sympy.Not
        self.functions = {"min": sympy.Min, "max": sympy.Max}

    def read(self, text):
        return self._of(ast.parse(text, mode="eval").body)

    def _of(self, node):
        if isinstance(node, ast.Constant):
            return self.truths[node.value] if isinstance(node.value, bool) else self.integer(node.value)
        if isinstance(node, ast.Name):
            return self.names[node.id]
        if isinstance(node, ast.BinOp):
            return self.operators[type(node.op)](self._of(node.left), self._of(node.right))
        if isinstance(node, ast.UnaryOp):
            inner = self._of(node.operand)
            return self.negation(inner) if isinstance(node.op, ast.Not) else -inner
        if isinstance(node, ast.BoolOp):
            return self.words[type(node.op)](*map(self._of, node.values))
        if isinstance(node, ast.Compare):
            return self.relations[type(node.ops[0])](self._of(node.left), self._of(node.comparators[0]))
        return self.functions[node.func.id](*map(self._of, node.args))

    def value(self, expression, numbers):
        return expression.xreplace(dict(zip(self.symbols, map(self.integer, numbers), strict=True)))


def check_sympy(rng, count, tick=lambda: None):
    """The canonical form has the value that sympy's own has; a simplified comparison the truth of sympy's. Half of
    each."""
    theirs = _Sympy()
    made = 0
    while made < count:
        text = expression(rng, 2) if made % 2 else condition(rng, 1)
        try:
            canonical = _core.symbolic_text(text)
        except OverflowError:
            continue
        expected, ours = theirs.read(text), theirs.read(canonical)
        for _ in range(3):
            numbers = values(rng)
            value = theirs.value(expected, numbers)
            if made % 2:
                assert value.is_Integer, (text, value)
                if abs(int(value)) >= 1 << 62:
                    continue
                wanted = int(value)
            else:
                wanted = bool(value)
            seen = _core.symbolic_evaluate(text, numbers)
            assert seen == wanted and isinstance(seen, bool) == isinstance(wanted, bool), (text, numbers, seen, wanted)
            assert theirs.value(ours, numbers) == value, (text, canonical, numbers)
        made += 1
        tick()
    return made


def check_known(rng, count, tick=lambda: None):
    """What the environment knows after some decisions holds for every assignment that the decisions allow."""
    known_count = 0
    for _ in range(count):
        tick()
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


class _Bar:
    """A line that grows, on a terminal; otherwise one line for each tenth."""

    def __init__(self, title, total):
        self.title, self.total, self.count, self.start = title, total, 0, time.monotonic()
        self.step = max(total // (200 if sys.stdout.isatty() else 10), 1)

    def __call__(self):
        self.count += 1
        if self.count % self.step and self.count != self.total:
            return
        part, seconds = self.count / self.total, time.monotonic() - self.start
        text = f"{self.title} {self.count:,} of {self.total:,}, {seconds:.0f} s"
        if sys.stdout.isatty():
            full = int(part * 40)
            left = seconds / part - seconds
            print(f"\r[{'#' * full}{'.' * (40 - full)}] {text}, {left:.0f} s left ", end="", flush=True)
        else:
            print(text, flush=True)


def _command():
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    results = []
    for title, check, count in (
        ("Python's values", check_values, total),
        ("sympy's values and truth", check_sympy, total),
        ("what is known holds", check_known, total // 10),
    ):
        found = check(random.Random(seed), count, _Bar(title, count))
        results.append(f"{title}: {count:,} cases, {found:,} compared, no difference")
        print()
    print("\n".join(results))


if __name__ == "__main__":
    _command()
