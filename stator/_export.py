"""export(f)(*args): one graph of the whole call as a module with the call's own signature, in the manner of
torch._dynamo.export.

The call is captured whole and its graph run once on fakes, so that what comes out is known by what it is and nothing of
the program's is computed or changed. The module is made in three steps: the graph with tensors of the arguments as its
only inputs, the same over ATen's operators if that is asked for, and the signature around it.
"""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch._guards import GuardSource, TracingContext
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo

from stator import config, exc
from stator._guard_filter import Guard

if TYPE_CHECKING:
    from stator._export_sizes import Sizes

_CONSTANTS = (int, float, bool, str, bytes, complex, type(None), type(Ellipsis), torch.Size, torch.device, torch.dtype,
              torch.layout, torch.memory_format, type(range(0)), slice)  # fmt: skip
_VALUES = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, torch.ScriptObject, *_CONSTANTS)
_FRAME = re.compile(r'^  File "(.*)", line (\d+)', re.MULTILINE)
_MODULE_PART = re.compile(r"\._(?:modules|parameters|buffers)\['([^']*)'\]")


class ExportResult(NamedTuple):
    graph_module: torch.fx.GraphModule
    guards: set[Any]


class _Seen:
    """A backend that keeps its graph, and runs it on fakes."""

    exports = True

    def __init__(self, sizes: Sizes, check: Callable[[], Any]) -> None:
        self.sizes = sizes
        self.check = check
        self.module: torch.fx.GraphModule | None = None
        self.violation: Exception | None = None
        self.inputs: tuple[Any, ...] = ()
        self.outputs: tuple[Any, ...] = ()

    def __call__(self, module: Any, examples: Any) -> Callable[..., Any]:
        if self.module is not None:
            raise AssertionError("export: the call is captured in more than one graph")
        self.module = module
        context: Any = TracingContext.get()
        context._open = False  # torch asks for its mode while this one is being made
        mode = self.sizes.start()
        self.sizes.bind(module._stator_record)
        context._mode, context._contexts = mode, self.sizes.contexts(module)
        self.violation = self.check()
        return self.run

    def fake(self, value: Any, position: int) -> Any:
        assert self.module is not None
        if isinstance(value, torch.Tensor):
            return self.sizes.fake_of(value)
        record: Any = self.module._stator_record
        shape = record.shapes[position]
        return self.sizes.mode._stator_symbols.value(shape) if isinstance(shape, str) else value

    def run(self, *inputs: Any) -> Any:
        from torch._dispatch.python import enable_python_dispatcher

        assert self.module is not None
        self.inputs = inputs
        fakes = [self.fake(value, i) for i, value in enumerate(inputs)]
        mode = self.sizes.mode
        with mode, enable_python_dispatcher(), mode.shape_env.ignore_fresh_unbacked_symbols():
            self.outputs = tuple(torch.fx.Interpreter(self.module).run(*fakes))
        return self.outputs


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
    _log_export_usage: bool = True,
    constraints: list[Any] | None = None,
    **extra_kwargs: Any,
) -> Any:
    """Captures `f` whole and returns a function of its arguments that gives (graph module, guards).

    Sizes of the arguments may be others later, but for those that the program compares or that are 0 or 1; `guards` has
    the conditions. `dynamic_shapes` says of each argument which (as for torch.export: Dim, Dim.AUTO, Dim.DYNAMIC,
    ranges, derived dims): a program that needs more than it says is an error with suggested fixes. With
    assume_static_by_default, or a tracing_mode other than "symbolic", no other size is open. What the program reads
    beside its arguments (parameters, globals, closures) is part of the module.
    """
    if (pre_dispatch or decomposition_table is not None) and not aten_graph:
        raise AssertionError("pre_dispatch and a decomposition_table are for aten_graph=True")
    static = assume_static_by_default or tracing_mode != "symbolic"

    def inner(*args: Any, **kwargs: Any) -> ExportResult:
        from stator import _compile, _export_sizes

        function = _compile.innermost(f)
        module = function if isinstance(function, torch.nn.Module) else None
        called = function.forward if module is not None and not _has_hooks(module) else _within_reach(function)
        signature = inspect.signature(module.forward if module is not None else function)
        leaves, in_spec = pytree.tree_flatten((args, kwargs))
        _check_values(leaves, "input")
        scope = _scope(called, signature, args, kwargs)
        sizes = _export_sizes.Sizes(_places(scope), scope, static, prefer_deferred_runtime_asserts_over_guards)
        seen = _Seen(sizes, lambda: sizes.check(module.forward if module is not None else function, dynamic_shapes,
                                                not disable_constraint_solver))  # fmt: skip
        guards: set[Any] = set()
        result = _call(called, args, kwargs, seen, guards,
                       sizes.asked(function, args, kwargs, dynamic_shapes, constraints), static, specialize_float)  # fmt: skip
        if seen.violation is not None:
            raise seen.violation
        if seen.module is not None and module is not None:
            _keep_meta(seen.module.graph, module)
        if seen.module is None and not same_signature:
            raise AssertionError("Failed to produce a graph: nothing is computed, and same_signature is False")
        plain = _Plain(seen, leaves, list(signature.parameters))
        if aten_graph:
            plain.to_aten(decomposition_table, pre_dispatch)
        guards -= {guard for guard in guards if guard.source == GuardSource.SHAPE_ENV}
        guards.add(Guard("", "SHAPE_ENV", GuardSource.SHAPE_ENV, sizes.code))
        if not same_signature:
            return ExportResult(plain.as_module(), guards)
        made = _with_signature(plain, signature, leaves, in_spec, result)
        made.train(getattr(function, "training", True))
        return ExportResult(made, guards)

    if not extra_args and not extra_kwargs:
        return inner
    warnings.warn(
        "export(f, *args, **kwargs) is deprecated: keywords of f may be options of export. Use export(f)(*args, **kwargs)",
        FutureWarning,
        stacklevel=2,
    )
    return inner(*extra_args, **extra_kwargs)


