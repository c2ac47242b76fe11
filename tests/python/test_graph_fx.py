"""The captured graph: stand-ins, text, executor, conversion to torch.fx, backends."""

from __future__ import annotations

import collections
import copy
import dis
import gc
import inspect
import operator
import pickle
import re
import subprocess
import sys
import textwrap
import traceback
import types
import weakref
from typing import Any

import pytest
import torch

import stator
import stator._core as core
import stator._fx as fx
from stator import _node_meta
from tests.python import children
from tests.python.graph_describe import Describe, Value, facts


def code_of(x: Any, self: Any) -> Any:
    return x, self


CODE = code_of.__code__


def offset_of(function: Any, line: int) -> int:
    """Offset of the first instruction on the n-th line of the function's body."""
    return next(
        at for at, number in dis.findlinestarts(function.__code__) if number == function.__code__.co_firstlineno + line
    )


def small_graph(n: int = 3) -> tuple[Describe, Any]:
    d = Describe()
    value = d.input(torch.arange(6.0).reshape(2, 3), ("local", 0))
    for _ in range(n):
        value = d.call(torch.add, value, 1)
    return d, d.build(value)


def linear_graph(requires_grad: bool = False) -> tuple[Describe, Any, torch.nn.Linear, list[Value]]:
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 3)
    d = Describe()
    x = d.input(torch.randn(2, 4, requires_grad=requires_grad), ("local", 0))
    weight = d.input(layer.weight, ("local", 1), ("submodule", "linear"), ("parameter", "weight"))
    bias = d.input(layer.bias, ("local", 1), ("submodule", "linear"), ("parameter", "bias"))
    y = d.call(torch.nn.functional.linear, x, weight, bias)
    flat = d.method("view", y, -1)
    _, tail = d.call(torch.split, flat, [2, 4])
    largest = d.method("max", y, dim=1)
    out = d.call(torch.sin, d.call(operator.add, tail, 1))
    outputs = [out, largest[0]]
    return d, d.build(*outputs), layer, outputs


# ---- stand-ins

TOUCHES = {
    "add": lambda s: s + 1,
    "radd": lambda s: 1 + s,
    "iadd": lambda s: operator.iadd(s, 1),
    "pow": lambda s: s**2,
    "matmul": lambda s: s @ s,
    "neg": lambda s: -s,
    "invert": lambda s: ~s,
    "abs": abs,
    "divmod": lambda s: divmod(s, 2),
    "bool": bool,
    "int": int,
    "float": float,
    "index": operator.index,
    "eq": lambda s: s == 1,
    "lt": lambda s: s < 1,
    "len": len,
    "getitem": lambda s: s[0],
    "setitem": lambda s: operator.setitem(s, 0, 1),
    "contains": lambda s: 1 in s,
    "iter": iter,
    "next": next,
    "call": lambda s: s(),
    "getattr": lambda s: s.shape,
    "hasattr": lambda s: hasattr(s, "shape"),
    "setattr": lambda s: setattr(s, "a", 1),
    "str": str,
    "format": lambda s: f"{s}",
    "isinstance": lambda s: isinstance(s, torch.Tensor),
    "copy": copy.copy,
    "sum": lambda s: sum([s, s]),
    "sorted": lambda s: sorted([s, 1]),
    "in list": lambda s: s in [1, 2],
    "torch": torch.sin,
}


@pytest.mark.parametrize("name", TOUCHES)
def test_a_touched_stand_in_raises_and_leaves_the_flag(name: str) -> None:
    _, graph = small_graph()
    stand_in = core.graph_stand_in(graph, 1)
    core.graph_leak_flag()
    with pytest.raises(Exception):
        TOUCHES[name](stand_in)
    assert core.graph_leak_flag()
    assert not core.graph_leak_flag()


def test_a_stand_in_may_be_moved_and_hashed() -> None:
    _, graph = small_graph()
    one, two = core.graph_stand_in(graph, 1), core.graph_stand_in(graph, 1)
    core.graph_leak_flag()
    table = {one: 1, two: 2}
    assert table[one] == 1 and table[two] == 2 and len({one, two, one}) == 2
    assert [one][0] is one and one is not two
    assert not core.graph_leak_flag()
    assert "stand-in %1" in repr(one)
    assert core.graph_leak_flag()  # a program that prints it prints something else than eager


# ---- graph


def test_text_and_dead_nodes() -> None:
    d = Describe()
    x = d.input(torch.ones(2, 3), ("local", 0))
    d.input(torch.ones(2), ("local", 1))
    d.call(torch.sin, x)
    y = d.call(torch.add, x, 1, alpha=3)
    d.method("add_", x, 1, mutates=True)
    z = d.method("permute", y, (1, 0))
    part = d.call(operator.getitem, z, (slice(None, 2), Ellipsis))
    text = core.graph_text(d.build(part), CODE)
    lines = [line.split(" : ")[0] for line in text.splitlines()]
    assert lines[1:] == [
        "%1 = add(%0, 1, alpha=3)",
        "%2 = %0.add_(1)",
        "%3 = %1.permute((1, 0))",
        "%4 = getitem(%3, (:2, Ellipsis))",
        "return %4",
    ]
    assert lines[0].startswith("%0 = input ")


