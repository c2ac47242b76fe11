"""Switches on functions, stances, explain and install: each against eager, and each with a look at what was captured."""

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

    with pytest.raises(RuntimeError, match="set_stance"):
        compiled(inside)(X)


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
assert torch._dynamo.mark_dynamic is stator.mark_dynamic and torch._dynamo.exc.Unsupported is stator.exc.Unsupported
torch._dynamo.config.recompile_limit = 2
assert torch.equal(torch._dynamo.optimize("eager")(lambda x: x + 1)(torch.ones(2)), torch.ones(2) + 1)
assert stator.config.recompile_limit == 2
with torch._dynamo.config.patch(disable=True):
    assert torch.compile(abs) is abs
graphs = stator.stats()["graphs"]
torch.compile(lambda x: x * 3, backend="eager")(torch.ones(2))
assert stator.stats()["graphs"] == graphs + 1
torch.compiler.set_default_backend("inductor")
assert torch._dynamo.lookup_backend("inductor").__name__ == "inductor"
assert torch._dynamo.export(lambda x: x * 2)(torch.ones(2))[0](torch.ones(2)).sum() == 4
assert stator.stats()["graphs"] == graphs + 2
stator.uninstall()
assert torch.compile is before and torch._dynamo.mark_dynamic is not stator.mark_dynamic
"""


def test_install():
    done = subprocess.run([sys.executable, "-c", INSTALL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
