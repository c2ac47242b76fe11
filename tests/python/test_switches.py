"""Switches on functions, stances, explain and install: each against eager, and each with a look at what was
captured."""

import collections
import dataclasses
import operator
import subprocess
import sys

import pytest
import torch

import stator
from stator import exc

X = torch.arange(4.0)


@pytest.fixture
def graphs():
    """Targets of the graphs that are captured during the test."""
    seen = []
    with stator.on_graph(lambda gm: seen.append([_name(n.target) for n in gm.graph.nodes if n.op.startswith("call_")])):
        yield seen


def _name(target):
    return target if isinstance(target, str) else target.__name__


def compiled(fn, **arguments):
    return stator.compile(fn, backend="eager", isolate_recompiles=True, **arguments)


def check(fn, *args, **arguments):
    want, got = fn(*args), compiled(fn, **arguments)(*args)
    assert torch.equal(want, got)


def sines(x):
    return x.sin()


@stator.disable
def disabled(x):
    return sines(x) * 3


@stator.disable(recursive=False)
def disabled_alone(x):
    return sines(x) * 3


class Methods:
    @stator.disable
    def disabled(self, x):
        return x * 5

    @stator.compile(backend="eager")
    def compiled(self, x):
        return x * 7


def test_disable(graphs):
    check(lambda x: disabled(x + 1) + 1, X)
    assert graphs == [["add"], ["add"]]


def test_disable_not_recursive(graphs):
    check(lambda x: disabled_alone(x + 1) + 1, X)
    assert graphs == [["add"], ["sin"], ["add"]]


def test_disabled_and_compiled_methods(graphs):
    check(lambda x: Methods().disabled(x + 1) + 1, X)
    assert graphs == [["add"], ["add"]]
    graphs.clear()
    check(lambda x: Methods().compiled(x + 1) + 1, X, fullgraph=True)
    assert graphs == [["add", "mul", "add"], ["mul"]] or graphs == [["mul"], ["add", "mul", "add"]]


def test_what_torch_has_disabled_runs_outside(graphs):
    def marked(x):
        return sines(x)

    marked._torchdynamo_disable = marked._torchdynamo_disable_recursive = True
    check(lambda x: marked(x + 1) + 1, X)
    assert graphs == [["add"], ["add"]]


def test_compiled_inside_of_compiled(graphs):
    inner = compiled(sines)
    check(lambda x: inner(x) + stator.compile(sines, backend="eager")(x), X, fullgraph=True)
    assert ["sin", "sin", "add"] in graphs


def test_allow_in_graph(graphs):
    runs = []

    @stator.allow_in_graph
    def opaque(x):
        runs.append(type(x))
        return x.sin() + x.cos()

    f = compiled(lambda x: opaque(x + 1) * 2, fullgraph=True)
    assert torch.equal(f(X), opaque(X + 1) * 2)
    assert graphs == [["add", "opaque", "mul"]]
    before = len(runs)
    f(X)
    assert runs[before:] == [torch.Tensor]


def test_disallow_in_graph(graphs):
    stator.disallow_in_graph(torch.sub)
    try:
        check(lambda x: torch.sub(x + 1, 1) + 1, X)
        assert graphs == [["add"], ["add"]]
    finally:
        stator.allow_in_graph(torch.sub)
    graphs.clear()
    check(lambda x: torch.sub(x + 1, 1) + 1, X)
    assert graphs == [["add", "sub", "add"]]
    with pytest.raises(exc.IncorrectUsage):
        stator.disallow_in_graph(sines)


def test_forbid_in_graph():
    @stator.forbid_in_graph
    def never(x):
        return x

    with pytest.raises(AssertionError, match="forbidden callable"):
        compiled(lambda x: never(x + 1))(X)
    assert torch.equal(never(X), X)


