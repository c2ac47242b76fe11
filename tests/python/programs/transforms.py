"""torch.func's transforms, and hooks of autograd."""

import copy

import torch
from torch.func import jacrev

from tests.python.programs import Case, leaf, program, vec


@program()
def jacobian_with_aux():
    def f(x):
        return jacrev(lambda t: (t.sin(), t * 2), has_aux=True)(x)

    return Case(f, vec(4))


@program(full=1)
def hook_on_an_input():
    seen = []

    def f(w):
        w.register_hook(lambda grad: seen.append(grad.sum()))
        return (w * 2).sum()

    def gradients(case):
        case.fn(*case.args).backward()

    return Case(f, leaf(vec())).watching(seen).then(gradients)


@program(full=1)
def hook_after_accumulation():
    seen = []

    def f(w):
        w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum()))
        return (w * 2).sum()

    return Case(f, leaf(vec())).watching(seen)


@program(min_ops=2)
def hook_with_a_handle():
    seen = []

    def f(w):
        handle = w.register_hook(lambda grad: seen.append(1))
        y = (w * 2).sum()
        handle.remove()
        return y + 1

    return Case(f, leaf(vec())).watching(seen)


@program(full=2)
def vjp_and_its_products():
    def f(x):
        outputs, product = torch.func.vjp(torch.sin, x)
        return outputs, product(torch.ones(4)), product(x)

    return Case(f, vec())


@program(full=2)
def vjp_with_aux():
    def f(x, y):
        def inner(a, b):
            return (a * b, a + b), b * 2

        outputs, product, aux = torch.func.vjp(inner, x, y, has_aux=True)
        return outputs, product((x, y)), aux

    return Case(f, vec(), vec() + 1)


@program(full=2)
def jvp_with_aux():
    def f(x):
        return torch.func.jvp(lambda a: (a.sin() * a, {"more": a + 1}), (x,), (torch.ones_like(x),), has_aux=True)

    return Case(f, vec())


@program()
def hessians_of_a_batch():
    def f(x):
        return torch.func.vmap(torch.func.hessian(lambda a: (a**3).sum()))(x.view(2, 2)), x * 2

    return Case(f, vec())


@program(full=2)
def layer_with_other_buffers():
    norm = torch.nn.BatchNorm1d(4)

    def f(x):
        state = {name: value.detach().clone() for name, value in [*norm.named_parameters(), *norm.named_buffers()]}
        return torch.func.functional_call(norm, state, (x[None].repeat(3, 1),)), state["running_mean"]

    return Case(f, leaf(vec())).watching(norm)


@program(full=3)
def layer_copied_inside():
    layer = torch.nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.fill_(0.5)
        layer.bias.fill_(0.25)

    def f(x):
        own = copy.deepcopy(layer)
        with torch.no_grad():
            own.weight.add_(1)
        return own(x), own.weight is layer.weight, own

    return Case(f, vec()).watching(layer)


class WrongGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, wrong):
        ctx.wrong = wrong
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return (gradient, None, gradient) if ctx.wrong == "count" else (gradient[:2], None)


@program()
def wrong_gradients():
    def f(x, wrong):
        return WrongGradients.apply(x, wrong)

    def run(x):
        messages = []
        for wrong in ("count", "shape"):
            try:
                f(x, wrong).sum().backward()
            except RuntimeError as error:
                messages.append(str(error))
        return messages, x.grad

    return Case(run, leaf(vec()))
