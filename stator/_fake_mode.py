"""FakeTensors without TorchDynamo, for shape inference.

torch's FakeTensor reads three of TorchDynamo's settings, and functions that it calls are marked as not to be compiled
by it. For that torch imports all of TorchDynamo, which takes most of a second, at the first call that no rule of ours
knows. As long as nobody has imported it, the settings are what they begin with and the marks mean nothing; once
somebody does, all is as torch has it.
"""

import builtins
import functools
import importlib
import os
import sys
import types

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from stator._loaded import when_loaded


class _Settings:
    fake_tensor_cache_enabled = os.environ.get("TORCH_FAKE_TENSOR_DISPATCH_CACHE", "1") == "1"
    fake_tensor_cache_crosscheck_enabled = os.environ.get("TORCH_FAKE_TENSOR_DISPATCH_CACHE_CROSSCHECK", "0") == "1"
    _custom_ops_profile = None

    def __getattr__(self, name):  # whatever else is asked for takes TorchDynamo itself
        return getattr(importlib.import_module("torch._dynamo.config"), name)


class _Dynamo:
    config = _Settings()

    def __getattr__(self, name):
        return getattr(importlib.import_module("torch._dynamo"), name)


_MARK = "__dynamo_disable"  # where torch keeps what TorchDynamo makes of a marked function
_HOMES = ("torch._refs", "torch._decomp", "torch._prims", "torch._meta_registrations")


class _Torch(types.ModuleType):
    """torch as FakeTensor's own module sees it."""

    _dynamo = _Dynamo()

    def __getattr__(self, name):
        return getattr(torch, name)


_torch = _Torch("torch")


def _import(name, *rest):
    found = builtins.__import__(name, *rest) if name != "torch._dynamo.config" else _torch
    return _torch if found is torch else found


def _marked():
    """The functions behind torch's marks, of those that FakeTensors call."""
    marking = torch._disable_dynamo(_import).__code__
    homes = [module for name, module in list(sys.modules.items()) if name.startswith(_HOMES)]
    waiting = [FakeTensorMode.__torch_dispatch__, *(value for home in homes for value in vars(home).values())]
    seen, found = set(), []
    while waiting:
        function = waiting.pop()
        if not isinstance(function, types.FunctionType) or function in seen:
            continue
        seen.add(function)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        inside = [cell.cell_contents for name, cell in cells.items() if name == "fn"]
        if function.__code__ is marking:
            found += [inner for inner in inside if not hasattr(inner, _MARK)]
        waiting += inside
    return found


@functools.cache
def _do_without():
    """Nothing is imported for a mark. False: TorchDynamo is there, or about to be."""
    if "torch._dynamo" in sys.modules:
        return False
    marked = _marked()

    def undo(_):
        fake_tensor.torch = torch
        for function in marked:
            vars(function).pop(_MARK, None)

    fake_tensor.torch = _torch
    for function in marked:
        setattr(function, _MARK, function)
    when_loaded("torch._dynamo", undo)
    return True


def make():
    """A mode for static sizes."""
    if not _do_without() or fake_tensor.torch is torch:
        return FakeTensorMode(static_shapes=True)
    begin = FakeTensorMode.__init__
    world = {**vars(fake_tensor), "__builtins__": {**vars(builtins), "__import__": _import}}
    quiet = types.FunctionType(begin.__code__, world, begin.__name__, begin.__defaults__, begin.__closure__)
    quiet.__kwdefaults__ = begin.__kwdefaults__
    mode = FakeTensorMode.__new__(FakeTensorMode)  # the very class: rules of higher-order operators ask for it
    quiet(mode, static_shapes=True)
    return mode