def _keep_meta(graph: torch.fx.Graph, root: torch.nn.Module) -> None:
    """Of a module that torch.fx has generated: what the nodes of its graph say of the program they came from (modules,
    stack, tags) holds for what is captured from their lines."""
    generated = {}
    for module in root.modules():
        code = getattr(module.forward, "__code__", None)
        if isinstance(module, torch.fx.GraphModule) and code is not None and hasattr(module, "_lineno_map"):
            generated[code.co_filename] = module._lineno_map, code.co_firstlineno, list(module.graph.nodes)
    if not generated:
        return
    for node in graph.nodes:
        frames = _FRAME.findall(node.meta.get("stack_trace") or "")
        if not frames or frames[-1][0] not in generated:
            continue
        lines, first, nodes = generated[frames[-1][0]]
        number = lines.get(int(frames[-1][1]) - first)
        if number is not None:
            kept = nodes[number].meta
            fields = ("stack_trace", *torch.fx.proxy._COPY_META_FIELDS)
            node.meta.update({field: kept[field] for field in fields if field in kept})


def _call(
    called: Any,
    args: Any,
    kwargs: Any,
    seen: _Seen,
    guards: set[Any],
    marked: Any,
    static: bool,
    specialize_float: bool,
) -> Any:
    from torch._export.utils import _compiling_state_context

    from stator import _compile

    given = {"backend": seen, "fullgraph": True, "dynamic": not static, "options": {"regions": "off"}}
    compiled = _compile.compile_with(called, given, {"guard_export_fn": guards.update})
    # Forced breaks are for tests of what runs; there is no place in an export where one would be legal.
    changes = {"specialize_int": True, "specialize_float": specialize_float, "break_every": "0"}
    with config.patch(changes), marked, _compiling_state_context():
        return compiled(*args, **kwargs)


