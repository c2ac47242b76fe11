"""What autograd counts, saves and forbids beside the values: versions, views, `data`, `grad` of what is no leaf, warnings."""

from __future__ import annotations

from typing import Any

import torch

from tests.python.programs import Case, leaf, mat, program, vec

LOG: list[Any] = []


@program(min_ops=1)
def data_written_behind_a_use():
    """A write to `data` is none that autograd counts: the gradient is computed with what is there then."""
    p = torch.nn.Parameter(mat(2, 2))

    def f(p):
        t = p * p
        p.data.add_(1)
        t.sum().backward()
        return p._version

    return Case(f, p)


@program(min_ops=1)
def data_written_between_two_calls():
    """What was computed outside has saved the tensor."""
    p = torch.nn.Parameter(mat(2, 2))
    kept = [(p * p).sum()]

    def f(p, x):
        p.data.mul_(2).add_(x)
        return x + 1

    def differentiate(case):
        kept[0].backward()
        kept[0] = (p * p).sum()

    return Case(f, p, mat(2, 2)).watching(p).then(differentiate, differentiate)


@program(min_ops=1)
def data_of_a_result_written():
    def f(p):
        y = p.exp()
        y.data.zero_()
        y.sum().backward()
        return y, p.grad

    return Case(f, torch.nn.Parameter(torch.zeros(3)))


@program(min_ops=1)
def data_set_and_differentiated():
    def f(b, p):
        p.data = torch.clamp(b, -3, 3)
        torch.autograd.backward([(p * p).sum()])

    p = torch.nn.Parameter(mat(2, 2))
    return Case(f, mat(2, 2), p).then_call(mat(2, 2), p).then_call(mat(2, 2) + 1, p)


def _over(write):
    def make(requires=True):
        def f(p):
            y = p * 2 if requires else p + 0
            try:
                write(y)
            except RuntimeError as error:
                return str(error), y
            return y

        return Case(f, leaf(mat(2, 2)))

    return make


def _each_row(y):
    for row in y:
        row.add_(1)


def _unpacked(y):
    first, second = y
    first.mul_(second)


def _listed(y):
    list(y)[1].zero_()


def _split(y):
    y.split(1)[0].add_(1)


def _part_of_a_part(y):
    y.unbind(0)[0][:1].add_(1)


rows_written = program()(_over(_each_row))
rows_written.__name__ = "rows_written"


def _named(name, write):
    make = _over(write)
    make.__name__ = name
    program(min_ops=1)(make)


_named("unpacked_rows_written", _unpacked)
_named("a_listed_row_written", _listed)
_named("a_split_written", _split)
_named("a_part_of_a_row_written", _part_of_a_part)


@program(min_ops=1)
def a_row_gets_gradients():
    def f(x, p):
        a, _b = x
        try:
            a.add_(p.sum())
        except RuntimeError as error:
            return str(error), x
        return x

    return Case(f, mat(2, 2), leaf(mat(2, 2)))


@program(min_ops=3)
def rows_of_what_changes_under_way():
    """All views are there before the first row is asked for."""

    def f(x):
        y = x + 0
        total = []
        for row in y:
            y.t_()
            total.append(row * 2)
        return total, y

    return Case(f, mat(2, 3))


@program(min_ops=1)
def grad_of_no_leaf():
    """torch warns of it at each call."""

    def f(p):
        y = p * 2

        def g():
            return y.grad is None

        return g(), g()

    return Case(f, leaf(vec()))


@program()
def grad_of_a_leaf_then_of_none():
    def f(p):
        return p.grad is None, p * 2

    p = leaf(vec())
    return Case(f, p).then_call(p * 1).then_call(p)


@program(min_ops=1)
def a_flag_in_inference_mode():
    def f(b):
        with torch.inference_mode():
            x = torch.ones(4, requires_grad=True)
            y = x.mul_(2)
        return b + 1, y + 1, x.requires_grad, x.is_inference()

    return Case(f, vec())


@program(min_ops=1)
def an_error_behind_a_warning():
    """The operation warns, then raises: both at each call."""

    def f(x):
        y = x + 1
        try:
            y[[slice(0, 1), 9]]
        except (IndexError, TypeError, ValueError) as error:
            LOG.append(type(error).__name__)
        return y * 2

    LOG.clear()
    return Case(f, mat(2, 2)).watching(LOG)


@program(min_ops=1)
def an_error_that_names_a_parameter():
    def f(p):
        try:
            torch.add(p)
        except TypeError as error:
            return str(error), p + 1
        return None

    return Case(f, torch.nn.Parameter(vec()))


@program(min_ops=1)
def an_error_without_gradients():
    """What is wrong under no_grad is something else than what is wrong with gradients."""

    def f(p, x):
        y = x + 1
        try:
            with torch.no_grad():
                p.copy_(y)
        except RuntimeError as error:
            return str(error), y
        return None

    return Case(f, torch.nn.Parameter(vec()), mat(2, 4))


@program(min_ops=1)
def a_draw_that_nothing_needs():
    def f(x):
        torch.nn.functional.dropout(x, 0.5)
        return x + 1

    return Case(f, vec())


@program(min_ops=1)
def handle_of_a_hook_removed_inside():
    def f(x, y):
        first = x.register_hook(lambda g: g * 2)
        z = y * y
        first.remove()
        first.remove()
        x.register_hook(lambda g: g * 3)
        return z

    def grads(x, y):
        x.grad = None
        x._backward_hooks = None
        out = f(x, y)
        (x * 1).sum().backward()
        return out, x.grad, len(x._backward_hooks)

    return Case(grads, leaf(vec()), vec())


@program(min_ops=1)
def handle_of_a_hook_goes_out():
    class Owner:
        handle = None

    owner = Owner()

    def f(x, y):
        owner.handle = x.register_hook(lambda g: g * 2)
        return y * y, owner.handle

    def run(x, y):
        out, handle = f(x, y)
        x.grad = None
        (x * 1).sum().backward()
        doubled = x.grad.clone()
        handle.remove()
        handle.remove()
        x.grad = None
        (x * 1).sum().backward()
        return out, doubled, x.grad, handle is owner.handle, len(x._backward_hooks)

    return Case(run, leaf(vec()), vec())


@program(min_ops=1)
def handle_in_a_list_and_a_module():
    module = torch.nn.Identity()
    handles = []

    def f(x, y):
        handles.append(x.register_hook(lambda g: g + 1))
        module.handle = handles[-1]
        return y.sin()

    def run(x, y):
        out = f(x, y)
        same = module.handle is handles[-1]
        handles.pop().remove()
        return out, same, len(x._backward_hooks)

    return Case(run, leaf(vec()), vec())


class _WritesUnsaid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        torch.exp(x, out=x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return None


@program(min_ops=1)
def function_that_writes_to_a_leaf():
    """forward() runs without grad mode, where a leaf may be written to, and does not say so."""

    def f(x):
        return _WritesUnsaid.apply(x)

    return Case(f, vec().requires_grad_())


@program()
def grad_of_an_input_that_a_write_has_made_no_leaf() -> Case:
    """It warns."""

    def f(x: torch.Tensor, p: torch.Tensor) -> tuple[torch.Tensor, bool]:
        x.copy_(p.flip(0))
        return x * 2, x.grad is None

    return Case(f, torch.zeros(4), torch.ones(4, requires_grad=True)).changing(torch.zeros(4), torch.ones(4))
