"""Floats that change from call to call are values of the graph, with backends that trace by AOTAutograd too: torch's
own pass makes tensors of them. What needs the number itself keeps it, and no other float does."""

import math
import random

import pytest
import torch

import stator

BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.filterwarnings("ignore"))]


@pytest.fixture
def graphs():
    seen = []
    handle = stator.on_graph(seen.append)
    yield seen
    handle.remove()


def compared(function, backend, calls, **options):
    """Each call beside eager: values, dtypes, gradients."""
    compiled = stator.compile(function, backend=backend, **options)
    for arguments in calls:
        results = []
        for one in (function, compiled):
            given = [
                value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value
                for value in arguments
            ]
            result = one(*given)
            tensors = [value for value in given if isinstance(value, torch.Tensor) and value.requires_grad]
            of = [
                item for item in (result if isinstance(result, tuple) else (result,)) if isinstance(item, torch.Tensor)
            ]
            gradients = torch.autograd.grad(sum(item.float().sum() for item in of), tensors) if tensors else ()
            results.append((result, gradients))
        # inductor rounds what lies between two operations less often than eager does.
        tolerance = 1e-2 if any(getattr(value, "dtype", None) is torch.bfloat16 for value in arguments) else 1e-5
        torch.testing.assert_close(results[1], results[0], rtol=tolerance, atol=tolerance, equal_nan=True)


def scaled(x, w, s):
    return torch.nn.functional.gelu(x @ w) * s + s


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_one_graph_serves_all(backend, grad, graphs):
    w = torch.randn(4, 4, requires_grad=grad)
    compared(scaled, backend, [(torch.randn(3, 4), w, 1.0 + n / 8) for n in range(6)])
    assert len(graphs) == 2


def arithmetic(x, a, b):
    c = (a + 1) * b - a / 3
    return x * c + a**2, x.double() / b, (x > a).float() - b, -a * x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("backend", BACKENDS)
def test_arithmetic(backend, dtype, graphs):
    compared(arithmetic, backend, [(torch.randn(5).to(dtype), 0.5 + n, 2.5 - n / 4) for n in range(5)])
    assert len(graphs) <= 3


def mixed(x, rate, weight):
    return torch.nn.functional.leaky_relu(x, rate) * weight


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_needs_the_number_keeps_it_alone(backend, graphs):
    """An operator that takes the number: one graph for each, whatever the other float is."""
    calls = [(torch.randn(6), rate, weight) for rate in (0.1, 0.2) for weight in (1.5, 2.5, 3.5, 4.5)]
    compared(mixed, backend, calls)
    assert len(graphs) <= 5


def branching(x, s):
    if s > 2:
        return x * s
    return x + math.sqrt(s)


@pytest.mark.parametrize("backend", BACKENDS)
def test_branches(backend):
    compared(branching, backend, [(torch.randn(3), s) for s in (1.0, 1.5, 1.75, 2.5, 3.5, 2.0, 0.25, math.inf)])


def given_out(x, s):
    return x * s, s * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_come_out(backend):
    compared(given_out, backend, [(torch.randn(3), s) for s in (1.0, 1.5, 2.5, math.nan)])


class Scheduled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.temperature = 1.0

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = self.layer(x) / self.temperature
        return torch.softmax(y.float(), -1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_attribute_in_training(backend, graphs):
    losses = []
    for compile in (lambda model: model, lambda model: stator.compile(model, backend=backend)):
        torch.manual_seed(1)
        model = Scheduled()
        compiled, rate = compile(model), torch.optim.SGD(model.parameters(), lr=0.1)
        losses.append([])
        for step in range(6):
            model.temperature = 1.0 + step / 4
            loss = compiled(torch.randn(3 if step != 4 else 5, 4)).square().sum()
            loss.backward()
            rate.step()
            rate.zero_grad()
            losses[-1].append(loss.detach())
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-2, atol=1e-3)
    assert len(graphs) <= 3


