"""TorchDynamo in the same process, before, after and inside: both capture, whatever the order, and each evaluator goes
when its work is done."""

import subprocess
import sys
import textwrap

import pytest

HEAD = """
import threading
import torch, stator
from stator import _core

dynamo_graphs = []
def by_dynamo(gm, inputs):
    dynamo_graphs.append(gm)
    return gm.forward

def stator_graphs():
    return stator.stats()["graphs"]

def failing(x):
    print("not in a graph")
    return x + 1

def raise_in_dynamo(x):
    try:
        torch.compile(failing, fullgraph=True, backend="eager")(x)
    except torch._dynamo.exc.Unsupported:
        return
    raise AssertionError("it was to fail")

x = torch.arange(3.0)
def f(x): return x * 2 + 1
def g(x): return x.sin() - 1
ours = stator.compile(f, backend="eager")
theirs = torch.compile(g, backend=by_dynamo)
"""

CASES = {
    "after it ran": """
assert torch.equal(theirs(x), g(x)) and torch.equal(ours(x), f(x))
assert (len(dynamo_graphs), stator_graphs()) == (1, 1)
""",
    "after it raised": """
raise_in_dynamo(x)
assert torch.equal(stator.compile(f, backend="eager", fullgraph=True)(x), f(x)) and stator_graphs() == 1
assert torch.equal(theirs(x), g(x)) and len(dynamo_graphs) == 1
raise_in_dynamo(x)
assert torch.equal(ours(x.double()), f(x.double())) and stator_graphs() == 2
""",
    "before it": """
ours(x); theirs(x); ours(x.double()); theirs(x.double())
assert (len(dynamo_graphs), stator_graphs()) == (2, 2)
""",
    "backends that are registered under install() are torch's": """
def mine(gm, inputs):
    return gm.forward

stator.install()
torch._dynamo.register_backend(mine)
from torch._dynamo.backends.registry import list_backends
assert {"inductor", "eager", "mine"} <= {*list_backends(exclude_tags=())} & {*stator.list_backends(exclude_tags=())}
assert torch.equal(torch.compile(f, backend="mine")(x), f(x)) and stator_graphs() == 1
stator.uninstall()
assert torch.equal(torch.compile(f, backend="mine")(x), f(x)) and stator_graphs() == 1
torch.compile(f)  # inductor is looked up
""",
    "it inside of ours": """
@stator.compile(backend="eager")
def outer(x):
    y = x + 1
    torch._dynamo.graph_break()
    return theirs(y) * 3
for a in (x, x + 1, x.double()):
    assert torch.equal(outer(a), g(a + 1) * 3)
assert stator_graphs() >= 2
""",
    "it disabled inside of ours": """
@stator.disable
def call(y): return theirs(y)
def plain(x): return call(x + 1) * 3
outer = stator.compile(plain, backend="eager")
for a in (x, x + 1, x.double()):
    assert torch.equal(outer(a), g(a + 1) * 3)
assert len(dynamo_graphs) >= 1 and stator_graphs() >= 2, (len(dynamo_graphs), stator_graphs())
""",
    "it raises inside of ours": """
def plain(x):
    y = x + 1
    raise_in_dynamo(y)
    return h(y * 3)
def h(x): return x.cos() + 4
def native(x):
    y = x + 1
    return h(y * 3)
outer = stator.compile(plain, backend="eager")
before = stator_graphs()
assert torch.equal(outer(x), native(x)) and torch.equal(outer(x), native(x))
assert stator_graphs() > before
""",
    "ours inside of it": """
def plain(x): return ours(x + 1) * 3
outer = torch.compile(plain, backend=by_dynamo)
for a in (x, x + 1, x.double()):
    assert torch.equal(outer(a), f(a + 1) * 3)
assert len(dynamo_graphs) + stator_graphs() >= 2  # TorchDynamo may trace into the function, as it does with its own
""",
    "ours inside of it inside of ours": """
@stator.disable
def call(y): return middle(y)
middle = torch.compile(lambda y: ours(y - 1) + g(y), backend=by_dynamo)
outer = stator.compile(lambda x: call(x + 1).cos() * 3, backend="eager")
for a in (x, x + 1, x.double()):
    assert torch.equal(outer(a), (f(a) + g(a + 1)).cos() * 3)
assert len(dynamo_graphs) >= 1 and stator_graphs() >= 2
""",
    "one function by both": """
by_both = torch.compile(f, backend=by_dynamo), stator.compile(f, backend="eager")
for a in (x, x.double(), x):
    for compiled in (*by_both, *by_both[::-1]):
        assert torch.equal(compiled(a), f(a))
assert (len(dynamo_graphs), stator_graphs()) == (2, 2)
""",
    "one compiled by the other": """
assert torch.equal(stator.compile(torch.compile(f, backend=by_dynamo), backend="eager")(x), f(x))
assert torch.equal(torch.compile(stator.compile(f, backend="eager"), backend=by_dynamo)(x), f(x))
assert len(dynamo_graphs) + stator_graphs() >= 2
""",
    "a module by both": """
m = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
assert torch.equal(torch.compile(stator.compile(m, backend="eager"), backend=by_dynamo)(x), m(x))
assert len(dynamo_graphs) == 1
assert torch.equal(stator.compile(torch.compile(m, backend=by_dynamo), backend="eager")(x), m(x))
assert stator_graphs() == 1
m.compile(backend=by_dynamo)
assert torch.equal(stator.compile(m, backend="eager", dynamic=True)(x), m.forward(x)) and stator_graphs() == 2
""",
    "a function of its own while Stator is installed": """
def broken(x):
    y = x + 1
    print("", end="")
    return y * 2
made_before, whole = torch.compile(broken, backend=by_dynamo), torch.compile(broken, backend="eager", fullgraph=True)
stator.install()
try:
    whole(x)
except torch._dynamo.exc.Unsupported as error:
    assert not isinstance(error, stator.exc.Unsupported)
else:
    raise AssertionError("it was to fail")
assert torch.equal(made_before(x), (x + 1) * 2) and len(dynamo_graphs) == 2
assert torch.equal(torch.compile(broken, backend="eager")(x), (x + 1) * 2) and stator_graphs() == 2
stator.uninstall()
def switching(x):
    stator.install()
    stator.uninstall()
    return x + 1
assert torch.equal(torch.compile(switching, backend="eager")(x), x + 1)
""",
    "it called by a backend of ours": """
asked = stator.compile(f, backend=lambda gm, inputs: torch.compile(gm, backend=by_dynamo))
assert torch.equal(asked(x), f(x)) and stator_graphs() == 1
asked = torch.compile(f, backend=lambda gm, inputs: stator.compile(gm, backend="eager"))
assert torch.equal(asked(x), f(x))
def skipping(gm, inputs): raise torch._dynamo.exc.SkipFrame
assert torch.equal(stator.compile(f, backend=skipping)(x), f(x))
""",
    "in two threads": """
wrong = []
def work(compiled, plain, n):
    for i in range(n):
        a = torch.arange(float(2 + i % 3)).to((torch.float32, torch.float64)[i % 2])
        if not torch.equal(compiled(a), plain(a)): wrong.append(i)
threads = [threading.Thread(target=work, args=(ours, f, 60)), threading.Thread(target=work, args=(theirs, g, 60))]
for t in threads: t.start()
for t in threads: t.join()
assert not wrong and dynamo_graphs and stator_graphs() >= 1
""",
}

