"""The debugging tools on graphs of 300 calls and with real inductor: `make test-debug`. Minutes, not seconds."""

import os
import re
import signal
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))

import children  # noqa: E402
from stator.debug import _scripts, _text  # noqa: E402
from stator.debug.faults import FAULTS  # noqa: E402
from test_debug import checkpoints, python, watch  # noqa: E402

SECONDS = 600
# stage: (operator, layers for some 300 calls, config.repro_after)
STAGES = {"dynamo": ("tanh", 11, "dynamo"), "forward": ("tanh", 5, "aot"), "backward": ("tanh_backward", 3, "aot")}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fault", FAULTS)
def test_minifier(tmp_path, fault, stage):
    op, layers, after = STAGES[stage]
    level = {"crash": 3, "hang": 3, "wrong": 4, "nan": 4}.get(fault, 2)
    try:
        done = watch(tmp_path, fault, op, stage, level, after, layers)
    except Exception as error:
        assert fault == "hang" and type(error).__name__ == "TimeoutExpired"
    else:
        assert fault != "hang"
        if fault == "crash":
            assert done.returncode == -signal.SIGSEGV
    # The copy in the working folder is the last one written: the graph that was about to run.
    script = tmp_path / "repro.py"
    case = _scripts.load(str(script))
    assert case.stage == stage and case.specimen.call_count() >= 280, (case.stage, case.specimen.call_count())
    done = python("-m", "stator", "minify", "--total", SECONDS, script, cwd=tmp_path, timeout=SECONDS + 200)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) calls? of (\d+) left, .* after (\d+) tries in ([\d.]+) s", done.stdout)
    print(f"{fault}, {stage}: {found[0]}")
    assert int(found[1]) <= 3 and float(found[4]) < SECONDS and "2 of 2 times" in done.stdout, done.stdout
    small = _scripts.load(str(tmp_path / "minified.py"))
    assert small.stage == stage and any(_text.short_name(call[1]) == op for call in small.specimen.calls())
    kind = {"compile": "compile error", "runtime": "run error", "crash": "signal", "hang": "hang"}.get(
        fault, "accuracy"
    )
    assert small.failure.kind == kind


INDUCTOR = """
import sys
import torch, stator, debug_programs
import torch._inductor.config as settings
torch.set_num_threads(1)
if sys.argv[1] == "pass":
    import planted_pass
    settings.post_grad_custom_post_pass = planted_pass.wrong_tanh
else:
    settings.cpp.inject_relu_bug_TESTING_ONLY = sys.argv[1]
model, x = debug_programs.transformer(1)
out = stator.compile(model, backend="inductor")(x)
out.sum().backward()
"""


@pytest.mark.parametrize("planted, op", [("accuracy", "relu"), ("pass", "tanh"), ("runtime_error", "relu")])
def test_inductor(tmp_path, planted, op):
    """A wrong kernel in real inductor is found by level 4 and cut down; so is one that fails."""
    (tmp_path / "program.py").write_text(INDUCTOR)
    more = [os.path.dirname(os.path.abspath(__file__))]
    level = "2" if planted == "runtime_error" else "4"
    done = python(
        tmp_path / "program.py",
        planted,
        cwd=tmp_path,
        timeout=300,
        STATOR_REPRO_AFTER="auto",
        STATOR_REPRO_LEVEL=level,
        more=more,
    )
    scripts = [_scripts.load(p) for p in checkpoints(tmp_path)]
    assert scripts and scripts[0].stage == "forward", done.stderr
    assert ("differs from eager" in done.stderr) == (level == "4"), done.stderr
    first = checkpoints(tmp_path)[0]
    done = python("-m", "stator", "minify", first, cwd=tmp_path, timeout=SECONDS + 200, more=more)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) calls? of (\d+) left", done.stdout)
    print(f"inductor, {planted}: {found[0]}")
    assert int(found[1]) <= 3 and "2 of 2 times" in done.stdout, done.stdout
    small = done.stdout.splitlines()[-1]
    with open(small) as file:
        assert f"aten.{op}" in file.read()


def test_auto_names_the_stage(tmp_path):
    for fault, op, stage, level in [
        ("wrong", "tanh_backward", "backward", 4),
        ("runtime", "tanh", "forward", 2),
        ("compile", "tanh", "dynamo", 1),
    ]:
        folder = tmp_path / stage
        folder.mkdir()
        watch(folder, fault, op, stage, level, after="auto")
        found = [_scripts.load(path) for path in checkpoints(folder)]
        assert [case.stage for case in found] == [stage], (stage, [case.stage for case in found])


