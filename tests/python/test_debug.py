"""Repros, the minifier and their bad inputs, on small graphs. The large ones and real inductor are in tests/debug (make
test-debug)."""

import os
import re
import signal
import subprocess
import sys

import pytest
import torch

import children
import debug_programs
import stator
from stator.debug import InputsError, ScriptError, _inputs, _minify, _models, _scripts, _stage, _text, _verdict, faults
from stator.debug._verdict import Verdict


def python(*arguments, cwd, timeout=120, more=(), **environment):
    environment = children.environment(children.TESTS, *more, **{"OMP_NUM_THREADS": "1", **environment})
    environment.pop("STATOR_BREAK_EVERY", None)
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def checkpoints(folder):
    found = []
    for place, _, names in os.walk(folder):
        if os.path.basename(place) == "checkpoints":
            found += [os.path.join(place, name) for name in names]
    return sorted(found, key=lambda path: os.stat(path).st_mtime_ns)


def graph_of(function, *inputs, grad=True):
    """The captured graph of a function, as a specimen with its inputs."""
    seen = []

    def backend(gm, examples):
        seen.append((_text.from_module(gm)[0], list(examples)))
        return gm.forward

    stator.reset()
    stator.compile(function, backend=backend, fullgraph=True)(*inputs)
    assert len(seen) == 1
    return seen[0]


def case_of(function, *inputs, tmp_path, stage="dynamo", backend="eager", failure=Verdict("passes"), **options):
    specimen, values = graph_of(function, *inputs)
    run = _scripts.Run(str(tmp_path))
    return _scripts.make_case(
        specimen, values, stage, _stage.BackendName(backend, None, options or None), failure, run.store
    ), run


# ---- text and back


def everything(x, y):
    a, b = (x * 2.5).chunk(2, -1)
    z = torch.cat([a, b], dim=1)[:, None, 1:3]
    z = z.clamp(min=-float("inf")) ** -1 + torch.arange(2, device=x.device)
    z[0, 0] = 4.0
    z += y.sum()
    w = -z @ torch.ones(2, 3) + torch.zeros((2, 1, 3), dtype=torch.float32)
    return (w > 0).to(torch.int8), torch.nn.functional.pad(w, (1, 2), mode="constant", value=0.5)


def test_scripts_read_back_as_the_same_program(tmp_path):
    inputs = torch.randn(2, 4), torch.randn(3)
    case, run = case_of(everything, *inputs, tmp_path=tmp_path)
    path = _scripts.write_case(case, run, convenient=False)
    again = _scripts.load(path)
    assert again.specimen.call_count() == case.specimen.call_count() > 10
    wanted = case.specimen.runner()(*[t.clone() for t in inputs])
    loaded = again.load_inputs()
    assert all(torch.equal(a, b) for a, b in zip(loaded, inputs))
    assert stator.debug.same(wanted, again.specimen.runner()(*loaded))
    assert _text.text_of(again.specimen).body.count("\n") > 10
    # Written once more, nothing is lost on the way.
    assert _scripts.load(_scripts.write(again, str(tmp_path / "again.py"))).specimen.hash() == again.specimen.hash()
    done = python(path, cwd=tmp_path)
    assert done.returncode == 0 and "no failure" in done.stderr, done.stderr


