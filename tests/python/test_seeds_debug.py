"""Documents 002 and 003: repros, accuracy and what they rest on, item by item (tests/python/seeds.py)."""

import collections
import contextlib
import io
import logging
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import children
import stator
from seeds import item, numbers, raised
from stator import debug
from stator.debug import _scripts, _verdict


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STATOR_DEBUG_DIR", raising=False)


def files(folder=".", name=".py"):
    return sorted(os.path.join(place, n) for place, _, names in os.walk(folder) for n in names if n.endswith(name))


def python(*arguments, code=0, **environment):
    environment = children.environment(children.TESTS, **{"OMP_NUM_THREADS": "1", **environment})
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def f(x):
    return torch.tanh(x * 2) + 1


def planted(fault, op="tanh", stage="dynamo", function=f, **arguments):
    options = {"fault": fault, "op": op, "stage": stage}
    return stator.compile(function, backend="planted_fault", options=options, **arguments)


def watching(after="dynamo", level=1, **settings):
    return stator.config.patch(repro_after=after, repro_level=level, **settings)


def raising(module, inputs):
    """A backend whose graphs fail when they run."""

    def run(*args):
        raise RuntimeError("the kernel failed")

    return run


def changing(change):
    """A backend that changes what its graphs return."""

    def backend(module, inputs):
        return lambda *args: tuple(change(value) for value in module.forward(*args))

    return backend


# ---- 002: deferred for real inputs


@item("002", "repro_after config + validation", whole=True)
def test_repro_after_is_checked():
    for stage in ("dynamo", "aot", None):
        stator.config.repro_after = stage
    with pytest.raises(ValueError, match="did you mean 'dynamo'"):
        stator.config.repro_after = "dynam"
    with pytest.raises(ValueError, match="none of 1, 2, 3, 4"):
        stator.config.repro_level = 5
    assert stator.config.repro_after is None


@item("002", "deferred: repro_after None while running", whole=True)
def test_no_watch_inside_of_a_watch():
    seen = []

    def backend(module, inputs):
        seen.append(stator.config.repro_after)

        def run(*args):
            seen.append(stator.config.repro_after)
            return stator.compile(lambda *a: module.forward(*a), backend="eager")(*args)

        return run

    with watching():
        stator.compile(f, backend=backend)(numbers())
        assert stator.config.repro_after == "dynamo"
    assert seen == [None, None]


@item("002", "repro of real inputs before mutation", whole=True)
def test_inputs_are_those_before_the_run():
    def writes(x):
        x.add_(5)
        return torch.tanh(x)

    with watching(level=1), pytest.raises(Exception, match="planted"):
        planted("runtime", function=writes)(torch.zeros(3))
    case = _scripts.load("repro.py")
    assert [value.tolist() for value in case.load_inputs()] == [[0.0, 0.0, 0.0]]


@item("002", "level 3 always dump", whole=True)
def test_level_3_always_writes():
    with watching(level=3):
        assert torch.equal(stator.compile(f, backend=raising_nothing)(numbers()), f(numbers()))
    assert [os.path.basename(path) for path in files()] == ["repro.py", "3.py", "minifier_launcher.py"]


def raising_nothing(module, inputs):
    return module.forward


@item("002", "dump_to_minify: minifier_launcher.py", whole=True)
def test_the_launcher_of_the_minifier():
    with watching(level=2), pytest.raises(stator.exc.BackendCompilerFailed):
        planted("compile")(numbers())
    (launcher,) = files(name="minifier_launcher.py")
    assert os.path.dirname(os.path.abspath(launcher)) == debug.minifier_dir()
    said = python(launcher).stdout
    assert "1 call of 3 left" in said and "2 of 2 times" in said, said
    case = _scripts.load(launcher)
    assert _verdict.examine(case)[0].matches(case.failure), "it is a script like others"


