"""Symbols of a captured graph as SymInts of a real ShapeEnv, and what a backend decides there as conditions on the
symbols again.

Imported for graphs with symbols alone: it brings sympy.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatefulSymbolicContext,
    _constrain_range_for_size,
    constrain_range,
)
from torch.utils._sympy import functions

from stator import _node_meta, config
from stator._convolutions import symbolic_mode

_NAME = re.compile(r"s\d+")


class _Unknown(Exception):
    """An expression that has no counterpart among the capture's."""


class Symbols:
    """s0, s1 ... of one graph, each as the SymInt that the graph's fakes have for it."""

    def __init__(self, shape_env: ShapeEnv, hints: list[int]) -> None:
        self.shape_env = shape_env
        self.hints = hints
        self.names: dict[str, Any] = {
            "min": lambda *items: functools.reduce(torch.sym_min, items),
            "max": lambda *items: functools.reduce(torch.sym_max, items),
            "__builtins__": {},
        }
        self._values: dict[str, Any] = {}
        self._back: dict[sympy.Symbol, str] = {}  # names, or expressions of names
        self._found: dict[sympy.Symbol, str] = {}
        self._known = 0
        self.unbacked: set[int] = set()
        self.ragged: set[sympy.Symbol] = set()
        self.floats: dict[sympy.Symbol, int] = {}  # positions of inputs
        self.mode: FakeTensorMode | None = None
        self.unknown = _Unknown

    def bind(self, name: str, value: Any) -> None:
        self.names[name] = value
        if isinstance(value, torch.SymInt):
            self._back[value.node._expr] = name

    def value(self, text: str) -> Any:
        if text not in self._values:
            self._values[text] = eval(text, self.names)  # the text is written by symbolic/values.cpp
        return self._values[text]

    def facts(self, facts: tuple[Any, ...]) -> tuple[Any, ...]:
        """A tensor's facts (stator/_fake.py) with text in the places of SymInts."""
        return tuple(
            tuple(map(self._text, item)) if type(item) in (tuple, torch.Size) else self._text(item) for item in facts
        )

    def _text(self, value: Any) -> Any:
        if not isinstance(value, torch.SymInt):
            return value
        expr = value.node.expr
        for symbol in expr.free_symbols - self._back.keys():
            if self.shape_env.is_unbacked_symint(symbol):
                self._found[symbol] = self._back[symbol] = f"s{len(self.hints) + len(self._found)}"
        return _number(expr, self._back)

    def name(self, value: Any) -> str | None:
        """Of a symbol; None: it is none, or is not known."""
        text = self._back.get(value.node.expr) if isinstance(value, torch.SymInt) else None
        return text if text is not None and _NAME.fullmatch(text) else None

    def is_new(self, value: Any) -> bool:
        """A number that the run has read from data."""
        return isinstance(value, torch.types.py_sym_types) and not value.node.expr.free_symbols <= self._back.keys()

    def found(self) -> list[tuple[str, tuple[int, int]]]:
        """Sizes that came up in facts() and have no value: name and range."""
        ranges = self.shape_env.var_to_range
        return [
            (name, (_bounded(ranges[symbol].lower), _bounded(ranges[symbol].upper)))
            for symbol, name in self._found.items()
        ]

    def forget_found(self) -> None:
        for symbol in self._found:
            del self._back[symbol]
        self._found.clear()

    def take_found(self) -> None:
        """They are symbols of the capture from now on."""
        for symbol, name in self._found.items():
            self.bind(name, self.shape_env.create_symintnode(symbol, hint=None))
            self.hints.append(0)
        self._found.clear()

    def float_input(self, position: int, value: float) -> Any:
        """A float that is an input of the graph, as a SymFloat."""
        source = _SymbolSource(f"f{position}")
        made = self.shape_env.create_unspecified_symbol(value, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        self.floats[made] = position
        return self.shape_env.create_symfloatnode(made, hint=value, source=source)

    def _is_of_replay(self, expr: Any) -> bool:
        """An equality of sizes of tensors that torch makes on its way from a base to a view of it, which no input
        has."""
        sources = self.shape_env.var_to_sources
        return (
            isinstance(expr, sympy.Eq)
            and all(side.free_symbols for side in expr.args)
            and all(
                symbol not in self._back and all(source.is_ephemeral() for source in sources.get(symbol, ()))
                for symbol in expr.free_symbols
            )
        )

    def _float_condition(self, expr: Any) -> str | None:
        """A comparison of a float with a number."""
        if not isinstance(expr, sympy.core.relational.Relational):
            return None
        for side in (expr, expr.reversed):
            if side.lhs in self.floats and side.rhs.is_number and side.rhs.is_finite:
                return f"input {self.floats[side.lhs]} {side.rel_op} {float(side.rhs)!r}"
        return None

    def new_conditions(self) -> list[str]:
        """What was decided in the ShapeEnv since the conditions of the capture were put in.

        Of a float "input 3 >= 0.0" asks for a comparison with a number, and "input 3" for the value that it has now:
        other decisions on floats have no words.
        """
        found: list[str] = []
        for guard in self.shape_env.guards[self._known :]:
            # Which ragged sizes are equal is guarded with the tensors that they come from.
            if self._is_of_replay(guard.expr) or guard.expr.free_symbols <= self.ragged:
                continue
            # That a sum of sizes fits into 64 bits, which no memory could make untrue.
            if any(abs(number) >= 2**62 for number in guard.expr.atoms(sympy.Integer)):
                continue
            if (compared := self._float_condition(guard.expr)) is not None:
                found.append(compared)
                continue
            floats = {self.floats[symbol] for symbol in guard.expr.free_symbols if symbol in self.floats}
            found.extend(f"input {position}" for position in sorted(floats))
            try:
                found.append(_condition(guard.expr, self._back))
            except _Unknown:
                # Nothing is lost but generality: what the expression depends on keeps the values it has now.
                texts = [self._back[symbol] for symbol in guard.expr.free_symbols if symbol in self._back]
                if len(texts) + len(floats) < len(guard.expr.free_symbols):
                    texts = list(self._back.values())
                names = {name for text in texts for name in _NAME.findall(text)}
                found.extend(f"{name} == {self.hints[int(name[1:])]}" for name in sorted(names))
        return found


def make_mode(record: Any, sources: list[Any]) -> list[tuple[torch.Tensor, StatefulSymbolicContext]]:
    """Gives the record a FakeTensorMode whose ShapeEnv knows the graph's symbols and the conditions that the capture
    relies on.

    Returns the contexts of the inputs that have symbols.
    """
    hints, conditions, unbacked = record.symbols
    shape_env = ShapeEnv()
    mode: Any = symbolic_mode(shape_env)
    symbols = Symbols(shape_env, hints)
    symbols.unbacked = set(unbacked)
    mode._stator_symbols = symbols
    contexts = []
    unseen: set[int] = set()  # symbols that are sizes of tensors of which only facts are known
    for example, wrapper, shape, source in zip(record.examples, record.wrappers, record.shapes, sources, strict=True):
        if wrapper is not None and hasattr(wrapper, "__tensor_flatten__"):
            from stator import _fake

            if (env := getattr(_fake._mode_of(wrapper), "_stator_env", None)) is not None:
                context = _node_meta.input_context(example, source, DimDynamic.STATIC, wrapper)
                contexts.append((example, context))
                made = mode.from_tensor(example, symbolic_context=context, source=source)
                _bind_wrapper(symbols, wrapper, made, env, source)
            continue
        if not isinstance(shape, tuple):
            continue
        if not isinstance(example, torch.Tensor):  # a value of another region
            unseen.update(int(size[1:]) for size in shape[0] if isinstance(size, str) and _NAME.fullmatch(size))
            continue
        dynamic = [
            DimDynamic.STATIC
            if not isinstance(size, str)
            else DimDynamic.UNBACKED
            if _NAME.fullmatch(size) and int(size[1:]) in symbols.unbacked
            else DimDynamic.DYNAMIC
            for size in shape[0]
        ]
        # A symbol of its own, where it is not that of a size from which it follows.
        strides = [
            DimDynamic.DYNAMIC
            if isinstance(stride, str) and _NAME.fullmatch(stride) and stride not in shape[0]
            else DimDynamic.INFER_STRIDE
            for stride in shape[1]
        ]
        context = StatefulSymbolicContext(
            dynamic_sizes=dynamic,
            dynamic_strides=strides,
            constraint_sizes=[None] * len(dynamic),
            constraint_strides=[None] * len(dynamic),
            tensor_source=source,
        )
        contexts.append((example, context))
        with shape_env.ignore_fresh_unbacked_symbols():
            fake = mode.from_tensor(example, symbolic_context=context, source=source)
        for size, made in zip((*shape[0], *shape[1]), (*fake.shape, *fake.stride()), strict=True):
            if isinstance(size, str) and _NAME.fullmatch(size) and size not in symbols.names:
                symbols.bind(size, made)
    for number, hint in enumerate(hints):
        name = f"s{number}"
        if name not in symbols.names and number in symbols.unbacked:
            with shape_env.ignore_fresh_unbacked_symbols():
                symbols.bind(name, shape_env.create_unbacked_symint())
        elif name not in symbols.names and number in unseen:
            _bind_new(symbols, number, hint)
        elif name not in symbols.names:
            # An int, or a size of a tensor that is no input.
            source = _SymbolSource(name)
            made = shape_env.create_unspecified_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC)
            symbols.bind(name, shape_env.create_symintnode(made, hint=hint, source=source))
    for condition in conditions:
        if any(int(name[1:]) in symbols.unbacked for name in _NAME.findall(condition)):
            torch._check(symbols.value(condition))
        elif not bool(symbols.value(condition)):
            raise AssertionError(f"a condition of the capture does not hold for its own inputs: {condition}")
    symbols._values.clear()
    symbols._known = len(shape_env.guards)
    record.fake_mode = mode
    return contexts


