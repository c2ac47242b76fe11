"""What eager does where a backend traces the graph once more: errors stay errors, memory that is written twice is
written twice."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.python.differential import compare
from tests.python.frontends import frontend
from tests.python.programs import Program, graphs_that_raise


def outcome(function: Callable[..., Any], x: torch.Tensor) -> tuple[Any, ...]:
    try:
        return "value", function(x).tolist(), x.tolist()
    except Exception as error:
        return type(error), str(error), x.tolist()


def same_as_eager(function: Callable[..., Any], backend: str) -> None:
    before = stator.stats()["graphs"]
    compiled = stator.compile(function, backend=backend)
    for size in (2, 3, 5):
        expected = outcome(function, torch.ones(size))
        assert outcome(compiled, torch.ones(size)) == expected
    assert stator.stats()["graphs"] > before


def goes_nowhere(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    try:
        return y.to("cuda:99")
    except (AssertionError, RuntimeError):
        return y + 1


def divides_behind_a_write(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    x.long() // 0
    return x


def divides_before_a_write(x: torch.Tensor) -> torch.Tensor:
    try:
        (x.long() % 0).float()
        x.add_(1)
    except RuntimeError:
        return x * 7
    return x


def view_of_what_was_resized(x: torch.Tensor) -> torch.Tensor:
    y = (x + 1).new()
    y.resize_as_(x)
    y.copy_(x)
    y[:1].add_(1)
    return y * 2


def row_of_what_was_empty(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(0)
    torch.add(x, 1, out=y)
    return y[0] * 2 + x


def divides_by_a_tensor(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    torch.remainder(x.int(), torch.zeros(1, dtype=torch.int32))
    return x + 1


def writes_one_tensor_twice(x: torch.Tensor) -> torch.Tensor:
    torch._foreach_add_([x, x], 1.0)
    return x * 2


def writes_a_part_twice(x: torch.Tensor) -> torch.Tensor:
    torch._foreach_mul_([x, x[:1]], 3.0)
    return x * 2


def writes_to_a_row_of_an_expanded_tensor(x: torch.Tensor) -> torch.Tensor:
    return _add_to_first(x.expand(2, x.size(0)))


def _add_to_first(rows: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    rows[0].add_(1)
    return rows * 2


def fills_between_wrong_bounds(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    try:
        x.uniform_(2, 1)
    except RuntimeError:
        return y + 1
    return y


def draws_with_a_negative_deviation(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    try:
        x.normal_(2, -1)
    except RuntimeError as error:
        return x * 2 + ("std" in str(error))
    return x


def subtracts_a_bool(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    seen = [1]
    try:
        x.sub_(True)
        seen.append(2)
    except RuntimeError:
        return x * len(seen)
    return x


def scatters_over_a_mask_of_another_size(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    x.masked_scatter_(torch.ones(4, dtype=torch.bool), torch.ones(4))
    return x


def picks_before_all_is_written_anew(x: torch.Tensor) -> torch.Tensor:
    """The row that is not there goes into what the next line forgets."""
    x.add_(torch.nn.functional.embedding(torch.tensor([5]), torch.ones(3, x.size(0)))[0])
    x.zero_()
    return x * 2


def writes_without_gradients_and_with(x: torch.Tensor) -> torch.Tensor:
    """AOTAutograd mixes results up where one is an input that was written without gradients."""
    p = torch._dynamo.graph_break() or torch.nn.Parameter(x + 1)
    return _writes_both(x, p, torch.zeros(x.size(0)))


def _writes_both(x: torch.Tensor, p: torch.nn.Parameter, buffer: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    with torch.no_grad():
        y = x - 1
        p.index_fill_(0, torch.tensor([0]), 7.0)
    buffer[:] = p
    return y


class _Triples(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 3


def draws_for_a_function_that_nobody_uses(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    _Triples.apply(torch.nn.functional.dropout(x.requires_grad_(), 0.5))
    return x * torch.rand(x.shape)


def picks_beside_an_autograd_function(x: torch.Tensor) -> torch.Tensor:
    seen = []
    try:
        seen.append(1)
        x.index_add_(0, torch.tensor([7]), torch.ones(1))
        return _Triples.apply(x)
    except IndexError:
        return x + len(seen)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "function",
    [
        draws_for_a_function_that_nobody_uses,
        picks_beside_an_autograd_function,
        goes_nowhere,
        divides_behind_a_write,
        divides_before_a_write,
        view_of_what_was_resized,
        row_of_what_was_empty,
        divides_by_a_tensor,
        writes_one_tensor_twice,
        writes_a_part_twice,
        writes_to_a_row_of_an_expanded_tensor,
        fills_between_wrong_bounds,
        draws_with_a_negative_deviation,
        subtracts_a_bool,
        scatters_over_a_mask_of_another_size,
        picks_before_all_is_written_anew,
        writes_without_gradients_and_with,
    ],
)
def test_same_as_eager(function: Callable[..., Any], backend: str) -> None:
    same_as_eager(function, backend)


def test_forced_breaks_leave_one_graph_one() -> None:
    before = stator.stats()["graphs"]
    with stator.config.patch(break_every="1"):
        stator.compile(lambda x: x * 2 + 1, backend="eager", fullgraph=True)(torch.ones(2))
    assert stator.stats()["graphs"] == before + 1


def written_behind(b: torch.Tensor) -> torch.Tensor:
    b.data = b * 2
    b.add_(1)
    return b + 1


def a_view_written_behind(b: torch.Tensor) -> torch.Tensor:
    b.data = b * 2
    b.view(2, 2).add_(1)
    return b + 1


def the_data_written_behind(b: torch.Tensor) -> torch.Tensor:
    data = b * 2
    b.data = data
    data.add_(1)
    return b + 1


@pytest.mark.parametrize("function", [written_behind, a_view_written_behind, the_data_written_behind])
def test_data_that_is_set_and_written(function: Callable[..., Any]) -> None:
    compiled = stator.compile(function, backend="aot_eager")
    for _ in range(2):
        ours, theirs = torch.arange(4.0), torch.arange(4.0)
        assert torch.equal(compiled(ours), function(theirs))
        assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()


def test_tensors_with_and_without_data() -> None:
    """An in-place operation that does nothing in eager; what traces the graph refuses it."""

    def mixed(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.add_(torch.ones(4, device="meta"))
        return y + 1

    compiled = stator.compile(mixed, backend="aot_eager")
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(4)), mixed(torch.ones(4)))


def test_a_double_of_one_element_behind_a_break() -> None:
    """AOTAutograd asks for a second run of the graph."""

    def parts(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        first, *_ = y.unbind()
        print(end="")
        return first.add(1) * y

    for dtype in (torch.float64, torch.float32, torch.float64):
        x = torch.linspace(-1, 1, 4, dtype=dtype).requires_grad_()
        compiled = stator.compile(parts, backend="aot_eager")
        result = compiled(x)
        result.sum().backward()
        other = x.detach().clone().requires_grad_()
        expected = parts(other)
        expected.sum().backward()
        assert torch.equal(result, expected)
        assert torch.equal(x.grad, other.grad)


def test_a_backend_that_declines() -> None:
    """The graph runs as it was captured, with eager's effects."""
    asked = []

    def declines(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        asked.append(graph)
        raise stator.exc.SkipFrame

    def writes(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    compiled = stator.compile(writes, backend=declines)
    for _ in range(2):
        assert outcome(compiled, torch.ones(3)) == outcome(writes, torch.ones(3))
    assert len(asked) == 1


def test_modes_end_where_a_backend_fails_inside_of_them() -> None:
    """A view in inference_mode is what AOTAutograd does not trace: the thread is as it was."""

    def views(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            y = x.detach()
            x[::2] = 0
        return y

    def state() -> tuple[Any, ...]:
        keys = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
        return *(key.raw_repr() for key in keys), torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    before = state()
    with pytest.raises(stator.exc.BackendCompilerFailed, match="version_counter|UntypedStorage"):  # by version of torch
        stator.compile(views, backend="aot_eager")(torch.ones(4))
    assert state() == before
    assert torch.ones(2, requires_grad=True).mul(2).requires_grad


def _ends_by_finally(x: torch.Tensor) -> None:
    try:
        raise ValueError
    finally:
        x.mul_(2)


def _ends_by_two(x: torch.Tensor) -> None:
    try:
        _ends_by_finally(x)
    finally:
        x.add_(1)


def _ends_by_except(x: torch.Tensor) -> None:
    try:
        try:
            raise ValueError
        except ValueError:
            x.mul_(2)
    except TypeError:
        x.add_(1)


@pytest.mark.parametrize("function", [_ends_by_finally, _ends_by_two, _ends_by_except])
def test_no_exception_is_handled_behind_a_backend_that_fails(function: Callable[..., Any]) -> None:
    """The error comes where a handler begins or ends."""

    def fails(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        raise RuntimeError("no")

    with contextlib.suppress(stator.exc.BackendCompilerFailed):
        stator.compile(function, backend=fails)(torch.ones(3))
    assert sys.exc_info() == (None, None, None)


def test_a_backend_that_counts_up_what_the_program_reads() -> None:
    """AOTAutograd registers hooks: a program that does so too reads another number than its capture did."""
    layer = torch.nn.Linear(2, 2)

    def registers(x: torch.Tensor) -> torch.Tensor:
        handle = layer.register_forward_hook(lambda module, arguments, out: out * 2)
        y = layer(x)
        handle.remove()
        return y + 1

    before = stator.stats()["graphs"]
    compiled = stator.compile(registers, backend="aot_eager")
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), layer(torch.ones(2)) * 2 + 1)
    assert stator.stats()["graphs"] > before


# ---- recurrent layers: AOTAutograd writes out each step of those on a CPU


def _recurrent(kind, **settings):
    torch.manual_seed(0)
    model = kind(4, 5, batch_first=True, **settings)
    return model, copy.deepcopy(model)


def counted(before):
    """Graphs and breaks since then."""
    now = stator.stats()
    return now["graphs"] - before["graphs"], now["breaks"] - before["breaks"]


def _same_gradients(model, ours, x):
    wanted, got = model(x)[0], ours(x)[0]
    wanted.sum().backward()
    got.sum().backward()
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}], ids=["one", "four"])
def test_recurrent_layers_in_one_graph(kind, settings):
    model, twin = _recurrent(kind, **settings)
    before, ours = stator.stats(), stator.compile(twin, backend="aot_eager", fullgraph=True)
    _same_gradients(model, ours, torch.randn(2, 3, 4))
    assert counted(before) == (1, 0)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_layers_are_left_to_torch(kind):
    model, twin = _recurrent(kind)
    head = torch.nn.Linear(5, 2)
    ours = stator.compile(lambda x: (head(twin(x * 2)[0]),), backend="aot_eager")
    before = stator.stats()
    for length in (3, 4, 5, 6):
        _same_gradients(lambda x: (head(model(x * 2)[0]),), ours, torch.randn(2, length, 4))
    # before and behind it; once more for other lengths
    graphs, breaks = counted(before)
    assert graphs == 4 and breaks >= 2
    before = stator.stats()
    with stator.config.patch(allow_rnn=True):
        stator.reset(ours)
        _same_gradients(lambda x: (head(model(x * 2)[0]),), ours, torch.randn(2, 3, 4))
    assert counted(before) == (1, 0)


