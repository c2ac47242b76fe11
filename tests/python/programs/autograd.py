"""Gradients: modes, detach, requires_grad_, backward inside and after, hooks, functions of the user."""

import torch

from tests.python.programs import Case, leaf, mat, program, vec


@program(full=2)
def gradient_outside():
    model = torch.nn.Linear(4, 2)
    with torch.no_grad():
        model.weight.copy_(mat(2, 4))
        model.bias.zero_()

    def f(x):
        return model(x).relu().sum()

    compiled = []

    def backward(case):
        loss = f(mat())
        loss.backward()
        compiled.append(loss.detach())

    return Case(f, mat()).watching(compiled, model).then(backward)


@program()
def backward_inside():
    def f(x):
        loss = (x * x).sum()
        loss.backward()
        return x.grad + 1

    return Case(f, leaf(vec()))


@program()
def backward_inside_twice():
    def f(x):
        for _ in range(2):
            (x * 3).sum().backward()
        return x.grad

    return Case(f, leaf(vec()))


@program()
def autograd_grad():
    def f(x):
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g, torch.autograd.grad(g.sum(), x)[0]

    return Case(f, leaf(vec()))


@program(full=2)
def no_grad_block():
    def f(x):
        with torch.no_grad():
            y = x * 2
        z = x * 3
        return y, z, y.requires_grad, z.requires_grad

    return Case(f, leaf(vec()))


@program(full=3)
def nested_modes():
    def f(x):
        with torch.no_grad():
            a = x * 2
            with torch.enable_grad():
                b = x * 3
            c = x * 4
        with torch.set_grad_enabled(False):
            d = x * 5
        return a, b, c, d, torch.is_grad_enabled()

    return Case(f, leaf(vec()))


@program(full=2)
def no_grad_decorator():
    @torch.no_grad()
    def g(x):
        return x * 2

    def f(x):
        return g(x), x * 2, g.__name__

    return Case(f, leaf(vec()))


@program()
def set_grad_enabled_as_function():
    def f(x):
        torch.set_grad_enabled(False)
        y = x * 2
        torch.set_grad_enabled(True)
        return y, x * 3

    return Case(f, leaf(vec()))


@program()
def set_grad_enabled_leaks_out():
    def f(x):
        y = x * 2
        torch.set_grad_enabled(False)
        return y

    return Case(f, leaf(vec()))


@program()
def called_under_no_grad():
    def f(x):
        return x * 2, torch.is_grad_enabled()

    def outer(x):
        with torch.no_grad():
            a = f(x)
        return a, f(x)

    return Case(outer, leaf(vec()))


@program(full=1)
def inference_mode():
    def f(x):
        with torch.inference_mode():
            y = x * 2
        return y, y.is_inference(), y.requires_grad

    return Case(f, leaf(vec()))


@program(full=2)
def detach():
    def f(x):
        y = x * 2
        z = y.detach()
        return y + z, z.requires_grad, z

    return Case(f, leaf(vec()))


@program()
def requires_grad_inplace():
    def f(x):
        y = x + 1
        y.requires_grad_()
        return y * 2, y.requires_grad

    return Case(f, vec())


@program()
def requires_grad_set_on_argument():
    def f(x):
        x.requires_grad = True
        return x * 2

    return Case(f, vec())


@program()
def argument_begins_to_require_grad():
    def f(x):
        return x * 2

    def toggle(case):
        case.args[0].requires_grad_()

    return Case(f, vec()).then(toggle)


@program()
def grad_attribute_read():
    def f(x):
        if x.grad is None:
            return x * 2
        return x * x.grad

    x = leaf(vec())

    def set_grad(case):
        x.grad = torch.ones(4) * 5

    return Case(f, x).then(set_grad)


@program()
def grad_attribute_written():
    def f(x):
        x.grad = torch.ones(4)
        y = x.grad * 2
        x.grad = None
        return y

    return Case(f, leaf(vec()))


@program()
def retain_grad():
    def f(x):
        y = x * 2
        y.retain_grad()
        (y * y).sum().backward()
        return y.grad

    return Case(f, leaf(vec()))


@program()
def tensor_hook():
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g.sum().item()) or g * 10)
        y.sum().backward()
        return x.grad

    return Case(f, leaf(vec())).watching(seen)


@program()
def autograd_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            ctx.save_for_backward(x)
            ctx.n = n
            return x * n

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.n * x.sign(), None

    def f(x):
        y = Double.apply(x, 3)
        y.sum().backward()
        return y, x.grad

    return Case(f, leaf(vec()))


@program()
def autograd_function_forward_only():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable()
            return x * 4

        @staticmethod
        def backward(ctx, g):
            return g * 4

    def f(x):
        return Scale.apply(x + 1) * 2

    return Case(f, leaf(vec()))


@program()
def checkpointing():
    from torch.utils.checkpoint import checkpoint

    def block(x):
        return torch.sin(x) * 2

    def f(x):
        y = checkpoint(block, x, use_reentrant=False)
        y.sum().backward()
        return y, x.grad

    return Case(f, leaf(vec()))


@program()
def training_step():
    torch.manual_seed(3)
    model = torch.nn.Linear(4, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def f(x):
        optimiser.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    return Case(f, mat()).watching(model)


@program()
def saved_tensor_hooks():
    packed = []

    def f(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t):
            y = x * x
        y.sum().backward()
        return x.grad

    return Case(f, leaf(vec())).watching(packed)


@program()
def functorch_transforms():
    def g(x):
        return (x**2).sum()

    def f(x):
        return torch.func.grad(g)(x), torch.func.vmap(lambda row: row * 2)(x[None]), torch.func.jvp(g, (x,), (x,))

    return Case(f, vec())


@program()
def anomaly_of_inplace_after_save():
    def f(x):
        y = x.exp()
        z = y * 2
        y.add_(1)
        z = z + y.exp()
        try:
            z.sum().backward()
        except RuntimeError as error:
            return str(error)[:60]
        return x.grad

    return Case(f, leaf(vec()))


@program(full=2)
def grad_flows_through_views():
    def f(x):
        y = x * 2
        return y[1:].sum() + y.view(2, 2)[0].sum()

    return Case(f, leaf(vec()))


@program(full=1)
def mixed_requires_grad_inputs():
    def f(x, w, i):
        return (x * w).index_select(0, i), x.requires_grad

    return Case(f, vec(), leaf(vec()), torch.tensor([0, 1])).changing(leaf(vec()), vec(), torch.tensor([1, 1]))


@program()
def loss_backward_on_the_result():
    model = torch.nn.Linear(4, 2)
    with torch.no_grad():
        model.weight.copy_(mat(2, 4))
        model.bias.zero_()

    def f(x):
        y = model(x)
        print("break")
        loss = y.pow(2).sum()
        loss.backward()
        return loss

    return Case(f, mat()).watching(model)


class _TakesNone(torch.autograd.Function):
    @staticmethod
    def forward(x, factor):
        return x * factor, x + 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, first, second):
        total = None
        if first is not None:
            total = first * ctx.factor
        if second is not None:
            total = second if total is None else total + second
        return total, None


@program()
def a_function_that_takes_gradients_which_are_none():
    def f(x):
        first, second = _TakesNone.apply(x, 3)
        first.sum().backward()
        return first, second, x.grad

    return Case(f, leaf(vec()))
