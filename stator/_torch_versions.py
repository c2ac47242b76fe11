"""What torch has under other names in some of its versions. Nothing else in this package depends on torch's version; in
C++, `src/tensor/` alone does."""

import contextvars
import importlib.util
import os
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from stator._loaded import loaded

VERSION = tuple(int(part) for part in str(torch.__version__).split("+")[0].split(".")[:2])
# docs/NAMES.md and docs/SEEDS.md are about this torch. Others have fewer names, and TorchDynamo does some things
# differently there.
DESCRIBED = (2, 13)
# torch's UserError is one of its Unsupported before torch 2.12.
USER_ERRORS_ARE_UNSUPPORTED = VERSION < (2, 12)


def __getattr__(name: str) -> Any:
    if name == "has_guarding_hint":  # has_hint before torch 2.12
        from torch.fx.experimental import symbolic_shapes

        return getattr(symbolic_shapes, name, None) or symbolic_shapes.has_hint  # type: ignore[attr-defined]
    raise AttributeError(name)


def user_setting(entry: Any) -> Any:
    """A function that gives what the user has set an entry of torch's configurations to, or torch's mark for nothing.
    A context variable from torch 2.12 on, an attribute before."""
    given = entry.user_override
    return given.get if isinstance(given, contextvars.ContextVar) else lambda: entry.user_override


def inductor_with(kind: Any, mode: Any, options: Any, dynamic: Any, region: Any) -> Any:
    """torch's object for inductor with its configuration. Regions have no names before torch 2.13."""
    arguments = (mode, options, dynamic, region)
    return kind(*arguments[: kind.__init__.__code__.co_argcount - 1])


def default_backend(registry: Any) -> Any:
    """The backend that torch.compiler.set_default_backend named, from torch's registry; inductor before there was that
    function (2.13)."""
    return getattr(registry, "_default_backend", "inductor")


def record_metrics(values: dict[str, Any]) -> None:
    """For torch._dynamo.utils.get_compilation_metrics(), where somebody has loaded it. Fields differ between versions
    of torch."""
    theirs = loaded("torch._dynamo.utils")
    if theirs is not None:
        kind = theirs.CompilationMetrics
        theirs._compilation_metrics.append(kind(**{k: v for k, v in values.items() if k in kind.__dataclass_fields__}))


def subclass_context(parts: dict[str, Any], inner: dict[str, Any], tracks_outer: bool) -> Any:
    """What is known of the sizes of a tensor and of those that it is made of. Before torch 2.13 the outer sizes are
    always symbols."""
    from torch.fx.experimental import symbolic_shapes

    kind = symbolic_shapes.SubclassSymbolicContext
    if "track_outer_size_stride" in kind.__dataclass_fields__:
        return kind(**parts, inner_contexts=inner, track_outer_size_stride=tracks_outer)
    return kind(**parts, inner_contexts=inner)


def _mentions(code: types.CodeType, word: str) -> bool:
    """Whether a function of torch's has this name or constant in it, or in a function of its own."""
    return word in code.co_names or word in code.co_consts or any(_mentions(each, word) for each in _inside(code))


def _inside(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def scan_restores_dim() -> bool:
    """Whether scan() gives results with the scanned dim in its place. Before torch 2.13 it is the first one."""
    from torch._higher_order_ops import scan

    return any(_mentions(each, "movedim") for each in _inside(scan.__code__))


def functions_may_write() -> bool:
    """Whether torch's operator for autograd functions knows of inputs that forward() writes to. Before torch 2.13 it
    takes no notice."""
    from torch._functorch.autograd_function import AutogradFunctionApply

    return _mentions(AutogradFunctionApply.__call__.__code__, "dirty_idx")


def jacobian_rows(transform: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Sequence[Sequence[Any]]:
    """For each result of the function its derivatives by each operand. Before torch 2.13 the transforms read data where
    there are several of what they make a basis for (results for jacrev, operands for jacfwd), which a capture cannot:
    they are given one at a time."""
    from torch._functorch import eager_transforms

    every = tuple(range(len(operands)))
    if not _mentions(eager_transforms._chunked_standard_basis_for_.__code__, "cumsum"):
        return transform(function, argnums=every)(*operands)
    if transform is torch.func.jacfwd:
        return list(zip(*[transform(function, argnums=number)(*operands) for number in every], strict=True))
    results: list[Any] = []

    def result(number: int) -> Callable[..., Any]:
        def one(*chosen: Any) -> Any:
            results[:] = function(*chosen)
            return results[number]

        return one

    rows = [transform(result(0), argnums=every)(*operands)]
    rows += [transform(result(number), argnums=every)(*operands) for number in range(1, len(results))]
    return rows


def is_idle_wrapper(function: Any) -> bool:
    """Whether a function that AOTAutograd puts around inductor's has nothing to do. From torch 2.13 on such functions
    are left out."""
    code = getattr(function, "__code__", None)
    if code is None or not function.__closure__:
        return False
    cells = {name: cell.cell_contents for name, cell in zip(code.co_freevars, function.__closure__, strict=True)}
    if code.co_qualname.startswith("EffectTokensWrapper.post_compile.<locals>."):
        return cells.get("num_tokens") == 0
    if code.co_qualname.startswith("FunctionalizedRngRuntimeWrapper.post_compile.<locals>."):
        return "runtime_metadata" in cells and not cells["runtime_metadata"].is_rng_op_functionalized
    return False


def tuning_is_open(graph: Any) -> bool:
    """Whether what was found out in tuning is still gathered for a graph of inductor's; its first call ends that. One
    for all graphs before torch 2.13."""
    if hasattr(graph, "_compile_context"):
        return graph._compile_context is not None
    from torch._inductor.runtime.autotune_cache import AutotuneCacheBundler

    return getattr(AutotuneCacheBundler, "_bundler", None) is not None


def has_tangent(output: Any) -> bool:
    """Whether AOTAutograd's backward is given a gradient of this output. Before torch 2.13 of every one that requires
    grad."""
    return getattr(output, "requires_grad_for_backward", output.requires_grad)


def loaded_kernel(loaded: tuple[int, ...]) -> int:
    """The function of a kernel that the driver has loaded. From torch 2.12 on its module stands before it."""
    return loaded[-3]


def triton_build() -> str | None:
    """Which Triton is installed, without importing it."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    facts = os.stat(spec.origin)
    return f"{spec.origin} {facts.st_size} {facts.st_mtime_ns}"
