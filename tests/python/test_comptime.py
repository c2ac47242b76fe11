"""comptime: a function that runs while the program is captured, once, and sees its values, calls and graph;
TorchDynamo's object too."""

from __future__ import annotations

import io
import os

import pytest
import torch
from torch._dynamo.comptime import comptime as theirs

import stator

pytestmark = pytest.mark.skipif(
    "STATOR_BREAK_EVERY" in os.environ, reason="forced breaks capture the function in pieces"
)
FILE: io.StringIO
SEEN: list = []


@pytest.fixture(autouse=True)
def fresh():
    global FILE
    FILE = io.StringIO()
    SEEN.clear()
    stator.reset()
    yield
    stator.reset()


def _run(program, *args, **how):
    expected = program(*args)
    eager = FILE.getvalue()
    assert not eager and not SEEN, "eager passes it by"
    compiled = stator.compile(program, backend="eager", **how)
    found = stator.stats()["graphs"]
    assert torch.equal(compiled(*args), expected)
    said = FILE.getvalue(), list(SEEN)
    assert torch.equal(compiled(*args), expected)
    assert (FILE.getvalue(), SEEN) == said, "a call that is served passes it by"
    return FILE.getvalue(), stator.stats()["graphs"] - found


@pytest.mark.parametrize("comptime", [stator.comptime, theirs], ids=["stator", "torch"])
def test_values_calls_and_graph(comptime):
    global THING
    THING = comptime

    def inner(y, words):
        @THING
        def _(ctx):
            SEEN.append(ctx.get_local("words").as_python_constant())
            SEEN.append(ctx.get_local("y").is_proxy())
            ctx.print(ctx.get_local("y"), file=FILE)
            ctx.print(ctx.get_local("x", stacklevel=1), file=FILE)
            ctx.print_graph(file=FILE)
            ctx.print_bt(file=FILE)
            ctx.parent().print_locals(file=FILE)

        return y + 1

    def outer(x):
        return inner(x * 2, "some") * 3

    text, graphs = _run(outer, torch.randn(2, 3))
    assert graphs == 1 and SEEN == ["some", True]
    assert text.startswith("FakeTensor(..., size=(2, 3))\nFakeTensor(..., size=(2, 3))\n")
    assert "l_x_ * 2" in text and "+ 1" not in text  # so far
    assert 'in outer\n    return inner(x * 2, "some") * 3\n' in text and text.index("in outer") < text.index("in inner")
    assert "x = FakeTensor(..., size=(2, 3))" in text


def test_containers_numbers_and_disassembly():
    def program(x):
        y, n = [x + 1, {"k": x * 2}, 3], x.shape[0]

        @stator.comptime
        def _(ctx):
            ctx.print(ctx.get_local("y"), file=FILE)
            ctx.print(ctx.get_local("n"), file=FILE)
            ctx.print_disas(file=FILE)

        return y[0] + y[1]["k"] * n

    text, graphs = _run(program, torch.randn(4), dynamic=True)
    lines = text.splitlines()
    assert graphs == 1 and lines[0] == "[FakeTensor(..., size=(s0,)), {'k': FakeTensor(..., size=(s0,))}, 3]"
    assert lines[1] == "s0" and "MAKE_FUNCTION" in text


def test_the_short_forms(capsys):
    def program(x):
        y = x + 1
        stator.comptime.print(y)
        stator.comptime.print_locals()
        stator.comptime.print_bt()
        stator.comptime.print_graph()
        return y * 2

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    x = torch.randn(3)
    program(x)
    assert not capsys.readouterr().out
    assert torch.equal(compiled(x), program(x))
    text = capsys.readouterr().out
    assert (
        text.startswith("FakeTensor(..., size=(3,))\n")
        and "y = FakeTensor" in text
        and "in program" in text
        and "l_x_ + 1" in text
    )


def test_a_break_that_is_asked_for():
    def program(x):
        y = x + 1

        @stator.comptime
        def _(ctx):
            ctx.graph_break("because of me")

        return y * 2

    found = stator.explain(program)(torch.randn(3))
    assert found.graph_count == 2 and "because of me" in found.breaks[0].reason


def test_free_variables_are_refused():
    def program(x):
        y = x + 1
        stator.comptime(lambda ctx: print(y))
        return y * 2

    with pytest.raises(stator.exc.Unsupported, match="free variables"):
        stator.compile(program, backend="eager", fullgraph=True)(torch.randn(3))


def test_errors_are_the_programs():
    def program(x):
        @stator.comptime
        def _(ctx):
            raise KeyError("mine")

        return x + 1

    with pytest.raises((KeyError, stator.exc.Unsupported), match="mine"):
        stator.compile(program, backend="eager", fullgraph=True)(torch.randn(3))


def test_the_graph_so_far_can_be_looked_at():
    def program(x):
        y = x * 2

        @stator.comptime
        def _(ctx):
            y = ctx.get_local("y")
            SEEN.append((y.as_fake().dtype, tuple(y.size()), y.size(0)))
            y.as_proxy() + 4
            ctx.print_graph(verbose=False, file=FILE)

        return y + 3

    text, graphs = _run(program, torch.randn(2))
    assert graphs == 1 and SEEN == [(torch.float32, (2,), 2)]
    assert (
        text
        == "def forward(self, L_x_ : torch.Tensor):\n    l_x_ = L_x_\n    y = l_x_ * 2;  l_x_ = None\n    add = y + 4;  y = add = None\n"
    )


def _fails(x):
    y = x + 1

    @stator.comptime
    def _(ctx):
        SEEN.append(ctx.get_local("nothing of the kind"))

    return y


def test_an_error_of_the_function_is_seen(caplog):
    with pytest.raises(KeyError, match="nothing of the kind") as caught:
        stator.compile(_fails, backend="eager")(torch.ones(2))
    assert "from user code" in str(caught.value.args[0]) and "in _fails" in str(caught.value.args[0])
    stator.reset()
    with stator.config.patch(suppress_errors=True):
        compiled = stator.compile(_fails, backend="eager")
        before = stator.stats()["graphs"]
        for _ in range(2):
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
        assert stator.stats()["graphs"] == before + 1
    assert not SEEN
