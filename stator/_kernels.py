"""Triton kernels that a program launches itself: in a graph a launch is a call of `launch`, which torch's own tracing
turns into its operator for kernels (so that inductor sees it), and which otherwise launches the kernel."""

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


def _jitted(kernel):
    """The kernel itself, inside of what chooses its configuration and arguments."""
    while not hasattr(kernel, "create_binder") and hasattr(getattr(kernel, "fn", None), "run"):
        kernel = kernel.fn
    return kernel


def kind_of(kernel):
    """How graphs can have its launches. Hooks that run before a launch are not in torch's operator for kernels."""
    for config in getattr(kernel, "configs", ()):
        if config.pre_hook is not None:
            return "outside"
    if getattr(kernel, "reset_to_zero", None) or getattr(kernel, "restore_value", None):
        return "outside"
    # TRITON_INTERPRET=1: runs on data alone.
    return "compiled" if hasattr(_jitted(kernel), "create_binder") else "interpreted"


def configurations(kernel):
    """The arguments that each configuration of an autotuned kernel gives, as (name, value) pairs; none for others."""
    return tuple(tuple(config.all_kwargs().items()) for config in getattr(kernel, "configs", ()))


configurations._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _chosen(kernel, grids):
    """A grid by the configuration that is tried or was chosen, from those computed at capture."""

    def grid(meta):
        for config, found in zip(kernel.configs, grids, strict=True):
            if all(name in meta and meta[name] == value for name, value in config.kwargs.items()):
                return found
        raise RuntimeError(f"{kernel} has a configuration that it did not have at capture")

    return grid


def launch(number, grid, args, kwargs):
    """`grid`: a tuple of sizes, or a list of such for the configurations of an autotuned kernel."""
    kernel = _kernels[number]
    if isinstance(grid, list):
        grid = _chosen(kernel, grid)
    if kind_of(kernel) == "interpreted":
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        if any(type(tensor) is not torch.Tensor and hasattr(tensor, "fake_mode") for tensor in tensors):
            return None  # what it computes is not asked for
        kernel[grid](*args, **kwargs)
        return None
    torch.library.wrap_triton(kernel)[grid](*args, **kwargs)
    return None
