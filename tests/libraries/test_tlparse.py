"""tlparse's report of a run under Stator is as full as that of the same run under TorchDynamo: the real tlparse, on
both."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

TLPARSE = shutil.which("tlparse", path=os.path.dirname(sys.executable)) or shutil.which("tlparse")
pytestmark = pytest.mark.skipif(TLPARSE is None, reason="tlparse is not installed")

HEAD = """
import sys, warnings
import torch
if sys.argv[1] == "stator":
    import stator
    stator.install()
warnings.simplefilter("ignore")
"""

PROGRAMS = {
    "breaks": """
def helper(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()

def f(x):
    a = x.relu() + 1
    if a.sum() > 0:
        a = helper(a) * 2
    return a

compiled = torch.compile(f, backend="aot_eager")
for _ in range(2):
    compiled(torch.ones(4))
""",
    "recompiles": """
def f(x, k):
    return x * 2 + k

compiled = torch.compile(f, backend="eager", dynamic=False)
for rows in (3, 4, 5):
    compiled(torch.ones(rows), 1)
""",
    "limit": """
torch._dynamo.config.recompile_limit = 2
compiled = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
for rows in (3, 4, 5):
    compiled(torch.ones(rows))
""",
    "failures": """
def branches(x):
    return x if x.sum() > 0 else x + 1

def refuses(module, inputs):
    raise ValueError("not this graph")

for function, arguments in ((branches, dict(fullgraph=True, backend="eager")), (torch.nn.Tanh(), dict(backend=refuses))):
    try:
        torch.compile(function, **arguments)(torch.ones(3))
    except Exception as error:
        print(type(error).__name__)
""",
    "sizes": """
compiled = torch.compile(lambda x, y: (x @ y) * x.shape[0], backend="aot_eager", dynamic=True)
compiled(torch.ones(5, 6), torch.ones(6, 7))
compiled(torch.ones(8, 9), torch.ones(9, 3))
""",
    "training": """
torch._inductor.config.force_disable_caches = True
model = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4)))
model(torch.ones(3, 4)).sum().backward()
""",
}


def _report(folder, program, front_end):
    """Kinds of files, rows of failures and restarts, and names on the timeline."""
    script = folder / "program.py"
    script.write_text(HEAD + PROGRAMS[program])
    trace, out = folder / f"{front_end}-trace", folder / f"{front_end}-page"
    environment = {**os.environ, "TORCH_TRACE": str(trace)}
    subprocess.run([sys.executable, str(script), front_end], check=True, env=environment, capture_output=True)
    (log,) = trace.iterdir()
    done = subprocess.run(
        [TLPARSE, str(log), "-o", str(out), "--no-browser"], check=True, capture_output=True, text=True
    )
    assert "fail" not in done.stdout + done.stderr.replace("failures", "")
    kinds: dict[str, set[str]] = {}
    for compile_id, found in json.loads((out / "compile_directory.json").read_text()).items():
        for artifact in found["artifacts"]:
            name = re.sub(r"_\d+\.\w+$", "", artifact["name"])
            name = re.sub(r"^inductor_output_code_\w+", "inductor_output_code", name)
            name = re.sub(r"^\w+_(ORIGINAL_BYTECODE|MODIFIED_BYTECODE|PLAN)$", r"\1", name)
            kinds.setdefault("PLAN" if name == "MODIFIED_BYTECODE" else name, set()).add(compile_id)
    page = (out / "failures_and_restarts.html").read_text()
    events = {event["name"] for event in json.loads((out / "chromium_events.json").read_text())}
    return kinds, page.count("<tr>") - 1, events, (out / "index.html").read_text()


# Of TorchDynamo's own making: its attempts, its check for runtime asserts, and a collection behind each compilation.
OWN_EVENTS = re.compile(r"compile_attempt_\d+|insert_deferred_runtime_asserts|gc")


@pytest.mark.parametrize("program", PROGRAMS)
def test_report_is_as_full(tmp_path, program):
    theirs, their_rows, their_events, _ = _report(tmp_path, program, "torch")
    ours, our_rows, our_events, index = _report(tmp_path, program, "stator")
    assert set(theirs) - set(ours) == set()
    for kind in ("dynamo_output_graph", "recompile_reasons", "dynamo_error"):
        assert len(ours.get(kind, ())) == len(theirs.get(kind, ())), kind
    assert our_rows >= their_rows
    assert {name for name in their_events - our_events if not OWN_EVENTS.fullmatch(name)} == set()
    assert "program.py:" in index and "Metrics were missing</" not in index.partition("Stack</summary>")[2]