def drawn(x):
    return x * random.random() + random.uniform(1.0, 2.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_are_drawn(backend, graphs):
    compiled = stator.compile(drawn, backend=backend)
    x = torch.randn(4)
    for _ in range(4):
        state = random.getstate()
        wanted = drawn(x)
        random.setstate(state)
        torch.testing.assert_close(compiled(x), wanted)
    assert len(graphs) == 1


def test_a_backend_of_the_programs_own(graphs):
    """It may trace by AOTAutograd, where a float is no input: then it gets tensors."""
    from torch._functorch.aot_autograd import aot_module_simplified

    def backend(module, examples):
        return aot_module_simplified(module, examples, fw_compiler=lambda graph, _: graph.forward)

    w = torch.randn(4, 4, requires_grad=True)
    compared(scaled, backend, [(torch.randn(3, 4), w, 1.0 + n / 8) for n in range(6)])
    assert len(graphs) <= 3


def test_settings(graphs):
    stator.config.specialize_float = True
    compared(scaled, "aot_eager", [(torch.randn(3, 4), torch.randn(4, 4), 1.0 + n / 8) for n in range(3)])
    assert len(graphs) == 3


def trained(net, optimizer, batches):
    """A loop as programs write it: the loss is read in each step, summed and averaged."""
    history, best = [], math.inf
    for _ in range(3):
        total, seen, smooth = 0.0, 0, 0.0
        for x, y in batches:
            optimizer.zero_grad()
            out = net(x)
            loss = torch.nn.functional.mse_loss(out, y)
            loss.backward()
            optimizer.step()
            value = loss.item()
            total += value * x.size(0)
            seen += x.size(0)
            smooth = 0.9 * smooth + (1 - 0.9) * -value
        best = min(best, total / seen)
        history.append({"loss": total / seen, "smooth": smooth, "halves": (total / 2, -total)})
    return history, best


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_python_alone_computes_with(backend):
    """What is read from the losses is in no graph, so no value of it is a program of its own."""
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
        batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(12)]
        before = dict(stator._core.stats())
        function = stator.compile(trained, backend=backend) if compiled else trained
        history, best = function(net, optimizer, batches)
        results.append((history, best, [p.detach() for p in net.parameters()]))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    after = stator._core.stats()
    assert after["fallbacks"] == before["fallbacks"]
    assert after["graph_calls"] - before["graph_calls"] >= 3 * 12
    if stator.config.break_every == "0":
        assert after["graphs"] - before["graphs"] <= 12


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sum_of_floats_in_a_graph_and_behind_it(backend, graphs):
    """A formula that an operation takes, that is given out, compared, and negated."""

    def function(x, a, b):
        c = (a + b) * 2 - a / 4
        for _ in range(5):
            c = c + c * 0.5
        if c > 1e6:
            return x, c
        return x * c + b, c, -c, (c, [a + 1])

    compared(function, backend, [(torch.randn(3), 1.0 + n / 8, 2.0 - n / 4) for n in range(6)])
    assert len(graphs) <= 7


def test_a_long_sum_of_floats():
    """Formulas have an end: what is longer is computed in the graph."""

    def function(x, a, count):
        total = a
        for _ in range(count):
            total = total + a * 0.5
        return x + 1, total

    compiled = stator.compile(function, backend="eager")
    for a in (1.0, 1.5, 2.25):
        torch.testing.assert_close(compiled(torch.ones(2), a, 1500), function(torch.ones(2), a, 1500), rtol=0, atol=0)


def stopped_early(net, optimizer, x, y, rounds):
    best, waited, history = math.inf, 0, []
    for number in range(rounds):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        value = loss.item()
        history.append(value)
        if value < best - 0.001 * (number + 1):
            best, waited = value, 0
        elif value == best or -value > best / 2 + 1:
            waited += 2
        else:
            waited += 1
        if waited > 4:
            break
    return history, best, waited


@pytest.mark.parametrize("backend", BACKENDS[:2])
def test_comparisons_of_floats_with_each_other(backend):
    """What was found out about two numbers is guarded, and not the numbers."""
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        x = torch.randn(8, 4)
        before = dict(stator._core.stats())
        function = stator.compile(stopped_early, backend=backend) if compiled else stopped_early
        results.append(function(net, optimizer, x, x.sum(1, keepdim=True), 40))
    assert len(results[0][0]) > 15
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    assert stator._core.stats()["fallbacks"] == before["fallbacks"]


def test_each_side_of_a_comparison_of_floats():
    """The same entry serves no pair of numbers that the program takes another way with."""

    def function(x, a, b, n):
        if a * 2 - b / n >= -(b + a) * 0.5:
            return x + 1, a - b
        return x - 1, a + b

    compiled = stator.compile(function, backend="eager")
    x = torch.ones(2)
    numbers = [0.0, -0.0, 1.5, -1.5, 1e308, -1e308, math.inf, -math.inf, math.nan, 3.0, 1e-320]
    for a in numbers:
        for b in numbers:
            for n in (1, 2, -3):
                torch.testing.assert_close(compiled(x, a, b, n), function(x, a, b, n), rtol=0, atol=0, equal_nan=True)
    assert stator._core.stats()["captures"] >= 2