def test_inputs_are_rebuilt_exactly(tmp_path):
    base = torch.arange(12.0)
    parameter = torch.nn.Parameter(torch.randn(3, 2).t())
    leaf = torch.randn(4, requires_grad=True)
    values = [
        base[2:8].view(2, 3).t(),
        base[4:],
        parameter,
        leaf * 2,
        torch.randn(3, dtype=torch.complex64).conj(),
        torch.randn(2, dtype=torch.complex64).conj().imag,
        torch.tensor([float("nan"), float("inf"), -0.0]),
        torch.tensor([1, 2], dtype=torch.int8),
        torch.eye(3).to_sparse().requires_grad_(),
        torch.eye(3).to_sparse_csr(),
        torch.quantize_per_tensor(torch.randn(3), 0.1, 2, torch.quint8),
        torch.empty(0, 3),
        torch.randn(2).to(torch.bfloat16),
        7,
        2.5,
        None,
        True,
    ]
    store = _inputs.Store(str(tmp_path))
    describer = _inputs.Describer(store)
    specs = [describer.spec(value) for value in values]
    names = [f"v{i}" for i in range(len(values))]
    scope = {"torch": torch}
    exec("def inputs(load):\n" + _inputs.write(names, specs), scope)
    loader = _inputs.Loader(str(tmp_path))
    made = [loader.value(spec) for spec in _inputs.recorded(scope["inputs"])]
    for value, rebuilt in zip(values, made):
        assert type(value) is type(rebuilt)
        if not isinstance(value, torch.Tensor):
            assert value == rebuilt or value is rebuilt
            continue
        assert (value.shape, value.dtype, value.layout, value.requires_grad, value.is_leaf) == (
            rebuilt.shape, rebuilt.dtype, rebuilt.layout, rebuilt.requires_grad, rebuilt.is_leaf,
        )  # fmt: skip
        assert value.is_conj() == rebuilt.is_conj() and value.is_neg() == rebuilt.is_neg()
        if value.layout is torch.strided and not value.is_quantized:
            assert value.stride() == rebuilt.stride() and value.storage_offset() == rebuilt.storage_offset()
        assert stator.debug.same(value.detach(), rebuilt.detach(), equal_nan=True)
    assert made[0].untyped_storage()._cdata == made[1].untyped_storage()._cdata, "aliases alias"
    before = sorted(os.listdir(tmp_path))
    describer = _inputs.Describer(_inputs.Store(str(tmp_path)))
    again = [describer.spec(value) for value in values]
    assert sorted(os.listdir(tmp_path)) == before and len(again) == len(specs), "saved once"


def test_values_from_a_seed_keep_their_range(tmp_path):
    value = torch.rand(50) * 3 + 4
    store = _inputs.Store(str(tmp_path))
    spec = _inputs.like(_inputs.Describer(store).spec(value), value, 3)
    made, again = (_inputs.Loader("nowhere").value(spec) for _ in range(2))
    assert made.min() >= 3.9 and made.max() <= 7.1 and made.numel() == 50
    assert torch.equal(made, again)


# ---- edits


def test_slices_compute_what_the_whole_computes():
    model, x = debug_programs.transformer(2)
    specimen, values = graph_of(model, x)
    names = [call[0] for call in specimen.calls()]
    everything = dict(zip(names, specimen.snapshots(names, _models.snapshot).runner()(*values)))
    everything |= dict(zip(specimen.inputs(), values))
    for first, last in [(0, 10), (5, 20), (10, len(names)), (7, 8), (0, len(names))]:
        part, cut = specimen.keep(names[first:last])
        assert {call[0] for call in part.calls()} == set(names[first:last])
        assert set(cut) == {n for n in part.inputs() if n in names}
        out = part.runner()(*[everything[n] for n in part.inputs()])
        for name, value in zip(part.outputs(), out):
            assert torch.allclose(value, everything[name], atol=1e-6), name


def test_values_that_belong_together_stay_together():
    def f(x):
        a, b, c = torch.relu(x).chunk(3)
        return a + b + c

    specimen, _ = graph_of(f, torch.randn(6))
    chunk = next(call[0] for call in specimen.calls() if call[2] == "m")
    part, cut = specimen.keep([call[0] for call in specimen.calls() if call[0] != chunk])
    assert not [call for call in part.calls() if "getitem" in call[0]], "results are not picked from an input"
    assert len(cut) == 3


@pytest.mark.parametrize("op", ["tanh", "softmax", "relu"])
def test_reducer_finds_one_call_of_many(op):
    model, x = debug_programs.transformer(11)
    specimen, _ = graph_of(model, x)
    tries = []

    def still_fails(base, candidate, cut, text):
        tries.append(text)
        return any(_text.short_name(call[1]) == op for call in candidate.calls())

    assert specimen.call_count() > 280
    small = specimen.reduce(still_fails, ("calls", "values", "constants"))
    assert [_text.short_name(call[1]) for call in small.calls()] == [op]
    assert len(tries) < 60, len(tries)