def test_truncate_forgets_nodes_inputs_and_outputs() -> None:
    nodes = [
        {"op": "input", "example": 1, "scalar_type": int, "name": "a"},
        {"op": "call_function", "target": abs, "args": (Value(0),), "scalar_type": int},
        {"op": "input", "example": 2, "scalar_type": int, "name": "b"},
        {"op": "call_function", "target": operator.add, "args": (Value(1), Value(2)), "scalar_type": int},
    ]
    graph = core.graph_build(Value, nodes, [3, 1])
    core.graph_truncate(graph, 2)
    core.graph_drop_dead(graph)
    assert core.graph_text(graph).splitlines() == ["%0 = input a : int", "%1 = abs(%0) : int", "return %1"]
    assert core.graph_runner(graph)(-4) == (4,)


# ---- executor

Pair = collections.namedtuple("Pair", "left right")


def run(nodes: list[dict[str, Any]], outputs: list[int], *inputs: Any) -> Any:
    graph = core.graph_build(Value, nodes, outputs)
    core.graph_drop_dead(graph)
    return core.graph_runner(graph)(*inputs)


def scalar_input(name: str) -> dict[str, Any]:
    return {"op": "input", "name": name, "scalar_type": int}


@pytest.mark.parametrize(
    "argument",
    [
        (Value(0), 2),
        [Value(0), [Value(0), (3,)]],
        {"k": Value(0), "c": [1]},
        slice(Value(0), None, 2),
        Pair(Value(0), [4]),
        torch.Size([1, 2]),
        [[], {}],
        collections.OrderedDict(b=1, a=2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_executor_builds_containers(argument: Any) -> None:
    seen = []

    def target(value: Any, *, extra: Any) -> Any:
        seen.append((value, extra))
        return value

    nodes = [
        scalar_input("a"),
        {
            "op": "call_function",
            "target": target,
            "args": (argument,),
            "kwargs": {"extra": argument},
            "scalar_type": int,
        },
    ]
    core_result = run(nodes, [1, 0], 7)[0]

    def fill(value: Any) -> Any:
        if type(value) is Value:
            return 7
        if isinstance(value, Pair):
            return Pair(*map(fill, value))
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(fill(value.start), fill(value.stop), fill(value.step))
        return type(value)(map(fill, value)) if isinstance(value, (tuple, list)) else value

    expected = fill(argument)
    assert core_result == expected == seen[0][1]
    assert seen[0][0] is core_result
    if not isinstance(argument, dict):
        assert type(core_result) is type(argument)


def test_executor_makes_mutable_arguments_anew() -> None:
    def target(items: list[int]) -> list[int]:
        items.append(1)
        return items

    nodes = [
        scalar_input("a"),
        {"op": "call_function", "target": target, "args": ([0],), "scalar_type": list, "mutates": True},
    ]
    graph = core.graph_build(Value, nodes, [1, 0])
    runner = core.graph_runner(graph)
    assert runner(1)[0] == [0, 1] and runner(1)[0] == [0, 1]


def test_executor_frees_values_at_their_last_use() -> None:
    class Tracked:
        pass

    alive: list[int] = []
    made: list[weakref.ref[Any]] = []

    def step(previous: Any, same: Any = None) -> Any:
        value = Tracked()
        made.append(weakref.ref(value))
        alive.append(sum(ref() is not None for ref in made))
        return value

    nodes: list[dict[str, Any]] = [scalar_input("a")]
    for i in range(50):
        nodes.append({"op": "call_function", "target": step, "args": (Value(i), Value(i)), "scalar_type": int})
    out = run(nodes, [50], 1)
    assert max(alive) == 2  # the argument and the result
    assert made[-1]() is out[0]
    del out
    assert all(ref() is None for ref in made)


def test_executor_keeps_references_balanced() -> None:
    d, graph = small_graph(5)
    runner = core.graph_runner(graph)
    argument = d.inputs[0]
    runner(argument)
    before = sys.getrefcount(argument)
    for _ in range(10):
        assert torch.equal(runner(argument)[0], argument + 5)
    assert sys.getrefcount(argument) == before

    def fail(_: Any) -> Any:
        raise ValueError("no")

    nodes = [scalar_input("a"), {"op": "call_function", "target": fail, "args": ([Value(0)],), "mutates": True}]
    runner = core.graph_runner(core.graph_build(Value, nodes, []))
    marker = object()
    before = sys.getrefcount(marker)
    for _ in range(10):
        with pytest.raises(ValueError):
            runner(marker)
    assert sys.getrefcount(marker) == before


def test_an_error_shows_the_users_lines() -> None:
    def outer() -> None:
        inner()

    def inner() -> None:
        torch.mm(1, 2)

    d = Describe(locations=[(outer.__code__, offset_of(outer, 1), -1), (inner.__code__, offset_of(inner, 1), 0)])
    x = d.input(torch.ones(2, 3), ("local", 0))
    y = d.input(torch.ones(3, 3), ("local", 1))
    z = d.call(torch.mm, x, y, location=1)
    runner = core.graph_runner(d.build(z))
    with pytest.raises(RuntimeError) as error:
        runner(torch.ones(2, 3), torch.ones(4, 4))
    frames = [(frame.name, frame.line) for frame in traceback.extract_tb(error.value.__traceback__)]
    assert frames[-2:] == [("outer", "inner()"), ("inner", "torch.mm(1, 2)")]
    with pytest.raises(TypeError, match="takes 2 inputs, 1"):
        runner(torch.ones(1))


def test_a_runner_may_be_entered_again() -> None:
    depth = [0]

    def again(value: int) -> int:
        depth[0] += 1
        return value if depth[0] > 3 else runner(value + 1)[0]

    nodes = [scalar_input("a"), {"op": "call_function", "target": again, "args": (Value(0),), "mutates": True}]
    runner = core.graph_runner(core.graph_build(Value, nodes, [1]))
    assert runner(0) == (3,)


# ---- torch.fx


def test_names_are_those_of_torch_fx() -> None:
    targets = [
        torch.add,
        torch.sum,
        torch.add,
        operator.add,
        torch.nn.functional.relu,
        torch.sum,
        torch.matmul,
        torch._C._nn.gelu,
    ]
    methods = [
        "view",
        "__getitem__",
        "add_1",
        "add",
        "max",
        "add_1",
        "to",
        "transpose_2",
        "type",
        "_camelCase",
        "add_10",
        "add",
    ]
    wanted = torch.fx.Graph()
    value = wanted.create_node("placeholder", "L_x_", type_expr=torch.Tensor)
    nodes: list[dict[str, Any]] = [
        {"op": "input", "source": [("local", 0)], "example": torch.ones(1), "facts": facts(torch.ones(1))}
    ]
    for op, target in [("call_function", t) for t in targets] + [("call_method", m) for m in methods]:
        nodes.append({"op": op, "target": target, "args": (Value(len(nodes) - 1),), "facts": facts(torch.ones(1))})
        value = wanted.create_node(op, target, (value,))
    wanted.output((value,))
    graph = core.graph_build(Value, nodes, [len(nodes) - 1])
    module = core.graph_to_fx(graph, CODE)
    assert [node.name for node in module.graph.nodes] == [node.name for node in wanted.nodes]
    assert str(module.graph) == str(wanted)
    # The name space goes on where ours ended.
    for each in (module.graph, wanted):
        last = next(iter(reversed(each.nodes)))
        with each.inserting_before(last):
            for target in (torch.add, torch.sum, torch.sin):
                each.call_function(target, (value if each is wanted else last.args[0][0],))
    assert [node.name for node in module.graph.nodes] == [node.name for node in wanted.nodes]


def test_placeholders_are_named_by_their_source() -> None:
    d = Describe()
    ones = torch.ones(2)
    d.input(ones, ("local", 0))
    d.input(ones, ("local", 1), ("submodule", "layers"), ("submodule", "0"), ("parameter", "weight"))
    d.input(ones, ("local", 1), ("attr", "scaleFactor"))
    d.input(ones, ("globals", 0), ("dict_item", "table"), ("list_item", 3))
    d.input(ones, ("local", 1), ("buffer", "mean"))
    total = d.call(torch.stack, [Value(i) for i in range(5)])
    module = core.graph_to_fx(d.build(total), CODE)
    assert {node.type for node in module.graph.find_nodes(op="placeholder")} == {torch.Tensor}
    assert [(node.target, node.name) for node in module.graph.find_nodes(op="placeholder")] == [
        ("L_x_", "l_x_"),
        ("L_self_modules_layers_modules_0_parameters_weight_", "l_self_modules_layers_modules_0_parameters_weight_"),
        ("L_self_scaleFactor", "l_self_scale_factor"),
        ("G_table_3_", "g_table_3_"),
        ("L_self_buffers_mean_", "l_self_buffers_mean_"),
    ]
    static = [
        "_dynamo_static_input_type" in node.meta["tensor_dict"] for node in module.graph.find_nodes(op="placeholder")
    ]
    assert static == [False, True, False, False, True]


def test_the_graph_is_sound_and_can_be_edited() -> None:
    d, graph, _, outputs = linear_graph()
    expected = [d.values[ref.index] for ref in outputs]
    module = core.graph_to_fx(graph, CODE)
    module.graph.lint()
    assert len(module.graph.nodes) == len(list(module.graph.nodes)) == 12
    assert [n.name for n in module.graph.find_nodes(op="call_function", target=operator.getitem)] == [
        "getitem",
        "getitem_1",
    ]
    assert [n.name for n in module.graph.find_nodes(op="call_method", target="view")] == ["view"]
    ordered = list(module.graph.nodes)
    assert ordered == sorted(ordered)

    def check(made: Any) -> None:
        for got, want in zip(made(*d.inputs), expected):
            torch.testing.assert_close(got, want)

    check(module)
    assert "torch.sin(add)" in module.code
    assert type(module).forward is fx.CapturedModule.forward  # still the executor
    torch.fx._lazy_graph_module._LazyGraphModule.force_recompile(module)
    assert list(inspect.signature(module.forward).parameters)[0] == "L_x_"
    check(module)
    for clone in (copy.deepcopy(module), copy.copy(module), pickle.loads(pickle.dumps(module))):
        check(clone)
        clone.graph.lint()
    assert "torch.sin(add)" in str(module) and "sin:" in module.print_readable(print_output=False)

    module = core.graph_to_fx(graph, CODE)
    (sin,) = module.graph.find_nodes(op="call_function", target=torch.sin)
    with module.graph.inserting_after(sin):
        cos = module.graph.call_function(torch.cos, (sin.args[0],))
    sin.replace_all_uses_with(cos)
    module.graph.erase_node(sin)
    module.graph.lint()
    check(module)  # as in torch.fx, an edit counts from recompile on
    module.recompile()
    got = module(*d.inputs)
    torch.testing.assert_close(got[0].sin(), torch.cos(torch.arcsin(expected[0])).sin(), atol=1, rtol=1)
    assert "torch.cos(add)" in module.code and not torch.equal(got[0], expected[0])


def own_function(value: torch.Tensor) -> torch.Tensor:
    return value + 1


def test_source_is_what_torch_fx_writes() -> None:
    def same(graph: torch.fx.Graph, by_us: bool = True) -> None:
        wanted = torch.fx.Graph.python_code(graph, "self")
        got = core.fx_source(graph, fx)
        assert (got is not None) == by_us
        for made in (graph.python_code("self"), fx.PythonCode(*got, 4) if by_us else wanted):
            assert made.src == wanted.src
            assert made.globals == wanted.globals
            assert made._lineno_map == wanted._lineno_map and made._prologue_start == wanted._prologue_start

    _, handle, _, _ = linear_graph()
    graph = core.graph_to_fx(handle, CODE).graph
    same(graph)
    x = next(iter(graph.nodes))
    last = graph.output_node()

    def add(op: str, target: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
        with graph.inserting_before(last):
            return graph.create_node(op, target, args, kwargs)

    add("call_function", operator.setitem, x, (slice(None, 2), ..., None), 1.5)
    add("call_function", operator.iadd, x, True)
    add("call_function", operator.neg, x)
    add("call_function", operator.getitem, x, (0, slice(1, None, -1)))
    add("call_function", torch.cat, [x, x], dim=-1, out=None)
    add("call_function", torch.full, (2, (3,), ()), float("inf"), dtype=torch.bfloat16, device=torch.device("cpu", 0))
    add("call_function", own_function, x)
    add("call_function", torch.ops.aten.add.Tensor, x, 1 + 2j)
    add("call_function", torch.nn.functional.scaled_dot_product_attention, x, x, x, is_causal=True)
    add("call_function", torch.Tensor.add, x, b"bytes")
    add("call_method", "to", x, torch.strided, memory_format=torch.channels_last)
    add("call_method", "new_tensor", x, "it's\n")
    add("call_method", "own_function", x)
    add("call_function", own_function, x)
    same(graph)
    for node in list(graph.find_nodes(op="placeholder")):
        node.target = node.target.lower()
    same(graph)
    # These are left to torch.fx.
    odd = add("call_function", len, x)
    same(graph, by_us=False)
    graph.erase_node(odd)
    odd = add("call_function", torch.add, x, {"a": x})
    same(graph, by_us=False)
    graph.erase_node(odd)
    odd = add("call_function", torch.add, x, collections.namedtuple("Named", "a")(x))
    same(graph, by_us=False)
    graph.erase_node(odd)
    same(graph)


def test_fakes_of_inputs_are_those_of_the_mode() -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    base = torch.arange(12.0)
    leaf = torch.randn(2, 3, requires_grad=True)
    with_grad = torch.randn(2, requires_grad=True)
    with_grad.grad = torch.ones(2)
    tensors = [
        torch.randn(2, 3),
        torch.nn.Parameter(torch.randn(3)),
        leaf,
        leaf * 2,
        with_grad,
        base,
        base[2:6],
        base.view(3, 4).t(),
        torch.tensor(3),
        torch.randn(2, dtype=torch.complex64).conj(),
        torch.randn(3, 4).to_sparse(),
        torch.empty(0, 3, dtype=torch.int8),
    ]
    modes = [torch._subclasses.FakeTensorMode(shape_env=ShapeEnv()) for _ in range(2)]
    record = types.SimpleNamespace(fake_mode=modes[0], examples=tensors, symbols=None)
    _node_meta.fake_plain_inputs(record)
    held = record.fake_mode._stator_inputs
    assert [fake.shape for fake in held] == [(2, 3), (3,), (2, 3), (0, 3)]
    ours, theirs = ([mode.from_tensor(tensor, static_shapes=True) for tensor in tensors] for mode in modes)
    for tensor, left, right in zip(tensors, ours, theirs, strict=True):
        for attribute in ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf"):
            assert getattr(left, attribute) == getattr(right, attribute) == getattr(tensor, attribute)
        assert isinstance(left, torch.nn.Parameter) == isinstance(tensor, torch.nn.Parameter)
        assert torch._C._dispatch_keys(left) == torch._C._dispatch_keys(right)
        assert {*left.__dict__} == {*right.__dict__} and (left.grad is None) == (right.grad is None)
        if tensor.layout is torch.strided:
            assert left.stride() == tensor.stride() and left.is_conj() == tensor.is_conj()
    storages = [ours[i].untyped_storage()._cdata for i in (5, 6, 7)]
    assert len({*storages}) == 1
    # Those that were made are those that the mode gives; it has no other way to them.
    assert [fake for fake in ours if any(fake is one for one in held)] == held


def test_nodes_are_made_when_they_are_read() -> None:
    """Also when all that the capture was about is gone."""
    kept: list[Any] = []

    def backend(gm: Any, _: Any) -> Any:
        assert "_graph" not in gm.__dict__
        kept.append(gm)
        return gm.forward

    def program(module: Any, x: torch.Tensor, *, numbers: tuple[float, ...]) -> Any:
        for number in numbers:
            x = module(x) * number
        return x, x.shape[0]

    def run(reads: bool) -> tuple[Any, torch.Tensor]:
        stator.reset()
        module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3).eval())
        torch.nn.init.ones_(module[0].weight)
        torch.nn.init.ones_(module[0].bias)
        compiled = stator.compile(program, backend=backend, fullgraph=True)
        out = compiled(module, torch.ones(2, 3), numbers=(2.0, 3.0))
        assert torch.equal(out[0], program(module, torch.ones(2, 3), numbers=(2.0, 3.0))[0])
        gm = kept.pop()
        if reads:
            assert len(gm.graph.nodes) > 10
        return gm, out[0]

    early, out = run(True)
    late, _ = run(False)
    stator.reset()
    gc.collect()
    assert "_graph" not in late.__dict__
    inputs = [torch.ones(node.meta["example_value"].shape) for node in late.graph.find_nodes(op="placeholder")]
    assert [repr(node) for node in late.graph.nodes] == [repr(node) for node in early.graph.nodes]
    assert [node.type for node in late.graph.nodes] == [node.type for node in early.graph.nodes]
    assert late.code == early.code and late.graph.owning_module is late
    assert torch.equal(late(*inputs)[0], early(*inputs)[0])
    late.graph.lint()
    for change in (copy.deepcopy, copy.copy, lambda gm: pickle.loads(pickle.dumps(gm))):
        again, _ = run(False)
        assert torch.equal(change(again)(*inputs)[0], early(*inputs)[0])


def test_lazy_meta_is_a_dict() -> None:
    d, graph = small_graph()
    module = core.graph_to_fx(graph, CODE)
    node = list(module.graph.nodes)[1]

    def unmade() -> Any:
        return core.graph_to_fx(graph, CODE).graph.find_nodes(op="call_function", target=torch.add)[0].meta

    meta = unmade()
    assert isinstance(meta, dict) and "example_value" in meta and "exam" + "ple_value" in meta and "val" not in meta
    assert len(meta) == 2 and bool(meta)
    assert meta.get("val") is None and meta.get("val", 3) == 3
    with pytest.raises(KeyError):
        meta["val"]
    fake = meta["example_value"]
    assert fake.shape == (2, 3) and meta["example_value"] is fake and meta.get("example_value") is fake

    meta = unmade()
    twin = meta.copy()
    other = copy.copy(meta)
    assert twin["example_value"] is meta["example_value"] is other["example_value"]
    twin["extra"] = 1
    assert "extra" not in meta

    meta = unmade()
    meta["example_value"] = 5
    assert meta["example_value"] == 5 and len(meta) == 2
    del meta["source_fn_stack"]
    assert list(meta) == ["example_value"] and "source_fn_stack" not in meta

    for plain in (dict(unmade()), {**unmade()}, unmade() | {}, {} | unmade(), dict(unmade().items())):
        assert type(plain) in (dict, type(meta))
        assert isinstance(plain["example_value"], torch._subclasses.FakeTensor)
    target: dict[str, Any] = {}
    target.update(unmade())
    assert set(target) == {"example_value", "source_fn_stack"}
    meta = unmade()
    assert meta.pop("source_fn_stack") == [("add", torch.add)] and meta.pop("nothing", 1) == 1 and len(meta) == 1
    meta = unmade()
    assert meta.setdefault("source_fn_stack", 0) == [("add", torch.add)] and meta.setdefault("new", 2) == 2
    meta.clear()
    assert meta == {} and not meta
    meta = unmade()
    meta.pop("example_value")
    assert pickle.loads(pickle.dumps(meta)) == {"source_fn_stack": [("add", torch.add)]} == copy.deepcopy(meta)
    assert repr(meta) == repr({"source_fn_stack": [("add", torch.add)]})
    assert node.meta["example_value"].fake_mode is module._stator_record.fake_mode


def test_meta_of_nodes() -> None:
    class Net(torch.nn.Module):
        pass

    def outer() -> None:
        inner()

    def inner() -> None:
        pass

    linear = torch.nn.Linear
    d = Describe(
        locations=[
            (outer.__code__, offset_of(outer, 1), -1),
            (inner.__code__, offset_of(inner, 1), 0),
            (linear.forward.__code__, 0, 1),
        ],
        scopes=[("L['self']", Net, 0, -1), ("L['self'].layers.0", linear, 1, 0)],
    )
    x = d.input(torch.ones(2, 3), ("local", 0))
    y = d.call(torch.sin, x, location=2, scope=1)
    z = d.call(torch.sum, y, location=0, scope=0)
    module = core.graph_to_fx(d.build(z), CODE)
    sin = module.graph.find_nodes(op="call_function", target=torch.sin)[0]
    line = outer.__code__.co_firstlineno
    here = f'  File "{__file__}", line '
    # Frames of torch's own modules are left out.
    assert sin.stack_trace == f"{here}{line + 1}, in outer\n    inner()\n{here}{line + 4}, in inner\n    pass\n"
    assert list(sin.meta["nn_module_stack"].items()) == [
        ("L__self__", ("L['self']", Net)),
        ("L__self___layers_0@1", ("L['self'].layers.0", linear)),
    ]
    assert sin.meta["source_fn_stack"] == [("sin", linear)]
    total = module.graph.find_nodes(op="call_function", target=torch.sum)[0]
    assert total.meta["source_fn_stack"] == [("sum_1", torch.sum)]
    assert total.meta["nn_module_stack"] == {"L__self__": ("L['self']", Net)}
    assert "# File: " in module.print_readable(print_output=False)
    argument = module.graph.find_nodes(op="placeholder")[0].meta["grapharg"]
    assert argument.source.name == "L['x']" and argument.example is d.inputs[0]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn]
)
def test_example_values_have_the_facts(dtype: torch.dtype) -> None:
    value = torch.empty_strided((3, 0, 5), (5, 15, 1), dtype=dtype)
    d = Describe()
    x = d.input(value, ("local", 0))
    y = d.method("clone", x)
    module = core.graph_to_fx(d.build(y), CODE)
    for node in list(module.graph.nodes)[:2]:
        fake = node.meta["example_value"]
        want = d.values[0 if node.op == "placeholder" else y.index]
        assert (fake.shape, fake.stride(), fake.dtype, fake.device) == (
            want.shape,
            want.stride(),
            want.dtype,
            want.device,
        )


