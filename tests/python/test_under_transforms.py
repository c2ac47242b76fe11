"""Compiled functions that a caller's transforms of torch.func call: captured with backends that run graphs as they are,
refused or run natively with others."""

import os

import pytest
import torch

import stator

FORCED = "STATOR_BREAK_EVERY" in os.environ
grad, jvp, vmap = torch.func.grad, torch.func.jvp, torch.func.vmap


def captures():
    return stator._core.stats()["captures"]


def pointwise(x):
    return x.sin() * 2 + x.sum()


def writes(x):
    y = x.clone()
    y.add_(1)
    y.view(-1).mul_(2)
    return y + x


def branches_on_sizes(x):
    return x.cos() if x.dim() == 1 else x.exp()


def transforms_inside(x):
    return vmap(lambda a: a * 3)(x.reshape(1, -1)).reshape(x.shape) + grad(lambda a: a.sin().sum())(x)


def breaks(x):
    y = x * 2
    stator.graph_break()
    return y.tanh() + 1


SCALE = torch.tensor(1.5)


def reads_a_global(x):
    return x * SCALE + torch.ones(())


FUNCTIONS = [pointwise, writes, branches_on_sizes, transforms_inside, breaks, reads_a_global]
TRANSFORMS = {
    "vmap": lambda f: lambda x: vmap(f)(x),
    "vmap in_dims": lambda f: lambda x: vmap(f, in_dims=1, out_dims=1)(x),
    "vmap vmap": lambda f: lambda x: vmap(vmap(f))(x[..., None, None].expand(3, 4, 2, 2)),
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "grad grad": lambda f: grad(lambda x: grad(lambda y: f(y).sum())(x).sum()),
    "jvp": lambda f: lambda x: jvp(f, (x,), (x.cos(),)),
    "vjp": lambda f: lambda x: torch.func.vjp(f, x)[1](x),
    "jacrev": lambda f: torch.func.jacrev(f),
    "hessian": lambda f: torch.func.hessian(lambda x: f(x).sum()),
    "per sample": lambda f: vmap(grad(lambda x: f(x).sum())),
    "functionalize": lambda f: torch.func.functionalize(f),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_captured_as_eager(function, name):
    compiled = stator.compile(function, backend="eager")
    transform = TRANSFORMS[name]
    before = captures()
    for _ in range(2):
        x = torch.randn(3, 4)
        torch.testing.assert_close(transform(compiled)(x), transform(function)(x))
    assert FORCED or captures() > before
    plain = torch.randn(4, 4)
    torch.testing.assert_close(compiled(plain), function(plain))
    torch.testing.assert_close(transform(compiled)(x), transform(function)(x))


@pytest.mark.skipif(FORCED, reason="forced breaks are other captures")
def test_which_transforms_is_guarded():
    compiled = stator.compile(pointwise, backend="eager", fullgraph=True)
    x, larger, deeper = torch.randn(3, 4), torch.randn(7, 4), torch.randn(2, 3, 4)
    calls = [
        lambda f: f(x[0]),
        lambda f: vmap(f)(x),
        lambda f: vmap(f)(larger),  # another batch, the same transform
        lambda f: vmap(f, randomness="same")(x),
        lambda f: vmap(vmap(f))(deeper),
        lambda f: grad(lambda y: f(y).sum())(x[0]),
        lambda f: f(x[1]),
        lambda f: vmap(f)(x),
    ]
    made = []
    for call in calls:
        before = captures()
        torch.testing.assert_close(call(compiled), call(pointwise))
        made.append(captures() - before)
    assert made == [1, 1, 0, 1, 1, 1, 0, 0]
    assert "compare_functorch_state([('Vmap', 1, 'error')])" in str(stator.guards(compiled))


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_random_numbers(randomness):
    def f(x):
        return x + torch.rand(2) * torch.randn_like(x)

    compiled = stator.compile(f, backend="eager")
    results = []
    for function in (f, compiled):
        torch.manual_seed(3)
        results.append(vmap(function, randomness=randomness)(torch.ones(3, 2)))
    torch.testing.assert_close(*results)
    for function in (f, compiled):
        with pytest.raises(RuntimeError, match="randomness error mode"):
            vmap(function)(torch.ones(3, 2))


@pytest.mark.skipif(FORCED, reason="forced breaks are other breaks")
@pytest.mark.parametrize("name", ["grad", "jvp", "vmap"])
def test_backends_that_differentiate(name):
    transform = TRANSFORMS[name]
    x = torch.randn(3, 4)
    whole = stator.compile(pointwise, backend="aot_eager", fullgraph=True)
    with pytest.raises(stator.exc.Unsupported, match=rf"Calling torch.func.{name}\(compiled_fn\)"):
        transform(whole)(x)
    torch.testing.assert_close(whole(x), pointwise(x))
    loose = stator.compile(pointwise, backend="aot_eager")
    torch.testing.assert_close(transform(loose)(x), transform(pointwise)(x))


@pytest.mark.skipif(FORCED, reason="forced breaks are other breaks")
def test_functionalize_with_a_backend_of_the_program_s():
    """Functionalizing runs whatever a backend made of the graph."""
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    def f(x):
        x.add_(1)
        return x * 2 + torch.relu_(x)

    whole = stator.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        x = torch.randn(3, 4)
        y = x.clone()
        torch.testing.assert_close(torch.func.functionalize(whole)(x), f(y))
        torch.testing.assert_close(x, y)
    assert len(graphs) == 1
    with pytest.raises(stator.exc.Unsupported, match=r"Calling torch.func.vmap\(compiled_fn\)"):
        torch.func.functionalize(vmap(whole))(torch.randn(3, 4))