@item("002", "dump_compiler_graph_state N.py + repro.py copy", whole=True)
def test_checkpoint_and_copy():
    path = debug.dump_compiler_graph_state(torch.fx.symbolic_trace(f), [numbers()], "inductor")
    assert os.path.basename(path) == "3.py" and os.path.basename(os.path.dirname(path)) == "checkpoints"
    first, copied = (_scripts.load(each) for each in (path, "repro.py"))
    assert first.specimen.hash() == copied.specimen.hash() and first.backend.text == "inductor"
    with open("repro.py", "w") as file:
        file.write("# mine\n")
    debug.dump_compiler_graph_state(torch.fx.symbolic_trace(f), [numbers()], "inductor", accuracy=True)
    assert open("repro.py").read() == "# mine\n", "what is not ours stays"


@item("002", "save_graph_repro script runs", whole=True)
def test_a_saved_script_runs():
    with open("saved.py", "w") as file:
        debug.save_graph_repro(file, torch.fx.symbolic_trace(f), [numbers()], "eager", save_dir="values")
    assert "no failure" in python("saved.py").stderr
    text = io.StringIO()
    debug.save_graph_repro(text, torch.fx.symbolic_trace(f), [numbers()], "eager", command="minify", stable_output=True)
    assert torch.__version__ not in text.getvalue() and "'minify')" in text.getvalue()
    state = torch.fx.experimental._backward_state.BackwardState()
    text = io.StringIO()
    debug.save_graph_repro(text, torch.fx.symbolic_trace(f), [state], "eager")
    assert text.getvalue() == "Repro is not generated due to existence of BackwardState in graph input"


PROGRAM = """
import sys, torch, stator
scale = float(sys.argv[1])
text = open(sys.argv[2]).read()
@stator.allow_in_graph
def scaled(x, n=int(sys.argv[1])):
    return x * scale * n
def backend(gm, inputs, limit=len(text)):
    if len(gm.graph.nodes) > 2:
        raise ValueError("too much " + text)
    return gm.forward
print("the program")
stator.compile(lambda x: scaled(x + 1), backend=backend)(torch.ones(2))
"""


@item("002", "repro of fn defined in program with sys.argv", whole=True)
def test_a_program_that_computes_at_import():
    with open("program.py", "w") as file:
        file.write(PROGRAM)
    with open("text", "w") as file:
        file.write("of it")
    python("program.py", "2", "text", code=1, STATOR_REPRO_AFTER="dynamo")
    os.unlink("text")
    said = python("repro.py", code=1)
    assert "ValueError: too much of it" in said.stderr and "the program" not in said.stdout, said.stderr


# ---- 002: two models


def models(factor=1.0, fails=False):
    torch.manual_seed(0)
    one = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    other = nn.Sequential(*one)
    if factor != 1.0:
        other.append(type("Times", (nn.Module,), {"forward": lambda self, x: x * factor})())
    if fails:
        other.append(nn.Linear(7, 7))
    return one, other


@item("002", "same_two_models equal/different", whole=True)
def test_two_models():
    from torch._dynamo.debug_utils import same_two_models as theirs

    for factor, wanted in ((1.0, True), (1.5, False)):
        assert debug.same_two_models(*models(factor), [numbers()]) is wanted
        assert theirs(*models(factor), [numbers()]) is wanted
        assert debug.same_two_models(*models(factor), [numbers()], True) is wanted


class OnlySingle(nn.Module):
    def forward(self, x):
        if x.dtype is torch.float64:
            raise TypeError("no doubles")
        return x * 2


@item("002", "require_fp64", whole=True)
def test_fp64_can_be_required():
    with pytest.raises(RuntimeError, match="fp64"):
        debug.same_two_models(OnlySingle(), OnlySingle(), [numbers()], require_fp64=True)
    assert debug.same_two_models(OnlySingle(), OnlySingle(), [numbers()])


@item("002", "ignore_non_fp argument", whole=True)
def test_whole_numbers_can_be_left_out():
    pair = (lambda x: (x, x > 0)), (lambda x: (x, x > 5))
    assert not debug.same_two_models(*pair, [numbers()])
    assert debug.same_two_models(*pair, [numbers()], ignore_non_fp=True)


