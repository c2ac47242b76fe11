"""Programs that are long: what is captured of them, and that it does not get worse with their length."""

import gc
import math

import pytest
import torch

import stator


def over_a_list(x, numbers):
    total = 0
    for number in numbers:
        total += number
    return x + total


def test_a_long_list_beside_a_tensor_is_one_capture():
    """Tracing without a tensor is given up after a while, but not where one is at hand: each item would cost an entry
    at later calls."""
    compiled, x, numbers = stator.compile(over_a_list, backend="eager"), torch.ones(3), list(range(60_000))
    stator.reset_stats()
    for _ in range(3):
        assert torch.equal(compiled(x, numbers), over_a_list(x, numbers))
    stats = stator.stats()
    assert (stats["captures"], stats["breaks"], stats["hits"]) == (1, 0, 2)
    numbers[59_999] = 0
    assert torch.equal(compiled(x, numbers), over_a_list(x, numbers))


def test_the_limit_for_a_function_counts_the_entries_of_all_its_places():
    """Those that can hold no more do not count."""

    def function(x, model):
        x = model(x)
        print(end="")
        return model(x)

    def make():
        class Model:
            def __call__(self, x):
                return x * 2

        return Model()

    def run(model):
        x = torch.ones(1, 2)
        assert torch.equal(compiled(x, model), function(x, model))
        del model
        gc.collect()

    compiled = stator.compile(function, backend="eager")
    kept = make()
    with stator.config.patch(accumulated_recompile_limit=5):
        stator.reset_stats()
        run(kept)
        for _ in range(5):  # of each class both entries go with it
            run(make())
        run(kept)
        stats = stator.stats()
        assert (stats["captures"], stats["fallbacks"], stats["hits"]) == (12, 0, 2)

    def kinds(x, kind):
        x = x + len(kind)
        print(end="")
        return x * len(kind)

    compiled = stator.compile(kinds, backend="eager")
    with stator.config.patch(accumulated_recompile_limit=4), pytest.warns(UserWarning, match="captured 4 times"):
        stator.reset_stats()
        for n in range(6):
            x = torch.ones(2)
            assert torch.equal(compiled(x, "k" * n), kinds(x, "k" * n))
        assert stator.stats()["captures"] == 4


def test_lines_of_a_long_function():
    """Its table of lines is read once, and has a break's line as CPython has it."""
    lines = "".join(f"    x = x + {i}\n    print(end=(\n        ''\n    ))\n" for i in range(300))
    namespace = {}
    exec(compile(f"def function(x):\n{lines}    return x\n", "a_long_file.py", "exec"), namespace)
    function, x = namespace["function"], torch.ones(2)
    found = stator.explain(stator.compile(function, backend="eager"))(x)
    assert torch.equal(stator.compile(function, backend="eager")(x), function(x))
    places = [one.place if hasattr(one, "place") else str(one) for one in found.breaks]
    assert len(places) == 300
    for i, place in enumerate(places):
        assert f"a_long_file.py:{3 + 4 * i}" in place, place


def _adan(params, grads, state, group):
    """As optimizers count their steps and correct for them."""
    group["step"] += 1
    beta1, beta2 = group["betas"]
    first = 1.0 - beta1 ** group["step"]
    second = 1.0 - beta2 ** group["step"]
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        own = state[i]
        own["m"].mul_(beta1).add_(g, alpha=1 - beta1)
        own["v"].mul_(beta2).addcmul_(g, g, value=1 - beta2)
        below = (own["v"].sqrt() / math.sqrt(second)).add_(1e-8)
        p.addcdiv_(own["m"], below, value=-group["lr"] / first)


def _warm(x, state):
    state["t"] += 0.1
    return x.add(x, alpha=math.cos(state["t"])) * math.sqrt(state["t"]) + math.tanh(state["t"])


def _root_of_what_turns_negative(x, state):
    state["t"] -= 0.5
    try:
        return x * math.sqrt(state["t"])
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    "fn, make, graphs",
    [
        (
            _adan,
            lambda: (
                [torch.ones(3), torch.ones(2)],
                [torch.full((3,), 0.5), torch.ones(2)],
                [{"m": torch.zeros(n), "v": torch.zeros(n)} for n in (3, 2)],
                {"step": 0, "betas": (0.98, 0.92), "lr": 0.1},
            ),
            4,
        ),
        (_warm, lambda: (torch.ones(3), {"t": 0.0}), 3),
        (_root_of_what_turns_negative, lambda: (torch.ones(3), {"t": 4.0}), 4),
    ],
    ids=["adan", "warm", "negative"],
)
def test_step_counters_become_values(fn, make, graphs):
    """A number that changes with each step is an input: no graph for each step."""
    stator.reset()
    expected, actual = make(), make()
    before = stator.stats()["graphs"]
    compiled = stator.compile(fn, backend="eager")
    for _ in range(20):
        got, wanted = compiled(*actual), fn(*expected)
        assert torch.equal(got, wanted) if isinstance(wanted, torch.Tensor) else got == wanted
        torch.testing.assert_close(actual[:1], expected[:1], rtol=0, atol=0)
        assert actual[-1] == expected[-1]
    assert stator.stats()["graphs"] - before <= graphs
