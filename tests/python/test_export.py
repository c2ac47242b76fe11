"""stator.export: the whole call as one module with the call's own signature."""

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
    if aten_graph and name == "branches":
        pytest.skip("make_fx asks TorchDynamo about branches")
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

    with pytest.raises(stator.exc.UserError, match="no arguments"):
        stator.export(lambda x: x + 1, dynamic_shapes={"z": {0: Dim("n")}})(torch.ones(3))
    with pytest.raises(stator.exc.UserError, match="do not fit"):
        stator.export(lambda x: x[0] + 1, dynamic_shapes={"x": {0: {0: Dim("n")}}})([torch.ones(3)])
