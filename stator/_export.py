"""export(f)(*args): one graph of the whole call as a module with the call's own signature, in the manner of torch._dynamo.export."""

from __future__ import annotations

import contextlib
import copy
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo

from stator import _marks, exc


class ExportResult(NamedTuple):
    graph_module: torch.fx.GraphModule
    guards: set[Any]


class _Seen:
    """A backend that keeps its graph, and the inputs and outputs of the one call."""

    def __init__(self) -> None:
        self.module: torch.fx.GraphModule | None = None
        self.inputs: tuple[Any, ...] = ()
        self.outputs: tuple[Any, ...] = ()

    def __call__(self, module: torch.fx.GraphModule, examples: Any) -> Callable[..., Any]:
        self.module = module

        def run(*inputs: Any) -> Any:
            self.inputs = inputs
            self.outputs = tuple(module(*inputs))
            return self.outputs

        return run


def export(
    f: Callable[..., Any],
    *extra_args: Any,
    aten_graph: bool = False,
    pre_dispatch: bool = False,
    decomposition_table: Any = None,
    tracing_mode: str = "symbolic",
    dynamic_shapes: Any = None,
    specialize_float: bool = True,
    assume_static_by_default: bool = False,
    same_signature: bool = True,
    disable_constraint_solver: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    **extra_kwargs: Any,
) -> Any:
    """Captures `f` whole and returns a function of its arguments that gives (graph module, guards).

    Sizes are those of the call, but for those that `dynamic_shapes` names (as for torch.export: by argument, each with its dimensions):
    a graph that does not name a size serves others too. What the program reads beside its arguments (parameters, globals, closures) is
    part of the module.
    """
    if (pre_dispatch or decomposition_table is not None) and not aten_graph:
        raise AssertionError("pre_dispatch and a decomposition_table are for aten_graph=True")

    def inner(*args: Any, **kwargs: Any) -> ExportResult:
        import stator

        seen = _Seen()
        function = f.forward if isinstance(f, torch.nn.Module) and not _has_hooks(f) else f
        with _marked(f, args, kwargs, dynamic_shapes) as dynamic:
            result = stator.compile(
                function, backend=seen, fullgraph=True, dynamic=dynamic, options={"regions": "off"}
            )(*args, **kwargs)
        module = seen.module
        if module is not None and aten_graph:
            from torch.fx.experimental.proxy_tensor import make_fx

            mode: Any = "real" if dynamic is False else "symbolic"
            make = make_fx(
                module.forward, tracing_mode=mode, decomposition_table=decomposition_table, pre_dispatch=pre_dispatch
            )
            module = make(*seen.inputs)
        return ExportResult(_with_signature(f, args, kwargs, module, seen, result), set())

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


_MARKS = (
    "_dynamo_dynamic_indices",
    "_dynamo_dynamic_range",
    "_dynamo_weak_dynamic_indices",
    "_dynamo_static_indices",
    "_has_dynamo_dim_marking",
)


