"""Requests that TorchDynamo's users make: settings and variables do what they say, or are answered."""

import logging
import os
import pathlib
import subprocess
import sys
import warnings

import numpy
import pytest
import torch
from torch import nn

import stator
from stator import _answers, config

X = torch.arange(6.0).reshape(2, 3)


class Seen:
    def __init__(self):
        self.graphs = []

    def __call__(self, module, inputs):
        self.graphs.append(module)
        return module.forward

    def calls(self):
        return [str(n.target) for m in self.graphs for n in m.graph.nodes if n.op in ("call_function", "call_method")]


@pytest.fixture(autouse=True)
def afresh():
    stator.reset()
    _answers.forget()


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


# ---- guards


def test_a_guard_filter_sees_what_torch_s_filters_look_at():
    given = []

    def keep(entries):
        given.extend(entries)
        return [True] * len(entries)

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.factor = nn.Linear(3, 3), 2

        def forward(self, x):
            return self.linear(x) * self.factor

    stator.compile(Own(), backend="eager", options={"guard_filter_fn": keep})(X)
    tensors = {e.name: e for e in given if e.guard_type == "TENSOR_MATCH"}
    assert torch.equal(tensors["L['x']"].value, X) and not tensors["L['x']"].is_global
    weights = [e for e in tensors.values() if isinstance(e.value, nn.Parameter)]
    assert len(weights) == 2 and all(e.orig_guard.source.is_unspecialized_builtin_nn_module() for e in weights)
    (factor,) = (e for e in given if e.guard_type == "EQUALS_MATCH" and e.name.endswith(".factor"))
    assert factor.value == 2 and factor.orig_guard.source.is_unspecialized_nn_module()
    assert not factor.orig_guard.source.is_unspecialized_builtin_nn_module()


def test_a_guard_filter_that_is_wrong():
    for answer, error in ((lambda entries: [True], ValueError), (lambda entries: 1 / 0, ZeroDivisionError)):
        stator.reset()
        with pytest.raises(error):
            stator.compile(lambda x: x + 1, backend="eager", options={"guard_filter_fn": answer})(X)


def test_shapes_alone():
    """How vLLM uses it: what holds between sizes is checked, nothing else."""
    seen = Seen()

    def only_shapes(entries):
        return [entry.guard_type == "SHAPE_ENV" for entry in entries]

    compiled = stator.compile(
        lambda x, k: x * k if x.shape[0] > 3 else x,
        backend=seen,
        dynamic=True,
        options={"guard_filter_fn": only_shapes},
    )
    assert torch.equal(compiled(torch.ones(5, 2), 2), torch.full((5, 2), 2.0))
    compiled(torch.ones(7, 2), 2)
    assert len(seen.graphs) == 1
    assert torch.equal(compiled(torch.ones(3, 2), 2), torch.ones(3, 2)), "another branch"
    assert len(seen.graphs) <= 2


def test_guards_of_modules_can_be_left_out():
    for guarded in (True, False):
        stator.reset()
        seen, model = Seen(), nn.Sequential(nn.Dropout(0.0), nn.Linear(3, 3))
        with config.patch(guard_nn_modules=guarded):
            compiled = stator.compile(lambda x, m=model: m(x) + 1, backend=seen)
            compiled(X)
            model.eval()
            compiled(X)
        assert len(seen.graphs) == (2 if guarded else 1)


def test_a_static_address_is_guarded():
    seen, first, second = Seen(), torch.ones(3), torch.full((3,), 2.0)
    for each in (first, second):
        stator.mark_static_address(each, guard=True)
    compiled = stator.compile(lambda x, t: x + t, backend=seen)
    for each in (first, first, second, first):
        assert torch.equal(compiled(X, each), X + each)
    assert len(seen.graphs) == 2
    writes = stator.compile(lambda x, t: t.add_(x.sum()), backend=seen)
    writes(X, first)
    assert torch.equal(first, torch.full((3,), 16.0)), "one that is written to stays an input"


# ---- settings


def test_suppress_errors():
    def fails(module, inputs):
        raise ValueError("no kernel")

    with config.patch(suppress_errors=True):
        with pytest.warns(UserWarning, match="'fails' failed .ValueError: no kernel.*suppress_errors"):
            assert torch.equal(stator.compile(lambda x: x + 1, backend=fails)(X), X + 1)
        with pytest.raises(stator.exc.BackendCompilerFailed):
            stator.compile(lambda x: x + 1, backend=fails, fullgraph=True)(X)
    out, err = run(
        "import torch, stator\ndef fails(m, i): raise ValueError('no kernel')\n"
        "print(stator.compile(lambda x: x + 1, backend=fails)(torch.ones(2)))",
        TORCHDYNAMO_SUPPRESS_ERRORS="1",
    )
    assert "tensor([2., 2.])" in out and "no kernel" in err