@item("002", "same: containers", whole=True)
def test_same_in_containers():
    from torch._dynamo.utils import same as theirs

    Pair = collections.namedtuple("Pair", "a b")
    one = {"a": [torch.ones(2), (torch.zeros(1), 3)], "b": Pair(torch.ones(1), None), "c": {1, 2}}
    other = {"a": [torch.ones(2), (torch.zeros(1), 3)], "b": Pair(torch.ones(1), None), "c": {1, 2}}
    assert debug.same(one, other) and theirs(one, other)
    other["a"][1][0].add_(1)
    assert not debug.same(one, other) and not theirs(one, other)


@item("002", "same: positional args of the seed", whole=True)
def test_same_takes_its_arguments_in_order():
    from torch._dynamo.utils import same as theirs

    ref, res = torch.tensor([1.0, float("nan")]), torch.tensor([1.05, float("nan")], dtype=torch.float64)
    said = []
    for order in ((None, False, 0.1, True, False, False, False, said.append, False), (None, False, 0.1, True, True)):
        assert debug.same(ref, res, *order) == theirs(ref, res, *order)
    assert debug.same(ref, res, None, False, 0.1, True, False)


@item("002", "same: log_error", whole=True)
def test_same_tells_whom_it_is_told_to():
    said = []
    assert not debug.same([torch.ones(2)], [torch.zeros(2)], log_error=said.append)
    assert len(said) == 1 and said[0].startswith("out[0]: max abs 1 at (0,)")


@item("002", "same: cosine", whole=True)
def test_same_by_cosine():
    from torch._dynamo.utils import same as theirs

    one, other = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.01, 2.0, 3.0])
    for res in (other, -other):
        assert debug.same(one, res, None, True) == theirs(one, res, None, True) == (res is other)


@item("002", "same: sparse, bool", whole=True)
def test_same_of_sparse_and_bool():
    from torch._dynamo.utils import same as theirs

    for one, other in (
        (torch.eye(2).to_sparse(), (torch.eye(2) * 2).to_sparse()),
        (torch.tensor([True]), torch.tensor([False])),
    ):
        assert debug.same(one, one.clone()) and theirs(one, one.clone())
        assert not debug.same(one, other) and not theirs(one, other)


@item(
    "002",
    "same: type/len/keys mismatch",
    "better",
    "structures that differ are a difference, with its path: TorchDynamo's assertion ends the comparison",
    whole=True,
)
def test_structures_that_differ():
    from torch._dynamo.utils import same as theirs

    for one, other, words in (
        ([1], 1, "a list became a int"),
        ([1], [1, 2], "1 items became 2"),
        ({"a": 1}, {"b": 1}, "keys that are gone"),
        (torch.ones(1), None, "became a NoneType"),
    ):
        assert words in debug.compare(one, other) and not debug.same(one, other)
    with pytest.raises(AssertionError):
        theirs([1], 1)


@item(
    "002",
    "same: shape broadcast",
    "better",
    "tensors of other sizes differ: TorchDynamo lets them broadcast and finds them the same",
    whole=True,
)
def test_sizes_that_would_broadcast():
    from torch._dynamo.utils import same as theirs

    assert "shape (1,) became (3,)" in debug.compare(torch.ones(1), torch.ones(3))
    assert theirs(torch.ones(1), torch.ones(3))


@item("002", "run_fwd_maybe_bwd (boxed, grads, zero_grad)", whole=True)
def test_one_run_forward_and_backward():
    from torch._dynamo.debug_utils import run_fwd_maybe_bwd as theirs

    model, x = nn.Linear(4, 2), numbers().requires_grad_()
    model.weight.grad = torch.full_like(model.weight, 100.0)
    ours = debug.run_fwd_maybe_bwd(model, [x])
    assert debug.same(theirs(model, [x]), ours, exact_dtype=True) and len(ours) == 6
    assert ours[2]["weight.grad"].abs().max() < 100 and model.weight.grad.eq(100).all() and x.grad is None

    def boxed(given):
        (value,) = given
        given.clear()
        return (value * 2,)

    boxed._boxed_call = True
    out, _, _, _, _, grad = debug.run_fwd_maybe_bwd(boxed, [x])
    assert torch.equal(out[0], x * 2) and grad.eq(2 / 12).all()


