"""export(f)(*args): one graph of the whole call as a module with the call's own signature, in the manner of torch._dynamo.export."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo

from stator import exc


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

    Sizes are those of the call: a graph that does not name them serves others too. What the program reads beside its arguments
    (parameters, globals, closures) is part of the module.
    """
    if (pre_dispatch or decomposition_table is not None) and not aten_graph:
        raise AssertionError("pre_dispatch and a decomposition_table are for aten_graph=True")

    def inner(*args: Any, **kwargs: Any) -> ExportResult:
        import stator

        seen = _Seen()
        function = f.forward if isinstance(f, torch.nn.Module) and not _has_hooks(f) else f
        result = stator.compile(function, backend=seen, fullgraph=True, dynamic=False, options={"regions": "off"})(
            *args, **kwargs
        )
        module = seen.module
        if module is not None and aten_graph:
            from torch.fx.experimental.proxy_tensor import make_fx

            make = make_fx(module.forward, decomposition_table=decomposition_table, pre_dispatch=pre_dispatch)
            module = make(*seen.inputs)
        return ExportResult(_with_signature(f, args, kwargs, module, seen, result), set())

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


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
        inputs = iter(seen.inputs)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                value = next(inputs)
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
