"""torch.compile(shapes_spec=...): which sizes and ints of the arguments are dynamic, and what holds between them.

What is named is dynamic from the first capture on, and nothing is decided on its value; all else is static (behind a
break: as without a spec). What has to hold is checked by a function around the compiled one, which is captured with it:
so a call that breaks it is an error, and the graph may rely on it.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import linecache
import re
import warnings
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch


def normal(given: Any) -> Any:
    """A ShapesSpec of what was given."""
    try:
        from torch.fx.experimental.dynamic_spec import ShapesSpec
    except ImportError:
        raise TypeError("shapes_spec needs torch 2.13: mark sizes with stator.mark_dynamic") from None
    return given if isinstance(given, ShapesSpec) else ShapesSpec(given)


@dataclasses.dataclass
class _Leaf:
    path: str  # as an expression over the parameters
    source: str  # as guards name it
    spec: Any  # a TensorSpec, or what a leaf that is an int may be


def _below(path: str, source: str, spec: Any) -> Iterator[_Leaf]:
    from torch.fx.experimental import dynamic_spec as kinds

    if isinstance(spec, kinds.ObjectSpec):
        for name, inner in spec.items():
            yield from _below(f"{path}.{name}", f"{source}.{name}", inner)
    elif isinstance(spec, (kinds.DictSpec, kinds.SeqSpec)):
        items = spec.items() if isinstance(spec, kinds.DictSpec) else enumerate(spec._entries)
        for key, inner in items:
            yield from _below(f"{path}[{key!r}]", f"{source}[{key!r}]", inner)
    elif spec is not None:
        yield _Leaf(path, source, spec)


def _leaves(spec: Any, parameters: dict[str, inspect.Parameter]) -> list[_Leaf]:
    params = spec._params
    if params is None:
        return []
    found: list[_Leaf] = []
    for name, inner in params._named_args.items():
        if name in parameters:
            found.extend(_below(name, f"L[{name!r}]", inner))
    for name, parameter in parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            # The list may be longer than what a call gives.
            for i, inner in enumerate(params._varargs or ()):
                found.extend(_below(f"{name}[{i}]", f"L[{name!r}][{i}]", inner))
        elif parameter.kind is parameter.VAR_KEYWORD:
            for key, inner in (params._varkw or {}).items():
                found.extend(_below(f"{name}[{key!r}]", f"L[{name!r}][{key!r}]", inner))
    return found


def asking(leaves: list[_Leaf]) -> Any:
    """(name of a source, rank or -1 for an int) -> (dynamic dims, unbacked dims)."""
    from torch.fx.experimental.dynamic_spec import TensorSpec

    chosen: dict[str, tuple[int, ...]] = {}
    for leaf in leaves:
        dims = leaf.spec if isinstance(leaf.spec, TensorSpec) else [leaf.spec]
        chosen[leaf.source] = tuple(i for i, dim in enumerate(dims) if isinstance(dim, torch.SymInt))

    def asks(name: str, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (), tuple(dim for dim in chosen.get(name, ()) if rank < 0 or dim < rank)

    return asks


_plain_names = re.compile(r"#\d+")


class _Text:
    """The lines of a function that checks what a spec says and calls the one that is compiled."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bound: dict[Any, str] = {}  # sympy symbol of a spec -> local variable
        self.pending: list[
            tuple[Any, str, str]
        ] = []  # what has to hold, with what stands for the left side, and its words
        self.count = itertools.count()

    def raises(self, condition: str, error: str, words: str) -> None:
        self.lines += [f"if {condition}:", f"    raise {error}({words})"]

    def leaf(self, leaf: _Leaf) -> None:
        from torch.fx.experimental.dynamic_spec import TensorSpec

        if not isinstance(leaf.spec, TensorSpec):
            self.number(leaf.path, leaf.spec, f"{leaf.source} as static")
            return
        rank = len(leaf.spec)
        words = f'f"TensorSpec has {rank} dims but tensor {leaf.source} has {{{leaf.path}.dim()}} dims"'
        self.raises(f"{leaf.path}.dim() != {rank}", "ValueError", words)
        for dim, spec in enumerate(leaf.spec):
            if spec is not None:
                self.number(f"{leaf.path}.size({dim})", spec, f"dim {dim} of {leaf.source} as static")

    def number(self, value: str, spec: Any, what: str) -> None:
        from torch.fx.experimental.dynamic_spec import IntVar

        if not isinstance(spec, torch.SymInt):
            words = f'f"shapes_spec declares {what} with value {spec}, but got {{{value}}}"'
            self.raises(f"{value} != {spec}", "ValueError", words)
            return
        local = f"_size{next(self.count)}"
        self.lines.append(f"{local} = {value}")
        if not isinstance(spec, IntVar):
            self.pending.append((spec.node.expr, f"{local} == ", f"{value} == "))
            return
        if spec.optimization_hint is not None:
            warnings.warn(f"shapes_spec: optimization_hint of {spec!r} is not used; graphs are compiled with the sizes of "
                          "the first call", stacklevel=2)  # fmt: skip
        known = self.bound.setdefault(spec.sympy_sym, local)
        if known != local:
            self.check(f"{local} == {known}", f"{value} is another size than the first {spec.name}")
            return
        for bound, sign in ((spec.min, ">="), (spec.max, "<=")):
            if bound is not None and not (bound == 0 and value.endswith(")")):  # sizes are not negative
                self.check(f"{local} {sign} {bound}", f"{value} {sign} {bound}")

    def check(self, condition: str, words: str) -> None:
        self.lines.append(f"_check({condition}, lambda: {'shapes_spec: ' + words!r})")

    def relations(self, assumptions: list[Any]) -> None:
        """Derived sizes and assumptions, once all that they are about is known."""
        import sympy
        from torch.utils._sympy.printers import PythonPrinter

        self.pending += [(assumption.node.expr, "", "") for assumption in assumptions]
        names = {symbol: sympy.Symbol(local, integer=True) for symbol, local in self.bound.items()}
        unbound = []
        for expression, left, shown in self.pending:
            plain = shown + _plain_names.sub("", str(expression))
            missing = sorted(_plain_names.sub("", str(symbol)) for symbol in expression.free_symbols - names.keys())
            if missing:
                unbound.append(f"{plain} (unbound: {', '.join(missing)})")
                continue
            self.check(left + "(" + PythonPrinter().doprint(expression.xreplace(names)) + ")", plain)
        if unbound:
            text = "shapes_spec: every IntVar of a derived size or an assumption has to be a size or argument itself: "
            self.lines.insert(0, f"raise ValueError({text + '; '.join(unbound)!r})")


