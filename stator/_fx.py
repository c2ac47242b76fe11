"""The parts of the way to torch.fx and to backends that have to be Python: the module class and the call of the
backend. What nodes say beside their calls is in _node_meta.py.

Importing this module imports nothing of torch._dynamo, sympy or AOTAutograd: they come with the backend that needs
them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._guards import CompileContext, GuardSource, Source, TracingContext, compile_context, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module
from torch.fx.experimental import _config as fx_config
from torch.fx.experimental.sym_node import SymNode
from torch.fx.graph import (
    CodeGen,
    Graph,
    PythonCode,
    _custom_builtins,
    _illegal_names,
    _is_from_torch,
    inplace_methods,
    magic_methods,
)
from torch.fx.graph_module import GraphModule
from torch.fx.node import _get_qualified_name
from torch.utils.weak import WeakTensorKeyDictionary

from stator import _compilations, _compile_ids, _core, _logs, _trace_records, config

_log = logging.getLogger("torch._dynamo.output_graph")  # the word `dynamo`


class InputSource(Source):
    """Where an input of the graph is read, in the form in which AOTAutograd and inductor want to know it."""

    guard_source = GuardSource.LOCAL

    def __init__(self, expression: str, position: int) -> None:
        self.name = expression
        self.position = position

    @property
    def _name_template(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(other) is InputSource and other.name == self.name and other.position == self.position

    def __hash__(self) -> int:
        return hash((self.name, self.position))

    def __repr__(self) -> str:
        return self.name

    # Part of AOTAutograd's cache key: it must depend on nothing but these two.
    def __reduce__(self) -> tuple[Any, ...]:
        return InputSource, (self.name, self.position)


class CapturedGraph(Graph):
    """A graph whose source is written in C++, where nothing special is asked for."""

    def python_code(self, root_module: str, **options: Any) -> PythonCode:
        if root_module == "self" and not any(options.values()) and not getattr(self.owning_module, "_modules", None):
            made = _core.fx_source(self, sys.modules[__name__])
            if made is not None:
                return PythonCode(made[0], made[1], _lineno_map=made[2], _prologue_start=4)
        return super().python_code(root_module, **options)


class CapturedModule(_LazyGraphModule):
    """A GraphModule whose forward runs the captured graph in C++, until the module is recompiled.

    Source is written when it is asked for, and made a function only when that function is called: AOTAutograd's cache
    key, for one, needs the text alone. Runner and record stand on the class (each GraphModule has one of its own): what
    is in the instance's dict is pickled, and is part of that key.
    """

    _stator_runner: Any = None
    _stator_record: Any = None
    _stator_source: PythonCode | None = None
    _lineno_map: Any = None  # TorchDynamo asks for it, should it come upon the module
    _stator_calls: int | None = None  # of a region: how many calls it is counted for, all of the graph's for the first
    _stator_reason: Any = None  # (reason, [(file, line, function), ...], is a break); a GraphCompileReason when asked

    @property
    def compile_subgraph_reason(self) -> Any:
        """Why the graph ends where it does; None where nobody could have asked (backend "eager")."""
        own = type(self)
        if type(own._stator_reason) is tuple:
            from stator import _report

            own._stator_reason = _report.compile_reason(own._stator_reason)
        return own._stator_reason

    @compile_subgraph_reason.setter
    def compile_subgraph_reason(self, reason: Any) -> None:
        type(self)._stator_reason = reason

    def forward(self, *args: Any) -> Any:  # type: ignore[override]
        return type(self)._stator_runner(*args)

    def __getattr__(self, name: str) -> Any:
        if name != "_graph":
            return super().__getattr__(name)
        # Nodes are made when somebody reads them; from then on they lie where torch has them.
        graph = self.__dict__["_graph"] = _core.fx_graph(self._stator_record)
        graph.owning_module = self
        if self._stator_record.sources is not None:
            _set_sources(graph, self._stator_record.sources)
        return graph

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        self._graph  # noqa: B018 - it is copied with the instance's dict
        return super().__deepcopy__(memo)

    @classmethod
    def _needs_recompile(cls) -> bool:
        return cls.forward is CapturedModule.forward or super()._needs_recompile()

    @classmethod
    def recompile(cls) -> None:  # type: ignore[override]
        cls._stator_source = None
        super().recompile()

    def _real_recompile(self) -> PythonCode:
        if fx_config.enrich_profiler_metadata or self._modules:
            return super()._real_recompile()
        source = self._graph.python_code(root_module="self")
        type(self)._stator_source = source
        self.__dict__.update(_code=source.src, _lineno_map=source._lineno_map, _prologue_start=source._prologue_start)
        return source

    def real_recompile(self) -> None:
        if self._needs_recompile():
            type(self)._stator_source = GraphModule.recompile(self)

    @property
    def code(self) -> str:
        if type(self)._stator_source is None:
            self._real_recompile()
        return self._code

    def __str__(self) -> str:
        return self.code and GraphModule.__str__(self)


# The records of functions that a graph calls, which are modules of their own.
_function_records: weakref.WeakKeyDictionary[torch.nn.Module, Any] = weakref.WeakKeyDictionary()


def make_function(graph: Graph, attributes: dict[str, Any] | None, record: Any, name: str) -> GraphModule:
    """A function that a graph calls: a higher-order operator's body."""
    module: Any = _LazyGraphModule(attributes or {}, graph)
    # torch's own prints a line of the made source where a call raises: eager has no such source.
    type(module)._wrapped_call = staticmethod(torch.nn.Module.__call__)
    module._stator_name = name
    _function_records[module] = record
    return module


