"""Tensors whose class has its own __torch_dispatch__ and __tensor_flatten__: in graphs as they are, guarded with all that they are made of."""

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map_only

import stator

pytestmark = pytest.mark.filterwarnings("error:the backend cannot compile")
BACKENDS = ["eager", "aot_eager", "inductor"]


class Quantised(torch.Tensor):
    """A weight kept as int8 and one scale for each row; what computes with it gets floats."""

    @staticmethod
    def __new__(cls, data, scale, bits=8):
        return torch.Tensor._make_wrapper_subclass(
            cls, data.shape, strides=data.stride(), dtype=scale.dtype, device=data.device, requires_grad=False
        )

    def __init__(self, data, scale, bits=8):
        self.data_ = data
        self.scale = scale
        self.bits = bits

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self):
        return f"Quantised({self.data_!r}, {self.scale!r})"

    def __tensor_flatten__(self):
        return ["data_", "scale"], {"bits": self.bits}

    @classmethod
    def __tensor_unflatten__(cls, inner, metadata, outer_size, outer_stride):
        return cls(inner["data_"], inner["scale"], metadata["bits"])

    @classmethod
    def of(cls, weight, bits=8):
        scale = weight.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
        return cls((weight / scale).round().to(torch.int8), scale, bits)

    def dequantised(self):
        return self.data_.to(self.scale.dtype) * self.scale

    @property
    def levels(self):
        return 2**self.bits

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (torch.ops.aten.detach.default, torch.ops.aten.clone.default):
            old = args[0]
            new = cls(func(old.data_), func(old.scale), old.bits)
            return return_and_correct_aliasing(func, args, kwargs, new)
        args, kwargs = tree_map_only(cls, cls.dequantised, (args, kwargs))
        return func(*args, **kwargs)


def two(*sizes, grad=False):
    made = TwoTensor(torch.randn(sizes), torch.randn(sizes))
    return made.requires_grad_() if grad else made


def parts(value):
    """All plain tensors in a result."""
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in parts(item)]
    if hasattr(value, "__tensor_flatten__"):
        return [part for name in value.__tensor_flatten__()[0] for part in parts(getattr(value, name))]
    return [value]


def same(left, right):
    assert type(left) is type(right)
    if isinstance(left, torch.Tensor):
        assert left.requires_grad == right.requires_grad and left.shape == right.shape
        assert left.stride() == right.stride()
    for one, other in zip(parts(left), parts(right), strict=True):
        torch.testing.assert_close(one, other)


class Recorder:
    """Runs graphs as they are, and keeps them."""

    def __init__(self):
        self.graphs = []

    def __call__(self, module, example_inputs):
        self.graphs.append(module)
        return module.forward

    def targets(self):
        return [
            getattr(node.target, "__name__", node.target)
            for graph in self.graphs
            for node in graph.graph.nodes
            if node.op.startswith("call")
        ]


def check(function, *args, backend="eager", grads=(), fullgraph=True):
    """Compares the compiled function with eager, twice, and the gradients of `grads`; the second call makes no new capture."""
    compiled = stator.compile(function, backend=backend, fullgraph=fullgraph)
    for turn in range(2):
        expected = function(*args)
        captures = stator._core.stats()["captures"]
        got = compiled(*args)
        if turn == 1:
            assert stator._core.stats()["captures"] == captures
        same(got, expected)
        if grads:
            for one in expected if isinstance(expected, tuple) else (expected,):
                one.sum().backward(torch.ones_like(one.sum()))
            wanted = [tensor.grad for tensor in grads]
            for tensor in grads:
                tensor.grad = None
            for one in got if isinstance(got, tuple) else (got,):
                one.sum().backward(torch.ones_like(one.sum()))
            for tensor, grad in zip(grads, wanted, strict=True):
                same(tensor.grad, grad)
                tensor.grad = None
    return compiled