@item("002", "run_fwd_maybe_bwd as function", whole=True)
def test_one_run_as_a_function():
    from torch._dynamo.debug_utils import run_fwd_maybe_bwd as theirs

    model, x = nn.Linear(4, 2), numbers()
    assert torch.equal(debug.run_fwd_maybe_bwd(model, [x], only_fwd=True), theirs(model, [x], only_fwd=True))
    used = numbers().requires_grad_()
    debug.run_fwd_maybe_bwd(model, [used], disable_clone=True)
    assert used.grad is not None
    wide, (given,) = debug.cast_to_fp64(nn.Linear(4, 2), [numbers()])
    assert wide.weight.dtype is given.dtype is torch.float64


class MaskedLMOutput:
    def __init__(self, logits):
        self.logits = logits


class SquashedNormal:
    def __init__(self, mean):
        self.mean = mean


@item(
    "002",
    "reduce_to_scalar_loss special outputs",
    "better",
    "a loss over every differentiable output, empty and complex ones included, where results are compared: TorchDynamo's raises for them",
    whole=True,
)
def test_losses_of_odd_outputs():
    from torch._dynamo.testing import reduce_to_scalar_loss as theirs

    x = numbers().requires_grad_()
    for out in (MaskedLMOutput(x), SquashedNormal(x)):
        assert torch.equal(debug.reduce_to_scalar_loss(out), theirs(out))
    half = (lambda x: (x * 1j, x[:0], {"n": x}, None)), (lambda x: (x * 1j, x[:0], {"n": x.detach() * 0 + x * 2}, None))
    assert debug.same_two_models(half[0], half[0], [x]) and not debug.same_two_models(*half, [x])
    with pytest.raises(Exception):
        theirs(half[0](x))


@item("002", "reduce_to_scalar_loss as function", whole=True)
def test_the_loss_as_a_function():
    from torch._dynamo.testing import reduce_to_scalar_loss as theirs

    for out in (
        numbers(),
        [numbers(), torch.ones(2, dtype=torch.int64)],
        {"a": numbers(), "b": (numbers(2), numbers(3))},
    ):
        assert torch.equal(debug.reduce_to_scalar_loss(out), theirs(out))
    for function in (debug.reduce_to_scalar_loss, theirs):
        with pytest.raises(NotImplementedError):
            function("text")
    assert debug.requires_bwd_pass([None, numbers().requires_grad_()]) and not debug.requires_bwd_pass((numbers(), 3))


# ---- 002: sizes, lists, calls


@item("002", "Size.numel const", dynamo="same", graphs=1)
def test_numel_of_a_size(at):
    return at.compile(lambda x: x * x.size().numel() + torch.Size([2, 0]).numel())(numbers())


@item("002", "Size.numel symbolic", dynamo="same", graphs=1, breaks=False)
def test_numel_of_a_symbolic_size(at):
    call = at.compile(lambda x: x * x.size().numel() + x.shape[:1].numel(), dynamic=True)
    found = [call(numbers(3, 4)), call(numbers(5, 4)), call(numbers(6, 2))]
    if at.is_stator:
        assert len(at.graphs) == 1
    return found


@item("002", "list call_method getitem/contains/index", dynamo="same", graphs=1)
def test_methods_of_lists(at):
    def g(x):
        found = [1, 2, 2, x.shape[0]]
        return x * found.__getitem__(1), found.__contains__(2), 9 in found, found.index(2), found[1:], found.count(2)

    return at.compile(g)(numbers())


@item("002", "list[const tensor]")
def test_lists_indexed_by_constant_tensors(at):
    def g(x):
        return x * [2, 3, 4][torch.tensor(1)]

    return at.compile(g, fullgraph=False)(numbers())


@item("002", "list[tensor] break", dynamo="same")
def test_lists_indexed_by_tensors(at):
    def g(x, i):
        return x.cos() * [2, 3, 4][i]

    call = at.compile(g, fullgraph=False)
    return [call(numbers(), torch.tensor(i)) for i in (0, 2, 1)]


@item("002", "callable object call", dynamo="same", graphs=1)
def test_objects_that_are_called(at):
    class Adds:
        def __init__(self, by):
            self.by = by

        def __call__(self, x, times=1):
            return x + self.by * times

    adds = Adds(3)
    return at.compile(lambda x: adds(x, times=2) * Adds(1)(x))(numbers())