def _within_reach(function: Any) -> Any:
    """The function, or one that calls it: a decorator of torch's own (inference_mode and its like) is captured where it
    is called."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_filename.startswith(os.path.dirname(torch.__file__)):
        return function
    from stator.polyfills.functions import forwarding

    return forwarding(function)


def _has_hooks(module: torch.nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _check_values(leaves: list[Any], what: str) -> None:
    kind = exc.UserErrorType.INVALID_INPUT if what == "input" else exc.UserErrorType.INVALID_OUTPUT
    for leaf in leaves:
        if not isinstance(leaf, _VALUES) and type(leaf).__name__ != "_IntWrapper":
            raise exc.UserError(
                kind,
                f"It looks like one of the {what}s with type `{type(leaf)}` is not supported or pytree-flattenable. "
                f"Values of an exported graph's {what}s are tensors, numbers, strings and their like; a class of one's own is "
                "made known by torch.utils._pytree.register_pytree_node or torch.export.register_dataclass.",
            )


# ---- where the arguments are


def _scope(called: Any, signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    """The locals that the called function begins with, those of a wrapper beside those of what it wraps."""
    scope: dict[str, Any] = {"args": args, "kwargs": kwargs}
    owner = getattr(called, "__self__", None)
    if owner is not None:
        scope["self"] = owner
    for one in (signature, inspect.signature(called, follow_wrapped=False)):
        try:
            scope.update(one.bind(*args, **kwargs).arguments)
        except TypeError:
            continue
    return scope


def _places(scope: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """The tensors in the locals with the expressions that reach them, each once."""
    found: dict[int, tuple[str, torch.Tensor]] = {}

    def look(expression: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            found.setdefault(id(value), (expression, value))
            return
        leaves, _ = pytree.tree_flatten_with_path(value)
        for path, leaf in leaves:
            if path and isinstance(leaf, torch.Tensor):
                steps = "".join(f".{key.name}" if isinstance(key, pytree.GetAttrKey) else str(key) for key in path)
                found.setdefault(id(leaf), (expression + steps, leaf))

    for name in sorted(scope, key=lambda name: name in ("args", "kwargs")):
        if name != "self":
            look(f"L[{name!r}]", scope[name])
    return list(found.values())


def _names(signature: inspect.Signature, args: Any, kwargs: dict[str, Any]) -> list[str]:
    """The arguments as the signature calls them; those of *args by number."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = signature.parameters.values()
    named = [one.name for one in parameters if one.kind in kinds][: len(args)]
    rest = [one.name for one in parameters if one.kind is inspect.Parameter.VAR_POSITIONAL]
    return [*named, *(f"{rest[0]}_{i}" for i in range(len(args) - len(named))), *kwargs]


# ---- the graph with arguments as its only inputs


