"""What torch offers beyond single operators: memory that inputs share, higher-order operators, autograd functions. Each
test compares with eager and asserts that the capture happened."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from stator import _torch_versions


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    stator.reset()
    yield
    stator.reset()


def counting(inner: str | None = None) -> tuple[Callable[..., Any], list[torch.fx.GraphModule]]:
    """A backend that keeps the graphs, and hands them on to AOTAutograd where that is asked for."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(gm)
        if inner is None:
            return gm.forward
        from torch._dynamo.backends.registry import lookup_backend

        return lookup_backend(inner)(gm, inputs)

    return backend, graphs


def separate() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(4), torch.zeros(4)


def same() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.zeros(4)
    return x, x


def overlapping() -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.zeros(6)
    return base[:4], base[2:]


def beside() -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.zeros(9)
    return base[:4], base[5:]


def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return y * 2


def write_through_a_view(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.view(-1)[1:].add_(3)
    return y + x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [write, write_through_a_view])
def test_inputs_that_come_to_share_memory(function: Callable[..., Any], backend: str) -> None:
    compiled = stator.compile(function, backend=backend, fullgraph=True)
    before = stator.stats()["hits"]
    for make in (separate, overlapping, same, beside, separate, overlapping, same):
        expected, actual = make(), make()
        assert torch.equal(function(*expected), compiled(*actual))
        assert torch.equal(expected[0], actual[0]) and torch.equal(expected[1], actual[1])
    assert stator.stats()["hits"] - before == 3  # each pattern was captured once