def backend_named(name: str) -> Any:
    if name == "eager":
        return fx.eager
    if name == "the module":
        return lambda module, inputs: module
    from torch._dynamo.backends.registry import lookup_backend

    return lookup_backend(name)


def torch_dynamo_graph(function: Any, *args: Any) -> torch.fx.GraphModule:
    graphs = []

    def backend(module: Any, _: Any) -> Any:
        graphs.append(module)
        return module.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True)(*args)
    return graphs[0]


def describe_fx(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """The same graph, by way of ours."""
    from torch._dynamo.source import AttrSource, DictGetItemSource, GetItemSource, LocalSource, NNModuleSource

    names: list[str] = []

    def steps(source: Any) -> list[tuple[str, Any]]:
        if isinstance(source, LocalSource):
            if source.local_name not in names:
                names.append(source.local_name)
            return [("local", names.index(source.local_name))]
        base = steps(source.base)
        if isinstance(source, NNModuleSource):
            return base
        if isinstance(source, (GetItemSource, DictGetItemSource)):
            kinds = {"_modules": "submodule", "_parameters": "parameter", "_buffers": "buffer"}
            if base[-1][0] == "attr" and base[-1][1] in kinds:
                return [*base[:-1], (kinds[base[-1][1]], source.index)]
            return [*base, ("list_item" if isinstance(source.index, int) else "dict_item", source.index)]
        return [*base, ("attr", source.member if isinstance(source, AttrSource) else source.attr)]

    nodes: list[dict[str, Any]] = []
    refs: dict[Any, Value] = {}
    outputs: list[int] = []
    for node in module.graph.nodes:
        if node.op == "output":
            outputs = [refs[value].index for value in node.args[0]]
            break
        example = node.meta.get("example_value")
        made: dict[str, Any] = {"op": node.op}
        if isinstance(example, torch.Tensor):
            made["facts"] = facts(example)
        if node.op == "placeholder":
            made.update(op="input", source=steps(node._dynamo_source), example=inputs[len(nodes)])
        else:
            args, kwargs = torch.fx.map_arg((tuple(node.args), dict(node.kwargs)), lambda used: refs[used])
            made.update(target=node.target, args=args, kwargs=dict(kwargs))
            base = re.sub(r"_\d+$", "", node.name)
            if base != module.graph._target_to_str(node.target):
                made["name"] = base
        refs[node] = Value(len(nodes))
        nodes.append(made)
    graph = core.graph_build(Value, nodes, outputs)
    scope: dict[str, Any] = {}
    exec(f"def f({', '.join(names)}): pass", scope)
    return graph, scope["f"].__code__


def test_conventions_are_those_of_torch_dynamo() -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)])
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x: torch.Tensor, pair: Any) -> Any:
            for layer in self.layers:
                x = layer(x) * self.scale
            a, b = x.chunk(2, dim=-1)
            y = torch.cat([a, b + pair[0]], 1)
            return *y.max(dim=-1), y.sum(), y.view(-1)[1:]

    block = Block()
    inputs = (torch.randn(3, 4), [torch.randn(3, 2)])
    wanted = torch_dynamo_graph(block, *inputs)
    examples = []
    for node in wanted.graph.find_nodes(op="placeholder"):
        place = {"L": {"self": block, "x": inputs[0], "pair": inputs[1]}}
        examples.append(eval(node._dynamo_source.name, place))
    graph, code = describe_fx(wanted, examples)
    module = core.graph_to_fx(graph, code)
    assert module.code == wanted.code
    for ours, theirs in zip(module.graph.nodes, wanted.graph.nodes):
        assert (ours.op, ours.name, ours.args, ours.kwargs) == (theirs.op, theirs.name, *map_names(module, theirs))
        if "tensor_dict" in theirs.meta:
            assert ours.meta["tensor_dict"] == theirs.meta["tensor_dict"]


