"""Functions that are called under a FakeTensorMode of the caller's, with its FakeTensors."""

import os
import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import stator

BREAKS = "STATOR_BREAK_EVERY" in os.environ


class Counted:
    """A backend that counts what it gets."""

    def __init__(self):
        self.graphs = 0
        self.ops = 0

    def __call__(self, module, examples):
        self.graphs += 1
        self.ops += sum(node.op.startswith("call") for node in module.graph.nodes)
        return module.forward


def fake(mode, tensor, dynamic=None):
    if dynamic is None:
        return mode.from_tensor(tensor)
    context = StatelessSymbolicContext(dynamic_sizes=[dynamic] * tensor.dim())
    return mode.from_tensor(tensor, symbolic_context=context)


def seen(value):
    """What two runs have to agree in."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(seen, value))
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return type(value)
    if not isinstance(value, torch.Tensor):
        return value
    sizes = tuple(size if type(size) is int else type(size) for size in value.shape)
    own = value.fake_mode if isinstance(value, FakeTensor) else None
    return (type(value), sizes, value.dtype, value.device, value.requires_grad, value.is_leaf, own)


def outcome(function, *args):
    try:
        return seen(function(*args))
    except Exception as error:
        return type(error), re.sub(r"\b[suz]+f?\d+", "symbol", str(error).split("\n")[0])


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.linear(x)).relu()


def of_ops(x):
    return (x @ x.t()).softmax(-1) + torch.ones(3), x.view(-1).chunk(2)


def of_classes(x):
    y = x + 1
    kinds = type(y), type(x), isinstance(y, FakeTensor), isinstance(y, torch.nn.Parameter)
    return kinds, y.device, x.device, y.__class__


def of_attributes(x):
    y = x * 2
    return y.fake_mode is x.fake_mode, y.constant is None, hasattr(y, "fake_device"), hasattr(y, "nothing")


def of_made(x):
    made = torch.zeros(3, 4), torch.tensor([1.0, 2.0]), torch.rand(2), torch.empty_like(x)
    return made, made[1].sum().item(), torch.full((2,), 3).tolist()


def of_written(x):
    x.add_(1)
    y = x
    y.mul_(2)
    return y is x, y, x.t_()


def of_sizes(x):
    if x.shape[0] > 2:
        return x.sum(0), x.size(1) * 2
    return x


def of_data(x):
    if x.sum() > 0:
        return x
    return -x


def of_item(x):
    return x.sum().item() + 1


def of_nonzero(x):
    return x.nonzero() + 1


def of_detached(x):
    w = x.detach().requires_grad_()
    return w, (w * 2).sum(), torch.nn.Parameter(w.detach())


def of_views(x):
    rows = x[1:], x.t()[::2], x[:, None].expand(3, 5, 4)
    rows[0].mul_(2)
    return rows, [row.is_contiguous() for row in rows], rows[0]._base is x, [row for row in x]


def of_random(x):
    return torch.rand_like(x), torch.nn.functional.dropout(x, 0.5), torch.randperm(4)


def of_parameters(x):
    w = torch.nn.Parameter(x)
    return isinstance(w, torch.nn.Parameter), isinstance(x, torch.nn.Parameter), type(w), w.requires_grad


def of_moved(x):
    return x.to(torch.float64), x.to("meta") if x.dim() > 5 else x.cpu(), x.half() + 1, x.to("cpu") is x


def of_gradients(x):
    w = x.detach().clone().requires_grad_()
    (w * x).sum().backward()
    return w.grad, torch.autograd.grad((w * w).sum(), w)


def of_numpy(x):
    return (x + 1).numpy()


def of_text(x):
    return repr(x + 1), f"{x.shape}"


def of_set_attributes(x):
    x.mark = 3
    y = x + 1
    y.mark = x.mark + 1
    return x.mark, y.mark, y, hasattr(x + 1, "mark")


def of_error(x):
    return x @ torch.ones(7, 7)


def of_error_kept(x):
    try:
        return x + torch.ones(7, 7)
    except RuntimeError:
        return x - 1


PROGRAMS = [
    of_ops,
    of_classes,
    of_attributes,
    of_made,
    of_written,
    of_sizes,
    of_data,
    of_item,
    of_nonzero,
    of_detached,
    of_views,
    of_random,
    of_parameters,
    of_moved,
    of_gradients,
    of_numpy,
    of_text,
    of_set_attributes,
    of_error,
    of_error_kept,
]


@pytest.mark.parametrize("break_every", [0, 1, 3])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_does_what_eager_does(program, backend, break_every):
    with stator.config.patch(break_every=break_every):
        for shape_env in (None, ShapeEnv()):
            compiled = stator.compile(program, backend=backend)
            before = torch.get_rng_state()
            with FakeTensorMode(shape_env=shape_env):
                for _ in range(2):
                    left, right = (torch.randn(3, 4) for _ in range(2))
                    assert outcome(compiled, left) == outcome(program, right)
                    assert seen(left) == seen(right) and left._version == right._version
            assert torch.equal(torch.get_rng_state(), before)
    stator.reset()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [DimDynamic.DYNAMIC, DimDynamic.DUCK, DimDynamic.STATIC])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_sym_ints(program, fullgraph, dynamic, backend):
    """What the program asks of SymInts is the caller's ShapeEnv's to note: no error with fullgraph=True either."""
    if fullgraph and program is of_text:
        pytest.skip("torch leaves the mode to make the text")
    compiled = stator.compile(program, backend=backend, fullgraph=fullgraph)
    for sizes in ((3, 4), (3, 4), (5, 4), (5, 6), (2, 8)):
        found = []
        for function in (compiled, program):
            with FakeTensorMode(shape_env=ShapeEnv()) as mode:
                pass
            x = fake(mode, torch.randn(sizes), dynamic)
            with mode:
                got = outcome(function, x)
            guards = [str(guard.expr) for guard in mode.shape_env.guards]
            found.append((str(got).replace(hex(id(mode)), "mode"), guards, str(seen(x)).replace(hex(id(mode)), "mode")))
        assert found[0] == found[1]


@pytest.mark.parametrize("program", [of_ops, of_classes, of_written, of_views, of_random, of_moved])
def test_is_captured_whole(program):
    backend = Counted()
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    with FakeTensorMode():
        assert outcome(compiled, torch.ones(3, 4)) == outcome(program, torch.ones(3, 4))
    assert backend.graphs == 1


@pytest.mark.parametrize("dynamic", [DimDynamic.DYNAMIC, DimDynamic.DUCK])
def test_one_graph_for_all_sym_ints(dynamic):
    backend = Counted()
    compiled = stator.compile(lambda x: (x.sin() @ x.t()).relu(), backend=backend, fullgraph=True)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        pass
    inputs = [fake(mode, torch.randn(sizes), dynamic) for sizes in ((3, 4), (4, 5), (5, 6))]
    with mode:
        for x in inputs:
            assert compiled(x).shape == (x.shape[0], x.shape[0])
    assert (backend.graphs, backend.ops) == (1, 4)


def test_numbers_change_as_those_of_tensors_with_data():
    backend = Counted()
    compiled = stator.compile(torch.sin, backend=backend)
    compiled = stator.compile(lambda x: torch.sin(x) + x.shape[0], backend=backend, fullgraph=True)
    with FakeTensorMode():
        for size in (3, 4, 5):
            assert compiled(torch.ones(size)).shape == (size,)
    assert backend.graphs == 2


def test_modules_with_fake_parameters():
    backend = Counted()
    with FakeTensorMode() as mode:
        layer = Layer()
        compiled = stator.compile(layer, backend=backend, fullgraph=True)
        x = torch.randn(2, 4)
        for _ in range(2):
            assert seen(compiled(x)) == seen(layer(x))
        assert all(isinstance(part, FakeTensor) and part.fake_mode is mode for part in layer.parameters())
        compiled(x).sum().backward()
        assert all(seen(part.grad)[:2] == (FakeTensor, tuple(part.shape)) for part in layer.parameters())
    assert backend.graphs == 1


def test_entries_know_their_mode():
    def f(x):
        return x.sin(), type(x.sin())

    backend = Counted()
    compiled = stator.compile(f, backend=backend)
    plain = torch.ones(3)
    assert compiled(plain)[1] is torch.Tensor
    for _ in range(2):
        with FakeTensorMode() as mode:
            x = torch.ones(3)
            sine, kind = compiled(x)
            assert kind is FakeTensor and sine.fake_mode is mode
    assert compiled(plain)[1] is torch.Tensor
    assert torch.equal(compiled(plain)[0], plain.sin())
    assert BREAKS or backend.graphs == 2
    # Outside of the mode, and of another mode, it is eager's to say.
    assert outcome(compiled, x) == outcome(f, x)
    with FakeTensorMode():
        assert outcome(compiled, x) == outcome(f, x)
        assert outcome(compiled, plain) == outcome(f, plain)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert outcome(compiled, plain)[0][0] is FakeTensor


def test_devices_are_the_fakes():
    def f(x):
        return x + 1, x.device

    compiled = stator.compile(f, backend="eager")
    with FakeTensorMode() as mode:
        for device in ("cpu", "cuda:0", "cuda:1", "cpu"):
            x = FakeTensor(mode, torch.empty(3, device="meta"), torch.device(device))
            assert outcome(compiled, x) == outcome(f, x)


def test_a_mode_that_the_function_enters_itself():
    def f(x):
        with FakeTensorMode() as mode:
            y = torch.ones(3)
            z = (y + 1, type(y), y.fake_mode is mode)
        return x + 1, z[1], z[2]

    compiled = stator.compile(f, backend="eager")
    for _ in range(2):
        got, expected = compiled(torch.ones(3)), f(torch.ones(3))
        assert torch.equal(got[0], expected[0]) and got[1:] == expected[1:]
