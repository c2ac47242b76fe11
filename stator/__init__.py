"""Stator captures PyTorch programs from Python bytecode into guarded graphs, in C++.

    model = stator.compile(model)

takes what torch.compile takes, and means the same. See docs/ and https://pytorch.org for backends.
"""

import sys as _sys

import torch as _torch


def _check_build():
    """The binary knows CPython's frames and calls libtorch: it fits the versions that it was built with, and no others."""
    if "t" in getattr(_sys, "abiflags", ""):
        raise ImportError("stator does not know free-threaded builds of CPython: use one with the interpreter lock")
    try:
        from stator import _build_info as built
    except ImportError:
        raise ImportError(
            "stator._core has not been built: run `make build` in the checkout, or install a wheel"
        ) from None
    python = f"{_sys.version_info[0]}.{_sys.version_info[1]}"
    if python != built.PYTHON or _sys.implementation.name != "cpython":
        raise ImportError(
            f"this build of stator is for CPython {built.PYTHON}, and this is {_sys.implementation.name} {python}: build it again here"
        )
    torch_minor = ".".join(str(_torch.__version__).split("+")[0].split(".")[:2])
    if torch_minor != built.TORCH:
        raise ImportError(
            f"this build of stator is for torch {built.TORCH} (built with {built.TORCH_FULL}), and torch {_torch.__version__} is "
            "installed: install that torch, or build stator again here"
        )


_check_build()

from stator import _core, config, exc  # noqa: E402
from stator._backends import list_backends, lookup_backend, register_backend  # noqa: E402
from stator._compile import compile, compile_module_inplace, reset  # noqa: E402
from stator._explain import explain  # noqa: E402
from stator._export import export  # noqa: E402
from stator._guards import guards  # noqa: E402
from stator._install import install, installed, optimize, optimize_assert, uninstall  # noqa: E402
from stator._marks import mark_dynamic, mark_static, mark_static_address, mark_unbacked, maybe_mark_dynamic  # noqa: E402
from stator._modules import CompiledModule, OptimizedModule  # noqa: E402
from stator._observe import on_graph, reset_stats, stats  # noqa: E402
from stator._ranks import set_compile_group, set_enable_guard_collectives  # noqa: E402
from stator._switches import (  # noqa: E402
    allow_in_graph,
    assume_constant_result,
    disable,
    disallow_in_graph,
    dont_skip_tracing,
    error_on_graph_break,
    forbid_in_graph,
    graph_break,
    is_compiling,
    nonstrict_trace,
    run,
    set_stance,
    skip,
    skip_frame,
    substitute_in_graph,
)

__version__ = "0.1.0"
__all__ = [
    "CompiledModule",
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "compile_module_inplace",
    "config",
    "disable",
    "disallow_in_graph",
    "dont_skip_tracing",
    "error_on_graph_break",
    "exc",
    "explain",
    "export",
    "forbid_in_graph",
    "graph_break",
    "guards",
    "install",
    "installed",
    "is_compiling",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "on_graph",
    "optimize",
    "optimize_assert",
    "register_backend",
    "reset",
    "reset_stats",
    "run",
    "set_compile_group",
    "set_enable_guard_collectives",
    "set_stance",
    "skip",
    "skip_frame",
    "stats",
    "substitute_in_graph",
    "uninstall",
]

config._connect(_core.set_config)


def __getattr__(name):
    # The debugging tools are imported when they are asked for.
    if name == "debug":
        import importlib

        return importlib.import_module("stator.debug")
    raise AttributeError(f"module 'stator' has no attribute {name!r}")
