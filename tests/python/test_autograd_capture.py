"""Optimizer steps, torch.func.vjp and flex_attention: one graph each, with eager's results."""

import copy
import gc
import os
import weakref

import pytest
import torch
from torch.func import vjp
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import stator
from stator import _core


class Counter:
    """A backend that runs graphs as they are and counts them."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, gm, example_inputs):
        self.graphs += 1
        return gm.forward


OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "foreach": True}),
    (torch.optim.Adam, {"lr": 0.01}),
    (torch.optim.Adam, {"lr": 0.01, "amsgrad": True, "foreach": True}),
    (torch.optim.AdamW, {"lr": 0.01}),
    (torch.optim.AdamW, {"lr": 0.01, "foreach": True}),
    (torch.optim.RMSprop, {"lr": 0.01}),
    (torch.optim.Adagrad, {"lr": 0.01}),
    (torch.optim.Adamax, {"lr": 0.01}),
    (torch.optim.Adamax, {"lr": 0.01, "foreach": True}),
    (torch.optim.NAdam, {"lr": 0.01}),
]


@pytest.mark.parametrize("cls, options", OPTIMIZERS, ids=lambda value: str(getattr(value, "__name__", value)))
def test_optimizer_step(cls, options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    twin = copy.deepcopy(model)
    optimizer, own = cls(model.parameters(), **options), cls(twin.parameters(), **options)
    counter = Counter()
    step = stator.compile(optimizer.step, backend=counter, fullgraph=True)
    for _ in range(5):
        batch = torch.randn(3, 4)
        for net, opt, run in ((model, optimizer, step), (twin, own, own.step)):
            opt.zero_grad()
            net(batch).sum().backward()
            run()
    # The first call makes the state, the second meets it.
    assert counter.graphs <= 2
    for left, right in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-6)
        assert left.requires_grad and left.is_leaf


def compare(function, *args):
    counter = Counter()
    compiled = stator.compile(function, backend=counter, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(*args), function(*args))
    assert counter.graphs == 1


def test_vjp():
    def f(x):
        outputs, product = vjp(torch.sin, x)
        return outputs, product(torch.ones(4)), product(x)

    compare(f, torch.randn(4))


def test_vjp_with_aux_and_several():
    def f(x, y):
        def inner(a, b):
            return (a * b, a + b), b * 2

        outputs, product, aux = vjp(inner, x, y, has_aux=True)
        return outputs, product((x, y)), aux

    compare(f, torch.randn(4), torch.randn(4))


def heads():
    return torch.randn(1, 2, 16, 8)


def causal(b, h, q, k):
    return q >= k


def test_flex_attention():
    compare(lambda q: flex_attention(q, q, q), heads())


def test_flex_attention_with_score_and_mask():
    bias = torch.randn(16, 16)
    mask = create_block_mask(causal, None, None, 16, 16, device="cpu")

    def score(s, b, h, q, k):
        return s + bias[q, k] * (q - k)

    compare(lambda q: flex_attention(q, q, q, score_mod=score, block_mask=mask), heads())


def test_block_mask_made_inside():
    def f(q):
        mask = create_block_mask(causal, None, None, 16, 16, device="cpu")
        return flex_attention(q, q, q, block_mask=mask)

    compare(f, heads())


def test_flex_attention_itself():
    compare(flex_attention, *(heads() for _ in range(3)))


def test_sdpa_params():
    def f(q):
        params = torch._C._SDPAParams(q + 1, q, q, None, 0.1, True, False)
        return params, params.query * 2

    counter = Counter()
    params, doubled = stator.compile(f, backend=counter, fullgraph=True)(heads())
    assert counter.graphs == 1
    assert type(params) is torch._C._SDPAParams
    assert (params.dropout, params.is_causal, params.attn_mask) == (0.1, True, None)
    torch.testing.assert_close(params.query * 2, doubled)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sdpa_params_that_are_wanted_in_the_graph(backend):
    """A class that is marked with allow_in_graph: a node of the graph, and the program's own tensors in the object."""
    in_graph = stator.allow_in_graph(torch._C._SDPAParams)
    programs = [
        lambda q: in_graph(q, q, q, q, 0.1, True, False),
        lambda q: in_graph(q.add_(1), q, q, None, 0.1, True, False),
        lambda q: in_graph(q, q, q, None, 0, True, False),
        lambda q: in_graph(q, q, q, "mask", 0.1, True, False),
        lambda q: in_graph(q, q, q, None, dropout=0.1, is_causal=True, enable_gqa=False),
        lambda q: in_graph(q, q),
    ]

    def outcome(f, q):
        try:
            params = f(q)
        except Exception as error:
            return type(error), str(error).split("Invoked")[0]
        mask = params.attn_mask is q or params.attn_mask
        return type(params), params.query is q and params.value is q, mask, params.dropout, params.is_causal

    for f in programs:
        assert outcome(stator.compile(f, backend=backend), torch.ones(3)) == outcome(f, torch.ones(3))
    counter = Counter()
    params = stator.compile(programs[0], backend=counter, fullgraph=True)(torch.ones(3))
    assert counter.graphs == 1 and type(params) is torch._C._SDPAParams


