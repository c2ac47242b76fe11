"""The sizes of an export: what `dynamic_shapes` says of each argument, the ShapeEnv in which the captured graph's
symbols are sizes of the arguments, and the answer to whether the program keeps what was asked for.

torch.export's own functions read `dynamic_shapes` and write the suggested fixes; the conditions are the capture's.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import (
    ConstraintViolationError,
    DimDynamic,
    EqualityConstraint,
    RelaxedUnspecConstraint,
    ShapeEnv,
    StatefulSymbolicContext,
)
from torch.utils.weak import WeakTensorKeyDictionary

from stator import _symbols, exc
from stator._convolutions import symbolic_mode
from stator._fx import InputSource, _function_records

_MARKS = (
    "_dynamo_dynamic_indices",
    "_dynamo_dynamic_range",
    "_dynamo_weak_dynamic_indices",
    "_dynamo_static_indices",
    "_dynamo_unbacked_indices",
    "_has_dynamo_dim_marking",
)
_SIZE = re.compile(r"(.*)\.size\(\)\[(\d+)\]")
_NAME = re.compile(r"s\d+")


def _as_ours(error: Exception) -> Exception:
    """torch's complaint about dynamic_shapes under the name by which users of Stator know it."""
    kind = getattr(error, "error_type", None)
    if type(error).__name__ != "UserError" or isinstance(error, exc.UserError) or kind is None:
        return error
    return exc.UserError(exc.UserErrorType[kind.name], str(error))