@item("002", "random calls")
def test_random_numbers_of_python(at):
    import random

    def g(x):
        return x * random.random() + random.randint(1, 9) + random.uniform(0, 1)

    random.seed(5)
    call = at.compile(g, fullgraph=False)
    return [call(numbers()), call(numbers()), random.random()]


# ---- 003: the debug wrapper


@item("003", "debug_wrapper compile error dump", whole=True)
def test_a_compile_error_is_written():
    for after, stage in (("dynamo", "dynamo"), ("aot", "forward")):
        with watching(after), pytest.raises(stator.exc.BackendCompilerFailed):
            planted("compile", stage=stage)(numbers().requires_grad_())
        case = _scripts.load("repro.py")
        assert case.stage == stage and case.failure.kind == "compile error"
        assert _verdict.examine(case)[0].matches(case.failure)


def spoiling(module, inputs):
    """A backend that changes the graph that it got, and fails."""
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target is torch.tanh:
            node.target = torch.sin
    module.recompile()
    raise ValueError("spoilt")


@item("003", "original graph kept though backend mutates", whole=True)
def test_the_graph_is_the_one_before_the_backend():
    with watching(), pytest.raises(stator.exc.BackendCompilerFailed):
        stator.compile(f, backend=spoiling)(numbers())
    text = open("repro.py").read()
    assert "torch.tanh(" in text and "torch.sin(" not in text


def level(number):
    with watching(level=number), pytest.raises(RuntimeError, match="the kernel failed") as caught:
        stator.compile(f, backend=raising)(numbers())
    return caught.value


@item("003", "level 1 runtime: dump then raise", whole=True)
def test_level_1_writes_and_raises():
    error = level(1)
    assert any("a script that shows this" in note for note in error.__notes__)
    assert _scripts.load("repro.py").failure.kind == "run error" and not files(name="minifier_launcher.py")


@item("003", "level 2 runtime: dump then raise", whole=True)
def test_level_2_writes_and_raises(caplog):
    error = level(2)
    assert "python -m stator minify" in caplog.text and files(name="minifier_launcher.py")
    assert any("raised by the compiled graph __compiled_fn_" in note for note in error.__notes__)


@item("003", "backward runtime raise", whole=True)
def test_an_error_in_backward_comes_out():
    with watching("aot"):
        out = planted("runtime", op="tanh_backward", stage="backward")(numbers().requires_grad_())
        with pytest.raises(Exception, match="planted: an operator failed"):
            out.sum().backward()
    assert _scripts.load("repro.py").stage == "backward"


@item("003", "level 4 accuracy detect+dump", whole=True)
def test_level_4_finds_and_writes():
    with watching(level=4), contextlib.suppress(debug.AccuracyError):
        planted("wrong")(numbers())
    case = _scripts.load("repro.py")
    assert case.failure.kind == "accuracy" and _verdict.examine(case)[0].kind == "accuracy"


@item("003", "level 4 raise AccuracyError", whole=True)
def test_level_4_raises(caplog):
    with watching(level=4):
        call = planted("wrong")
        for _ in range(2):
            with pytest.raises(debug.AccuracyError, match="differs from eager") as caught:
                call(numbers())
            assert caught.value.minifier_path == os.path.abspath(caught.value.minifier_path)
    stator.reset()
    with watching(level=4, repro_accuracy_error=False), caplog.at_level(logging.WARNING):
        call = planted("wrong")
        assert not torch.allclose(call(numbers()), f(numbers())) and "differs from eager" in caplog.text


@item("003", "level 4 int/bool outputs", whole=True)
def test_level_4_sees_whole_numbers_and_truth_values():
    def g(x):
        return x > 0, (x * 10).to(torch.int64), x + 1

    for dtype in (torch.bool, torch.int64):
        stator.reset()
        wrong = changing(lambda t, dtype=dtype: t if t.dtype is not dtype else ~t if dtype is torch.bool else t + 1)
        with watching(level=4), pytest.raises(debug.AccuracyError):
            stator.compile(g, backend=wrong)(numbers())
        assert _scripts.load("repro.py").ignore_non_fp is False
        os.unlink("repro.py")


