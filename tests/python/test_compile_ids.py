"""Log lines carry the id of the capture that they are about, and TORCH_TRACE gets the records that tlparse reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import torch

import stator

pytestmark = pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are other captures")

PROGRAM = """
import torch, stator

def inner(y):
    print(end="")
    return y.relu()

def outer(x):
    return inner(x + 1) * 2

compiled = stator.compile(outer, backend="aot_eager")
for rows in (3, 4):
    x = torch.randn(rows)
    assert torch.equal(compiled(x), outer(x))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace")
    path = folder / "program.py"
    path.write_text(PROGRAM)
    environment = {
        **os.environ,
        "TORCH_LOGS": "graph_breaks,recompiles,guards,graph_code,bytecode,recompiles_verbose,trace_source,trace_call,"
        "trace_bytecode,dynamic,sym_node,trace_shape_events",
        "TORCH_TRACE": str(folder / "trace"),
    }
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=environment, check=True)
    (log,) = (folder / "trace").iterdir()
    records = []
    for line in log.read_text().splitlines():
        found = re.match(r"V.*?\] (\{.*\})$", line)
        if found:
            records.append(json.loads(found[1]))
    return done.stderr, records


def test_lines_carry_ids(run):
    text, _ = run
    of_captures = [line for line in text.splitlines() if re.search(r" stator/_(report|trace_log)\.py:\d+\]", line)]
    without = [line for line in of_captures if not re.search(r"\.py:\d+\] \[\d+/\d+\]", line)]
    assert len(of_captures) > 50 and not without, without[:5]
    ids = re.findall(r"\[(\d+/\d+)\] \[__(graph_breaks|recompiles|guards|graph_code)\]", text)
    assert {kind for _, kind in ids} == {"graph_breaks", "recompiles", "guards", "graph_code"}
    assert {one for one, kind in ids if kind == "graph_breaks"} == {"0/0"}
    # outer up to the break, the call of print (1, where nothing is captured), inner behind it, the rest of outer
    assert {one.partition("/")[0] for one, _ in ids} == {"0", "2", "3"}
    assert {one for one, kind in ids if kind == "recompiles"} == {"0/1", "2/1", "3/1"}
    assert text.count("Graph break in user code at ") == 1


def test_records(run):
    _, records = run

    def of(kind):
        return [record for record in records if kind in record]

    starts, graphs, metrics = of("dynamo_start"), of("dynamo_output_graph"), of("compilation_metrics")
    assert all("frame_id" in record and "frame_compile_id" in record for record in (*starts, *graphs, *metrics))
    assert starts[0]["dynamo_start"]["stack"][-1]["name"] == "outer" or starts[0]["dynamo_start"]["stack"]
    assert len(graphs) == 6 and graphs[0]["dynamo_output_graph"]["sizes"]["l_x_"] == [3]
    entries = [record for record in metrics if record["compilation_metrics"]["has_guarded_code"]]
    assert len(entries) == len(of("dynamo_cpp_guards_str")) == 6
    first = metrics[0]["compilation_metrics"]
    assert first["co_name"] == "outer" and first["compile_id"] == "0/0" and first["guard_count"] > 1
    artifacts = [record["artifact"]["name"] for record in of("artifact")]
    assert artifacts.count("dynamo_graph_break_reason") == 1 and artifacts.count("recompile_reasons") == 3


def test_profilers_see_look_up_backend_and_graph():
    compiled = stator.compile(lambda x: x**2 + 1, backend="aot_eager")
    x = torch.randn(2, 2)
    with torch.profiler.profile() as first:
        compiled(x)
    assert any("call_user_compiler (dynamo_timed)" in event.name for event in first.events())
    with torch.profiler.profile() as later:
        compiled(x)
    names = [event.name for event in later.events()]
    assert sum("TorchDynamo Cache Lookup" in name for name in names) == 1
    assert sum(name.startswith("Torch-Compiled Region") for name in names) == 1
    assert not any("call_user_compiler" in name for name in names)


def test_compilation_metrics():
    import torch._dynamo
    from torch._dynamo import utils

    utils.clear_compilation_metrics()

    def f(x, k):
        return x.sin() + x * k

    compiled = stator.compile(f, backend="eager", dynamic=False)
    compiled(torch.ones(2), "ab".__len__())
    torch._logging.set_logs(recompiles=True)  # why is only asked for where somebody listens
    try:
        compiled(torch.ones(3), 2)
    finally:
        torch._logging.set_logs()
    with pytest.raises(stator.exc.Unsupported):
        stator.compile(lambda x: (x + 1, print("", end=""))[0] * 2, backend="eager", fullgraph=True)(torch.ones(2))
    first, second, failed = utils.get_compilation_metrics()
    assert (first.co_name, first.co_firstlineno, first.co_filename) == ("f", f.__code__.co_firstlineno, __file__)
    assert (first.graph_op_count, first.graph_input_count, first.graph_node_count) == (3, 1, 5)
    assert first.guard_count > 2 and first.has_guarded_code and first.fail_type is None
    assert first.entire_frame_compile_time_s > 0 and first.recompile_reason is None
    assert first.frame_key == second.frame_key and (first.cache_size, second.cache_size) == (0, 1)
    assert "size(0): was 2, is 3" in second.recompile_reason
    assert failed.fail_type == "Unsupported" and "print" in failed.fail_reason and not failed.has_guarded_code

    def refuse(module, inputs):
        raise ValueError("not this one")

    with pytest.raises(stator.exc.BackendCompilerFailed):
        stator.compile(f, backend=refuse)(torch.ones(2), 2)
    refused = utils.get_compilation_metrics()[-1]
    assert refused.fail_type == "BackendCompilerFailed" and "ValueError: not this one" in refused.fail_reason

    with stator.config.patch(suppress_errors=True), pytest.warns(UserWarning, match="suppress_errors"):
        assert torch.equal(stator.compile(lambda x: x.sin(), backend=refuse)(torch.ones(2)), torch.ones(2).sin())
    suppressed = utils.get_compilation_metrics()[-1]
    assert "ValueError: not this one" in suppressed.fail_reason and suppressed.dynamo_time_before_restart_s > 0


def test_torch_dynamo_is_imported_inside(tmp_path):
    """Its modules are looked at where they are loaded; while one is on its way its names are missing."""
    path = tmp_path / "program.py"
    path.write_text(IMPORTS)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True"]


IMPORTS = """
import sys, torch, stator

def f(x):
    y = x.sin()
    torch._dynamo.graph_break()  # imports it, with some hundred modules whose bodies are nobody's captures
    return y.cos()

x = torch.randn(3)
expected = x.sin().cos()
assert "torch._dynamo" not in sys.modules
print(torch.equal(stator.compile(f, backend="eager")(x), expected))
print(stator.stats()["captures"] < 6)
"""
