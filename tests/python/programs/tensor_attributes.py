"""Attributes of tensors that programs write, and the optimizers that live on them."""

import torch

from tests.python.programs import Case, leaf, program, vec


def _with_grad():
    w = leaf(vec())
    w.grad = vec() * 2
    return w


@program(full=1)
def grad_set_to_none():
    def f(w):
        y = w.detach() * 2
        w.grad = None
        return y, w.grad is None

    return Case(f, _with_grad())


@program(full=2)
def grad_written_and_read():
    def f(w):
        w.grad = w.detach() * 2
        return w.grad + 1

    return Case(f, leaf(vec()))


@program(full=3)
def grad_replaced_after_in_place():
    def f(w):
        w.grad.mul_(2)
        w.grad = w.grad + 1
        return w.grad.sum()

    return Case(f, _with_grad())


@program()
def grad_that_does_not_fit():
    def f(w):
        try:
            w.grad = torch.ones(7)
        except RuntimeError as error:
            return str(error)[:20], w.grad is None

    return Case(f, leaf(vec()))


@program(full=1)
def grad_of_aliases():
    def f(a, b):
        a.grad = a.detach() * 2
        return b.grad is None

    w = leaf(vec())
    return Case(f, leaf(vec()), leaf(vec())).then_call(w, w)


@program(full=1)
def attribute_deleted():
    def f(x):
        known = hasattr(x, "mark")
        if known:
            del x.mark
        return x * 2, known, hasattr(x, "mark")

    x = vec()
    x.mark = 3
    return Case(f, x)


@program(full=1)
def attribute_set_and_deleted():
    def f(x):
        x.mark = 1
        y = x * 2
        y.other = x.mark
        del y.other
        return y, hasattr(y, "other")

    return Case(f, vec())


@program(full=2)
def grad_fn_is_none():
    def f(w):
        y = w * 2
        return y.grad_fn is None, y.grad_fn is not None, w.grad_fn is None, y.detach().grad_fn is None, y + 1

    return Case(f, leaf(vec()))


@program(full=1)
def base_of_inputs():
    def f(x, v):
        return x._base is None, v._base is None, (x * 2)._base is None, x + 1

    return Case(f, vec(), vec()[1:])


def _step(**options):
    w = _with_grad()
    optimizer = torch.optim.SGD([w], lr=0.5, **options)

    def f(w):
        optimizer.step()
        return w.detach() * 1

    return Case(f, w).watching(optimizer.param_groups[0]["lr"])


@program(full=2)
def optimizer_step():
    return _step()


@program(full=2)
def optimizer_step_with_momentum():
    return _step(momentum=0.5, foreach=False)


@program(full=2)
def optimizer_step_foreach():
    return _step(momentum=0.5, weight_decay=0.25, foreach=True)


@program(full=1)
def optimizer_zero_grad():
    w = _with_grad()
    optimizer = torch.optim.SGD([w], lr=0.5)

    def f(w):
        optimizer.zero_grad()
        return w.detach() * 2, w.grad is None

    return Case(f, w)


@program(full=1)
def gradients_clipped():
    def f(w):
        return torch.nn.utils.clip_grad_norm_([w], 0.5)

    return Case(f, _with_grad())


@program(full=4)
def data_written_under_no_grad_after_it_was_read():
    """As optimizers of libraries have it: their state is made of the parameter before its data is written to."""
    w = torch.nn.Parameter(torch.ones(3))
    state = {}

    def f(x):
        with torch.no_grad():
            if "mean" not in state:
                state["mean"] = torch.zeros_like(w)
            w.data.mul_(0.5)
            w.add_(x.sign(), alpha=-0.1)
            state["mean"].mul_(0.9).add_(x)
        return w.detach().clone(), state["mean"].clone()

    return Case(f, torch.tensor([1.0, -2.0, 0.5])).watching(w, state)
