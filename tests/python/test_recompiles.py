"""Recompiles explain themselves: what differed, at which line of the program, what it cost, what to do; limits;
stances; logs."""

import logging
import os
import random
import re
import subprocess
import sys
import warnings

import pytest
import torch

import stator

HERE = os.path.basename(__file__)


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    yield
    stator.reset()


@pytest.fixture
def logged():
    """Texts under the TORCH_LOGS word `recompiles`."""
    texts = []

    class Keep(logging.Handler):
        def emit(self, record):
            texts.append(record.getMessage())

    logger, handler = stator._logs.recompiles(), Keep()
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    yield texts
    logger.removeHandler(handler)
    logger.setLevel(before)


def program(x, k=1, mode="a"):
    y = x * 2
    if mode == "a":  # the mode
        y = y + k  # the number
    return y


def line_of(words):
    with open(__file__) as source:
        (number,) = [n for n, text in enumerate(source, 1) if text.rstrip().endswith("  # " + words)]
    return number


def run(compiled, *arguments):
    got = compiled(*arguments)
    assert torch.equal(got, program(*arguments))


def test_what_differed_and_what_it_cost(logged):
    compiled = stator.compile(program, backend="eager")
    run(compiled, torch.randn(8, 4))
    assert not logged
    run(compiled, torch.randn(9, 4))
    head = f"{__file__}:{program.__code__.co_firstlineno} in program: captured once more (entry 2 of at most 8, "
    (text,) = logged
    assert text.startswith(head) and re.search(r"\d+\.\d ms\):\n", text)
    line = program.__code__.co_firstlineno + 1
    assert text.endswith(f"    - L['x'].size(0): was 8, is 9 -> now dynamic    [{HERE}:{line}: y = x * 2]")
    logged.clear()
    run(compiled, torch.randn(9, 4), 5, "a")
    assert f"\n    - L['k']: was 1, is 5 -> now dynamic    [{HERE}:{line_of('the number')}: y = y + k" in logged[0]
    logged.clear()
    run(compiled, torch.randn(9, 4), 5, "b")
    assert f"\n    - L['mode']: was 'a', is 'b' (2 entries)    [{HERE}:{line_of('the mode')}: if mode" in logged[0]
    assert "size(0): was 8, is 9" in logged[0]  # the first entry is for eight rows


def test_the_nearest_entry_comes_first(logged):
    compiled = stator.compile(program, backend="eager")
    for x in (torch.randn(8, 4), torch.randn(8, 4, 2), torch.randn(8, 4).double(), torch.randn(9, 4)):
        run(compiled, x)
    reasons = [line.strip(" -").partition("    ")[0] for line in logged[-1].splitlines()[1:]]
    assert reasons[0] == "L['x'].size(0): was 8, is 9 -> now dynamic"
    assert sorted(reasons[1:]) == ["L['x'].dim(): was 3, is 2", "L['x'].dtype: was float64, is float32"]


def test_a_condition_on_a_size(logged):
    def f(x):
        return x + 1 if x.shape[0] > 4 else x - 1

    compiled = stator.compile(f, backend="eager")
    for size in (8, 9, 3):
        x = torch.randn(size)
        assert torch.equal(compiled(x), f(x))
    assert "    - 5 <= L['x'].size(0) does not hold: L['x'].size(0) is 3    [" in logged[-1]


def test_a_module_and_its_attribute(logged):
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = "two"

        def forward(self, x):
            y = x + 1
            return y * len(self.scale)

    model = Scaled()
    compiled = stator.compile(model, backend="eager")
    x = torch.randn(3)
    compiled(x)
    model.scale = "three"
    assert torch.equal(compiled(x), (x + 1) * 5)
    line = Scaled.forward.__code__.co_firstlineno + 2
    assert logged[0].endswith(
        f"- L['self'].scale: was 'two', is 'three'    [{HERE}:{line}: return y * len(self.scale)]"
    )


def test_behind_a_break_the_line_is_where_it_goes_on(logged):
    def f(x):
        y = x * 2
        print(end="")
        return y + 1

    compiled = stator.compile(f, backend="eager")
    for size in (3, 4):
        x = torch.randn(size)
        assert torch.equal(compiled(x), f(x))
    first = f.__code__.co_firstlineno
    places = [re.search(r":(\d+) in ", text).group(1) for text in logged]
    assert places == [str(first), str(first + 2)]