def test_specialize_int():
    for special in (False, True):
        stator.reset()
        seen = Seen()
        with config.patch(specialize_int=special):
            compiled = stator.compile(lambda x, n: x * n, backend=seen)
            for n in (3, 4, 5):
                assert torch.equal(compiled(X, n), X * n)
        assert len(seen.graphs) == (3 if special else 2)


def test_verbose():
    def inner(x):
        print("", end="")
        return x

    def f(x):
        return inner(x + 1) * 2

    texts = []
    for verbose in (False, True):
        stator.reset()
        with config.patch(verbose=verbose), pytest.raises(stator.exc.Unsupported) as caught:
            stator.compile(f, backend="eager", fullgraph=True)(X)
        texts.append(str(caught.value))
    assert texts[1].startswith(texts[0]) and all("return inner(x + 1) * 2" in text for text in texts)
    callers = texts[1].removeprefix(texts[0])
    assert (
        "The compiled function was called by:" in callers
        and "in test_verbose" in callers
        and "_report.py" not in callers
    )


def test_ignored_functions(capsys):
    def f(x):
        y = x + 1
        print("shown")
        return y * 2

    for ignored in (True, False):
        stator.reset()
        seen = Seen()
        with config.patch(ignore_logging_functions={print} if ignored else set()):
            assert torch.equal(stator.compile(f, backend=seen)(X), (X + 1) * 2)
        assert len(seen.graphs) == (1 if ignored else 2)
        assert capsys.readouterr().out == ("" if ignored else "shown\n")


def test_ignored_loggers(caplog):
    quiet, loud = logging.getLogger("quiet"), logging.getLogger("loud")

    def f(x):
        y = x + 1
        quiet.warning("never")
        loud.warning("always")
        return y * 2

    seen = Seen()
    with config.patch(ignore_logging_functions={quiet.warning}):
        assert torch.equal(stator.compile(f, backend=seen)(X), (X + 1) * 2)
    assert "always" in caplog.text and "never" not in caplog.text
    stator.reset()
    caplog.clear()
    with config.patch(ignore_logging_functions={logging.Logger.warning}):
        stator.compile(f, backend=seen, fullgraph=True)(X)
    assert not caplog.text


def test_reordered_functions(capsys):
    def f(x):
        y = x + 1
        print("y is", y, end="!\n")
        z = y * 2
        print("z")
        return z

    f(X)
    eager = capsys.readouterr().out
    seen = Seen()
    with config.patch(reorderable_logging_functions={print}):
        compiled = stator.compile(f, backend=seen, fullgraph=True)
        for _ in range(3):
            assert torch.equal(compiled(X), (X + 1) * 2)
            assert capsys.readouterr().out == eager
    assert len(seen.graphs) == 1


def test_texts_of_tensors_in_reordered_functions(capsys):
    def f(x):
        y = x + 1
        print(f"{y}", f"{y[0, 0]:.3f}|{y.sum()!r:>20}|{x.shape[0]}", "z", sep="\\n")
        warnings.warn(f"sum {y.sum()}", stacklevel=1)
        return y * 2

    def told(function):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            result = function(X)
        return result.tolist(), capsys.readouterr().out, [str(one.message) for one in given]

    seen = Seen()
    with config.patch(reorderable_logging_functions={print, warnings.warn}):
        whole = stator.compile(f, backend=seen, fullgraph=True)
        for _ in range(3):
            assert told(whole) == told(f)
        assert len(seen.graphs) == 1

        def g(x):
            text = f"{x + 1}"  # it goes elsewhere too: read as ever
            print(text)
            return x + len(text)

        assert told(stator.compile(g, backend="eager")) == told(g)


def test_ignored_levels():
    log = logging.getLogger("stator.test.ignored")

    def f(x):
        y = x + 1
        if log.isEnabledFor(logging.WARNING):
            log.warning("said")
        return y

    seen, given = Seen(), []
    log.addFilter(lambda record: given.append(record) or False)
    with config.patch(ignore_logging_functions={log.isEnabledFor}):
        assert torch.equal(stator.compile(f, backend=seen, fullgraph=True)(X), X + 1)
    assert len(seen.graphs) == 1 and not given
    with config.patch(ignore_logging_functions={logging.getLogger("another").isEnabledFor}):
        assert torch.equal(stator.compile(f, backend="eager")(X), X + 1)
    assert len(given) == 1


