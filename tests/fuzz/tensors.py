"""Random tensor programs: operations that fail in `try`, in-place writes, effects of Python's, random draws, autograd in between, views and aliases.

A seed gives the source of a module with `make()`, as the programs of the corpus have it; each is called several times while the world around it changes.
The productions are in tensor_grammar.py, what programs find around them is in tensor_world.py.
"""

from __future__ import annotations

import random
import re

from tests.fuzz import tensor_grammar as grammar

_HOLE = re.compile(r"<(t|e|n|new|other|[^<>\s]*\|[^<>]*)>")
_SIMPLE = (
    ("assign",) * 4
    + ("write",) * 5
    + ("effect",) * 5
    + ("fail",) * 2
    + ("autograd",) * 3
    + ("draw",)
    + ("other",) * 3
    + ("view",) * 2
)
_NESTED = (
    ("attempt",) * 6
    + ("context",) * 3
    + ("branch",) * 3
    + ("loop",) * 3
    + ("no_grad",) * 2
    + ("match",)
    + ("function",) * 2
    + ("repeat",)
)
_CAUGHT = (
    "Exception",
    "RuntimeError",
    "(IndexError, TypeError, RuntimeError)",
    "(KeyError, AttributeError, ZeroDivisionError)",
    "Oops",
    "ValueError",
)
_VIEWS = ("<t>[1:3]", "<t>.view(2, 2)", "<t>[::2]", "<t>.view(2, 2).t()", "<t>.detach()", "<t>.data", "BUF[:]", "m.seen[:2]", "m.lin.weight[0]",
          "<t>.unsqueeze(0)", "<t>.view(-1)", "st.t[1:]", "<t>.expand(2, 4)", "<t>")  # fmt: skip
_VIEW_WRITES = ("<new>.add_(<n>)", "<new>.mul_(<n>)", "<new>[0] = <n>", "<new>.zero_()", "<new> += <n>", "<new> = <new> + 1",
                "<new>.copy_(torch.ones_like(<new>))", "pass")  # fmt: skip
_ARMS = {
    "st": ("State(n=0)", "State(n=q, tag='s')", "State()"),
    "cfg": ("{'p': q}", "{'t': q, **rest}", "{}"),
    "items": ("[]", "[q]", "[q, *rest]"),
    "(n, MODE)": ("(0, _)", "(q, 'a')", "(q, z)"),
    "n": ("0 | 1", "int(q)", "_"),
    "v": ("Vec(n=1)", "Vec(n=q)", "_"),
}
_HEADS = (
    "for <new> in range(<2|3|len(items) % 4>):", "for <new> in <t>:", "for <other>, <new> in enumerate((<e>, <e>)):", "for <new> in items[:3]:",
    "for <new> in items:", "for <new> in tgen(<t>, 3):", "for <other>, <new> in list(cfg.items()):", "for <new> in cfg:", "for <new> in v:",
    "for <new> in m.parameters():", "for <other>, <new> in zip(items, <t>):", "for <new> in it:",
)  # fmt: skip
_STEPS = (
    "case.then(lambda case: globals().update(MODE='z', COUNT=3))",
    "case.then(lambda case: globals().update(BUF=torch.ones(4)))",
    "case.then(lambda case: (setattr(m, 'scale', 4.0), m.eval()))",
    "case.then(lambda case: case.args[4].append(9) if type(case.args[4]) is list else None)",
    "case.then(lambda case: torch.set_grad_enabled(False))",
    "case.then(lambda case: m.double())",
    "case.then(lambda case: setattr(case, 'args', (case.args[1], case.args[1]) + case.args[2:]))",
    "case.then(lambda case: setattr(case, 'args', (case.args[2].detach(),) + case.args[1:]))",
    "case.then(lambda case: setattr(case, 'args', case.args[:1] + (case.args[0][:],) + case.args[2:]))",
    "case.then(lambda case: p0.requires_grad_(False))",
    "case.then(lambda case: setattr(case.args[7], 'n', 4))",
    "case.then(lambda case: fs.append(torch.abs))",
)
_ARGUMENTS = (
    ("torch.tensor([0.5, -1.0, 2.0, 0.25])", "torch.arange(4.0)", "torch.arange(4.0) - 2", "torch.arange(4.0).requires_grad_()", "torch.arange(8.0)[::2]",
     "torch.ones(4, dtype=torch.float64)", "torch.ones(2, 4)", "torch.arange(6.0)", "torch.arange(4)", "torch.ones(1)", "torch.ones(4).expand(2, 4)[0]",
     "m.seen", "BUF"),
    ("torch.ones(4)", "torch.arange(4.0) * 0.5", "torch.ones(4, dtype=torch.int64)", "torch.arange(4.0).view(2, 2)", "torch.full((4,), -1.0)", "m.lin.bias",
     "BUF", "torch.ones(4, dtype=torch.float16)"),
    ("p0",),
    ("1", "2", "3", "0", "1.5", "True", "-1"),
    ("[1, 2]", "[]", "[3]", "[1, 2, 3]", "(1, 2)", "[1.5]"),
    ("{'p': 1, 'q': 2}", "{'t': torch.ones(4)}", "{}", "collections.OrderedDict(p=3)"),
    ("State(torch.ones(4))", "State(torch.arange(4.0), 2, 'z')"),
    ("Vec(torch.ones(4))", "Vec(torch.arange(4.0), 2)"),
    ("True", "True", "False"),
)  # fmt: skip