@pytest.mark.parametrize("backend", BACKENDS)
def test_input_forward_and_backward(backend):
    def f(x, y):
        return torch.relu(x @ y.t()) + 1

    x, y = two(3, 4, grad=True), two(5, 4)
    check(f, x, y, backend=backend, grads=(x,))


def test_graph_holds_the_program_s_operations():
    def f(x, y):
        a, b = torch.split(x, 2, dim=1)
        return (a * b).sum(dim=1), y.cos() + x[0]

    x, y = two(3, 4), two(4)
    recorder = Recorder()
    compiled = stator.compile(f, backend=recorder, fullgraph=True)
    same(compiled(x, y), f(x, y))
    names = [name for name in recorder.targets() if name != "getitem"]
    assert names == ["split", "mul", "sum", "cos", "add"]
    inputs = [node.meta["example_value"] for node in recorder.graphs[0].graph.nodes if node.op == "placeholder"]
    assert [type(value) for value in inputs] == [TwoTensor, TwoTensor]
    results = [node for node in recorder.graphs[0].graph.nodes if node.op.startswith("call") and node.name != "split"]
    fakes = [node.meta["example_value"] for node in results]
    assert all(type(fake) is TwoTensor for fake in fakes if isinstance(fake, torch.Tensor))
    assert len({fake.a.fake_mode for fake in fakes if isinstance(fake, torch.Tensor)} | {inputs[0].a.fake_mode}) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixed_with_plain_tensors(backend):
    def f(x, plain, number):
        y = x * plain.unsqueeze(0)
        return y + number, plain * 2, y.shape[0] * plain

    check(f, two(3, 4), torch.randn(4), 2.5, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_quantised_parameter_of_a_module(backend):
    layer = torch.nn.Linear(8, 4)
    layer.weight = torch.nn.Parameter(Quantised.of(layer.weight.detach()), requires_grad=False)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), layer)
    batch = torch.randn(3, 8, requires_grad=True)
    compiled = stator.compile(model, backend=backend, fullgraph=True)
    expected, got = model(batch), compiled(batch)
    same(got, expected)
    wanted = torch.autograd.grad(expected.sum(), [batch, model[0].weight])
    found = torch.autograd.grad(got.sum(), [batch, model[0].weight])
    same(found, wanted)


def test_guards_on_class_metadata_and_inner_tensors():
    def f(x):
        return x + 1

    compiled = stator.compile(f, backend="eager", fullgraph=True)

    def captures(x):
        before = stator._core.stats()["captures"]
        same(compiled(x), f(x))
        return stator._core.stats()["captures"] - before

    weight = torch.randn(4, 4)
    assert captures(Quantised.of(weight)) == 1
    assert captures(Quantised.of(torch.randn(4, 4))) == 0
    assert captures(Quantised.of(weight, bits=4)) == 1  # metadata
    assert captures(Quantised.of(weight)) == 0
    assert captures(Quantised.of(weight.double())) == 1  # dtype, of an inner tensor too
    whole = Quantised.of(weight)
    assert captures(Quantised(whole.data_, torch.ones(()))) == 1  # size of an inner tensor alone
    assert captures(weight) == 1
    assert captures(TwoTensor(weight, weight.clone())) == 1
    assert captures(TwoTensor(Quantised.of(weight), Quantised.of(weight))) == 1
    assert captures(TwoTensor(Quantised.of(weight), Quantised.of(weight))) == 0
    assert captures(TwoTensor(Quantised.of(weight, bits=4), Quantised.of(weight))) == 1


def test_a_class_s_own_guard_on_metadata():
    class Tagged(Quantised):
        @classmethod
        def __metadata_guard__(cls, captured, now):
            return captured["bits"] // 4 == now["bits"] // 4

    compiled = stator.compile(lambda x: x * 2, backend="eager", fullgraph=True)
    weight = torch.randn(4, 4)
    for bits, expected in ((8, 1), (9, 0), (4, 1), (5, 0)):
        before = stator._core.stats()["captures"]
        same(compiled(Tagged.of(weight, bits)), Tagged.of(weight, bits) * 2)
        assert stator._core.stats()["captures"] - before == expected