def test_assume_constant_result(graphs):
    calls = []

    @stator.assume_constant_result
    def table(n):
        calls.append(n)
        return {"scale": 2.0, "shift": torch.ones(4)}

    f = compiled(lambda x: x * table(3)["scale"] + table(3)["shift"], fullgraph=True)
    assert torch.equal(f(X), X * 2 + 1)
    first = len(calls)
    assert torch.equal(f(X + 1), (X + 1) * 2 + 1) and len(calls) == first
    assert graphs == [["mul", "add"]]


def test_substitute_in_graph(graphs):
    def search(x):
        return x + operator.indexOf([1, 2, 3], 3)

    with pytest.raises(TypeError, match="Signature mismatch"):

        @stator.substitute_in_graph(operator.indexOf)
        def _(sequence, x):
            pass

    @stator.substitute_in_graph(operator.indexOf)
    def index_of(a, b, /):
        for i, item in enumerate(a):
            if item is b or item == b:
                return i
        raise ValueError("not there")

    check(search, X, fullgraph=True)
    assert graphs == [["add"]] and index_of([1, 2], 2) == 1
    with pytest.raises(ValueError, match="Duplicate"):
        stator.substitute_in_graph(operator.indexOf)(index_of.__wrapped__)


def test_graph_break_and_its_message():
    def f(x):
        x = x + 1
        stator.graph_break("as a test")
        return x * 2

    check(f, X)
    with pytest.raises(exc.Unsupported, match="as a test"):
        compiled(f, fullgraph=True)(X)


def test_error_on_graph_break(graphs, capsys):
    def allowed(x):
        with stator.error_on_graph_break(True):
            x = x + 1
        print("outside")
        return x * 2

    check(allowed, X)
    assert graphs == [["add"], ["mul"]]

    def not_allowed(x):
        x = x + 1
        with stator.error_on_graph_break(True):
            print("inside")
            return x * 2

    with pytest.raises(exc.Unsupported, match="error_on_graph_break"):
        compiled(not_allowed)(X)
    assert stator._core.error_on_break() is False

    @stator.error_on_graph_break(False)
    def free(x):
        print("free")
        return x * 2

    def switched(x):
        with stator.error_on_graph_break(True):
            return free(x + 1) + 1

    check(switched, X)


def test_is_compiling():
    assert stator.is_compiling() is False
    f = compiled(lambda x: x + 1 if stator.is_compiling() else x - 1)
    assert torch.equal(f(X), X + 1)


def test_stances(graphs):
    f = compiled(lambda x: x * 2)
    with stator.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="fail_on_recompile"):
        f(X)
    assert torch.equal(f(X), X * 2) and len(graphs) == 1
    with stator.set_stance("fail_on_recompile"):
        assert torch.equal(f(X), X * 2)
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            f(X[:2])
    with stator.set_stance("eager_on_recompile"):
        hits = stator.stats()["hits"]
        assert torch.equal(f(X), X * 2) and stator.stats()["hits"] == hits + 1
        assert torch.equal(f(X[:3]), X[:3] * 2)
    with stator.set_stance("force_eager"):
        assert torch.equal(f(X), X * 2) and stator.stats()["hits"] == hits + 1
    assert len(graphs) == 1

    def inside(x):
        stator.set_stance("force_eager")
        return x

    with pytest.raises(AssertionError, match="forbidden callable.*set_stance"):
        compiled(inside)(X)
    with pytest.raises(AssertionError, match="forbidden callable.*stance"):
        compiled(stator.set_stance("force_eager")(lambda x: x))(X)


def test_public_names_that_are_first_used_in_compiled_code():
    """They are loaded when they are asked for: in a capture too."""
    for name in ("is_compiling", "comptime", "error_on_graph_break"):
        vars(stator).pop(name, None)

    def f(x):
        y = x + 1
        stator.comptime.sleep(0)
        with stator.error_on_graph_break(False):
            y = y * 3
        return y * 2 if stator.is_compiling() else y

    graphs = []
    whole = stator.compile(f, backend=lambda gm, inputs: graphs.append(gm) or gm.forward, fullgraph=True)
    assert torch.equal(f(X), (X + 1) * 3)
    for name in ("is_compiling", "comptime", "error_on_graph_break"):
        vars(stator).pop(name, None)
    for _ in range(2):
        assert torch.equal(whole(X), (X + 1) * 6)
    assert len(graphs) == 1