def test_facts_that_are_guarded_when_read() -> None:
    base = torch.zeros(8)

    def offset(x: torch.Tensor) -> torch.Tensor:
        return x + x.storage_offset()

    compiled = stator.compile(offset, backend="eager")
    for x in (base[:4], base[2:6], base[4:]):
        assert torch.equal(compiled(x), offset(x))

    def leaf(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        return x * 2, x.is_leaf

    compiled = stator.compile(leaf, backend="eager", fullgraph=True)
    w = torch.zeros(4, requires_grad=True)
    assert [compiled(x)[1] for x in (w, w * 2, w)] == [True, False, True]


# ---- functions that graphs call

WEIGHT = torch.linspace(-1, 1, 4)
SCALE = torch.nn.Parameter(torch.linspace(0.5, 2, 4))
LINEAR = torch.nn.Linear(4, 4)
BATCHED_DOT = torch.vmap(torch.dot)


class Scaled(torch.autograd.Function):
    """A backward that is not the derivative, with saved tensors, a number and a tensor on the context."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, k: float) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(a, b)
        ctx.k = k
        ctx.sine = a.sin()
        return a * b * k, a + 1

    @staticmethod
    def backward(ctx: Any, first: torch.Tensor, second: torch.Tensor) -> Any:
        a, b = ctx.saved_tensors
        wanted = (first * a * ctx.k).sum(0) if ctx.needs_input_grad[1] else None
        return first * b * ctx.k * 7 + ctx.sine * second, wanted, None


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


class Contextual(torch.autograd.Function):
    @staticmethod
    def forward(a: torch.Tensor, k: int) -> Any:  # type: ignore[override]
        return a * k, a > 0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.k = inputs[1]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: Any) -> Any:
        return grad * ctx.k, None


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a)
        return a

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (a,) = ctx.saved_tensors
        return -grad * a * SCALE.detach()


def in_place_function(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    return Doubled.apply(y) + y


def checkpointed(*args: Any, **kwargs: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(*args, use_reentrant=False, **kwargs)


def loops() -> dict[str, Callable[..., Any]]:
    from torch._higher_order_ops import associative_scan, map, scan, while_loop

    def pairs(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    return {
        "cond": lambda x: torch.cond(x.sum() > 0, lambda a: a + WEIGHT, lambda a: a * 2, (x,)),
        "cond_known": lambda x: torch.cond(x.shape[0] > 2, lambda a: a + WEIGHT, lambda a: a * 2, (x,)),
        "while": lambda x: while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2 + WEIGHT), (torch.tensor(0), x)),
        "scan": lambda x: scan(lambda c, a: (c + a, {"y": c * 2}), torch.zeros(4), x, dim=0),
        "scan_back": lambda x: scan(lambda c, a: (c + a, c * WEIGHT[0]), torch.zeros(3), x, dim=1, reverse=True),
        "associative_scan": lambda x: associative_scan(pairs, (x, x + 1), dim=1, combine_mode="generic"),
        "map": lambda x: map(lambda a: a.sin() + WEIGHT, x),
    }


IN_PLACE = pytest.mark.skipif(
    not _torch_versions.functions_may_write(),
    reason="torch's operator for autograd functions knows no writes before 2.13",
)
TRAINED: dict[str, Callable[..., Any]] = {
    "function": lambda x: Scaled.apply(x, SCALE, 2.0)[0] * x,
    "function_constant_operand": lambda x: Scaled.apply(x, WEIGHT, 2.0),
    "function_in_place": in_place_function,
    "function_setup": lambda x: Contextual.apply(x, 3)[0],
    "function_once": lambda x: Once.apply(x * 2) * SCALE,
    "checkpoint": lambda x: checkpointed(lambda a: (a * SCALE).sin(), x),
    "checkpoint_module": lambda x: checkpointed(LINEAR, x) * 2,
    "cond": lambda x: torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a * 2, (x,)),
    "vmap": lambda x: torch.vmap(lambda a: a.sum() * SCALE)(x),
}

CALLED: dict[str, Callable[..., Any]] = {
    "function_no_grad": lambda x: Once.apply(x) + 1,
    "checkpoint_structure": lambda x: checkpointed(lambda a, k: {"y": LINEAR(a) * k, "n": 3}, x, k=2.0),
    "vmap_dims": lambda x: torch.vmap(lambda a, b: (a @ b, {"s": a.sum()}), (1, None), (0, {"s": 0}))(x, x[:, 0]),
    "vmap_made_outside": lambda x: BATCHED_DOT(x, x + 1),
    "vmap_nested": lambda x: torch.vmap(torch.vmap(lambda a: a * 2))(x),
    "grad": lambda x: torch.func.grad(lambda a: (a * 2).sin().sum())(x),
    "grad_and_value": lambda x: torch.func.grad_and_value(lambda d, k: ((d["a"] * k).sum(), d["b"]), has_aux=True)({"a": x, "b": x * 2}, 3),
    "per_sample_grads": lambda x: torch.vmap(torch.func.grad(lambda w, a: (a @ w).sin()), in_dims=(None, 0))(WEIGHT, x),
    "jvp": lambda x: torch.func.jvp(lambda a: (a * 2).sin(), (x,), (torch.ones_like(x),)),
    "jacrev": lambda x: torch.func.jacrev(lambda a: (a * WEIGHT).sin())(x[0]),
    "jacfwd": lambda x: torch.func.jacfwd(lambda a, b: a.sin() * b, argnums=(0, 1))(x[0], x[1]),
    "hessian": lambda x: torch.func.hessian(lambda a: (a**3).sum())(x[0]),
    "functional_call": lambda x: torch.func.functional_call(LINEAR, {"weight": torch.eye(4), "bias": WEIGHT}, (x,)),
}  # fmt: skip


def leaves(value: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(value)


def run_with_grads(function: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    tensors = leaves(function(x))
    parameters = [x, SCALE, LINEAR.weight]
    loss = sum((tensor * (i + 2)).sum() for i, tensor in enumerate(tensors))
    grads = torch.autograd.grad(loss, parameters, allow_unused=True)  # type: ignore[arg-type]
    return [*tensors, *[torch.zeros(1) if grad is None else grad for grad in grads]]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=IN_PLACE if name == "function_in_place" else ()) for name in TRAINED]
)
def test_functions_in_graphs_with_gradients(name: str, backend: str) -> None:
    inner, graphs = counting(None if backend == "eager" else backend)
    compiled = stator.compile(TRAINED[name], backend=inner, fullgraph=True)
    for x in (torch.linspace(-1, 2, 12).view(3, 4), torch.linspace(-3, 2, 12).view(3, 4)):
        torch.testing.assert_close(run_with_grads(compiled, x), run_with_grads(TRAINED[name], x))
    assert len(graphs) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_function_that_writes_is_never_wrong(backend: str) -> None:
    """In the graph, or left to Python where torch's operator would lose the write."""
    compiled = stator.compile(in_place_function, backend=backend)
    x = torch.linspace(-1, 2, 12).view(3, 4)
    torch.testing.assert_close(run_with_grads(compiled, x), run_with_grads(in_place_function, x))
    assert stator.stats()["graphs"] > 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", [*CALLED, *loops()])
def test_functions_in_graphs(name: str, backend: str) -> None:
    function = CALLED[name] if name in CALLED else loops()[name]
    inner, graphs = counting(None if backend == "eager" else backend)
    compiled = stator.compile(function, backend=inner, fullgraph=True)
    for x in (torch.linspace(-1, 2, 12).view(3, 4), torch.linspace(-3, 2, 12).view(3, 4)):
        expected, actual = function(x.clone()), compiled(x.clone())
        assert torch.utils._pytree.tree_structure(expected) == torch.utils._pytree.tree_structure(actual)
        torch.testing.assert_close(leaves(actual), leaves(expected))
    assert len(graphs) == 1


def test_function_modules_look_like_torchdynamos() -> None:
    inner, graphs = counting()
    x = torch.ones(3, 4, requires_grad=True)
    stator.compile(TRAINED["function"], backend=inner, fullgraph=True)(x)
    (apply,) = graphs[0].graph.find_nodes(op="call_function", target=torch.ops.higher_order.autograd_function_apply)
    assert [node.target for node in apply.args[:2]] == ["fwd_body_0", "bwd_body_0"]
    assert all(node.op == "get_attr" for node in apply.args[:2])
    assert isinstance(graphs[0].fwd_body_0, torch.fx.GraphModule) and "sin" in graphs[0].fwd_body_0.code
    assert "fwd_body_0" in graphs[0].code


def test_effects_in_a_function_that_may_not_run() -> None:
    seen: list[int] = []

    def branch(a: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return a + 1

    def backward_counts(x: torch.Tensor) -> torch.Tensor:
        class Counting(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
                return a * 2

            @staticmethod
            def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
                seen.append(2)
                return grad * 3

        return Counting.apply(x) + 1

    with pytest.raises(stator.exc.Unsupported, match="changes objects"):
        stator.compile(lambda x: torch.cond(x.sum() > 0, branch, lambda a: a, (x,)), backend="eager", fullgraph=True)(
            torch.ones(3)
        )
    assert seen == []
    x = torch.ones(3, requires_grad=True)
    y = stator.compile(backward_counts, backend="eager")(x)
    assert seen == []
    y.sum().backward()
    assert seen == [2] and torch.equal(x.grad, torch.full((3,), 3.0))


# ---- leaves, contexts, operators of the user


def leaf_of_an_intermediate(x: torch.Tensor) -> Any:
    y = (x * 2).detach()
    y.requires_grad_()
    return y * 3, y


def leaf_from_a_factory(x: torch.Tensor) -> Any:
    w = torch.ones(4, requires_grad=True)
    return w * x, w


def leaf_of_an_input(x: torch.Tensor) -> Any:
    x.requires_grad = True
    return x * 3, x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [leaf_of_an_intermediate, leaf_from_a_factory, leaf_of_an_input])
def test_leaves_made_inside(function: Callable[..., Any], backend: str) -> None:
    seen = []
    for run in (function, stator.compile(function, backend=backend)):
        result, leaf = run(torch.arange(4.0))
        result.sum().backward()
        seen.append((result.detach(), leaf.is_leaf, leaf.grad))
    torch.testing.assert_close(seen[1], seen[0])


@torch.library.custom_op("stator_tests::scaled", mutates_args=())
def scaled(a: torch.Tensor, k: float) -> torch.Tensor:
    return a * k


@torch.library.custom_op("stator_tests::bump", mutates_args={"a"})
def bump(a: torch.Tensor) -> None:
    a.add_(1)


scaled.register_fake(lambda a, k: torch.empty_like(a))
scaled.register_autograd(
    lambda ctx, grad: (grad * ctx.k, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1])
)


def operators_of_the_user(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().clone()
    bump(y)
    return scaled(x, 2.0) + torch.ops.stator_tests.scaled(y, 3.0)


def under_contexts(x: torch.Tensor) -> torch.Tensor:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with torch.profiler.record_function("part"), sdpa_kernel([SDPBackend.MATH]):
        q = x.view(1, 1, 3, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    return y + 1


def known_values(x: torch.Tensor) -> torch.Tensor:
    span = torch.tensor(min(x.shape[0], 8)) - 1
    if span > 1:
        x = x * int(span)
    return x[:span] + span.item()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [operators_of_the_user, under_contexts, known_values])
def test_whole_with_gradients(function: Callable[..., Any], backend: str) -> None:
    inner, graphs = counting(None if backend == "eager" else backend)
    compiled = stator.compile(function, backend=inner, fullgraph=True)
    for x in (torch.linspace(-1, 2, 12).view(3, 4), torch.linspace(-3, 2, 12).view(3, 4)):
        torch.testing.assert_close(run_with_grads(compiled, x), run_with_grads(function, x))
    assert len(graphs) == 1


# A class of such values is of this metaclass before torch 2.12.
OPAQUE = type if _torch_versions.VERSION >= (2, 12) else importlib.import_module("torch._opaque_base").OpaqueBaseMeta


class Named(metaclass=OPAQUE):  # type: ignore[misc]
    """A value that an operator takes, of a class that torch is told of."""

    def __init__(self, name: str, more: tuple[int, ...] = ()) -> None:
        self.name, self.more = name, more

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return f"Named({self.name!r}, {self.more!r})", {"Named": Named}


@dataclasses.dataclass(frozen=True)
class Scale(metaclass=OPAQUE):  # type: ignore[misc]
    by: float

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return repr(self), {"Scale": Scale}


class Slotted(metaclass=OPAQUE):  # type: ignore[misc]
    __slots__ = ("by",)

    def __init__(self, by: float) -> None:
        self.by = by

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and self.by == other.by

    def __hash__(self) -> int:
        return hash(self.by)

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return f"Slotted({self.by!r})", {"Slotted": Slotted}


FACTORS = {"a": 2.0, "b": 3.0}
HELD: dict[str, Any] = {"named": Named("a")}


@functools.cache
def operators_of_values() -> bool:
    """False: torch does not know of such classes."""
    try:
        from torch._library.opaque_object import register_opaque_type
    except ImportError:
        return False
    for kind in (Named, Scale, Slotted):
        register_opaque_type(kind, typ="value")

    def by_name(x: torch.Tensor, name: Named) -> torch.Tensor:
        return x * FACTORS[name.name] + len(name.more)

    def by_scale(x: torch.Tensor, scale: Scale) -> torch.Tensor:
        return x * scale.by

    def by_slot(x: torch.Tensor, scale: Slotted) -> torch.Tensor:
        return x * scale.by

    for function in (by_name, by_scale, by_slot):
        function.__annotations__ = {
            name: {"Named": Named, "Scale": Scale, "Slotted": Slotted, "torch.Tensor": torch.Tensor}[kind]
            for name, kind in function.__annotations__.items()
        }
        operator = torch.library.custom_op(f"stator_tests::{function.__name__}", function, mutates_args=())
        operator.register_fake(lambda x, value: torch.empty_like(x))
    return True


def made_values(x: torch.Tensor) -> torch.Tensor:
    for name in FACTORS:
        x = torch.ops.stator_tests.by_name(x, Named(name, (x.shape[0],)))
    return torch.ops.stator_tests.by_scale(x, Scale(0.5))


def held_values(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.stator_tests.by_name(x + 1, HELD["named"])


def slotted_values(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.stator_tests.by_slot(x + 1, Slotted(2.0)) + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_values_that_operators_take(backend: str) -> None:
    if not operators_of_values():
        pytest.skip("this torch has none")
    inner, graphs = counting(None if backend == "eager" else backend)
    for function in (made_values, held_values):
        x = torch.ones(3)
        assert torch.equal(stator.compile(function, backend=inner, fullgraph=True)(x), function(x))
    assert len(graphs) == 2
    by_break = stator.compile(slotted_values, backend=inner)  # its state is not in a __dict__
    assert torch.equal(by_break(torch.ones(3)), slotted_values(torch.ones(3)))


def test_values_that_operators_take_are_guarded_by_what_they_hold() -> None:
    if not operators_of_values():
        pytest.skip("this torch has none")
    inner, graphs = counting()
    compiled = stator.compile(held_values, backend=inner, fullgraph=True)
    x, before = torch.ones(3), HELD["named"]
    try:
        # An equal one is as good; one with another name, with more in it, or changed in place is not.
        for value, captures in ((before, 1), (Named("a"), 1), (Named("b"), 2), (Named("b", (1,)), 3)):
            HELD["named"] = value
            assert torch.equal(compiled(x), held_values(x)) and len(graphs) == captures
        HELD["named"].name = "a"
        assert torch.equal(compiled(x), held_values(x)) and len(graphs) == 4
    finally:
        HELD["named"] = before


def test_context_left_by_a_break() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    seen = []

    def broken(x: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH), torch.profiler.record_function("part"):
            y = x * 2
            stator.graph_break()
            seen.append(torch._C._get_flash_sdp_enabled())
        return y + 1

    assert torch.equal(stator.compile(broken, backend="eager")(torch.ones(3)), torch.full((3,), 3.0))
    assert seen == [False] and torch._C._get_flash_sdp_enabled()


def test_methods_written_in_python_are_methods_in_the_graph() -> None:
    """As TorchDynamo has them; AOTAutograd's cache refuses graphs that call `Tensor.split` as a function."""
    backend, graphs = counting()

    def parts(x: torch.Tensor) -> torch.Tensor:
        return x.split(2, dim=1)[0] + x.norm() + x.unflatten(0, (2, 2)).sum()

    x = torch.randn(4, 4)
    torch.testing.assert_close(stator.compile(parts, backend=backend, fullgraph=True)(x), parts(x))
    methods = [node.target for node in graphs[0].graph.nodes if node.op == "call_method"]
    assert methods == ["split", "norm", "unflatten", "sum"]


def _gradients(run: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
    found = []
    for start in (1.0, 2.0):
        x = torch.full((4,), start, requires_grad=True)
        run(x).sum().backward()
        assert x.grad is not None
        found.append(x.grad)
    return found


def _hook_at_once(x: torch.Tensor) -> torch.Tensor:
    y = x.mul(2)
    factor = x.detach().sum()
    z = y * 1
    z.register_hook(lambda gradient: gradient * factor)
    z.register_hook(lambda gradient: None)
    z.register_hook(lambda gradient: gradient + 3)
    return z.mul(3) + z.sin()


def _hook_behind_a_use(x: torch.Tensor) -> torch.Tensor:
    y = x.mul(2)
    z = y.sin()
    y.register_hook(lambda gradient: gradient * 2)
    return y.mul(3) + z


@pytest.mark.parametrize("inner", [None, "aot_eager"])
@pytest.mark.parametrize("function, whole", [(_hook_at_once, True), (_hook_behind_a_use, False)])
def test_hooks_on_values_of_graphs(function: Any, whole: bool, inner: str | None) -> None:
    backend, graphs = counting(inner)
    compiled = stator.compile(function, backend=backend, fullgraph=whole)
    for expected, found in zip(_gradients(function), _gradients(compiled), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert graphs


def test_one_collection_frees_a_compiled_models_class() -> None:
    import gc
    import weakref

    import torch._dynamo  # noqa: F401  its eager backend keeps the module that FX made

    def make() -> weakref.ref[Any]:
        class Model(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x + 1

        stator.compile(Model(), backend="eager")(torch.ones(2))
        return weakref.ref(Model)

    gc.collect()
    left = make()
    gc.collect()
    assert left() is None


def test_memory_of_an_input():
    """untyped_storage() of an input: resized where the program does it, and the same object as eager's."""

    def f(x):
        y = torch.sin(x + 1)
        storage = x.untyped_storage()
        storage.resize_(0)
        return torch.cos(y), storage

    compiled = stator.compile(f, backend="eager", fullgraph="STATOR_BREAK_EVERY" not in os.environ)
    for _ in range(2):
        x = torch.randn(10)
        expected = torch.cos(torch.sin(x + 1))
        y, storage = compiled(x)
        torch.testing.assert_close(y, expected)
        assert storage is x.untyped_storage() and storage.size() == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_size_of_an_inputs_memory(backend):
    """untyped_storage().size() of an input is a guarded number, also in FSDP's functions that ask for it; behind a
    resize, and of tensors that the captured part has made, it is asked for outside of the graph."""
    flat_param = pytest.importorskip("torch.distributed.fsdp._flat_param")

    def compares(x):
        return x + 1 if x.untyped_storage().size() == 40 else x - 1

    def of_fsdp(x):
        if flat_param._storage_size_allocated(x) and flat_param._same_storage_size(x, 10):
            return x * 2
        return x * 3

    def resized(x):
        storage = x.untyped_storage()
        before = storage.nbytes()
        x.resize_(50)
        return before, storage.nbytes(), x.untyped_storage().size()

    def made(x):
        y, z = x[2:], x + 1
        return y.untyped_storage().size() // y.element_size(), z.untyped_storage().nbytes(), y + 1

    for program in (compares, of_fsdp, resized, made):
        compiled = stator.compile(program, backend=backend)
        for size in (10, 20, 10):
            for offset in (0, 3):
                one, other = (torch.arange(40.0)[offset : offset + size] for _ in range(2))
                assert repr(compiled(one)) == repr(program(other)) and torch.equal(one[:size], other[:size])
            one, other = torch.arange(float(size)), torch.arange(float(size))
            assert repr(compiled(one)) == repr(program(other))
    for program in (compares, of_fsdp):
        x = torch.arange(10.0)
        assert torch.equal(stator.compile(program, backend=backend, fullgraph=True)(x), program(x))