class _Plain:
    """A graph whose placeholders are tensors of the arguments; what else it takes are attributes, and sizes are read
    off the tensors."""

    def __init__(self, seen: _Seen, leaves: list[Any], names: list[str]) -> None:
        self.seen = seen
        self.sizes = seen.sizes
        self.leaves = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.own = {id(leaf) for leaf in self.leaves}
        self.root = torch.nn.Module()
        self.graph = torch.fx.Graph()
        self.given: list[torch.Tensor] = []  # what the placeholders stand for
        self.placeholders: dict[int, torch.fx.Node] = {}
        self.attributes: dict[int, tuple[str, torch.Tensor]] = {}
        self.names: dict[str, str] = {}  # of attributes: where a module has them
        self.outputs: list[Any] = []
        self.values = seen.outputs
        self._build(names, leaves)

    def _build(self, names: list[str], leaves: list[Any]) -> None:
        module = self.seen.module
        if module is None:
            self._empty(names, leaves)
            return
        record: Any = module._stator_record  # type: ignore[attr-defined]
        inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        owners: dict[torch.fx.Node, Any] = {}
        used = {node: bool(node.users) for node in inputs}
        for node, value, (expression, _) in zip(inputs, self.seen.inputs, record.inputs, strict=True):
            if isinstance(value, torch.Tensor) and id(value) in self.own:
                self._placeholder(expression, value, node)
            elif not isinstance(value, torch.Tensor) and used[node]:
                part = re.fullmatch(r"(.*)\.size\(\)\[(\d+)\]", expression)
                tensor = self.sizes.tensor_at(part[1]) if part else None
                if part is None or tensor is None:
                    raise exc.Unsupported(f"export: {expression} is a number that is no size of an argument")
                owners[node] = (tensor, int(part[2]))
                if id(tensor) not in self.placeholders:
                    self._placeholder(part[1], tensor, None)
        copies: dict[torch.fx.Node, torch.fx.Node] = {}
        places = dict(zip(inputs, zip(self.seen.inputs, record.inputs, strict=True), strict=True))

        def copied(node: torch.fx.Node, user: torch.fx.Node) -> torch.fx.Node:
            if node not in copies:
                value, (expression, _) = places[node]
                if node in owners:
                    tensor, dim = owners[node]
                    copies[node] = self._size(tensor, dim, node)
                elif id(value) in self.placeholders:
                    copies[node] = self.placeholders[id(value)]
                else:
                    copies[node] = self._attribute(expression, value, node, user)
            return copies[node]

        for node in module.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                self.outputs = [copied(one, node) if isinstance(one, torch.fx.Node) else one for one in node.args[0]]
                break
            for used_node in node.all_input_nodes:
                copied(used_node, node)
            if node.op == "get_attr":
                self._take(module, node.target)
            elif node.target is torch.sym_int and node.args[0] in owners:
                copies[node] = copies[node.args[0]]  # a size that is given out as it is
                continue
            copies[node] = self.graph.node_copy(node, lambda one: copies[one])
        self.graph.output(tuple(self.outputs))

    def _empty(self, names: list[str], leaves: list[Any]) -> None:
        """Nothing is computed: a graph that takes the tensors and gives nothing."""
        self.sizes.start()
        for name, leaf in zip(names, leaves, strict=False):
            if isinstance(leaf, torch.Tensor) and id(leaf) not in self.placeholders:
                self._placeholder(name, leaf, None)
        self.graph.output(())

    def _placeholder(self, expression: str, tensor: torch.Tensor, like: torch.fx.Node | None) -> torch.fx.Node:
        target = str(like.target) if like is not None else re.sub(r"[^A-Za-z0-9]+", "_", expression)
        node = self.placeholders[id(tensor)] = self.graph.placeholder(target)
        node.type = torch.Tensor if like is None else like.type
        node.name = like.name if like is not None else target.lower()
        node.meta.update(val=self.sizes.fakes[id(tensor)], example_value=self.sizes.fakes[id(tensor)])
        if like is not None:  # what the program wrote to a tensor that the graph uses
            node.meta["tensor_dict"] = {key: tensor.__dict__[key] for key in ("tag",) if key in tensor.__dict__}
        self.given.append(tensor)
        return node

    def _size(self, tensor: torch.Tensor, dim: int, like: torch.fx.Node) -> torch.fx.Node:
        node = self.graph.call_function(torch.ops.aten.sym_size.int, (self.placeholders[id(tensor)], dim))
        node.meta.update(
            val=self.sizes.fakes[id(tensor)].shape[dim], example_value=self.sizes.fakes[id(tensor)].shape[dim]
        )
        return node

    def _attribute(self, expression: str, value: Any, like: torch.fx.Node, user: torch.fx.Node) -> torch.fx.Node:
        if not isinstance(value, torch.Tensor):
            raise exc.Unsupported(
                f"export: a {type(value).__name__} ({expression}) is no constant, and cannot be owned"
            )
        if id(value) not in self.attributes:
            self.attributes[id(value)] = (self._own(expression, value), value)
        node = self.graph.get_attr(self.attributes[id(value)][0])
        for key in ("nn_module_stack", "stack_trace"):
            if key in user.meta:
                node.meta[key] = user.meta[key]
        node.meta["example_value"] = node.meta["val"] = self.sizes.fake_of(value)
        return node

    def _own(self, expression: str, value: torch.Tensor) -> str:
        """A name for it on the module, from where the program has it."""
        path = _MODULE_PART.sub(r".\1", expression)
        of_module = path.startswith("L['self'].") and "[" not in path[len("L['self']") :]
        name = re.sub(r"[^A-Za-z0-9]", "_", path)
        if not of_module:
            name = re.sub(r"^[LG]__", "", name).strip("_")
            name += "_0" if expression.startswith("G[") else ""
        name = name if name and not name[0].isdigit() else f"_{name}"
        base, count = name, 0
        while hasattr(self.root, name):
            count += 1
            name = f"{base}_{count}"
        if of_module:
            self.names[name] = path[len("L['self'].") :]
        if isinstance(value, torch.nn.Parameter):
            self.root.register_parameter(name, value)
        else:
            self.root.register_buffer(name, value, persistent=True)
        return name

    def _take(self, module: torch.nn.Module, target: Any) -> None:
        """An attribute of the captured module: a function that the graph calls, or a tensor."""
        if hasattr(self.root, target):
            return
        value = getattr(module, target)
        if isinstance(value, torch.nn.Module):
            self.root.add_module(target, value)
        elif isinstance(value, torch.nn.Parameter):
            self.root.register_parameter(target, value)
        else:
            self.root.register_buffer(target, value)

    def as_module(self) -> torch.fx.GraphModule:
        module = torch.fx.GraphModule(self.root, self.graph)
        module.meta["dynamo_flat_name_to_original_fqn"] = dict(self.names)
        return module

    def to_aten(self, decomposition_table: Any, pre_dispatch: bool) -> None:
        from torch._dispatch.python import enable_python_dispatcher
        from torch._subclasses.fake_tensor import unset_fake_temporarily
        from torch.fx.experimental.proxy_tensor import make_fx

        module = self.as_module()
        mode = self.sizes.mode

        def run(*args: Any) -> Any:
            with torch.fx.traceback.preserve_node_meta():
                return torch.fx.Interpreter(module).run(*args)

        fakes = [self.sizes.fakes[id(tensor)] for tensor in self.given]
        with unset_fake_temporarily(), enable_python_dispatcher(), mode, mode.shape_env.ignore_fresh_unbacked_symbols():
            traced = make_fx(
                run,
                decomposition_table=decomposition_table,
                tracing_mode="real",
                _allow_non_fake_inputs=True,
                pre_dispatch=pre_dispatch,
                _allow_fake_constant=False,
            )(*fakes)
        self.root, self.graph = traced, traced.graph
        nodes = [node for node in traced.graph.nodes if node.op == "placeholder"]
        self.placeholders = {id(tensor): node for tensor, node in zip(self.given, nodes, strict=True)}
        for node in traced.graph.find_nodes(op="get_attr"):
            value = getattr(traced, node.target)
            if isinstance(value, torch.Tensor):
                node.meta["val"] = mode.from_tensor(value, static_shapes=True)
        self.outputs = list(next(iter(traced.graph.find_nodes(op="output"))).args[0])


