"""Marks that cannot be met: each is an error that says what is wrong, of which tensor and dimension, and where the
program is to blame its line."""

import os
import re

import pytest
import torch

import stator
from stator import _torch_versions

ADVICE = "\n  What to do: write that line for any size, or mark with maybe_mark_dynamic, which a program may undo."


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    yield
    stator.reset()


def plain(x):
    return x + 1


def message(function, *arguments, kind=stator.exc.UserError):
    """What the compiled function says; eager has to take the same arguments."""
    function(*arguments)
    with pytest.raises(kind) as error:
        stator.compile(function, backend="eager")(*arguments)
    return str(error.value)


@pytest.mark.parametrize(
    "mark", [stator.mark_dynamic, stator.maybe_mark_dynamic, stator.mark_unbacked, stator.mark_static]
)
def test_a_dimension_that_is_not_there(mark):
    x = torch.randn(3, 5)
    name = mark.__name__
    for dim in (-1, 2):
        with pytest.raises(IndexError) as error:
            mark(x, dim)
        assert str(error.value) == f"{name}: dimension {dim} of a tensor of sizes (3, 5): its dimensions are 0 to 1"
    with pytest.raises(IndexError) as error:
        mark(torch.tensor(1.0), [0])
    assert str(error.value) == f"{name}: dimension 0 of a tensor of sizes (): it has none"
    with pytest.raises(TypeError) as error:
        mark(x, "0")
    assert str(error.value) == f"{name} expects dimensions as ints but received str"
    with pytest.raises(TypeError) as error:
        mark([1, 2], 0)
    assert str(error.value) == f"{name} expects a tensor but received list"
    # a mark that failed leaves none
    assert torch.equal(stator.compile(plain, backend="eager")(x), plain(x)) and not x.__dict__


def test_a_least_size_above_the_largest():
    x = torch.randn(3, 5)
    with pytest.raises(ValueError) as error:
        stator.mark_dynamic(x, 1, min=8, max=4)
    assert str(error.value) == "mark_dynamic: dimension 1 of a tensor of sizes (3, 5): min is 8, and max is 4"


def test_dynamic_and_static():
    x = torch.randn(3, 5)
    stator.mark_dynamic(x, 1)
    stator.mark_static(x, 1)
    assert message(plain, x) == "L['x'].size(1) is marked dynamic and static"
    y = torch.randn(3, 5)
    stator.mark_static(y)
    stator.mark_unbacked(y, 0)
    assert message(plain, y) == "L['x'].size(0) is marked unbacked and static"


def test_ranges_that_contradict_each_other():
    x = torch.randn(7, 5)
    stator.mark_dynamic(x, 0, min=6)
    stator.mark_dynamic(x, 0, max=4)
    assert message(plain, x) == (
        "L['x'].size(0) is marked dynamic with ranges that leave no size: at least 6 and at most 4"
    )
    # Two that do not: both hold.
    y = torch.randn(7, 5)
    stator.mark_dynamic(y, 0, min=4)
    stator.mark_dynamic(y, 0, max=8)
    compiled = stator.compile(plain, backend="eager")
    before = stator.stats()["graphs"]
    for size, graphs in ((7, 1), (4, 1), (8, 1), (9, 2)):
        z = y if size == 7 else torch.randn(size, 5)
        assert torch.equal(compiled(z), plain(z))
        assert stator.stats()["graphs"] - before == graphs


def test_a_size_outside_of_its_range():
    def nested(pair):
        return pair["a"][0] + 1

    x = torch.randn(9, 4)
    stator.mark_dynamic(x, 0, max=8)
    assert message(plain, x) == "L['x'].size(0) is marked dynamic from 2 to 8, but it is 9"
    assert message(nested, {"a": [x]}) == "L['pair']['a'][0].size(0) is marked dynamic from 2 to 8, but it is 9"
    for size in (3, 1):
        y = torch.randn(size, 4)
        stator.mark_dynamic(y, 0, min=4)
        assert message(plain, y) == f"L['x'].size(0) is marked dynamic from 4 on, but it is {size}"


def test_marks_that_torch_made():
    """torch's own functions put the same marks on tensors, unchecked."""
    x = torch.randn(3, 5)
    x._dynamo_dynamic_indices = {-1}
    x._has_dynamo_dim_marking = True
    assert message(plain, x) == "L['x'].size(-1) is marked dynamic, but the tensor has 2 dimensions"


