"""Classes of TorchDynamo's that user code names: `except Unsupported:` and `isinstance(m,
torch._dynamo.eval_frame.OptimizedModule)` mean Stator's too, from install() until uninstall().

An exception is caught by the classes that it is made of, and user code may have imported those before: Stator's get
TorchDynamo's of the same names as further bases. A compiled module must not get the methods of TorchDynamo's
OptimizedModule: there the question alone is answered, for code that asks by the name. (A reference to that class from
before install() knows TorchDynamo's alone.)
"""

from __future__ import annotations

import contextlib
from types import ModuleType
from typing import Any

from stator import exc
from stator._modules import CompiledModule


def join_errors(undo: contextlib.ExitStack, theirs: ModuleType) -> None:
    """Stator's exceptions are TorchDynamo's of the same names too."""
    pairs: dict[type, type] = {}
    for name in ("TorchDynamoException", *exc.__all__):
        own, other = getattr(exc, name), getattr(theirs, name, None)
        if isinstance(own, type) and issubclass(own, BaseException) and isinstance(other, type) and own is not other:
            pairs.setdefault(own, other)
    # Bases before what is made of them.
    for own in sorted(pairs, key=lambda one: len(one.__mro__)):
        before, other = own.__bases__, pairs[own]
        if other in own.__mro__ or own in other.__mro__:
            continue
        own.__bases__ = (*before, other)
        undo.callback(setattr, own, "__bases__", before)


class _Answers(type):
    """Of the class that stands for TorchDynamo's OptimizedModule while Stator is installed: compiled modules of both
    are its instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (CompiledModule, cls.__bases__[0]))

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, (CompiledModule, cls.__bases__[0]))


def standing_for(theirs: type) -> type:
    """torch._dynamo.eval_frame makes modules of this class by its name, and libraries ask for it by that name."""
    names = {"__module__": theirs.__module__, "__qualname__": theirs.__qualname__, "__doc__": theirs.__doc__}
    return _Answers(theirs.__name__, (theirs,), names)