@item(
    "003",
    "level 4 non-inductor backends",
    "better",
    "every backend's graphs are compared with eager: TorchDynamo does it for inductor alone behind AOTAutograd",
    whole=True,
)
def test_level_4_of_every_backend():
    for stage, after in (("dynamo", "dynamo"), ("forward", "aot")):
        stator.reset()
        with watching(after, 4), pytest.raises(debug.AccuracyError):
            planted("wrong", stage=stage)(numbers().requires_grad_())
        assert _scripts.load("repro.py").stage == stage


@item("003", "config.repro_ignore_non_fp", whole=True)
def test_floats_alone():
    def g(x):
        return x > 0, x + 1

    wrong = changing(lambda t: ~t if t.dtype is torch.bool else t)
    with watching(level=4, repro_ignore_non_fp=True):
        assert torch.equal(stator.compile(g, backend=wrong)(numbers())[1], numbers() + 1)
    assert files() == []


@item("003", "config.same_two_models_use_fp64", whole=True)
def test_the_fp64_reference_can_be_left_out():
    runs = []

    def counted(x):
        runs.append(x.dtype)
        return x * 2

    for wanted in (True, False):
        runs.clear()
        with stator.config.patch(same_two_models_use_fp64=wanted):
            assert debug.same_two_models(counted, counted, [numbers()], require_fp64=not wanted)
        assert (torch.float64 in runs) is wanted


@item("003", "exception in optimised run -> True", whole=True)
def test_an_error_is_no_difference():
    from torch._dynamo.debug_utils import same_two_models as theirs

    assert debug.same_two_models(*models(fails=True), [numbers()])
    assert theirs(*models(fails=True), [numbers()])


@item("003", "fp64 reference multiplier", whole=True)
def test_an_error_like_eagers_is_allowed():
    from torch._dynamo.utils import same as theirs

    exact = torch.linspace(0, 1, 2000, dtype=torch.float64)
    ref = (exact + 1e-3).float()
    for error, wanted in ((1.5e-3, True), (4e-3, False)):
        res = (exact + error).float()
        assert debug.same(ref, res, exact) is wanted and theirs(ref, res, exact) is wanted


@item(
    "003",
    "fake tensors refused",
    "better",
    "a tensor without values is a difference that says so: TorchDynamo's assertion says nothing",
    whole=True,
)
def test_fakes_have_nothing_to_compare():
    from torch._dynamo.utils import same as theirs
    from torch._subclasses.fake_tensor import FakeTensorMode

    fake = FakeTensorMode().from_tensor(torch.ones(2))
    assert "a fake tensor has no values" in debug.compare(torch.ones(2), fake)
    with pytest.raises(AssertionError):
        theirs(torch.ones(2), fake)


def cut_down(fault, level):
    with watching(level=level):
        raised(lambda: planted(fault, function=lambda x: torch.tanh(x.cos() * 2).sin() + 1)(numbers()))
    report = debug.minify("repro.py")
    assert (report.calls_after, report.confirmed) == (1, 2), report
    return report


@item("003", "minifier to one call (accuracy)", whole=True)
def test_the_minifier_finds_the_wrong_call():
    assert cut_down("wrong", 4).failure.kind == "accuracy"


@item("003", "minifier (runtime)", whole=True)
def test_the_minifier_finds_the_failing_call():
    assert cut_down("runtime", 1).failure.kind == "run error"


@item("003", "boxed inputs cleared", whole=True)
def test_boxed_inputs_are_cleared():
    """A graph behind AOTAutograd takes its inputs in a list, which is empty when it runs: watched or not."""
    seen = []

    def backend(module, inputs):
        from torch._dynamo.backends.common import aot_autograd

        def compiler(graph, examples):
            def run(given):
                taken = list(given)
                given.clear()
                seen.append(len(given))
                return graph(*taken)

            run._boxed_call = True
            return run

        return aot_autograd(fw_compiler=compiler)(module, inputs)

    for after in (None, "aot"):
        stator.reset()
        with watching(after):
            assert torch.allclose(stator.compile(f, backend=backend)(numbers()), f(numbers()))
    assert seen == [0, 0]
