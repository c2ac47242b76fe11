"""Where tensors lie is a guarded fact; devices are values of programs."""

import pytest
import torch
from checking import DEVICE, needs_cuda, same, tensor
from torch import nn

import stator
from stator import _core


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_operations_and_views(backend):
    def function(x, w):
        y = (x @ w).view(2, -1).t()
        return y.softmax(0), y.sum(), x.max(dim=1)

    same(function, tensor(4, 8), tensor(8, 6, seed=1), backend=backend)


def test_another_device_is_another_entry():
    def function(x):
        return x * 2 + 1

    compiled = stator.compile(function, backend="eager")
    on_cpu = torch.randn(3)
    assert torch.equal(compiled(on_cpu), function(on_cpu))
    before = _core.stats()["graphs"]
    x = on_cpu.to(DEVICE)
    got = compiled(x)
    assert torch.equal(got, function(x)) and got.device == x.device
    assert _core.stats()["graphs"] == before + (DEVICE.type != "cpu")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_factories(backend):
    def function(x):
        a = torch.zeros(3, device=x.device)
        b = torch.arange(3, device=DEVICE.type)
        c = torch.tensor([1.0, 2.0, 3.0], device=x.device)
        d = x.new_ones(3)
        return a + b + c + d + torch.full_like(x, 2) + torch.empty(0, device=DEVICE.type).numel()

    same(function, tensor(3), backend=backend)


