"""Training code whose gradients a backend of AOTAutograd cannot give by itself: values of one graph that are
differentiated one after the other, by each other, or twice. A graph is one function of autograd's there."""

import copy
import weakref

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

import stator


def on_both(cases, with_inductor):
    """Each with aot_eager; inductor takes seconds for each graph."""
    slow = [pytest.param(case, "inductor", marks=pytest.mark.slow) for case in cases if case in with_inductor]
    return [*((case, "aot_eager") for case in cases), *slow]


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 16), nn.Softplus(), nn.Linear(16, outputs))


class Pair:
    def __init__(self):
        torch.manual_seed(0)
        self.maker, self.judge = mlp(8, 4), mlp(4, 1)
        self.of_maker = torch.optim.Adam(self.maker.parameters(), 1e-2)
        self.of_judge = torch.optim.Adam(self.judge.parameters(), 1e-2)

    def state(self):
        nets = [*self.maker.parameters(), *self.judge.parameters()]
        return [p.detach().clone() for p in nets], [None if p.grad is None else p.grad.clone() for p in nets]


def adversaries(pair, noise, real):
    fake = pair.maker(noise)
    pair.of_judge.zero_grad()
    judged = F.softplus(-pair.judge(real)).mean() + F.softplus(pair.judge(fake.detach())).mean()
    judged.backward()
    pair.of_judge.step()
    pair.of_maker.zero_grad()
    made = F.softplus(-pair.judge(fake)).mean()
    made.backward()
    pair.of_maker.step()
    return judged.detach(), made.detach()


def gradient_penalty(pair, noise, real):
    fake = pair.maker(noise).detach()
    mix = torch.linspace(0, 1, real.shape[0])[:, None]
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (slope,) = torch.autograd.grad(pair.judge(between).sum(), between, create_graph=True)
    loss = ((slope.norm(dim=1) - 1) ** 2).mean() + pair.judge(fake).mean() - pair.judge(real).mean()
    pair.of_judge.zero_grad()
    loss.backward()
    pair.of_judge.step()
    return loss.detach()


def meta_learning(pair, noise, real):
    parameters = dict(pair.judge.named_parameters())
    pair.of_judge.zero_grad()
    for _ in range(2):
        loss = functional_call(pair.judge, parameters, (real,)).pow(2).mean()
        slopes = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
        parameters = {name: p - 0.1 * slope for (name, p), slope in zip(parameters.items(), slopes)}
    outer = functional_call(pair.judge, parameters, (real * 2,)).pow(2).mean()
    outer.backward()
    pair.of_judge.step()
    return outer.detach()


def first_order_meta_learning(pair, noise, real):
    parameters = dict(pair.judge.named_parameters())
    for _ in range(2):
        loss = functional_call(pair.judge, parameters, (real,)).pow(2).mean()
        slopes = torch.autograd.grad(loss, list(parameters.values()))
        parameters = {name: p - 0.1 * slope for (name, p), slope in zip(parameters.items(), slopes)}
    pair.of_judge.zero_grad()
    outer = functional_call(pair.judge, parameters, (real * 2,)).pow(2).mean()
    outer.backward()
    pair.of_judge.step()
    return outer.detach()


def differential_equation(pair, noise, real):
    x = real.clone().requires_grad_(True)
    u = pair.judge(x)
    (first,) = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)
    (second,) = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)
    loss = (second[:, 0] + u[:, 0]).pow(2).mean()
    pair.of_judge.zero_grad()
    loss.backward()
    pair.of_judge.step()
    return loss.detach()


def gradients_of_a_layer(pair, noise, real):
    hidden = pair.maker(noise)
    score = pair.judge(hidden).sum()
    (slope,) = torch.autograd.grad(score, hidden, retain_graph=True)
    pair.of_maker.zero_grad()
    (score + (hidden * slope).sum()).backward()
    pair.of_maker.step()
    return score.detach(), slope


PROGRAMS = [
    adversaries,
    gradient_penalty,
    meta_learning,
    first_order_meta_learning,
    differential_equation,
    gradients_of_a_layer,
]