def map_names(module: Any, node: Any) -> Any:
    by_name = {each.name: each for each in module.graph.nodes}
    return torch.fx.map_arg((node.args, node.kwargs), lambda used: by_name[used.name])


# ---- backends


@pytest.mark.parametrize("backend", ["eager", "the module", "aot_eager", "inductor"])
def test_backends_agree_with_eager(backend: str) -> None:
    d, graph, layer, outputs = linear_graph(requires_grad=True)
    expected = [d.values[ref.index] for ref in outputs]
    module = core.graph_to_fx(graph, CODE)
    compiled, guards = core.graph_compile(graph, module, backend_named(backend))
    assert guards == []
    got = compiled(*d.inputs)
    wrt = [d.inputs[0], *layer.parameters()]
    for left, right in zip(got, expected):
        torch.testing.assert_close(left, right)
    want = torch.autograd.grad(sum(value.sum() for value in expected), wrt)
    for left, right in zip(torch.autograd.grad(sum(value.sum() for value in got), wrt), want):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_inference_mutation_and_views(backend: str) -> None:
    with torch.no_grad():
        base = torch.arange(12.0).reshape(3, 4)
        d = Describe()
        x = d.input(base[1:], ("local", 0))
        d.inputs[0] = base.clone()[1:]
        d.method("add_", x, 1, mutates=True)
        y = d.call(torch.mul, x, 2)
        z = d.method("t", x)
        graph = d.build(y, z, x)
        module = core.graph_to_fx(graph, CODE)
        compiled, _ = core.graph_compile(graph, module, backend_named(backend))
        argument = torch.arange(12.0).reshape(3, 4)[1:]
        got = compiled(argument)
        assert torch.equal(argument, torch.arange(4.0, 12).reshape(2, 4) + 1)
        assert torch.equal(got[0], argument * 2) and torch.equal(got[1], argument.t())
        assert got[2].data_ptr() == argument.data_ptr() == got[1].data_ptr()