# In the end no evaluator of ours is left in the interpreter, whoever came last.
TAIL = """
def once(): return 5
assert once() == 5 and not _core.hook_installed()
print("fine")
"""


@pytest.mark.parametrize("name", CASES)
def test_beside_dynamo(name):
    run = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(CASES[name]) + TAIL], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0 and run.stdout.endswith("fine\n"), run.stdout[-2000:] + run.stderr[-4000:]


# ---- switches and marks by torch's own names, without install()
# ------------------------------------------------------------------------------------------------------------------------

SWITCHES = {
    "marks": """
@torch.compiler.allow_in_graph
def node(x): return x.sin().cos()
@torch._dynamo.nonstrict_trace
def opaque(pair): return {"sum": pair[0] + pair[1]}
@torch.compiler.assume_constant_result
def three(): return 3
@torch.compiler.disable
def outside(x): return x * 5
import stator
compiled = stator.compile(lambda x: outside(node(x) + opaque((x, x))["sum"]) + three(), backend=backend)
assert torch.allclose(compiled(x), outside(node(x) + 2 * x) + 3)
first, second = ([n.target for n in g.graph.nodes if n.op == "call_function"] for g in graphs)
assert node in first and len(first) <= 5 and len(second) == 1, (first, second)
torch._dynamo.disallow_in_graph(torch.sub)
del graphs[:]
stator.compile(lambda x: torch.sub(x + 1, 2) * 3, backend=backend)(x)
assert len(graphs) == 2
torch._dynamo.allow_in_graph(torch.sub)
stator.compile(lambda x: torch.sub(x + 1, 2) * 4, backend=backend)(x)
assert len(graphs) == 3
""",
    "stances": """
import stator
f = stator.compile(lambda x: x + 1, backend=backend)
with torch.compiler.set_stance("force_eager"):
    f(x)
assert not graphs
f(x)
@torch.compiler.set_stance("fail_on_recompile")
def strictly(a): return f(a)
strictly(x)
try:
    strictly(x.double())
except RuntimeError as error:
    assert "float64" in str(error), error
else:
    raise AssertionError("it was to fail")
f(x.double())
assert len(graphs) == 2
with stator.set_stance("force_eager"):
    with torch.compiler.set_stance("default"):
        f(x.int())
    with torch.compiler.set_stance("eager_on_recompile"):
        f(x.int())
    f(x.int())
assert len(graphs) == 2
f(x.int())
assert len(graphs) == 3
""",
    "a stance from before": """
torch.compiler.set_stance("force_eager")
import stator
f = stator.compile(lambda x: x + 1, backend=backend)
f(x)
assert not graphs
torch.compiler.set_stance("default")
f(x)
assert len(graphs) == 1
""",
    "a break as an error": """
import stator
def says(x): print("", end=""); return x + 1
def inside(x):
    with torch._dynamo.error_on_graph_break(True):
        return says(x * 2)
decorated = torch._dynamo.error_on_graph_break(True)(says)
def fails(function, around=False):
    compiled = stator.compile(function, backend=backend)
    for _ in range(2):
        try:
            with torch._dynamo.error_on_graph_break(True) if around else torch.no_grad():
                compiled(x)
        except stator.exc.Unsupported:
            pass
        else:
            raise AssertionError("it was to fail")
fails(inside); fails(decorated); fails(says, True)
def allowed(x):
    with torch._dynamo.error_on_graph_break(True):
        y = x + 1
    with torch._dynamo.error_on_graph_break(False):
        return says(y)
del graphs[:]
assert torch.equal(stator.compile(allowed, backend=backend)(x), x + 2) and len(graphs) == 2
with torch._dynamo.error_on_graph_break(True):
    assert torch.equal(stator.compile(allowed, backend=backend)(x), x + 2)
""",
    "reset": """
from torch._dynamo import reset
import stator
f = stator.compile(lambda x: x + 1, backend=backend)
for forget in (torch.compiler.reset, torch._dynamo.reset, reset):
    f(x); f(x); forget()
assert len(graphs) == 3
""",
}