def note_call(module: GraphModule, name: str, target: Any) -> None:
    """A graph calls the function so: part of the source_fn_stack of all that is in it. Transforms of torch.func leave
    no such trace."""
    if not isinstance(target, torch._ops.HigherOrderOperator):
        return
    for function in module.modules():
        if function in _function_records:
            _function_records[function].outer_calls.insert(0, (name, target))


def make_module(
    graph: Graph | None, attributes: dict[str, Any] | None, record: Any, runner: Callable[..., Any]
) -> CapturedModule:
    """graph None: to be made when it is read."""
    module = CapturedModule.__new__(CapturedModule)
    # With an empty graph, so that torch sets all that a GraphModule has; the real one needs no walk over its nodes.
    GraphModule.__init__(module, {}, Graph())
    own = type(module)
    own._stator_runner = runner
    own._stator_record = record
    own.forward = CapturedModule.forward  # type: ignore[method-assign]
    if graph is None:
        del module.__dict__["_graph"]
    else:
        module.__dict__["_graph"] = graph
        graph.owning_module = module
    for name, value in (attributes or {}).items():
        if isinstance(value, torch.nn.Module):
            module._modules[name] = value
        elif isinstance(value, torch.nn.Parameter):
            module._parameters[name] = value
        else:
            module._buffers[name] = value
    return module


# ---- how targets and types are written in source, called from graph/fx_source.cpp


def source_start(graph: Graph) -> tuple[Any, ...] | None:
    codegen = graph._codegen
    plain = type(codegen) is CodeGen and codegen._body_transformer is None and codegen._func_name == "forward"
    if not plain or any(name.startswith("FX_GRAPH_SHOW") for name in os.environ):
        return None
    return torch.fx.Node, _illegal_names, {name: known.obj for name, known in _custom_builtins.items()}


def source_type(kind: Any) -> str | None:
    return (
        _get_qualified_name(kind)
        if isinstance(kind, type) and kind is not torch.device and _is_from_torch(kind)
        else None
    )


