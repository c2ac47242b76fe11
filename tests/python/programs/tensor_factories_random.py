"""Tensors made in the program, and random ones: the random state afterwards is eager's."""

import torch
import torch.nn.functional as F

from tests.python.programs import Case, leaf, mat, program, vec


@program(full=6)
def factories():
    def f(x):
        return (
            torch.zeros(2, 3), torch.ones((2,)), torch.full((2, 2), 7), torch.arange(5), torch.arange(1, 2, 0.25), torch.linspace(0, 1, 5), torch.eye(3),
            torch.zeros_like(x), torch.ones_like(x, dtype=torch.int64), x.new_zeros(3), x.new_full((2,), 5), torch.empty(0), torch.full_like(x, 2), torch.tril_indices(2, 2),
        )  # fmt: skip

    return Case(f, mat())


@program(full=4)
def tensor_constructor():
    def f(x):
        return (
            torch.tensor([1, 2, 3]),
            torch.tensor(2.5),
            torch.tensor([[True], [False]]),
            torch.tensor([1, 2], dtype=torch.float16),
            torch.as_tensor([1.0]),
            x + torch.tensor(1),
        )

    return Case(f, vec())


@program()
def tensor_from_tensors():
    def f(x):
        return torch.tensor([x.sum().item(), 2.0]), torch.as_tensor(x) is x, x + 1

    return Case(f, vec())


@program(full=2)
def sizes_from_inputs():
    def f(x):
        n, m = x.shape
        return torch.zeros(n, m) + x, torch.arange(n), torch.ones(m, n).t() * x

    return Case(f, mat()).changing(mat(2, 5))


# A leaf that is made in a graph would get no gradient from AOTAutograd.
@program(min_ops=1, max_breaks=1)
def requires_grad_factory():
    def f(x):
        w = torch.ones(4, requires_grad=True)
        return w, w * x

    return Case(f, vec())


@program(full=1)
def parameter_made_inside():
    def f(x):
        p = torch.nn.Parameter(torch.ones(4))
        return p, p * x, isinstance(p, torch.nn.Parameter)

    return Case(f, vec())


@program(full=4)
def parameters_initialised_inside():
    def f(x):
        weight = torch.nn.Parameter(torch.empty(4, 4))
        torch.nn.init.uniform_(weight)
        with torch.no_grad():
            weight.add_(1)
        bias = torch.nn.Parameter(torch.zeros(4))
        bias.tag = "bias"
        return weight, bias, F.linear(x, weight, bias), bias.grad, bias.is_leaf, bias is weight, bias.tag

    return Case(f, vec())


@program(full=3)
def layer_made_inside():
    def f(x):
        layer = torch.nn.Linear(4, 2)
        return layer, layer(x), [name for name, _ in layer.named_parameters()]

    return Case(f, vec())


@program(full=2)
def parameter_into_module():
    class Grows(torch.nn.Module):
        def forward(self, x):
            if not hasattr(self, "weight"):
                self.weight = torch.nn.Parameter(torch.full((4,), 2.0))
            return x * self.weight

    module = Grows()
    return Case(lambda x: module(x), vec()).watching(module).then_call(vec())


@program()
def parameter_beside_its_data():
    def f(x):
        data = torch.ones(4)
        weight = torch.nn.Parameter(data)
        product = weight * x
        data.add_(1)
        other = torch.nn.Parameter(x)
        with torch.no_grad():
            other.mul_(2)
        return weight, data, product.detach(), weight.data_ptr() == data.data_ptr(), other

    return Case(f, vec())


@program(full=4)
def random_functions():
    def f(x):
        return (
            torch.rand(3),
            torch.randn(2, 2),
            torch.randint(0, 10, (4,)),
            torch.randperm(5),
            torch.rand_like(x),
            torch.normal(0.0, 1.0, (2,)),
            torch.bernoulli(torch.full((3,), 0.5)),
        )

    return Case(f, vec())


@program(full=4)
def random_inplace():
    def f(x):
        x.uniform_()
        y = torch.empty(3).normal_(1, 2)
        z = torch.zeros(3).bernoulli_(0.5)
        return x + 1, y, z, torch.empty(2).exponential_()

    return Case(f, vec())


