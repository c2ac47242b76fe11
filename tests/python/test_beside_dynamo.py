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