def source_target(target: Any) -> tuple[int, str, bool] | None:
    name = getattr(target, "__name__", "")
    if getattr(target, "__module__", "") == "_operator":
        if name in magic_methods:
            return 0, magic_methods[name], False
        if name in inplace_methods:
            return 1, inplace_methods[name], False
    if name == "<lambda>":
        return None
    qualified = _get_qualified_name(target)
    from_torch = _is_from_torch(target)
    # Builtins keep their names, which no value may have.
    return (2, qualified, not from_torch) if from_torch or "." in qualified else None


class _KeywordCall:
    """A function that calls `target` (a function, a method's name, or None: its first argument); its last arguments are
    those of `names`."""

    def __init__(self, target: Any, names: tuple[str, ...]):
        self.target, self.names = target, names
        self.__name__ = self.__qualname__ = target if isinstance(target, str) else getattr(target, "__name__", "call")
        self.__module__ = __name__

    def __call__(self, *args: Any) -> Any:
        rest, values = list(args[: -len(self.names)]), args[-len(self.names) :]
        function = self.target
        if function is None:
            function = rest.pop(0)
        elif isinstance(function, str):
            function = getattr(rest.pop(0), function)
        return function(*rest, **dict(zip(self.names, values, strict=True)))

    def __reduce__(self) -> Any:
        return keyword_call, (self.target, self.names)


@functools.lru_cache
def keyword_call(target: Any, names: tuple[str, ...]) -> _KeywordCall:
    """For calls whose keyword arguments Python's text cannot name, such as `from`."""
    return _KeywordCall(target, names)


def random_between(
    tensor: torch.Tensor, start: int, end: int | None = None, *, generator: torch.Generator | None = None
) -> torch.Tensor:
    """Tensor.random_(start, end). AOTAutograd would put the overload `aten.random.from` into the text of its graph,
    which is no Python: it gets the same draws of the same numbers by other operations."""
    if type(tensor) is torch.Tensor and torch._C._len_torch_dispatch_stack() == 0:
        return tensor.random_(start, end, generator=generator)
    exact = 2 ** _DIGITS.get(tensor.dtype, 62)
    if end is None:
        last = exact if tensor.dtype in _DIGITS else 1 if tensor.dtype is torch.bool else torch.iinfo(tensor.dtype).max
        end = last + 1
    if not -exact <= start < end <= exact + 1 or end - start >= 2**63:
        return tensor.random_(start, end, generator=generator)  # raises, or rounds in its own way
    numbers = torch.empty_like(tensor, dtype=torch.int64, requires_grad=False)
    return tensor.copy_(numbers.random_(end - start, generator=generator) + start)


_DIGITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


# ---- calling a backend