def test_an_lstm_without_gradients_is_one_operator():
    model, twin = _recurrent(torch.nn.LSTM)
    before, ours = stator.stats(), stator.compile(twin, backend="aot_eager")
    with torch.no_grad():
        for length in (3, 4, 5):
            torch.testing.assert_close(ours(x := torch.randn(2, length, 4))[0], model(x)[0])
    assert counted(before) == (2, 0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_packed_sequences_of_changing_lengths(kind, backend):
    """The kernel reads the batch sizes; run on fakes with symbolic sizes it reads at address 0."""
    layer, embedding = kind(5, 4, batch_first=True, bidirectional=True), torch.nn.Embedding(20, 5)

    def run(sequences):
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        padded = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            embedding(padded), lengths, batch_first=True, enforce_sorted=False
        )
        out, _ = torch.nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)
        return out * 2

    ours, before = stator.compile(run, backend=backend), stator.stats()
    parameters = [*layer.parameters(), *embedding.parameters()]
    for lengths in ((3, 5, 2), (4, 1), (3, 5, 2), (6, 2, 7)):
        sequences = [torch.randint(1, 20, (length,)) for length in lengths]
        expected, got = run(sequences), ours(sequences)
        torch.testing.assert_close(got, expected)
        for mine, eager in zip(
            torch.autograd.grad(got.sum(), parameters),
            torch.autograd.grad(expected.sum(), parameters),
            strict=True,
        ):
            torch.testing.assert_close(mine, eager)
    assert counted(before)[0] >= 4


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_parts_of_a_parameter_that_are_written_and_dropped(backend: str) -> None:
    """A view that nobody needs is no result of the graph: AOTAutograd refuses views of no_grad behind a later write."""

    def clips(p: torch.Tensor) -> None:
        with torch.no_grad():
            p[2:].zero_()
            p[0, 1].mul_(2)
            p.clamp_(-1, 1)

    compiled = stator.compile(clips, backend=backend)
    graphs: list[Any] = []
    stator.compile(clips, backend=lambda gm, _: graphs.append(gm) or gm.forward)(torch.nn.Parameter(torch.ones(4, 3)))
    assert [node.args[0] for node in graphs[0].graph.nodes if node.op == "output"] == [()]
    for rows in (4, 5):
        p, q = (torch.nn.Parameter(torch.linspace(-3, 3, rows * 3).view(rows, 3)) for _ in range(2))
        compiled(p)
        clips(q)
        assert torch.equal(p, q) and p.is_leaf