def test_numpy_can_be_left_out():
    def f(x):
        y = x + 1
        z = numpy.sin(y.numpy())
        return torch.from_numpy(z) * 2

    for traced in (True, False):
        stator.reset()
        seen = Seen()
        with config.patch(trace_numpy=traced):
            assert torch.allclose(stator.compile(f, backend=seen, fullgraph=traced)(X), (X + 1).sin() * 2)
            names = {one.name for one in stator.explain(f)(X).breaks}
        assert len(seen.graphs) == (1 if traced else 2) and names == (set() if traced else {"kCallsOutside"})


def test_verify_correctness():
    def wrong(module, inputs):
        return lambda *args: [out + 1 for out in module.forward(*args)]

    def right(module, inputs):
        return lambda *args: module.forward(*args)

    with config.patch(verify_correctness=True):
        assert torch.equal(stator.compile(lambda x: x * 2, backend=right)(X), X * 2)
        with pytest.raises(RuntimeError, match="incorrect results of backend 'wrong'"):
            stator.compile(lambda x: x * 2, backend=wrong)(X)


def test_dynamic_sources():
    out, _ = run(
        """
import torch, stator
seen = []
def backend(m, i): seen.append(m); return m.forward
f = stator.compile(lambda x, y: x.sum() * x.shape[0] + y.sum() * y.shape[1], backend=backend)
for n in (5, 6, 7): f(torch.ones(n, 3), torch.ones(3, 4))
print(len(seen), sum(isinstance(n.meta.get("example_value"), torch.SymInt) for n in seen[0].graph.nodes) > 0)
""",
        TORCH_COMPILE_DYNAMIC_SOURCES="L['x']:0",
    )
    assert out.strip() == "1 True"


def test_override_backends():
    out, _ = run(
        """
import torch, stator
seen = []
def backend(m, i): seen.append(m.meta["backend_id"]); return m.forward
f = stator.compile(lambda x: (x + 1, print("", end=""))[0] * 2, backend=backend)
print(f(torch.ones(2)).tolist(), seen)
""",
        TORCH_COMPILE_OVERRIDE_BACKENDS="0:eager;>5:aot_eager",
    )
    assert out.strip() == "[4.0, 4.0] ['__compiled_fn_1']"
    for rule in ("x:eager", "0"):
        with config.patch(debug_backend_override=rule), pytest.raises(ValueError, match="not like"):
            stator.compile(lambda x: x + 1, backend=Seen())(X)
    with config.patch(debug_backend_override=">=0:nosuch;"), pytest.raises(stator.exc.InvalidBackend, match="nosuch"):
        stator.compile(lambda x: x + 2, backend="eager")(X)


def test_a_variable_that_is_none_of_stator_s():
    _, err = run("import stator", STATOR_STRCT="1", STATOR_TEST_OWN="1", STATOR_STRICT="1")
    assert "the environment variable STATOR_STRCT is none of Stator's; did you mean STATOR_STRICT?" in err
    assert err.count("Warning") == 1, err
    _, err = run("import stator", TORCHDYNAMO_SUPRESS_ERRORS="1", TORCH_COMPILE_DEBUG_DIR="x", TORCHDYNAMO_OTHER="1")
    assert "TORCHDYNAMO_SUPRESS_ERRORS is unknown; did you mean TORCHDYNAMO_SUPPRESS_ERRORS?" in err
    assert err.count("Warning") == 1, err


def test_debug_folder(tmp_path):
    _, err = run(
        "import torch, stator\nstator.compile(lambda x: x + 1, backend='aot_eager')(torch.ones(2))",
        TORCH_COMPILE_DEBUG="1",
        TORCH_COMPILE_DEBUG_DIR=str(tmp_path),
    )
    (log,) = pathlib.Path(tmp_path).glob("torch_compile_debug/run_*/stator/debug.log")
    text = log.read_text()
    assert str(log.parent) in err and "TRACED GRAPH" not in err
    for told in ("TRACED GRAPH", "Tensor, float32, [2]", "ORIGINAL BYTECODE"):
        assert told in text, told


