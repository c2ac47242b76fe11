"""Instructions that captures and guards take, counted by callgrind: python -m benchmarks.instructions [CHECKOUT ...].

What other programs do on the machine changes nothing about them. Each CHECKOUT (this one if none is named) is a folder
with a built stator; figures of several stand side by side, each with its ratio to the first one's.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What a process asks callgrind for, by valgrind's own header.
SWITCH = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_TOGGLE_COLLECT; }
void stop(const char* name) { CALLGRIND_TOGGLE_COLLECT; CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
"""
CALLS = 10


class _WithoutWork:
    """A backend whose graphs give what the first of them gave when it first ran: what is left of a call is Stator's."""

    def __init__(self):
        self.kept = None

    def __call__(self, module, example_inputs):
        def run(*inputs):
            if self.kept is None:
                self.kept = module(*inputs)
            return self.kept

        return run


def _count(switch, name, function):
    switch.start()
    function()
    switch.stop(name.encode())


def worker(switch_path):
    import ctypes
    import gc

    import torch

    import stator
    from benchmarks.programs import qwen3

    switch = ctypes.CDLL(switch_path)
    gc.disable()
    with torch.no_grad():
        for name, program in {"Qwen3-12": qwen3(12), "Qwen3-36": qwen3(36)}.items():
            backend = _WithoutWork()
            program.run(stator.compile(program.target, backend=backend))  # what only a first capture does, and the work
            stator.reset()
            compiled = stator.compile(program.target, backend=backend)
            _count(switch, f"capture of {name}", lambda p=program, f=compiled: p.run(f))
        add, x = stator.compile(lambda x: x + 1, backend=_WithoutWork()), torch.ones(3)
        for _ in range(5):
            program.run(compiled)
            add(x)
        calls = f"{CALLS} cached calls of"
        _count(switch, f"{calls} {name}", lambda: [program.run(compiled) for _ in range(CALLS)])
        _count(switch, f"{calls} x + 1", lambda: [add(x) for _ in range(CALLS)])


def measured(checkout, switch_path):
    """{figure: instructions} of one checkout."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": str(checkout),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no", "--trace-children=no"]
        program = f"import runpy, sys; sys.argv = ['', '--worker', {switch_path!r}]; runpy.run_path({__file__!r}, run_name='__main__')"
        done = subprocess.run(
            [*command, f"--callgrind-out-file={folder}/out", sys.executable, "-c", program],
            cwd=checkout, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        found = {}
        for path in sorted(pathlib.Path(folder).glob("out*")):
            text = path.read_text(errors="replace")
            name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
            total = re.search(r"^totals: (\d+)", text, re.M)
            if name and total:
                found[name[1].strip()] = int(total[1])
        if not found:
            sys.exit(f"{checkout}: callgrind counted nothing\n{done.stdout}{done.stderr[-2000:]}")
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("checkouts", nargs="*", type=pathlib.Path, default=[ROOT])
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=pathlib.Path, help="also as JSON")
    options = parser.parse_args()
    if options.worker:
        return worker(options.worker)
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder) / "switch.c", f"{folder}/switch.so"
        source.write_text(SWITCH)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        figures = {str(path): measured(path.resolve(), library) for path in options.checkouts}
    first = next(iter(figures.values()))
    for name in first:
        row = [f"{counts.get(name, 0):>12,} ({counts.get(name, 0) / first[name]:.3f})" for counts in figures.values()]
        print(f"{name:32}", *row)
    if options.out:
        options.out.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