def test_static_inputs_reach_aot_autograd() -> None:
    from torch._dynamo.backends.common import aot_autograd

    seen = {}

    def compiler(module: Any, _: Any) -> Any:
        context = torch._guards.TracingContext.get()
        seen["static"] = context.fw_metadata.static_input_indices
        return module.forward

    d, graph, _, _ = linear_graph()
    module = core.graph_to_fx(graph, CODE)
    core.graph_compile(graph, module, aot_autograd(fw_compiler=compiler))
    assert seen["static"] == [1, 2]


def test_guards_of_aot_autograd_come_back() -> None:
    from torch._guards import DuplicateInputs, StorageOverlap, TracingContext

    def backend(module: Any, _: Any) -> Any:
        first, second, third = [node._dynamo_source for node in module.graph.find_nodes(op="placeholder")]
        found = TracingContext.get().guards_context.aotautograd_guards
        found += [DuplicateInputs(first, third), StorageOverlap([first, second], [third])]
        return module.forward

    d, graph, _, _ = linear_graph()
    module = core.graph_to_fx(graph, CODE)
    _, guards = core.graph_compile(graph, module, backend)
    assert guards == [("same", [0, 2], []), ("overlap", [0, 1], [2])]


def test_errors_of_a_backend_pass_through() -> None:
    def bad(module: Any, _: Any) -> Any:
        raise KeyError("mine")

    d, graph = small_graph()
    module = core.graph_to_fx(graph, CODE)
    with pytest.raises(KeyError, match="mine"):
        core.graph_compile(graph, module, bad)
    with pytest.raises(TypeError, match="NoneType"):
        core.graph_compile(graph, module, lambda module, inputs: None)