def test_callbacks_and_times():
    from torch._dynamo import callback, utils

    told = []

    def starts(args):
        told.append(("start", args.callback_trigger.name, args.compile_id))

    def ends(args):
        told.append(("end", args.callback_trigger.name, args.compile_id))

    callback.callback_handler.register_start_callback(starts)
    callback.callback_handler.register_end_callback(ends)
    utils.compilation_time_metrics.clear()
    try:

        def f(x):
            y = x + 1
            print(end="")
            return y * 2

        compiled = stator.compile(f, backend="aot_eager")
        for _ in range(2):
            assert torch.equal(compiled(X), f(X))
        assert [one[0] for one in told] == ["start", "end"] * 2 and {one[1] for one in told} == {"DYNAMO"}
        assert told[0][2] == told[1][2] != told[2][2] == told[3][2]
        assert len(utils.compilation_time_metrics["stator: capture and backend"]) == 2
        assert len(utils.compilation_time_metrics["stator: backend"]) == 2
        assert "stator: backend" in utils.compile_times()

        def fails(args):
            raise ValueError("of the callback")

        callback.callback_handler.register_start_callback(fails)
        with pytest.raises(ValueError, match="of the callback"):
            stator.compile(lambda x: x + 3, backend="eager")(X)
        callback.callback_handler.remove_start_callback(fails)
        with pytest.raises(stator.exc.Unsupported):  # the end is told of captures that fail
            stator.compile(f, backend="eager", fullgraph=True)(X)
        assert told[-1][0] == "end"
    finally:
        callback.callback_handler.start_callbacks.clear()
        callback.callback_handler.end_callbacks.clear()


# ---- errors


def test_a_backward_that_fails_says_whose_it_is():
    from torch._dynamo.backends.common import aot_autograd

    def fails(module, inputs):
        def run(*args):
            raise ValueError("no kernel for backward")

        return run

    backend = aot_autograd(fw_compiler=lambda module, inputs: module.forward, bw_compiler=fails)
    x = X.clone().requires_grad_()
    out = stator.compile(lambda x: x.sin().sum(), backend=backend)(x)
    with pytest.raises(ValueError, match="no kernel for backward") as caught:
        out.backward()
    (note,) = caught.value.__notes__
    assert (
        "the backward of the compiled graph __compiled_fn_" in note
        and "repro_after" in note
        and "test_answers.py" in note
    )


def test_graphs_know_the_whole_chain_of_calls():
    def innermost(x):
        print("", end="")
        return x

    def middle(x):
        return innermost(x * 2)

    def outer(x):
        return middle(x + 1) * 3

    seen = Seen()
    stator.compile(outer, backend=seen)(X)
    reason = seen.graphs[0].compile_subgraph_reason
    assert [frame.name for frame in reason.user_stack] == ["outer", "middle", "innermost"]
    lines = [function.__code__.co_firstlineno + 1 for function in (outer, middle, innermost)]
    assert [frame.lineno for frame in reason.user_stack] == lines


# ---- logs

LOGGED = """
import torch, stator
NOTED = []
def inner(y):
    return y + 1
def f(x, k):
    NOTED.append(k)
    y = inner(x.sin())
    print("", end="")
    return y * k * x.shape[0]
compiled = stator.compile(f, backend="eager")
for n, k in ((5, 2.0), (6, 2.0), (6, 3.0)): compiled(torch.ones(n, 2), k)
"""
WORDS = {
    "bytecode": ["ORIGINAL BYTECODE", "LOAD_FAST", "PLAN"],
    "graph": ["TRACED GRAPH", "opcode", "call_method", "placeholder"],
    "graph_code": ["TRACED GRAPH", "def forward(self"],
    "graph_code_verbose": ["TRACED GRAPH", '"f32[5, 2][2, 1]cpu"'],
    "graph_sizes": ["TRACED GRAPH TENSOR SIZES", "(5, 2)"],
    "trace_source": ["TRACE starts_line", "y = inner(x.sin())", "(inline depth: 1)"],
    "trace_call": ["TRACE inlined call inner from", "TRACE FX call sin from", "in f (f)\n", "~^~"],
    "trace_bytecode": ["TRACE LOAD_FAST y []", "TRACE RETURN_VALUE None ["],
    "recompiles": ["captured once more", "L['x'].size(0): was 5, is 6"],
    "recompiles_verbose": ["guards that fail", "entry 0:", "L['x'].size(0): was 5, is 6"],
    "dynamo": ["f (", "captured, 2 operations, ", " ms of which the backend ", "[0/0]"],
    "side_effects": ["side effects, when the graph has run", "NOTED"],
    "graph_region_expansion": ["no part of the graph repeats"],
    "verbose_guards": ["L['x']: Tensor, float32, [5, 2]"],
    "guards": ["L['x']: Tensor, float32, [5, 2]", "[program.py:"],
    "sym_node": ["SymInt of L['x'].size(0), hint 6"],
    "trace_shape_events": ["create_symbol s0 = 6 for L['x'].size(0)"],
    "dynamic": ["create_symbol s0 = 6: L['x'].size(0) is a symbol", "in f"],
    "graph_breaks": ["calls a function", "What to do:", "User code traceback", 'print("", end="")'],
}


