"""Triton kernels of inductor's generated code, kept as what the driver loads: a start from the disk imports neither
Triton nor inductor.

torch launches such kernels itself (`torch._C._StaticCudaLauncher`); what inductor adds is a small function that
computes the grid. Both are kept. Of several configurations inductor times each at the first call: a graph is kept once
every kernel of it has one.
"""

import builtins
import functools
import os
import types
import weakref

import torch

from stator import _torch_versions

# ---- from the disk


class Kernel:
    """In the place of inductor's object for a kernel: generated code calls its `run`."""

    def __init__(self, facts, binary):
        self.run = types.FunctionType(facts["launcher"], {"runner": _runner(facts, binary)})


def _runner(facts, binary):
    file = os.memfd_create("kernel")  # the driver takes a path; nobody else can put another file there
    try:
        with open(file, "wb", closefd=False) as out:
            out.write(binary)
        loaded = torch._C._StaticCudaLauncher._load_kernel(
            f"/proc/self/fd/{file}", facts["name"], facts["shared"], facts["device"]
        )
    finally:
        os.close(file)
    function = _torch_versions.loaded_kernel(loaded)
    launch = torch._C._StaticCudaLauncher._launch_kernel
    warps, shared, kinds, unused = facts["warps"], facts["shared"], facts["kinds"], facts["unused"]

    def runner(x, y, z, stream, *arguments):
        launch(function, x, y, z, warps, shared, kinds, arguments + unused, stream)

    return runner


def aligned(call, checked, written):
    """inductor's code takes these inputs to begin at multiples of 16 bytes: those that do not are copied, and copied
    back where it writes."""

    def run(inputs):
        behind = []
        for i in checked:
            given = inputs[i]
            if given.data_ptr() % 16:
                inputs[i] = copy = _copy_of(given)
                if i in written:
                    behind.append((given, copy))
        outputs = call(inputs)
        for given, copy in behind:
            given.copy_(copy)
        return outputs

    return run


def _copy_of(given):
    """With the same strides."""
    needed = sum((size - 1) * stride for size, stride in zip(given.shape, given.stride(), strict=True)) + 1
    if given.numel() == 0:
        needed = 0
    flat = torch.as_strided(given, (needed,), (1,)).clone()
    return torch.as_strided(flat, given.size(), given.stride())


def devices():
    """What compiled kernels depend on, of the GPUs and of what compiles for them; None where this process uses none."""
    return _devices() if torch.cuda.is_initialized() else None


@functools.cache
def _devices():
    found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return [
        *((each.name, each.major, each.minor, each.multi_processor_count) for each in found),
        _torch_versions.triton_build(),
    ]


# ---- to the disk


def tuners(graph):
    """inductor's objects for the Triton kernels of a graph that was compiled in this process, by name."""
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    found = {}
    for module in PyCodeCache.modules:
        if graph.cache_key in module.__file__:
            for name, value in vars(module).items():
                if isinstance(value, CachingAutotuner):
                    found[name] = value
    return found


def is_settled(tuner):
    """Whether one configuration is left. Those of one are compiled now, if they were not."""
    if not tuner.launchers:
        tuner.precompile()
    return len(tuner.launchers) == 1


def facts_of(tuner):
    """(facts, binary) of a settled kernel; None: torch does not launch it by itself."""
    from torch._inductor.runtime.cache_dir_utils import triton_cache_dir

    launcher = tuner.launchers[0]
    kernel = getattr(launcher.__globals__.get("runner"), "__self__", None)
    plain = {"runner", *vars(builtins)}
    if not getattr(launcher, "_is_static", False) or kernel is None or not plain.issuperset(launcher.__code__.co_names):
        return None
    device = tuner.triton_meta["device"]
    device = device if isinstance(device, int) else device.index
    place = os.path.join(triton_cache_dir(device or 0), launcher.cache_hash, f"{kernel.name}.cubin")
    with open(place, "rb") as file:
        binary = file.read()
    unused = (None,) * (kernel.has_global_scratch + kernel.has_profile_scratch)
    return {
        "name": kernel.name,
        "shared": kernel.shared,
        "warps": kernel.num_warps,
        "kinds": kernel.arg_tys + "O" * len(unused),
        "unused": unused,
        "device": device or 0,
        "launcher": launcher.__code__,
    }, binary


_waiting: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # what is to be done once a kernel is settled


def when_settled(tuners, act):
    """Calls `act` once each of them has one configuration left, which is at the graph's first call."""
    left = weakref.WeakSet(tuners)

    def settled(tuner):
        left.discard(tuner)
        if not left:
            act()

    _watch_tuning()
    for tuner in list(left):
        _waiting.setdefault(tuner, []).append(settled)


@functools.cache
def _watch_tuning():
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    tune = CachingAutotuner.autotune_to_one_config

    @functools.wraps(tune)
    def tune_and_tell(self, *args, **kwargs):
        tune(self, *args, **kwargs)
        for settled in _waiting.pop(self, ()):
            settled(self)

    CachingAutotuner.autotune_to_one_config = tune_and_tell
