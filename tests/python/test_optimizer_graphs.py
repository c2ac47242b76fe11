"""Optimizers whose rates, momenta and counters change: graphs stay as few as TorchDynamo's, results are eager's."""

import bisect
import copy

import pytest
import torch
import torch._dynamo
from torch import nn, optim

import stator

pytestmark = pytest.mark.filterwarnings("ignore")

# What torch's lists of tensors are made of depends on torch.compiler.is_compiling(), which is over where a forced break
# leaves them.
_left_inside = pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks leave torch's own functions")


def _model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3))


class _Counter:
    """A backend that counts graphs."""

    def __init__(self):
        self.graphs, self.after = 0, []

    def __call__(self, module, inputs):
        self.graphs += 1
        return module.forward


def _train(make, change, compiled, steps):
    """Parameters behind so many steps; compiled: what makes the step fast."""
    model = _model()
    optimizer = make(list(model.parameters()))
    step = compiled(lambda: optimizer.step())
    torch.manual_seed(1)
    for i in range(steps):
        model(torch.randn(4, 6)).square().mean().backward()
        step()
        optimizer.zero_grad()
        change(optimizer, i)
    return model, optimizer


def _rate(optimizer, i):
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(0.01 * 0.97 ** (i + 1))
        else:
            group["lr"] = 0.01 * 0.97 ** (i + 1)


def _everything(optimizer, i):
    _rate(optimizer, i)
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.02 + 0.001 * i
        if "momentum" in group:
            group["momentum"] = 0.6 + 0.01 * i
        if "betas" in group:
            group["betas"] = (0.89 - 0.001 * i, 0.99 - 0.001 * i)


def _compare(make, change, steps, graphs, rounding=1e-5):
    wanted, _ = _train(make, change, lambda step: step, steps)
    counter = _Counter()

    def compiled(step):
        run = stator.compile(step, backend=counter)

        def counted():
            run()
            counter.after.append(counter.graphs)

        return counted

    got, optimizer = _train(make, change, compiled, steps)
    for a, b in zip(wanted.parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=rounding)
    if stator.config.break_every == "0":
        assert 0 < counter.graphs <= graphs, counter.after
        assert counter.after[2:] == [counter.graphs] * (steps - 2), counter.after
    return optimizer


_ALL = ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "ASGD", "Adagrad", "Adadelta", "RMSprop", "Rprop"]


@pytest.mark.parametrize("foreach", [False, pytest.param(True, marks=_left_inside)])
@pytest.mark.parametrize("name", _ALL)
def test_a_rate_that_changes(name, foreach):
    _compare(lambda params: getattr(optim, name)(params, lr=0.01, foreach=foreach), _rate, 8, graphs=2)


@pytest.mark.parametrize("name", [name for name in _ALL if name not in ("SGD", "Adagrad")])
def test_a_rate_that_is_a_tensor(name):
    """One graph for all steps: the state that the first one makes is there before."""
    make = lambda params: getattr(optim, name)(params, lr=torch.tensor(0.01), foreach=False)  # noqa: E731
    optimizer = _compare(make, _rate, 6, graphs=1)
    assert all(len(optimizer.state[p]) > 0 for p in optimizer.param_groups[0]["params"])


@_left_inside
@pytest.mark.parametrize(
    "make",
    [
        lambda params: optim.SGD(params, lr=0.01, momentum=0.9),
        lambda params: optim.SGD(params, lr=0.01, momentum=0.9, nesterov=True, foreach=True),
        lambda params: optim.AdamW(params, lr=0.01),
        lambda params: optim.AdamW(params, lr=0.01, foreach=True, amsgrad=True),
        lambda params: optim.RMSprop(params, lr=0.01, momentum=0.9, centered=True, maximize=True),
        lambda params: optim.SGD(params, lr=0.01, momentum=0.9, fused=True),
        lambda params: optim.AdamW(params, lr=0.01, fused=True),
        lambda params: optim.Muon([p for p in params if p.ndim == 2], lr=0.01, momentum=0.9),
    ],
)
def test_every_number_changes(make):
    _compare(make, _everything, 8, graphs=2)


