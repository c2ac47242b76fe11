"""Parts of a graph that repeat: compiled once, the same results, gradients, states and random numbers as eager's."""

import contextlib
import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import stator
from stator import config


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    torch.manual_seed(0)
    yield
    stator.reset()


def counted(backend):
    """The backend, and a list of the modules that it compiled."""
    seen = []
    compile = stator._backends.lookup_backend(backend) if isinstance(backend, str) else backend

    def count(module, examples):
        seen.append(module)
        return compile(module, examples)

    return count, seen


def eager(module, examples):
    return module.forward


def tensors(value):
    """The tensors of an output, at any depth."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in tensors(item)] if isinstance(value, (list, tuple)) else []


def check(
    model, inputs, compilations, uses=None, backend="aot_eager", regions="always", train=False, calls=2, **arguments
):
    """Runs compiled with regions beside eager. `compilations`: of the backend; `uses`: calls in the plan, of regions
    and what is between. Returns the modules that the backend got."""
    other = copy.deepcopy(model) if isinstance(model, nn.Module) else model
    count, seen = counted(backend)
    before = stator.stats()
    compiled = stator.compile(other, backend=count, options=None, **arguments)
    for _ in range(calls):
        results = []
        for run, owner in ((model, model), (compiled, other)):
            torch.manual_seed(7)
            fresh_inputs = [
                x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs
            ]
            with config.patch(regions=regions), contextlib.nullcontext() if train else torch.no_grad():
                out = run(*fresh_inputs)
            grads = []
            if train:
                sum(t.float().square().sum() for t in tensors(out) if t.requires_grad).backward()
                grads = [x.grad for x in fresh_inputs if isinstance(x, torch.Tensor) and x.requires_grad]
                if isinstance(owner, nn.Module):
                    grads += [p.grad.clone() for p in owner.parameters() if p.grad is not None]
                    owner.zero_grad()
            state = [b.clone() for b in owner.buffers()] if isinstance(owner, nn.Module) else []
            results.append((tensors(out), grads, state, torch.rand(3), fresh_inputs))
        for mine, theirs in zip(results[1], results[0], strict=True):
            torch.testing.assert_close(mine, theirs)
        for mine, theirs in zip(results[1][0], results[0][0], strict=True):
            assert mine.requires_grad == theirs.requires_grad
            assert mine.stride() == theirs.stride()
    after = stator.stats()
    assert after["captures"] == before["captures"] + 1 and after["breaks"] == before["breaks"]
    assert len(seen) == compilations, [m.code for m in seen]
    assert after["backend_compilations"] - before["backend_compilations"] == compilations
    if uses is not None:
        assert after["region_calls"] - before["region_calls"] == uses
    return seen


class Layer(nn.Module):
    def __init__(self, d=8, p=0.0, scale=1.0):
        super().__init__()
        self.a, self.b, self.n = nn.Linear(d, 2 * d), nn.Linear(2 * d, d), nn.LayerNorm(d)
        self.drop, self.scale = nn.Dropout(p), scale

    def forward(self, x):
        return x + self.drop(self.b(F.gelu(self.a(self.n(x))))) * self.scale


class Net(nn.Module):
    def __init__(self, layers, d=8):
        super().__init__()
        self.first, self.layers, self.last = nn.Linear(d, d), nn.ModuleList(layers), nn.Linear(d, 3)

    def forward(self, x):
        x = self.first(x).tanh()
        for layer in self.layers:
            x = layer(x)
        return self.last(x).softmax(-1)


def input(*shape, grad=False):
    return torch.randn(*(shape or (2, 5, 8)), requires_grad=grad)


@pytest.mark.parametrize("backend", [eager, "aot_eager"])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("regions", ["always", Layer, [nn.Bilinear, Layer]])
def test_layers_once(backend, train, regions):
    check(Net([Layer() for _ in range(5)]), [input()], 3, 7, backend=backend, train=train, regions=regions)


def test_off_is_whole():
    check(Net([Layer() for _ in range(5)]), [input()], 1, 0, regions="off")
    check(Net([Layer() for _ in range(5)]), [input()], 1, 0, regions="auto")  # no inductor


def test_one_layer_and_other_classes():
    check(Net([Layer()]), [input()], 1, 0, regions=Layer)
    check(Net([Layer() for _ in range(5)]), [input()], 1, 0, regions=nn.Bilinear)


def test_options_name_regions():
    count, seen = counted(eager)
    model = Net([Layer() for _ in range(4)])
    with torch.no_grad():
        torch.testing.assert_close(
            stator.compile(model, backend=count_with_options(count), options={"regions": Layer})(x := input()), model(x)
        )
    assert len(seen) == 3


def count_with_options(count):
    def compile(module, examples, options=None):
        assert options is None  # regions are ours
        return count(module, examples)

    return compile


@pytest.mark.parametrize("wrong", ["sometimes", 3, [], [3], "Layer"])
def test_wrong_settings(wrong):
    with pytest.raises((TypeError, ValueError), match="regions"):
        stator.compile(lambda x: x, options={"regions": wrong})
    with pytest.raises((TypeError, ValueError), match="regions"):
        config.regions = wrong


def test_equal_settings_share_and_others_do_not():
    one = stator.compile(torch.sin, backend=eager, options={"regions": "off"})
    same = stator.compile(torch.sin, backend=eager, options={"regions": "off"})
    other = stator.compile(torch.sin, backend=eager, options={"regions": Layer})
    assert one._stator_cache is same._stator_cache and one._stator_cache is not other._stator_cache


def test_plain_loop():
    def f(x, weights):
        x = x * 2
        for w in weights:
            x = torch.relu(x @ w) + x.mean()
        return x.sum()

    check(f, [input(4, 4), [torch.randn(4, 4) for _ in range(6)]], 3, 8)
    check(f, [input(4, 4, grad=True), [torch.randn(4, 4) for _ in range(6)]], 3, 8, train=True)


def test_layers_that_differ_in_a_constant():
    layers = [Layer(scale=1.5), Layer(scale=1.5), Layer(scale=2.5), Layer(scale=1.5), Layer(scale=2.5)]
    seen = check(Net(layers), [input()], 4, 7, regions=Layer)
    assert sum("1.5" in m.code for m in seen) == 1 and sum("2.5" in m.code for m in seen) == 1


@pytest.mark.parametrize("pair", [(1, True), (1, 1.0), (0.0, -0.0), (2, 3), (1.0, float("nan")), (2**40, 2**41)])
def test_constants_are_told_apart(pair):
    """1, 1.0 and True are equal and mean different graphs."""

    def f(x, ws):
        for i, w in enumerate(ws):
            x = torch.tanh(x * w)
            x = torch.where(x > 0, x, x * pair[1 if i in (2, 5) else 0])
        return x

    ws, x = [input(3) for _ in range(9)], input(3)
    for backend in (eager, "aot_eager"):
        count, seen = counted(backend)
        with config.patch(regions="always"):
            torch.testing.assert_close(
                stator.compile(f, backend=count)(x, ws), f(x, ws), equal_nan=True, rtol=0, atol=0
            )
        assert 1 < len(seen) <= 5


def test_dropout_draws_as_eager():
    check(Net([Layer(p=0.5) for _ in range(4)]).train(), [input()], 3, 6, train=True)
    check(Net([Layer(p=0.5) for _ in range(4)]).train(), [input()], 3, 6, backend=eager)


class Normed(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(d, d, 3, padding=1), nn.BatchNorm1d(d)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Sequence(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("backend", [eager, "aot_eager"])
def test_running_statistics(backend):
    model = Sequence(*[Normed() for _ in range(5)]).train()
    check(model, [input(2, 8, 6, grad=True)], 1, 5, backend=backend, train=True)
    check(model, [input(2, 8, 6)], 1, 5, backend=backend)
    check(model.eval(), [input(2, 8, 6)], 1, 5, backend=backend)


def test_first_layer_without_grad_is_another_region():
    """What requires grad is part of a region: the input of the first layer does not."""
    model = Sequence(*[Normed() for _ in range(5)]).train()
    check(model, [input(2, 8, 6)], 2, 5, train=True)


def test_shared_layer_and_tied_weights():
    shared = Layer()
    check(Net([shared] * 5), [input()], 3, 7, train=True)
    layers = [Layer() for _ in range(4)]
    for layer in layers[1:]:
        layer.a.weight = layers[0].a.weight
    check(Net(layers), [input()], 3, 6, train=True)
    tied = [Layer() for _ in range(4)]
    tied[2].n.bias = tied[2].b.bias  # one tensor in two places of one layer
    check(Net(tied), [input()], 4, 6, train=True, regions=Layer)


def test_frozen_layer_is_another_region():
    model = Net([Layer() for _ in range(4)])
    model.layers[2].requires_grad_(False)
    check(model, [input()], 4, 6, train=True, regions=Layer)


def test_write_across_a_boundary():
    def f(x, weights):
        seen = x * 1
        for w in weights:
            x = torch.tanh(x @ w)
            seen.add_(x)  # memory from before the loop
        return x, seen

    check(f, [input(4, 4), [torch.randn(4, 4) for _ in range(6)]], 1, 0)

    def g(x, weights):
        for w in weights:
            x = torch.tanh(x @ w)
            x.mul_(2).sub_(0.5)  # its own memory
        return x

    check(g, [input(4, 4), [torch.randn(4, 4) for _ in range(6)]], 1, 6)


def test_input_written_by_all():
    def f(x, log, weights):
        for i, w in enumerate(weights):
            x = torch.tanh(x @ w)
            log[0].add_(x)
        return x

    check(f, [input(4, 4), input(1, 4, 4), [torch.randn(4, 4) for _ in range(6)]], 1, 0)


def test_views_of_one_memory_across_a_boundary():
    def f(x, weights):
        whole = x * 2
        part = whole[:2]
        for w in weights:
            x = torch.tanh(x @ w) + part.sum() + whole.mean()
        part.zero_()
        return x, whole

    check(f, [input(4, 4), [torch.randn(4, 4) for _ in range(6)]], 1, 0)

    def g(x, weights):
        whole = x * 2
        part = whole[:2]
        for w in weights:
            x = torch.tanh(x @ w) + part.sum() + whole.mean()
        return x, whole, part

    check(g, [input(4, 4), [torch.randn(4, 4) for _ in range(6)]], 2, 7)


def test_view_of_one_region_in_the_next():
    def f(x, weights):
        for w in weights:
            x = torch.tanh(x @ w).transpose(0, 1)
        return x

    # The first gets what is not transposed.
    check(f, [input(4, 4), [torch.randn(4, 4) for _ in range(6)]], 3, 7)
    check(f, [input(4, 4, grad=True), [torch.randn(4, 4) for _ in range(6)]], 3, 7, train=True)

    def g(x, weights):
        for w in weights:
            x = (torch.tanh(x @ w) * 2)[1:]  # does not begin where its memory begins
            x = torch.cat([x, x[:1]])
        return x

    check(g, [input(4, 4), [torch.randn(4, 4) for _ in range(6)]], 1, 6)


def test_results_that_are_views_stay_views():
    def f(x, weights):
        out = []
        for w in weights:
            x = torch.tanh(x @ w)
            out.append(x.view(-1))
        return x, out

    x, weights = input(4, 4), [torch.randn(4, 4) for _ in range(6)]
    count, seen = counted("aot_eager")
    compiled = stator.compile(f, backend=count)
    with config.patch(regions="always"), torch.no_grad():
        last, views = compiled(x, weights)
    assert len(seen) == 1 and stator.stats()["region_calls"] >= 6
    assert views[-1].data_ptr() == last.data_ptr()
    last.zero_()
    assert views[-1].abs().sum() == 0 and views[0].abs().sum() > 0


def test_modes_between():
    def f(x, weights):
        for i, w in enumerate(weights):
            x = torch.tanh(x @ w)
            with torch.no_grad():
                scale = x.abs().max() + 1
            x = x / scale
        return x

    check(f, [input(4, 4, grad=True), [torch.randn(4, 4) for _ in range(6)]], 1, 6, train=True)

    def g(x, weights):  # the mode is another one through the loop
        first = x
        with torch.no_grad():
            for w in weights:
                x = torch.tanh(x @ w)
        return x * first

    check(g, [input(4, 4, grad=True), [torch.randn(4, 4) for _ in range(6)]], 1, 0, train=True)

    def h(x, weights):
        for w in weights:
            with torch.autocast("cpu", torch.bfloat16):
                x = torch.tanh(x @ w).float()
        return x

    check(h, [input(4, 4, grad=True), [torch.randn(4, 4) for _ in range(6)]], 1, 6, train=True)

    def k(x, weights):
        with torch.autocast("cpu", torch.bfloat16):
            for w in weights:
                x = torch.tanh(x @ w).float()
        return x

    check(k, [input(4, 4), [torch.randn(4, 4) for _ in range(6)]], 1, 0)


def test_under_modes_of_the_caller():
    model = Net([Layer() for _ in range(4)])
    count, seen = counted("aot_eager")
    compiled = stator.compile(model, backend=count)
    x = input()
    with config.patch(regions="always"):
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(compiled(x), model(x))
        assert len(seen) == 3
        with torch.inference_mode():
            torch.testing.assert_close(compiled(x), model(x))
        assert len(seen) == 6
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
        assert len(seen) == 9


def test_several_values_pass():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, pair):
            x, y = pair
            return torch.tanh(self.a(x)) + y, torch.tanh(self.b(y)) * x

    class Pairs(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Pair() for _ in range(4)])

        def forward(self, x):
            pair = x + 1, x - 1
            for layer in self.layers:
                pair = layer(pair)
            return pair

    check(Pairs(), [input()], 2, 5)
    check(Pairs(), [input(grad=True)], 2, 5, train=True)


def test_several_results_of_one_call():
    def f(x, weights):
        for w in weights:
            a, b, c = (x @ w).chunk(3, dim=-1)
            x = torch.tanh(a) * b + c
            x = torch.cat([x, x, x], -1)
            top, where = x.topk(6, dim=-1)
            x = top + where
        return x

    check(f, [input(4, 6), [torch.randn(6, 6) for _ in range(6)]], 1, 6)


def test_hidden_states_are_results_too():
    class All(Net):
        def forward(self, x):
            states = [x]
            for layer in self.layers:
                x = layer(x)
                states.append(x)
            return tuple(states)

    check(All([Layer() for _ in range(5)]), [input(grad=True)], 1, 5, train=True)


def test_two_kinds_of_layers():
    class Wide(Layer):
        def forward(self, x):
            return super().forward(torch.sin(x))

    check(Net([Layer(), Layer(), Layer(), Wide(), Wide(), Wide()]), [input()], 4, 8)
    check(Net([Layer(), Wide(), Layer(), Wide(), Layer(), Wide()]), [input()], 3, 5)
    check(Net([Layer(), Wide(), Layer(), Wide(), Layer(), Wide()]), [input()], 4, 8, regions=[Layer])


def test_break_in_the_middle():
    class Broken(Net):
        def forward(self, x):
            for i, layer in enumerate(self.layers):
                x = layer(x)
                if i == 3:
                    torch._dynamo.graph_break()
            return x

    model = Broken([Layer() for _ in range(8)])
    count, seen = counted("aot_eager")
    with config.patch(regions="always"), torch.no_grad():
        torch.testing.assert_close(stator.compile(model, backend=count)(x := input()), model(x))
    assert len(seen) <= 4, [m.code for m in seen]


@pytest.mark.parametrize("every", ["1", "7", "random:1"])
def test_forced_breaks(every):
    model = Net([Layer(p=0.5) for _ in range(4)]).train()
    count, _ = counted("aot_eager")
    compiled = stator.compile(model, backend=count)
    with config.patch(regions="always", break_every=every):
        for _ in range(2):
            torch.manual_seed(3)
            want = model(x := input())
            torch.manual_seed(3)
            input()
            torch.testing.assert_close(compiled(x), want)


def test_dynamic_sizes():
    model = Net([Layer() for _ in range(4)])
    count, seen = counted("aot_eager")
    compiled = stator.compile(model, backend=count, dynamic=True)
    with config.patch(regions="always"):
        for size in (5, 7, 2, 11):
            x = input(3, size, 8)
            torch.testing.assert_close(compiled(x), model(x))
    assert len(seen) == 3, [m.code for m in seen]


def test_sizes_that_are_computed():
    def f(x, weights):
        n = x.shape[0] * x.shape[1]
        for w in weights:
            x = torch.tanh(x.reshape(n, -1) @ w).reshape(x.shape[0], x.shape[1], -1) + n
        return x

    count, seen = counted("aot_eager")
    compiled = stator.compile(f, backend=count, dynamic=True)
    weights = [torch.randn(4, 4) for _ in range(6)]
    with config.patch(regions="always"):
        for shape in ((2, 3, 4), (5, 3, 4), (4, 7, 4)):
            x = input(*shape)
            torch.testing.assert_close(compiled(x, weights), f(x, weights))
    assert len(seen) < 6


def test_a_number_from_outside():
    def f(x, scale, weights):
        for w in weights:
            x = torch.tanh(x @ w) * scale
        return x

    count, seen = counted("aot_eager")
    compiled = stator.compile(f, backend=count)
    weights = [torch.randn(4, 4) for _ in range(6)]
    with config.patch(regions="always"):
        for scale in (2, 3, 5, 0.5, 0.25, 0.75):
            x = input(4, 4)
            torch.testing.assert_close(compiled(x, scale, weights), f(x, scale, weights))
    assert len(seen) <= 5


def test_errors_are_eagers():
    def f(x, index, weights):
        for w in weights:
            x = torch.tanh(x @ w)[index]
        return x

    count, seen = counted("aot_eager")
    compiled = stator.compile(f, backend=count)
    weights = [torch.randn(4, 4) for _ in range(6)]
    good, bad = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 2, 9])
    with config.patch(regions="always"):
        torch.testing.assert_close(compiled(x := input(4, 4), good, weights), f(x, good, weights))
        with pytest.raises(IndexError):
            compiled(x, bad, weights)
        torch.testing.assert_close(compiled(x, good, weights), f(x, good, weights))
    assert len(seen) < 6


def test_backend_that_fails():
    def failing(module, examples):
        raise RuntimeError("no such luck")

    with config.patch(regions="always"), pytest.raises(Exception, match="no such luck"):
        stator.compile(Net([Layer() for _ in range(4)]), backend=failing)(input())


def test_memory_is_freed_on_the_way():
    """Values that no later region needs do not outlive the regions that need them."""
    import gc
    import weakref

    alive, most = weakref.WeakSet(), [0]

    def watching(module, examples):
        def run(*inputs):
            out = module.forward(*inputs)
            for t in out:
                alive.add(t)
            most[0] = max(most[0], len(alive))
            return out

        return run

    model = Net([Layer() for _ in range(8)])
    with config.patch(regions="always"), torch.no_grad():
        stator.compile(model, backend=watching)(input())
    assert most[0] <= 3
    gc.collect()
    assert not alive


def test_views_among_results_in_training():
    def f(x, weights):
        out = []
        for w in weights:
            x = torch.tanh(x @ w)
            out.append(x.view(-1))
        return x, out

    args = [input(4, 4, grad=True), [torch.randn(4, 4) for _ in range(6)]]
    check(f, args, 1, 6, train=True, regions="always")


def test_checkpointed_layers():
    from torch.utils.checkpoint import checkpoint

    class Kept(Net):
        def forward(self, x):
            x = self.first(x)
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return self.last(x)

    check(Kept([Layer() for _ in range(5)]), [input()], 3, 7, train=True)
    check(Kept([Layer(scale=float(i // 2)) for i in range(6)]), [input()], 5, 8, train=True)
    # A call with a body counts for all that is in it.
    assert "5 x 2 calls" in str(stator.explain(Kept([Layer() for _ in range(5)]))(input()))


def test_checkpoints_with_policies_of_their_own():
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    def keeping(policy):
        return lambda: create_selective_checkpoint_contexts(lambda ctx, op, *args, **kwargs: policy)

    save, again = keeping(CheckpointPolicy.MUST_SAVE), keeping(CheckpointPolicy.MUST_RECOMPUTE)

    class Kept(Net):
        def forward(self, x):
            x = self.first(x)
            for i, layer in enumerate(self.layers):
                x = checkpoint(layer, x, use_reentrant=False, context_fn=save if i < 3 else again)
            return self.last(x)

    check(Kept([Layer() for _ in range(6)]), [input()], 4, 8, train=True)


def test_branches_on_data():
    def f(x, weights):
        for w in weights:
            x = torch.tanh(x @ w)
            x = torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))
        return x

    args = [input(4, 4), [torch.randn(4, 4) for _ in range(6)]]
    check(f, args, 1, 6)


def test_a_region_that_the_backend_cannot_compile():
    """ "auto" never loses a graph: it is compiled whole then."""

    @torch.compiler.nested_compile_region
    def part(x, w):
        return torch.tanh(x @ w)

    def f(x, weights):
        for w in weights:
            x = part(x, w)
        return x

    sizes = []

    def picky(module, examples):
        sizes.append(len(examples))
        if any(type(e) is not torch.Tensor for e in examples) or len(examples) < 5:
            raise RuntimeError("too small")
        return module.forward

    x, weights = input(4, 4), [torch.randn(4, 4) for _ in range(5)]
    torch.testing.assert_close(stator.compile(f, backend=picky)(x, weights), f(x, weights))
    assert sizes == [2, 6]
    with config.patch(regions="always"), pytest.raises(Exception, match="too small"):
        stator.compile(f, backend=lambda m, e: picky(m, e))(x, weights)


def test_torchs_counters_count_a_capture_once():
    from torch._dynamo.utils import counters

    model = Net([Layer() for _ in range(4)])
    counters.clear()
    with config.patch(regions="always"):
        stator.compile(model, backend="aot_eager")(input())
    assert counters["stats"]["unique_graphs"] == 1
    assert counters["stats"]["calls_captured"] >= 2 + 4 * 6 + 2


def test_marked_functions():
    @torch.compiler.nested_compile_region
    def part(x, w):
        return torch.tanh(x @ w) * 2

    def f(x, weights):
        y = x + 1
        for w in weights:
            x = part(x, w)
        for w in weights:  # repeats as well, but nobody asked
            y = torch.sin(y @ w).relu()
        return x + y

    args = [input(4, 4), [torch.randn(4, 4) for _ in range(5)]]
    check(f, args, 3, 7, regions="auto")  # with any backend
    check(f, args, 3, 7, regions="auto", backend=eager)
    check(f, args, 1, 0, regions="off")
    seen = check(f, args, 4, 12, regions="always")
    assert sum("sin" in m.code for m in seen) == 1


def test_marked_forward():
    class Marked(Layer):
        @torch.compiler.nested_compile_region
        def forward(self, x):
            return torch.sin(x + self.b(F.gelu(self.a(self.n(x)))))

    check(Net([Marked() for _ in range(4)]), [input()], 3, 6, regions="auto", train=True)


def test_explain_shows_regions():
    model = Net([Layer() for _ in range(6)])
    with config.patch(regions="always"):
        found = stator.explain(model)(input())
    assert found.graph_count == 1
    lines = found.captures[0].regions
    assert len(lines) == 3 and "6 x " in lines[1] and "layers.0" in lines[1]
    assert lines[1] in str(found)
    with config.patch(regions="off"):
        assert not stator.explain(model)(input()).captures[0].regions


def test_profiler_names_regions():
    model = Net([Layer() for _ in range(4)])
    compiled = stator.compile(model, backend=eager)
    with config.patch(regions="always"), torch.profiler.profile() as profile:
        compiled(input())
    names = [event.name for event in profile.events()]
    assert [n for n in names if n.startswith("region ")] == [
        "region 0, call 0", *(f"region 1, call {i}" for i in range(1, 5)), "region 2, call 5"
    ]  # fmt: skip


def test_a_value_of_another_region_is_a_fake():
    """The backend gets facts in the place of values that are not there yet."""
    facts = []

    def look(module, examples):
        facts.append([(type(e).__name__, tuple(e.shape)) for e in examples[:1]])
        assert [n.meta["example_value"].shape for n in module.graph.nodes if n.op == "placeholder"] == [
            e.shape for e in examples
        ]
        return module.forward

    with config.patch(regions="always"), torch.no_grad():
        stator.compile(Net([Layer() for _ in range(4)]), backend=look)(input())
    assert facts == [[("Tensor", (2, 5, 8))], [("FakeTensor", (2, 5, 8))], [("FakeTensor", (2, 5, 8))]]


# ---- inductor


class Attention(Layer):
    """Drops inside of attention, which is one call, and behind it."""

    def forward(self, x):
        given = self.n(x)
        p = self.drop.p if self.training else 0.0
        return super().forward(x + F.scaled_dot_product_attention(given, given, given, dropout_p=p))


@pytest.mark.parametrize(("layer", "p"), [(Layer, 0.0), (Layer, 0.3), (Attention, 0.3)])
def test_inductor(layer, p):
    model = Net([layer(p=p) for _ in range(5)]).train(p > 0)
    x = input()
    values = []
    for regions in ("off", "always"):
        stator.reset()
        before = stator.stats()["backend_compilations"]
        compiled = stator.compile(model, backend="inductor", options={"regions": regions})
        for train in (False, True):
            for _ in range(2):
                torch.manual_seed(11)
                model.zero_grad()
                with contextlib.nullcontext() if train else torch.no_grad():
                    out = compiled(x)
                if train:
                    out.square().sum().backward()
                grads = [q.grad.clone() for q in model.parameters()] if train else []
                values.append((out.detach(), grads, torch.rand(4)))
        made = stator.stats()["backend_compilations"] - before
        assert made == (2 if regions == "off" else 6)
    whole, cut = values[:4], values[4:]
    # The same random numbers, in the layers and behind them.
    torch.testing.assert_close(cut, whole, rtol=1e-5, atol=1e-6)
    if p == 0:
        torch.testing.assert_close(cut[0][0], model(x).detach(), rtol=1e-5, atol=1e-6)


def test_inductor_is_called_without_wrappers():
    import stator._regions as ours

    found = []
    with pytest.MonkeyPatch.context() as patch:
        original = ours.innermost
        patch.setattr(ours, "innermost", lambda *a: found.append(original(*a)) or found[-1])
        compiled = stator.compile(
            model := Net([Layer() for _ in range(5)]), backend="inductor", options={"regions": "always"}
        )
        with torch.no_grad():
            for _ in range(3):
                x = input()
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-6)
        assert len(found) == 3 and all(callable(f) and f.__name__ == "call" for f in found)
        # Where a result shares memory with an input, they have something to do.
        found.clear()

        def views(x, weights):
            out = []
            for w in weights:
                out.append(x.view(-1))
                x = torch.tanh(x @ w)
            return x, out

        args = input(4, 4), [torch.randn(4, 4) for _ in range(4)]
        with torch.no_grad():
            got = stator.compile(views, backend="inductor", options={"regions": "always"})(*args)
        torch.testing.assert_close(got, views(*args), rtol=1e-5, atol=1e-6)
        assert got[1][0].data_ptr() == args[0].data_ptr()


def test_auto_with_inductor():
    few, many = Net([Layer() for _ in range(2)]), Net([Layer() for _ in range(8)])
    for model, expected in ((few, 1), (many, 3)):
        stator.reset()
        before = stator.stats()["backend_compilations"]
        compiled = stator.compile(model)
        with torch.no_grad(), config.patch(regions="auto"):
            x = input()
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-6)
        assert stator.stats()["backend_compilations"] - before == expected


# ---- models


def tiny(name, layers=4):
    import transformers as t

    sizes = dict(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=layers, num_attention_heads=2)
    if name == "bert":
        return t.BertModel(t.BertConfig(**sizes, max_position_embeddings=32))
    if name == "gpt2":
        return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=64, n_embd=16, n_layer=layers, n_head=2, n_positions=32))
    if name == "llama":
        return t.LlamaForCausalLM(t.LlamaConfig(**sizes, num_key_value_heads=2, max_position_embeddings=32))
    return t.Qwen3ForCausalLM(t.Qwen3Config(**sizes, num_key_value_heads=1, head_dim=8, max_position_embeddings=32))


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "qwen3"])
@pytest.mark.parametrize("train", [False, True])
def test_models(name, train):
    pytest.importorskip("transformers")
    found = []
    for layers in (3, 6):  # as many compilations for six layers as for three
        model = tiny(name, layers).train(train)
        plain = copy.deepcopy(model)
        count, seen = counted("aot_eager")
        compiled = stator.compile(model, backend=count)
        ids = torch.randint(0, 64, (2, 9))
        values = []
        for run in (compiled, plain):
            torch.manual_seed(5)
            with config.patch(regions="always"), contextlib.nullcontext() if train else torch.no_grad():
                out = run(ids, use_cache=False) if name != "bert" else run(ids)
            if train:
                out[0].square().sum().backward()
            owner = model if run is compiled else plain
            values.append((tensors(tuple(out.to_tuple())), [p.grad for p in owner.parameters()]))
        torch.testing.assert_close(values[0], values[1], rtol=1e-4, atol=1e-5)
        found.append(len(seen))
        assert stator.stats()["region_calls"] >= layers
        stator.reset()
    assert found[0] == found[1] <= 5
