"""Structures of any depth: what eager can build and drop, a trace can; no walk of ours and no destructor ends the
process.

All of them take some ten minutes (`make test-deep`); without STATOR_TEST_DEEP a few run.
"""

import os
import subprocess
import sys

import pytest

HEAD = """
import collections, copy, functools, itertools, operator, sys, types
import torch, stator

class Plain:
    def __init__(self, a): self.a = a
class Slots:
    __slots__ = ("a",)
    def __init__(self, a): self.a = a
class List(list): pass
class Tuple(tuple): pass
class Dict(dict): pass
Pair = collections.namedtuple("Pair", "a b")
def generator(a): yield a
async def coroutine(a): return a
def closure(a): return lambda: a
def caused(a):
    error = ValueError()
    error.__cause__ = a
    return error
DEPTH = 100_000
sys.setrecursionlimit(1000)

def outcome(f, x):
    try: result = f(x)
    except RecursionError: return "too deep"
    except Exception as error: return repr(error)[:200]
    return result if isinstance(result, (int, bool)) else type(result).__name__
"""

STRUCTURES = {
    "list": "[l]",
    "tuple": "(l,)",
    "dict": "{1: l}",
    "list of two": "[l, x]",
    "subclasses": "List([Tuple((Dict(a=l),))])",
    "instances": "Plain(Slots(l))",
    "named tuple": "Pair(l, 1)",
    "partial": "functools.partial(print, l)",
    "closure": "closure(l)",
    "exception": "caused(l)",
    "slice": "slice(l)",
    "deque": "collections.deque([l])",
    "ordered dict": "collections.OrderedDict(a=l)",
    "frozenset": "frozenset([l])",
    "method": "Plain(l).__init__",
    "namespace": "types.SimpleNamespace(a=l)",
    "proxy": "types.MappingProxyType({1: l})",
    "iterator": "iter([l])",
    "filter": "filter(bool, l)",
    "map": "map(str, l)",
    "zip": "zip(l)",
    "enumerate": "enumerate(l)",
    "chain": "itertools.chain(l)",
    "islice": "itertools.islice(l, 3)",
    "generator": "generator(l)",
}
ITERATORS = ("filter", "map", "zip", "enumerate", "chain", "islice")
ENDS = {
    "dropped": "return 1",
    "returned": "return l",
    "beside a tensor": "return x + 1, l",
    "over a break": "torch._dynamo.graph_break()\n    return l",
}


QUICK = {
    ("list", "returned"),
    ("instances", "over a break"),
    ("filter", "dropped"),
    ("generator", "dropped"),
    ("[l]", "copy"),
}


def _only_if_asked(*case):
    if "STATOR_TEST_DEEP" not in os.environ and case not in QUICK:
        pytest.skip("make test-deep runs it")


def _run(code):
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + code], capture_output=True, text=True, timeout=900
    )
    assert run.returncode == 0, run.stdout[-500:] + run.stderr[-3000:]
    return run.stdout


def _program(structure, end):
    start = "ValueError()" if structure == "exception" else "()"
    return f"""
def f(x):
    l = {start}
    for _ in range(DEPTH): l = {STRUCTURES[structure]}
    {ENDS[end]}
x = torch.ones(2)
wanted, got = outcome(f, x), outcome(stator.compile(f, backend="eager"), x)
assert wanted == got, (wanted, got)
"""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_deep(structure, end, request):
    if structure in ITERATORS and end == "over a break" and structure != "filter":
        pytest.skip("as filter")
    _only_if_asked(structure, end)
    _run(_program(structure, end))


WALKS = {
    "repr": "repr(l)",
    "hash": "hash(l)",
    "compare": "l == other",
    "copy": "copy.deepcopy(l)",
    "key": "{l: 1}",
    "argument": "torch.tensor(l)",
    "index": "x[l]",
    "isinstance": "isinstance(x, l)",
    "in": "x in l",
}


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("structure", ["[l]", "(l,)"])
def test_walks(walk, structure):
    """Where eager gives up with a RecursionError, so does the trace; where it does not, neither does the trace."""
    _only_if_asked(structure, walk)
    _run(f"""
def f(x, l, other): return {WALKS[walk]}
def build(n):
    l = ()
    for _ in range(n): l = {structure}
    return l
def g(x):
    l = build(DEPTH)
    other = build(DEPTH)
    return f(x, l, other)
x = torch.ones(2)
for n in (3, 30, DEPTH):
    DEPTH = n
    wanted, got = outcome(g, x), outcome(stator.compile(g, backend="eager"), x)
    assert wanted == got, (n, wanted, got)
    l, other = build(n), build(n)
    wanted, got = outcome(lambda x: f(x, l, other), x), outcome(stator.compile(lambda x: f(x, l, other), backend="eager"), x)
    assert wanted == got, (n, wanted, got)
""")


def test_a_long_chain_from_outside():
    _run("""
class Node: pass
root = None
for i in range(20000):
    node = Node(); node.next = root; node.value = i % 3; root = node
def f(x):
    total, node = 0, root
    while node is not None: total, node = total + node.value, node.next
    return x + total
x = torch.ones(2)
compiled = stator.compile(f, backend="eager")
for _ in range(2): assert torch.equal(compiled(x), f(x))
while root is not None: root = root.next
""")


def test_long_expressions_of_sizes():
    """An expression that became too heavy is a number from there on."""
    _run("""
def f(x):
    n = x.shape[0]
    for _ in range(3000): n = (n * 3 + 1) // 2 % 1000 + x.shape[0]
    m = x.shape[0]
    for _ in range(60): m = m // 2 + m // 3 + 1
    return x + n + m
compiled = stator.compile(f, backend="eager", dynamic=True)
for size in (3, 5, 7): assert torch.equal(compiled(torch.ones(size)), f(torch.ones(size)))
""")