@pytest.mark.parametrize("foreach", [False, pytest.param(True, marks=_left_inside)])
@pytest.mark.parametrize("options", [{"momentum": 0.9, "weight_decay": 0.1}, {"nesterov": True, "momentum": 0.5}])
def test_a_rate_that_changes_with_aot_autograd(options, foreach):
    _compare_with_aot_autograd(lambda p: optim.SGD(p, lr=0.01, foreach=foreach, **options))


@pytest.mark.parametrize("name", _ALL)
def test_rates_of_all_with_aot_autograd(name):
    _compare_with_aot_autograd(lambda p: getattr(optim, name)(p, lr=0.01))


def _compare_with_aot_autograd(make):
    wanted, _ = _train(make, _rate, lambda step: step, 8)
    before = stator.stats()["backend_compilations"]
    got, _ = _train(make, _rate, lambda step: stator.compile(step, backend="aot_eager"), 8)
    for a, b in zip(wanted.parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
    if stator.config.break_every == "0":
        assert 0 < stator.stats()["backend_compilations"] - before <= 2


@pytest.mark.parametrize("name", ["SGD", "AdamW", "RAdam"])
def test_four_hundred_steps(name):
    _compare(lambda params: getattr(optim, name)(params, lr=0.01), _rate, 400, graphs=2, rounding=1e-3)


@_left_inside
@pytest.mark.parametrize("name, foreach", [("SGD", False), ("Adam", True), ("RAdam", False)])
def test_as_few_graphs_as_torchdynamo(name, foreach):
    counter = _Counter()
    make = lambda params: getattr(optim, name)(params, lr=0.01, foreach=foreach)  # noqa: E731
    torch._dynamo.reset()
    _train(make, _rate, lambda step: torch.compile(step, backend=counter), 4)
    torch._dynamo.reset()
    _compare(make, _rate, 4, graphs=counter.graphs)


def test_clipping_and_averages_around():
    """With a limit that changes, and the moving average of the parameters."""

    def train(compiled):
        model, limit = _model(), [1.0]
        average = copy.deepcopy(model)
        optimizer = optim.AdamW(model.parameters(), lr=0.01)
        schedule = optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)

        def step():
            nn.utils.clip_grad_norm_(model.parameters(), limit[0])
            optimizer.step()
            with torch.no_grad():
                torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - 0.9 / limit[0])

        run = compiled(step)
        for i in range(8):
            model(torch.ones(2, 6) * i).square().mean().backward()
            run()
            optimizer.zero_grad()
            schedule.step()
            limit[0] = 1.1 + i / 10
        return list(model.parameters()) + list(average.parameters())

    counter = _Counter()
    wanted, got = train(lambda step: step), train(lambda step: stator.compile(step, backend=counter))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    if stator.config.break_every == "0":
        assert counter.graphs == 2


def test_counters_and_schedules_of_ones_own():
    """0 and 1 are numbers like others for what counts."""

    class Schedule:
        def __init__(self):
            self.step, self.scale, self.betas = 0, 1.0, (0.9, 0.99)

    def step(x, schedule):
        schedule.step += 1
        first = 1 - schedule.betas[0] ** schedule.step
        return x * schedule.scale / first + schedule.betas[1]

    counter, own, eager = _Counter(), Schedule(), Schedule()
    compiled = stator.compile(step, backend=counter)
    for i in range(10):
        x = torch.arange(3.0) + i
        torch.testing.assert_close(compiled(x, own), step(x, eager), rtol=0, atol=0)
        assert own.step == eager.step == i + 1
        for schedule in (own, eager):
            schedule.scale = 1 / (i + 2)
            schedule.betas = (0.89 - i / 100, 0.98 - i / 1000)
    if stator.config.break_every == "0":
        assert counter.graphs == 2