@pytest.mark.parametrize("word", WORDS)
def test_words_of_torch_logs(word, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(LOGGED)
    done = subprocess.run(
        [sys.executable, str(path)], env={**os.environ, "TORCH_LOGS": word}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for text in WORDS[word]:
        assert text in done.stderr, (text, done.stderr[:3000])
    assert "program.py" in done.stderr or word.startswith("graph") or word == "trace_bytecode"


def test_every_variable_of_torchs_config_is_followed_or_answered(monkeypatch):
    """Those that torch._dynamo.config and torch.compiler.config read: none is ignored without a word."""
    import inspect
    import re

    import torch.compiler.config

    from stator import _answers, _dynamo_settings, _torch_config

    names = set()
    for module in (torch._dynamo.config, torch.compiler.config):
        text = inspect.getsource(module)
        names.update(re.findall(r'"((?:TORCH|PT2|UNSAFE)[A-Z0-9_]+)"', text))
    ours = {also for entry in stator.config._ENTRIES.values() for also in entry.also}
    # read by what torch's own parts do: lazy FX modules, FakeTensor's cache, inductor's settings, caches and CUDA
    # graphs
    of_torch = {
        name
        for name in names
        if re.search(r"LAZY_GRAPH|FAKE_TENSOR|INDUCTOR|CACHES|CACHE_KEY|CUDAGRAPH|DEBUG_DIR", name)
    }
    assert names - ours - of_torch - set(_dynamo_settings.VARIABLES) == set()
    for variable in _dynamo_settings.VARIABLES:
        monkeypatch.setenv(variable, "1")
    _answers.forget()
    _torch_config.answer_variables.cache_clear()
    with pytest.warns(UserWarning, match="has no effect under Stator") as said:
        stator.compile(lambda x: x, backend="eager")
    told = " ".join(str(one.message) for one in said)
    assert [variable for variable in _dynamo_settings.VARIABLES if f"{variable}=1" not in told] == []


def test_who_watches_inlining_is_told(monkeypatch):
    """vLLM keeps what it compiled for as long as these functions' files do not change."""
    import torch._dynamo.symbolic_convert as theirs

    kind, seen = theirs.InliningInstructionTranslator, []
    before = kind.inline_call_

    def watching(translator):
        seen.append(translator.f_code)
        return before(translator)

    def inner(x):
        return x + 1

    monkeypatch.setattr(kind, "inline_call_", watching)
    compiled = stator.compile(lambda x: inner(x) * 2, backend="eager")
    assert torch.equal(compiled(X), (X + 1) * 2) and inner.__code__ in seen


# ---- slips of the hand


SLIPS = {
    "fullgraph is True or False": lambda: stator.compile(len, fullgraph="no"),
    "disable is True or False": lambda: stator.compile(len, disable="no"),
    "isolate_recompiles is True or False": lambda: stator.compile(len, isolate_recompiles="no"),
    "name is a text": lambda: stator.compile(len, name=3),
    "options['guard_filter_fn'] is a callable": lambda: stator.compile(
        torch.sin, backend="eager", options={"guard_filter_fn": 3}
    ),
    "options['use_aoti'] is True or False": lambda: stator.compile(
        torch.sin, backend="eager", options={"use_aoti": "yes"}
    ),
    "min is an int": lambda: stator.mark_dynamic(torch.ones(4), 0, min="2"),
    "recursive is True or False": lambda: stator.disable(len, recursive="no"),
    "error_on_graph_break takes True or False": lambda: stator.error_on_graph_break("yes"),
    "explain takes a callable": lambda: stator.explain(3),
}


@pytest.mark.parametrize("text", SLIPS)
def test_an_argument_of_another_type_is_refused_by_its_name(text):
    with pytest.raises(TypeError) as caught:
        SLIPS[text]()
    assert text in str(caught.value)


def test_what_is_nearly_right_is_named():
    with pytest.raises(stator.exc.InvalidBackend, match="Did you mean 'eager'"):
        stator.set_stance("default", force_backend="egaer")
    with pytest.warns(UserWarning, match="ignores options .'guard_filter'.; did you mean 'guard_filter_fn'"):
        stator.compile(torch.sin, backend="eager", options={"guard_filter": None})(X)
    with pytest.warns(UserWarning, match="use_aoti.*the backend is not inductor"):
        stator.compile(torch.sin, backend="eager", options={"use_aoti": True})