def test_indices_that_do_not_fit_are_an_error_where_nobody_needs_what_they_read() -> None:
    def reads(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x[i]
        x[[0, 1]]
        return x + 1

    compiled = stator.compile(reads, backend="aot_eager")
    assert torch.equal(compiled(torch.ones(3), torch.tensor(1)), torch.full((3,), 2.0))
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 3"):
        compiled(torch.ones(3), torch.tensor(7))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_nested_tensors_that_are_made_and_taken_apart(backend: str) -> None:
    def rows(*parts: torch.Tensor) -> list[torch.Tensor]:
        nested = torch.nested.nested_tensor(list(parts), layout=torch.jagged) * 2
        padded = torch.nested.to_padded_tensor(nested, 0.0)
        return [padded, nested.offsets(), *(row.sum() for row in nested.unbind())]

    compiled = stator.compile(rows, backend=backend)
    for lengths in ((2, 4), (2, 4), (5, 1), (1, 2, 3)):
        parts = [torch.randn(length, 3) for length in lengths]
        assert all(map(torch.allclose, compiled(*parts), rows(*parts)))
    assert stator.stats()["graphs"] > 0


def test_graphs_that_fail_in_a_loop_over_a_generator_that_has_begun() -> None:
    """How often a place takes a generator over is counted. The capture that asks whether the program is at fault
    is made as the one was whose graph has failed, or says nothing."""
    program = Program("loops", graphs_that_raise.lookups_that_fail_in_a_loop_over_a_generator)
    assert not compare(program, frontend("stator", "aot_eager"), fresh_calls=2, repeated_calls=1).differences