@contextlib.contextmanager
def _marked(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> Iterator[bool | None]:
    """Marks the arguments' dimensions for the one call, and says what `dynamic` of stator.compile is to be."""
    if shapes is None:
        yield False
        return
    function = f.forward if isinstance(f, torch.nn.Module) else f
    given = inspect.signature(function).bind(*args, **kwargs).arguments
    if not isinstance(shapes, dict):
        shapes = dict(zip(given, shapes, strict=True))
    unknown = [name for name in shapes if name not in given]
    if unknown:
        raise exc.UserError(
            exc.UserErrorType.INVALID_INPUT,
            f"dynamic_shapes names {unknown}, which are no arguments of the call: {list(given)}",
        )
    tensors: dict[int, tuple[torch.Tensor, dict[str, Any]]] = {}
    try:
        for name, shape in shapes.items():
            _mark(name, given[name], shape, tensors)
        yield None
    finally:
        for tensor, before in tensors.values():
            for mark in _MARKS:
                if mark in before:
                    setattr(tensor, mark, before[mark])
                elif hasattr(tensor, mark):
                    delattr(tensor, mark)


def _mark(name: str, value: Any, shape: Any, tensors: dict[int, Any]) -> None:
    if shape is None:
        return
    if isinstance(value, torch.Tensor):
        if not isinstance(shape, (dict, list, tuple)):
            raise exc.UserError(
                exc.UserErrorType.INVALID_INPUT,
                f"dynamic_shapes of {name} should be a dict, list or tuple, not {shape!r}",
            )
        before = {mark: copy.copy(getattr(value, mark)) for mark in _MARKS if hasattr(value, mark)}
        tensors.setdefault(id(value), (value, before))
        for dim, size in shape.items() if isinstance(shape, dict) else enumerate(shape):
            _mark_dimension(value, dim, size)
        return
    if isinstance(value, dict) and isinstance(shape, dict):
        pairs = [(f"{name}[{key!r}]", value[key], part) for key, part in shape.items()]
    elif isinstance(value, (list, tuple)) and isinstance(shape, (list, tuple)):
        pairs = [(f"{name}[{i}]", item, part) for i, (item, part) in enumerate(zip(value, shape, strict=True))]
    else:
        raise exc.UserError(
            exc.UserErrorType.INVALID_INPUT, f"dynamic_shapes of {name} do not fit a {type(value).__name__}: {shape!r}"
        )
    for pair in pairs:
        _mark(*pair, tensors)


def _mark_dimension(tensor: torch.Tensor, dim: int, size: Any) -> None:
    hint = getattr(getattr(size, "type", None), "name", None)  # Dim.AUTO and its like
    if size is None or isinstance(size, int) or hint == "STATIC":
        return
    if hint == "AUTO":
        _marks.maybe_mark_dynamic(tensor, dim)
    elif hint == "DYNAMIC":
        _marks.mark_dynamic(tensor, dim, min=getattr(size, "min", None), max=getattr(size, "max", None))
    else:  # a Dim with a name; what its lower bound says of 0 and 1 a graph never relies on
        limits = {key: value for key in ("min", "max") if isinstance(value := getattr(size, key, None), int)}
        if limits.get("min", 0) < 2:
            limits.pop("min", None)
        if limits.get("max", 0) >= sys.maxsize - 1:
            limits.pop("max", None)
        _marks.mark_dynamic(tensor, dim, **limits)


def _size_node(
    graph: torch.fx.Graph, seen: _Seen, position: int, nodes: dict[int, torch.fx.Node], leaves: list[Any]
) -> torch.fx.Node:
    """A symbol that the graph takes, as the size of the tensor that it came from."""
    assert seen.module is not None
    fakes = [node.meta.get("example_value") for node in seen.module.graph.nodes if node.op == "placeholder"]
    symbol = fakes[position]
    for fake, value in zip(fakes, seen.inputs, strict=True):
        if not isinstance(symbol, torch.SymInt) or not isinstance(fake, torch.Tensor) or id(value) not in nodes:
            continue
        for dim, size in enumerate(fake.shape):
            if isinstance(size, torch.SymInt) and size.node.expr == symbol.node.expr:
                return graph.call_function(torch.ops.aten.sym_size.int, (nodes[id(value)], dim))
    # Of an argument that the graph asks for nothing else: the one that has such a size.
    value = seen.inputs[position]
    fitting = [
        (leaf, dim)
        for leaf in leaves
        if isinstance(leaf, torch.Tensor)
        for dim, size in enumerate(leaf.shape)
        if size == value
    ]
    if len(fitting) != 1:
        raise exc.Unsupported("export: a number that is no size of an argument, or of several")
    return graph.call_function(torch.ops.aten.sym_size.int, (nodes[id(fitting[0][0])], fitting[0][1]))


def _has_hooks(module: torch.nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _names(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The arguments as the signature calls them."""
    function = f.forward if isinstance(f, torch.nn.Module) else f
    parameters = list(inspect.signature(function).parameters.values())
    names = []
    for i in range(len(args)):
        own = parameters[i] if i < len(parameters) else parameters[-1]
        rest = own.kind is inspect.Parameter.VAR_POSITIONAL
        names.append(f"{own.name}_{i}" if rest or i >= len(parameters) else own.name)
    return names + list(kwargs)


def _with_signature(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    module: torch.fx.GraphModule | None,
    seen: _Seen,
    result: Any,
) -> torch.fx.GraphModule:
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    results, out_spec = pytree.tree_flatten(result)
    graph = torch.fx.Graph()
    root: torch.nn.Module = module if module is not None else torch.nn.Module()
    by_object: dict[int, torch.fx.Node] = {}
    for i, leaf in enumerate(leaves):
        node = graph.placeholder(f"arg{i}")
        if isinstance(leaf, torch.Tensor):
            node.meta["val"] = leaf
            by_object.setdefault(id(leaf), node)
    outputs: Any = ()
    if module is not None:
        copies: dict[torch.fx.Node, torch.fx.Node] = {}
        inputs = iter(enumerate(seen.inputs))
        for node in module.graph.nodes:
            if node.op == "placeholder":
                position, value = next(inputs)
                if isinstance(value, int):
                    copies[node] = _size_node(graph, seen, position, by_object, leaves)
                    continue
                if id(value) not in by_object:
                    by_object[id(value)] = _owned(root, graph, node.name, value)
                copies[node] = by_object[id(value)]
            elif node.op == "output":
                outputs = node.args[0]
            else:
                copies[node] = graph.node_copy(node, lambda used: copies[used])
        for node, value in zip(outputs, seen.outputs, strict=True):
            if isinstance(node, torch.fx.Node) and isinstance(value, (torch.Tensor, float)):
                by_object[id(value)] = copies[node]  # floats are new objects, ints may be shared with constants
    integral = any(isinstance(value, int) for value in seen.outputs)
    flat = []
    for value in results:
        if id(value) in by_object and isinstance(value, (torch.Tensor, float)):
            flat.append(by_object[id(value)])
        elif isinstance(value, int) and integral:
            raise exc.Unsupported("export: whether an int of the result is one that was read from a tensor")
        elif not isinstance(value, torch.Tensor):
            flat.append(value)
        else:
            flat.append(_owned(root, graph, "constant", value))
    graph.output(flat)
    graph._codegen = _PyTreeCodeGen(_PyTreeInfo(_names(f, args, kwargs), in_spec, out_spec))
    exported = torch.fx.GraphModule(root, graph)
    exported.train(getattr(f, "training", True))
    return exported


def _owned(root: torch.nn.Module, graph: torch.fx.Graph, name: str, value: Any) -> torch.fx.Node:
    """A tensor that is no argument, as an attribute of the module."""
    if not isinstance(value, torch.Tensor):
        raise AssertionError(f"{name}: a graph cannot own a {type(value).__name__}")
    while hasattr(root, name):
        name += "_"
    if isinstance(value, torch.nn.Parameter):
        root.register_parameter(name, value)
    else:
        root.register_buffer(name, value, persistent=False)
    return graph.get_attr(name)