def test_forced_backend():
    calls = []

    def backend(gm, inputs):
        calls.append(gm)
        return gm.forward

    f = compiled(lambda x: x * 2)
    f(X)
    with stator.set_stance("default", force_backend=backend):
        assert torch.equal(f(X), X * 2)
    assert len(calls) == 1
    f(X)
    assert len(calls) == 1
    with pytest.raises(RuntimeError, match="force_backend"):
        stator.set_stance("force_eager", force_backend="eager")


def test_error_on_recompile():
    f = compiled(lambda x: x * 2)
    with stator.config.patch(error_on_recompile=True):
        f(X)
        with pytest.raises(exc.RecompileError):
            f(X.double())


def test_explain(capsys):
    def f(x, items):
        y = x + 1
        print("break")
        z = y * 2
        w = eval("z * 3 + 1")
        return w.relu() * items[0]

    found = stator.explain(f)(X, [1, 2])
    assert torch.equal(found.result, f(X, [1, 2]))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (3, 2, 4)
    assert [b.name for b in found.breaks] == ["kCallsOutside", "kCallsOutside"]
    assert found.breaks[0].user_stack[0].lineno == f.__code__.co_firstlineno + 2
    assert found.breaks[1].tensor_calls_outside == 2 == found.tensor_calls_outside
    assert any("L['x']: Tensor" in guard for guard in found.out_guards)
    text = str(found)
    for part in ("Graph Count: 3", "Break Reasons", "break reason 3", "Ops of graph 1: add", "L['items'][0] == 1"):
        assert part in text
    assert found.capture_seconds > 0


