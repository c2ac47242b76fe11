"""stator.export: the whole call as one module with the call's own signature."""

import copy

import pytest
import torch
import torch.utils._pytree as pytree

import stator


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("shift", torch.ones(3))
        self.others = [torch.full((3,), 2.0)]

    def forward(self, x, *rest):
        with torch.no_grad():
            y = self.linear(x)
        return y + self.shift * self.others[0], rest


outer = torch.arange(3.0)
CASES = {
    "plain": (lambda x: x.sin() + 1, ("x",), {}),
    "structure": (lambda x, y: {"a": x, "b": [x + y, 3, None]}, ("x", "y"), {}),
    "keywords": (lambda d, *, k=2: (d["q"] * k, d["q"]), ({"q": "x"},), {"k": 3}),
    "module": (Model(), ("x", "y", 1), {}),
    "argument returned": (lambda x: x, ("x",), {}),
    "nothing read": (lambda x: torch.ones(2), ("x",), {}),
    "closure": (lambda x: x * outer, ("x",), {}),
    "branches": (lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), ("x",), {}),
}


def _tensors(structure, scale):
    names = {"x": torch.linspace(-1, 1, 9).view(3, 3) * scale, "y": torch.ones(3, 3) * scale}
    return pytree.tree_map(lambda leaf: names.get(leaf, leaf) if isinstance(leaf, str) else leaf, structure)