@program(full=2)
def dropout():
    def f(x, training):
        y = F.dropout(x, 0.5, training)
        return y, F.dropout(y, 0.25, training=True)

    return Case(f, mat(), True).changing(mat(), False)


@program()
def manual_seed_inside():
    def f(x):
        torch.manual_seed(5)
        return x + torch.rand(4), torch.rand(1)

    return Case(f, vec())


@program()
def rng_state_saved_and_restored():
    def f(x):
        state = torch.get_rng_state()
        a = torch.rand(3)
        torch.set_rng_state(state)
        return a, torch.rand(3), x + 1

    return Case(f, vec())


@program()
def own_generator():
    generator = torch.Generator().manual_seed(3)

    def f(x):
        return torch.rand(4, generator=generator) + x

    return Case(f, vec()).watching(generator)


@program()
def fork_rng():
    def f(x):
        with torch.random.fork_rng():
            a = torch.rand(2)
        return a, torch.rand(2), x + 1

    return Case(f, vec())


@program()
def random_around_a_break():
    def f(x):
        a = torch.rand(4)
        print("break")
        b = torch.rand(4)
        return x + a * b

    return Case(f, vec())


@program(full=2)
def random_in_a_loop():
    def f(x):
        for _ in range(3):
            x = x + torch.randn(4)
        return x

    return Case(f, vec())


@program(full=1)
def default_dtype_is_used():
    def f(x):
        return (
            torch.ones(2),
            torch.tensor(1.5),
            torch.arange(3.0),
            torch.get_default_dtype(),
            x.double() + torch.ones(4),
        )

    return Case(f, vec()).then(lambda case: torch.set_default_dtype(torch.float64))


@program()
def default_dtype_changed_inside():
    def f(x):
        a = torch.ones(2)
        torch.set_default_dtype(torch.float64)
        b = torch.ones(2)
        torch.set_default_dtype(torch.float32)
        return a, b, x + 1

    return Case(f, vec())


@program(full=2)
def device_arguments():
    def f(x):
        return (
            torch.zeros(2, device="cpu"),
            torch.ones(2, device=x.device),
            x.to("cpu") + 1,
            x.new_ones(2, device=torch.device("cpu")),
        )

    return Case(f, vec())


@program(full=1)
def multinomial_and_sampling():
    def f(x):
        p = torch.softmax(x, -1)
        return torch.multinomial(p, 2), torch.distributions.Categorical(probs=p).logits + 1

    return Case(f, mat())


@program(full=1)
def rrelu_and_gumbel():
    def f(x):
        return F.gumbel_softmax(x, dim=-1), F.rrelu(x, training=True)

    return Case(f, mat())


@program(full=1)
def causal_mask():
    def f(x):
        n = x.shape[0]
        mask = torch.full((n, n), float("-inf")).triu(1)
        return mask, torch.tril(torch.ones(n, n, dtype=torch.bool))

    return Case(f, mat()).changing(mat(5, 2))


@program(full=1)
def constant_tensor_is_fresh_each_call():
    def f(x):
        t = torch.tensor([1.0, 2.0])
        t.add_(1)
        return t

    return Case(f, leaf(vec()))


@program(min_ops=4)
def default_dtype_set_for_a_while():
    def f(x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            made = torch.ones(2) * 1.5, torch.arange(3) / 2, torch.tensor(0.5), torch.get_default_dtype()
        finally:
            torch.set_default_dtype(before)
        return made, torch.ones(2), x + 1

    return Case(f, vec())


@program(min_ops=2)
def default_dtype_over_a_break_and_of_no_float():
    def f(x):
        try:
            torch.set_default_dtype(torch.int64)
        except TypeError as error:
            text = str(error)
        torch.set_default_dtype(torch.float64)
        made = torch.ones(2)
        print("between")
        more = torch.zeros(2)
        torch.set_default_dtype(torch.float32)
        return text, made, more, torch.ones(1), x + 1

    return Case(f, vec())
