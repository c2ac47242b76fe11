"""Graphs that write to something and then raise an error that nothing foresaw: state, effects and handlers are eager's at that instruction.

Each program is there twice: with an error about types, which fake tensors do not see, and with one about data.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from tests.python.programs import Case, program

LOG: list[Any] = []


def _double() -> torch.Tensor:
    return torch.ones(3, dtype=torch.float64)


class Picks(torch.nn.Module):
    """Fails for what is float64, by an index out of range."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Parameter(torch.ones(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(torch.full((3,), x.element_size() // 8 * 7) * (x == x), self.rows)


def _parts(kind: type) -> tuple[Any, torch.Tensor]:
    LOG.clear()
    torch.manual_seed(0)
    return torch.nn.Linear(3, 3) if kind is torch.nn.Linear else kind(), torch.zeros(3)


def both(make: Callable[[type], Case]) -> Callable[[type], Case]:
    """The program with each kind of error."""
    for kind, name in ((torch.nn.Linear, "types"), (Picks, "data")):

        def one(kind: type = kind) -> Case:
            return make(kind)

        one.__name__ = f"{make.__name__}_{name}"
        one.__module__ = make.__module__
        program()(one)
    return make


@both
def caught_behind_a_write(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x, n):
        z = x * n
        buf.add_(1)
        try:
            lin(x)
        except (RuntimeError, IndexError) as error:
            return "caught", str(error), z
        return z

    return Case(f, _double(), 3).watching(buf, lin).then_call(_double(), 5).then_call(_double(), 7)


@both
def effects_before_it(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x, log):
        log.append(1)
        a, b = torch.stack([x.sum(), x.sum()])
        buf.add_(1)
        log.append(a)
        lin(x)
        log.append(2)

    return Case(f, _double(), []).watching(buf)


@both
def a_count_that_becomes_dynamic(kind: type) -> Case:
    lin, buf = _parts(kind)
    k = 0

    def inc():
        nonlocal k
        k += 1
        return k

    def f(y):
        for t in math.prod([y, inc()]):
            pass
        buf.add_(1)
        lin(y)

    case = Case(f, _double()).watching(buf)
    return case.then_call(_double()).then_call(_double()).then_call(_double())


@both
def a_value_read_before_it_was_written(kind: type) -> Case:
    """`z` of the time before the write cannot be computed again."""
    lin, buf = _parts(kind)

    def f(x):
        z = buf * 2
        buf.add_(1)
        w = buf * 3
        try:
            lin(x)
        except (RuntimeError, IndexError):
            return z, w, buf
        return z

    return Case(f, _double()).watching(buf).then_call(_double())


@both
def a_view_of_what_was_written(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x):
        head = buf[:2]
        before = head.clone()
        buf.add_(1)
        try:
            lin(x)
        except (RuntimeError, IndexError):
            return head, before
        return None

    return Case(f, _double()).watching(buf).then_call(_double())


@both
def an_intermediate_that_was_written(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x):
        y = x + 1
        y.mul_(2)
        z = y - 1
        y.mul_(3)
        buf.add_(1)
        try:
            lin(x)
        except (RuntimeError, IndexError):
            return y, z
        return None

    return Case(f, _double()).watching(buf).then_call(_double())


@both
def a_graph_before_and_a_graph_behind(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x):
        y = x + 1
        print("between")
        buf.add_(1)
        try:
            lin(y)
        except (RuntimeError, IndexError):
            LOG.append("caught")
        buf.mul_(2)
        return y * 2

    return Case(f, _double()).watching(buf, LOG).then_call(_double())


@both
def random_numbers_before_it(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x):
        r = torch.rand(3)
        try:
            lin(x + r)
        except (RuntimeError, IndexError):
            return r, torch.rand(3)
        return None

    return Case(f, _double()).watching(buf).then_call(_double())


@both
def dropout_and_a_dead_value(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x):
        dead = x * 4
        d = torch.nn.functional.dropout(x, 0.5, True)
        buf.add_(1)
        try:
            lin(d)
        except (RuntimeError, IndexError):
            return dead, d
        return None

    return Case(f, _double()).watching(buf).then_call(_double())


