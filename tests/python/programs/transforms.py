"""torch.func's transforms, and hooks of autograd."""

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