def test_reducer_keeps_two_calls_that_fail_together():
    model, x = debug_programs.transformer(6)
    specimen, _ = graph_of(model, x)

    def still_fails(base, candidate, cut, text):
        names = [_text.short_name(call[1]) for call in candidate.calls()]
        return "tanh" in names and names.count("softmax") >= 2

    small = specimen.reduce(still_fails, ("calls", "values"))
    assert sorted(_text.short_name(call[1]) for call in small.calls()) == ["softmax", "softmax", "tanh"]


# ---- verdicts


def test_faults_are_told_apart(tmp_path):
    def f(x):
        return torch.relu(torch.tanh(x))

    found = {}
    for fault in ("compile", "runtime", "wrong", "nan"):
        case, _ = case_of(
            f, torch.randn(4, requires_grad=True), tmp_path=tmp_path, backend="planted_fault", fault=fault, op="tanh"
        )
        found[fault], _ = _verdict.examine(case)
    assert found["compile"].kind == "compile error" and found["compile"].type.endswith("PlantedCompileError")
    assert found["runtime"].kind == "run error" and found["runtime"].type.endswith("PlantedRuntimeError")
    assert found["wrong"].kind == found["nan"].kind == "accuracy" and "nan" in found["nan"].message
    assert not found["compile"].matches(found["runtime"]) and found["wrong"].matches(found["nan"])
    case, _ = case_of(f, torch.randn(4), tmp_path=tmp_path, backend="planted_fault", fault="wrong", op="cos")
    assert _verdict.examine(case)[0].kind == "passes"
    with pytest.raises(ValueError, match="planted_fault takes"):
        faults.planted_fault(None, [], options={"fault": "odd"})


def test_stages_of_any_backend(tmp_path):
    """A compiler behind AOTAutograd is reached through the backend, also by a script that runs alone."""

    def f(x):
        return (torch.ops.aten.tanh.default(x),)

    for stage in ("forward", "backward", "inference"):
        case, _ = case_of(f, torch.randn(3), tmp_path=tmp_path, stage=stage, backend="aot_eager")
        assert _verdict.examine(case)[0].kind == "passes"
    case, _ = case_of(f, torch.randn(3), tmp_path=tmp_path, stage="forward", backend="eager")
    verdict, _ = _verdict.examine(case)
    assert verdict.kind == "compile error" and "does not go through AOTAutograd" in verdict.message


# ---- watching


def watch(tmp_path, fault, op, stage, level, after="dynamo", layers=1, **environment):
    program = children.TESTS / "debug_programs.py"
    return python(
        program,
        fault,
        op,
        stage,
        layers,
        cwd=tmp_path,
        STATOR_REPRO_AFTER=after,
        STATOR_REPRO_LEVEL=str(level),
        **environment,
    )


@pytest.mark.skipif(stator._build_info.SANITIZED, reason="AddressSanitizer answers the signal itself")
def test_level_3_survives_a_crash(tmp_path):
    done = watch(tmp_path, "crash", "tanh", "dynamo", 3)
    assert done.returncode == -signal.SIGSEGV
    (script,) = checkpoints(tmp_path)
    case = _scripts.load(script)
    assert case.specimen.call_count() > 20 and len(case.load_inputs()) == len(case.specs)
    again = python(tmp_path / "repro.py", cwd=tmp_path)
    assert again.returncode == -signal.SIGSEGV, again.stderr
    # And it can be cut down, the last verdict being a signal again.
    cut = python("-m", "stator", "minify", tmp_path / "repro.py", cwd=tmp_path)
    assert (
        cut.returncode == 0 and "1 call of" in cut.stdout and "SIGSEGV" in cut.stdout and "2 of 2 times" in cut.stdout
    ), cut.stdout + cut.stderr


def test_level_2_and_minify(tmp_path):
    done = watch(tmp_path, "compile", "tanh", "dynamo", 2)
    assert done.returncode == 1 and "PlantedCompileError" in done.stderr and "python -m stator minify" in done.stderr
    assert len(checkpoints(tmp_path)) == 1
    script = str(tmp_path / "repro.py")
    report = stator.debug.minify(script)
    assert (report.calls_after, report.confirmed) == (1, 2), report
    with open(report.script) as file:
        text = file.read()
    assert "load.storage" not in text, "small enough to need no files"
    assert "debug_programs.py:" in text, "the user's line"