WORLD = "from tests.fuzz.tensor_world import *\n"
_BEGIN = """
COUNT = 0
MODE = "a"
BUF = torch.zeros(4)


def make():
    global COUNT, MODE, BUF
    COUNT, MODE, BUF = 0, 'a', torch.zeros(4)
    LOG.clear(), TABLE.clear()
    CALLS[0] = 0
    random.seed(5), torch.manual_seed(5)
    m = Model()
    count = 0
    k = [0]
    gen = torch.Generator().manual_seed(3)
    fs = [torch.neg, lambda t: t * 2]
    it = iter(range(4))
    p0 = nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 1.0]))
    opt = torch.optim.SGD([p0], lr=0.5, momentum=<0|0.5>)
    def with_no_grad(f, *a):
        with torch.no_grad():
            return f(*a)
    def raise_(kind, *a):
        LOG.append('raising')
        raise kind(*a)
    def assert_(c):
        assert c, 'no'
    def bump(q):
        nonlocal count
        count += 1
        k.append(q)
        return count
    def global_set(q):
        global MODE
        MODE = str(q)
    @functools.lru_cache(None)
    def cached(q):
        LOG.append('computed')
        return q"""


def _lines(text: str) -> list[str]:
    return [line for line in text.strip("\n").split("\n") if line]


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