def test_replaced_dispatch_takes_effect():
    class Changed(Quantised):
        pass

    compiled = stator.compile(lambda x: x.clone(), backend="eager", fullgraph=True)
    weight = torch.randn(4, 4)
    assert type(compiled(Changed.of(weight))) is Changed

    def plain(cls, func, types, args=(), kwargs=None):
        args = tree_map_only(cls, cls.dequantised, args)
        return func(*args, **(kwargs or {}))

    Changed.__torch_dispatch__ = classmethod(plain)
    assert type(compiled(Changed.of(weight))) is torch.Tensor


@pytest.mark.parametrize("backend", BACKENDS)
def test_inner_tensors_and_attributes(backend):
    def f(x, q):
        y = x * 2
        assert x.a is x.a and y.a is y.a
        return y.a + x.b, q.scale * q.bits + q.levels

    check(f, two(3, 4), Quantised.of(torch.randn(4, 4)), backend=backend)


def test_inner_tensors_are_nodes():
    def f(x):
        return x.a + (x * 2).b

    recorder = Recorder()
    compiled = stator.compile(f, backend=recorder, fullgraph=True)
    x = two(3)
    same(compiled(x), f(x))
    assert recorder.targets() == ["getattr", "mul", "getattr", "add"]
    assert sum(node.op == "placeholder" for node in recorder.graphs[0].graph.nodes) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_methods_of_the_class(backend):
    def f(q):
        return q.dequantised() + 1, q @ torch.ones(4)

    check(f, Quantised.of(torch.randn(4, 4)), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_made_in_the_trace(backend):
    def f(a, b):
        x = TwoTensor(a * 2, b)
        return x + 1, x.a, isinstance(x, TwoTensor), type(x) is TwoTensor

    check(f, torch.randn(3), torch.randn(3), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_written_in_place(backend):
    def f(x, y):
        x.add_(y)
        return x * 2

    x, y = two(3), two(3)
    twin = TwoTensor(x.a.clone(), x.b.clone())
    compiled = stator.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        same(compiled(x, y), f(twin, y))
        same(x, twin)


def test_views_and_facts():
    def f(x):
        y = x.t()
        return y, y.shape, y.dtype, y.is_contiguous(), y.requires_grad, len(y), y.dim(), y.stride()

    x = two(3, 4)
    got, expected = stator.compile(f, backend="eager", fullgraph=True)(x), f(x)
    same(got[0], expected[0])
    assert got[1:] == expected[1:]
    assert got[0].a.data_ptr() == x.a.data_ptr()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_over_a_break(backend):
    said = []

    def f(x):
        y = x * 2
        said.append(y.a.sum().item())
        return y + x

    x = two(3)
    compiled = stator.compile(f, backend=backend)
    same(compiled(x), f(x))
    assert said[0] == said[1]


def test_no_grad_and_detach():
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y, x.detach() + 1, x * 3

    x = two(3, grad=True)
    got, expected = stator.compile(f, backend="eager", fullgraph=True)(x), f(x)
    same(got, expected)
    assert [one.requires_grad for one in got] == [False, False, True]


def test_without_flatten_it_breaks():
    class Opaque(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return super().__torch_dispatch__(func, types, args, kwargs or {})

    x = torch.randn(3).as_subclass(Opaque)
    with pytest.raises(stator.exc.Unsupported, match="__tensor_flatten__"):
        stator.compile(lambda x: x + 1, fullgraph=True)(x)


def test_error_of_the_class_is_eager_s():
    class Picky(Quantised):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.mul.Tensor:
                raise ValueError("no multiplication")
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Picky.of(torch.randn(2, 2))
    with pytest.raises(ValueError, match="no multiplication"):
        stator.compile(lambda x: x * 2, backend="eager")(x)