_UNBOUNDED = 1 << 62  # symbolic::kUnbounded


def _bounded(end: Any) -> int:
    if end.is_infinite or abs(end) > _UNBOUNDED:
        return _UNBOUNDED if end > 0 else -_UNBOUNDED
    return int(end)


def _unbacked(shape_env: ShapeEnv, low: int, high: int) -> torch.SymInt:
    """A number without a value, within these ends; from 0 on it may be a size."""
    with shape_env.ignore_fresh_unbacked_symbols():
        made = shape_env.create_unbacked_symint()
    ends = {"min": low} if low > -_UNBOUNDED else {}
    if high < _UNBOUNDED:
        ends["max"] = high
    if low >= 0:
        _constrain_range_for_size(made, **ends)
    elif ends:
        constrain_range(made, **{"min": -sys.maxsize - 1, "max": sys.maxsize, **ends})
    return made


def for_one_run(hints: list[int], unbacked: list[tuple[int, int, int]], data_sizes: bool = False) -> Symbols:
    shape_env = ShapeEnv(
        allow_scalar_outputs=config.capture_scalar_outputs or data_sizes,
        allow_dynamic_output_shape_ops=config.capture_dynamic_output_shape_ops or data_sizes,
    )
    symbols = Symbols(shape_env, hints)
    for number, low, high in unbacked:
        symbols.bind(f"s{number}", _unbacked(shape_env, low, high))
    symbols.mode = symbolic_mode(shape_env)
    for number, hint in enumerate(hints):
        if f"s{number}" not in symbols.names:
            _bind_new(symbols, number, hint)
    return symbols