def _first_steps(optimizer, model):
    """A program that looks at the state before the step does not see what the step makes."""
    fresh = len(optimizer.state) == 0
    optimizer.step()
    return fresh, len(optimizer.state)


def _without_gradients(optimizer, model):
    """Parameters that lose their gradients in the same call get no state."""
    model[0].weight.grad = None
    optimizer.step()
    return model[0].weight in optimizer.state, len(optimizer.state)


def _rate_set_inside(optimizer, model):
    optimizer.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"] * 0.5
    optimizer.step()
    return optimizer.param_groups[0]["lr"], sorted(map(str, optimizer.state[model[0].weight]))


@pytest.mark.parametrize("program", [_first_steps, _without_gradients, _rate_set_inside])
@pytest.mark.parametrize("name", ["Adam", "Rprop", "ASGD"])
def test_states_are_made_when_eager_makes_them(program, name):
    results = []
    for compiled in (lambda f: f, lambda f: stator.compile(f, backend=_Counter())):
        model = _model()
        optimizer = getattr(optim, name)(model.parameters(), lr=0.01)
        run, seen = compiled(program), []
        for i in range(4):
            model(torch.ones(2, 6) + i).square().mean().backward()
            seen.append(run(optimizer, model))
            optimizer.zero_grad()
        results.append((seen, list(model.parameters())))
    assert results[0][0] == results[1][0]
    torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-4, atol=1e-6)


_FLOATS = """
F.leaky_relu(x, s) | F.elu(x, alpha=s) | F.softplus(x, s) | F.threshold(x, s, 1.0) | F.hardtanh(x, -s, s) | F.layer_norm(x, (3,), eps=s)
F.batch_norm(x, r, v, training=True, momentum=s) | F.scaled_dot_product_attention(q, q, q, scale=s) | F.huber_loss(x, y, delta=s)
F.cross_entropy(x, t, label_smoothing=s / 10) | F.cosine_similarity(x, y, eps=s) | x.norm(p=s) | torch.isclose(x, y, rtol=s)
torch.nan_to_num(x, nan=s) | torch.renorm(x, 2.0, 0, s) | torch.float_power(x, s) | x.index_fill(0, t, s) | x.fill_diagonal_(s)
torch._foreach_mul([x, y], s) | torch._foreach_addcdiv([x], [y], [x], s) | torch._foreach_mul_([x, y], [s, 2.0])
torch.ops.aten.mul.Scalar(x, s) | torch.rsub(x, s) | torch.linspace(0, s, 3) | torch.as_tensor(s) + x | x * math.exp(s) | x * math.log(s)
x * math.atan2(s, 1.0) | x * math.copysign(2.0, s) | x * abs(s - 1) | x * float(s) | x * (s if callable(s) else -s)
x * (s if hasattr(s, "shape") else -s) | x if s is None else x + s | x if torch.is_tensor(s) else x + s
"""


@pytest.mark.parametrize("text", [one.strip() for one in _FLOATS.replace("\n", "|").split("|") if one.strip()])
def test_floats_that_change(text):
    """Wherever they go, they are inputs of one graph."""
    import math

    holder = type("Holder", (), {})()
    # fmt: off
    names = {"torch": torch, "F": nn.functional, "math": math, "holder": holder, "r": torch.zeros(3), "v": torch.ones(3),
             "q": torch.randn(1, 1, 3, 4), "t": torch.tensor([0, 1])}
    # fmt: on
    exec(f"def f(x, y):\n    x = x * 1\n    y = y * 1\n    s = holder.value\n    z = {text}\n    return z, x, y", names)
    function, counter = names["f"], _Counter()
    compiled = stator.compile(function, backend=counter)
    for i in range(4):
        holder.value = 0.3 + 0.1 * i
        x, y = torch.rand(2, 3) + 0.1, torch.rand(2, 3) + 0.2
        names["r"].zero_(), names["v"].fill_(1)
        wanted = function(x, y)
        names["r"].zero_(), names["v"].fill_(1)
        torch.testing.assert_close(compiled(x, y), wanted)
    if stator.config.break_every == "0":
        assert counter.graphs == 2


