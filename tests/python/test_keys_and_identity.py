"""What a key is, and what is the same object as what, is guarded: each expression over a value and a table that holds
one of its like, called with each value in turn, as often with an entry that fits as with one that does not."""

import enum
import functools
import itertools
import types

import pytest
import torch

import stator


def _function(n):
    def inner():
        return n

    return inner


class Plain:
    def method(self):
        pass


class Valued:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return isinstance(other, Valued) and self.n == other.n

    def __hash__(self):
        return hash(self.n)


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


first, second = _function(1), _function(2)
one, other = Plain(), Plain()
KINDS = {
    "function": [first, second, first],
    "functions": [(first,), (second,), (first,)],
    "functions, deep": [((first,), 1), ((second,), 1)],
    "class": [(int,), (float,), (int,)],
    "class, deep": [((int,),), ((float,),)],
    "class with a number": [(1, int), (1.0, float), (True, bool)],
    "object": [one, other, one],
    "objects": [(one,), (other,), (one,)],
    "method": [one.method, other.method],
    "methods": [(one.method,), (other.method,)],
    "valued": [Valued(1), Valued(2), Valued(1)],
    "enumeration": [(Colour.RED,), (Colour.GREEN,)],
    "set of classes": [frozenset([int]), frozenset([float])],
    "set of functions": [(frozenset([first]),), (frozenset([second]),)],
    "module": [(torch,), (functools,)],
    "dtype": [(torch.float32, 3), (torch.int32, 3)],
    "size": [torch.Size([1, 2]), torch.Size([3, 2])],
    "numbers": [tuple([1, "a"]), tuple([1, "a"]), (2, "a")],
    "range": [range(3), range(4)],
    "partial": [functools.partial(first), functools.partial(second)],
}
EXPRESSIONS = [
    "table[value]",
    "table.get(value)",
    "value in table",
    "value in elements",
    "value == known",
    "value is known",
    "[key for key in table if key == value]",
    "[key is value for key in table]",
    "value in items",
    "{value: 1}.get(known)",
    "{value} == {known}",
    "cached(value)",
    "len({value, known})",
    "(value,) == (known,)",
    "{known: 5}.get(value)",
    "elements - {value}",
    "hash(value) == hash(known)",
    "list(table).index(value) if value in list(table) else -1",
]


@pytest.mark.parametrize("kind", KINDS)
def test_key(kind):
    values, graphs = KINDS[kind], []
    x = torch.ones(2)
    stop = stator.on_graph(lambda *_: graphs.append(1))
    for expression in EXPRESSIONS:
        known = values[0]
        world = {
            "table": {known: "there"},
            "elements": {known},
            "items": [known],
            "known": known,
            "cached": functools.lru_cache(id),
        }
        exec(f"def program(x, value):\n    return x + 1, {expression}\n", world)
        compiled = stator.compile(world["program"], backend="eager")
        graphs.clear()
        for value in itertools.chain(values, values):
            assert _answer(compiled, x, value) == _answer(world["program"], x, value), (expression, value)
        assert graphs, expression
        stator.reset()
    if callable(stop):
        stop()


def _answer(function, x, value):
    try:
        return repr(function(x, value)[1])
    except KeyError as error:
        return repr(error)


def test_sets_of_tuples_whose_numbers_change():
    def program(x, elements):
        return x + 1, sorted(elements, key=repr), (3, 2) in elements, elements | {(9, 9)}

    compiled = stator.compile(program, backend="eager")
    x = torch.ones(2)
    for elements in ({(1, 2)}, {(3, 2)}, {(1.5, (2, 3))}, {(2.5, (2, 4))}, {(5, 6), (1, 2)}):
        assert compiled(x, elements)[1:] == program(x, elements)[1:]


@pytest.mark.parametrize("check", [isinstance, issubclass])
def test_a_number_that_changes_is_no_class(check):
    def program(x, classes):
        try:
            return x + 1, check(int, classes)
        except TypeError as error:
            return x - 1, str(error)

    compiled = stator.compile(program, backend="eager", dynamic=True)
    x = torch.ones(2)
    for classes in (2, 3, (str, 4), (str, 5)):
        assert compiled(x, classes)[1] == program(x, classes)[1]


def test_an_empty_cell_is_known_to_be_empty():
    def program(cell):
        try:
            return "full", cell.cell_contents
        except ValueError as error:
            return "empty", str(error)

    cells = [types.CellType(), types.CellType(1), types.CellType([2]), types.CellType()]
    for order in (cells, cells[::-1]):
        compiled = stator.compile(program, backend="eager")
        for cell in [*order, *order]:
            assert compiled(cell) == program(cell)
        stator.reset()


class Text(str):
    pass


class Table(dict):
    pass


@pytest.mark.parametrize("expression", ["value[0:1]", "ord(value)", "range(value)", "chr(value)"])
def test_errors_name_the_programs_own_classes(expression):
    world = {}
    exec(
        f"def program(x, value):\n    try:\n        return x + 1, {expression}\n    except Exception as error:\n"
        "        return x - 1, type(error), str(error)\n",
        world,
    )
    program, x = world["program"], torch.ones(2)
    compiled = stator.compile(program, backend="eager")
    for value in (Text("ab"), Table(a=1), {"a": 1}, [1], Text("cd"), Table()):
        assert compiled(x, value)[1:] == program(x, value)[1:]


class Holder:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize("kind", [int, float, str, complex])
def test_which_of_equal_scalars_is_which_object(kind):
    """Equal numbers and texts need not be one object, those that became symbols neither."""

    def program(x, n, m, holder):
        old = holder.value
        return x + 1, n is m, old is n, old is not m, [n][0] is n, (m, n)[0] is n, (n, m)[1] is not holder.value

    compiled = stator.compile(program, backend="eager", recompile_limit=200)
    x, graphs = torch.ones(2), []
    stop = stator.on_graph(lambda *_: graphs.append(1))
    for number in (1000, 1000, 2000, 3000, 4000, 7):
        n, other = kind(number), kind(str(number))
        for first, second, held in itertools.product((n, other), repeat=3):
            expected = program(x, first, second, Holder(held))[1:]
            assert compiled(x, first, second, Holder(held))[1:] == expected, (number, first is second)
    if callable(stop):
        stop()
    assert graphs
