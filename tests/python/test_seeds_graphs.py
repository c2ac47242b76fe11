"""Document 000: calls, graphs, breaks and what ranks agree on, item by item (tests/python/seeds.py)."""

import functools
import gc
import json
import logging
import os
import re
import subprocess
import sys
import weakref

import pytest
import torch

import stator
from seeds import Front, item, numbers, raised

# ---- calls


@item("000", "inline user function", dynamo="same", graphs=1)
def test_user_functions_are_inlined(at):
    def inner(x, by):
        return x * by

    def middle(x):
        return inner(x, 2) + inner(x, by=3)

    found = at.compile(lambda x: middle(x).sum())(numbers())
    if at.is_stator:
        assert at.calls() == ["mul", "mul", "add", "sum"]
    return found


@item("000", "varargs/kwonly/defaults bind", dynamo="same", graphs=1)
def test_arguments_are_bound(at):
    def inner(a, /, b=2, *rest, c, d=4, **named):
        return a * b + len(rest) + c * d + sum(named.values()), sorted(named)

    def outer(x):
        given = {"c": 3, "e": 5}
        return inner(x, c=1), inner(x, 5, 6, 7, c=2, d=1, z=8), inner(*[x, 1], **given)

    return at.compile(outer)(numbers())


@item(
    "000",
    "ArgsMismatch text with func/args",
    whole=True,
)
def test_arguments_that_do_not_fit():
    def inner(a, b, *, k):
        return a + b

    def outer(x):
        return inner(x.sin(), 2, 3, z=1)

    eager = raised(lambda: outer(numbers()))
    assert isinstance(eager, TypeError)
    plain = raised(lambda: stator.compile(outer, backend="eager")(numbers()))
    assert type(plain) is TypeError and str(plain) == str(eager), "without fullgraph it is eager's"
    with pytest.raises(stator.exc.ArgsMismatchError) as caught:
        stator.compile(outer, backend="eager", fullgraph=True)(numbers())
    text = str(caught.value)
    assert (
        str(eager) in text
        and f"func = 'test_arguments_that_do_not_fit.<locals>.inner' {os.path.basename(__file__)}:" in text
    ), text
    assert "args = [<class 'torch.Tensor'>, <class 'int'>, <class 'int'>], kwargs = {'z': <class 'int'>}" in text, text


@item("000", "functions in skip files")
def test_functions_that_are_not_traced(at):
    def outer(x):
        text = json.dumps({"n": x.shape[0]})
        return x.sin() + len(text)

    return at.compile(outer, fullgraph=False)(numbers())


@item("000", "run: recursion", graphs=1)
def test_recursion(at):
    def power(x, n):
        return x if n == 0 else power(x * 2, n - 1)

    return at.compile(lambda x: power(x, 40))(numbers())


# ---- errors


@item("000", "BackendCompilerFailed", whole=True)
def test_a_backend_that_fails():
    def fails(module, inputs):
        raise ValueError("no kernel for this")

    with pytest.raises(stator.exc.BackendCompilerFailed, match="'fails' raised:\nValueError: no kernel") as caught:
        stator.compile(lambda x: x + 1, backend=fails)(numbers())
    assert (
        isinstance(caught.value.inner_exception, ValueError) and caught.value.__cause__ is caught.value.inner_exception
    )


RECORDED = """
import sys, torch, stator
from torch import nn
scale = float(sys.argv[1])
def scaled(x): return x * scale
class Model(nn.Module):
    def __init__(self):
        super().__init__(); self.linear = nn.Linear(2, 2)
    def forward(self, x, n=3):
        y = scaled(self.linear(x))
        print("leaves")
        return super().extra_repr(), y * n
model = Model()
def made(k):
    def f(x): return model(x)[1] + k
    return f
stator.config.replay_record_enabled = True
torch.manual_seed(0)
try: stator.compile(made(2), backend="eager", fullgraph=True)(torch.ones(1, 2))
except stator.exc.Unsupported as error:
    assert error.exec_record.locals["x"].shape == (1, 2)
    print(error.record_filename, made(2)(torch.ones(1, 2)).tolist(), sep="|")
"""
REPLAYED = """
import sys, stator
try: stator.replay(sys.argv[1])
except stator.exc.Unsupported as error: print("raised", "runs outside of graphs (print)" in str(error))
print(stator.replay(sys.argv[1], fullgraph=False).tolist())
"""


