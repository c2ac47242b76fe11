"""Triton kernels that a program launches are calls in its graph. Needs the triton package, which the pinned CPU build
of torch does not bring (`pip install triton`). Without a GPU kernels run by Triton's interpreter, and compiled ones are
only captured."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="pip install triton")

KERNELS = """
import torch, triton, triton.language as tl
import stator
from stator import _core

@triton.jit
def add_kernel(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(a + i, mask=m) + tl.load(b + i, mask=m), mask=m)

@triton.autotune(configs=[triton.Config({"BLOCK": 16})], key=["n"])
@triton.jit
def one_configuration(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(a + i, mask=m) * tl.load(b + i, mask=m), mask=m)

@triton.autotune(configs=[triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32}, num_warps=2)], key=["n"])
@triton.jit
def two_configurations(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(a + i, mask=m) * tl.load(b + i, mask=m), mask=m)

def tuned(a, b):
    out = torch.empty_like(a)
    one_configuration[lambda meta: (triton.cdiv(a.numel(), meta["BLOCK"]),)](a, b, out, a.numel())
    return out - 1

def chosen(a, b):
    out = torch.empty_like(a)
    two_configurations[lambda meta: (triton.cdiv(a.numel(), meta["BLOCK"]),)](a, b, out, a.numel())
    return out - 1

def with_tuple(a, b):
    out = torch.empty_like(a)
    add_kernel[(triton.cdiv(a.numel(), 16),)](a, b, out, a.numel(), BLOCK=16)
    return out * 2

def with_function(a, b):
    out = torch.empty_like(a)
    add_kernel[lambda meta: (triton.cdiv(a.numel(), meta["BLOCK"]),)](a, b, out, n=a.numel(), BLOCK=16)
    return out.relu()

def into_argument(a, b):
    add_kernel[(3,)](a, b, a, a.numel(), BLOCK=16)
    return a + 1

a, b = torch.randn(40), torch.randn(40)
"""


def run(script, interpreted):
    environment = {**os.environ, "TRITON_INTERPRET": str(int(interpreted)), "STATOR_STRICT": "1"}
    with tempfile.TemporaryDirectory() as folder:  # Triton reads a kernel's source from its file
        path = Path(folder) / "program.py"
        path.write_text(KERNELS + script)
        done = subprocess.run(
            [sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_interpreted_kernels_run_in_graphs():
    run(
        """
for function in (with_tuple, with_function, into_argument, tuned):
    _core.reset_stats()
    compiled = stator.compile(function, backend="eager", fullgraph=True)
    for _ in range(3):
        mine, theirs = a.clone(), a.clone()
        assert torch.equal(compiled(mine, b), function(theirs, b)) and torch.equal(mine, theirs)
    stats = _core.stats()
    assert stats["graphs"] == 1 and stats["breaks"] == 0 and stats["graph_calls"] == 3, stats
# Other backends cannot have what looks at the data: the launch is a break, the rest is captured.
_core.reset_stats()
compiled = stator.compile(with_tuple, backend="aot_eager")
for _ in range(3):
    assert torch.equal(compiled(a, b), with_tuple(a, b))
assert _core.stats()["breaks"] >= 1 and _core.stats()["ops_run"] > 0
""",
        interpreted=True,
    )


def test_compiled_kernels_reach_backends_as_torch_s_operator():
    out = run(
        """
from torch._functorch.aot_autograd import aot_module_simplified

seen = []
def inner(module, examples):
    seen.append([str(node.target) for node in module.graph.nodes if node.op == "call_function"])
    outputs = len(module.graph.output_node().args[0])  # without a GPU torch takes all arguments for written
    return lambda *args: [torch.zeros(40) for _ in range(outputs)]

def backend(module, examples):
    return aot_module_simplified(module, examples, fw_compiler=inner)

for function in (with_tuple, with_function, chosen):
    result = stator.compile(function, backend=backend, fullgraph=True)(a, b)
    assert result.shape == (40,)
print(seen)
""",
        interpreted=False,
    )
    assert out.count("triton_kernel_wrapper") == 3