def test_a_backend_gets_what_torch_compile_gives() -> None:
    seen: dict[str, Any] = {}

    def backend(module: Any, inputs: Any) -> Any:
        seen["inputs"] = inputs
        seen["context"] = torch._guards.TracingContext.get()
        seen["id"] = torch._guards.CompileContext.current_compile_id()
        seen["fake"] = module.graph.find_nodes(op="placeholder")[0].meta["example_value"]
        return module

    d, graph = small_graph()
    module = core.graph_to_fx(graph, CODE)
    compiled, _ = core.graph_compile(graph, module, backend)
    assert seen["inputs"][0] is d.inputs[0] and isinstance(module, torch.fx.GraphModule)
    assert module.meta["dynamo_compile_id"] == seen["id"] is not None
    assert seen["fake"].fake_mode is seen["context"].fake_mode
    assert torch.equal(compiled(d.inputs[0])[0], d.inputs[0] + 3)
    assert torch._guards.TracingContext.try_get() is None


@pytest.mark.parametrize("backend", ["eager", "the module", "aot_eager", "inductor"])
def test_compiled_code_keeps_no_tensor_alive(backend: str) -> None:
    d, graph, layer, _ = linear_graph()
    module = core.graph_to_fx(graph, CODE)
    compiled, _ = core.graph_compile(graph, module, backend_named(backend))
    compiled(*d.inputs)
    watched = [weakref.ref(value) for value in d.inputs]
    del d, layer, module
    gc.collect()
    assert [ref() is None for ref in watched] == [True] * 3
    assert compiled is not None and graph is not None


