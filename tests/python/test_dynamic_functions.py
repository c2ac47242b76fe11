"""Functions that graphs call (higher-order operators, torch.func, autograd functions) over symbolic sizes: one graph
for all sizes."""

import pytest
import torch
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops import scan
from torch._higher_order_ops.scan import ScanAutogradImpl
from torch.utils.checkpoint import checkpoint

import stator


class Flattened(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.n = x.shape[0]
        return x.view(-1) * x.shape[0]

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad.view(x.shape) * ctx.n


def vmapped(x):
    return torch.vmap(lambda a: a.sin() * x.shape[0])(x)


def branches(x):
    return torch.cond(x.sum() > 0, lambda x: x.view(-1) * x.shape[0], lambda x: x.reshape(-1) + 1, (x,))


def checkpointed(x):
    def turned(x):
        return x.view(x.shape[0] * x.shape[1]).sin().view(x.shape[1], x.shape[0])

    return checkpoint(turned, x, use_reentrant=False) * x.shape[0]


def autograd_function(x):
    return Flattened.apply(x).sin()


# A backward of scan() may give back one of its inputs since torch 2.13.
SCANS_HAVE_GRADIENTS = hasattr(ScanAutogradImpl, "_break_bw_input_output_aliasing")


def scanned(x):
    return scan(lambda carry, row: (carry + row * x.shape[0], carry.clone()), torch.zeros(4), x)[1]


def mapped(x):
    n = x.shape[0]
    return map_over(lambda row, k: row * k + n, x, 3)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "function", [vmapped, branches, checkpointed, autograd_function, scanned, mapped], ids=lambda f: f.__name__
)
def test_one_graph_for_all_sizes(function, backend):
    if function is scanned and backend == "aot_eager" and not SCANS_HAVE_GRADIENTS:
        pytest.skip(
            "AOTAutograd before torch 2.13 says of this scan's backward that it might alias its input, whoever captured it"
        )
    graphs = []
    compiled = stator.compile(function, backend=backend, fullgraph=True, dynamic=True)
    handle = stator.on_graph(lambda *args: graphs.append(args))
    try:
        for n in (5, 6, 9):
            x = torch.linspace(-1, 1, 4 * n).view(n, 4)
            ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
            result, expected = compiled(ours), function(theirs)
            torch.testing.assert_close(result, expected)
            if expected.requires_grad:
                result.sum().backward()
                expected.sum().backward()
                torch.testing.assert_close(ours.grad, theirs.grad)
    finally:
        if handle is not None:
            handle.remove()
    assert len(graphs) == 1


@pytest.mark.parametrize("program", [branches, checkpointed], ids=lambda program: program.__name__)
def test_symbols_are_operands(program):
    """Backends find every symbol of a function's tensors among its inputs."""
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    x = torch.randn(3, 4, requires_grad=True)
    got = stator.compile(program, backend=backend, dynamic=True, fullgraph=True)(x)
    assert torch.equal(got, program(x))
    bodies = [getattr(graphs[0], name) for name, _ in graphs[0].named_children()]
    assert len(graphs) == 1 and bodies
    for body in bodies:
        inputs = [node.meta["example_value"] for node in body.graph.nodes if node.op == "placeholder"]
        numbers = {str(value) for value in inputs if isinstance(value, torch.SymInt)}
        sizes = {str(size) for value in inputs if isinstance(value, torch.Tensor) for size in value.shape}
        assert len(sizes) == 2 and sizes <= numbers


def test_a_symbol_that_became_a_number_is_no_operand():
    def program(x):
        if x.shape[0] == 3:
            x = x + 1
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    compiled = stator.compile(program, backend="eager", dynamic=True, fullgraph=True)
    for sizes in [(3, 4), (5, 6), (3, 7)]:
        x = torch.randn(sizes)
        assert torch.equal(compiled(x), program(x))


_FALLBACKS = {
    "rfft": lambda x: torch.fft.rfft(x, dim=1).abs(),
    "conj": lambda x: (torch.fft.rfft(x * 2, dim=1) * torch.conj(torch.fft.rfft(x * 3, dim=1))).abs().sum(),
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x * 2, dim=1), dim=1),
    "imag": lambda x: torch.conj(torch.complex(x, x * 2)).imag * 2,
    "unfold": lambda x: torch.nn.functional.unfold(x[:, None, :, None].expand(-1, -1, -1, 4), 2),
    "searchsorted": lambda x: torch.searchsorted(x.sort(1)[0], x.detach()) * x,
}


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks change what is captured")
@pytest.mark.parametrize("mode", ["train", "no_grad", "inference"])
@pytest.mark.parametrize("name", list(_FALLBACKS))
def test_one_graph_for_all_sizes_of_what_fake_tensors_infer(name, mode):
    """Tensors of inference mode, conjugates and complex values with a history are symbolic too."""
    f, graphs = _FALLBACKS[name], []
    compiled = stator.compile(f, backend=lambda module, _: graphs.append(module) or module.forward)
    around = {"train": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}[mode]
    for length in (2, 3, 4, 5):
        with around():
            x = torch.randn(length, 16)
            twin = x.clone()
            if mode == "train":
                x.requires_grad_()
                twin.requires_grad_()
            found, wanted = compiled(x), f(twin)
            torch.testing.assert_close(found, wanted)
            assert found.is_inference() == wanted.is_inference()
        if mode == "train":
            found.sum().backward()
            wanted.sum().backward()
            torch.testing.assert_close(x.grad, twin.grad)
    assert len(graphs) == 2