def _bind_new(symbols: Symbols, number: int, hint: int) -> None:
    shape_env, source = symbols.shape_env, _SymbolSource(f"s{number}")
    if hint >= 2:
        made = shape_env.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC)
    else:
        made = shape_env.create_unspecified_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC)
    symbols.bind(f"s{number}", shape_env.create_symintnode(made, hint=hint, source=source))


def extend(symbols: Symbols, known: list[int | tuple[int, int]]) -> None:
    """The symbols that a capture has by now: the value of each, or the ends between which it lies."""
    for number in range(len(symbols.hints), len(known)):
        value = known[number]
        symbols.hints.append(value if isinstance(value, int) else 0)
        if isinstance(value, int):
            _bind_new(symbols, number, value)
        else:
            symbols.bind(f"s{number}", _unbacked(symbols.shape_env, *value))


def _bind_wrapper(symbols: Symbols, fake: torch.Tensor, made: torch.Tensor, env: Symbols, source: Any = None) -> None:
    """The symbols that the trace's fake has, as the backend's has them."""
    for size, other in zip(fake.shape, made.shape, strict=True):
        if isinstance(size, torch.SymInt) and not size.node.is_nested_int():
            name = env._back.get(size.node._expr) or env._text(size)
            if _NAME.fullmatch(name) and name not in symbols.names:
                symbols.bind(name, other)
            elif isinstance(other, torch.SymInt) and isinstance(other.node._expr, sympy.Symbol):
                symbols._back.setdefault(other.node._expr, name)
    if source is not None:
        _bind_outer(symbols, fake, source, env)
    if hasattr(fake, "__tensor_flatten__"):
        for name in fake.__tensor_flatten__()[0]:
            if isinstance(inner := getattr(fake, name), torch.Tensor):
                _bind_wrapper(symbols, inner, getattr(made, name), env)


