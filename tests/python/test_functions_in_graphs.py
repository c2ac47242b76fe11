"""Functions that a graph calls: names, stacks, and what else they may do. Values beside eager:
programs/functions_in_graphs.py."""

import pytest
import torch
from torch._higher_order_ops.wrap import wrap

import stator


def _graphs(function, *args):
    graphs = []

    def backend(module, examples):
        graphs.append(module)
        return module.forward

    result = stator.compile(function, backend=backend, fullgraph=True)(*args)
    return graphs, result


def nested(x, y):
    def inner(x, y):
        z = x + y
        return wrap(lambda x: wrap(lambda x: x.cos() + z, x), x)

    return wrap(inner, x, y)


def test_each_function_has_a_name_of_its_own():
    x, y = torch.randn(3), torch.randn(3)
    (graph,), result = _graphs(nested, x, y)
    torch.testing.assert_close(result, nested(x, y))
    names = {name for name, _ in graph.named_modules() if name}
    assert names == {"wrap_body_2", "wrap_body_2.wrap_body_1", "wrap_body_2.wrap_body_1.wrap_body_0"}


def test_the_calls_around_are_part_of_the_stack():
    (graph,), _ = _graphs(nested, torch.randn(3), torch.randn(3))
    stacks = {
        node.name: [name for name, _ in node.meta["source_fn_stack"]]
        for module in graph.modules()
        for node in module.graph.nodes
        if node.name in ("cos", "wrap")
    }
    assert stacks["cos"] == ["wrap", "wrap", "wrap", "cos"]
    attribute = next(node for node in graph.graph.nodes if node.op == "get_attr")
    assert "in nested" in attribute.meta["stack_trace"] and "return wrap(inner, x, y)" in attribute.meta["stack_trace"]


@pytest.mark.parametrize("kind", ["list", "attribute", "closure"])
def test_branches_that_change_what_the_function_has_made(kind):
    class Box:
        pass

    def f(p, x):
        seen, box, number = [], Box(), 0

        def branch(x, n):
            nonlocal number
            if kind == "list":
                seen.append(n)
            elif kind == "attribute":
                box.value = n
            else:
                number = n
            return x + n

        y = torch.cond(p, lambda x: branch(x, 1), lambda x: branch(x, 2), (x,))
        return y, seen, number

    with pytest.raises(stator.exc.Unsupported, match="changes objects, and may run never or often"):
        stator.compile(f, backend="eager", fullgraph=True)(torch.tensor(True), torch.ones(2))


def test_operators_called_as_such():
    from torch._higher_order_ops.cond import cond_op

    def f(p, x):
        return cond_op(p, lambda x: x + 1, lambda x: x - 1, (x,))

    (graph,), result = _graphs(f, torch.tensor(False), torch.ones(2))
    torch.testing.assert_close(result, torch.zeros(2))
    assert any(node.target is torch.ops.higher_order.cond for node in graph.graph.nodes)
    again = stator.compile(graph, backend="eager", fullgraph=True)
    torch.testing.assert_close(again(torch.tensor(True), torch.ones(2))[0], torch.full((2,), 2.0))


def test_eager_calls_under_install():
    def f(p, x):
        return torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,))

    def loop(x):
        return torch._higher_order_ops.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))

    stator.install()
    try:
        for p in (True, False):
            x = torch.ones(2)
            torch.testing.assert_close(f(torch.tensor(p), x), x.sin() if p else x.cos())
        torch.testing.assert_close(loop(torch.ones(2))[1], torch.full((2,), 8.0))
    finally:
        stator.uninstall()


def test_whether_a_tensor_has_a_value():
    def f(x, y):
        return x + 1, y.shape[0] in x, 7 in y

    compiled = stator.compile(f, backend="eager", fullgraph=True, dynamic=True)
    for x, y in ((torch.tensor([2, 3]), torch.tensor([1, 7])), (torch.tensor([5, 6]), torch.tensor([1, 2, 3]))):
        torch.testing.assert_close(compiled(x, y), f(x, y))
