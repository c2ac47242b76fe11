"""Triton kernels that a program launches itself: in a graph a launch is a call of `launch`, which torch's own tracing turns into its operator for
kernels (so that inductor sees it), and which otherwise launches the kernel."""

from typing import Any

import torch

_kernels: list[Any] = []


def number_of(kernel):
    """By which graphs name the kernel: they hold numbers, not objects of libraries."""
    for number, known in enumerate(_kernels):
        if known is kernel:
            return number
    _kernels.append(kernel)
    return len(_kernels) - 1


# Asked for at capture; the kernel is guarded as whatever else the program reads.
number_of._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_interpreted(kernel):
    """TRITON_INTERPRET=1: runs on data alone."""
    return not hasattr(kernel, "create_binder")


def launch(number, grid, args, kwargs):
    kernel = _kernels[number]
    if is_interpreted(kernel):
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        if any(type(tensor) is not torch.Tensor and hasattr(tensor, "fake_mode") for tensor in tensors):
            return None  # what it computes is not asked for
        kernel[grid](*args, **kwargs)
        return None
    torch.library.wrap_triton(kernel)[grid](*args, **kwargs)
    return None