class Tensors:
    """One program."""

    def __init__(self, seed: int, exact: bool) -> None:
        self.rng = random.Random(seed)
        self.fresh = 0

        def table(text: str) -> list[str]:
            return [line.removeprefix("~") for line in _lines(text) if not (exact and line.startswith("~"))]

        self.tables = {name: table(text) for name, text in vars(grammar).items() if name.isupper()}

    def choose(self, *texts: str) -> str:
        return self.rng.choice(texts)

    def name(self) -> str:
        self.fresh += 1
        return f"t{self.fresh}"

    def number(self, bound: list[str], depth: int = 1) -> str:
        chance = self.rng.random()
        if chance < 0.4 or depth <= 0:
            return self.choose("0", "1", "2", "3", "-1")
        return "n" if chance < 0.6 else self.fill(self.rng.choice(self.tables["NUMBERS"]), bound, depth)

    def expression(self, bound: list[str], depth: int = 2) -> str:
        if depth <= 0 or self.rng.random() < 0.25:
            return self.rng.choice(bound)
        return self.fill(self.rng.choice(self.tables["EXPRESSIONS"]), bound, depth)

    def fill(self, text: str, bound: list[str], depth: int = 2, named: dict[str, str] | None = None) -> str:
        named = {} if named is None else named

        def hole(match: re.Match[str]) -> str:
            kind = match[1]
            if kind == "t":
                return self.rng.choice(bound)
            if kind == "e":
                made = self.expression(bound, depth - 1)
                return made if re.fullmatch(r"\w+", made) else f"({made})"
            if kind == "n":
                made = self.number(bound, depth - 1)
                return made if re.fullmatch(r"[\w.]+", made) else f"({made})"
            if kind in ("new", "other"):
                return named.setdefault(kind, self.name()) if kind not in named else named[kind]
            return self.rng.choice(kind.split("|"))

        return _HOLE.sub(hole, text)

    def statement(self, bound: list[str], depth: int) -> list[str]:
        kinds = _SIMPLE + _NESTED if depth < 3 else _SIMPLE
        return getattr(self, self.rng.choice(kinds))(bound, depth)

    def block(self, bound: list[str], depth: int, count: int = 0) -> list[str]:
        inner = list(bound)
        return _indented(
            [line for _ in range(count or self.rng.choice((1, 1, 2, 2, 3))) for line in self.statement(inner, depth)]
        )

    def of(self, table: str, bound: list[str]) -> list[str]:
        return self.fill(self.rng.choice(self.tables[table]), bound).split(" ;; ")

    def write(self, bound, depth):
        return self.of("WRITES", bound)

    def effect(self, bound, depth):
        return self.of("EFFECTS", bound)

    def autograd(self, bound, depth):
        return self.of("AUTOGRAD", bound)

    def draw(self, bound, depth):
        return self.of("DRAWS", bound)

    def other(self, bound, depth):
        return self.of("OTHERS", bound)

    def assign(self, bound, depth):
        made = self.expression(bound)
        target = self.rng.choice(bound) if self.rng.random() < 0.35 else self.name()
        if target not in bound:
            bound.append(target)
        return [f"{target} = {made}"]

    def view(self, bound, depth):
        named: dict[str, str] = {}
        lines = [
            self.fill("<new> = " + self.choose(*_VIEWS), bound, 2, named),
            self.fill(self.choose(*_VIEW_WRITES), bound, 2, named),
        ]
        if self.rng.random() < 0.3:
            bound.append(named["new"])
        return lines

    def failing(self, bound):
        return self.fill(self.rng.choice(self.tables["FAILING"]), bound)

    def fail(self, bound, depth):
        if depth > 0 or self.rng.random() < 0.25:
            return [self.failing(bound)]
        before = self.write(bound, depth) if self.rng.random() < 0.6 else []
        tried = [*before, self.failing(bound), *self.effect(bound, depth)]
        return ["try:", *_indented(tried), f"except {self.choose(*_CAUGHT)} as e:", "    LOG.append(say(e))"]

    def attempt(self, bound, depth):
        rng = self.rng
        lines = ["try:", *self.block(bound, depth + 1)]
        if rng.random() < 0.8:
            lines.append("    " + (f"{self.name()} = " if rng.random() < 0.3 else "") + self.failing(bound))
            lines += self.block(bound, depth + 1, 1) if rng.random() < 0.5 else []
        handled = rng.random() < 0.85
        for _ in range(rng.choice((1, 1, 2)) if handled else 0):
            lines.append(f"except {self.choose(*_CAUGHT)} as e:")
            lines += ["    LOG.append(say(e))"] if rng.random() < 0.7 else []
            lines += self.block(bound, depth + 1, rng.choice((1, 1, 2)))
            if rng.random() < 0.4:
                end = self.choose(
                    "raise", "raise Oops('again') from e", "raise Oops(<n>)", "return <t>, say(e)", "kept = e"
                )
                lines.append("    " + self.fill(end, bound))
        lines += ["else:", *self.block(bound, depth + 1)] if handled and rng.random() < 0.3 else []
        if not handled or rng.random() < 0.4:
            lines += ["finally:", *self.block(bound, depth + 1, rng.choice((1, 1, 2)))]
            lines += [f"    return {rng.choice(bound)}"] if rng.random() < 0.05 else []
        return lines

    def context(self, bound, depth):
        eaten = self.choose("", "", ", RuntimeError", ", Exception", ", (IndexError, TypeError)")
        head = self.choose(
            f"with Ctx('<a|b>'{eaten}) as cm:", f"with Ctx('a'{eaten}), Ctx('b'{eaten}):", "with scope(<t>, <n>) as <new>:",
            "with contextlib.suppress(RuntimeError, IndexError):", "with torch.random.fork_rng(devices=[]):", "with contextlib.ExitStack() as stack:",
            "with torch.set_grad_enabled(flag):", "with torch.enable_grad():", "with torch.inference_mode():",
        )  # fmt: skip
        body = self.block(bound, depth + 1)
        if "stack" in head:
            body[:0] = [
                self.fill("    stack.callback(LOG.append, <n>)", bound),
                f"    stack.enter_context(Ctx('s'{eaten}))",
            ]
        if self.rng.random() < 0.35:
            body.append("    " + self.failing(bound))
        return [self.fill(head, bound), *body]

    def no_grad(self, bound, depth):
        return [
            self.choose("with torch.no_grad():", "with torch.set_grad_enabled(False):"),
            *self.block(bound, depth + 1),
        ]

    def branch(self, bound, depth):
        lines = [f"if {self.of('CONDITIONS', bound)[0]}:", *self.block(bound, depth + 1)]
        return lines + (["else:", *self.block(bound, depth + 1)] if self.rng.random() < 0.5 else [])

    def loop(self, bound, depth):
        rng = self.rng
        named: dict[str, str] = {}
        head = self.fill(rng.choice(_HEADS), bound, 2, named)
        body = self.block(bound, depth + 1)
        if head.endswith(" in items:") and rng.random() < 0.5:
            body.append(self.fill("    if len(items) < 6: items.append(<new>)", bound, 2, named))
        if head.endswith(" in cfg:") and rng.random() < 0.5:
            body.append(self.fill("    cfg[<new|'new'>] = <n>".replace("new|", named["new"] + "|"), bound))
        if rng.random() < 0.25:
            body += [self.fill("    if <n> > 1: <break|continue>", bound), "    LOG.append('went on')"]
        if rng.random() < 0.2:
            body.append("    " + self.failing(bound))
        return [head, *body, *(["else:", *self.block(bound, depth + 1, 1)] if rng.random() < 0.15 else [])]

    def repeat(self, bound, depth):
        counter = self.name()
        return [
            f"{counter} = 0",
            f"while {counter} < {self.choose('2', '3')}:",
            f"    {counter} += 1",
            *self.block(bound, depth + 1),
        ]

    def match(self, bound, depth):
        subject = self.rng.choice(list(_ARMS))
        lines = [f"match {subject}:"]
        for arm in _ARMS[subject]:
            lines += [f"    case {arm}:", *_indented(self.block(bound, depth + 1, self.rng.choice((1, 2))))]
        return lines

    def function(self, bound, depth):
        """A function, a generator or a class of the function's own, and a use of it."""
        name, own = "g" + self.name(), self.name()
        inner = [*bound, own]
        kind = self.rng.random()
        if kind < 0.5:
            lines = [
                f"def {name}({own}, q={self.number(bound)}, *rest, z=1):",
                "    nonlocal count",
                *self.block(inner, depth + 1),
                f"    return {own}",
            ]
            uses = (
                "f(<e>)",
                "f(<e>, <n>)",
                "f(<t>, 1, 2, z=<n>)",
                "safe(f, <t>)",
                "[f(y) for y in (<t>, <t>)]",
                "list(map(f, [<t>]))",
            )
        elif kind < 0.75:
            lines = [f"def {name}({own}):", "    nonlocal count", "    try:", *_indented(self.block(inner, depth + 1)), f"        yield {own} + 1",
                     *_indented(self.block(inner, depth + 1, 1)), f"        got = yield {own}", "        LOG.append(got)", "    finally:",
                     "        LOG.append('fin')"]  # fmt: skip
            uses = ("for <new> in f(<t>): LOG.append(<new>.dim())", "gg = f(<t>) ;; next(gg) ;; gg.close()", "gg = f(<t>) ;; next(gg) ;; del gg",
                    "gg = f(<t>) ;; next(gg) ;; try: ;;     gg.throw(Oops('in')) ;; except Oops as e: ;;     LOG.append(say(e))",
                    "gg = f(<t>) ;; next(gg) ;; next(gg) ;; try: ;;     gg.send(<n>) ;; except StopIteration: ;;     LOG.append('stop')",
                    "LOG.append(len(list(f(<t>))))")  # fmt: skip
        else:
            lines = [f"class {name}:", f"    at = {self.number(bound)}", "    def __init__(self, t): self.t = t", "    def __getattr__(self, name):",
                     "        if name == 'deep': return self.t * 2", "        raise AttributeError(name)",
                     "    def __del__(self): LOG.append('del')" if self.rng.random() < 0.5 else "    z = 1",
                     "    def __enter__(self): self.t.add_(1); return self.t",
                     f"    def __exit__(self, *a): LOG.append(a[0] is None); return {self.choose('True', 'False')}"]  # fmt: skip
            uses = ("with f(<t>) as u: ;;     u.mul_(2) ;;     " + self.failing(bound), "LOG.append(f(<t>).deep.shape)", "o = f(<e>) ;; o.t += 1 ;; del o",
                    "try: ;;     f(<t>).nothing ;; except AttributeError as e: ;;     LOG.append(str(e))")  # fmt: skip
        use = re.sub(r"\bf(?=[(,)])", name, self.choose(*uses))
        return lines + self.fill(use, bound).split(" ;; ")

    def arguments(self) -> str:
        return ", ".join(self.rng.choice(texts) for texts in _ARGUMENTS)

    def program(self) -> str:
        rng = self.rng
        bound = ["a", "b", "p"]
        body: list[str] = []
        for _ in range(rng.randint(4, 11)):
            made = self.statement(bound, 0)
            if rng.random() < 0.45:
                made = ["try:", *_indented(made), "except Exception as e:", "    LOG.append(say(e))"]
            body += made
        helper = [
            line
            for _ in range(rng.choice((0, 1, 1, 2)))
            for line in getattr(self, self.choose("write", "effect", "fail", "assign"))(["t"], 2)
        ]
        lines = [
            WORLD + self.fill(_BEGIN, ["p0"]),
            "    def h(t, n=2):",
            "        global COUNT, MODE, BUF",
            "        nonlocal count, k",
        ]
        lines += [
            *_indented(_indented(helper)),
            "        return t * n",
            "    def f(a, b, p, n, items, cfg, st, v, flag=True):",
        ]
        lines += ["        nonlocal count", "        global COUNT, MODE, BUF", *_indented(_indented(body))]
        lines += [
            f"        return {', '.join(rng.sample(bound, min(len(bound), 3)))},",
            f"    case = Case(f, {self.arguments()})",
        ]
        steps = [*_STEPS, *(f"case.then_call({self.arguments()})" for _ in range(4))]
        lines += _indented([f"case.changing({self.arguments()})", *rng.sample(steps, rng.randint(2, 4))])
        lines += ["    return case.watching(LOG, m, p0, TABLE, CALLS, BUF, k, fs).logging(LOG)", ""]
        return "\n".join(lines)


def _compiles(source: str) -> bool:
    try:
        compile(source, "<fuzz>", "exec")
    except SyntaxError:
        return False
    return True


def generate(seed: int, exact: bool = False) -> str:
    """The program of a seed; `exact`: without what differs under other backends by torch's own limits."""
    attempt = 0
    while not _compiles(source := Tensors(seed + (attempt << 40), exact).program()):
        attempt += 1
    return source
