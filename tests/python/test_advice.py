"""Every piece of advice about breaks (src/breaks/reasons.def and stator/_advice.py) is followed here, and helps.

Each trial is a program that breaks for the reason, and the same program as the advice says: it computes the same, and
breaks no more for it. A reason with advice, or a row of ROWS, without a trial fails.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import threading
import warnings
from typing import Any

import pytest
import torch

import stator
from stator import _advice, _core

pytestmark = pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are other breaks")
SCALARS = {"capture_scalar_outputs": True}
X, T = torch.arange(1.0, 9.0), torch.tensor(3)


@dataclasses.dataclass
class Trial:
    reason: str
    words: str  # of the advice, which the message has to say
    breaks: Any
    mended: Any
    args: tuple = (X,)
    mended_args: tuple | None = None
    settings: dict = dataclasses.field(default_factory=dict)  # that the advice says to set
    before: dict = dataclasses.field(default_factory=dict)  # that hold for the program that breaks
    same: bool = True  # whether both compute the same


TRIALS: list[Trial] = []


def trial(*args: Any, **kwargs: Any) -> None:
    TRIALS.append(Trial(*args, **kwargs))


def _plain(x):
    return (x + 1) * 2


def _explicit(x):
    y = x + 1
    stator.graph_break()
    return y * 2


def _opens(x, size=None):
    y = x + 1
    if size is None:
        with open(os.devnull) as file:
            size = len(file.read())
    return y * (size + 2)


def _where_am_i(x):
    return x * (0 * len(os.getcwd()) + 2)


_allowed = stator.allow_in_graph(lambda x: x * (0 * len(os.getcwd()) + 2))

trial("kForced", "unset STATOR_BREAK_EVERY", _plain, _plain, before={"break_every": "2"})
trial("kExplicit", "remove the call", _explicit, _plain)
trial("kCallsOutside", "move the call out", _opens, lambda x: _opens(x, 0))
trial("kCallsOutside", "stator.allow_in_graph", lambda x: _where_am_i(x + 1), lambda x: _allowed(x + 1))


def _prints(x):
    y = x + 1
    print(end="")
    return y * 2


def _warns(x):
    y = x + 1
    warnings.warn(UserWarning("said by the program"), stacklevel=1)
    return y * 2


trial(
    "kCallsOutside",
    "reorderable_logging_functions",
    _prints,
    _prints,
    settings={"reorderable_logging_functions": {print}},
)
trial("kCallsOutside", "ignore_logging_functions", _prints, _prints, settings={"ignore_logging_functions": {print}})
trial("kCallsOutside", "add warn to", _warns, _warns, settings={"reorderable_logging_functions": {warnings.warn}})


def _branches(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def _cond(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


def _checked(x, t):
    n = t.item()
    torch._check(n >= 0)
    torch._check(n < x.shape[0])
    return x[n] + 1


trial("kDataDependentBranch", "torch.where", _branches, lambda x: torch.where(x.sum() > 0, x + 1, x - 1))
trial("kDataDependentBranch", "torch.cond", _branches, _cond)
trial(
    "kDataDependentBranch",
    "torch._check",
    lambda x, t: x[t.item()] + 1,
    _checked,
    (X, T),
    before=SCALARS,
    settings=SCALARS,
)

trial("kDataDependentRead", "keep the value in a tensor", lambda x: x + x.sum().item(), lambda x: x + x.sum())
trial(
    "kDataDependentRead",
    "capture_scalar_outputs",
    lambda x: x + x.sum().item(),
    lambda x: x + x.sum().item(),
    settings=SCALARS,
)
trial(
    "kDataDependentRead",
    "t.long().item()",
    lambda x: x + int(x.sum()),
    lambda x: x + x.sum().long().item(),
    settings=SCALARS,
)
trial("kDataDependentRead", "or keep the value", lambda x: x + int(x.sum()), lambda x: x + x.sum().trunc())
trial(
    "kDataDependentRead",
    "index_select(0, t)",
    lambda x, t: x[t.abs()] + 1,
    lambda x, t: x.index_select(0, t.abs())[0] + 1,
    (X, T),
)
trial(
    "kDataDependentRead",
    "for a slice x[:t]",
    lambda x, t: x[: t.abs()] + 1,
    lambda x, t: x[: t.abs()] + 1,
    (X, T),
    settings=SCALARS,
)
trial(
    "kDataDependentRead",
    "format it outside",
    lambda x: (len(f"{x.sum()}"), x + 1),
    lambda x: (x.sum(), x + 1),
    same=False,
)
trial(
    "kDataDependentRead",
    "pass t.item()",
    lambda x, t: x.new_zeros(t.abs()) + 1,
    lambda x, t: x.new_zeros(t.abs().item()) + 1,
    (X, T),
    settings=SCALARS,
)


def _repeats(x, t):
    for _ in range(t.abs() if isinstance(t, torch.Tensor) else t):
        x = x + 1
    return x


def _repeats_by_loop(x, t):
    return torch.while_loop(lambda i, x: i < t, lambda i, x: (i + 1, x + 1), (torch.zeros_like(t), x))[1]


trial("kDataDependentRead", "as often as a size or an int says", _repeats, _repeats, (X, T), mended_args=(X, 3))
trial("kDataDependentRead", "torch.while_loop", _repeats, _repeats_by_loop, (X, T))

SHAPES = {"capture_dynamic_output_shape_ops": True}
trial(
    "kDynamicOutputShape",
    "capture_dynamic_output_shape_ops",
    lambda x: x[x > 2] * 2,
    lambda x: x[x > 2] * 2,
    settings=SHAPES,
)
trial("kDynamicOutputShape", "a fixed output shape", lambda x: x[x > 2].sum(), lambda x: torch.where(x > 2, x, 0).sum())


def _groups(x):
    try:
        raise ExceptionGroup("several", [ValueError()])
    except* ValueError:
        x = x + 1
    return x


def _one(x):
    try:
        raise ValueError
    except ValueError:
        x = x + 1
    return x


trial("kUnsupportedOpcode", "by other statements", _groups, _one)
trial(
    "kUnsupportedAttribute",
    "before the compiled function",
    lambda x: (x + 1) * x._version,
    lambda x, n: (x + 1) * n,
    (X,),
    (X, X._version),
)


class Meta(type):
    def __getattribute__(cls, name):
        return super().__getattribute__(name)


class Asks(metaclass=Meta):
    size = 2


class AsksLess(type):
    def __getattr__(cls, name):
        raise AttributeError(name)


class Plain(metaclass=AsksLess):
    size = 2


trial(
    "kCustomGetattribute", "define __getattr__ instead", lambda x: (x + 1) * Asks.size, lambda x: (x + 1) * Plain.size
)
trial(
    "kCustomGetattribute",
    "read the attribute outside",
    lambda x: (x + 1) * Asks.size,
    lambda x, n: (x + 1) * n,
    (X,),
    (X, Asks.size),
)
trial(
    "kUnsupportedObject",
    "plain Python values",
    lambda x, view: x + len(bytes(view)),
    lambda x, data: x + len(data),
    (X, memoryview(b"abc")),
    (X, b"abc"),
)


class _Rows:
    """As an argument: each call gets an iterator of its own."""

    def __call__(self):
        return itertools.combinations([1, 2, 3], 2)


def _advances(x, rows):
    return x + next(rows)[0]


def _makes(x, numbers):
    return x + next(itertools.combinations(numbers, 2))[0]


trial("kUnsupportedIterator", "inside of the compiled function", _advances, _makes, (X, _Rows()), (X, [1, 2, 3]))


def _notes(x, error):
    y = x + 1
    error.add_note("seen")
    return y * 2


trial(
    "kUnsupportedMutation",
    "outside of the compiled function",
    _notes,
    lambda x, error: (x + 1) * 2,
    (X, ValueError("mine")),
)
trial(
    "kUnsupportedTensorOp", "call it outside",
    lambda x: torch.func.jacrev(lambda t: (t.sin(), t * 2), has_aux=True)(x + 1)[0].sum() + 1, lambda x, j: j.sum() + 1,
    (X,), (X, torch.func.jacrev(torch.sin)(X + 1)),
)  # fmt: skip

_library = torch.library.Library("stator_advice", "DEF")
for _name in ("bare", "known"):
    _library.define(f"{_name}(Tensor x) -> Tensor")
    _library.impl(_name, lambda x: x + 1, "CPU")
torch.library.register_fake("stator_advice::known")(lambda x: torch.empty_like(x))


@torch.library.custom_op("stator_advice::custom", mutates_args=())
def _custom(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@torch.library.custom_op("stator_advice::described", mutates_args=())
def _described(x: torch.Tensor) -> torch.Tensor:
    return x + 1


torch.library.register_fake("stator_advice::described")(lambda x: torch.empty_like(x))
OPS = torch.ops.stator_advice
trial(
    "kUnsupportedTensorOp",
    'register_fake("stator_advice::bare")',
    lambda x: OPS.bare(x + 1) * 2,
    lambda x: OPS.known(x + 1) * 2,
)
trial(
    "kOperationRaises",
    'register_fake("stator_advice::custom")',
    lambda x: OPS.custom(x + 1) * 2,
    lambda x: OPS.described(x + 1) * 2,
)


def _long(x):
    for i in range(20):
        x = x + i
    return x


trial(
    "kTraceLimit",
    "raise config.trace_limit_instructions",
    _long,
    _long,
    before={"trace_limit_instructions": 60},
    settings={"trace_limit_instructions": 600},
)
trial("kTraceLimit", "move the loop out", _long, lambda x, i: x + i, (X,), (X, sum(range(20))), before={"trace_limit_instructions": 60},
      settings={"trace_limit_instructions": 60})  # fmt: skip


def _unmarked(x):
    return x + 1


_disabled, _forbidden = stator.disable(lambda x: x + 1), stator.forbid_in_graph(lambda x: x + 1)
trial("kDisabled", "remove the mark", lambda x: _disabled(x) * 2, lambda x: _unmarked(x) * 2)
trial("kForbidden", "move the call out", lambda x: _forbidden(x) * 2, lambda y: y * 2, (X,), (X + 1,))


def _coroutine(x):
    async def later():
        return x + 1

    try:
        later().send(None)
    except StopIteration as ended:
        return ended.value * 2


def _generator(x):
    def later():
        yield x + 1

    return next(later()) * 2


trial("kUnsupportedGenerator", "inside of the compiled function", _coroutine, _generator)


def _backward(x):
    y = x.clone().requires_grad_()
    (y * y).sum().backward()
    return y.grad


trial("kBackward", "torch.func.grad", lambda x: torch.autograd.grad(((y := x.clone().requires_grad_()) * y).sum(), y)[0],
      lambda x: torch.func.grad(lambda y: (y * y).sum())(x))  # fmt: skip
trial("kBackward", "call backward() outside", _backward, lambda x: (x * x).sum(), same=False)


class Finalised:
    size = 2

    def __del__(self):
        pass


trial(
    "kUnsupportedClass",
    "make it outside",
    lambda x: (x + 1) * Finalised().size,
    lambda x, it: (x + 1) * it.size,
    (X,),
    (X, Finalised()),
)


def _skipped(x):
    from ast import parse

    return x + len(parse("1").body)


LOCK = threading.Lock()


def _locked(x):
    with LOCK:
        return x + 1


trial("kSkippedModule", "move the call out", _skipped, lambda x, n: x + n, (X,), (X, 1))
trial("kUnsupportedContext", "enter it outside", _locked, _unmarked)


def _lazy(x, layer):
    noise = torch.rand(3)
    return layer(x[:3] * noise).shape


class _Layer:
    def __init__(self, called):
        self.called = called

    def __call__(self):
        layer = torch.nn.LazyLinear(2)
        if self.called:
            layer(torch.ones(3))
        return layer


trial("kLazyModule", "call the module once before", _lazy, _lazy, (X, _Layer(False)), (X, _Layer(True)))


def _named(x, n):
    return x + len(f"step {n}")


@stator.disable(recursive=False)
def _each(function, x):
    found = []
    for n in range(12):
        found.append(function(x, n))
    return found


trial(
    "kUnsteady",
    "read it outside",
    lambda x: _each(_named, x),
    lambda x: [x + len(f"step {n}") for n in range(12)],
)


def _arguments(args):
    return tuple(one() if isinstance(one, (_Rows, _Layer)) else one for one in args)


def _explained(function, args, settings):
    stator.reset()
    with stator.config.patch(settings) if settings else contextlib.nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = function(*_arguments(args))
        found = stator.explain(function)(*_arguments(args))
    torch.testing.assert_close(found.result, expected)
    return found


@pytest.mark.parametrize("case", TRIALS, ids=lambda case: f"{case.reason}: {case.words}")
def test_advice_helps(case):
    if case.reason == "kForbidden":
        with pytest.raises(AssertionError, match="forbidden callable"):
            stator.explain(case.breaks)(*case.args)
    else:
        found = _explained(case.breaks, case.args, case.before)
        told = [one for one in found.breaks if one.name == case.reason]
        assert told, found.breaks
        assert case.words in told[0].hint, told[0].hint
    mended_args = case.args if case.mended_args is None else case.mended_args
    mended = _explained(case.mended, mended_args, case.settings)
    assert not mended.breaks, mended.breaks
    assert mended.graph_count == 1
    if case.same and case.reason != "kForbidden":
        torch.testing.assert_close(mended.result, found.result)


def test_all_advice_is_tried():
    reasons = {name: hint for name, (_, _, hint) in _core.break_reasons().items() if hint}
    tried = {case.reason for case in TRIALS}
    assert reasons.keys() <= tried, reasons.keys() - tried
    numbers = {number: name for name, (number, _, _) in _core.break_reasons().items()}
    for number, _, words, advice in _advice.ROWS:
        pieces = [part.format("print", "name") for part in advice.split(";")]
        trials = [case for case in TRIALS if case.reason == numbers[number]]
        for piece in pieces:
            known = any(case.words in piece or case.words in advice.format("print", "name") for case in trials)
            known = known or "register_fake" in piece
            assert known, f"{words}: nothing tries {piece!r}"


def test_the_message_shows_the_chain_the_reason_and_the_advice():
    def innermost(y):
        return y * 2 if y.sum() > 0 else y

    def middle(y):
        return innermost(y) + 1

    def outer(x):
        return middle(x + 1)

    with pytest.raises(stator.exc.Unsupported) as error:
        stator.compile(outer, backend="eager", fullgraph=True)(X)
    first = innermost.__code__.co_firstlineno
    text = str(error.value)
    assert (
        text.startswith(f"{__file__}:{first + 1} in ")
        and "a branch depends on the data" in text
        and "torch.where" in text
    )
    lines = [line.strip() for line in text.partition("The program's calls:\n")[2].splitlines()]
    assert lines == [
        f'File "{__file__}", line {outer.__code__.co_firstlineno + 1}, in outer',
        "return middle(x + 1)",
        f'File "{__file__}", line {middle.__code__.co_firstlineno + 1}, in middle',
        "return innermost(y) + 1",
        f'File "{__file__}", line {first + 1}, in innermost',
        "return y * 2 if y.sum() > 0 else y",
    ]


@pytest.mark.parametrize("error", [ValueError("a text of mine"), KeyError("key"), RuntimeError()])
def test_an_exception_under_fullgraph_keeps_its_text(error):
    def program(x, kind, words):
        y = x + 1
        raise kind(*words)

    args = (X, type(error), error.args)
    with pytest.raises(type(error)) as eager:
        program(*args)
    assert eager.value.args == error.args
    with pytest.raises(stator.exc.Unsupported) as compiled:
        stator.compile(program, backend="eager", fullgraph=True)(*args)
    wanted = type(error).__name__ + (f": {error.args[0]}" if error.args else "")
    assert f"an exception leaves the captured part ({wanted})" in str(compiled.value)
    with pytest.raises(type(error)) as plain:
        stator.compile(program, backend="eager")(*args)
    assert plain.value.args == error.args


class _Passing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def _in_try(x):
    try:
        print(end="")
    except ValueError as error:
        x = error
    return x + 1


def _before_finally(x):
    try:
        print(end="")
    finally:
        x = x + 1
    return x


def _in_with(x):
    with _Passing():
        print(end="")
    return x + 1


def _inside_of(x):
    try:
        return _in_try(_before_finally(x))
    except (KeyError, TypeError):
        raise


def _raises_another(x):
    try:
        raise KeyError("first")
    except KeyError as error:
        raise RuntimeError("of mine") from error


def _raises_before_finally(x):
    try:
        raise RuntimeError("of mine")
    finally:
        x = x + 1


@pytest.mark.parametrize(
    "program", [_in_try, _before_finally, _in_with, _inside_of, _raises_another, _raises_before_finally]
)
def test_a_break_inside_of_try_keeps_its_reason_and_line(program):
    raises = "raises" in program.__name__
    wanted = "(RuntimeError: of mine)" if raises else "calls a function that runs outside of graphs (print)"
    whole = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        with pytest.raises(stator.exc.Unsupported) as found:
            whole(X)
        first, text = str(found.value).splitlines()[0], str(found.value)
        assert wanted in first and text.count("Unsupported") == 0 and text.count("[break reason ") == 1, text
        line = int(first.split(":")[1].split(" ")[0])
        source = open(__file__, encoding="utf-8").read().splitlines()[line - 1]
        assert ("raise " if raises else "print(") in source
    if not raises:
        assert torch.equal(stator.compile(program, backend="eager")(X), program(X))


def test_an_operation_that_fails_under_fullgraph_is_a_runtime_error_of_torch():
    def program(x):
        return x.sin() @ torch.ones(7, 7)

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        program(X)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        stator.compile(program, backend="eager")(X)
    with pytest.raises(stator.exc.TorchRuntimeError, match=r"matmul: RuntimeError: .*in program|in .*program.*matmul"):
        stator.compile(program, backend="eager", fullgraph=True)(X)


def test_a_branch_on_a_number_of_the_graph_is_a_user_error():
    def program(x):
        n = x.item()
        torch._check_is_size(n)
        return torch.zeros(3) if n == 0 else torch.arange(n)

    x = torch.tensor([3])
    assert torch.equal(stator.compile(program, backend="eager")(x), program(x))
    for kind in (stator.exc.UserError, stator.exc.Unsupported):
        with pytest.raises(kind, match="a branch depends on the data"):
            stator.compile(program, backend="eager", fullgraph=True)(x)