def test_the_last_entry_comes_with_a_summary_and_the_limit_with_advice(logged):
    compiled = stator.compile(program, backend="eager", recompile_limit=3)
    x = torch.randn(4)
    for mode in ("p", "q"):
        run(compiled, x, 1, mode)
    assert len(logged) == 1
    run(compiled, x, 1, "r")
    summary = logged[-1].splitlines()
    assert summary[0].endswith(
        "in program: the last of 3 entries is taken; further cases run eagerly. What differed from the others:"
    )
    assert summary[1].startswith("    - L['mode']: was 'q', is 'r'    [")
    assert summary[2].startswith("    - L['mode']: was 'p', is 'r'    [")
    assert summary[3:] == [
        "  What to do:",
        "    - L['mode']: each value is a program of its own; pass fewer of them, or a tensor",
        "    - or raise stator.config.recompile_limit (recompile_limit= of stator.compile for one function)",
    ]
    with pytest.warns(UserWarning, match="captured 3 times, and no entry fits this call") as warned:
        run(compiled, x, 1, "s")
    assert "L['mode']: was 'r', is 's'" in str(warned[0].message) and "What to do" in str(warned[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        run(compiled, x, 1, "t")
        # what is there goes on serving
        before = stator.stats()
        for mode in ("p", "q", "r", "q"):
            run(compiled, x, 1, mode)
        after = stator.stats()
    assert after["hits"] - before["hits"] == 4 and after["captures"] == before["captures"]


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("L['x'].size(1): was 8, is 9", "L['x']: stator.mark_dynamic(..., 1), or compile with dynamic=True or None"),
        (
            "L['x'].dtype: was float32, is float64",
            "L['x'].dtype: convert the tensor before the call, so that it is one at all times",
        ),
        (
            "L['x'].dim(): was 2, is 3",
            "L['x'].dim(): reshape the tensor before the call, so that it is one at all times",
        ),
    ],
)
def test_advice(reason, advice):
    assert stator._report.advice(reason).splitlines()[0] == f"    - {advice}"


def test_limits_are_those_of_each_function():
    few = stator.compile(program, backend="eager", recompile_limit=2)
    many = stator.compile(lambda x, mode: program(x, 1, mode), backend="eager")
    x = torch.randn(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = stator.stats()["captures"]
        for mode in "abcdef":
            run(few, x, 1, mode)
        assert stator.stats()["captures"] - before == 2
        before = stator.stats()["captures"]
        for mode in "abcdef":
            many(x, mode)
        assert stator.stats()["captures"] - before == 6


def test_the_stance_and_the_setting_raise_the_same_text(logged):
    compiled = stator.compile(program, backend="eager")
    with stator.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="nothing is captured yet"):
        compiled(torch.randn(8, 4))
    run(compiled, torch.randn(8, 4))
    place = f"{__file__}:{program.__code__.co_firstlineno} in program"
    with stator.set_stance("fail_on_recompile"):
        run(compiled, torch.randn(8, 4))
        with pytest.raises(RuntimeError) as error:
            compiled(torch.randn(9, 4))
    head, reason = str(error.value).splitlines()
    assert head == f"{place}: a new capture is needed, and the stance is 'fail_on_recompile':"
    with stator.config.patch(error_on_recompile=True), pytest.raises(stator.exc.RecompileError) as error:
        compiled(torch.randn(9, 4))
    assert str(error.value).splitlines()[1] == reason
    run(compiled, torch.randn(9, 4))
    assert logged[-1].splitlines()[1] == reason.replace("is 9", "is 9 -> now dynamic")


@pytest.mark.parametrize("stance", ["eager_then_compile", "aot_eager_then_compile"])
def test_eager_then_compile(stance):
    compiled = stator.compile(program, backend="eager")
    graphs = []
    with stator.set_stance(stance):
        for size in (8, 9, 10, 11):
            before = stator.stats()["graphs"]
            run(compiled, torch.randn(size, 4))
            graphs.append(stator.stats()["graphs"] - before)
    # the first is not compiled, and the second dynamic at once
    assert graphs == [0, 1, 0, 0]
    assert stator.get_stance() == "default" if hasattr(stator, "get_stance") else True


class Last(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 4)
        self.mode = "0"

    def forward(self, x):
        y = super().forward(x)
        return y * int(self.mode) if self.mode else -y


def test_many_entries_that_differ_deep_down():
    """Where a check failed lately is asked first: the answers stay right, in whatever order the entries are wanted."""
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(20)), Last())
    compiled = stator.compile(model, backend="eager", recompile_limit=20)
    last, x = model[-1], torch.randn(2, 4)
    modes = [str(i) for i in range(10)] + [""]

    def call(mode):
        last.mode = mode
        torch.testing.assert_close(compiled(x), model(x))

    for mode in modes:
        call(mode)
    before = stator.stats()
    order = random.Random(0)
    for _ in range(300):
        call(order.choice(modes))
    for mode in ["3"] * 200 + modes * 3:
        call(mode)
    after = stator.stats()
    assert after["captures"] == before["captures"] and after["hits"] - before["hits"] == 500 + 3 * len(modes)
    call("11")
    assert stator.stats()["captures"] == after["captures"] + 1
    del last.mode
    with pytest.raises(AttributeError, match="mode"):
        compiled(x)
    call("11")


SCRIPT = """
import torch, stator
def f(x):
    y = x * 2
    print("out")
    return y + 1 if x.shape[0] > 4 else y
compiled = stator.compile(f, backend="eager")
for size in (8, 9, 3):
    compiled(torch.randn(size, 4))
print("captures", stator.stats()["captures"])
"""


