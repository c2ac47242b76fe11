"""Looks at this environment: versions, compilers, caches, other evaluators, settings, and a capture as a test. Says
what is wrong, and what makes things slow. Exit status 1 if something is wrong.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from stator.commands import _print

HELP = "look at this environment, and try a capture"
OK, NOTE, WRONG = "ok", "note", "wrong"


@dataclasses.dataclass
class Finding:
    verdict: str
    topic: str
    text: str
    advice: str = ""


def add_arguments(parser: Any) -> None:
    parser.add_argument("--backend", default="inductor", help="for the test capture (%(default)s)")
    parser.add_argument("--json", action="store_true", help="the findings as JSON")


def _versions() -> Iterator[Finding]:
    import torch

    import stator
    from stator import _build_info

    text = f"stator {stator.__version__} for CPython {_build_info.PYTHON} and torch {_build_info.TORCH}"
    yield Finding(OK, "versions", f"{text}; here CPython {platform.python_version()}, torch {torch.__version__}")
    where = os.path.dirname(stator.__file__)
    yield Finding(OK, "installed in", where)
    if _build_info.SANITIZED:
        yield Finding(NOTE, "build", "with sanitisers: many times slower", "build with `make build`")


def _device() -> Iterator[Finding]:
    import torch

    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        yield Finding(OK, "devices", names)
        if shutil.which("ptxas") is None and not _has("triton"):
            yield Finding(WRONG, "triton", "not installed: inductor cannot compile for this GPU", "pip install triton")
    else:
        yield Finding(OK, "devices", f"CPU, {torch.get_num_threads()} threads")


def _has(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is not None


def _compilers() -> Iterator[Finding]:
    names = [name for name in (os.environ.get("CXX"), "g++", "clang++") if name]
    for name in names:
        path = shutil.which(name)
        if path is None:
            continue
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        yield Finding(OK, "C++ compiler", f"{path}: {(answer.stdout.splitlines() or ['?'])[0]}")
        return
    yield Finding(
        WRONG,
        "C++ compiler",
        "none found: inductor cannot compile for the CPU",
        "install g++, or set CXX; backend='eager' needs none",
    )


def _size(folder: str) -> int:
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.path.getsize(os.path.join(root, name))
            except OSError:
                pass
    return total


def _folder(topic: str, folder: str) -> Finding:
    if not os.path.isdir(folder):
        return Finding(OK, topic, f"{folder}: empty")
    if not os.access(folder, os.W_OK):
        return Finding(NOTE, topic, f"{folder}: cannot be written to, so nothing is kept", "choose another folder")
    return Finding(OK, topic, f"{folder}: {_size(folder) / 2**20:.1f} MiB")


def _caches() -> Iterator[Finding]:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    from stator import _disk, config

    if config.cache:
        yield _folder("Stator's cache", _disk.folder())
    else:
        yield Finding(NOTE, "Stator's cache", "off: each process compiles anew", "config.cache = True")
    inductor = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or default_cache_dir()
    yield _folder("inductor's cache", inductor)


def _evaluators() -> Iterator[Finding]:
    import torch

    import stator

    if sys.gettrace() is not None or sys.getprofile() is not None:
        yield Finding(NOTE, "trace function", "a debugger or profiler is on: frames that it follows are not captured")
    theirs = torch._C._dynamo.eval_frame.get_eval_frame_callback()
    if theirs not in (None, False):
        yield Finding(
            NOTE, "TorchDynamo", "its hook is on: what it compiles is its own", "stator.install() in place of it"
        )
    else:
        loaded = "loaded, its hook is off" if "torch._dynamo" in sys.modules else "not loaded"
        yield Finding(OK, "TorchDynamo", loaded)
    yield Finding(
        OK, "torch.compile", "means Stator's" if stator.installed() else "is torch's own; stator.install() changes that"
    )


_SLOW = {
    "break_every": "forces exits, for tests: most of the program runs outside of graphs",
    "disable": "nothing is captured at all",
    "verify_correctness": "runs each graph twice the first time",
    "specialize_int": "each int is a program of its own",
    "specialize_float": "each float is a program of its own",
    "specialize_modules": "each module instance is a program of its own",
    "trace_dir": "writes every capture to a file",
    "log_captures": "makes texts of every capture",
    "repro_level": "levels 3 and 4 write or compare every graph",
    "regions": 'off: layers that repeat are compiled one by one; "auto" compiles them once',
    "automatic_dynamic_shapes": "off: each size is captured anew",
}


def _settings() -> Iterator[Finding]:
    from stator import config

    for name, value in config.get_config_copy().items():
        if (
            value == config.default(name)
            or (name == "repro_level" and value < 3)
            or (name == "regions" and value != "off")
        ):
            continue
        slow = name in _SLOW and (value is not True or name != "automatic_dynamic_shapes")
        text = f"{name} = {value!r}" + (f": {_SLOW[name]}" if slow else "")
        yield Finding(NOTE if slow else OK, "setting", text, f"unset STATOR_{name.upper()}" if slow else "")
    for name in (
        "TORCH_COMPILE_DEBUG",
        "TORCH_LOGS",
        "TORCH_TRACE",
        "PYTHONDEVMODE",
        "PYTHONMALLOC",
        "CUDA_LAUNCH_BLOCKING",
    ):
        if os.environ.get(name):
            yield Finding(NOTE, "environment", f"{name}={os.environ[name]}: costs time", f"unset {name}")


def _timed(function: Any, *args: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function(*args)
    return result, time.perf_counter() - start


def _captures(backend: str) -> Iterator[Finding]:
    import torch

    import stator

    scope: dict[str, Any] = {"torch": torch}
    # Stator's own files are not captured.
    exec(compile("def program(x):\n    return torch.relu(x @ x.T + 1).sum(0)\n", "<doctor>", "exec"), scope)
    program = scope["program"]
    x = torch.randn(8, 8)
    wanted = program(x)
    for name in dict.fromkeys(("eager", backend)):
        try:
            compiled = stator.compile(program, backend=name, isolate_recompiles=True)
            before = stator.stats()["graphs"]
            got, first = _timed(compiled, x)
            graphs = stator.stats()["graphs"] - before
            again = min(_timed(compiled, x)[1] for _ in range(100))
        except Exception as error:
            line = (str(error).splitlines() or [""])[0]
            yield Finding(
                WRONG,
                f"capture, {name}",
                f"{type(error).__name__}: {line}",
                "STATOR_STRICT=1 TORCH_LOGS=dynamo says more",
            )
            continue
        text = f"first call {_print.seconds(first)}, later ones {_print.seconds(again)}"
        if graphs != 1:
            yield Finding(
                WRONG, f"capture, {name}", f"{graphs} graphs where there should be one", "is config.disable set?"
            )
        elif not torch.allclose(got, wanted):
            yield Finding(
                WRONG, f"capture, {name}", "the result differs from eager's", "stator bisect, or a report of the defect"
            )
        else:
            yield Finding(OK, f"capture, {name}", text)


def findings(backend: str = "inductor") -> Iterator[Finding]:
    for look in (_versions, _device, _compilers, _caches, _evaluators, _settings):
        try:
            yield from look()
        except Exception as error:
            yield Finding(WRONG, look.__name__.strip("_"), f"could not be looked at: {type(error).__name__}: {error}")
    yield from _captures(backend)


def main(arguments: Any) -> int:
    if arguments.json:
        found = list(findings(arguments.backend))
        print(json.dumps([dataclasses.asdict(one) for one in found]))
        return int(any(one.verdict == WRONG for one in found))
    out, found = _print.Out(), []
    styles = {OK: "green", NOTE: "yellow", WRONG: "bold red"}
    for one in findings(arguments.backend):
        found.append(one)
        out.line((f"{one.verdict:5} ", styles[one.verdict]), (f"{one.topic:16} ", "bold"), one.text)
        if one.advice:
            out.line(f"{'':23}What to do: ", (one.advice, "green"))
    wrong = sum(one.verdict == WRONG for one in found)
    out.line()
    out.line(("All is well." if not wrong else f"{_print.count(wrong, 'thing')} to mend.", "bold"))
    return int(wrong > 0)
