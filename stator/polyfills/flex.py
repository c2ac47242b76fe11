"""flex_attention as one call: in eager code it compiles itself, so a break may not leave it half way. Loaded when
torch's module is."""

import types

from torch.nn.attention import flex_attention as _module

_original = _module.flex_attention
_traced = types.FunctionType(
    _original.__code__, _original.__globals__, "flex_attention", _original.__defaults__, _original.__closure__
)
_traced.__kwdefaults__ = _original.__kwdefaults__


def flex_attention(*args, **kwargs):
    return _traced(*args, **kwargs)