def test_nested_compile_region():
    @torch.compiler.nested_compile_region
    def region(x):
        return x.sin() * 2

    compare(lambda x: region(x) + region(x * 2), torch.randn(4))


def _gradient(function, backend=None):
    x = torch.linspace(-1, 1, 4).requires_grad_()
    compiled = function if backend is None else stator.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        compiled(x).sum().backward()
    return x.grad


def test_hook_on_a_tensor_of_the_graph():
    def used_before_and_after(x):
        y = x.sin()
        z = y * 3
        y.register_hook(lambda grad: grad * 5)
        return z + y.cos()

    assert torch.equal(_gradient(used_before_and_after, "eager"), _gradient(used_before_and_after))


def test_hook_and_a_write_behind_it():
    def written(x):
        y = x * 2
        y.register_hook(lambda grad: grad * 5)
        y.mul_(3)
        return y

    x = torch.linspace(-1, 1, 4).requires_grad_()
    stator.compile(written, backend="eager")(x).sum().backward()
    expected = torch.linspace(-1, 1, 4).requires_grad_()
    written(expected).sum().backward()
    assert torch.equal(x.grad, expected.grad)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_checkpoint_with_contexts(backend):
    import functools

    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op == torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)

    def chosen(x):
        return checkpoint(
            lambda a: torch.sin(a.view(2, 2)) @ a.view(2, 2), x, use_reentrant=False, context_fn=contexts
        ).cos()

    torch.testing.assert_close(_gradient(chosen, backend), _gradient(chosen))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_checkpoints_compute_again_what_eager_does(backend):
    """The same random numbers, and effects of Python's once more."""
    from torch.utils.checkpoint import checkpoint

    log: list[int] = []

    def dropped(x):
        return checkpoint(lambda a: torch.nn.functional.dropout(a * 2, 0.5), x, use_reentrant=False).sin()

    def logged(x):
        def inner(a):
            log.append(1)
            return a.sin()

        return checkpoint(inner, x, use_reentrant=False) * 2

    for function in (dropped, logged):
        seen = []
        for run in (function, stator.compile(function, backend=backend)):
            log.clear()
            torch.manual_seed(4)
            x = torch.linspace(-1, 1, 16).requires_grad_()
            run(x).sum().backward()
            seen.append((x.grad, torch.rand(2), list(log)))
        torch.testing.assert_close(seen[1], seen[0])


def test_switches_that_nothing_sees_are_not_in_graphs():
    def f(weight, x):
        before = torch.is_grad_enabled()
        try:
            torch.set_grad_enabled(False)
            torch.set_grad_enabled(True)
            torch.set_grad_enabled(False)
            weight.add_(x)
        finally:
            torch.set_grad_enabled(before)
        return x * 2

    seen = []
    compiled = stator.compile(f, backend=lambda module, _: seen.append(module) or module, fullgraph=True)
    weights = [torch.ones(4, requires_grad=True) for _ in range(2)]
    for run, weight in zip((f, compiled), weights, strict=True):
        run(weight, torch.arange(4.0))
        assert torch.is_grad_enabled()
    assert torch.equal(*weights)
    calls = [(node.target, node.args) for node in seen[0].graph.nodes if node.op.startswith("call_")]
    switches = [args for target, args in calls if target is torch._C._set_grad_enabled]
    assert switches == [(False,), (True,)] and len(calls) == 4


def test_states_that_follow_each_other_are_one():
    def f(x):
        with torch.no_grad():
            y = x.sin()
        with torch.no_grad():
            z = y.cos()
        return x * y + z

    seen = []
    compiled = stator.compile(f, backend=lambda module, _: seen.append(module) or module, fullgraph=True)
    x = torch.ones(3, requires_grad=True)
    got = compiled(x)
    assert torch.equal(got, f(x)) and got.requires_grad
    names = [node.target for node in seen[0].graph.nodes if node.op.startswith("call_")]
    assert names.count(torch._C._set_grad_enabled) == 2 and len(names) == 6


