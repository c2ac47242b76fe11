"""What the graph calls for torch.func's transforms: the transform of a captured function (a module over tensors, giving
a tuple)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch

from stator import _torch_versions


def stack_text() -> str:
    """The transforms under way, outermost first, as compare_functorch_state takes them."""
    from torch._functorch import pyfunctorch

    return repr([interpreter.get_state() for interpreter in pyfunctorch.retrieve_all_functorch_interpreters()])


def put_aside() -> list[Any]:
    """Takes the transforms under way from their stack, for bring_back."""
    from torch._C import _functorch

    layers = []
    while _functorch.peek_interpreter_stack() is not None:
        layers.append(_functorch.pop_dynamic_layer_stack())
    return layers


def bring_back(layers: list[Any]) -> None:
    from torch._C import _functorch

    while layers:
        _functorch.push_dynamic_layer_stack(layers.pop())


def refused() -> str:
    """The name of the innermost transform under way that a backend which compiles graphs cannot be called inside of;
    empty if there is none. Functionalizing runs what it is given: what a backend makes of a graph it can run too."""
    from torch._C import _functorch
    from torch._functorch import pyfunctorch

    for interpreter in reversed(pyfunctorch.retrieve_all_functorch_interpreters()):
        if interpreter.key() != _functorch.TransformType.Functionalize:
            return f"torch.func.{interpreter.key().name.lower()}"
    return ""


def vmap(
    module: Callable[..., Any],
    in_dims: tuple[int | None, ...],
    out_dims: tuple[int | None, ...],
    randomness: str,
    chunk_size: int | None,
    *operands: torch.Tensor,
) -> Any:
    batched = torch.func.vmap(module, in_dims, cast(Any, out_dims), randomness, chunk_size=chunk_size)
    return tuple(batched(*operands))


def _of(module: Callable[..., Any], positions: tuple[int, ...], operands: tuple[Any, ...]) -> Callable[..., Any]:
    """The module as a function of the operands at these positions."""

    def function(*chosen: torch.Tensor) -> Any:
        given = list(operands)
        for position, tensor in zip(positions, chosen, strict=True):
            given[position] = tensor
        return tuple(module(*given))

    return function


def grad_and_value(module: Callable[..., Any], positions: tuple[int, ...], *operands: torch.Tensor) -> Any:
    function = _of(module, positions, operands)

    def first(*chosen: torch.Tensor) -> Any:
        output, *aux = function(*chosen)
        return output, tuple(aux)

    numbers = tuple(range(len(positions)))
    transformed = torch.func.grad_and_value(first, argnums=numbers, has_aux=True)
    grads, (value, aux) = transformed(*[operands[position] for position in positions])
    return (*grads, value, *aux)


def jvp(module: Callable[..., Any], count: int, given: int, *operands: torch.Tensor) -> Any:
    """The first `count` results of the function, their products with the tangents, and the other results."""
    primals, tangents, extras = operands[:given], operands[given : 2 * given], operands[2 * given :]

    def first(*tensors: torch.Tensor) -> Any:
        results = tuple(module(*tensors, *extras))
        return results[:count], results[count:]

    outputs, directions, aux = cast(Any, torch.func.jvp)(first, primals, tangents, has_aux=True)
    return (*outputs, *directions, *aux)


def vjp_outputs(module: Callable[..., Any], count: int, given: int, *operands: torch.Tensor) -> Any:
    """What the function itself gives, as torch.func.vjp hands it on."""
    primals, extras = operands[:given], operands[given:]

    def first(*tensors: torch.Tensor) -> Any:
        results = tuple(module(*tensors, *extras))
        return results[:count], results[count:]

    outputs, _, aux = cast(Any, torch.func.vjp)(first, *primals, has_aux=True)
    return (*outputs, *aux)


def vjp(module: Callable[..., Any], count: int, given: int, *operands: torch.Tensor) -> Any:
    """The gradients of the primals; the last `count` operands are the vectors."""
    primals, extras, vectors = (
        operands[:given],
        operands[given : len(operands) - count],
        operands[len(operands) - count :],
    )
    _, product = cast(Any, torch.func.vjp)(lambda *tensors: tuple(module(*tensors, *extras))[:count], *primals)
    return tuple(product(tuple(vectors)))


def _jacobian(transform: Any, module: Callable[..., Any], positions: tuple[int, ...], operands: Any) -> Any:
    chosen = [operands[position] for position in positions]
    rows = _torch_versions.jacobian_rows(transform, _of(module, positions, operands), chosen)
    return tuple(entry for row in rows for entry in row)


def jacrev(module: Callable[..., Any], positions: tuple[int, ...], *operands: torch.Tensor) -> Any:
    return _jacobian(torch.func.jacrev, module, positions, operands)


def jacfwd(module: Callable[..., Any], positions: tuple[int, ...], *operands: torch.Tensor) -> Any:
    return _jacobian(torch.func.jacfwd, module, positions, operands)


def one_round(test: Any, body: Callable[..., Any], carried: tuple[Any, ...], extras: tuple[Any, ...]) -> Any:
    """What a loop gives looks like what one round of it gives."""
    return tuple(body(*carried, *extras))


def product(func: Any, has_aux: bool, primals: Any, parts: Any, cotangents: Any) -> Any:
    """What vjp's second result does where the real interpreter comes to it; traces have polyfills.transforms._product
    in its place."""
    return torch.func.vjp(func, *primals, has_aux=has_aux)[1](cotangents)


def jacobian(which: Any, func: Any, argnums: Any, has_aux: bool, args: Any, kwargs: Any) -> Any:
    """The same for jacrev and jacfwd: polyfills.transforms._jacobian."""
    transform: Any = torch.func.jacrev if which is jacrev else torch.func.jacfwd
    return transform(func, argnums, has_aux=has_aux)(*args, **kwargs)