class Sizes:
    """Of one export. `places` are the tensors among the arguments with the expressions under which the program has
    them."""

    def __init__(
        self, places: list[tuple[str, torch.Tensor]], scope: dict[str, Any], static: bool, deferred: bool
    ) -> None:
        self.places = places
        self.scope = scope
        self.static = static
        self.deferred = deferred
        self.constraints: list[Any] = []
        self.demanded: dict[int, set[int]] = {}  # Dim.DYNAMIC, by tensor
        self.mode: Any = None
        self.fakes: dict[int, Any] = {}
        self.tracked: list[tuple[Any, Any, Any]] = []
        self.code: list[str] = []

    # ---- what is asked for
    # -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def asked(
        self, f: Callable[..., Any], args: Any, kwargs: Any, shapes: Any, constraints: list[Any] | None
    ) -> Iterator[None]:
        """Reads `dynamic_shapes`. Within, the arguments are marked for the capture, as wishes: what is a must is
        checked afterwards."""
        before = [
            (tensor, {mark: copy.copy(getattr(tensor, mark)) for mark in _MARKS if hasattr(tensor, mark)})
            for _, tensor in self.places
        ]
        try:
            if constraints:
                self.constraints = constraints
            elif shapes:
                from torch.export.dynamic_shapes import _combine_args, _process_dynamic_shapes

                try:
                    self.constraints = _process_dynamic_shapes(_combine_args(f, args, kwargs), shapes)
                except Exception as error:
                    raise _as_ours(error) from None
            for _, tensor in self.places:
                if constraints or shapes:
                    self._wish(tensor)
            yield
        finally:
            for tensor, marks in before:
                for mark in _MARKS:
                    if mark in marks:
                        setattr(tensor, mark, marks[mark])
                    elif hasattr(tensor, mark):
                        delattr(tensor, mark)

    def _strict(self, tensor: torch.Tensor) -> dict[int, Any]:
        """The constraints by dimension that have a range of their own."""
        found: dict[int, Any] = {}
        for constraint in self.constraints:
            if constraint.t_id == id(tensor) and hasattr(constraint, "constraint_range"):
                found[constraint.dim] = constraint
        return found

    def _wish(self, tensor: torch.Tensor) -> None:
        strict = {
            dim for dim, c in self._strict(tensor).items() if c.constraint_range.vr.lower != c.constraint_range.vr.upper
        }
        demanded = self.demanded[id(tensor)] = set(getattr(tensor, "_dynamo_dynamic_indices", ()))
        weak = strict | demanded | set(getattr(tensor, "_dynamo_weak_dynamic_indices", ()))
        rest = set(range(tensor.dim())) - weak
        static = set(getattr(tensor, "_dynamo_static_indices", ())) | (self._strict(tensor).keys() - strict)
        tensor._dynamo_weak_dynamic_indices = weak  # type: ignore[attr-defined]
        tensor._dynamo_dynamic_indices = set()  # type: ignore[attr-defined]
        tensor._dynamo_dynamic_range = set()  # type: ignore[attr-defined]
        tensor._dynamo_static_indices = rest if self.static else static - weak  # type: ignore[attr-defined]
        tensor._has_dynamo_dim_marking = True  # type: ignore[attr-defined]

    # ---- the ShapeEnv
    # ----------------------------------------------------------------------------------------------------------

    def _context(self, tensor: torch.Tensor, source: InputSource) -> StatefulSymbolicContext:
        strict = self._strict(tensor)
        demanded = self.demanded.get(id(tensor), ())
        weak = getattr(tensor, "_dynamo_weak_dynamic_indices", ())
        fixed = getattr(tensor, "_dynamo_static_indices", ())
        kinds, ranges = [], []
        for dim in range(tensor.dim()):
            constraint = strict.get(dim)
            if constraint is not None:
                self.mode.shape_env.source_name_to_debug_name[f"{source.name}.size()[{dim}]"] = constraint.name
            wanted = constraint is not None or dim in demanded or dim in weak
            open_size = wanted or not (self.static or dim in fixed)
            kinds.append(DimDynamic.DYNAMIC if wanted else DimDynamic.DUCK if open_size else DimDynamic.STATIC)
            ranges.append(
                constraint.constraint_range
                if constraint is not None
                else RelaxedUnspecConstraint(warn_only=False)
                if dim in demanded
                else None
            )
        return StatefulSymbolicContext(
            dynamic_sizes=kinds,
            dynamic_strides=[DimDynamic.INFER_STRIDE] * tensor.dim(),
            constraint_sizes=ranges,
            constraint_strides=[None] * tensor.dim(),
            tensor_source=source,
        )

    def start(self) -> Any:
        """A mode in which each argument has a fake, with symbols where sizes may change."""
        shape_env = ShapeEnv(
            allow_scalar_outputs=True,
            allow_dynamic_output_shape_ops=True,
            prefer_deferred_runtime_asserts_over_guards=self.deferred,
        )
        self.mode = symbolic_mode(shape_env)
        self.mode.allow_non_fake_inputs = True
        self.mode.export = True
        for position, (name, tensor) in enumerate(self.places):
            if id(tensor) in self.fakes:
                continue
            source = InputSource(name, position)
            context = self._context(tensor, source)
            with torch._C.DisableTorchFunctionSubclass():
                fake = self.mode.from_tensor(tensor, symbolic_context=context, source=source)
            self.fakes[id(tensor)] = fake
            self.tracked.append((fake, source, context))
        return self.mode

    def fake_of(self, tensor: torch.Tensor) -> Any:
        """Of any tensor that the graph takes. What is no argument keeps its sizes."""
        if id(tensor) not in self.fakes:
            with torch._C.DisableTorchFunctionSubclass():
                self.fakes[id(tensor)] = self.mode.from_tensor(tensor, static_shapes=True)
        return self.fakes[id(tensor)]

    def tensor_at(self, expression: str) -> torch.Tensor | None:
        """The argument, or part of one, that the program has under this expression."""
        try:
            found = eval(
                expression, {"__builtins__": {}, "str": str}, {"L": self.scope}
            )  # written by graph/fx_names.cpp
        except Exception:
            return None
        return found if isinstance(found, torch.Tensor) and id(found) in self.fakes else None

    def bind(self, record: Any) -> None:
        """Makes the graph's symbols sizes of the arguments, and tells the ShapeEnv all that the capture decided."""
        shape_env = self.mode.shape_env
        hints, conditions, unbacked = record.symbols if record.symbols is not None else ([], [], [])
        symbols = _symbols.Symbols(shape_env, hints)
        symbols.unbacked = set(unbacked)
        self.mode._stator_symbols = symbols
        equal: list[tuple[Any, Any]] = []

        def is_now(size: Any, made: Any) -> None:
            """The capture's size is this one of the ShapeEnv."""
            if isinstance(size, str) and _NAME.fullmatch(size) and size not in symbols.names:
                symbols.bind(size, made)
            elif isinstance(size, str) or isinstance(made, torch.SymInt):
                equal.append((size, made))

        for example, shape, (expression, _) in zip(record.examples, record.shapes, record.inputs, strict=True):
            fake = self.fakes.get(id(example)) if isinstance(example, torch.Tensor) else None
            if isinstance(shape, str):
                part = _SIZE.fullmatch(expression)
                owner = self.tensor_at(part[1]) if part else None
                if part is not None and owner is not None:
                    is_now(shape, self.fakes[id(owner)].shape[int(part[2])])
            elif fake is not None:
                sizes = shape[0] if isinstance(shape, tuple) else tuple(example.shape)
                for size, made in zip(sizes, fake.shape, strict=True):
                    is_now(size, made)
        for number, hint in enumerate(hints):
            name = f"s{number}"
            if name in symbols.names:
                continue
            if number in symbols.unbacked:
                with shape_env.ignore_fresh_unbacked_symbols():
                    symbols.bind(name, shape_env.create_unbacked_symint())
            else:
                _symbols._bind_new(symbols, number, hint)
        for size, made in equal:
            assert bool((symbols.value(size) if isinstance(size, str) else size) == made)
        for condition in conditions:
            if any(int(name[1:]) in symbols.unbacked for name in _NAME.findall(condition)):
                torch._check(symbols.value(condition))
            else:
                assert bool(symbols.value(condition)), condition
        symbols._values.clear()
        symbols._known = len(shape_env.guards)
        record.fake_mode = self.mode

    def contexts(self, module: Any) -> WeakTensorKeyDictionary:
        for function in module.modules():
            if function in _function_records:
                _function_records[function].fake_mode = self.mode
        found = WeakTensorKeyDictionary()
        by_source = {source.name: context for _, source, context in self.tracked}
        for name, tensor in self.places:
            if name in by_source:
                found[tensor] = by_source[name]
        return found

    # ---- whether it holds
    # ------------------------------------------------------------------------------------------------------

    def check(self, f: Callable[..., Any], shapes: Any, solve: bool) -> exc.ConstraintViolation | None:
        """The conditions as code, and torch's complaint where the program needs more than was asked for."""
        from torch._dynamo.source import TensorProperty, TensorPropertySource
        from torch.export.dynamic_shapes import _process_equalities

        shape_env = self.mode.shape_env
        sources: dict[int, list[Any]] = {}
        for position, (name, tensor) in enumerate(self.places):
            sources.setdefault(id(tensor), []).append(InputSource(name, position))

        def sources_of(tensor: int, dim: int) -> list[Any]:
            return [TensorPropertySource(source, TensorProperty.SIZE, dim) for source in sources.get(tensor, [])]

        equalities = None
        if self.constraints:
            pairs: list[Any] = []
            derived: list[Any] = []
            phantoms: dict[str, Any] = {}
            relaxed: set[Any] = set()
            names: dict[str, Any] = {}
            for constraint in self.constraints:
                if constraint.t_id in sources:
                    _process_equalities(constraint, sources_of, shape_env, names, pairs, derived, phantoms, relaxed)
            equalities = EqualityConstraint(
                source_pairs=pairs,
                derived_equalities=derived,
                phantom_symbols=list(phantoms.values()),
                relaxed_sources=relaxed,
                warn_only=False,
            )
        violation: ConstraintViolationError | None = None
        try:
            self.code = shape_env.produce_guards(
                [fake for fake, _, _ in self.tracked],
                [source for _, source, _ in self.tracked],
                input_contexts=[context for _, _, context in self.tracked],
                equalities_inputs=equalities,
                ignore_static=False,
            )
        except ConstraintViolationError as error:
            violation = error
        limits = shape_env.dim_constraints
        text = "" if violation is None else str(violation.args[0])
        if solve and limits is not None:
            limits.solve()
            forced = limits.forced_specializations()
            fixes = limits.prettify_results(inspect.signature(f), shapes, violation, forced)
            if text or forced:
                text += fixes
        return exc.ConstraintViolation(text) if text else None