def test_data_set_inside():
    def replaced(x, y, weight):
        x.data = y * 2
        weight.data = weight.data - 0.5
        return x + 1, x.shape, (x * weight).sum()

    def arguments():
        return torch.ones(2, 2), torch.linspace(-1, 1, 3), torch.nn.Parameter(torch.linspace(0, 1, 3))

    ours, theirs = arguments(), arguments()
    compiled = stator.compile(replaced, backend="eager", fullgraph=True)
    for _ in range(2):
        result, expected = compiled(*ours), replaced(*theirs)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(ours, theirs)
        result[2].backward()
        expected[2].backward()
        assert torch.equal(ours[2].grad, theirs[2].grad)


def test_optimizer_step_after_torchdynamo_ran():
    """It wraps optimizers' methods with marks of its own, for the whole process."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    assert getattr(torch.optim.SGD._init_group, "_torchdynamo_disable", False)
    expected, got = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    got.load_state_dict(expected.state_dict())
    x = torch.randn(4, 3)
    for model, compiles in ((expected, False), (got, True)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step = stator.compile(optimizer.step, backend="eager", fullgraph=True) if compiles else optimizer.step
        for _ in range(3):
            optimizer.zero_grad()
            model(x).sum().backward()
            step()
    assert all(torch.allclose(a, b) for a, b in zip(expected.parameters(), got.parameters(), strict=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("grad", [False, True])
def test_data_is_set(backend, grad):
    def fresh(x, y):
        x.data = y * 2
        return x + 1

    def shared(x, y):
        z = x.detach().sin()
        x.data = y
        return x * 3, z

    def twice(x, y):
        x.data.add_(1)
        x.data = x.data * 2
        x.data = x.data + y
        return x.sum()

    def run(function, wrap):
        torch.manual_seed(0)
        x, y = torch.randn(4, requires_grad=grad), torch.randn(4)
        before = x * x  # what autograd has saved is not written to
        results = wrap(function)(x, y)
        outputs = results if isinstance(results, tuple) else (results,)
        y.add_(1)
        found = [one.detach().clone() for one in outputs] + [x.detach().clone()]
        assert x.is_leaf and x.requires_grad == grad and x._version == 0
        if grad:
            (sum(one.sum() for one in outputs) + before.sum()).backward()
            found.append(x.grad)
        return found

    def used(x, y):
        z = x.sin()  # its gradient is that at the new data
        x.data = y + 0
        return x * 3, z

    for function in (fresh, shared, twice, used):
        expected = run(function, lambda f: f)
        got = run(function, lambda f: stator.compile(f, backend=backend, fullgraph=f is not used))
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_made_inside_get_gradients(backend):
    def function(x):
        layer = torch.nn.Linear(4, 4)
        scale = torch.nn.Parameter(torch.full((4,), 3.0))
        shift = torch.nn.Parameter(torch.full((4,), 3.0))
        with torch.no_grad():
            shift.mul_(2)
        return layer, scale, shift, layer(x) * scale + shift

    def results(run):
        torch.manual_seed(0)
        x = torch.arange(4.0, requires_grad=True)
        layer, scale, shift, out = run(x)
        assert type(scale) is torch.nn.Parameter and scale.is_leaf and scale.requires_grad and scale.grad is None
        out.sum().backward()
        assert scale.data_ptr() != shift.data_ptr()
        return [x.grad, out] + [part for p in (layer.weight, layer.bias, scale, shift) for part in (p, p.grad)]

    compiled = stator.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        for left, right in zip(results(compiled), results(function), strict=True):
            assert left is not None and torch.equal(left, right)


def test_functions_that_graphs_call_are_freed():
    held = []

    def backend(gm, example_inputs):
        held.extend(weakref.ref(child) for child in gm.children())
        return gm.forward

    for _ in range(5):
        stator.compile(lambda x: vjp(torch.sin, x)[1](x), backend=backend, isolate_recompiles=True)(torch.randn(4))
        stator.reset()
        gc.collect()
    # torch keeps the last one that it has run.
    assert len(held) == 5 and sum(ref() is not None for ref in held) <= 2


def _scaled(w, alias, x):
    with torch.no_grad():
        w.mul_(2)
    return (w * x).sum()


def _scaled_in_part(w, alias, x):
    with torch.no_grad():
        w.view(-1)[0] = 5.0
    return (w * x).sum()


def _scaled_by_its_alias(w, alias, x):
    with torch.no_grad():
        alias.mul_(2)
    return (w * x).sum() + alias.sum()


@pytest.mark.parametrize("function", [_scaled, _scaled_in_part, _scaled_by_its_alias])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_written_under_no_grad(backend, function):
    """One graph of both would be differentiated with the written value written to again."""

    def results(run):
        alias, x = torch.ones(3), torch.ones(3, requires_grad=True)
        w = torch.nn.Parameter(alias)
        out = run(w, alias, x)
        out.backward()
        return out, w, w.grad, x.grad

    graphs = stator.stats()["graphs"]
    for left, right in zip(results(stator.compile(function, backend=backend)), results(function), strict=True):
        assert torch.equal(left, right)
    assert stator.stats()["graphs"] > graphs


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("written", [False, True])
def test_the_mode_is_as_it_was_when_a_graph_fails_inside_of_no_grad(backend, written):
    def function(x, target):
        y = x * 2
        try:
            with torch.no_grad():
                if written:
                    x.add_(1)
                target.index_add_(0, torch.tensor([7]), torch.ones(1))
        except IndexError:
            return y, torch.is_grad_enabled()
        except RuntimeError:
            return y + 1, torch.is_grad_enabled()

    stator.reset()
    compiled = stator.compile(function, backend=backend)
    before = int(stator.stats()["graph_calls"])
    for _ in range(3):
        expected = function(torch.ones(4), torch.zeros(4))
        result = compiled(torch.ones(4), torch.zeros(4))
        assert torch.is_grad_enabled()
        assert result[1] == expected[1] and torch.equal(result[0], expected[0])
    assert int(stator.stats()["graph_calls"]) > before


@pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are breaks")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_handles_of_hooks(backend):
    """A handle may be kept, given out and used; hooks that are removed again leave nothing."""

    class Owner:
        handle = None

    def f(x, y, owner):
        removed = x.register_hook(lambda g: g * 2)
        z = y * y
        removed.remove()
        owner.handle = x.register_hook(lambda g: g * 3)
        return z, removed, owner.handle

    compiled = stator.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        seen = []
        for run in (f, compiled):
            x, owner = torch.ones(3, requires_grad=True), Owner()
            z, removed, kept = run(x, torch.arange(3.0), owner)
            (x * 1).sum().backward()
            first, x.grad = x.grad.clone(), None
            removed.remove()
            kept.remove()
            (x * 1).sum().backward()
            seen.append((z.tolist(), first.tolist(), x.grad.tolist(), kept is owner.handle, type(kept)))
        assert seen[0] == seen[1]


class SeveralResults(torch.autograd.Function):
    """Views, copies, indices, a mask without gradients; a value of its own is written to."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        positive = x > 0
        ctx.mark_non_differentiable(positive)
        scaled = x * factor
        scaled += 0
        return scaled.t(), positive, x.argmax(0), x[1:].clone()

    @staticmethod
    def backward(ctx, scaled, positive, largest, rest):
        (x,) = ctx.saved_tensors
        return scaled.t() * ctx.factor + torch.nn.functional.pad(rest, (0, 0, 1, 0)) * x.sign().abs(), None


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w.t(), x.t() @ gradient


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_what_functions_give_is_known_from_their_traces(backend, dynamic):
    def facts(t):
        return t.shape, t.stride(), t.dtype, t.requires_grad, t.is_leaf, t.storage_offset()

    def f(x, w):
        results = [*SeveralResults.apply(x, 2.0), Product.apply(x, w), Product.apply(x.detach(), w)]
        with torch.no_grad():
            results.append(Product.apply(x, w))
        results.append(Product.apply(results[0], x))
        return results, [facts(t) for t in results]

    compiled = stator.compile(f, backend=backend, dynamic=dynamic, fullgraph=True)
    for rows in (3, 4, 5):
        given = [torch.randn(rows, 4, requires_grad=True), torch.randn(4, rows, requires_grad=True)]
        twins = [t.detach().clone().requires_grad_() for t in given]
        before, graphs = _core.shapes_counts()["fake"], stator.stats()["graph_calls"]
        seen, seen_facts = compiled(*twins)
        assert _core.shapes_counts()["fake"] == before and stator.stats()["graph_calls"] > graphs
        wanted, wanted_facts = f(*given)
        assert seen_facts == wanted_facts
        torch.testing.assert_close(seen, wanted)
        for results in (seen, wanted):
            sum(t.sum() for t in results if t.requires_grad).backward()
        torch.testing.assert_close([t.grad for t in twins], [t.grad for t in given])
