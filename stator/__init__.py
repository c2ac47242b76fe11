"""Stator captures PyTorch programs from Python bytecode into guarded graphs, in C++.

    model = stator.compile(model)

takes what torch.compile takes, and means the same. See docs/ and https://pytorch.org for backends.
"""

import sys as _sys

import torch as _torch


def _check_build():
    """The binary knows CPython's frames and calls libtorch: it fits the versions that it was built with, and no
    others."""
    python = f"{_sys.version_info[0]}.{_sys.version_info[1]}"
    if _sys.implementation.name != "cpython" or not (3, 11) <= _sys.version_info[:2] <= (3, 13):
        raise ImportError(f"stator knows CPython 3.11 to 3.13, and this is {_sys.implementation.name} {python}")
    if "t" in getattr(_sys, "abiflags", ""):
        raise ImportError("stator does not know free-threaded builds of CPython: use one with the interpreter lock")
    try:
        from stator import _build_info as built
    except ImportError:
        raise ImportError(
            "stator._core has not been built: run `make build` in the checkout, or install a wheel"
        ) from None
    if python != built.PYTHON:
        raise ImportError(
            f"this build of stator is for CPython {built.PYTHON}, and this is {python}: build it again here"
        )
    torch_minor = ".".join(str(_torch.__version__).split("+")[0].split(".")[:2])
    if torch_minor != built.TORCH:
        raise ImportError(
            f"this build of stator is for torch {built.TORCH} (built with {built.TORCH_FULL}), and torch {_torch.__version__} is "
            "installed: install that torch, or build stator again here"
        )


_check_build()

from stator import _core, _loaded, config, exc  # noqa: E402, F401
from stator._compile import compile, compile_module_inplace, reset  # noqa: E402, F401
from stator._modules import CompiledModule, OptimizedModule  # noqa: E402, F401

# The other public names, by the module that has them: it is imported when one of them is asked for. A start needs none
# of them.
_LATER = {
    "_ahead": "load_compiled_function",
    "_backends": "list_backends lookup_backend register_backend",
    "_comptime": "comptime",
    "_explain": "dry_run explain",
    "_export": "export",
    "_guards": "guards",
    "_install": "install installed optimize optimize_assert uninstall",
    "_marks": "mark_dynamic mark_static mark_static_address mark_unbacked maybe_mark_dynamic",
    "_observe": "on_graph reset_stats stats",
    "recording": "report",
    "_ranks": "set_compile_group set_enable_guard_collectives",
    "_saved": "load save",
    "debug._record": "replay",
    "_switches": "allow_in_graph assume_constant_result disable disallow_in_graph dont_skip_tracing error_on_graph_break forbid_in_graph "
    "graph_break is_compiling nonstrict_trace run set_stance skip skip_frame substitute_in_graph",
}
_HOMES = {name: home for home, names in _LATER.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = sorted(
    ["CompiledModule", "OptimizedModule", "compile", "compile_module_inplace", "config", "exc", "reset", *_HOMES]
)

config._connect(_core.set_config)


def _follow_torch(dynamo):
    from stator import _torch_switches

    _torch_switches.follow(dynamo)


_loaded.when_loaded("torch._dynamo", _follow_torch)


def __getattr__(name):
    home = "debug" if name == "debug" else _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stator' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"stator.{home}")
    value = globals()[name] = module if name == "debug" else getattr(module, name)
    return value


def __dir__():
    return sorted({*globals(), *__all__, "debug"})
