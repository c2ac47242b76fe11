"""Broad random programs: a byte string gives the source of a module with `make()`, as the programs of the corpus have it.

The bytes are genes of four each: one for the arguments and how the world changes between the calls, two for classes, one for a helper, and one
for each statement of the function. A gene decides about its part alone, so that changing, dropping or adding one leaves the rest of a program as
it is: that is what lets a search learn. The productions are in grammar.py.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from tests.fuzz.grammar import BASES, EXPRESSIONS, METHODS, STATEMENTS

GENE = 4
KINDS = ("tensors", "tensor", "int", "float", "bool", "str", "list", "dict", "set", "obj", "fn", "cls", "any")
_HOLE = re.compile(
    rf"(?P<mark>[$!@])(?P<kind>{'|'.join(KINDS)})?(?::(?P<name>\w+))?(?!\w)|<(?P<part>[a-z]+)(?P<rest>[ :][^<>\n]*)?>"
)

PRELUDE = "from tests.fuzz.world import *\n"


def parse(text: str) -> list[str]:
    return [line for line in text.strip("\n").split("\n") if line]


@dataclass
class Rule:
    text: str
    exact: bool
    leaf: bool


def rules(texts: list[str]) -> list[Rule]:
    rules = []
    for text in texts:
        count = 1
        if found := re.match(r"(\d+)\|", text):
            count, text = int(found[1]), text[found.end() :]
        exact = not text.startswith("~")
        text = text.removeprefix("~")
        rules += [Rule(text, exact, not re.search(r"<[a-z]", text))] * count
    return rules


_EXPRESSIONS = {kind: rules(parse(text)) for kind, text in EXPRESSIONS.items()}
_STATEMENTS = rules([text for text in STATEMENTS.strip("\n").split("\n\n") if text])


class NotHere(Exception):
    """A production needs a variable that is not there."""


@dataclass
class Scope:
    """What is bound: name to kind. `own` are those that the function may assign to."""

    variables: dict[str, str] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    depth: int = 0
    loops: int = 0

    def inner(self) -> Scope:
        return Scope(dict(self.variables), set(self.own), self.depth + 1, self.loops)

    def of(self, kind: str, own: bool) -> list[str]:
        return [n for n, k in self.variables.items() if (kind in ("any", k)) and (not own or n in self.own)]


class Wild:
    """One program."""

    def __init__(self, genome: bytes, exact: bool = False, without: str = "") -> None:
        self.genes = [
            int.from_bytes(genome[i : i + GENE].ljust(GENE, b"\0"), "little") for i in range(0, len(genome), GENE)
        ]
        self.exact = exact
        self.without = re.compile(without) if without else None
        self.in_helper = False  # which does not call itself
        self.rng = random.Random(0)
        self.fresh = 0
        self.classes: list[str] = []
        self.first_base = ""

    def take(self, gene: int) -> None:
        self.rng = random.Random(gene)

    def allows(self, rule: Rule) -> bool:
        if self.in_helper and "helper" in rule.text:
            return False
        return not (self.exact and not rule.exact) and not (self.without and self.without.search(rule.text))

    # Expressions.

    def expression(self, kind: str, scope: Scope, depth: int) -> str:
        rules = _EXPRESSIONS[kind]
        for _ in range(30):
            rule = self.rng.choice(rules)
            if (depth <= 0 and not rule.leaf) or not self.allows(rule):
                continue
            try:
                return self.expand(rule.text, scope, depth - 1, {}, None)
            except NotHere:
                continue
        return {"tensor": "torch.ones(4)", "int": "1", "fn": "torch.neg", "obj": "Base(torch.ones(4), 1)", "cls": "Base", "list": "[1]",
                "dict": "{}", "set": "{1}", "tensors": "[torch.ones(4)]", "bool": "True", "str": "'a'", "float": "0.5", "number": "1",
                "tuple": "(1, 2)", "exc": "Oops", "risky": "1 / 0", "any": "None"}[kind]  # fmt: skip

    def expand(
        self, text: str, scope: Scope, depth: int, named: dict[str, str], bound: list[tuple[str, str]] | None
    ) -> str:
        def fill(match: re.Match[str]) -> str:
            mark, kind, name = match["mark"], match["kind"], match["name"]
            if mark is None:
                part, rest = match["part"], (match["rest"] or "").lstrip(": ")
                if part not in _EXPRESSIONS:
                    return match[0]
                made = self.expression(part, scope, depth)
                if re.search(r"[ (]", made) and not re.fullmatch(r"[\w.]*\([^()]*\)|\[[^\[\]]*\]|\([^()]*\)", made):
                    made = f"({made})"
                if rest:
                    named[rest] = made
                return made
            if kind is None:
                if name is None:
                    return match[0]
                if name not in named:
                    raise NotHere
                return named[name]
            if mark == "@":
                if bound is None:
                    raise NotHere
                self.fresh += 1
                made = f"{kind[0]}{self.fresh}"
                bound.append((made, kind))
            else:
                choices = self.classes if kind == "cls" else scope.of(kind, own=mark == "!")
                if not choices:
                    raise NotHere
                made = self.rng.choice(choices)
            if name:
                named[name] = made
            return made

        return _HOLE.sub(fill, text)

    # Statements.

    def statement(self, scope: Scope) -> list[str]:
        for _ in range(50):
            rule = self.rng.choice(_STATEMENTS)
            if not self.allows(rule):
                continue
            nested = "<block>" in rule.text or "<loop>" in rule.text or "<body" in rule.text
            if nested and (scope.depth >= 3 or ("<loop>" in rule.text and scope.loops >= 2)):
                continue
            try:
                return self.fill_statement(rule.text, scope)
            except NotHere:
                continue
        return ["pass"]

    def fill_statement(self, text: str, scope: Scope) -> list[str]:
        bound: list[tuple[str, str]] = []
        named: dict[str, str] = {}
        before = scope.inner()
        lines: list[str] = []
        for line in text.split("\n"):
            indent = line[: len(line) - len(line.lstrip())]
            inside = re.fullmatch(r"\s*<(block|loop|body)( [^>]*)?>", line)
            if inside is None:
                lines.append(self.expand(line, before, 2, named, bound))
                before.variables.update(bound)
                before.own.update(name for name, _ in bound)
                continue
            inner = before.inner()
            inner.loops += inside[1] == "loop"
            if inside[1] == "body":
                inner.own = set()
                for parameter in (inside[2] or "").split():
                    name, _, kind = parameter.partition(":")
                    inner.variables[name] = kind
                    inner.own.add(name)
            made = [statement for _ in range(self.rng.choice((1, 1, 2, 3))) for statement in self.statement(inner)]
            if inside[1] == "loop" and self.rng.random() < 0.15:
                made.append(self.rng.choice(("break", "continue")))
            lines += [indent + statement for statement in made]
        scope.variables.update(bound)
        scope.own.update(name for name, _ in bound)
        return lines

    # The program around them.

    def odd_class(self, number: int, gene: int) -> list[str]:
        self.take(gene)
        name = f"Odd{number}"
        base = self.rng.choice(BASES)
        if number and self.rng.random() < 0.4 and self.first_base != "(tuple)":
            base = "(Odd0)"
        self.first_base = self.first_base or base
        lines = ["", "", f"class {name}{base}:", "    total = 0", "    seen = []", "    k = 3"]
        if self.rng.random() < 0.2:
            lines.append("    __match_args__ = " + self.rng.choice(["('t', 'n')", "('n',)", "('n', 'n')", "(1,)"]))
        if base in ("(int)", "(str)", "(tuple)"):
            lines += ["    def __new__(cls, t=None, n=1):", "        return super().__new__(cls)"]
        lines.append("    def __init__(self, t=None, n=1):")
        if base in ("(torch.nn.Module)", "(collections.UserDict)", "(collections.OrderedDict)"):
            lines.append("        super().__init__()")
        lines += ["        self.t = t", "        self.n = n"]
        lines += [
            "    def run(self, v):",
            "        return v + self.n" if self.rng.random() < 0.5 else "        return self.t + v",
        ]
        lines += ["    def missed(self, name):", "        raise AttributeError(name)"]
        lines += ["    def count_down(self):", "        self.n -= 1", "        if self.n < -2:", "            raise StopIteration",
                  "        return self.n"]  # fmt: skip
        if self.rng.random() < 0.3:
            lines += [
                "    @property",
                "    def k(self):",
                f"        return {self.rng.choice(['self.n', '1', 'self.missing', '1 / 0'])}",
            ]
        if self.rng.random() < 0.3:
            lines += ["    @classmethod", "    def make(cls, v):", "        cls.total += 1", "        return v"]
        # torch itself writes past the end where a tuple's __len__ says more than it holds
        usable = [s for s in METHODS if base != "(tuple)" or not s.startswith(("__len__", "__getitem__"))]
        for signature in self.rng.sample(usable, self.rng.randint(1, 6)):
            lines += self.method(signature)
        return lines

    def method(self, signature: str) -> list[str]:
        name = signature.partition("(")[0]
        if self.rng.random() < 0.04:
            return [
                f"    {name} = {self.rng.choice(['None', 'len', 'staticmethod(lambda *a: 1)', 'functools.partial(max, 1)'])}"
            ]
        lines = [f"    def {signature}:"]
        if name in ("__class_getitem__", "__init_subclass__", "__torch_function__"):
            lines.insert(0, "    @classmethod")
        odd = self.rng.random()
        if odd < 0.3 and name != "__repr__":
            lines.append(f"        LOG.append('{name}')")
        elif odd < 0.4 and name not in ("__getattribute__", "__setattr__", "__del__"):
            lines.append(
                f"        raise {self.rng.choice(['Oops', 'TypeError', 'AttributeError', 'StopIteration', 'KeyError'])}('{name}')"
            )
        elif odd < 0.5 and name not in (
            "__getattr__",
            "__getattribute__",
            "__setattr__",
            "__repr__",
            "__hash__",
            "__eq__",
        ):
            lines.append("        self.n = self.n + 1" if "self" in signature else "        pass")
        lines.append(f"        return {self.rng.choice(METHODS[signature].split('|'))}")
        return lines

    def arguments(self) -> str:
        rng = self.rng

        def one(usual: list[str], odd: list[str]) -> str:
            choices = odd if rng.random() < 0.2 else usual
            allowed = [text for text in choices if not (self.without and self.without.search(text))]
            return rng.choice(allowed or usual)

        offset = rng.choice(["0.75", "-1.25", "0.25", "2"])
        tensor = f"torch.arange(4.0) * 0.5 - {offset}"
        x = one([tensor, "torch.tensor([0.5, -1.0, 2.0, 0.25])"],
                [f"({tensor}).double()", f"({tensor}).requires_grad_()", "torch.arange(4)", "torch.ones(2, 4)", "torch.ones(())", "torch.ones(0)",
                 f"torch.nn.Parameter({tensor})", "torch.ones(4, 4).t()", "torch.ones(4, device='meta')", "torch.ones(8)[::2]", "None", "2.0",
                 "torch.tensor([True, False, True, True])", "torch.ones(4, dtype=torch.float16)", "torch.ones(4, dtype=torch.complex64)"])  # fmt: skip
        y = one(
            [tensor, "torch.ones(4)"],
            ["torch.ones(4, dtype=torch.int64)", "torch.ones(1)", "BUF", "LIN.bias", "torch.ones(3)"],
        )
        n = one(
            [str(rng.randint(0, 4))],
            ["True", "2.5", "-1", "torch.tensor(2)", "10**20", "None", "'2'", "Color.RED", "Decimal(2)"],
        )
        s = one(["'a'", "'ab'"], ["''", "b'a'", "None", "1", "'\\u00e9'"])
        items = one([str([rng.randint(0, 4) for _ in range(rng.randint(0, 3))])],
                    ["(1, 2)", "range(3)", "[1.5, 'a']", "[torch.ones(4)]", "collections.deque([1, 2])", "[[1], [2]]", "{1, 2}"])  # fmt: skip
        tensors = one(
            ["[torch.ones(4), torch.zeros(4)]", "[torch.arange(4.0)] * 2", "[]"],
            ["(torch.ones(4),)", "torch.ones(2, 4)"],
        )
        table = one(["{}", "{'a': torch.ones(4)}", "{'b': torch.ones(4), 'a': torch.zeros(4)}"],
                    ["collections.OrderedDict(a=torch.ones(4))", "collections.defaultdict(int)", "Mapping(a=1)", "collections.Counter('ab')",
                     "{'a': 1, 2: 'x'}", "types.MappingProxyType({'a': torch.ones(4)})", "[]"])  # fmt: skip
        made = rng.choice(self.classes[:2])
        obj = one([f"{made}(torch.ones(4), {rng.randint(0, 4)})"], ["Record(torch.ones(4), 2)", "Slotted(torch.ones(4), 1)", "Callable(1)",
                  "types.SimpleNamespace(t=torch.ones(4), n=1)", "Point(1, 2)", "None"])  # fmt: skip
        fn = one(
            ["helper", "torch.neg"],
            ["Callable(2)", "LIN", "NET", "lambda t: t + 1", "functools.partial(helper, n=3)", "None", made],
        )
        return f"{x}, {y}, {n}, {s}, {items}, {tensors}, {table}, {obj}, {fn}"

    def case(self, gene: int) -> list[str]:
        self.take(gene)
        lines = [f"case = Case(f, {self.arguments()})", f"case.changing({self.arguments()})"]
        cls = self.rng.choice(self.classes[:2])
        steps = [
            f"case.then_call({self.arguments()})",
            f"case.then_call({self.arguments()})",
            f"case.then(lambda case: setattr({cls}, 'run', lambda self, v: v + 100))",
            f"case.then(lambda case: setattr({cls}, 'k', 7))",
            "case.then(lambda case: SHARED.update(k=9))",
            "case.then(lambda case: case.args[4].append(7) if isinstance(case.args[4], list) else None)",
            "case.then(lambda case: case.args[4].clear() if isinstance(case.args[4], list) else None)",
            "case.then(lambda case: setattr(case.args[7], 'n', 50) if hasattr(case.args[7], '__dict__') else None)",
            "case.then(lambda case: setattr(case, 'args', (case.args[1], case.args[1]) + case.args[2:]))",
            "case.then(lambda case: case.args[5].append(case.args[0]) if isinstance(case.args[5], list) else None)",
            "case.then(lambda case: torch.set_grad_enabled(False))",
            "case.then(lambda case: setattr(LIN, 'bias', None))",
            "case.then(lambda case: NET.eval())",
            "case.then(lambda case: NET.lin.register_forward_hook(lambda m, a, o: LOG.append('hook')))",
            "case.then(lambda case: globals().update(helper=lambda t, n=1: t - n))",
            "case.then(lambda case: globals().update(TOTAL=2.5))",
        ]
        return (
            lines
            + self.rng.sample(steps, self.rng.randint(1, 3))
            + ["return case.watching(LOG, SHARED, TOTALS).logging(LOG)"]
        )

    def program(self) -> str:
        genes = self.genes + [0] * max(0, 6 - len(self.genes))
        lines = self.odd_class(0, genes[1]) + self.odd_class(1, genes[2])
        self.classes = ["Odd0", "Odd1", "Base"]
        self.take(genes[3])
        self.in_helper = True
        scope = Scope({"t": "tensor", "n": "int"}, {"t", "n"}, 1)
        lines += ["", "", "def helper(t, n=2, **more):"]
        for _ in range(self.rng.randint(0, 2)):
            lines += ["    " + text for text in self.statement(scope)]
        lines += [f"    return {self.expression('tensor', scope, 1)}"]
        self.in_helper = False
        lines += [
            "",
            "",
            "kept_helper = helper",
            "kept = keep(Odd0, Odd1)",
            "",
            "",
            "def make():",
            "    restore(globals(), kept)",
        ]
        lines += ["    count = 1", "    def writer(v):", "        nonlocal count", "        count += 1", "        LOG.append((v, count))",
                  "        return count"]  # fmt: skip
        lines += ["    def f(x, y, n, s, items, tensors, table, obj, fn, flag=True):", "        nonlocal count"]
        kinds = {"x": "tensor", "y": "tensor", "n": "int", "s": "str", "items": "list", "tensors": "tensors", "table": "dict", "obj": "obj",
                 "fn": "fn", "count": "int"}  # fmt: skip
        scope = Scope(dict(kinds), set(kinds))
        body: list[str] = []
        for gene in genes[4:]:
            self.take(gene)
            body += self.statement(scope)
        self.take(genes[0] ^ 0x5A5A5A5A)
        names = [n for n in scope.variables if scope.variables[n] != "fn"]
        body.append(f"return {', '.join(self.rng.sample(names, min(4, len(names))))}")
        lines += ["        " + text for text in body if not text.strip().startswith("global ")]
        if any(text.strip().startswith("global TOTAL") for text in body):
            lines.insert(lines.index("        nonlocal count") + 1, "        global TOTAL")
        lines += ["    " + text for text in self.case(genes[0])]
        return PRELUDE + "\n".join(lines) + "\n"


def program(genome: bytes, exact: bool = False, without: str = "") -> str:
    """The source of a program; the same text for the same bytes, on any machine. `without`: productions that match are left out."""
    return Wild(genome, exact, without).program()


def genome(rng: random.Random, statements: int = 0) -> bytes:
    return rng.randbytes(GENE * (4 + (statements or rng.randint(3, 9))))


def mutate(parent: bytes, other: bytes, rng: random.Random) -> bytes:
    """A child: some genes changed, dropped, doubled, moved, or taken from another program."""
    genes = [parent[i : i + GENE] for i in range(0, len(parent), GENE)]
    others = [other[i : i + GENE] for i in range(0, len(other), GENE)]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(genes))
        way = rng.random()
        if way < 0.3 or len(genes) <= 5:
            genes[at] = rng.randbytes(GENE)
        elif way < 0.45 and at >= 4:
            del genes[at]
        elif way < 0.65:
            genes.insert(rng.randint(4, len(genes)), rng.randbytes(GENE))
        elif way < 0.9:
            source = rng.randrange(len(others))
            if source < 4:
                genes[source] = others[source]
            else:
                genes.insert(rng.randint(4, len(genes)), others[source])
        else:
            genes.insert(rng.randint(4, len(genes)), genes[rng.randrange(4, len(genes))])
    return b"".join(genes[:20])