# ---- the signature


def _with_signature(
    plain: _Plain, signature: inspect.Signature, leaves: list[Any], in_spec: Any, result: Any
) -> torch.fx.GraphModule:
    results, out_spec = pytree.tree_flatten(result)
    _check_values(results, "output")
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    by_object: dict[int, torch.fx.Node] = {}
    for i, leaf in enumerate(leaves):
        node = graph.placeholder(f"arg{i}")
        before = plain.placeholders.get(id(leaf)) if isinstance(leaf, torch.Tensor) else None
        if isinstance(leaf, torch.Tensor):
            by_object.setdefault(id(leaf), node)
            node.meta["val"] = plain.sizes.fakes.get(id(leaf))
        else:
            node.meta["val"] = leaf
        if before is not None and before not in copies:
            copies[before] = node
            node.name = before.name
            node.meta.update(before.meta)
    for node in plain.graph.nodes:
        if node.op not in ("placeholder", "output"):
            copies[node] = graph.node_copy(node, lambda used: copies[used])
            copies[node].name = node.name
    for one, value in zip(plain.outputs, plain.values, strict=True):
        if isinstance(one, torch.fx.Node):
            by_object[id(value)] = copies[one]
    flat = [_result(plain, graph, by_object, value) for value in results]
    graph.output(flat)
    args, kwargs = pytree.tree_unflatten(leaves, in_spec)
    graph._codegen = _PyTreeCodeGen(_PyTreeInfo(_names(signature, args, kwargs), in_spec, out_spec))
    exported = torch.fx.GraphModule(plain.root, graph)
    exported.meta["dynamo_flat_name_to_original_fqn"] = dict(plain.names)
    return exported


def _result(plain: _Plain, graph: torch.fx.Graph, by_object: dict[int, torch.fx.Node], value: Any) -> Any:
    if isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
        if id(value) in by_object:
            return by_object[id(value)]
        if not isinstance(value, torch.Tensor):
            raise exc.Unsupported("export: a number of the result that the graph does not give")
        if id(value) not in plain.attributes:
            plain.attributes[id(value)] = (plain._own("constant", value), value)
        by_object[id(value)] = graph.get_attr(plain.attributes[id(value)][0])
        return by_object[id(value)]
    return value