def _bind_outer(symbols: Symbols, fake: torch.Tensor, source: Any, env: Symbols) -> None:
    """The symbols that torch has made for sizes of the whole, which it takes from the parts where it computes with
    them."""
    for symbol, sources in symbols.shape_env.var_to_sources.items():
        if symbol in symbols._back:
            continue
        of: Any = next((one for one in sources if getattr(one, "base", None) == source), None)
        if of is None or getattr(of.prop, "name", "") != "SIZE":
            continue
        size = fake.shape[of.idx]
        if isinstance(size, torch.SymInt) and size.node.is_nested_int():
            symbols.ragged.add(symbol)
        elif isinstance(size, torch.SymInt):
            symbols._back[symbol] = env._text(size)


class _SymbolSource(torch._guards.Source):
    guard_source = torch._guards.GuardSource.LOCAL

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def _name_template(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(other) is _SymbolSource and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


_RELATIONS = {sympy.Eq: "==", sympy.Ne: "!=", sympy.Lt: "<", sympy.Le: "<=", sympy.Gt: ">", sympy.Ge: ">="}


def _condition(expr: Any, names: dict[sympy.Symbol, str]) -> str:
    if expr is sympy.true:
        return "True"
    if expr is sympy.false:
        return "False"
    if isinstance(expr, (sympy.And, sympy.Or)):
        word = " and " if isinstance(expr, sympy.And) else " or "
        return word.join(f"({_condition(part, names)})" for part in expr.args)
    if isinstance(expr, sympy.Not):
        return f"not ({_condition(expr.args[0], names)})"
    sign = _RELATIONS.get(type(expr))
    if sign is None:
        raise _Unknown(expr)
    left, right = expr.args
    factor = math.lcm(*(int(number.q) for number in left.atoms(sympy.Rational) | right.atoms(sympy.Rational)))
    if factor != 1:
        left, right = sympy.expand(left * factor), sympy.expand(right * factor)
    return f"{_number(left, names)} {sign} {_number(right, names)}"


_ROUNDED = (functions.CeilToInt, functions.FloorToInt, functions.TruncToInt)


def _number(expr: Any, names: dict[sympy.Symbol, str]) -> str:
    if isinstance(expr, sympy.Integer):
        return f"({int(expr)})" if expr < 0 else str(int(expr))
    if isinstance(expr, sympy.Symbol):
        if expr not in names:
            raise _Unknown(expr)
        return names[expr]
    if isinstance(expr, _ROUNDED) and isinstance(expr.args[0], functions.IntTrueDiv):
        # Exact: a quotient of ints below 2**53 that is no integer is not rounded to one.
        over, under = (_number(part, names) for part in expr.args[0].args)
        down, up = f"({over}//{under})", f"((-1)*(((-1)*{over})//{under}))"
        if isinstance(expr, functions.TruncToInt):
            return f"(max({down}, 0) + min({up}, 0))"
        return up if isinstance(expr, functions.CeilToInt) else down
    parts = [_number(part, names) for part in expr.args]
    if isinstance(expr, sympy.Add):
        return "(" + " + ".join(parts) + ")"
    if isinstance(expr, sympy.Mul):
        return "(" + "*".join(parts) + ")"
    if isinstance(expr, (sympy.Pow, functions.PowByNatural)):
        if not isinstance(expr.args[1], sympy.Integer) or expr.args[1] < 0:
            raise _Unknown(expr)
        return f"(({parts[0]})**{parts[1]})"
    if isinstance(expr, (functions.FloorDiv, functions.CleanDiv)):
        return f"({parts[0]}//{parts[1]})"
    if isinstance(expr, (functions.Mod, functions.PythonMod, sympy.Mod)):
        return f"({parts[0]} % {parts[1]})"
    if isinstance(expr, functions.ModularIndexing):
        return f"(({parts[0]}//{parts[1]}) % {parts[2]})"
    if isinstance(expr, functions.Identity):
        return parts[0]
    if isinstance(expr, (functions.Max, sympy.Max)):
        return f"max({', '.join(parts)})"
    if isinstance(expr, (functions.Min, sympy.Min)):
        return f"min({', '.join(parts)})"
    raise _Unknown(expr)