@pytest.mark.parametrize("aten_graph", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_export(name, aten_graph):
    function, args, kwargs = CASES[name]
    module, guards = stator.export(function, aten_graph=aten_graph)(*_tensors(args, 1), **kwargs)
    assert isinstance(module, torch.fx.GraphModule) and isinstance(guards, set)
    for scale in (1, -2):
        expected, expected_spec = pytree.tree_flatten(function(*_tensors(args, scale), **kwargs))
        result, spec = pytree.tree_flatten(module(*_tensors(args, scale), **kwargs))
        assert spec == expected_spec
        torch.testing.assert_close(result, expected)


def test_a_break_is_an_error():
    with pytest.raises(stator.exc.Unsupported):
        stator.export(lambda x: x if x.sum() > 0 else -x)(torch.ones(3))


@pytest.mark.parametrize("every", ["1", "7", "random:1"])
def test_forced_breaks_leave_exports_whole(every):
    def f(x):
        return x * x.shape[0]

    with stator.config.patch(break_every=every):
        module = stator.export(f, dynamic_shapes={"x": {0: torch.export.Dim("b")}})(torch.ones(3)).graph_module
    assert module(torch.ones(5)).tolist() == f(torch.ones(5)).tolist()


def test_views_as_arguments():
    def f(x):
        return x * x.shape[0]

    module, _ = stator.export(f)(torch.arange(12.0).view(3, 4))
    torch.testing.assert_close(module(torch.ones(5, 6)), f(torch.ones(5, 6)))


def test_numbers_from_tensors():
    def f(x):
        return x + x.sum().item(), float(x[0]) * 2

    module, _ = stator.export(f)(torch.ones(3))
    for x in (torch.ones(3), torch.arange(3.0) - 5):
        torch.testing.assert_close(module(x), f(x))


def _sizes(x, d):
    return x * x.shape[0] + d["y"].sum(), [d["y"].reshape(-1, 2) * d["y"].numel()]


@pytest.mark.parametrize("aten_graph", [False, True])
def test_dynamic_shapes(aten_graph):
    from torch.export import Dim

    size = Dim("size", min=2, max=64)
    shapes = {"x": {0: size}, "d": {"y": (Dim.DYNAMIC, None)}}
    x, d = torch.ones(3), {"y": torch.ones(5, 4)}
    module, _ = stator.export(_sizes, dynamic_shapes=shapes, aten_graph=aten_graph)(x, d)
    assert not hasattr(x, "_dynamo_dynamic_indices") and not hasattr(d["y"], "_has_dynamo_dim_marking")
    for n, m in ((3, 5), (7, 2), (64, 9)):
        arguments = torch.arange(float(n)), {"y": torch.arange(4.0 * m).reshape(m, 4)}
        torch.testing.assert_close(module(*arguments), _sizes(*arguments))


def test_dynamic_shapes_by_position():
    from torch.export import Dim

    module, _ = stator.export(lambda x, y: x.repeat(y.shape[0]), dynamic_shapes=({0: Dim.AUTO}, (Dim("n"),)))(
        torch.ones(3), torch.ones(4)
    )
    assert module(torch.ones(5), torch.ones(2)).shape == (10,)


def test_dynamic_shapes_that_do_not_fit():
    from torch.export import Dim

    with pytest.raises(stator.exc.UserError, match="has keys"):
        stator.export(lambda x: x + 1, dynamic_shapes={"z": {0: Dim("n")}})(torch.ones(3))
    with pytest.raises(stator.exc.UserError, match="mismatch"):
        stator.export(lambda x: x[0] + 1, dynamic_shapes={"x": {0: {0: Dim("n")}}})([torch.ones(3)])


def test_sizes_are_open_by_default():
    def f(x, y):
        return x.repeat(y.shape[0]), y.shape[1] * 2, x.numel()

    module, _ = stator.export(f)(torch.ones(3), torch.ones(4, 5))
    for x, y in ((torch.ones(3), torch.ones(4, 5)), (torch.ones(7), torch.ones(2, 9))):
        torch.testing.assert_close(module(x, y), f(x, y))
    fixed, _ = stator.export(f, assume_static_by_default=True)(torch.ones(3), torch.ones(4, 5))
    assert fixed(torch.ones(3), torch.ones(4, 5))[1] == 10
    assert not any(node.target is torch.ops.aten.sym_size.int for node in fixed.graph.nodes)


def _by_size(x):
    return x.sin() if x.shape[0] == 3 else x.cos()


def _above(x):
    return x.sin() if x.shape[0] > 4 else x.cos()


def _equal(x, y):
    return x + y


@pytest.mark.parametrize(
    "function, args, shapes, fix",
    [
        (_by_size, (3,), lambda dim: ({0: dim("n")},), "n = 3"),
        (_above, (6,), lambda dim: ({0: dim("n")},), r"n = Dim\('n', min=5"),
        (_above, (6,), lambda dim: ({0: dim("n", min=4, max=9)},), r"n = Dim\('n', min=5, max=9"),
        (_equal, (6, 6), lambda dim: ({0: dim("n")}, {0: dim("m")}), "m = n"),
        (_by_size, (1,), lambda dim: ({0: dim("n")},), "n = 1"),
    ],
)
def test_a_program_that_needs_more_than_dynamic_shapes_say(function, args, shapes, fix):
    from torch.export import Dim
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    with pytest.raises(stator.exc.ConstraintViolation, match=fix) as error:
        stator.export(function, dynamic_shapes=shapes(Dim))(*[torch.ones(n) for n in args])
    assert isinstance(error.value, ConstraintViolationError)


def test_dims_in_all_forms():
    from torch.export import Dim, ShapesCollection

    n = Dim("n", min=3, max=20)
    x, y, z = torch.ones(4), torch.ones(8), torch.ones(4, 5)
    shapes = ShapesCollection()
    shapes[x], shapes[z] = {0: n}, {0: n, 1: Dim.AUTO}

    def f(x, y, z):
        return (x + y[::2]) * z.sum(1), z.shape[1]

    forms = [
        ({0: n}, {0: 2 * n}, {0: n}),
        {"x": (n,), "y": (2 * n,), "z": (n, Dim.DYNAMIC)},
        {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}, "z": {0: Dim.AUTO, 1: Dim.STATIC}},
    ]
    for form in forms:
        module, _ = stator.export(f, dynamic_shapes=form)(x, y, z)
        for size in (4, 7):
            arguments = torch.arange(float(size)), torch.arange(2.0 * size), torch.ones(size, 5)
            torch.testing.assert_close(module(*arguments), f(*arguments))

    def g(x, z):
        return x * z.sum(1)

    module, _ = stator.export(g, dynamic_shapes=shapes.dynamic_shapes(g, (x, z)))(x, z)
    torch.testing.assert_close(module(torch.ones(6), torch.ones(6, 2)), g(torch.ones(6), torch.ones(6, 2)))


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.register_buffer("total", torch.zeros(3))
        self.extra = {"k": torch.full((3,), 2.0)}

    def forward(self, x):
        self.total.add_(1)
        return self.inner(x) + self.total * self.extra["k"]


def test_nothing_of_the_program_is_changed():
    model = Counter()
    module, _ = stator.export(model)(torch.ones(2, 3))
    assert not isinstance(model.total, torch._subclasses.FakeTensor) and bool((model.total == 0).all())
    assert {name for name, _ in module.named_parameters()} == {"L__self___inner_weight", "L__self___inner_bias"}
    assert {name for name, _ in module.named_buffers()} == {"L__self___total", "self___extra__k"}
    expected = Counter()
    expected.load_state_dict(model.state_dict())
    for _ in range(2):
        torch.testing.assert_close(module(torch.ones(4, 3)), expected(torch.ones(4, 3)))


@pytest.mark.parametrize("aten_graph", [False, True])
def test_branches_over_sizes(aten_graph):
    def f(x):
        return torch.cond(x.shape[0] > 4, lambda x: x + 5, lambda x: x - 3, [x]), torch.scalar_tensor(x.shape[0] > 5)

    module, _ = stator.export(f, aten_graph=aten_graph)(torch.ones(4, 2))
    for n in (4, 9):
        x = torch.ones(n, 2)
        torch.testing.assert_close(module(x), (x + 5 if n > 4 else x - 3, torch.tensor(float(n > 5))))


