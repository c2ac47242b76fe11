"""How a call looks to __torch_function__: which function, and which arguments, torch hands to it. Asked of torch
itself, with tensors of a subclass that only listens in the places of those that have a __torch_function__."""

import torch
from torch.overrides import TorchFunctionMode


class _Heard(BaseException):
    """Ends the call as soon as it has come to __torch_function__; no `except Exception` stops it."""


def _hear(func, args, kwargs):
    raise _Heard(func, args, kwargs or {})


class Listener(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        _hear(func, args, kwargs)


class ListenerObject:
    """In the place of an object that is no tensor."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        _hear(func, args, kwargs)


class _ListenerMode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        _hear(func, args, kwargs)


def tensor(dims, dtype, listens):
    """A stand-in's stand-in."""
    made = torch.empty((1,) * dims, dtype=dtype, device="meta")
    return made.as_subclass(Listener) if listens else made


def spell(function, args, kwargs, by_mode):
    """(func, args, kwargs) as torch passes them on, or None if it does not ask."""
    try:
        if by_mode:
            with _ListenerMode():
                function(*args, **kwargs)
        else:
            function(*args, **kwargs)
    except _Heard as heard:
        return heard.args
    except Exception:
        return None
    return None


def device_constructors():
    from torch.utils._device import _device_constructors

    return frozenset(_device_constructors())
