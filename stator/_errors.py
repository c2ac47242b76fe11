"""Errors of tensor operations whose arguments do not fit, as eager has them: asked of the operation itself, on tensors
of zeros."""

from __future__ import annotations

import warnings

import torch


def zeros(size, stride, dtype, requires_grad, is_leaf, is_parameter):
    """A tensor of these facts, on the CPU."""
    with torch.inference_mode(False), torch.no_grad():
        tensor = torch.empty_strided(size, stride, dtype=dtype)
        tensor.untyped_storage().fill_(0)  # its elements may share memory
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    if requires_grad:
        tensor.requires_grad_()
        if not is_leaf:
            with torch.enable_grad():
                tensor = tensor.clone()
    return tensor


def raised(target, args, kwargs, grad_enabled):
    """The exception; None: it does not raise, or not for reasons of its arguments alone, or a warning comes before it,
    which is due at each call."""
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # what warns once has not done so by being asked here
    try:
        with warnings.catch_warnings(record=True) as warned, torch.set_grad_enabled(grad_enabled):
            warnings.simplefilter("always")
            if isinstance(target, str):
                getattr(args[0], target)(*args[1:], **kwargs)
            else:
                target(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if type(error).__module__ != "builtins" or warned:
            return None
        # CPython's own words for a method name the class that it was looked up on: that of the tensor where it was
        # bound before, and another where the call finds it. Which of the two is not known here.
        if not (isinstance(target, str) and str(error).startswith(f"{type(args[0]).__name__}.{target}()")):
            return error.with_traceback(None)
    finally:
        torch.set_warn_always(always)
    return None
