"""The runner itself: front ends that are wrong in one way each, which it has to notice."""

from __future__ import annotations

import copy
import os
import random
import signal
import warnings
from typing import Any

import pytest
import torch

from tests.python import workers
from tests.python.differential import compare, prepare_process
from tests.python.frontends import Eager
from tests.python.programs import Case, Program, vec

_KEPT: list[Any] = []


class Wrong(Eager):
    """Eager, with one thing done wrong around each call."""

    def __init__(self, around: Any) -> None:
        self.around = around

    def compile(self, fn: Any) -> Any:
        return lambda *args, **kwargs: self.around(fn, args, kwargs)


def _differences(make: Any, around: Any) -> list[str]:
    prepare_process()
    return compare(Program("planted.program", make), Wrong(around)).differences


def _make() -> Case:
    seen: list[Any] = []

    def f(x: Any, items: Any) -> Any:
        seen.append(1)
        items.append(x + 1)
        return x, items, (x.shape[0], [x])

    return Case(f, vec(), [1]).watching(seen)


def _as_it_is(fn: Any, args: Any, kwargs: Any) -> Any:
    return fn(*args, **kwargs)


def _copied_result(fn: Any, args: Any, kwargs: Any) -> Any:
    return copy.deepcopy(fn(*args, **kwargs))


def _other_values(fn: Any, args: Any, kwargs: Any) -> Any:
    x, items, rest = fn(*args, **kwargs)
    items[-1] = items[-1] + 1e-6
    return x, items, rest


def _other_stride(fn: Any, args: Any, kwargs: Any) -> Any:
    x, items, rest = fn(*args, **kwargs)
    items[-1] = torch.stack([items[-1], items[-1]], 1)[:, 0]
    return x, items, rest


def _lost_effect(fn: Any, args: Any, kwargs: Any) -> Any:
    return fn(args[0], list(args[1]))


def _doubled_effect(fn: Any, args: Any, kwargs: Any) -> Any:
    fn(*args, **kwargs)
    return fn(*args, **kwargs)


def _prints(fn: Any, args: Any, kwargs: Any) -> Any:
    print("extra")
    return fn(*args, **kwargs)


def _warns(fn: Any, args: Any, kwargs: Any) -> Any:
    warnings.warn("extra", stacklevel=1)
    return fn(*args, **kwargs)


def _draws(fn: Any, args: Any, kwargs: Any) -> Any:
    torch.rand(1)
    return fn(*args, **kwargs)


def _draws_in_python(fn: Any, args: Any, kwargs: Any) -> Any:
    random.random()
    return fn(*args, **kwargs)


def _keeps_argument(fn: Any, args: Any, kwargs: Any) -> Any:
    _KEPT.append(args[1])
    return fn(*args, **kwargs)


def _leaves_grad_mode(fn: Any, args: Any, kwargs: Any) -> Any:
    result = fn(*args, **kwargs)
    torch.set_grad_enabled(False)
    return result


def _detached(fn: Any, args: Any, kwargs: Any) -> Any:
    x, items, rest = fn(*args, **kwargs)
    return x.requires_grad_(), items, rest


def _raises(fn: Any, args: Any, kwargs: Any) -> Any:
    fn(*args, **kwargs)
    raise ValueError("extra")


def test_nothing_wrong_shows_nothing() -> None:
    assert _differences(_make, _as_it_is) == []


_WRONG = [
    _copied_result,
    _other_values,
    _other_stride,
    _lost_effect,
    _doubled_effect,
    _prints,
    _warns,
    _draws,
    _draws_in_python,
    _keeps_argument,
    _leaves_grad_mode,
    _detached,
    _raises,
]


@pytest.mark.parametrize("around", _WRONG, ids=lambda around: around.__name__.strip("_"))
def test_what_is_wrong_is_noticed(around: Any) -> None:
    assert _differences(_make, around)


def test_line_of_an_exception_is_compared() -> None:
    def make() -> Case:
        def f(x: Any) -> Any:
            y = x + 1
            raise ValueError(y)

        return Case(f, vec())

    def elsewhere(fn: Any, args: Any, kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except ValueError as error:
            error.__traceback__ = None
            raise

    assert _differences(make, _as_it_is) != []  # this file's own frame is in the traceback, and is no front end
    assert any("traceback" in text for text in _differences(make, elsewhere))


def test_finalisers_are_compared() -> None:
    def make() -> Case:
        log: list[str] = []

        class Watched:
            def __del__(self) -> None:
                log.append("gone")

        def f(x: Any, thing: Any) -> Any:
            return x + 1

        return Case(f, vec(), Watched()).logging(log)

    def keeps(fn: Any, args: Any, kwargs: Any) -> Any:
        _KEPT.append(args[1])
        return fn(*args, **kwargs)

    assert _differences(make, _as_it_is) == []
    assert any("released" in text for text in _differences(make, keeps))


def _task(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 2:
        while True:
            pass
    if number == 3:
        raise KeyError(number)
    return number * 10


def test_crashes_and_hangs_cost_one_task() -> None:
    outcomes = {task: (result, failure) for task, result, failure in workers.run_tasks(_task, [0, 1, 2, 3, 4], 2, 1.5)}
    assert outcomes[0] == (0, None) and outcomes[4] == (40, None)
    assert "SIGKILL" in outcomes[1][1]
    assert "no answer" in outcomes[2][1]
    assert outcomes[3][1].startswith("KeyError")
    with workers.OneWorker(_task, 1.5) as worker:
        assert [worker.run(n)[1] for n in (4, 1, 5)] == [40, None, 50]
