"""torch.compile(shapes_spec=...): the sizes it names are one graph's, all others are static, and what it says is
checked."""

from __future__ import annotations

import os

import pytest
import torch

import stator

specs = pytest.importorskip("torch.fx.experimental.dynamic_spec", reason="torch 2.13")
pytestmark = pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="graphs are counted")

IntVar, ShapeVar, TensorSpec = specs.IntVar, specs.ShapeVar, specs.TensorSpec
ROWS, COLUMNS = ShapeVar("rows"), ShapeVar("columns", min=2, max=6)
ones = torch.ones


class Holder:
    def __init__(self, rows):
        self.weight = ones(rows)


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x, k=1):
        return self.layer(x) * k


def breaks(x):
    y = x * 2
    stator.graph_break()
    return y + x


# function, spec, calls, graphs
CASES = {
    "a size": (lambda x: x * 2 + 1, {"x": TensorSpec([ROWS, None])}, [(ones(r, 4),) for r in (3, 5, 1, 0)], 1),
    "others are static": (lambda x: x * 2, {"x": TensorSpec([ROWS, None])}, [(ones(3, c),) for c in (4, 5, 6)], 3),
    "one size twice": (
        lambda x, y: x + y,
        {"x": TensorSpec([ROWS]), "y": TensorSpec([ROWS])},
        [(ones(r), ones(r)) for r in (3, 5)],
        1,
    ),
    "derived": (
        lambda x, y: x.sum() + y,
        specs.ParamsSpec({"x": TensorSpec([ROWS]), "y": TensorSpec([ROWS * 2 + 1])}),
        [(ones(r), ones(2 * r + 1)) for r in (3, 5)],
        1,
    ),
    "assumption": (
        lambda x, y: x.sum() + y.sum(),
        specs.ShapesSpec({"x": TensorSpec([ROWS]), "y": TensorSpec([COLUMNS])}, assumptions=[ROWS + COLUMNS > 5]),
        [(ones(3), ones(4)), (ones(6), ones(3))],
        1,
    ),
    "an int": (lambda x, n: x * n, {"n": IntVar("n")}, [(ones(3), n) for n in (4, 5, 1, 0)], 1),
    "items": (
        lambda pair, table: pair[0] * 2 + table["y"],
        {"pair": specs.SeqSpec([TensorSpec([ROWS])]), "table": specs.DictSpec({"y": TensorSpec([ROWS])})},
        [([ones(r)], {"y": ones(r)}) for r in (3, 4)],
        1,
    ),
    "attributes": (
        lambda holder: holder.weight * 2,
        {"holder": specs.ObjectSpec({"weight": TensorSpec([ROWS])})},
        [(Holder(3),), (Holder(4),)],
        1,
    ),
    "starred": (
        lambda *args: args[0] + args[1],
        {"*args": [TensorSpec([ROWS])] * 2},
        [(ones(r), ones(r)) for r in (3, 5)],
        1,
    ),
    "a module": (Scaled(), {"x": TensorSpec([ROWS, None])}, [(ones(3, 4),), (ones(5, 4),), (ones(6, 4), 1)], 1),
    # behind the break sizes are what they are without a spec: dynamic once they changed
    "over a break": (breaks, {"x": TensorSpec([ROWS])}, [(ones(3),), (ones(4),), (ones(5),)], 3),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_graphs_and_results(case, backend):
    function, spec, calls, graphs = CASES[case]
    made = []
    with stator.on_graph(made.append):
        compiled = stator.compile(function, backend=backend, shapes_spec=spec)
        for arguments in calls:
            torch.testing.assert_close(compiled(*arguments), function(*arguments))
    assert len(made) == graphs


BROKEN = {
    "static": ({"x": TensorSpec([ROWS, 4])}, (ones(3, 5),), ValueError, "as static with value 4, but got 5"),
    "rank": (
        {"x": TensorSpec([ROWS])},
        (ones(3, 5),),
        ValueError,
        "TensorSpec has 1 dims but tensor L..x.. has 2 dims",
    ),
    "range": ({"x": TensorSpec([COLUMNS, None])}, (ones(8, 5),), RuntimeError, "x.size.0. <= 6"),
    "equal": ({"x": TensorSpec([ROWS, ROWS])}, (ones(3, 5),), RuntimeError, "another size than the first rows"),
    "derived": ({"x": TensorSpec([ROWS, ROWS + 1])}, (ones(3, 5),), RuntimeError, "x.size.1. == rows . 1"),
    "unbound": ({"x": TensorSpec([None, ROWS + 1])}, (ones(3, 5),), ValueError, "unbound: rows"),
}


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("case", BROKEN)
def test_what_does_not_hold_is_an_error(case, fullgraph):
    spec, arguments, error, words = BROKEN[case]
    if fullgraph and error is ValueError:
        error = stator.exc.Unsupported  # as with every exception that the program raises; it has the text
    compiled = stator.compile(lambda x: x * 2, backend="eager", shapes_spec=spec, fullgraph=fullgraph)
    for _ in range(2):
        with pytest.raises(error, match=words):
            compiled(*arguments)
    assert stator.stats()["internal_errors"] == 0


def test_a_later_call_is_checked_too():
    compiled = stator.compile(lambda x: x * 2, backend="eager", shapes_spec={"x": TensorSpec([COLUMNS])})
    compiled(ones(3))
    with pytest.raises(RuntimeError, match="<= 6"):
        compiled(ones(7))
    assert torch.equal(compiled(ones(6)), ones(6) * 2)


def test_arguments_that_contradict():
    with pytest.raises(ValueError, match="cannot both be set"):
        stator.compile(lambda x: x, dynamic=True, shapes_spec={"x": TensorSpec([ROWS])})
    with pytest.raises(TypeError, match="shapes_spec must be"):
        stator.compile(lambda x: x, shapes_spec=5)


def test_a_check_that_this_call_does_not_pass():
    """Of sizes that are marked unbacked, without shapes_spec."""

    def f(x):
        torch._check(x.size(0) <= 6, lambda: "too many")
        return x * 2

    compiled = stator.compile(f, backend="eager")
    for rows in (3, 8, 4):
        x = ones(rows)
        stator.mark_unbacked(x, 0)
        if rows > 6:
            with pytest.raises(RuntimeError, match="too many"):
                compiled(x)
        else:
            assert torch.equal(compiled(x), x * 2)
    assert stator.stats()["internal_errors"] == 0
