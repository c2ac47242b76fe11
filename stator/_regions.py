"""Regions: what of a backend's answer an entry's plan calls. Finding and cutting them is C++ (src/regions/)."""

import torch

from stator import _torch_versions
from stator._loaded import loaded

# What torch puts around inductor's code for inference. Without mutated or aliased inputs and outputs none of them has
# anything to do but to switch off grad mode and autocast.
_IDLE = (
    "aot_module_simplified.<locals>.forward",
    "SerializableCompiledFunction",
    "_create_runtime_wrapper.<locals>.runtime_wrapper",
)


def innermost(compiled, outputs):
    """inductor's own callable in `compiled`, which takes a list and gives this many outputs; None: it has none, or more
    is around it.

    For a region without gradients, mutated inputs and aliases.
    """
    output_code = loaded("torch._inductor.output_code")
    if output_code is None or torch._C._is_any_autocast_enabled():
        return None
    while hasattr(compiled, "__wrapped__"):
        name = getattr(compiled, "__qualname__", type(compiled).__qualname__)
        if name not in _IDLE and not _torch_versions.is_idle_wrapper(compiled):
            return None
        compiled = compiled.__wrapped__
    if type(compiled) is not output_code.CompiledFxGraph or len(compiled.output_strides or ()) != outputs:
        return None
    # A bundle of tuning results that is open yet is closed by the first call.
    return compiled if _torch_versions.tuning_is_open(compiled) else compiled.current_callable