@pytest.mark.parametrize(
    "program, backend",
    on_both(PROGRAMS, [adversaries, gradient_penalty]),
    ids=lambda case: getattr(case, "__name__", case),
)
def test_steps_of_training(program, backend):
    def run(step):
        torch.manual_seed(1)
        batches = [(torch.randn(5, 8), torch.randn(5, 4)) for _ in range(4)]
        pair = Pair()
        return [step(pair, *batch) for batch in batches], pair.state()

    wanted = run(program)
    before = stator.stats()
    found = run(stator.compile(program, backend=backend))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    after = stator.stats()
    assert after["graphs"] > before["graphs"] and after["graph_calls"] - before["graph_calls"] > 4


def test_values_that_have_nothing_in_common_are_graphs_of_their_own():
    torch.manual_seed(0)
    actor, critic = mlp(4, 2), mlp(4, 1)

    def both(x):
        return actor(x).log_softmax(-1), critic(x)

    def gradients(run):
        actor.zero_grad()
        critic.zero_grad()
        scores, value = run(torch.ones(3, 4))
        scores.sum().backward()
        between = [p.grad for p in critic.parameters()]
        value.sum().backward()
        return between, [p.grad for net in (actor, critic) for p in net.parameters()]

    wanted = gradients(both)
    before = stator.stats()
    compiled = stator.compile(both, backend="aot_eager", fullgraph=True)
    assert wanted[0] == [None] * 4
    torch.testing.assert_close(gradients(compiled), wanted)
    torch.testing.assert_close(gradients(compiled), wanted)
    after = stator.stats()
    assert after["graphs"] - before["graphs"] == 1  # captured as one
    assert after["backend_compilations"] - before["backend_compilations"] == 2


def test_values_that_hang_together_stay_one_graph():
    torch.manual_seed(0)
    trunk, left, right = mlp(4, 8), mlp(8, 2), mlp(8, 1)

    def both(x):
        hidden = trunk(x)
        return left(hidden), right(hidden.relu())

    before = stator.stats()["backend_compilations"]
    for output in stator.compile(both, backend="aot_eager", fullgraph=True)(torch.ones(3, 4)):
        assert output.requires_grad
    assert stator.stats()["backend_compilations"] - before == 1


def test_turns_that_cannot_be_cut_run_as_captured():
    def step(a, b):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for _ in range(3):
                a, b = torch.tanh(a * b.detach()), torch.sigmoid(b * a.detach())
            return a, b

    def gradients(run):
        leaves = [torch.full((3,), 0.5, requires_grad=True), torch.full((3,), 0.25, requires_grad=True)]
        a, b = run(*leaves)
        a.sum().backward()
        assert leaves[1].grad is None
        b.sum().backward()
        return a, b, [leaf.grad for leaf in leaves]

    compiled = stator.compile(step, backend="aot_eager", fullgraph=True)
    before = stator.stats()["graph_calls"]
    torch.testing.assert_close(gradients(compiled), gradients(step))
    assert stator.stats()["graph_calls"] - before == 1


def test_an_input_that_is_only_looked_at_keeps_its_gradients():
    # A graph that takes the input for one it differentiates by hands zeros to what has made it, and its memory is gone.
    torch.manual_seed(0)
    maker, judge = mlp(8, 4), mlp(4, 1)

    def judged(fake):
        return judge(fake.detach()).sum() + (fake > 0).sum()

    def gradients(make, run):
        maker.zero_grad()
        judge.zero_grad()
        fake = make(torch.ones(5, 8))
        run(fake).backward()
        between = [p.grad for p in maker.parameters()]
        fake.sum().backward()
        return between, [p.grad for net in (maker, judge) for p in net.parameters()]

    wanted = gradients(maker, judged)
    assert wanted[0] == [None] * 4
    before = stator.stats()["graphs"]
    compiled = [stator.compile(net, backend="aot_eager") for net in (maker, judged)]
    for _ in range(2):
        torch.testing.assert_close(gradients(*compiled), wanted)
    assert stator.stats()["graphs"] - before == 2


