"""Random expressions of a wanted kind over the variables of a scope.

Kinds: `tensor` (float vectors of length 4), `int` (kept small), `bool`, `str`, `ints` and `tensors` (lists), `table` (dict from short
strings to tensors), `obj` (instance of a generated class), `fn` (tensor to tensor), `gen` (generator of tensors).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

KEYS = ("a", "b", "c")


@dataclass
class Scope:
    """The variables that are surely bound here, and what the surrounding code may do."""

    variables: dict[str, str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)  # helpers (tensor, int, *, k) -> tensor that may be called
    generators: list[str] = field(default_factory=list)  # generator functions (tensor, int)
    classes: list[str] = field(default_factory=list)
    may_use_objects: bool = True
    loops: int = 0
    depth: int = 0

    def of(self, kind: str) -> list[str]:
        return [name for name, other in self.variables.items() if other == kind]

    def copy(self) -> Scope:
        return Scope(
            dict(self.variables),
            self.functions,
            self.generators,
            self.classes,
            self.may_use_objects,
            self.loops,
            self.depth,
        )


class Expressions:
    """Builds expressions; every random choice comes from one generator, so that a seed fixes the program."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def make(self, kind: str, scope: Scope, depth: int = 2) -> str:
        names = scope.of(kind)
        if names and (depth <= 0 or self.rng.random() < 0.35):
            return self.rng.choice(names)
        return getattr(self, f"_{kind}")(scope, depth)

    def _pick(self, *options: str) -> str:
        return self.rng.choice(options)

    def _tensor(self, scope: Scope, depth: int) -> str:
        if depth <= 0:
            return self._pick("torch.ones(4)", "torch.full((4,), 0.5)", "torch.arange(4.0)")

        def tensor() -> str:
            return self.make("tensor", scope, depth - 1)

        def number() -> str:
            return self.make("int", scope, depth - 1)

        options = [
            lambda: f"({tensor()} {self._pick('+', '-', '*')} {tensor()})",
            lambda: f"({tensor()} {self._pick('+', '-', '*')} {number()})",
            lambda: f"({self.rng.randint(1, 3)} {self._pick('+', '-', '*')} {tensor()})",
            lambda: f"torch.{self._pick('relu', 'sin', 'tanh', 'abs', 'neg', 'sigmoid', 'cos', 'sign')}({tensor()})",
            lambda: (
                f"{tensor()}.{self._pick('clamp(-2, 2)', 'flip(0)', 'cumsum(0)', 'roll(1, 0)', 'clone()', 'detach()', 'tanh()', 'view(2, 2).t().reshape(4)')}"
            ),
            lambda: f"torch.where({tensor()} > 0, {tensor()}, {tensor()})",
            lambda: f"torch.cat([{tensor()}[:2], {tensor()}[2:]])",
            lambda: f"torch.stack([{tensor()}, {tensor()}]).{self._pick('sum(0)', 'mean(0)', 'max(0)[0]')}",
            lambda: f"({tensor()} * {tensor()}.sum())",
            lambda: f"torch.add({tensor()}, {tensor()}, alpha={self.rng.randint(1, 3)})",
            lambda: f"({tensor()} if {self.make('bool', scope, depth - 1)} else {tensor()})",
            lambda: f"sum([{tensor()}, {tensor()}])",
        ]
        if scope.of("tensors"):
            options.append(lambda: f"sum({self.rng.choice(scope.of('tensors'))}[:3], {tensor()})")
            options.append(lambda: f"torch.stack([{tensor()}, *{self.rng.choice(scope.of('tensors'))}[:2]]).sum(0)")
        if scope.of("table"):
            options.append(
                lambda: f"{self.rng.choice(scope.of('table'))}.get({self._pick(*map(repr, KEYS))}, {tensor()})"
            )
            options.append(lambda: f"sum({self.rng.choice(scope.of('table'))}.values(), {tensor()})")
        if scope.of("fn"):
            options.append(lambda: f"{self.rng.choice(scope.of('fn'))}({tensor()})")
        if scope.of("gen"):
            options.append(lambda: f"next({self.rng.choice(scope.of('gen'))}, {tensor()})")
        if scope.functions:
            options.append(lambda: self.call_helper(scope, depth))
        if scope.may_use_objects and scope.of("obj"):
            options.append(lambda: self._object_tensor(scope, depth))
            options.append(lambda: f"{self.rng.choice(scope.of('obj'))}.t")
        return self.rng.choice(options)()

    def call_helper(self, scope: Scope, depth: int) -> str:
        name = self.rng.choice(scope.functions)
        tensor, number = self.make("tensor", scope, depth - 1), self.make("int", scope, depth - 1)
        form = self.rng.randrange(5)
        if form == 0:
            return f"{name}({tensor}, {number})"
        if form == 1:
            return f"{name}({tensor}, n={number})"
        if form == 2:
            return f"{name}(*({tensor}, {number}), k={self.rng.randint(0, 3)})"
        if form == 3:
            return f"{name}({tensor}, **{{'k': {number}}})"
        return f"{name}(n={number}, t={tensor})"

    def _object_tensor(self, scope: Scope, depth: int) -> str:
        obj = self.rng.choice(scope.of("obj"))
        tensor = self.make("tensor", scope, depth - 1)
        return self._pick(
            f"{obj}.run({tensor})",
            f"{obj}({tensor})",
            f"{obj}.scaled",
            f"({obj} + {tensor}).t",
            f"({tensor} * {obj}.n)",
            f"sum({obj})",
            f"{obj}['t']",
            f"{obj}.shift({tensor}, by={self.rng.randint(0, 3)})",
        )

    def _int(self, scope: Scope, depth: int) -> str:
        if depth <= 0:
            return str(self.rng.randint(0, 4))

        def number() -> str:
            return self.make("int", scope, depth - 1)

        options = [
            lambda: str(self.rng.randint(-2, 5)),
            lambda: f"({number()} {self._pick('+', '-', '*')} {number()}) % {self.rng.randint(2, 7)}",
            lambda: f"{self._pick('min', 'max')}({number()}, {number()})",
            lambda: f"abs({number()})",
            lambda: f"({number()} if {self.make('bool', scope, depth - 1)} else {number()})",
            lambda: f"len({self.make('str', scope, depth - 1)})",
            lambda: f"{self.make('tensor', scope, 0)}.shape[0]",
            lambda: f"int({self.make('bool', scope, depth - 1)})",
            lambda: f"({number()} // {self.rng.randint(1, 3)})",
            lambda: f"divmod({number()}, 3)[1]",
        ]
        if self.rng.random() < 0.08:
            options = [
                lambda: f"int({self.make('tensor', scope, 0)}.sum().item() > 0)",
                lambda: f"{self.make('tensor', scope, 0)}.argmax().item()",
            ]
        for kind in ("ints", "tensors", "table"):
            if scope.of(kind):
                options.append(lambda kind=kind: f"len({self.rng.choice(scope.of(kind))})")
        if scope.of("ints"):
            options.append(lambda: f"sum({self.rng.choice(scope.of('ints'))}[:4]) % 5")
            options.append(lambda: f"max({self.rng.choice(scope.of('ints'))}, default=1)")
        if scope.may_use_objects and scope.of("obj"):
            options.append(lambda: f"{self.rng.choice(scope.of('obj'))}.n")
            options.append(lambda: f"len({self.rng.choice(scope.of('obj'))})")
        return self.rng.choice(options)()

    def _bool(self, scope: Scope, depth: int) -> str:
        if depth <= 0:
            return self._pick("True", "False")
        options = [
            lambda: (
                f"{self.make('int', scope, depth - 1)} {self._pick('<', '>', '==', '!=', '<=')} {self.make('int', scope, depth - 1)}"
            ),
            lambda: f"{self.make('int', scope, depth - 1)} % 2 == {self.rng.randint(0, 1)}",
            lambda: f"not ({self.make('bool', scope, depth - 1)})",
            lambda: (
                f"({self.make('bool', scope, depth - 1)} {self._pick('and', 'or')} {self.make('bool', scope, depth - 1)})"
            ),
            lambda: f"{self.make('tensor', scope, 0)}.dim() == 1",
            lambda: f"0 <= {self.make('int', scope, depth - 1)} < {self.rng.randint(1, 5)}",
            lambda: f"{self.make('tensor', scope, 0)} is {self.make('tensor', scope, 0)}",
            lambda: f"{self.make('str', scope, depth - 1)} == {self.make('str', scope, depth - 1)}",
        ]
        if self.rng.random() < 0.15:
            options = [lambda: f"({self.make('tensor', scope, depth - 1)}.sum() > {self.rng.randint(-2, 3)})"]
        if scope.of("table"):
            options.append(lambda: f"{self._pick(*map(repr, KEYS))} in {self.rng.choice(scope.of('table'))}")
        if scope.of("ints"):
            options.append(lambda: f"{self.make('int', scope, 0)} in {self.rng.choice(scope.of('ints'))}")
        if scope.may_use_objects and scope.of("obj"):
            obj = self.rng.choice(scope.of("obj"))
            options.append(lambda: f"isinstance({obj}, {self.rng.choice(scope.classes)})")
            options.append(lambda: f"hasattr({obj}, {self._pick(repr('extra'), repr('t'))})")
            options.append(lambda: f"bool({obj})")
        return self.rng.choice(options)()

    def _str(self, scope: Scope, depth: int) -> str:
        if depth <= 0:
            return repr(self._pick("a", "bc", "", "d e"))
        return self.rng.choice(
            [
                lambda: repr(self._pick("a", "bc", "xyz")),
                lambda: f"f'{{{self.make('int', scope, 0)}}}{self._pick('', ':', 'k')}'",
                lambda: f"({self.make('str', scope, depth - 1)} + {self.make('str', scope, depth - 1)})[:6]",
                lambda: (
                    f"{self.make('str', scope, depth - 1)}.{self._pick('upper()', 'strip()', 'replace(chr(97), chr(98))', 'title()', 'zfill(3)')}"
                ),
                lambda: f"'-'.join(['x', {self.make('str', scope, depth - 1)}])",
                lambda: f"('%d%s' % ({self.make('int', scope, depth - 1)}, {self.make('str', scope, depth - 1)}))",
            ]
        )()

    def _ints(self, scope: Scope, depth: int) -> str:
        def number() -> str:
            return self.make("int", scope, depth - 1)

        return self.rng.choice(
            [
                lambda: f"[{number()}, {number()}, {number()}]",
                lambda: f"[i + {number()} for i in range({self.rng.randint(1, 4)})]",
                lambda: f"[i for i in range(5) if i % {self.rng.randint(2, 3)} == 0]",
                lambda: f"sorted([{number()}, {number()}], reverse={self._pick('True', 'False')})",
                lambda: f"list(range({self.rng.randint(1, 3)}))",
                lambda: f"[*range(2), {number()}]",
                lambda: f"sorted({{{number()}, {number()}}})",
                lambda: f"list(map(lambda i: i * 2, [{number()}, {number()}]))",
                lambda: f"[a * b for a, b in zip([1, 2, 3], [{number()}, {number()}])]",
            ]
        )()

    def _tensors(self, scope: Scope, depth: int) -> str:
        def tensor() -> str:
            return self.make("tensor", scope, depth - 1)

        options = [
            lambda: f"[{tensor()}, {tensor()}]",
            lambda: f"[{tensor()}]",
            lambda: f"[{tensor()} + i for i in range({self.rng.randint(1, 3)})]",
            lambda: f"[u * 2 for u in ({tensor()}, {tensor()})]",
            lambda: f"list(u + 1 for u in [{tensor()}, {tensor()}])",
        ]
        if scope.generators:
            options.append(lambda: f"list({self.rng.choice(scope.generators)}({tensor()}, {self.rng.randint(1, 3)}))")
        return self.rng.choice(options)()

    def _table(self, scope: Scope, depth: int) -> str:
        def tensor() -> str:
            return self.make("tensor", scope, depth - 1)

        return self.rng.choice(
            [
                lambda: f"{{'a': {tensor()}, 'b': {tensor()}}}",
                lambda: f"{{key: {tensor()} for key in {self._pick(repr('ab'), repr('bc'), repr('c'))}}}",
                lambda: f"dict(a={tensor()})",
                lambda: f"dict(zip('ab', [{tensor()}, {tensor()}]))",
            ]
        )()

    def _obj(self, scope: Scope, depth: int) -> str:
        cls = self.rng.choice(scope.classes)
        return f"{cls}({self.make('tensor', scope, depth - 1)}, {self.make('int', scope, depth - 1)})"

    def _fn(self, scope: Scope, depth: int) -> str:
        inner = scope.copy()
        inner.variables["v"] = "tensor"
        return f"(lambda v: {self.make('tensor', inner, max(1, depth - 1))})"

    def _gen(self, scope: Scope, depth: int) -> str:
        if scope.generators and self.rng.random() < 0.7:
            return f"{self.rng.choice(scope.generators)}({self.make('tensor', scope, depth - 1)}, {self.rng.randint(1, 3)})"
        return f"({self.make('tensor', scope, depth - 1)} * i for i in range({self.rng.randint(1, 3)}))"