def script(**environment):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("graph_code", ["TRACED GRAPH", "class GraphModule(torch.nn.Module)"]),
        ("guards", ["L['x']: Tensor, float32, [8, 4], stride [4, 1], cpu"]),
        ("recompiles", ["L['x'].size(0): was 8, is 9 -> now dynamic", "5 <= L['x'].size(0) does not hold"]),
        ("graph_breaks", ["calls a function that runs outside of graphs (print)"]),
        ("dynamic", ["L['x'].size(0) is a symbol"]),
    ],
)
def test_words_of_torch_logs(word, expected):
    out, err = script(TORCH_LOGS=word)
    assert out.count("out") == 3
    for text in expected:
        assert text in err
    others = {
        "graph_code": "TRACED GRAPH",
        "recompiles": "captured once more",
        "graph_breaks": "Graph break in user code",
    }
    for other, text in others.items():
        assert (text in err) == (other == word)


def test_torch_compile_disable():
    out, err = script(TORCH_COMPILE_DISABLE="1", TORCH_LOGS="graph_code")
    assert "captures 0" in out and "TRACED" not in err


def captured(function, *calls, **options):
    """How many captures each of these calls makes; results are eager's."""
    compiled = stator.compile(function, backend="eager", **options)
    counts = []
    for args in calls:
        before = stator._core.stats()["captures"]
        torch.testing.assert_close(compiled(*args), function(*args))
        counts.append(stator._core.stats()["captures"] - before)
    return counts


@pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are other captures")
def test_settings_of_what_becomes_dynamic():
    def square(x):
        return x * x

    sizes = [(torch.randn(n),) for n in (3, 2, 1, 0, 7)]
    assert captured(square, *sizes) == [1, 1, 1, 1, 0]
    with stator.config.patch(automatic_dynamic_shapes_mark_as="unbacked"):
        assert captured(square, *sizes) == [1, 1, 0, 0, 0]
    parameters = [(torch.nn.Parameter(torch.randn(n, 3)),) for n in (4, 5, 6)]
    assert captured(square, *parameters) == [1, 1, 1]
    with stator.config.patch(force_parameter_static_shapes=False):
        assert captured(square, *parameters) == [1, 1, 0]


@pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are other captures")
def test_numbers_and_tensors_in_turn_are_dynamic_at_once():
    def product(x, y):
        return x * y

    calls = [(torch.randn(n), torch.randn(n) if n % 2 == 0 else n) for n in (2, 3, 4, 5, 6, 7)]
    assert captured(product, *calls) == [1, 1, 1, 0, 0, 0]


@pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are other captures")
def test_what_a_function_over_its_limit_calls_is_not_captured_anew():
    def inner(x, n):
        return x + n

    def outer(x, n):
        return inner(x * n, n)

    calls = [(torch.ones(3), n) for n in (5, 6, 7, 8, 5, 6)]
    assert captured(outer, *calls, dynamic=False, recompile_limit=2) == [1, 1, 0, 0, 0, 0]


def seen_from_outside(value):
    print(end="")
    return value


def values_on_the_stack(x, numbers):
    for number in numbers:
        x = x * seen_from_outside(number) + 1  # on the stack
        print(end="")
    return x


def test_what_lies_on_the_stack_is_named_as_it_is_written(logged):
    compiled = stator.compile(values_on_the_stack, backend="eager")
    for numbers in ([1.5, 2.5, 3.5], ["a"][:0]):
        assert torch.equal(compiled(torch.ones(3), numbers), values_on_the_stack(torch.ones(3), numbers))
    told = "\n".join(logged)
    assert f"`seen_from_outside(number)` (line {line_of('on the stack')}): was 1.5, is 2.5" in told
    assert f"`iter(numbers)` (line {line_of('on the stack') - 1})" in told
    assert "___stack" not in told


def test_what_is_written_over_several_lines_is_named_in_one():
    lines = ["def f(x, g):", "    return x * g(", "        'é',", "        1,", "    )"]
    stator._report.linecache.cache["<lines>"] = (0, None, [line + "\n" for line in lines], "<lines>")
    code = compile("\n".join(lines), "<lines>", "exec").co_consts[0]
    (call,) = [i.offset for i in stator._report.dis.get_instructions(code) if i.opname == "CALL"]
    assert stator._report.expression(code, call, False) == "`g( 'é', 1, )` (line 2)"
    nowhere = code.replace(co_filename="<nowhere>")
    assert stator._report.expression(nowhere, call, False) == "a value of line 2"


def test_branches_on_many_flags_need_no_graph_for_each_combination():
    """Tensors of one element that steer the program: two of them are read where the entry begins, more are breaks."""

    def f(x, *flags):
        for flag in flags:
            x = x + 1
            if flag:
                x = x * 2
        return x

    def graphs(count):
        seen = []
        compiled = stator.compile(f, backend=lambda module, inputs: seen.append(module) or module.forward)
        x = torch.arange(3.0)
        for _ in range(2):
            for bits in range(2**count):
                flags = [torch.tensor([float(bits >> at & 1)]) for at in range(count)]
                assert torch.equal(compiled(x, *flags), f(x, *flags))
        return len(seen)

    before = stator.stats()["fallbacks"]
    if "STATOR_BREAK_EVERY" not in os.environ:
        assert (graphs(1), graphs(2)) == (2, 4)
    assert graphs(6) < 40
    assert stator.stats()["fallbacks"] == before
