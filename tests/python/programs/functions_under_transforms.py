"""Autograd functions under torch.func's transforms, which have rules of their own for them; and what tensors say of
themselves there."""

import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from tests.python.programs import Case, leaf, program, vec

calls = []


class Scaled(torch.autograd.Function):
    """Ten times the derivative, so that it is told apart from that of what forward does."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 20 * ctx.saved_tensors[0]


class OwnRules(Scaled):
    generate_vmap_rule = False

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 7 * ctx.saved_tensors[0]

    @staticmethod
    def vmap(info, in_dims, x):
        return x * 100, in_dims[0]


class WithNumber(torch.autograd.Function):
    @staticmethod
    def forward(x, number):
        return x * number

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.number = inputs[1]

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.number, None


class Old(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 5


class Counts(Scaled):
    @staticmethod
    def forward(x):
        calls.append(1)
        return x * x


@program(full=1)
def backward_is_the_functions_own():
    return Case(lambda x: grad(lambda v: Scaled.apply(v).sum())(x), vec())


@program(full=1)
def number_in_the_context():
    return Case(lambda x: grad(lambda v: WithNumber.apply(v, 3.0).sum())(x), vec())


@program(full=1)
def second_derivative_by_its_own_backward():
    return Case(lambda x: grad(lambda w: grad(lambda v: Scaled.apply(v).sum())(w).sum())(x), vec())


@program()
def forward_mode_needs_a_rule():
    return Case(lambda x: hessian(lambda v: Scaled.apply(v).sum())(x), vec())


@program(full=1)
def second_derivatives_by_jacobians():
    return Case(lambda x: jacrev(jacrev(lambda v: Scaled.apply(v).sum()))(x), vec())


@program(full=1)
def jacobians_of_a_function():
    return Case(lambda x: (jacrev(Scaled.apply)(x), vmap(grad(Scaled.apply))(x)), vec())


@program(full=1)
def own_jvp():
    return Case(lambda x: jvp(OwnRules.apply, (x,), (x + 1,)), vec())


@program(full=1)
def own_vmap():
    return Case(lambda x: vmap(lambda v: OwnRules.apply(v))(x), vec())


@program()
def no_vmap():
    return Case(lambda x: vmap(lambda v: WithNumber.apply(v, 2.0))(x), vec())


@program()
def without_setup_context():
    return Case(lambda x: grad(lambda v: Old.apply(v).sum())(x), vec())


@program()
def forward_with_effects():
    def f(x):
        calls.clear()
        return grad(lambda v: Counts.apply(v).sum())(x), len(calls)

    return Case(f, vec())


@program()
def products_behind_the_call():
    return Case(lambda x: vjp(lambda v: Scaled.apply(v), x)[1](x), vec())


def _facts(seen):
    def note(*tensors):
        seen.extend([(v.requires_grad, v.is_leaf, (v * 1).requires_grad, torch.is_grad_enabled()) for v in tensors])
        return sum([(v * 2).sum() for v in tensors])

    return note


def _all(x, y):
    seen = []
    note = _facts(seen)
    vmap(note, (0, None))(x, y)
    grad(note)(x, y)
    jvp(note, (x, y), (x.detach(), y.detach()))
    jacrev(note)(x, y)
    jacfwd(note)(x, y)
    return seen


@program(full=1)
def facts_of_plain_tensors():
    return Case(_all, vec(), vec())


@program(full=1)
def facts_of_leaves():
    return Case(_all, leaf(vec()), leaf(vec()))


@program(full=1)
def facts_without_gradients_around():
    def f(x, y):
        with torch.no_grad():
            return _all(x, y)

    return Case(f, leaf(vec()), leaf(vec()))


@program()
def requires_grad_is_refused():
    def f(x):
        return grad(lambda v: (v * v.clone().requires_grad_()).sum())(x)

    return Case(f, vec())


@program()
def whole_numbers_have_no_gradient():
    return Case(lambda x: grad(lambda v: v.sum())(x.long()), vec())
