"""CUDA graphs: mode="reduce-overhead" (inductor's trees of recorded graphs), and torch.cuda.graph around compiled
code."""

import pytest
import torch
from checking import DEVICE, needs_cuda, tensor
from torch import nn

import stator
from stator import _core

pytestmark = needs_cuda


def model_of(layers=3):
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(layers))).to(DEVICE)


def recorded():
    """All recorded graphs of the device."""
    from torch._inductor.cudagraph_trees import get_manager

    manager = get_manager(torch.cuda.current_device(), create_if_none_exists=False)
    found = []
    waiting = [node for nodes in manager.roots.values() for node in nodes] if manager is not None else []
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += [child for children in node.children.values() for child in children]
    return found


@pytest.fixture(autouse=True)
def no_graphs_before():
    from torch._dynamo.utils import counters
    from torch._inductor.cudagraph_trees import reset_cudagraph_trees

    reset_cudagraph_trees()
    counters.clear()
    yield
    assert counters["inductor"]["cudagraph_skips"] == 0
    reset_cudagraph_trees()


def test_forward_is_replayed_and_parameters_are_not_copied():
    model = model_of()
    compiled = stator.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for turn in range(6):
            x = tensor(8, 64, seed=turn)
            torch.testing.assert_close(compiled(x).clone(), model(x), rtol=1e-3, atol=1e-3)
    nodes = recorded()
    assert len(nodes) == 1
    assert len(nodes[0].static_input_idxs) == len(list(model.parameters()))
    assert _core.stats()["graphs"] == 1 and _core.stats()["breaks"] == 0


def test_results_that_are_kept_make_no_further_graphs():
    """Each call is a step, also if the results of earlier ones are still there."""
    compiled = stator.compile(lambda x: x.sin() * 2, mode="reduce-overhead")
    kept = []
    for turn in range(8):
        kept.append(compiled(tensor(16, seed=turn)))
    torch.testing.assert_close(kept[-1], tensor(16, seed=7).sin() * 2)
    with pytest.raises(RuntimeError, match="overwritten"):
        kept[0].sum()
    assert len(recorded()) == 1


def test_steps_that_the_program_counts():
    compiled = stator.compile(lambda x: x.cos() + 1, mode="reduce-overhead")
    for turn in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        first = compiled(tensor(16, seed=turn))
        second = compiled(first)  # of the same step: the first one is still there
        torch.testing.assert_close(second, (tensor(16, seed=turn).cos() + 1).cos() + 1)


def test_two_graphs_of_one_call_are_one_step():
    def function(x):
        y = x.sin() + 1
        stator.graph_break()
        return y, y.cos() * 2

    compiled = stator.compile(function, mode="reduce-overhead")
    for turn in range(6):
        x = tensor(16, seed=turn)
        y, z = compiled(x)
        torch.testing.assert_close((y.clone(), z.clone()), (x.sin() + 1, (x.sin() + 1).cos() * 2))
    assert len(recorded()) == 2


def test_training():
    model, theirs = model_of(), model_of()
    compiled = stator.compile(model, mode="reduce-overhead")
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, theirs)]
    for turn in range(6):
        x = tensor(8, 64, seed=turn)
        for call, optimizer in zip((compiled, theirs), optimizers, strict=True):
            call(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(list(model.parameters()), list(theirs.parameters()), rtol=1e-3, atol=1e-3)
    assert recorded()


def test_parameters_that_are_replaced():
    model = model_of(1)
    compiled = stator.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for turn in range(8):
            if turn == 4:
                model[0][0].weight = nn.Parameter(torch.randn(64, 64, device=DEVICE))
            x = tensor(8, 64, seed=turn)
            torch.testing.assert_close(compiled(x).clone(), model(x), rtol=1e-3, atol=1e-3)


def test_marked_addresses():
    state = torch.zeros(16, device=DEVICE)
    stator.mark_static_address(state)

    def function(x, state):
        state.add_(x)
        return state * 2

    compiled = stator.compile(function, mode="reduce-overhead")
    expected = torch.zeros(16, device=DEVICE)
    for turn in range(6):
        x = tensor(16, seed=turn)
        expected += x
        torch.testing.assert_close(compiled(x, state).clone(), expected * 2)
        torch.testing.assert_close(state, expected)


def test_random_numbers_differ_from_replay_to_replay():
    compiled = stator.compile(lambda x: nn.functional.dropout(x, 0.5), mode="reduce-overhead")
    x = torch.ones(1000, device=DEVICE)
    seen = [compiled(x).clone() for _ in range(6)]
    assert all(not torch.equal(a, b) for a, b in zip(seen, seen[1:], strict=False))
    assert all(300 < int(a.count_nonzero()) < 700 for a in seen)


def test_max_autotune():
    model = model_of(1)
    for mode in ("max-autotune", "max-autotune-no-cudagraphs"):
        compiled = stator.compile(model, mode=mode)
        with torch.no_grad():
            for turn in range(4):
                x = tensor(8, 64, seed=turn)
                torch.testing.assert_close(compiled(x).clone(), model(x), rtol=1e-2, atol=1e-2)
    assert _core.stats()["breaks"] == 0


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_compiled_code_inside_of_torch_cuda_graph(backend):
    model = model_of()
    compiled = stator.compile(model, backend=backend)
    static = torch.zeros(8, 64, device=DEVICE)
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                compiled(static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = compiled(static)
        for turn in range(3):
            static.copy_(tensor(8, 64, seed=turn))
            graph.replay()
            torch.testing.assert_close(out, model(static), rtol=1e-3, atol=1e-3)
    assert _core.stats()["graphs"] >= 1


def test_the_backend_of_that_name():
    compiled = stator.compile(lambda x, w: (x @ w).relu(), backend="cudagraphs")
    with torch.no_grad():
        for turn in range(5):
            x, w = tensor(8, 8, seed=turn), tensor(8, 8, seed=turn + 9)
            torch.testing.assert_close(compiled(x, w).clone(), (x @ w).relu())
    assert _core.stats()["graphs"] == 1


def test_make_graphed_callables():
    model = model_of(1)
    graphed = torch.cuda.make_graphed_callables(model_of(1), (tensor(8, 64),))
    compiled = stator.compile(lambda x: graphed(x) * 2, backend="eager")
    for turn in range(3):
        x = tensor(8, 64, seed=turn)
        torch.testing.assert_close(compiled(x), model(x) * 2, rtol=1e-3, atol=1e-3)