def test_level_4_finds_and_changes_nothing(tmp_path):
    plain = watch(tmp_path / "..", "wrong", "tanh", "dynamo", 1)
    done = watch(tmp_path, "wrong", "tanh", "dynamo", 4, STATOR_REPRO_ACCURACY_ERROR="0")
    assert done.returncode == 0 and done.stdout == plain.stdout, "results and gradients are those of an unwatched run"
    assert "differs from eager" in done.stderr and len(checkpoints(tmp_path)) == 1
    assert _scripts.load(checkpoints(tmp_path)[0]).failure.kind == "accuracy"
    right = watch(tmp_path, "wrong", "cos", "dynamo", 4)
    assert right.returncode == 0 and "differs" not in right.stderr and len(checkpoints(tmp_path)) == 1
    raised = watch(tmp_path, "wrong", "tanh", "dynamo", 4)
    assert raised.returncode == 1 and "stator.exc.AccuracyError: a compiled graph (dynamo) differs" in raised.stderr
    assert "a script that shows this" in raised.stderr


def test_watching_in_this_process(tmp_path, monkeypatch):
    """Levels by config; compile errors with fake inputs; a local backend can be named or not."""
    monkeypatch.chdir(tmp_path)
    stator.reset()

    def f(x):
        return torch.tanh(x) + 1

    with stator.config.patch(repro_after="aot", repro_level=1):
        options = {"fault": "compile", "op": "tanh", "stage": "forward"}
        with pytest.raises(stator.exc.BackendCompilerFailed):
            stator.compile(f, backend="planted_fault", options=options)(torch.randn(3, requires_grad=True))
    (script,) = checkpoints(tmp_path)
    case = _scripts.load(script)
    assert case.stage == "forward" and case.failure.kind == "compile error"
    assert all(isinstance(s.storage, _inputs.RandomStorage) for s in case.specs.values()), "fake inputs have no values"
    assert _verdict.examine(case)[0].matches(case.failure)
    with pytest.raises(ValueError, match="did you mean 'dynamo'"):
        stator.config.repro_after = "dynam"


def test_a_backend_in_the_program_itself(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, stator\n"
        "LIMIT = 3\n"
        "def backend(gm, inputs):\n"
        "    if len(gm.graph.nodes) > LIMIT:\n"
        "        raise ValueError('too much')\n"
        "    return gm.forward\n"
        "print('the program')\n"
        "stator.compile(lambda x: torch.tanh(x) + 1, backend=backend)(torch.ones(2))\n"
    )
    python(program, cwd=tmp_path, STATOR_REPRO_AFTER="dynamo", STATOR_REPRO_LEVEL="1")
    case = _scripts.load(str(tmp_path / "repro.py"))
    assert case.backend.text == f"{program}:backend" and case.failure.type == "ValueError"
    found = python(tmp_path / "repro.py", cwd=tmp_path)
    assert found.returncode == 1 and "too much" in found.stderr and "the program" not in found.stdout, found.stderr


SYMBOLIC = """
import sys, torch, stator
def f(x, n):
    y = x.view(x.shape[0] * x.shape[1], -1) * n
    z = torch.tanh(y) + torch.arange(y.shape[0]).view(-1, 1)
    return z.reshape(x.shape[0], -1).softmax(-1).sum(0) + x.shape[0]
options = {"fault": sys.argv[1], "op": "tanh", "stage": sys.argv[2], "when": sys.argv[3]}
net = stator.compile(f, backend="planted_fault", dynamic=True, options=options)
for rows in (3, 5):
    net(torch.randn(rows, 4, 6, requires_grad=True), rows + 4).sum().backward()
"""


@pytest.mark.parametrize(
    "fault, stage, when",
    [("wrong", "dynamo", "symbolic"), ("compile", "forward", "symbolic"), ("wrong", "dynamo", "always")],
)
def test_graphs_with_symbolic_sizes(tmp_path, fault, stage, when):
    """A fault that needs symbols keeps them, all the way down; one that does not loses them."""
    (tmp_path / "program.py").write_text(SYMBOLIC)
    after = "dynamo" if stage == "dynamo" else "aot"
    level = "4" if fault == "wrong" else "1"
    python(
        tmp_path / "program.py", fault, stage, when, cwd=tmp_path, STATOR_REPRO_AFTER=after, STATOR_REPRO_LEVEL=level
    )
    case = _scripts.load(str(tmp_path / "repro.py"))
    assert case.stage == stage and any(isinstance(shape, tuple) for shape in case.shapes.values()), case.shapes
    assert any(isinstance(shape, str) for shape in case.shapes.values()), "ints are symbols too"
    report = stator.debug.minify(str(tmp_path / "repro.py"))
    assert (report.calls_after, report.confirmed) == (1, 2), report
    with open(report.script) as file:
        text = file.read()
    assert ("sizes=(" in text) == (when == "symbolic") and "load.symbol" not in text, text