def test_questions_about_devices():
    def function(x):
        facts = (x.is_cuda, x.device.type, x.device == DEVICE, x.get_device() >= 0, str(x.device), x.is_cpu)
        return x + 1, facts, x.to("cpu").device.type

    same(function, tensor(3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_moves(backend):
    def function(x):
        down = x.to("cpu") * 2
        up = down.to(DEVICE, torch.float64)
        return up.to(x), up.to(DEVICE.type), down

    same(function, tensor(3, 4), backend=backend)


@needs_cuda
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_cuda_method(backend):
    def function(x):
        return x.cuda() + 1, x.cuda(non_blocking=True).cpu() * 2, x.cuda(0).float()

    same(function, torch.randn(3), backend=backend)
    same(function, tensor(3), backend=backend)


@needs_cuda
def test_pinned_memory():
    def function(x):
        up = x.to("cuda", non_blocking=True)
        return up * x.is_pinned() + 1

    import stator

    compiled = stator.compile(function, backend="eager")
    for x in (torch.randn(4).pin_memory(), torch.randn(4), torch.randn(4).pin_memory()):
        assert torch.equal(compiled(x), function(x))
    assert _core.stats()["graph_calls"] > 0

    def pins(x):
        return (x + 1).pin_memory().is_pinned(), x * 2

    compiled = stator.compile(pins, backend="eager")
    x = torch.randn(3)
    for _ in range(3):
        got, expected = compiled(x), pins(x)
        assert got[0] == expected[0] and torch.equal(got[1], expected[1])


@needs_cuda
def test_current_device():
    def function(x):
        here = torch.cuda.current_device()
        with torch.cuda.device(here):
            y = x + torch.ones(3, device="cuda")
        with torch.cuda.device(x.device), torch.cuda.device_of(y):
            y = y * torch.cuda.current_device()
        return y * 2, here, torch.cuda.device_count() >= 1, torch.cuda.is_available()

    same(function, tensor(3))


@needs_cuda
def test_properties_of_the_device():
    def function(x):
        major, minor = torch.cuda.get_device_capability()
        return x * major + minor, torch.cuda.get_device_name()

    same(function, tensor(3), breaks=None)


def test_default_device():
    def function(x):
        return x + torch.ones(3), torch.zeros(2).device.type

    torch.set_default_device(DEVICE)
    try:
        same(function, tensor(3))
    finally:
        torch.set_default_device(None)
    with torch.device(DEVICE):
        same(function, tensor(3))


def test_device_as_context_inside():
    def function(x):
        with torch.device(DEVICE):
            a = torch.ones(3)
        return x + a

    same(function, tensor(3))


def test_numbers_on_the_cpu_beside_tensors():
    def function(x, n):
        return x * n + torch.tensor(2.0)

    same(function, tensor(3), torch.tensor(3.0))
    same(function, tensor(3), torch.tensor(3.0), backend="inductor")


def test_mixed_devices_raise_as_in_eager():
    if DEVICE.type == "cpu":
        pytest.skip("needs two devices")

    def function(x, y):
        return (x + 1) * y

    x, y = tensor(3), torch.randn(3)
    with pytest.raises(RuntimeError) as theirs:
        function(x, y)
    for backend in ("eager", "inductor"):
        with pytest.raises(RuntimeError) as mine:
            stator.compile(function, backend=backend)(x, y)
        assert str(mine.value).split("\n")[0] == str(theirs.value).split("\n")[0]


def test_values_read():
    def function(x):
        n = int(x.sum().item() > 0)
        return x[:2] * n, x.tolist(), bool((x > 100).any())

    same(function, tensor(4), breaks=None)


def test_branch_on_data():
    def function(x):
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    same(function, tensor(4), breaks=None)
    same(function, -tensor(4).abs(), breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_writes(backend):
    def function(x, y):
        x.add_(y)
        x[0] = 0
        y.copy_(x.to("cpu"))
        return x * 2

    same(function, tensor(3, 4), tensor(3, 4, seed=1), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_module_that_is_moved(backend):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8))
            self.register_buffer("scale", torch.tensor(2.0))

        def forward(self, x):
            return self.inner(x) * self.scale

    model = Model()
    compiled = stator.compile(model, backend=backend)
    for place in ("cpu", DEVICE, "cpu", DEVICE):
        model.to(place)
        x = torch.randn(2, 4).to(place)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-3, atol=1e-3)
    assert _core.stats()["graph_calls"] >= 4


def test_sizes_that_change():
    def function(x):
        return x.sum(0) + x.shape[0]

    compiled = stator.compile(function, backend="inductor")
    for n in (4, 7, 9, 13):
        x = tensor(n, 5, seed=n)
        torch.testing.assert_close(compiled(x), function(x))
    assert _core.stats()["graphs"] <= 2


def test_optimizer_step():
    def run(wrap):
        torch.manual_seed(0)
        model = nn.Linear(4, 4).to(DEVICE)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        step = wrap(lambda: optimizer.step())
        for i in range(4):
            model(tensor(2, 4, seed=i)).sum().backward()
            step()
            optimizer.zero_grad()
        return model.weight.detach()

    expected = run(lambda f: f)
    _core.reset_stats()
    seen = run(lambda f: stator.compile(f, backend="eager"))
    torch.testing.assert_close(seen, expected)
    assert _core.stats()["graph_calls"] > 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_training(backend):
    def function(model, x):
        return nn.functional.cross_entropy(model(x), torch.arange(4, device=x.device))

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.0), nn.Linear(16, 8)).to(DEVICE)
    same(function, model, tensor(4, 8, grad=True), backend=backend, backward=True, exact=False)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_convolutions_and_norms(backend):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    model.to(DEVICE)
    x = tensor(2, 3, 8, 8)
    torch.backends.cudnn.allow_tf32, before = False, torch.backends.cudnn.allow_tf32
    try:
        same(lambda m, x: m(x), model, x, backend=backend, exact=False)
        same(lambda m, x: m(x), model, x.to(memory_format=torch.channels_last), backend=backend, exact=False)
    finally:
        torch.backends.cudnn.allow_tf32 = before


def test_recurrent():
    model = nn.LSTM(4, 8, batch_first=True).to(DEVICE)
    same(lambda m, x: m(x)[0] * 2, model, tensor(2, 5, 4), exact=False)