@pytest.mark.parametrize(
    "text", ["F.dropout(x, s)", "torch.arange(0, s, 0.1)", "F.interpolate(x[None], scale_factor=s)"]
)
def test_floats_that_decide_more_than_data(text):
    """Such a number is part of the program: another one is another graph, and right."""
    holder = type("Holder", (), {"value": 0.0})()
    names = {"torch": torch, "F": nn.functional, "holder": holder}
    exec(f"def f(x):\n    return {text.replace('s)', 'holder.value)').replace('0, s,', '0, holder.value,')}", names)
    compiled = stator.compile(names["f"], backend=_Counter())
    for value in (1.0, 0.5, 0.0 if "dropout" in text else 2.0, 1.5 if "dropout" not in text else 1.0):
        holder.value = value
        x = torch.rand(2, 4)
        torch.manual_seed(0)
        wanted = names["f"](x)
        torch.manual_seed(0)
        got = compiled(x)
        torch.testing.assert_close(got, wanted)
        assert (got is x) == (wanted is x)


_SCHEDULES = {
    "OneCycle": (lambda o: optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=20), 5),
    "MultiStep": (lambda o: optim.lr_scheduler.MultiStepLR(o, [3, 6]), 5),
    "Sequential": (
        lambda o: optim.lr_scheduler.SequentialLR(
            o, [optim.lr_scheduler.ConstantLR(o, 0.5, 2), optim.lr_scheduler.ExponentialLR(o, 0.9)], [3]
        ),
        6,
    ),
}


@_left_inside
@pytest.mark.parametrize("name", list(_SCHEDULES))
def test_a_schedule_compiled_with_the_step(name):
    """Epochs are compared with milestones and ends of phases, and are not programs of their own."""
    make, most = _SCHEDULES[name]
    counter = _Counter()

    def run(compiled):
        model = _model()
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = make(optimizer)

        def both():
            optimizer.step()
            schedule.step()

        step = compiled(both)
        torch.manual_seed(1)
        for _ in range(12):
            optimizer.zero_grad()
            model(torch.randn(4, 6)).square().sum().backward()
            step()
        return [p.detach() for p in model.parameters()], schedule.get_last_lr(), schedule.last_epoch

    wanted = run(lambda f: f)
    found = run(lambda f: stator.compile(f, backend=counter))
    torch.testing.assert_close(found, wanted)
    assert 2 <= counter.graphs <= most


@pytest.mark.parametrize(
    "text",
    [
        "x * (2 if n <= 100.5 else 3)",
        "x * (2 if 100.0 > n else 3)",
        "x * (2 if n == 7.5 else 3)",
        "x * (2 if n * 8 > 2**31 else 3)",
        "x * (2 if n <= -(2**40) else 3)",
        "x * (2 if n < float('inf') else 3)",
        "x * (2 if n != float('nan') else 3)",
        "x * (2 if n in {100, 200.0} else 3)",
        "x * (2 if n in kept else 3)",
        "x * kept.get(n, 5)",
        "x * bisect.bisect_right([100, 200], n)",
        "x * bisect.bisect_left([0.5, 200], n)",
    ],
)
def test_ints_beside_floats_and_keys(text):
    """A whole number that changes is compared, and looked for among keys, without being one of the program's own."""
    names = {"bisect": bisect, "kept": {100: 1, "a": 2, None: 3}}
    exec(f"def f(x, n): return {text}", names)
    f = names["f"]
    counter = _Counter()
    compiled = stator.compile(f, backend=counter)
    for n in (2, 3, 4, 5, 99, 6):
        assert torch.equal(compiled(torch.ones(3), n), f(torch.ones(3), n))
    if stator.config.break_every == "0":
        assert counter.graphs == 2
    for n in (100, 101, 200, 201, -1):
        assert torch.equal(compiled(torch.ones(3), n), f(torch.ones(3), n)), n