@both
def under_no_grad(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x):
        p = x.detach().requires_grad_()
        a = p * 2
        with torch.no_grad():
            b = p * 3
            buf.add_(1)
        try:
            lin(x)
        except (RuntimeError, IndexError):
            return a, b, a.requires_grad, b.requires_grad, torch.is_grad_enabled()
        return None

    return Case(f, _double()).watching(buf).then_call(_double())


@both
def fails_inside_of_no_grad(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x):
        p = x.detach().requires_grad_()
        a = p * 2
        try:
            with torch.no_grad():
                b = p * 3
                buf.add_(1)
                lin(x)
        except (RuntimeError, IndexError):
            return a, b, torch.is_grad_enabled()
        return None

    return Case(f, _double()).watching(buf).then_call(_double())


@both
def in_an_inlined_function(kind: type) -> Case:
    lin, buf = _parts(kind)

    def inner(x, log):
        mine = x + 5
        log.append("inner")
        buf.add_(1)
        lin(x)
        return mine

    def f(x, log):
        outer = x * 2
        try:
            return inner(x, log)
        except (RuntimeError, IndexError) as error:
            log.append(type(error).__name__)
            return outer

    return Case(f, _double(), []).watching(buf).then_call(_double(), [])


@both
def finally_and_a_second_error(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x):
        try:
            try:
                buf.add_(1)
                lin(x)
            finally:
                buf.add_(10)
                LOG.append("finally")
        except (RuntimeError, IndexError) as error:
            try:
                buf.add_(100)
                lin(x)
            except (RuntimeError, IndexError) as second:
                return second.__context__ is error, buf.clone()
        return None

    return Case(f, _double()).watching(buf, LOG).then_call(_double())