class Several(nn.Module):
    """Results that are views, and several of them."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, x):
        hidden = torch.sigmoid(self.first(x))
        return self.second(hidden).view(-1), self.third(hidden), hidden


NETS = {
    "plain": lambda: mlp(4, 1),
    "a view": lambda: nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1), nn.Flatten(0)),
    "statistics": lambda: nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Softplus(), nn.Linear(16, 1)),
    "in place": lambda: nn.Sequential(nn.Linear(4, 16), nn.ELU(inplace=True), nn.Linear(16, 1)),
    "several": Several,
}


@pytest.mark.parametrize("kind, backend", on_both(NETS, ["several", "statistics"]))
def test_a_compiled_module_is_differentiated_twice(kind, backend):
    def total(output):
        return sum(part.sum() for part in output) if isinstance(output, tuple) else output.sum()

    def penalty(net, run, x):
        x = x.clone().requires_grad_()
        value = total(run(x))
        (slope,) = torch.autograd.grad(value, x, create_graph=True)
        net.zero_grad()
        ((slope.norm(dim=1) - 1).pow(2).mean() + value).backward()
        return [x.grad, *(p.grad.clone() for p in net.parameters()), *(b.clone() for b in net.buffers())]

    def curvature(net, run, x):
        parameters = list(net.parameters())
        slopes = torch.autograd.grad(total(run(x)) ** 2, parameters, create_graph=True)
        return list(torch.autograd.grad(sum((s * s.detach()).sum() for s in slopes), parameters))

    torch.manual_seed(0)
    net, x = NETS[kind]().double(), torch.randn(6, 4).double()
    twin = copy.deepcopy(net)
    before = stator.stats()["graph_calls"]
    run = stator.compile(twin, backend=backend)
    for _ in range(2):
        for what in (penalty, curvature):
            torch.testing.assert_close(what(twin, run, x), what(net, net, x))
    assert stator.stats()["graph_calls"] - before == 4


def test_random_numbers_are_not_drawn_again():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Softplus(), nn.Linear(16, 1))
    x = torch.randn(6, 4, requires_grad=True)
    output = stator.compile(net, backend="aot_eager", fullgraph=True)(x)
    (slope,) = torch.autograd.grad(output.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        slope.sum().backward()


def test_what_was_written_since_is_no_input_any_more():
    weight = torch.ones(4, requires_grad=True)

    def f(x):
        return torch.sin(x * weight).sum()

    def second(run):
        x = torch.ones(4, requires_grad=True)
        value = run(x)
        with torch.no_grad():
            weight.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(value, x, create_graph=True)

    before = stator.stats()["graph_calls"]
    second(f)
    second(stator.compile(f, backend="aot_eager", fullgraph=True))
    assert stator.stats()["graph_calls"] - before == 1


def test_memory_of_inputs_is_held_by_nobody_that_eager_does_not_have():
    """A sum needs none of what it adds up: not before the backward either."""
    weight = torch.ones(4, requires_grad=True)

    def f(x):
        return (x + weight).sum()

    def forget(run):
        x = torch.ones(4) * 2
        seen, storage = weakref.ref(x), weakref.ref(x.untyped_storage())
        value = run(x)
        del x
        assert seen() is None and storage() is None
        value.backward()

    before = stator.stats()["graph_calls"]
    forget(f)
    forget(stator.compile(f, backend="aot_eager", fullgraph=True))
    assert stator.stats()["graph_calls"] - before == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_inputs_with_a_history_and_odd_strides_are_as_they_were(backend):
    weight = torch.randn(3, 4, requires_grad=True)

    def f(x, y):
        return (x.sin() * y * weight).sum()

    def second(run):
        torch.manual_seed(1)
        leaf = torch.randn(4, 6, requires_grad=True)
        x = (leaf * 2).t()[1:4]
        (first,) = torch.autograd.grad(run(x, torch.ones(4)[None].expand(3, 4)), leaf, create_graph=True)
        return first, torch.autograd.grad(first.square().sum(), leaf)[0]

    before = stator.stats()["graph_calls"]
    expected, seen = second(f), second(stator.compile(f, backend=backend, fullgraph=True))
    for one, other in zip(expected, seen, strict=True):
        torch.testing.assert_close(one, other)
    assert stator.stats()["graph_calls"] - before == 1


def test_inputs_are_let_go_behind_the_backward():
    weight = torch.ones(4, requires_grad=True)
    compiled = stator.compile(lambda x: (x * weight).tanh().sum(), backend="aot_eager", fullgraph=True)
    x = torch.ones(4) * 2
    storage = weakref.ref(x.untyped_storage())
    value = compiled(x)
    value.backward()
    before = stator.stats()["graph_calls"]
    del x
    assert storage() is None
    assert value.requires_grad and before > 0
