"""States of torch that a graph sets for a part of itself, where torch has no pair of functions for it."""

from __future__ import annotations

from typing import Any

from stator import _core


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


def get_deterministic() -> tuple[bool, bool]:
    import torch

    return torch._C._get_deterministic_algorithms(), torch._C._get_deterministic_algorithms_warn_only()


def set_deterministic(state: tuple[bool, bool]) -> None:
    import torch

    torch._C._set_deterministic_algorithms(state[0], warn_only=state[1])


def empty_parameter(size, stride, dtype, device):
    """A parameter whose data is still to come (`fill_parameter`)."""
    import torch

    return torch.nn.Parameter(torch.empty_strided(size, stride, dtype=dtype, device=device))


def fill_parameter(parameter, data):
    """The data comes into a parameter that is made in a graph: no write that autograd counts."""
    import torch

    if type(parameter) is torch.nn.Parameter:
        parameter.data.copy_(data.detach())
        return
    with torch.no_grad():
        parameter.copy_(data)


def filled(parameter, data):
    """What fill_parameter gives, without the copy."""


def set_data(tensor, value):
    """`tensor.data = value` as a node."""
    tensor.data = value


def data_of(tensor):
    """`tensor.data` in a graph that a backend may trace: writes to it are none that autograd counts."""
    import weakref

    import torch

    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        _not_counted[id(tensor)] = weakref.ref(tensor)
        return tensor.data
    return tensor.detach()


_not_counted: dict[
    int, Any
] = {}  # weak references to tensors whose data a graph that ran as it is has set or asked for


def set_traced_data(tensor, value):
    """The same for an input of a graph that a backend traces, with `set_`, which it knows how to do to the real tensor
    behind the graph. That counts as a write there. Where the backend runs the graph as it is, none is counted, and none
    is to be taken back."""
    import weakref

    import torch

    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        tensor.data = value
        _not_counted[id(tensor)] = weakref.ref(tensor)
        return
    with torch.no_grad():
        tensor.set_(value.detach())


def uncount_write(tensor):
    """Behind set_traced_data: to set `data` is no write that autograd counts. A backend that saw that the data is there
    already counts none."""
    import torch

    held = _not_counted.pop(id(tensor), None)
    if (held is None or held() is not tensor) and tensor._version > 0:
        torch._C._autograd._unsafe_set_version_counter((tensor,), (tensor._version - 1,))


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


# Hooks on tensors are registered when the graph has run; the handle that the program has got by then is filled.


def empty_handle() -> Any:
    from torch.utils.hooks import RemovableHandle

    return RemovableHandle.__new__(RemovableHandle)


def register_hook(tensor: Any, hook: Any, handle: Any) -> None:
    import torch

    handle.__dict__.update(torch.Tensor.register_hook(tensor, hook).__dict__)


def register_accumulated_hook(tensor: Any, hook: Any, handle: Any) -> None:
    import torch

    handle.__dict__.update(torch.Tensor.register_post_accumulate_grad_hook(tensor, hook).__dict__)


def remove_hook(handle: Any) -> None:
    handle.remove()


# What graphs and plans ask a tensor for its memory.
read_storage = _core.CompiledFunction(lambda tensor: tensor.untyped_storage(), None)
read_storage_size = _core.CompiledFunction(lambda tensor: tensor.untyped_storage().nbytes(), None)