@both
def in_a_loop(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(xs):
        out = []
        for x in xs:
            buf.add_(1)
            try:
                out.append(lin(x))
            except (RuntimeError, IndexError):
                out.append(x * 2)
        return out

    return Case(f, [torch.ones(3), _double(), torch.zeros(3), _double()]).watching(buf)


@both
def a_list_that_changed_before_it(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x, items, table):
        items.append(x + 1)
        table["n"] = len(items)
        buf.add_(1)
        items.append(lin(x))
        table["behind"] = 1

    return Case(f, _double(), [], {}).watching(buf)


@program()
def an_index_out_of_range() -> Case:
    _, buf = _parts(Picks)

    def f(x, i):
        y = x * 2
        buf.add_(1)
        try:
            return torch.nn.functional.embedding(i, x)
        except IndexError:
            return y

    case = Case(f, torch.ones(3, 3), torch.tensor([0, 2])).watching(buf)
    return case.then_call(torch.ones(3, 3), torch.tensor([0, 7])).then_call(torch.ones(3, 3), torch.tensor([-1]))


@program()
def a_singular_matrix() -> Case:
    _, buf = _parts(Picks)

    def f(m):
        y = m + 1
        buf.add_(1)
        try:
            return torch.linalg.inv(m)
        except torch.linalg.LinAlgError:
            buf.mul_(5)
            return y

    return Case(f, torch.eye(2)).watching(buf).then_call(torch.zeros(2, 2)).then_call(torch.eye(2) * 2)


@both
def an_argument_that_is_written(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x, y):
        old = y * 1
        y.add_(1)
        y.t_()
        new = y * 1
        lin(x)
        return old, new

    return Case(f, _double(), torch.ones(3)).watching(buf)


@both
def grad_of_a_leaf_that_is_set(kind: type) -> Case:
    lin, buf = _parts(kind)

    def f(x, p):
        (p * 2).sum().backward()
        buf.add_(p.grad)
        lin(x)

    return Case(f, _double(), torch.ones(3, requires_grad=True)).watching(buf)


@program(min_ops=2)
def an_entry_that_was_captured_before_another_number_was_seen():
    """The part of the program that ran is found as it was captured, although the number is a value of graphs meanwhile."""

    def fn(x, n):
        x.mul_(n)
        try:
            torch.linalg.cholesky(-torch.eye(2))
        except RuntimeError:
            pass
        return missing  # noqa: F821

    first = (torch.arange(4.0), -1)
    return Case(fn, *first).then_call(torch.arange(4.0), 1.5).then_call(torch.arange(4.0), 2.5).then_call(*first)


@program()
def behind_a_tensor_that_has_other_memory_or_sizes():
    log = []

    def fn(a, b, c):
        a.data = b
        try:
            torch.linalg.cholesky(-torch.eye(2))
        except RuntimeError:
            log.append("first")
        b.unsqueeze_(0)
        try:
            c.index_add_(0, torch.tensor([7]), torch.ones(1))
        except (IndexError, RuntimeError):
            log.append("second")
        a.add_(1)
        return a * 2

    return Case(fn, torch.arange(4.0), torch.ones(2, 2), torch.zeros(4)).watching(log)


@program()
def behind_data_that_was_set_and_a_loop_that_ended():
    log = []

    def fn(a, b, p, items):
        t = a.flip(0)
        a.data = b
        try:
            for _, row in zip(items, t, strict=False):
                torch.stack([t, b]).sum(0)
                log.append(row)
        except RuntimeError:
            log.append("no stack")
            try:
                log.append(p[a > 0])
            except IndexError as e:
                log.append(str(e))
                torch.linalg.cholesky(-torch.eye(2))
        return a + 1

    args = torch.arange(4.0).requires_grad_(), torch.arange(4.0).view(2, 2), torch.ones(4), [1, 2, 3]
    return Case(fn, *args).watching(log)


@program()
def grad_switched_before_an_index_out_of_range() -> Case:
    def f(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            p.requires_grad_(not p.requires_grad)
            y = p * 2
        x.index_put_((torch.tensor([8]),), torch.tensor(1.0))
        return y

    return Case(f, torch.ones(3), torch.nn.Parameter(torch.ones(3)))


def _words_of_a_write(x: torch.Tensor) -> tuple[str, torch.Tensor]:
    try:
        x.requires_grad_().add_(1)
    except RuntimeError as error:
        return str(error), x * 2
    return "", x


@program()
def words_about_leaves_and_their_views() -> Case:
    case = Case(_words_of_a_write, torch.ones(4))
    case = case.then_call(torch.ones(8)[::2]).then_call(torch.ones(4, requires_grad=True)[:])
    return case.then_call(torch.ones(4)[:].requires_grad_())


@program()
def rows_of_an_expanded_tensor_written_before_an_index_out_of_range() -> Case:
    def f(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        rows[0].add_(1)
        return rows[:, index]

    return Case(f, torch.ones(4).expand(2, 4), torch.tensor([1])).changing(
        torch.ones(4).expand(2, 4), torch.tensor([9])
    )


def _picked(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x.sin()[index] * 2


@program()
def index_out_of_range_inside_of_a_checkpoint() -> Case:
    """Nothing is printed."""

    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor | str:
        try:
            return checkpoint(_picked, x, index, use_reentrant=False)
        except IndexError as error:
            return str(error)

    x = torch.ones(4, requires_grad=True)
    return Case(f, x, torch.tensor([1])).changing(x, torch.tensor([9]))


class _Counted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Embedding(3, 4)
        self.linear = torch.nn.Linear(4, 4)
        self.calls = 0
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.add_(1)
        return self.linear(x)


class _Swallows:
    def __enter__(self) -> None:
        LOG.append("in")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        LOG.append(kind and kind.__name__)
        return True


def _multiples(x: torch.Tensor) -> Iterator[torch.Tensor]:
    try:
        for i in range(3):
            yield x * i
    finally:
        LOG.append("closed")


@program()
def lookups_that_fail_in_a_loop_over_a_generator() -> Case:
    LOG.clear()
    torch.manual_seed(5)
    module = _Counted()

    def f(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        try:
            for _ in _multiples(x):
                done = 0
                while done < 2:
                    done += 1
                    with contextlib.ExitStack() as stack:
                        stack.enter_context(_Swallows())
                        module.rows(torch.tensor([0, 7]))
                module(p.double())
        except Exception as error:
            LOG.append(str(error))
        return p

    case = Case(f, torch.arange(4.0), torch.nn.Parameter(torch.ones(4)))
    return case.watching(LOG, module).logging(LOG)
