"""Every public name of torch.compile, torch.compiler and torch._dynamo, and every entry of torch._dynamo.config, is
tried under stator.install(): it works, it differs, or it answers; none is silent. docs/NAMES.md is made of the same
tables."""

import functools
import inspect
import pathlib
import re
import subprocess
import sys
import warnings

import numpy
import pytest
import torch
import torch._dynamo
from torch import nn

import children
import stator
from stator import _answers, _dynamo_settings, _torch_config, _torch_names, _torch_versions, config

TORCH = pathlib.Path(torch.__file__).parent
DESCRIBED = _torch_versions.VERSION == _torch_versions.DESCRIBED  # what the tables are about


@pytest.fixture(autouse=True)
def under_install():
    stator.install()
    stator.reset()
    _answers.forget()
    yield
    stator.uninstall()


class Seen:
    """A backend that counts its graphs."""

    def __init__(self):
        self.graphs = []

    def __call__(self, module, inputs):
        self.graphs.append(module)
        return module.forward

    def calls(self):
        return [str(n.target) for m in self.graphs for n in m.graph.nodes if n.op in ("call_function", "call_method")]


X = torch.arange(6.0).reshape(2, 3)


def captured(function, *args, graphs=1, same=True, **arguments):
    seen = Seen()
    compiled = torch.compile(function, backend=seen, **arguments)
    found = compiled(*(args or (X,)))
    assert len(seen.graphs) == graphs, len(seen.graphs)
    if same:
        torch.testing.assert_close(found, function(*(args or (X,))))
    return seen


# ---- torch.compile's arguments


def argument_fullgraph():
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(lambda x: (x + 1, print("", end=""))[0] * 2, backend="eager", fullgraph=True)(X)


def argument_dynamic():
    (module,) = captured(lambda x: x.sum() * x.shape[0], torch.ones(5, 3), dynamic=True).graphs
    assert any(isinstance(n.meta.get("example_value"), torch.SymInt) for n in module.graph.nodes)


def argument_mode():
    told = []

    def backend(module, inputs, mode=None, options=None):
        told.append((mode, options))
        return module.forward

    torch.compile(lambda x: x + 1, backend=backend, mode="max-autotune")(X)
    torch.compile(lambda x: x + 2, backend=backend, options={"own": 1})(X)
    assert told == [("max-autotune", None), (None, {"own": 1})]


def argument_name():
    captured(lambda x: x + 1, name="region")


def argument_disable():
    def f(x):
        return x

    assert torch.compile(f, disable=True) is f


