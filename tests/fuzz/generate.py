"""Random small programs: a seed gives the source of a module with `make()`, as the programs of the corpus have it.

The programs end by construction: helpers call only helpers made before them, loops are short, lists that grow are bounded. They depend on
nothing but the seed.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

from tests.fuzz.expressions import KEYS, Expressions, Scope

PRELUDE = """\
import contextlib

import torch

from tests.python.programs import Case

LOG = []
TOTAL = 0
SHARED = {}


class Oops(Exception):
    pass


class Note:
    def __init__(self, name, swallow=False):
        self.name = name
        self.swallow = swallow

    def __enter__(self):
        LOG.append("enter " + self.name)
        return self

    def __exit__(self, kind, error, trace):
        LOG.append(("exit", self.name, kind.__name__ if kind else None))
        return self.swallow and kind is Oops


@contextlib.contextmanager
def noted(name):
    LOG.append("begin " + name)
    try:
        yield len(name)
    finally:
        LOG.append("end " + name)
"""


class Writer:
    """Lines of Python with indentation; a block without a statement gets a `pass`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._indent = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._indent + text)

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header)
        self._indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._indent -= 1

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


class Generator:
    """One program."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.out = Writer()
        self.expressions = Expressions(self.rng)
        self._fresh = 0
        self._nonlocals: list[str] = []

    def expression(self, kind: str, scope: Scope, depth: int = 2) -> str:
        return self.expressions.make(kind, scope, depth)

    def name(self, prefix: str) -> str:
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # Statements. Each writes one statement (with its blocks) and records in the scope what it surely bound.

    def statements(self, scope: Scope, count: int) -> None:
        for _ in range(count):
            self.statement(scope)

    def statement(self, scope: Scope) -> None:
        simple = (
            [self.assign] * 6
            + [self.mutate_tensor] * 2
            + [self.mutate_list] * 3
            + [self.mutate_table] * 2
            + [self.mutate_object] * 2
        )
        simple += [self.global_effect] * 2 + [
            self.show,
            self.show,
            self.note,
            self.unpack,
            self.forget,
            self.call_for_effect,
            self.comprehension,
        ]
        nested = (
            [self.branch] * 3
            + [self.loop] * 3
            + [self.while_loop, self.guarded, self.guarded, self.guarded, self.managed, self.managed, self.match]
        )
        nested += [
            self.closure,
            self.closure,
            self.generator_steps,
            self.raise_or_return,
            self.walrus,
            self.local_class,
        ]
        options = simple if scope.depth >= 3 else simple + nested
        self.rng.choice(options)(scope)

    def inner(self, scope: Scope) -> Scope:
        """A scope for a block that may not run: what it binds is not sure afterwards."""
        inner = scope.copy()
        inner.depth += 1
        return inner

    def after(self, scope: Scope, inner: Scope) -> None:
        """Now and then a name bound in the block is used behind it, bound or not."""
        if self.chance(0.03):
            scope.variables.update(inner.variables)

    def assign(self, scope: Scope) -> None:
        kind = self.rng.choice(
            ["tensor"] * 5 + ["int"] * 3 + ["str", "ints", "tensors", "table", "bool", "fn", "gen", "obj"]
        )
        if kind == "obj" and (not scope.classes or not scope.may_use_objects):
            kind = "tensor"
        reusable = [n for n in scope.of(kind) if n not in self._nonlocals]
        target = self.rng.choice(reusable) if reusable and self.chance(0.4) else self.name(kind[0])
        self.out.line(f"{target} = {self.expression(kind, scope)}")
        scope.variables[target] = kind

    def mutate_tensor(self, scope: Scope) -> None:
        target = self.rng.choice(scope.of("tensor"))
        value = self.expression("tensor", scope, 1)
        number = self.expression("int", scope, 1)
        self.out.line(
            self.rng.choice(
                [
                    f"{target} += {value}",
                    f"{target} = {target} * {number}",
                    f"{target}.add_({number})",
                    f"{target}.mul_(0.5)",
                    f"{target}[{self.rng.randint(0, 3)}] = {number}",
                    f"{target}[1:3] = {value}[:2]",
                    f"{target}.copy_({value})",
                    f"{target}[:2].neg_()",
                    f"{target}[{target} > 1] = 0",
                    f"{target}.tag = {number}",
                ]
            )
        )

    def mutate_list(self, scope: Scope) -> None:
        kinds = [k for k in ("ints", "tensors") if scope.of(k)]
        if not kinds:
            return self.assign(scope)
        kind = self.rng.choice(kinds)
        target = self.rng.choice(scope.of(kind))
        item = self.expression("int" if kind == "ints" else "tensor", scope, 1)
        options = [
            f"{target}.append({item})",
            f"{target}.insert(0, {item})",
            f"{target}.extend([{item}])",
            f"{target} += [{item}]",
            f"{target}.reverse()",
            f"{target}[0:1] = [{item}]",
            f"del {target}[1:]",
            f"{target}[-1] = {item}",
            f"{target}.pop()",
            f"{target} = {target}[::-1]",
            f"{target} = {target} + [{item}]",
        ]
        if kind == "ints":
            options += [f"{target}.sort()", f"{target}.sort(key=lambda i: -i)", f"{target}[:] = sorted(set({target}))"]
        text = self.rng.choice(options)
        if text.endswith((".pop()", f"[-1] = {item}")) and self.chance(0.85):
            with self.out.block(f"if {target}:"):
                self.out.line(text)
        else:
            self.out.line(text)

    def mutate_table(self, scope: Scope) -> None:
        if not scope.of("table"):
            return self.assign(scope)
        target = self.rng.choice(scope.of("table"))
        key = repr(self.rng.choice(KEYS))
        value = self.expression("tensor", scope, 1)
        options = [
            f"{target}[{key}] = {value}",
            f"{target}.update({key[1:-1]}={value})",
            f"{target}.setdefault({key}, {value})",
            f"{target}.pop({key}, None)",
            f"{target}.update({{{key}: {value}, 'c': {value}}})",
            f"{target} = {{**{target}, {key}: {value}}}",
            f"{target} = {{k: u + 1 for k, u in {target}.items()}}",
            f"{target}[{key}] = {target}.pop({key}, {value})",
        ]
        if self.chance(0.1):
            options = [f"del {target}[{key}]", f"{target}[{key}] += 1"]
        self.out.line(self.rng.choice(options))

    def mutate_object(self, scope: Scope) -> None:
        if not scope.may_use_objects or not scope.of("obj"):
            return self.assign(scope)
        target = self.rng.choice(scope.of("obj"))
        value, number = self.expression("tensor", scope, 1), self.expression("int", scope, 1)
        cls = self.rng.choice(scope.classes)
        self.out.line(
            self.rng.choice(
                [
                    f"{target}.t = {value}",
                    f"{target}.n += {number}",
                    f"{target}.extra = {number}",
                    f"{target}.t += {number}",
                    f"setattr({target}, 'extra', {value})",
                    f"{target}.scaled = {value}",
                    f"{target} += {number}",
                    f"{target}['n'] = {number}",
                    f"{cls}.total += 1",
                    f"{cls}.seen.append({number})",
                    f"type({target}).total = {number}",
                    f"vars({target})['extra'] = {number}",
                    f"{target}.__dict__.pop('extra', None)",
                ]
            )
        )

    def global_effect(self, scope: Scope) -> None:
        options = [
            f"LOG.append({self.expression('int', scope, 1)})",
            f"SHARED['k'] = {self.expression('int', scope, 1)}",
            f"SHARED['t'] = {self.expression('tensor', scope, 1)}",
            f"TOTAL += {self.expression('int', scope, 1)}",
            f"SHARED.setdefault('items', []).append({self.expression('int', scope, 1)})",
        ]
        options += [f"{name} += {self.expression('int', scope, 1)}" for name in self._nonlocals]
        self.out.line(self.rng.choice(options))

    def show(self, scope: Scope) -> None:
        value = self.expression(self.rng.choice(["int", "str", "bool"]), scope, 1)
        self.out.line(f"print({self.name('p')!r}, {value})")

    def note(self, scope: Scope) -> None:
        names = [n for n, kind in scope.variables.items() if kind not in ("gen", "fn")]
        self.out.line(f"LOG.append({self.rng.choice(names)})")

    def unpack(self, scope: Scope) -> None:
        a, b, c = self.name("t"), self.name("i"), self.name("i")
        tensor, number = self.expression("tensor", scope, 1), self.expression("int", scope, 1)
        form = self.rng.randrange(4)
        if form == 0:
            self.out.line(f"{a}, ({b}, {c}) = {tensor}, ({number}, {self.expression('int', scope, 1)})")
            scope.variables.update({a: "tensor", b: "int", c: "int"})
        elif form == 1:
            self.out.line(f"{b}, *{c} = [{number}, 1, 2]")
            scope.variables.update({b: "int", c: "ints"})
        elif form == 2:
            self.out.line(f"*{c}, {a} = 1, 2, {tensor}")
            scope.variables.update({a: "tensor", c: "ints"})
        else:
            names = scope.of("tensor")
            p, q = self.rng.choice(names), self.rng.choice(names)
            self.out.line(f"{p}, {q} = {q}, {p}")

    def forget(self, scope: Scope) -> None:
        names = [n for n in scope.variables if n not in self._nonlocals and n not in ("x", "self")]
        if len(names) < 6 or scope.loops or not self.chance(0.5):
            return self.assign(scope)
        target = self.rng.choice(names)
        self.out.line(f"del {target}")
        del scope.variables[target]

    def call_for_effect(self, scope: Scope) -> None:
        if scope.functions:
            self.out.line(self.expressions.call_helper(scope, 2))
        else:
            self.note(scope)

    def comprehension(self, scope: Scope) -> None:
        target = self.name("t")
        inner = scope.copy()
        inner.variables.update({"i": "int"})
        body = self.expression("tensor", inner, 1)
        condition = f" if {self.expression('bool', inner, 1)}" if self.chance(0.4) else ""
        self.out.line(f"{target} = [{body} for i in range({self.rng.randint(1, 3)}){condition}]")
        scope.variables[target] = "tensors"

    def branch(self, scope: Scope) -> None:
        with self.out.block(f"if {self.expression('bool', scope)}:"):
            inner = self.inner(scope)
            self.statements(inner, self.rng.randint(1, 3))
        if self.chance(0.3):
            with self.out.block(f"elif {self.expression('bool', scope)}:"):
                self.statements(self.inner(scope), self.rng.randint(1, 2))
        if self.chance(0.5):
            with self.out.block("else:"):
                self.statements(self.inner(scope), self.rng.randint(1, 2))
        self.after(scope, inner)

    def loop(self, scope: Scope) -> None:
        if scope.loops >= 2:
            return self.branch(scope)
        inner = self.inner(scope)
        inner.loops += 1
        i, u = self.name("i"), self.name("t")
        headers = [(f"for {i} in range({self.rng.randint(1, 3)}):", {i: "int"})]
        headers.append(
            (
                f"for {i}, {u} in enumerate([{self.expression('tensor', scope, 1)}, {self.expression('tensor', scope, 1)}]):",
                {i: "int", u: "tensor"},
            )
        )
        if scope.of("tensors"):
            headers.append((f"for {u} in {self.rng.choice(scope.of('tensors'))}[:3]:", {u: "tensor"}))
            headers.append((f"for {u} in reversed({self.rng.choice(scope.of('tensors'))}[:2]):", {u: "tensor"}))
        if scope.of("ints"):
            headers.append(
                (
                    f"for {i}, {u} in zip({self.rng.choice(scope.of('ints'))}, [{self.expression('tensor', scope, 1)}] * 2):",
                    {i: "int", u: "tensor"},
                )
            )
        if scope.of("table"):
            key = self.name("s")
            headers.append(
                (f"for {key}, {u} in list({self.rng.choice(scope.of('table'))}.items()):", {key: "str", u: "tensor"})
            )
        if scope.generators:
            headers.append(
                (
                    f"for {u} in {self.rng.choice(scope.generators)}({self.expression('tensor', scope, 1)}, {self.rng.randint(1, 3)}):",
                    {u: "tensor"},
                )
            )
        grown = scope.of("ints")
        if grown and self.chance(0.2):
            target = self.rng.choice(grown)
            with self.out.block(f"for {i} in {target}:"):
                with self.out.block(f"if len({target}) > 5:"):
                    self.out.line("break")
                self.out.line(f"{target}.append({i} + 1)")
                inner.variables[i] = "int"
                self.statements(inner, self.rng.randint(1, 2))
            return
        header, bound = self.rng.choice(headers)
        with self.out.block(header):
            inner.variables.update(bound)
            self.statements(inner, self.rng.randint(1, 2))
            if self.chance(0.35):
                with self.out.block(f"if {self.expression('bool', inner)}:"):
                    self.out.line(self.rng.choice(["break", "continue"]))
                self.statements(inner, self.rng.randint(0, 2))
        if self.chance(0.2):
            with self.out.block("else:"):
                self.statements(self.inner(scope), 1)

    def while_loop(self, scope: Scope) -> None:
        if scope.loops >= 2:
            return self.branch(scope)
        count = self.name("w")
        self.out.line(f"{count} = 0")
        inner = self.inner(scope)
        inner.loops += 1
        with self.out.block(f"while {count} < {self.rng.randint(1, 3)}:"):
            self.out.line(f"{count} += 1")
            self.statements(inner, self.rng.randint(1, 2))
            if self.chance(0.3):
                with self.out.block(f"if {self.expression('bool', inner)}:"):
                    self.out.line("break")
        scope.variables[count] = "int"

    def guarded(self, scope: Scope) -> None:
        inner = self.inner(scope)
        caught = self.rng.choice(["Oops", "(Oops, KeyError)", "Exception", "(ValueError, IndexError, KeyError, Oops)"])
        with self.out.block("try:"):
            self.statements(inner, self.rng.randint(1, 2))
            if self.chance(0.6):
                raised = self.rng.choice(
                    [
                        f"raise Oops({self.expression('int', inner, 1)})",
                        "raise ValueError('v')",
                        "{}['missing']",
                        "[][1]",
                        "1 / 0",
                        "int('z')",
                        f"raise Oops({self.expression('tensor', inner, 1)})",
                    ]
                )
                if self.chance(0.5):
                    with self.out.block(f"if {self.expression('bool', inner)}:"):
                        self.out.line(raised)
                    self.statements(inner, 1)
                else:
                    self.out.line(raised)
        only_finally = self.chance(0.12)
        if not only_finally:
            error = self.name("e")
            with self.out.block(f"except {caught} as {error}:"):
                handler = self.inner(scope)
                self.out.line(f"LOG.append(type({error}).__name__)")
                self.statements(handler, self.rng.randint(0, 2))
                if self.chance(0.08):
                    self.out.line(self.rng.choice(["raise", "raise Oops('again')", f"raise Oops('from') from {error}"]))
            if self.chance(0.8):
                with self.out.block("except Exception as other:"):
                    self.out.line("LOG.append(repr(type(other)))")
            if self.chance(0.25):
                with self.out.block("else:"):
                    self.statements(self.inner(scope), 1)
        if only_finally or self.chance(0.35):
            with self.out.block("finally:"):
                self.statements(self.inner(scope), self.rng.randint(1, 2))

    def managed(self, scope: Scope) -> None:
        inner = self.inner(scope)
        label = repr(self.name("m"))
        managers = [
            (f"Note({label}, swallow=True)", None),
            (f"Note({label})", None),
            (f"noted({label}) as {label[1:-1]}", (label[1:-1], "int")),
            ("torch.no_grad()", None),
            ("contextlib.suppress(Oops, KeyError)", None),
            (f"contextlib.nullcontext({self.expression('int', scope, 1)}) as {label[1:-1]}", (label[1:-1], "int")),
            (f"Note({label}), torch.no_grad()", None),
            (f"torch.set_grad_enabled({self.expression('bool', scope, 1)})", None),
        ]
        header, bound = self.rng.choice(managers)
        with self.out.block(f"with {header}:"):
            if bound:
                inner.variables[bound[0]] = bound[1]
            self.statements(inner, self.rng.randint(1, 3))
            if "swallow" in header and self.chance(0.5):
                self.out.line("raise Oops('swallowed')")
            elif "suppress" in header and self.chance(0.5):
                self.out.line("{}['suppressed']")

    def match(self, scope: Scope) -> None:
        subject, cases = self.rng.choice(
            [
                (self.expression("int", scope), [("0", {}), ("1 | 2", {}), ("int(captured) if captured > 2", {"captured": "int"})]),
                (f"({self.expression('int', scope, 1)}, {self.expression('tensor', scope, 1)})", [("(0, got)", {"got": "tensor"}), ("(number, got) if number < 3", {"number": "int", "got": "tensor"})]),
                (self.expression("ints", scope, 1), [("[]", {}), ("[one]", {"one": "int"}), ("[first, *rest]", {"first": "int", "rest": "ints"})]),
                (self.expression("table", scope, 1), [("{'a': got}", {"got": "tensor"}), ("{'b': _, **others}", {"others": "table"})]),
            ]
        )  # fmt: skip
        with self.out.block(f"match {subject}:"):
            for pattern, bound in cases:
                with self.out.block(f"case {pattern}:"):
                    inner = self.inner(scope)
                    inner.variables.update(bound)
                    self.statements(inner, 1)
            if self.chance(0.7):
                with self.out.block("case _:"):
                    self.statements(self.inner(scope), 1)

    def closure(self, scope: Scope) -> None:
        """A local function that reads, and perhaps rebinds, variables around it."""
        target = self.name("f")
        inner = self.inner(scope)
        inner.loops += 1
        rebound = (
            [n for n in scope.of("int") if n not in self._nonlocals and n not in ("n", "k")] if scope.depth == 0 else []
        )
        parameters = {"v": "tensor"}
        header = f"def {target}(v, p={self.expression('int', scope, 1)}, *rest):"
        nonlocals_before = list(self._nonlocals)
        with self.out.block(header):
            if rebound and self.chance(0.6):
                changed = self.rng.choice(rebound)
                self.out.line(f"nonlocal {changed}")
                self._nonlocals = [changed]
            else:
                self._nonlocals = []
            self._global_line()
            if self._nonlocals:
                self.out.line(f"{self._nonlocals[0]} += 1")
            visible = inner.copy()
            # Names of the outer function stay readable: as cells, since this function never assigns them (fresh names only).
            visible.variables = {n: k for n, k in inner.variables.items() if k not in ("gen", "fn")}
            visible.variables.update(parameters)
            visible.variables["p"] = "int"
            readable = ReadOnly(visible, set(inner.variables) - set(self._nonlocals))
            self._body_over(readable, self.rng.randint(0, 2))
            self.out.line(f"return {self.expression('tensor', readable.scope)}")
        self._nonlocals = nonlocals_before
        scope.variables[target] = "fn"
        if self.chance(0.7):
            result = self.name("t")
            self.out.line(f"{result} = {target}({self.expression('tensor', scope, 1)})")
            scope.variables[result] = "tensor"

    def _body_over(self, readable: ReadOnly, count: int) -> None:
        """Statements of a nested function: they bind new names only, so that outer ones stay free variables."""
        scope = readable.scope
        for _ in range(count):
            target = self.name("t")
            choice = self.rng.randrange(5)
            if choice == 0:
                self.out.line(f"{target} = {self.expression('tensor', scope)}")
                scope.variables[target] = "tensor"
            elif choice == 1:
                self.out.line(f"LOG.append({self.expression('int', scope, 1)})")
            elif choice == 2:
                self.out.line(f"print({target!r}, {self.expression('int', scope, 1)})")
            elif choice == 3:
                with self.out.block(f"if {self.expression('bool', scope)}:"):
                    self.out.line(f"return {self.expression('tensor', scope)}")
            else:
                tables = [n for n in scope.of("table")]
                if tables:
                    self.out.line(f"{self.rng.choice(tables)}['a'] = {self.expression('tensor', scope, 1)}")
                else:
                    self.out.line(f"v.add_({self.rng.randint(1, 2)})")

    def generator_steps(self, scope: Scope) -> None:
        if not scope.generators:
            return self.assign(scope)
        g, t = self.name("g"), self.name("t")
        self.out.line(
            f"{g} = {self.rng.choice(scope.generators)}({self.expression('tensor', scope, 1)}, {self.rng.randint(1, 3)})"
        )
        self.out.line(f"{t} = next({g}, {self.expression('tensor', scope, 0)})")
        scope.variables[t] = "tensor"
        form = self.rng.randrange(5)
        if form == 0:
            with self.out.block("try:"):
                self.out.line(f"{t} = {g}.send({self.expression('int', scope, 1)})")
            with self.out.block("except StopIteration as stop:"):
                self.out.line("LOG.append(stop.value)")
        elif form == 1:
            self.out.line(f"{g}.close()")
        elif form == 2:
            with self.out.block("try:"):
                self.out.line(f"{t} = {g}.throw(Oops('thrown'))")
            with self.out.block("except (Oops, StopIteration) as thrown:"):
                self.out.line("LOG.append(type(thrown).__name__)")
        elif form == 3:
            self.out.line(f"LOG.extend({g})")
        else:
            scope.variables[g] = "gen"

    def raise_or_return(self, scope: Scope) -> None:
        with self.out.block(f"if {self.expression('bool', scope)}:"):
            if self.chance(0.2):
                self.out.line(
                    f"raise {self.rng.choice(['Oops', 'ValueError', 'KeyError'])}({self.expression('int', scope, 1)})"
                )
            else:
                self.out.line(f"return {self.expression('tensor', scope)}")

    def walrus(self, scope: Scope) -> None:
        target = self.name("i")
        with self.out.block(f"if ({target} := {self.expression('int', scope)}) > 1:"):
            inner = self.inner(scope)
            inner.variables[target] = "int"
            self.statements(inner, 1)
        scope.variables[target] = "int"

    def local_class(self, scope: Scope) -> None:
        if scope.depth > 1:
            return self.assign(scope)
        cls, target = self.name("Local"), self.name("t")
        with self.out.block(f"class {cls}:"):
            self.out.line(f"width = {self.expression('int', scope, 1) if scope.depth == 0 else 2}")
            with self.out.block("def __init__(self, v):"):
                self.out.line("self.v = v")
            with self.out.block("def get(self):"):
                if self.chance(0.5):
                    self.out.line("LOG.append('get')")
                self.out.line("return self.v * self.width")
        self.out.line(f"{target} = {cls}({self.expression('tensor', scope, 1)}).get()")
        scope.variables[target] = "tensor"

    def _global_line(self) -> None:
        self.out.line("global TOTAL")

    # Definitions.

    def generated_class(self, number: int, base: str | None) -> str:
        name = f"C{number}"
        scope = Scope({"v": "tensor", "self.t": "tensor", "self.n": "int"}, may_use_objects=False, depth=2)
        rng = self.rng

        def value(depth: int = 2) -> str:
            return self.expression("tensor", scope, depth)

        with self.out.block(f"class {name}({base}):" if base else f"class {name}:"):
            self.out.line("total = 0")
            self.out.line("seen = []")
            with self.out.block("def __init__(self, t, n):"):
                if base:
                    self.out.line(f"super().__init__(t, n + {rng.randint(0, 2)})")
                else:
                    self.out.line("self.t = t")
                    self.out.line("self.n = n")
                if self.chance(0.3):
                    self.out.line("print('init', n)")
                if self.chance(0.3):
                    self.out.line(f"{name}.total += 1")
            with self.out.block("def run(self, v):"):
                if base and self.chance(0.6):
                    self.out.line("v = super().run(v)")
                self._method_effect()
                self.out.line(f"return {value()}")
            if base and self.chance(0.5):
                return name
            with self.out.block("def shift(self, v, *, by=1):"):
                self._method_effect()
                self.out.line(f"return {value(1)} + by")
            with self.out.block("def __call__(self, v):"):
                self.out.line(f"return {rng.choice(['self.run(v)', value(1)])}")
            self.out.line("@property")
            with self.out.block("def scaled(self):"):
                self._method_effect()
                self.out.line("return self.t * (self.n % 3)")
            self.out.line("@scaled.setter")
            with self.out.block("def scaled(self, value):"):
                self.out.line("self.t = value - 1")
            with self.out.block("def __add__(self, other):"):
                self.out.line("return type(self)(self.t + other, self.n)")
            with self.out.block("def __iadd__(self, other):"):
                self.out.line("self.n = (self.n + other) % 11")
                self.out.line("return self")
            with self.out.block("def __len__(self):"):
                self.out.line(f"return {rng.randint(1, 3)}")
            with self.out.block("def __iter__(self):"):
                self.out.line("yield self.t")
                if self.chance(0.4):
                    self.out.line("print('iterating')")
                self.out.line("yield self.t * 2")
            with self.out.block("def __getitem__(self, key):"):
                self.out.line("return getattr(self, key)")
            with self.out.block("def __setitem__(self, key, value):"):
                self.out.line("setattr(self, key, value)")
            if self.chance(0.3):
                with self.out.block("def __setattr__(self, name, value):"):
                    self.out.line("LOG.append('set ' + name)")
                    self.out.line("super().__setattr__(name, value)")
            if self.chance(0.3):
                with self.out.block("def __del__(self):"):
                    self.out.line("LOG.append('del')")
            if self.chance(0.3):
                with self.out.block("def __bool__(self):"):
                    self.out.line("return self.n % 2 == 0")
        return name

    def _method_effect(self) -> None:
        choice = self.rng.randrange(6)
        if choice == 0:
            self.out.line("self.n += 1")
        elif choice == 1:
            self.out.line("LOG.append(self.n)")
        elif choice == 2:
            self.out.line("print('method', self.n)")
        elif choice == 3:
            self.out.line("self.seen.append(self.n)")

    def helper(self, number: int, scope: Scope) -> None:
        name = f"h{number}"
        with self.out.block(f"def {name}(t, n=2, *, k=1):"):
            self._global_line()
            inner = scope.copy()
            inner.variables = {"t": "tensor", "n": "int", "k": "int"}
            inner.depth = 1
            self.statements(inner, self.rng.randint(1, 4))
            self.out.line(f"return {self.expression('tensor', inner)}")
        scope.functions.append(name)

    def generator_function(self, number: int, scope: Scope) -> None:
        name = f"g{number}"
        with self.out.block(f"def {name}(t, n):"):
            self._global_line()
            inner = scope.copy()
            inner.generators = []
            inner.variables = {"t": "tensor", "n": "int"}
            inner.depth = 2
            inner.loops = 1
            guarded = self.chance(0.4)
            with self.out.block("try:") if guarded else contextlib.nullcontext():
                with self.out.block("for i in range(n):"):
                    inner.variables["i"] = "int"
                    self.statements(inner, self.rng.randint(0, 2))
                    if self.chance(0.4):
                        self.out.line(f"got = yield {self.expression('tensor', inner, 1)}")
                        with self.out.block("if got is not None:"):
                            self.out.line("LOG.append(got)")
                    else:
                        self.out.line(f"yield {self.expression('tensor', inner, 1)}")
            if guarded:
                with self.out.block(self.rng.choice(["finally:", "except Oops:"])):
                    self.out.line("LOG.append('generator ends')")
            if self.chance(0.3):
                self.out.line(f"yield from [t, {self.expression('tensor', inner, 1)}]")
            if self.chance(0.3):
                self.out.line("return 'done'")
        scope.generators.append(name)

    def main_function(self, scope: Scope) -> None:
        with self.out.block("def make():"):
            self.out.line("global TOTAL")
            self.out.line("TOTAL = 0")
            self.out.line("SHARED.clear()")
            for cls in scope.classes:
                self.out.line(f"{cls}.total, {cls}.seen = 0, []")
                self.out.line(f"{cls}.run = _{cls}_run")
            self.out.line("LOG.clear()")  # last: what goes above may have finalisers that write to it
            self.out.line("count = 1")
            with self.out.block("def f(x, y, items, tensors, table, obj, n=2, flag=True):"):
                self.out.line("global TOTAL")
                self.out.line("nonlocal count")
                inner = scope.copy()
                inner.variables = {
                    "x": "tensor", "y": "tensor", "items": "ints", "tensors": "tensors", "table": "table", "obj": "obj", "n": "int",
                    "flag": "bool", "count": "int",
                }  # fmt: skip
                self._nonlocals = ["count"]
                self.statements(inner, self.rng.randint(4, 9))
                self._return(inner)
            self._nonlocals = []
            self._case(scope)

    def _return(self, scope: Scope) -> None:
        names = [n for n, kind in scope.variables.items() if kind not in ("fn", "gen")]
        extra = ", ".join(self.rng.sample(names, min(3, len(names))))
        self.out.line(f"return {self.expression('tensor', scope)}, {extra}")

    def _case(self, scope: Scope) -> None:
        rng = self.rng

        def arguments(offset: float, n: int) -> str:
            x = f"torch.arange(4.0) * 0.5 - {offset}"
            if self.chance(0.1):
                x = f"({x}).requires_grad_()"
            y = "torch.tensor([0.5, -1.0, 2.0, 0.25])"
            items = str([rng.randint(0, 4) for _ in range(rng.randint(0, 3))])
            tensors = rng.choice(["[torch.ones(4), torch.zeros(4)]", "[]", "[torch.arange(4.0)] * 2"])
            table = rng.choice(["{}", "{'a': torch.ones(4)}", "{'b': torch.ones(4), 'a': torch.zeros(4)}"])
            return f"{x}, {y}, {items}, {tensors}, {table}, {rng.choice(scope.classes)}(torch.ones(4), {rng.randint(0, 4)}), {n}, {rng.choice(['True', 'False'])}"

        self.out.line(f"case = Case(f, {arguments(0.75, rng.randint(0, 3))})")
        self.out.line(f"case.changing({arguments(-1.25, rng.randint(0, 5))})")
        cls = rng.choice(scope.classes)
        steps = [
            f"case.then_call({arguments(0.25, rng.randint(0, 5))})",
            f"case.then(lambda case: setattr({cls}, 'run', lambda self, v: v + 100))",
            "case.then(lambda case: SHARED.update(k=9))",
            "case.then(lambda case: case.args[2].append(7))",
            "case.then(lambda case: setattr(case.args[5], 'n', 50))",
            "case.then(lambda case: setattr(case, 'args', (case.args[0], case.args[0]) + case.args[2:]))",
            "case.then(lambda case: case.args[3].append(case.args[0]))",
        ]
        for step in rng.sample(steps, rng.randint(0, 2)):
            self.out.line(step)
        self.out.line("return case.watching(LOG, SHARED).logging(LOG)")

    def program(self) -> str:
        scope = Scope()
        base = None
        for number in range(self.rng.randint(1, 2)):
            name = self.generated_class(number, base)
            self.out.line(f"_{name}_run = {name}.run")
            scope.classes.append(name)
            base = name
        for number in range(self.rng.randint(0, 2)):
            self.generator_function(number, scope)
        for number in range(self.rng.randint(0, 3)):
            self.helper(number, scope)
        self.main_function(scope)
        return PRELUDE + "\n\n" + self.out.text()


class ReadOnly:
    """A scope whose outer names may be read and not assigned."""

    def __init__(self, scope: Scope, outer: set[str]) -> None:
        self.scope = scope
        self.outer = outer


def generate(seed: int) -> str:
    """The source of program number `seed`; the same text for the same seed, on any machine."""
    return Generator(seed).program()