def test_reasons_have_a_page():
    done = subprocess.run([sys.executable, "tools/break_reasons.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for number, sentence, _ in stator._core.break_reasons().values():
        assert number > 0 and sentence


def test_marks():
    t = torch.ones(3, 4)
    stator.mark_dynamic(t, 0, min=2, max=9)
    stator.maybe_mark_dynamic(t, [1])
    stator.mark_static_address(t)
    assert t._dynamo_dynamic_indices == {0} and t._dynamo_weak_dynamic_indices == {1}
    assert t._dynamo_static_input_type == "unguarded"
    (bounds,) = t._dynamo_dynamic_range
    assert (bounds.dim, bounds.min, bounds.max) == (0, 2, 9)
    with pytest.raises(IndexError):
        stator.mark_static(t, 2)
    with pytest.raises(TypeError):
        stator.mark_dynamic(3, 0)


INSTALL = """
import sys, torch, stator
before = torch.compile
stator.install(); stator.install()
assert torch.compile is stator.compile and torch.compiler.disable is stator.disable
assert "torch._dynamo" not in sys.modules
module = torch.nn.Linear(2, 2)
module.compile(backend="eager")
module(torch.ones(2))
assert stator.stats()["graphs"] == 1
import torch._dynamo
assert torch._dynamo.mark_dynamic is stator.mark_dynamic and issubclass(stator.exc.Unsupported, torch._dynamo.exc.Unsupported)
torch._dynamo.config.recompile_limit = 2
assert torch.equal(torch._dynamo.optimize("eager")(lambda x: x + 1)(torch.ones(2)), torch.ones(2) + 1)
assert stator.config.recompile_limit == 2
with torch._dynamo.config.patch(disable=True):
    assert torch.compile(abs) is abs
graphs = stator.stats()["graphs"]
torch.compile(lambda x: x * 3, backend="eager")(torch.ones(2))
assert stator.stats()["graphs"] == graphs + 1
if hasattr(torch.compiler, "set_default_backend"):  # from torch 2.13 on
    torch.compiler.set_default_backend("inductor")
assert torch._dynamo.lookup_backend("inductor").__name__ == "inductor"
assert torch._dynamo.export(lambda x: x * 2)(torch.ones(2))[0](torch.ones(2)).sum() == 4
assert stator.stats()["graphs"] == graphs + 2
marked = torch._dynamo.nonstrict_trace(lambda pair: (pair[0] + pair[1], len(pair)))
found = stator.explain(lambda x: marked((x, x * 2)))(torch.ones(3))
assert found.graph_break_count == 0 and torch.equal(found.result[0], torch.full((3,), 3.0)) and found.result[1] == 2
assert "add" not in [getattr(op, "__name__", op) for op in found.ops_per_graph[0]]
stator.uninstall()
assert torch.compile is before and torch._dynamo.mark_dynamic is not stator.mark_dynamic
"""


def test_install():
    done = subprocess.run([sys.executable, "-c", INSTALL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y


@dataclasses.dataclass
class Weighted:
    tensor: torch.Tensor
    other: torch.Tensor | None
    weight: int


class Setting:
    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        return isinstance(other, Setting) and self.factor == other.factor

    def __hash__(self):
        return hash(self.factor)


torch.utils._pytree.register_pytree_node(Point, lambda p: ((p.x, p.y), None), lambda parts, _: Point(*parts))
torch.utils._pytree.register_dataclass(Weighted)
torch.utils._pytree.register_constant(Setting)
SETTING = Setting(3)
Both = collections.namedtuple("Both", "first second")


@stator.nonstrict_trace
def of_points(point, *, scale=1, text="a"):
    for _ in torch.zeros(int(point.x.shape[0])):  # nothing that a capture would look into
        pass
    return {"sum": point.x * scale + point.y, "point": Point(point.y, point.x.sum()), "both": Both(3, text)}


@stator.nonstrict_trace
def of_weights(weighted, setting):
    return Weighted(weighted.tensor * setting.factor, weighted.other, weighted.weight + 1)


@stator.nonstrict_trace
def of_module(module, x):
    return module(x) + x


def closed_over(k, n):
    @stator.nonstrict_trace
    def inner(x, items):
        return [x + k * n for _ in items]

    return inner


NONSTRICT_LAYER = torch.nn.Linear(4, 4)
NONSTRICT_INNER = closed_over(torch.ones(4) * 5, 3)


def calls_of_points(x):
    result = of_points(Point(x, x + 1), scale=2, text="b")
    return result["sum"] * 2, result["point"].x, result["point"].y, result["both"]


def calls_of_weights(x):
    first = of_weights(Weighted(x, None, 5), SETTING)
    second = of_weights(first, Setting(2))
    return second.tensor, second.other, second.weight, type(second).__name__


def calls_of_module(x):
    return of_module(NONSTRICT_LAYER, x * 2)


def calls_of_closures(x):
    return NONSTRICT_INNER(x, [1, 2])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "function, nodes",
    [
        (calls_of_points, ["add", "of_points", "mul"]),
        (calls_of_weights, ["of_weights", "of_weights"]),
        (calls_of_module, ["mul", "of_module"]),
        (calls_of_closures, ["inner"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_nonstrict_trace(function, nodes, backend):
    found = stator.explain(function)(torch.ones(4))
    assert found.graph_break_count == 0
    names = [getattr(op, "__name__", op) for op in found.ops_per_graph[0]]
    assert [name for name in names if name != "getitem"] == nodes
    run = stator.compile(function, backend=backend, fullgraph=True)
    for start in (0.0, 2.0):
        results = []
        for f in (run, function):
            NONSTRICT_LAYER.zero_grad()
            x = (torch.arange(4.0) + start).requires_grad_()
            leaves = torch.utils._pytree.tree_leaves(f(x))
            sum(leaf.sum() for leaf in leaves if isinstance(leaf, torch.Tensor)).backward()
            gradient = NONSTRICT_LAYER.weight.grad
            results.append([*leaves, x.grad, None if gradient is None else gradient.clone()])
        for left, right in zip(*results, strict=True):
            assert torch.allclose(left, right) if isinstance(left, torch.Tensor) else left == right


def test_nonstrict_trace_follows_the_object_and_says_what_it_cannot_take():
    class Plain:
        def __init__(self, tensor):
            self.tensor = tensor

    @stator.nonstrict_trace
    def plain(value):
        return value.tensor + 1

    @stator.nonstrict_trace
    def gives_plain(x):
        return Plain(x)

    def takes(x):
        return plain(Plain(x * 2))

    def gives(x):
        return gives_plain(x * 2).tensor

    for function, why in ((takes, "an argument of plain.* is a Plain.*register_pytree_node"), (gives, "gives a Plain")):
        assert torch.equal(stator.compile(function, backend="eager")(X), function(X))
        with pytest.raises(exc.Unsupported, match=f"(?s){why}"):
            stator.compile(function, backend="eager", fullgraph=True)(X)

    def scaled(x, setting):
        return of_weights(Weighted(x, x, 1), setting).tensor

    run = stator.compile(scaled, backend="eager", fullgraph=True)
    for factor in (2, 5, 2):
        setting = Setting(factor)
        assert torch.equal(run(X, setting), scaled(X, setting))
    with pytest.raises(TypeError, match="takes a callable"):
        stator.nonstrict_trace(3)


def test_disallow_in_graph_of_torch_s_own():
    """torch asks for functions of its own, which would not become nodes: linearize() does."""
    stator.install()
    try:
        x = torch.randn(3)
        output, tangent = torch.func.linearize(torch.sin, x)
        torch.testing.assert_close((output, tangent(x)), (x.sin(), x * x.cos()))
    finally:
        stator.uninstall()


def test_only_compliant_operators():
    """config.only_allow_pt2_compliant_ops: others are left outside of graphs, and refused under fullgraph."""
    with torch.library._scoped_library("statorlib", "FRAGMENT") as library:
        torch.library.define("statorlib::tagged", "(Tensor x) -> Tensor", tags=torch.Tag.pt2_compliant_tag, lib=library)
        torch.library.define("statorlib::plain", "(Tensor x) -> Tensor", lib=library)
        for name in ("tagged", "plain"):
            torch.library.impl(f"statorlib::{name}", "CompositeImplicitAutograd", torch.sin, lib=library)

        def f(x, name):
            return getattr(torch.ops.statorlib, name)(x) + 1

        x = torch.ones(3)
        with stator.config.patch(only_allow_pt2_compliant_ops=True):
            assert torch.equal(stator.compile(f, backend="eager", fullgraph=True)(x, "tagged"), x.sin() + 1)
            assert torch.equal(stator.compile(f, backend="eager")(x, "plain"), x.sin() + 1)
            for operator in (torch.ops.statorlib.plain, torch.ops.statorlib.plain.default):
                with pytest.raises(stator.exc.Unsupported, match="not PT2 compliant"):
                    stator.compile(lambda x, operator=operator: operator(x), backend="eager", fullgraph=True)(x)
            with pytest.raises(stator.exc.Unsupported, match="failed to"):
                stator.compile(lambda x: torch.ops.statorlib.plain(x, x, x), backend="eager", fullgraph=True)(x)
        assert torch.equal(stator.compile(f, backend="eager", fullgraph=True)(x, "plain"), x.sin() + 1)


def test_float_of_several_elements():
    """A read that cannot go well is an error of the operation, and eager's where graphs may break."""
    for kind in (float, int):
        with pytest.raises(stator.exc.TorchRuntimeError):
            stator.compile(lambda x, kind=kind: kind(x + 1), backend="eager", fullgraph=True)(torch.ones(2))
        with pytest.raises((RuntimeError, ValueError), match="one element|elements"):
            stator.compile(lambda x, kind=kind: kind(x + 1), backend="eager")(torch.ones(2))
