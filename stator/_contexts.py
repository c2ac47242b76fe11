"""States of torch that a graph sets for a part of itself, where torch has no pair of functions for it."""

from __future__ import annotations

from typing import Any


def enter_sdpa(backends: tuple[int, ...], set_priority: bool) -> Any:
    from torch.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, _sdpa_kernel

    before = _cur_sdpa_kernel_backends(with_priority=set_priority)
    _sdpa_kernel([SDPBackend(number) for number in backends], set_priority)
    return before, set_priority


def leave_sdpa(token: Any) -> None:
    from torch.nn.attention import _sdpa_kernel

    _sdpa_kernel(*token)


def enter_torch_function_off(state: int) -> Any:
    import torch

    guard = torch._C.DisableTorchFunctionSubclass() if state == 1 else torch._C.DisableTorchFunction()
    guard.__enter__()
    return guard


def leave_torch_function_off(guard: Any) -> None:
    guard.__exit__(None, None, None)


def set_data(tensor, value):
    """`tensor.data = value` as a node."""
    tensor.data = value


def mark_hooks(message: str) -> None:
    """Where a context manager for saved-tensor hooks is made, in a trace: the graph shows its beginning there."""


class Restore:
    """Sets a state back when a graph fails that has changed it; called with the value of the node that did."""

    __slots__ = ("args", "function")

    def __init__(self, function: Any, args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args

    def __call__(self, _value: Any) -> None:
        self.function(*self.args)