def argument_recompile_limit():
    seen = Seen()
    compiled = torch.compile(lambda x, k: x * len(k), backend=seen, recompile_limit=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in ("a", "bb", "ccc"):
            compiled(X, k)
    assert len(seen.graphs) == 1


def argument_isolate_recompiles():
    def f(x):
        return x + 3

    seen = Seen()
    for _ in range(2):
        torch.compile(f, backend=seen, isolate_recompiles=True)(X)
    assert len(seen.graphs) == 2


def argument_shapes_spec():
    specs = pytest.importorskip("torch.fx.experimental.dynamic_spec")
    seen = Seen()
    rows = specs.TensorSpec([specs.ShapeVar("rows"), 3])
    compiled = torch.compile(lambda x: x * 2, backend=seen, shapes_spec={"x": rows})
    for count in (4, 1, 0, 7):
        compiled(torch.ones(count, 3))
    assert len(seen.graphs) == 1
    with pytest.raises(ValueError, match="as static with value 3, but got 5"):
        compiled(torch.ones(4, 5))


COMPILE = {
    "model": lambda: captured(nn.Linear(3, 2)),
    "fullgraph": argument_fullgraph,
    "dynamic": argument_dynamic,
    "backend": lambda: captured(lambda x: x * 2),
    "mode": argument_mode,
    "options": argument_mode,
    "name": argument_name,
    "disable": argument_disable,
    "recompile_limit": argument_recompile_limit,
    "isolate_recompiles": argument_isolate_recompiles,
    "shapes_spec": argument_shapes_spec,
}


# ---- functions


def opaque(x):
    return torch.from_numpy(numpy.asarray(x.detach()) + 1)


def allow_in_graph():
    def inner(x):
        return x + 1

    torch.compiler.allow_in_graph(inner)
    assert any("inner" in call for call in captured(lambda x: inner(x) * 2).calls())


def assume_constant_result():
    calls = []

    def told():
        calls.append(1)
        return 3

    told = torch.compiler.assume_constant_result(told)
    compiled = torch.compile(lambda x: x * told(), backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(X), X * 3)
    assert len(calls) == 1


def disable():
    @torch.compiler.disable
    def outside(x):
        return x + 1

    captured(lambda x: outside(x * 2) * 3, graphs=2)


def default_backend():
    seen = Seen()
    torch.compiler.set_default_backend(seen)
    try:
        assert torch.compiler.get_default_backend() is seen
        torch.compile(lambda x: x + 1)(X)
    finally:
        torch.compiler.set_default_backend(None)
    assert len(seen.graphs) == 1


def compiling():
    def f(x):
        return x + 1 if torch.compiler.is_compiling() and torch.compiler.is_dynamo_compiling() else x

    assert torch.equal(torch.compile(f, backend="eager")(X), X + 1) and torch.equal(f(X), X)
    assert not torch.compiler.is_exporting()


SCALE = 2.0


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.factor = nn.Linear(3, 3), 2

    def forward(self, x):
        return self.linear(x) * self.factor * SCALE


def guard_filter(name, change, noticed):
    """With the filter a change is (not) noticed."""
    global SCALE
    given, kept = [], getattr(torch.compiler, name)

    def filter_fn(entries):
        given.append(entries)
        return kept(entries)

    model, seen = Model(), Seen()
    compiled = torch.compile(model, backend=seen, options={"guard_filter_fn": filter_fn})
    compiled(X)
    assert given and {"TENSOR_MATCH", "GLOBAL_STATE", "SHAPE_ENV"} <= {entry.guard_type for entry in given[0]}
    try:
        x = change(model)
        compiled(X if x is None else x)
    finally:
        SCALE = 2.0
    assert (len(seen.graphs) == 2) == noticed, (name, len(seen.graphs))


def change_factor(model):
    model.factor = 3


def change_global(model):
    global SCALE
    SCALE = 3.0


def change_input(model):
    return torch.ones(4, 3)


FILTERS = {
    "keep_portable_guards_unsafe": [(change_factor, False), (change_input, True)],
    "keep_tensor_guards_unsafe": [(change_factor, False), (change_input, True)],
    "skip_all_guards_unsafe": [(change_factor, False), (change_global, False)],
    "skip_guard_on_all_nn_modules_unsafe": [(change_factor, False), (change_global, True), (change_input, True)],
    "skip_guard_on_globals_unsafe": [(change_factor, True), (change_global, False)],
    "skip_guard_on_inbuilt_nn_modules_unsafe": [(change_factor, True), (change_global, True)],
}


def filters(name):
    for change, noticed in FILTERS[name]:
        stator.reset()
        guard_filter(name, change, noticed)


def nested_compile_region():
    @torch.compiler.nested_compile_region
    def region(x):
        return x.sin()

    captured(lambda x: region(x) + region(x), graphs=2)  # the region, compiled once, and what is around it


def stance():
    seen = Seen()
    compiled = torch.compile(lambda x: x + 1, backend=seen)
    with torch.compiler.set_stance("force_eager"):
        compiled(X)
    assert not seen.graphs
    with (
        pytest.warns(UserWarning, match="skip_guard_eval_unsafe"),
        torch.compiler.set_stance("default", skip_guard_eval_unsafe=True),
    ):
        compiled(X)
    assert len(seen.graphs) == 1


def substitute_in_graph():
    def original(x):
        return opaque(x)

    @torch.compiler.substitute_in_graph(original, skip_signature_check=True)
    def traced(x):
        return x + 1

    captured(lambda x: original(x) * 2, fullgraph=True)


def wrap_numpy():
    @torch.compiler.wrap_numpy
    def f(x):
        return numpy.sin(x) + 1

    assert torch.allclose(torch.compile(f, backend="eager")(X), X.sin() + 1)


def reset():
    seen = Seen()
    compiled = torch.compile(lambda x: x + 1, backend=seen)
    for _ in range(2):
        compiled(X)
        torch.compiler.reset()
    assert len(seen.graphs) == 2


def collectives():
    before = torch.compiler.set_enable_guard_collectives(True)
    assert torch.compiler.set_enable_guard_collectives(before) is True


def cache_artifacts():
    found = torch.compiler.save_cache_artifacts()
    if found is not None:
        torch.compiler.load_cache_artifacts(found[0])


COMPILER = {
    "allow_in_graph": allow_in_graph,
    "assume_constant_result": assume_constant_result,
    "compile": lambda: torch.compiler.compile(lambda x: x + 1, backend="eager")(X),
    "config": lambda: dynamic_sources(torch.compiler.config),
    "cudagraph_mark_step_begin": lambda: torch.compiler.cudagraph_mark_step_begin(),
    "disable": disable,
    "get_default_backend": default_backend,
    "is_compiling": compiling,
    "is_dynamo_compiling": compiling,
    "is_exporting": compiling,
    "list_backends": lambda: torch.compiler.list_backends().index("inductor"),
    "load_cache_artifacts": cache_artifacts,
    "load_compiled_function": lambda: callable(torch.compiler.load_compiled_function),
    "nested_compile_region": nested_compile_region,
    "reset": reset,
    "save_cache_artifacts": cache_artifacts,
    "set_default_backend": default_backend,
    "set_enable_guard_collectives": collectives,
    "set_stance": stance,
    "substitute_in_graph": substitute_in_graph,
    "wrap_numpy": wrap_numpy,
    **{name: functools.partial(filters, name) for name in FILTERS},
}


def dynamic_sources(settings):
    settings.dynamic_sources = r"L\['x'\]:0"
    try:
        seen = Seen()
        compiled = torch.compile(lambda x: x.sum() * x.shape[0], backend=seen)
        for n in (5, 6, 7):
            compiled(torch.ones(n, 3))
        assert len(seen.graphs) == 1
    finally:
        settings.dynamic_sources = ""
        _torch_config.follow_all()


def answered(call, text):
    with pytest.warns(UserWarning, match=re.escape(text)):
        return call()


def error_on_graph_break():
    def f(x):
        with torch._dynamo.error_on_graph_break(True):
            print("", end="")
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(f, backend="eager")(X)


def explain():
    found = torch._dynamo.explain(lambda x: (x + 1, print("", end=""))[0] * 2)(X)
    assert found.graph_count == 2 and "print" in str(found)


def export():
    module, _ = torch._dynamo.export(lambda x: x + 1)(X)
    assert torch.equal(module(X), X + 1)


def forbid_in_graph():
    def never(x):
        return x

    torch._dynamo.forbid_in_graph(never)
    with pytest.raises(AssertionError):
        torch.compile(lambda x: never(x) + 1, backend="eager")(X)


def marks():
    for mark, dynamic in (
        (torch._dynamo.mark_dynamic, True),
        (torch._dynamo.maybe_mark_dynamic, True),
        (torch._dynamo.mark_static, False),
    ):
        stator.reset()
        x = torch.ones(5, 3)
        mark(x, 0)
        (module,) = captured(lambda x: x.sum() * x.shape[0], x).graphs
        assert any(isinstance(n.meta.get("example_value"), torch.SymInt) for n in module.graph.nodes) == dynamic


def static_address():
    seen, other = Seen(), torch.ones(3)
    table = torch.ones(3)
    for each in (table, other):
        torch._dynamo.mark_static_address(each, guard=True)
    compiled = torch.compile(lambda x, t: x + t, backend=seen)
    for each in (table, table, other):
        assert torch.equal(compiled(X, each), X + each)
    assert len(seen.graphs) == 2, "another tensor in its place is captured anew"
    assert sum(node.op == "get_attr" for node in seen.graphs[0].graph.nodes) == 1


def nonstrict_trace():
    @torch._dynamo.nonstrict_trace
    def inner(x):
        return x.sin()

    captured(lambda x: inner(x) + 1, fullgraph=True)


def optimize():
    seen, failed, exported = Seen(), [], []
    decorate = torch._dynamo.optimize(seen, nopython=True, guard_fail_fn=failed.append, guard_export_fn=exported.append)
    compiled = decorate(lambda x, k: x * k)
    assert torch.equal(compiled(X, 2), X * 2)
    compiled(X, 2.5)
    assert (
        len(seen.graphs) == 2 and len(failed) == 1 and "was 2" in failed[0].reason and failed[0].orig_code is not None
    )
    assert len(exported) == 2 and any(guard.create_fn_name() == "TENSOR_MATCH" for guard in exported[0])
    with pytest.raises(TypeError, match="no_such"):
        torch._dynamo.optimize(seen, no_such=1)
    answered(lambda: torch._dynamo.optimize(seen, package=object()), "optimize(package=...)")


def optimize_assert():
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch._dynamo.optimize_assert("eager")(lambda x: (x + 1, print("", end=""))[0] * 2)(X)


def patch_dynamo_config():
    with torch._dynamo.patch_dynamo_config(recompile_limit=2):
        assert config.recompile_limit == 2
    assert config.recompile_limit == 8
    answered(lambda: torch._dynamo.patch_dynamo_config(cprofile=True), "cprofile")


def breaks(call):
    def f(x):
        y = x + 1
        call()
        return y * 2

    captured(f, graphs=2)


def run():
    seen = Seen()
    compiled = torch.compile(lambda x: x + 1, backend=seen)
    assert torch.equal(torch._dynamo.run(compiled)(X), X + 1) and not seen.graphs


def disable_recursive():
    whole, alone = torch._dynamo.disable(lambda x: x), torch._dynamo.disable(lambda x: x, recursive=False)
    asks = torch._dynamo.is_dynamo_disable_recursive
    assert (asks(whole), asks(alone), asks(run)) == (True, False, None)


def dont_skip_tracing():
    captured(torch._dynamo.dont_skip_tracing(lambda x: x + 1))


def disallow_in_graph():
    torch._dynamo.disallow_in_graph(torch.sinh)
    try:
        captured(lambda x: torch.sinh(x + 1) * 2, graphs=2)
    finally:
        torch._dynamo.allow_in_graph(torch.sinh)


def register_backend():
    seen = Seen()
    name = f"a_backend_of_the_names_{id(seen)}"
    torch._dynamo.register_backend(seen, name=name)
    torch.compile(lambda x: x + 1, backend=name)(X)
    assert len(seen.graphs) == 1 and torch._dynamo.lookup_backend(name) is seen


DYNAMO = {
    "OptimizedModule": lambda: isinstance(torch.compile(nn.Linear(3, 3)), torch._dynamo.OptimizedModule) or 1 / 0,
    "allow_in_graph": allow_in_graph,
    "assume_constant_result": assume_constant_result,
    "config": lambda: follows("recompile_limit", 3),
    "disable": disable,
    "disallow_in_graph": disallow_in_graph,
    "dont_skip_tracing": dont_skip_tracing,
    "error_on_graph_break": error_on_graph_break,
    "explain": explain,
    "export": export,
    "forbid_in_graph": forbid_in_graph,
    "graph_break": lambda: breaks(torch._dynamo.graph_break),
    "is_compiling": compiling,
    "is_dynamo_disable_recursive": disable_recursive,
    "list_backends": lambda: torch._dynamo.list_backends().index("inductor"),
    "lookup_backend": register_backend,
    "mark_dynamic": marks,
    "mark_static": marks,
    "mark_static_address": static_address,
    "maybe_mark_dynamic": marks,
    "nonstrict_trace": nonstrict_trace,
    "optimize": optimize,
    "optimize_assert": optimize_assert,
    "patch_dynamo_config": patch_dynamo_config,
    "register_backend": register_backend,
    "replay": lambda: torch._dynamo.replay is stator.replay or 1 / 0,
    "reset": reset,
    "run": run,
    "set_stance": stance,
    "skip_frame": lambda: breaks(torch._dynamo.skip_frame),
    "step_unsupported": lambda: breaks(torch._dynamo.step_unsupported),
    "substitute_in_graph": substitute_in_graph,
    "allow_c_slot": lambda: answered(lambda: torch._dynamo.allow_c_slot(int), "allow_c_slot"),
    "bytecode_debugger": lambda: answered(lambda: torch._dynamo.bytecode_debugger.__name__, "TORCH_LOGS=bytecode"),
    "disable_nested_graph_breaks": lambda: answered(
        lambda: torch._dynamo.disable_nested_graph_breaks(run), "disable_nested_graph_breaks"
    ),
    "override_cudagraphs": lambda: answered(lambda: torch._dynamo.override_cudagraphs(fwd=False), "triton.cudagraphs"),
    "override_optimization_hint": lambda: answered(
        lambda: torch._dynamo.override_optimization_hint(3, 4), "hint_override"
    ),
    "reset_recompile_user_contexts": lambda: answered(
        torch._dynamo.reset_recompile_user_contexts, "reset_recompile_user_contexts"
    ),
    "set_recursion_limit": lambda: answered(lambda: torch._dynamo.set_recursion_limit(100), "setrecursionlimit"),
}


@pytest.mark.parametrize(
    ("names", "table", "trials"),
    [
        (list(inspect.signature(torch.compile).parameters), _torch_names.COMPILE, COMPILE),
        (torch.compiler.__all__, _torch_names.COMPILER, COMPILER),
        (torch._dynamo.__all__, _torch_names.DYNAMO, DYNAMO),
    ],
    ids=["compile", "compiler", "dynamo"],
)
def test_no_name_is_forgotten(names, table, trials):
    assert set(names) <= set(table)
    assert sorted(trials) == sorted(table)
    if DESCRIBED:
        assert sorted(table) == sorted(names)
    assert all(
        verdict in ("works", "differs", "not here") and (text or verdict == "works") for verdict, text in table.values()
    )


@pytest.mark.parametrize("name", COMPILE)
def test_arguments_of_compile(name):
    COMPILE[name]()


def existing(owner, names):
    """The names, those marked that this torch does not have."""
    missing = pytest.mark.skip(reason=f"torch {torch.__version__} has no such name")
    return [pytest.param(name, marks=() if hasattr(owner, name) else missing) for name in names]


@pytest.mark.parametrize("name", existing(torch.compiler, COMPILER))
def test_names_of_compiler(name):
    COMPILER[name]()


@pytest.mark.parametrize("name", existing(torch._dynamo, DYNAMO))
def test_names_of_dynamo(name):
    DYNAMO[name]()


# ---- settings

ENTRIES = {name: entry for name, entry in torch._dynamo.config._config.items() if entry.alias is None}
OTHER = {
    "automatic_dynamic_shapes_mark_as": "unbacked",
    "repro_after": "dynamo",
    "repro_level": 3,
    "debug_backend_override": "0:eager",
    "optimize_ddp": False,
}


def another(name):
    """A value that the entry does not have."""
    value = ENTRIES[name].default
    if name in OTHER:
        return OTHER[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, set):
        return {print}
    if isinstance(value, dict):
        return {"a": 1}
    if isinstance(value, list):
        return [*value, "a"]
    return f"{value or ''}other"


def follow():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _torch_config.follow_all()
    return [str(each.message) for each in told]


def follows(name, value):
    before = getattr(config, name)
    with torch._dynamo.config.patch({name: value}):
        told = follow()
        assert not told and getattr(config, name) == value, (told, getattr(config, name))
    follow()
    assert getattr(config, name) == before


@pytest.mark.parametrize("name", ENTRIES)
def test_settings(name):
    followed = name in config.get_config_copy()
    verdict, text = _dynamo_settings.verdict(name, followed)
    assert text
    follow()
    if followed:
        follows(name, another(name))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch._dynamo.config.patch({name: another(name)}):
            told = follow()
        follow()
    if name in _dynamo_settings.ALWAYS:
        always = _dynamo_settings.ALWAYS[name][0]
        assert bool(told) == (another(name) != always) and (ENTRIES[name].default == always or another(name) == always)
    else:
        assert bool(told) == (verdict == "not here")
    assert all(f"torch._dynamo.config.{name} = " in each for each in told), told


@pytest.mark.parametrize("name", existing(torch._dynamo.config, _dynamo_settings.READ_BY_TORCH))
def test_settings_that_torch_reads(name):
    """Somebody outside of TorchDynamo's tracer does."""
    places = ["_inductor", "_functorch", "_subclasses", "fx", "export", "_export", "_logging", "distributed/fsdp", "_dynamo/backends", "_dynamo/logging.py",
              "_dynamo/utils.py", "_dynamo/graph_id_filter.py", "_dynamo/output_graph.py"]  # fmt: skip
    for place in places:
        path = TORCH / place
        files = [path] if path.suffix == ".py" else path.rglob("*.py")
        if any(name in file.read_text(errors="ignore") for file in files):
            return
    pytest.fail(f"nobody reads {name}")


def test_old_names_of_settings():
    with torch._dynamo.config.patch(cache_size_limit=5):
        follow()
        assert config.recompile_limit == 5
    follow()
    assert config.recompile_limit == 8


@pytest.mark.skipif(not DESCRIBED, reason="docs/NAMES.md is about another torch")
def test_the_page_is_up_to_date():
    command = [sys.executable, "tools/names_table.py", "--check"]
    done = subprocess.run(command, cwd=children.ROOT, env=children.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