def test_checks_keep_their_words():
    def f(x):
        if x.sum() <= 4:
            raise ValueError("the sum is too small")
        return x.cos()

    module, _ = stator.export(f, aten_graph=True)(torch.ones(5))
    torch.testing.assert_close(module(torch.ones(6)), f(torch.ones(6)))
    with pytest.raises(RuntimeError, match="the sum is too small"):
        module(torch.zeros(3))


def test_constants_of_the_program():
    @stator.assume_constant_result
    def parts(x):
        return {"x": x, "square": x * x}

    def f(x, y):
        found = parts(y)
        return x * found["x"] + found["square"]

    module, _ = stator.export(f)(torch.ones(2), torch.tensor([2.0, 3.0]))
    torch.testing.assert_close(module(torch.ones(2), torch.zeros(2)), f(torch.ones(2), torch.tensor([2.0, 3.0])))


def test_branches_on_the_data_of_constants():
    class Model(torch.nn.Module):
        def __init__(self, least, value):
            super().__init__()
            self.least, self.value = least, torch.nn.Parameter(torch.tensor(value))

        def forward(self, x):
            return torch.cat([x, x]) if known(self.value) < self.least else x * 2

    @stator.assume_constant_result
    def known(value):
        return value

    for least in (0.2, 0.5):
        model = Model(least, 0.3)
        module, _ = stator.export(model)(torch.ones(3, 4))
        torch.testing.assert_close(module(torch.ones(3, 4)), model(torch.ones(3, 4)))


def test_an_exported_module_exported_again():
    """Nodes say where in the first program they came from."""

    class Inner(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x)

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return torch.relu(self.inner(torch.cos(x)))

    def other(x):
        return torch.abs(x)

    first, _ = stator.export(Outer())(torch.randn(3))
    edited = copy.deepcopy(first)
    changed = next(node for node in edited.graph.nodes if node.target is torch.relu)
    changed.target = other
    changed.meta.clear()
    edited.recompile()
    again, _ = stator.export(edited)(torch.randn(3))
    found = [{node.target: node.meta for node in module.graph.nodes} for module in (first, again)]
    for target in (torch.sin, torch.cos):
        assert found[0][target]["nn_module_stack"] == found[1][target]["nn_module_stack"]
        assert found[0][target]["stack_trace"] == found[1][target]["stack_trace"]
    assert "torch.abs(x)" in found[1][torch.abs]["stack_trace"]


def test_guards_and_names():
    def f(x, pair, *rest, k=None):
        return (x.sin() if x.shape[0] <= 10 else x.cos()) + pair[0] + rest[0] + k

    tensors = [torch.ones(6) for _ in range(4)]
    module, guards = stator.export(f)(tensors[0], (tensors[1],), tensors[2], k=tensors[3])
    sizes = next(guard for guard in guards if guard.source.name == "SHAPE_ENV")
    assert any("L['x'].size()[0] <= 10" in code for code in sizes.code_list)
    assert module.graph._codegen.pytree_info.orig_args == ["x", "pair", "rest_0", "k"]
    bare, _ = stator.export(f, same_signature=False)(tensors[0], (tensors[1],), tensors[2], k=tensors[3])
    torch.testing.assert_close(bare(*tensors)[0], f(tensors[0], (tensors[1],), tensors[2], k=tensors[3]))


def test_inputs_and_outputs_that_are_no_values():
    class Pair:
        def __init__(self, x):
            self.x = x

    with pytest.raises(stator.exc.UserError, match="one of the inputs with type .*Pair.* is not supported"):
        stator.export(lambda p: p.x + 1)(Pair(torch.ones(2)))
    with pytest.raises(stator.exc.UserError, match="one of the outputs with type .*Pair.* is not supported"):
        stator.export(lambda x: Pair(x + 1))(torch.ones(2))


def test_a_decorator_of_torchs_is_part_of_the_graph():
    @torch.inference_mode()
    def f(x):
        return x + 1

    module, _ = stator.export(f)(torch.ones(3))
    assert module(torch.ones(3, requires_grad=True)).is_inference()


def test_torch_export_strict():
    from torch.export import Dim

    model = Counter()
    stator.install()
    try:
        n = Dim("n", min=2, max=30)
        exported = torch.export.export(model, (torch.ones(4, 3),), dynamic_shapes=({0: n},), strict=True)
        with pytest.raises(Exception, match="n = 4"):
            torch.export.export(torch.nn.Linear(4, 4), (torch.ones(4),), dynamic_shapes=({0: n},), strict=True)
    finally:
        stator.uninstall()
    assert {spec.target for spec in exported.graph_signature.input_specs} >= {"inner.weight", "total"}
    expected = Counter()
    expected.load_state_dict(model.state_dict())
    for size in (4, 9):
        torch.testing.assert_close(exported.module()(torch.ones(size, 3)), expected(torch.ones(size, 3)))