def python(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=children.environment(**environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_eager_needs_no_torch_dynamo() -> None:
    out = python(
        """
        import sys, torch
        import stator._core as core
        import tests.python.test_graph_fx as t
        for name in [n for n in sys.modules if n.startswith(("torch._dynamo", "sympy"))]: print(name)
        d, graph = t.small_graph()
        module = core.graph_to_fx(graph, t.CODE)
        compiled, _ = core.graph_compile(graph, module, t.backend_named("eager"))
        assert torch.equal(compiled(*d.inputs)[0], d.inputs[0] + 3)
        assert torch.equal(module(*d.inputs)[0], d.inputs[0] + 3)
        print([n for n in sys.modules if n.startswith(("torch._dynamo", "torch._functorch.aot", "sympy"))])
        """
    )
    assert out.strip() == "[]"


def test_caches_of_inductor_hit_in_a_second_process(tmp_path: Any) -> None:
    script = """
        import torch
        import stator._core as core
        import tests.python.test_graph_fx as t
        d, graph, layer, outputs = t.linear_graph(requires_grad=True)
        module = core.graph_to_fx(graph, t.CODE)
        compiled, _ = core.graph_compile(graph, module, t.backend_named("inductor"))
        sum(value.sum() for value in compiled(*d.inputs)).backward()
        from torch._dynamo.utils import counters
        print(counters["aot_autograd"]["autograd_cache_hit"], counters["inductor"]["fxgraph_cache_hit"] > 0)
    """
    assert python(script, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).strip() == "0 False"
    assert python(script, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).strip() == "1 True"


def test_every_symbol_of_a_tensor_is_an_input_too():
    """Inductor's cache says in terms of the inputs that are ints what an entry relies on."""
    seen = []

    def backend(gm, examples):
        values = [node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")]
        ints = {value.node.expr for value in values if isinstance(value, torch.SymInt)}
        sizes = {
            size.node.expr
            for value in values
            if isinstance(value, torch.Tensor)
            for size in value.shape
            if isinstance(size, torch.SymInt)
        }
        seen.append((ints, sizes))
        return gm.forward

    def f(x, y):
        return x.reshape(-1) * x.shape[1], y.sin()

    stator.reset()
    compiled = stator.compile(f, backend=backend, dynamic=True)
    for rows in (3, 5):
        x, y = torch.randn(rows, 4, 6), torch.randn(rows + 1)
        assert all(torch.equal(a, b) for a, b in zip(compiled(x, y), f(x, y)))
    ((ints, sizes),) = seen
    assert len(sizes) == 4 and sizes <= ints


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_draws_between_two_numbers_reach_aotautograd(dtype):
    """The overload is called `from`, which is no name in the text of AOTAutograd's graph."""
    graphs = []

    def backend(gm, examples):
        graphs.append(gm)
        return torch._dynamo.lookup_backend("aot_eager")(gm, examples)

    def f(x, limits):
        return x.random_(**limits) * 2, x.random_(-3, 4)

    results = []
    for function in (f, stator.compile(f, backend=backend)):
        torch.manual_seed(5)
        x = torch.zeros(6, 4, dtype=dtype).t()[::2]
        results.append((*function(x, {"from": -100, "to": 100}), x, torch.get_rng_state()))
    assert len(graphs) == 1
    assert all(torch.equal(mine, eager) for eager, mine in zip(*results, strict=True))