def test_bisect_names_the_graph(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, torch, stator\n"
        "@stator.compile(backend='planted_fault', options={'fault': sys.argv[1], 'op': 'tanh'})\n"
        "def f(x):\n"
        "    x = x + 1\n"
        "    stator.graph_break()\n"
        "    x = x * 2\n"
        "    stator.graph_break()\n"
        "    x = torch.tanh(x)\n"
        "    stator.graph_break()\n"
        "    return x - 1\n"
        "f(torch.ones(3))\n"
    )
    done = python("-m", "stator", "bisect", program, "crash", cwd=tmp_path)
    assert done.returncode == 0 and "graph 2 of 4" in done.stdout and "SIGSEGV" in done.stdout, (
        done.stdout + done.stderr
    )
    done = python("-m", "stator", "bisect", program, "wrong", cwd=tmp_path)
    assert done.returncode == 0 and "graph 2 of 4 is the first that is wrong" in done.stdout, done.stdout + done.stderr


def test_goes_on_after_being_killed(tmp_path):
    """A minifier that dies leaves its best script, and the next one starts there."""
    import subprocess
    import time

    watch(tmp_path, "wrong", "tanh", "dynamo", 4, layers=6)
    script = tmp_path / "repro.py"
    before = len(checkpoints(tmp_path))
    environment = children.environment(children.TESTS, OMP_NUM_THREADS="1")
    process = subprocess.Popen(
        [sys.executable, "-m", "stator", "minify", script], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    )
    while len(checkpoints(tmp_path)) < before + 3:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    done = python("-m", "stator", "minify", script, cwd=tmp_path, timeout=300)
    assert done.returncode == 0 and "going on from" in done.stderr and "1 call of 15" in done.stdout, (
        done.stdout + done.stderr
    )
    # Once more: the end result is there, and nearly nothing is tried.
    done = python("-m", "stator", "minify", script, cwd=tmp_path, timeout=300)
    assert int(re.search(r"after (\d+) tries", done.stdout)[1]) <= 5, done.stdout


def test_analyze(tmp_path):
    watch(tmp_path, "wrong", "tanh", "dynamo", 4)
    done = python(tmp_path / "repro.py", "analyze", cwd=tmp_path)
    assert done.returncode == 1 and "= tanh(...) (debug_programs.py:" in done.stdout, done.stdout + done.stderr


ODD = """
import torch, stator
@stator.compile(backend="planted_fault", options={"fault": "wrong", "op": "tanh"})
def f(x, y, n):
    x = torch.dropout(x, 0.5, True) + torch.rand(4)
    y.add_(1)
    a, b = torch.relu(x).chunk(2)
    z = y[1:] * 3
    z[0] = a.sum()
    y.mul_(z.mean())
    c = torch.tanh(z + b.sum()).cumsum(0)
    values, indices = c.max(0)
    return values + n, indices, c + torch.randn_like(c)
torch.manual_seed(3)
base = torch.arange(12.0)
f(base[:8].view(2, 4), base[3:], 2.5)
"""


def test_random_numbers_writes_in_place_and_aliases(tmp_path):
    (tmp_path / "program.py").write_text(ODD)
    done = python(tmp_path / "program.py", cwd=tmp_path, STATOR_REPRO_AFTER="dynamo", STATOR_REPRO_LEVEL="4")
    assert "differs from eager" in done.stderr, done.stderr
    done = python("-m", "stator", "minify", tmp_path / "repro.py", cwd=tmp_path, timeout=300)
    assert done.returncode == 0 and "2 of 2 times" in done.stdout, done.stdout + done.stderr
    small = _scripts.load(str(tmp_path / "minified.py"))
    assert small.specimen.call_count() <= 2 and any(
        _text.short_name(call[1]) == "tanh" for call in small.specimen.calls()
    )


def test_full_disk(tmp_path):
    """A file that cannot grow, as on a full disk: the program goes on, and nothing half-written is left."""
    program = children.TESTS / "debug_programs.py"
    code = f"import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600)); sys.argv = ['p', 'wrong', 'cos', 'dynamo', '1']; runpy.run_path({program!r}, run_name='__main__')"
    done = python(
        "-c", code, cwd=tmp_path, STATOR_REPRO_AFTER="dynamo", STATOR_REPRO_LEVEL="3", PYTHONDONTWRITEBYTECODE="1"
    )
    assert done.returncode == 0 and "ran (2, 6, 5)" in done.stdout and "no repro was written" in done.stderr, (
        done.stdout + done.stderr
    )
    left = [os.path.join(place, name) for place, _, names in os.walk(tmp_path) for name in names]
    assert not left, left