HIGHER_ORDER = """
import sys, torch, stator
from torch.utils.checkpoint import checkpoint
def block(x, w):
    return torch.tanh(x @ w) * 2
def f(x, w, p):
    y = checkpoint(block, x, w, use_reentrant=False)
    z = torch.cond(p, lambda a: a.sin() + 1, lambda a: a.cos(), (y,))
    return (torch.relu(z) + y).sum()
options = {"fault": "wrong", "op": sys.argv[1], "stage": sys.argv[2]}
x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
stator.compile(f, backend="planted_fault", options=options, fullgraph=True)(x, w, torch.tensor(True)).backward()
"""


@pytest.mark.parametrize("op, stage", [("relu", "dynamo"), ("tanh", "dynamo"), ("sin", "forward")])
def test_graphs_that_call_functions(tmp_path, op, stage):
    """Higher-order operators: their bodies are functions of the script, and are inlined if the fault is inside."""
    (tmp_path / "program.py").write_text(HIGHER_ORDER)
    after = "dynamo" if stage == "dynamo" else "aot"
    python(tmp_path / "program.py", op, stage, cwd=tmp_path, STATOR_REPRO_AFTER=after, STATOR_REPRO_LEVEL="4")
    text = (tmp_path / "repro.py").read_text()
    assert "torch.ops.higher_order.cond(" in text and text.count("\ndef ") >= 5, text
    case = _scripts.load(str(tmp_path / "repro.py"))
    assert _scripts.load(_scripts.write(case, str(tmp_path / "again.py"))).specimen.hash() == case.specimen.hash()
    assert case.stage == stage and _verdict.examine(case)[0].kind == "accuracy"
    report = stator.debug.minify(str(tmp_path / "repro.py"))
    assert (report.calls_after, report.confirmed) == (1, 2), report
    small = _scripts.load(report.script)
    assert [_text.short_name(call[1]) for call in small.specimen.calls()] == [op]


def test_operators_and_functions_of_the_program_itself(tmp_path):
    (tmp_path / "program.py").write_text(
        "import torch, stator\n"
        "@torch.library.custom_op('ours::double', mutates_args=())\n"
        "def double(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x * 2\n"
        "@double.register_fake\n"
        "def _(x):\n"
        "    return torch.empty_like(x)\n"
        "@stator.allow_in_graph\n"
        "def thrice(x):\n"
        "    return x * 3\n"
        "print('the program')\n"
        "options = {'fault': 'wrong', 'op': 'thrice'}\n"
        "stator.compile(lambda x: thrice(double(x) + 1) - 1, backend='planted_fault', options=options)(torch.ones(2))\n"
    )
    python(tmp_path / "program.py", cwd=tmp_path, STATOR_REPRO_AFTER="dynamo", STATOR_REPRO_LEVEL="4")
    found = python(tmp_path / "repro.py", cwd=tmp_path)
    assert found.returncode == 1 and "a wrong result" in found.stderr and "the program" not in found.stdout, (
        found.stderr
    )
    report = stator.debug.minify(str(tmp_path / "repro.py"))
    assert (report.calls_after, report.confirmed) == (1, 2), report


# ---- bad input


@pytest.fixture
def script(tmp_path):
    case, run = case_of(lambda x: torch.tanh(x) * 2, torch.randn(4), tmp_path=tmp_path)
    return _scripts.write(case, str(tmp_path / "repro.py"))


