"""Errors of tensor operations whose arguments do not fit, as eager has them: asked of the operation itself, on tensors of zeros."""

from __future__ import annotations

import torch


def zeros(size, stride, dtype, requires_grad, is_leaf):
    """A tensor of these facts, on the CPU."""
    with torch.inference_mode(False), torch.no_grad():
        tensor = torch.empty_strided(size, stride, dtype=dtype).zero_()
    if requires_grad:
        tensor.requires_grad_()
        if not is_leaf:
            with torch.enable_grad():
                tensor = tensor.clone()
    return tensor


def raised(target, args, kwargs):
    """The exception; None: it does not raise, or not for reasons of its arguments alone."""
    try:
        if isinstance(target, str):
            getattr(args[0], target)(*args[1:], **kwargs)
        else:
            target(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if type(error).__module__ == "builtins":
            return error.with_traceback(None)
    return None