@pytest.mark.parametrize("loaded", ["", "import stator\n"])
@pytest.mark.parametrize("name", SWITCHES)
def test_switches_by_torch_s_names(name, loaded):
    head = """
import torch
graphs = []
def backend(gm, inputs):
    graphs.append(gm)
    return gm.forward
x = torch.arange(3.0)
"""
    run = subprocess.run(
        [sys.executable, "-c", loaded + head + SWITCHES[name] + "\nassert not stator.installed(); print('fine')"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0 and run.stdout.endswith("fine\n"), run.stdout[-2000:] + run.stderr[-4000:]


# ---- captures without TorchDynamo
# ------------------------------------------------------------------------------------------------------------------------

WITHOUT = """
import sys
import torch, stator
from stator import _core
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode

def f(x, y):  # no rule of Stator's knows these: they are run on FakeTensors
    return torch.kthvalue(x, 2)[0], torch.linalg.matrix_exp(y[:3]), torch.trapezoid(x, y)

x, y = torch.randn(4, 3), torch.randn(4, 3)
before = _core.shapes_counts()["fake"]
got = stator.compile(f, backend="eager", fullgraph=True)(x, y)
assert _core.shapes_counts()["fake"] > before
for one, other in zip(got, f(x, y), strict=True):
    torch.testing.assert_close(one, other)
assert "torch._dynamo" not in sys.modules, "imported"

assert fake_tensor.torch._dynamo.source.ConstantSource and "torch._dynamo" in sys.modules  # who asks for more gets it
marked = FakeTensorMode.__torch_dispatch__.__wrapped__
assert fake_tensor.torch is torch and not hasattr(marked, "__dynamo_disable")
graphs = []
theirs = torch.compile(lambda a: a.cumsum(0) + 1, fullgraph=True, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
torch.testing.assert_close(theirs(x), x.cumsum(0) + 1)
assert len(graphs) == 1 and marked.__dynamo_disable is not marked
ours = stator.compile(lambda a: torch.kthvalue(a, 1)[0] + 2, backend="eager", fullgraph=True)
torch.testing.assert_close(ours(x), torch.kthvalue(x, 1)[0] + 2)
print("fine")
"""


def test_shape_inference_does_without_torch_dynamo():
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0 and run.stdout.endswith("fine\n"), run.stdout[-2000:] + run.stderr[-4000:]