def edited(script, old, new):
    with open(script) as file:
        text = file.read()
    assert old in text
    with open(script, "w") as file:
        file.write(text.replace(old, new))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("torch.tanh(", "torch.tanhh(", r"line \d+: torch.tanhh: AttributeError"),
        ("return (", "return [(", r"line \d+: "),
        ("FORMAT = 2", "FORMAT = 99", "format 99"),
        ("STAGE = 'dynamo'", "STAGE = 'odd'", "'odd', and there are dynamo"),
        ("FAILURE = {", "FAILURE = 3 or {", "FAILURE is missing or no dict"),
        ("def forward", "def foreward", "no function `forward`"),
        ("def inputs", "def outputs", "no function `inputs`"),
        ("    return [l_x_]", "    return []", "inputs.. gives 0 values, forward takes 1"),
        ("    tanh = ", "    tanh, other = ", r"line \d+: expected `name = call"),
    ],
)
def test_scripts_edited_by_hand(script, old, new, message):
    edited(script, old, new)
    with pytest.raises(ScriptError, match=message):
        _scripts.load(script)


def test_good_edits_are_taken(script):
    edited(script, "    return (mul,)", "    more = (mul - 1).relu()\n    return (more,)")
    case = _scripts.load(script)
    (x,) = case.load_inputs()
    assert torch.equal(case.specimen.runner()(x)[0], (torch.tanh(x) * 2 - 1).relu())


def test_values_missing_truncated_or_foreign(script, tmp_path):
    case = _scripts.load(script)
    (path,) = [os.path.join(case.folder, n) for n in os.listdir(case.folder) if case.specs["l_x_"].storage.digest in n]
    with open(path, "rb") as file:
        data = file.read()
    for wrong, message in [(data[:100], "truncated or damaged"), (b"", "truncated or damaged"), (None, "is missing")]:
        if wrong is None:
            os.unlink(path)
        else:
            with open(path, "wb") as file:
                file.write(wrong)
        with pytest.raises(InputsError, match=message):
            case.load_inputs()
    torch.save(torch.zeros(16, dtype=torch.uint8), path)
    with pytest.raises(InputsError, match="does not hold what its name says"):
        case.load_inputs()
    done = python(script, cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") <= 2 and "does not hold" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "pattern, new, message",
    [
        (r"'[0-9a-f]{40}'", "'../../../secret'", "no name of values"),
        (r"'[0-9a-f]{40}'", "'/dev/zero'", "no name of values"),
        (r"(storage\('[0-9a-f]{40}', )\d+", r"\g<1>10**30", "does not hold|larger than"),
        (r"\(4,\)", "(4000000,)", "reaches beyond"),
        (r"\(4,\), \(1,\)", "(4,), (-1,)", "reaches beyond"),
    ],
)
def test_scripts_that_lead_out(script, tmp_path, pattern, new, message):
    """Other files, other sizes: an error, and nothing outside of the folder is read."""
    with open(script) as file:
        text = file.read()
    changed = re.sub(pattern, new, text)
    assert changed != text, text
    with open(script, "w") as file:
        file.write(changed)
    with pytest.raises((InputsError, ScriptError), match=message):
        _scripts.load(script).load_inputs()


def test_values_that_are_no_file(script):
    """A pipe nobody writes to, a folder, a file of another size."""
    case = _scripts.load(script)
    (path,) = [os.path.join(case.folder, n) for n in os.listdir(case.folder) if case.specs["l_x_"].storage.digest in n]
    os.unlink(path)
    for make in (lambda: os.mkfifo(path), lambda: os.mkdir(path), lambda: open(path, "wb").truncate(1 << 40)):
        make()
        with pytest.raises(InputsError, match="no file, or larger"):
            case.load_inputs()
        os.rmdir(path) if os.path.isdir(path) else os.unlink(path)


def test_random_values_without_end(script):
    spec = _inputs.RandomStorage(seed=0, dtype=torch.float32, count=1 << 60, low=0.0, high=1.0)
    with pytest.raises(InputsError, match="cannot be made"):
        _inputs.random_values(spec)


def test_nothing_foreign_is_overwritten(script, tmp_path, caplog):
    case = _scripts.load(script)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "repro.py").write_text("print('mine')\n")
    assert _scripts.write_convenient(case, str(tmp_path / "mine")) is None and "left as it is" in caplog.text
    assert (tmp_path / "mine" / "repro.py").read_text() == "print('mine')\n"
    (tmp_path / "minified.py").write_text("mine\n")
    with pytest.raises(ScriptError, match="name another file"):
        _minify._final(case, script, None, None)