def python(text, *arguments, cwd):
    command = [sys.executable, "-c", text] if "\n" in text else [sys.executable, text]
    done = subprocess.run([*command, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()


@item("000", "exec_recorder record on exception", whole=True)
def test_a_record_can_be_replayed_elsewhere(tmp_path):
    """The capture that raised is run again in a process that has neither the program's file nor its arguments."""
    (tmp_path / "program.py").write_text(RECORDED)
    said = python(str(tmp_path / "program.py"), "2.5", cwd=tmp_path)
    path, value = said[-1].split("|")
    (tmp_path / "program.py").unlink()
    assert python(REPLAYED, path, cwd=tmp_path) == ["raised True", "leaves", value]


@item("000", "cleanup frees tensors", whole=True)
def test_nothing_is_held_behind_a_capture():
    def f(x):
        y = x * 2
        print("", end="")
        return y + 1

    given = numbers()
    gone = weakref.ref(given)
    for full in (False, True):
        raised(lambda full=full: stator.compile(f, backend="eager", fullgraph=full)(given))
    del given
    gc.collect()
    assert gone() is None


# ---- breaks


@torch.compiler.disable
def leaves(x):
    """Not captured, by nobody: a break."""
    return x.detach().clone().add_(1)


@item("000", "step: break with stack empty/non-empty", dynamo="same", graphs=2)
def test_breaks_with_values_on_the_stack(at):
    def f(x):
        y = x * 2
        leaves(y)
        return [y + 1, leaves(y), y * 3][0] + (y, leaves(x))[1]

    found = at.compile(f, fullgraph=False)(numbers())
    at.graphs = at.graphs[:2]
    return found


TRACED = """
import torch, stator
def f(x):
    y = x.sin()
    return y + 1
stator.compile(f, backend="eager")(torch.ones(2))
"""


@item("000", "trace_bytecode log", whole=True)
def test_the_log_of_bytecode(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", TRACED],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TORCH_LOGS": "trace_bytecode"},
    )
    assert done.returncode == 0, done.stderr
    told = [line.partition("TRACE ")[2] for line in done.stderr.splitlines() if "TRACE " in line]
    assert any(line.startswith("LOAD_FAST x []") for line in told), done.stderr
    assert any(line.startswith("RETURN_VALUE") for line in told)


@item("000", "step_graph_break continue", dynamo="same")
def test_capture_goes_on_behind_a_break(at):
    def f(x):
        total = x * 0
        for i in range(3):
            total = total + leaves(x * i)
        return total.cos()

    call = at.compile(f, fullgraph=False)
    found = [call(numbers()), call(numbers())]
    if at.is_stator:
        assert "cos" in at.calls() and at.calls().count("mul") >= 2
    return found


@item("000", "compile_subgraph: live variables", dynamo="same")
def test_live_variables_are_there_behind_a_break(at):
    def f(x):
        dead, alive, pair, text = x * 2, x * 3, (x + 1, [x + 2]), "n"
        dead = leaves(x)
        return alive + dead, pair, text

    return at.compile(f, fullgraph=False)(numbers())


@item("000", "aliases restored", dynamo="same")
def test_aliases_are_aliases_behind_a_break(at):
    def f(x):
        first = [x * 2]
        second, third = first, {"same": first}
        leaves(x)
        second.append(x + 1)
        return first is second, third["same"] is first, len(first), first[1]

    return at.compile(f, fullgraph=False)(numbers())


@item(
    "000",
    "blocks with/try restored",
    "better",
    "a break inside of try goes on in the same block, with the calls around it in graphs: TorchDynamo captures none of them",
    dynamo="differs",
)
def test_blocks_are_there_behind_a_break(at):
    def f(x):
        with torch.no_grad():
            y = x * 2
            leaves(x)
            grad = torch.is_grad_enabled()
            z = y + 1
        try:
            z = z.cos()
            leaves(x)
            raise ValueError(str(grad))
        except ValueError as error:
            return z.sin(), str(error), torch.is_grad_enabled()

    found = at.compile(f, fullgraph=False)(numbers().requires_grad_())
    captured = at.name in ("eager", "breaks") or {"mul", "add", "cos", "sin"} <= set(at.calls())
    return found, captured


@item("000", "GraphCompileReason on gm", whole=True)
def test_graphs_know_why_they_end():
    at = Front("stator")

    def f(x):
        y = x * 2
        leaves(x)
        return y + 1

    at.compile(f, fullgraph=False)(numbers())
    first, last = (module.compile_subgraph_reason for module in at.graphs)
    assert first.graph_break and "leaves" in first.reason, first
    line = f.__code__.co_firstlineno + 2
    assert [(frame.name, frame.lineno) for frame in first.user_stack] == [("f", line)], first.user_stack
    assert (last.reason, last.graph_break) == ("return_value", False) and last.user_stack[0].name == "f", last
    at.graphs.clear()
    outer = at.compile(lambda x: f(x) * 2, fullgraph=False)
    outer(numbers())
    stack = at.graphs[0].compile_subgraph_reason.user_stack
    assert [(frame.name, frame.lineno) for frame in stack][-1] == ("f", line) and len(stack) == 2, stack


@item("000", '__compiled_fn name, debug "COMPILING GRAPH" log', whole=True)
def test_the_log_of_graphs(caplog):
    at = Front("stator")
    with caplog.at_level(logging.DEBUG, logger="torch._dynamo.output_graph"):
        at.compile(lambda x: x * 2)(numbers())
    assert "COMPILING GRAPH due to GraphCompileReason(reason='return_value'" in caplog.text
    name = at.graphs[0].meta["backend_id"]
    assert re.fullmatch(r"__compiled_fn_\d+", name)


# ---- ranks

PROGRAMS = "sizes,alone,equal,breaks_elsewhere,breaks_elsewhere_eagerly,told,gathers"


@functools.cache
def results():
    from tests.python import ranks

    return ranks.all_well(ranks.run(PROGRAMS))


def told(name):
    return [result[name] for result in results()]


@item("000", "compiler collective: agree equal", whole=True)
def test_ranks_agree_on_equal_programs():
    first, second = told("equal")
    assert first["graphs"] == second["graphs"] and len(first["graphs"]) == 1 and "s0" not in first["graphs"][0]


@item("000", "collective: sizes become dynamic", whole=True)
def test_sizes_that_differ_between_ranks():
    first, second = told("sizes")
    assert first["same"] == second["same"] == [True] * 4
    assert first["graphs"] == second["graphs"] and len(first["graphs"]) == 1 and "s0" in first["graphs"][0]
    assert "s0" not in told("alone")[0]["graphs"][0]


@item("000", "collective: ints", whole=True)
def test_ints_that_differ_between_ranks():
    (graph,) = told("sizes")[0]["graphs"]
    assert "s0" in graph and "s1" in graph, "the batch and the int"


@item("000", "collective: break on ranks", whole=True)
def test_breaks_that_differ_between_ranks():
    for result in told("breaks_elsewhere"):
        assert result["error"] == "RanksDiverged" and "breaks at rank_programs.py:" in result["text"]


@item(
    "000",
    "collective on CPU/gloo",
    "better",
    "ranks agree over any process group, CPU and gloo included: TorchDynamo asks for an accelerator",
    whole=True,
)
def test_ranks_agree_over_gloo():
    assert [result["backend"] for result in told("told")] == ["gloo", "gloo"]
    assert [result["value"] for result in told("told")] == [[3.0, 3.0, 3.0]] * 2


@item("000", "collective: log.info + trace artifact", whole=True)
def test_what_ranks_tell_is_logged():
    for number, result in enumerate(told("told")):
        (line,) = result["logged"]
        assert line.startswith("compiler_collective {") and f"'rank': {number}" in line and "'calls': 2" in line
        (artifact,) = result["artifacts"]
        assert artifact["rank"] == number and artifact["exit"] == "returns"
        assert artifact["reads"] and artifact["structure"] == told("told")[0]["artifacts"][0]["structure"]


@item(
    "000",
    "divergence",
    "better",
    "ranks that run different programs get an error that names both, or run eagerly together: under TorchDynamo they hang",
    whole=True,
)
def test_ranks_that_diverge():
    for result in told("breaks_elsewhere"):
        assert "rank 0: captured" in result["text"] and "rank 1: captured" in result["text"] and result["seconds"] < 30
    for result in told("breaks_elsewhere_eagerly"):
        assert [call.get("value") for call in result["calls"]] == [[4.0, 4.0]] * 12


@item("000", "all_gather_object in program", whole=True)
def test_all_gather_object_in_a_program():
    for number, result in enumerate(told("gathers")):
        assert result["gathered"] == [{"rank": 0}, {"rank": 1}] and result["value"] == [number + 2.0] * 2
        assert result["graphs"] >= 1