@pytest.mark.skipif(_torch_versions.VERSION < (2, 13), reason="AOTAutograd marks no results before torch 2.13")
def test_dims_that_were_symbols_of_an_earlier_graph():
    """AOTAutograd leaves them on its results: the next graph has symbols for them from the start, and no guards on the
    mark."""
    before = stator.compile(lambda x: x * 2, backend="aot_eager", dynamic=True)
    behind = stator.compile(plain, backend="eager", fullgraph=True)
    made = before(torch.randn(3, 5))
    assert made._dynamo_propagated_dynamic_indices == {0, 1}
    counted = stator._core.stats()["captures"]
    for x in (made, before(torch.randn(4, 5)), torch.randn(6, 7)):
        assert torch.equal(behind(x), plain(x))
    assert stator._core.stats()["captures"] == counted + 1
    # Only where sizes are followed at all.
    fixed = stator.compile(plain, backend="eager", dynamic=False)
    for size in (3, 4):
        fixed(before(torch.randn(size, 5)))
    assert stator._core.stats()["captures"] == counted + 3


def branch(x):
    y = x * 2
    if x.shape[0] == 6:  # the first line to blame
        return y + 1
    return y


def inner(y):
    return y.reshape(3, 2, 4)  # the second line to blame


def outer(x):
    return inner(x + 1)


def formats(x):
    return x + len(f"{x.size(0)}")  # the third line to blame


@pytest.mark.parametrize(("function", "line"), [(branch, "first"), (outer, "second"), (formats, "third")])
def test_a_dimension_that_the_program_makes_static(function, line):
    x = torch.randn(6, 4)
    stator.mark_dynamic(x, 0)
    with open(__file__) as source:
        numbers = [n for n, text in enumerate(source, 1) if text.rstrip().endswith(f"the {line} line to blame")]
    name = {"second": "inner"}.get(line, function.__name__)
    assert message(function, x) == (
        "L['x'].size(0) is marked dynamic, but the program makes it static: "
        f"it was 6 at {__file__}:{numbers[0]} in {name}{ADVICE}"
    )
    # As a wish it may.
    y = torch.randn(6, 4)
    stator.maybe_mark_dynamic(y, 0)
    assert torch.equal(stator.compile(function, backend="eager")(y), function(y))


def test_the_error_comes_each_time_and_other_tensors_are_served():
    x = torch.randn(6, 4)
    stator.mark_dynamic(x, 0)
    compiled = stator.compile(branch, backend="eager")
    for _ in range(2):
        with pytest.raises(stator.exc.ConstraintViolation, match=re.escape("L['x'].size(0) is marked dynamic")):
            compiled(x)
        y = torch.randn(6, 4)
        assert torch.equal(compiled(y), branch(y))


@pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are other captures")
def test_comparisons_that_leave_one_number_make_it_static():
    def program(x):
        if x.shape[0] > 3:
            return x.cos()
        if x.shape[0] < 3:
            return x * 2
        return x.sin()

    x = torch.randn(3, 4)
    assert torch.equal(stator.compile(program, backend="eager")(x), program(x))
    stator.mark_dynamic(x, 0)
    line = program.__code__.co_firstlineno + 3
    with pytest.raises(
        stator.exc.ConstraintViolation, match=re.escape("makes it static: it was 3 at ") + f".*:{line} in"
    ):
        stator.compile(program, backend="eager")(x)
    y = torch.randn(7, 4)
    stator.mark_dynamic(y, 0)
    assert torch.equal(stator.compile(program, backend="eager")(y), program(y))


@pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are other captures")
@pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are other captures")
def test_the_line_to_blame_is_that_of_the_number():
    def tied(x, y):
        z = x.sum(1) + y  # equal from here on, and dynamic still
        return z.reshape(3, 2)

    x, y = torch.randn(6, 4), torch.randn(6)
    stator.mark_dynamic(x, 0)
    stator.mark_dynamic(y, 0)
    assert message(tied, x, y) == (
        "L['x'].size(0) is marked dynamic, but the program makes it static: "
        f"it was 6 at {__file__}:{tied.__code__.co_firstlineno + 2} in {tied.__qualname__}{ADVICE}"
    )


def test_classes_of_modules_that_are_marked_static():
    class Plain(torch.nn.Module):
        def __init__(self, c):
            super().__init__()
            self.c = c

        def forward(self, x):
            return x * self.c

    @stator.mark_static
    class Marked(Plain):
        pass

    counts = []
    for kind in (Plain, Marked):
        before = stator._core.stats()["captures"]
        for c in (10, 20, 30):
            module = kind(c)
            x = torch.randn(4)
            compiled = stator.compile(module, backend="eager", fullgraph=True)
            torch.testing.assert_close(compiled(x), x * c)
        counts.append(stator._core.stats()["captures"] - before)
    assert counts == [2, 3]