def test_disk_full_or_folder_unwritable(script, monkeypatch, caplog, tmp_path):
    """A program that is watched goes on, whatever happens to the files; half a file is never left."""
    case = _scripts.load(script)
    before = open(script).read()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError):
            _scripts.write(case.changed(stage="forward"), script)
    assert open(script).read() == before and not [n for n in os.listdir(tmp_path) if n.startswith(".writing")]
    stator.reset()
    monkeypatch.setenv("STATOR_DEBUG_DIR", "/proc/nowhere")
    with stator.config.patch(repro_after="dynamo", repro_level=3):
        f = stator.compile(lambda x: torch.relu(x) + 1, backend="planted_fault", options={"op": "cos"})
        assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
    assert "no repro was written" in caplog.text
    assert python("-m", "stator", "minify", tmp_path / "none.py", cwd=tmp_path).stderr.startswith("stator: ")


def test_folder_that_cannot_be_written_to(script, monkeypatch, caplog, tmp_path):
    """Scripts go to the folder of temporary files then, which a warning names."""
    monkeypatch.delenv("STATOR_DEBUG_DIR", raising=False)
    monkeypatch.setattr(_scripts.os, "access", lambda path, mode: False)
    monkeypatch.setattr(_scripts.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    run = _scripts.Run()
    assert run.folder.startswith(str(tmp_path / "temporary")) and "cannot be written to" in caplog.text
    assert os.path.exists(_scripts.write_case(_scripts.load(script), run, convenient=False))


def test_a_watched_error_at_run_time_comes_out(tmp_path):
    """Behind the script; where errors are suppressed the graph runs as captured, and that a script was written does not
    get in its way."""
    (tmp_path / "program.py").write_text(
        "import torch, stator\n"
        "f = stator.compile(lambda x: torch.tanh(x) + 1, backend='planted_fault', options={'fault': 'runtime', 'op': 'tanh'})\n"
        "print(torch.equal(f(torch.ones(2)), torch.tanh(torch.ones(2)) + 1))\n"
    )
    watched = {"STATOR_REPRO_AFTER": "dynamo", "STATOR_REPRO_LEVEL": "1"}
    done = python(tmp_path / "program.py", cwd=tmp_path, **watched)
    assert done.returncode == 1 and done.stdout == "" and len(checkpoints(tmp_path)) == 1
    assert "PlantedRuntimeError: planted" in done.stderr and "a script that shows this" in done.stderr
    assert "raised by the compiled graph __compiled_fn_0 of backend 'planted_fault'" in done.stderr
    done = python(tmp_path / "program.py", cwd=tmp_path, STATOR_SUPPRESS_ERRORS="1", STATOR_STRICT="0", **watched)
    assert done.returncode == 0 and done.stdout == "True\n", done.stdout + done.stderr
    assert done.stderr.count("failed when it ran") == 1, done.stderr


def test_no_failure_is_said(script, tmp_path):
    done = python("-m", "stator", "minify", script, cwd=tmp_path)
    assert done.returncode == 3 and "agree with eager" in done.stderr, done.stderr


# ---- the whole program


def test_check_names_graph_value_and_line():
    class Program(torch.nn.Module):
        def forward(self, x):
            x = torch.relu(x) + 1
            if x.sum() > 0:  # a branch on data: the second graph starts here
                x = x * 2
                x = torch.tanh(x)  # the wrong one
                x = x - 1
            return torch.cos(x)

    model, x = Program(), torch.randn(4, 5)
    state = torch.get_rng_state()
    report = stator.debug.check(model, x, backend="planted_fault", options={"fault": "wrong", "op": "tanh"})
    assert not report and report.graph == 1 and report.graphs == 2 and report.target == "tanh", report
    assert re.search(r"test_debug.py:\d+ in forward: x = torch.tanh\(x\)", report.line), report.line
    assert "max abs" in report.difference and torch.equal(state, torch.get_rng_state())
    assert stator.debug.check(model, x, backend="planted_fault", options={"fault": "wrong", "op": "sin"})
    assert stator.debug.check(model, x, backend="aot_eager")