_numbers = itertools.count()


def enforcing(function: Any, spec: Any) -> tuple[FunctionType, Any]:
    """A function that checks what the spec says and calls this one, and what Settings.dynamic_sources is to be."""
    described = function
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module) and function.__name__ != "forward":
        described = owner.forward  # the call of a module takes what forward takes
    signature = inspect.signature(described)
    parameters = dict(signature.parameters)
    leaves = _leaves(spec, parameters)
    text = _Text()
    for leaf in leaves:
        text.leaf(leaf)
    text.relations(spec.assumptions)
    scope: dict[str, Any] = {"_function": function, "_check": torch._check}
    declared, passed = [], []
    kinds = inspect.Parameter
    stars: dict[Any, str] = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}
    seen_star = False
    for name, parameter in parameters.items():
        default = ""
        if parameter.default is not kinds.empty:
            scope[f"_default_{name}"] = parameter.default
            default = f"=_default_{name}"
        star = stars.get(parameter.kind, "")
        if parameter.kind is kinds.KEYWORD_ONLY and not seen_star:
            declared.append("*")
        seen_star |= parameter.kind in (kinds.VAR_POSITIONAL, kinds.KEYWORD_ONLY)
        declared.append(f"{star}{name}{default}")
        passed.append(f"{name}={name}" if parameter.kind is kinds.KEYWORD_ONLY else f"{star}{name}")
        last_positional_only = parameter.kind is kinds.POSITIONAL_ONLY
        following = list(parameters.values())[list(parameters).index(name) + 1 :]
        if last_positional_only and not any(other.kind is kinds.POSITIONAL_ONLY for other in following):
            declared.append("/")
    name = getattr(function, "__name__", type(function).__name__)
    name = name if name.isidentifier() else "compiled"
    body = [*text.lines, f"return _function({', '.join(passed)})"]
    source = f"def {name}({', '.join(declared)}):\n" + "".join(f"    {line}\n" for line in body)
    file = f"<shapes_spec {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), scope)
    made = scope[name]
    made.__doc__, made.__wrapped__ = getattr(function, "__doc__", None), function
    return made, asking(leaves)