def eager(module: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Runs the captured graph as it is."""
    return module.forward


def sources_of(record: Any) -> list[InputSource]:
    return [InputSource(expression, i) for i, (expression, _) in enumerate(record.inputs)]


class Context(TracingContext):
    """The context of one call of a backend. Its fake mode, and what is known of the inputs, are made when somebody asks
    for them: a backend that runs the graph as it is never does."""

    def __init__(self, module: CapturedModule) -> None:
        self.record = module._stator_record
        self.functions = [_function_records[function] for function in module.modules() if function in _function_records]
        for function in self.functions:
            # Whose mode is made when somebody asks for it. Weak, since the graph around a function holds it.
            function.fake_mode = weakref.ref(module)
        self._mode: Any = None
        self._open = True  # False while it is being made, and when the backend is done
        super().__init__(None)
        self._contexts: Any = None

    def close(self) -> None:
        self._open = False
        if self._mode is not None:
            self._mode.__dict__.pop("_stator_inputs", None)

    @property
    def fake_mode(self) -> Any:
        if self._mode is None and self._open:
            self._make()
        return self._mode

    @fake_mode.setter
    def fake_mode(self, mode: Any) -> None:
        self._mode = mode

    @property
    def tensor_to_context(self) -> Any:
        if self._contexts is None and self._open:
            self._make()
        return self._contexts

    @tensor_to_context.setter
    def tensor_to_context(self, contexts: Any) -> None:
        self._contexts = contexts

    def _make(self) -> None:
        from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

        from stator import _node_meta

        record = self.record
        self._open = False
        self._contexts = WeakTensorKeyDictionary()
        if record.symbols is None:
            record.fake_mode = FakeTensorMode(shape_env=ShapeEnv())
        else:
            from stator import _symbols

            for example, symbolic in _symbols.make_mode(record, record.sources):
                self._contexts[example] = symbolic
        self._mode = record.fake_mode
        for function in self.functions:
            function.fake_mode = record.fake_mode
        _node_meta.fake_plain_inputs(record)
        for example, source in zip(record.examples, record.sources, strict=True):
            if isinstance(example, torch.Tensor) and example not in self._contexts:
                self._contexts[example] = _node_meta.input_context(example, source, DimDynamic.STATIC)
        self._open = True


def _set_sources(graph: Graph, sources: list[InputSource]) -> None:
    for node, source in zip(graph.find_nodes(op="placeholder", sort=True), sources, strict=True):
        node.__dict__["_dynamo_source"] = source


def prepare(module: CapturedModule) -> Context:
    """What AOTAutograd and inductor read of a module beyond its nodes."""
    record = module._stator_record
    record.sources = sources_of(record)
    if "_graph" in module.__dict__:
        _set_sources(module._graph, record.sources)
    # Parameters and buffers of specialised modules are inputs of what AOTAutograd makes, but none of the graph's: they
    # have no position.
    owned = itertools.chain(
        module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)
    )
    sources = {name: InputSource(name, -1) for name, _ in owned}
    module.__dict__.update(_param_name_to_source=sources, _source_to_user_stacks={})
    return Context(module)


def _share_mode(module: CapturedModule) -> None:
    """The functions that a graph with symbols calls have its symbols."""
    from stator import _node_meta

    for function in module.modules():
        if function in _function_records:
            _function_records[function].fake_mode = _node_meta.mode_of(module._stator_record)


def _profiled() -> Any:
    """Profilers show the call of the backend under TorchDynamo's name for it."""
    if not torch.autograd._profiler_enabled():
        return contextlib.nullcontext()
    return torch.autograd.profiler.record_function("OutputGraph.call_user_compiler (dynamo_timed)")


def _guards(context: TracingContext) -> list[tuple[int, list[int], list[int]]]:
    """The relations between inputs that AOTAutograd relied on, as graph/fx.h's BackendGuard."""
    found: list[tuple[int, list[int], list[int]]] = []
    guard: Any
    for guard in context.guards_context.aotautograd_guards:
        if hasattr(guard, "input_source_a"):
            if min(guard.input_source_a.position, guard.input_source_b.position) < 0:
                continue  # one of the two belongs to the graph, and is guarded by its identity
            found.append((0, [guard.input_source_a.position, guard.input_source_b.position], []))
        else:
            overlapping = [source.position for source in guard.overlapping_sources if source.position >= 0]
            apart = [source.position for source in guard.non_overlapping_sources if source.position >= 0]
            found.append((1, overlapping, apart))
    return found


def _title(module: CapturedModule) -> str:
    """Whose graph it is, for people."""
    stack = module.compile_subgraph_reason.user_stack if module._stator_reason is not None else []
    return f"{stack[0].name} ({os.path.basename(stack[0].filename)}:{stack[0].lineno})" if stack else ""


class _LazyNode(SymNode):
    """A symbol as a backend gets it among its example inputs. Becomes the real SymNode, with its ShapeEnv, at the first
    read of anything that belongs to one: all that one has stands in its dict."""

    def __init__(self, maker: str, *args: Any) -> None:
        self.__dict__["_stator_make"] = maker, args  # a function of _node_meta, which is loaded when it is needed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from stator import _node_meta

        maker, args = self.__dict__["_stator_make"]
        real = getattr(_node_meta, maker)(*args).node
        self.__dict__.clear()
        self.__dict__.update(real.__dict__)
        self.__class__ = SymNode  # type: ignore[assignment]
        return getattr(self, name)


def _example(record: Any, position: int, value: Any, shape: Any) -> Any:
    """The input at this position as a backend gets it: a symbol for a number that is none, otherwise the value."""
    if isinstance(shape, str):
        return torch.SymInt(_LazyNode("symbolic_value", record, shape))
    if type(value) is float:
        return torch.SymFloat(_LazyNode("symbolic_float", record, position, value))
    return value


@contextlib.contextmanager
def handed_over(module: CapturedModule, context: Context) -> Iterator[int]:
    """Around the call of a backend: the graph's ids, torch's contexts, and its state as it was behind the call. Gives
    the graph's number."""
    number, compile_id = next(_logs.compile_ids), _compile_ids.current()
    module.meta.update(
        dynamo_flat_name_to_original_fqn={}, dynamo_compile_id=compile_id, backend_id=f"__compiled_fn_{number}"
    )
    no_hooks = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    with tracing(context), compile_context(CompileContext(compile_id)), _use_lazy_graph_module(True):
        try:
            yield number
        finally:
            context.close()
            # The backend may have run the graph, which ends in other states.
            torch._C._set_grad_enabled(grad)
            if torch.get_default_dtype() is not dtype:
                torch.set_default_dtype(dtype)
            if no_hooks != torch._C._autograd._saved_tensors_hooks_get_disabled_error_message():
                if no_hooks is None:
                    torch._C._autograd._saved_tensors_hooks_enable()
                else:
                    torch._C._autograd._saved_tensors_hooks_disable(no_hooks)


def compile_graph(module: CapturedModule, backend: Callable[..., Any], disk_key: str = "") -> tuple[Any, ...]:
    """Calls the backend as TorchDynamo would. Returns its callable, the guards and conditions that it asks for, and the
    graph's number. disk_key: where what it makes is kept on the disk, if it can be."""
    if backend is eager or getattr(backend, "is_eager", False):
        announce = getattr(backend, "announce", None)
        if announce is not None:
            if module._stator_record.symbols is not None:
                _share_mode(module)
            if _compile_ids.tracing():
                _compilations.note(**_trace_records.graph(module))
            _compilations.phase("backend_compile")
            announce(module)
            _compilations.phase("build_guards")
        return module._stator_runner, [], [], -1
    context = prepare(module)
    record = module._stator_record
    examples = record.examples
    if record.has_scalars:
        examples = [_example(record, position, example, shape)
                    for position, (example, shape) in enumerate(zip(examples, record.shapes, strict=True))]  # fmt: skip
    with handed_over(module, context) as number:
        for position in record.unseen:
            examples[position] = record.input_fake(position)
        if record.floats:
            from stator import _node_meta

            _node_meta.note_floats(record)
        if _compile_ids.tracing():
            _compilations.note(**_trace_records.graph(module))
        name = getattr(backend, "compiler_name", type(backend).__name__)
        _log.info("graph %d goes to the backend %s", number, name)
        start = time.monotonic()
        _compilations.phase("backend_compile")
        with _profiled():
            compiled = backend(module, examples)
        seconds = time.monotonic() - start
        _compilations.phase("build_guards")
        _log.info("the backend %s has compiled graph %d in %.3f s", name, number, seconds)
        _compilations.took("stator: backend", seconds)
    if not callable(compiled):
        raise TypeError(f"the backend returned {type(compiled).__name__}, which cannot be called")
    symbols = getattr(record.fake_mode, "_stator_symbols", None)
    conditions = [] if symbols is None else symbols.new_conditions()
    guards = _guards(context)
    if disk_key and config.cache:
        from stator import _disk_write

        _disk_write.keep(disk_key, compiled, guards, conditions, context, _title(module))
    return compiled, guards, conditions, number
