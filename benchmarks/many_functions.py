"""Many compiled functions with many entries each: `python -m benchmarks.many_functions`.

Memory for each entry, time of a call that finds its entry at once or among the others, and what
it takes to forget one function. Graphs are replaced by a canned result, so the figures are the
front end's.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import frontends, runner
from benchmarks.side_reports import measure_sides, write_json

# Told apart by a string, which no front end turns into a symbol; each function has its own code.
_SOURCE = """
def function_{index}(x, mode):
    y = x + {index}
    if mode == "none":
        return y
    return y * 2
"""


def _resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def _functions(count: int) -> list[Any]:
    made = []
    for index in range(count):
        names: dict[str, Any] = {}
        exec(compile(_SOURCE.format(index=index), f"<function {index}>", "exec"), names)
        made.append(names[f"function_{index}"])
    return made


def _call_us(functions: list[Any], x, modes: list[str], rounds: int = 7) -> float:
    """Microseconds of a call, every function once for each mode in each round.

    A front end may try the entry that served last first, so one mode shows its best case; all modes
    in turn ask each time for the entry that has waited longest.
    """
    samples = []
    for _ in range(rounds):
        start = time.perf_counter()
        for mode in modes:
            for function in functions:
                function(x, mode)
        samples.append((time.perf_counter() - start) / (len(functions) * len(modes)))
    return statistics.median(samples) * 1e6


def _deep_us(frontend, backend, entries: int) -> float:
    """Microseconds of a call of a module whose entries differ in the last of its 40 layers, each entry in turn."""
    import torch

    class Last(torch.nn.Linear):
        mode = ""

        def forward(self, x):
            y = super().forward(x)
            return y if self.mode == "none" else y * 2

    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(40)), Last(4, 4))
    compiled = frontend.compile(model, backend=backend)
    last, x = model[-1], torch.zeros(2, 4)
    samples = []
    for _ in range(50):
        start = time.perf_counter()
        for index in range(entries):
            last.mode = f"mode {index}"
            compiled(x)
        samples.append((time.perf_counter() - start) / entries)
    return statistics.median(samples) * 1e6


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    import torch

    from benchmarks.worker import quiet, trivial_compile

    quiet()
    torch.set_num_threads(1)
    frontend = frontends.load(spec["side"])
    x = torch.zeros(2, 3)
    canned = (torch.zeros(2, 3),)
    captures = 0

    def backend(graph_module, example_inputs):
        nonlocal captures
        captures += 1
        return lambda *args: canned

    trivial_compile(frontend, lambda graph_module, example_inputs: graph_module.forward)
    functions = _functions(spec["functions"])
    modes = [f"mode {index}" for index in range(spec["entries"])]
    compiled = [frontend.compile(function, backend=backend) for function in functions]
    gc.collect()
    before, start = _resident_bytes(), time.perf_counter()
    for mode in modes:
        for function in compiled:
            function(x, mode)
    seconds = time.perf_counter() - start
    gc.collect()
    entries = captures
    result = {
        "captures": captures,
        "capture_us": seconds * 1e6 / max(captures, 1),
        "bytes_per_entry": (_resident_bytes() - before) / max(captures, 1),
        "same_us": _call_us(compiled, x, modes[-1:]),
        "in_turn_us": _call_us(compiled, x, modes),
        "recaptures": captures - entries,
    }
    result["deep_one_us"] = _deep_us(frontend, lambda graph_module, example_inputs: lambda *args: canned, 1)
    result["deep_us"] = _deep_us(frontend, lambda graph_module, example_inputs: lambda *args: canned, spec["entries"])
    if frontend.reset is None:
        return result
    start = time.perf_counter()
    for function, entries_of in zip(functions[:10], compiled[:10], strict=True):
        frontend.reset_one(function, entries_of)
    result["reset_us"] = (time.perf_counter() - start) * 1e5
    before = captures
    for function in compiled[:10]:
        function(x, modes[0])
    result["recaptured_after_reset"] = captures - before
    before = captures
    for function in compiled[10:]:
        function(x, modes[0])
    result["others_recaptured"] = captures - before
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--functions", type=int, default=1000)
    parser.add_argument("--entries", type=int, default=8)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--out", default="bench-out/many_functions.json")
    options = parser.parse_args()
    console = Console()
    sides = runner.announce_sides(console, options.self_test)
    job = {
        "measure": "many_functions:measure",
        "functions": options.functions,
        "entries": options.entries,
    }
    found = measure_sides(console, {"many": job}, sides, timeout=1800)
    results = [found[side]["many"] for side in sides]
    table = Table(
        f"{options.functions:,} functions, {options.entries} entries each",
        *(frontends.LABELS[side] for side in sides),
    )
    for label, key, scale, unit in (
        ("captures", "captures", 1, ""),
        ("capture of an entry", "capture_us", 1, " us"),
        ("memory of an entry", "bytes_per_entry", 1 / 1024, " KiB"),
        ("call, same entry again", "same_us", 1, " us"),
        ("call, entries in turn", "in_turn_us", 1, " us"),
        ("call, 41 layers, one entry", "deep_one_us", 1, " us"),
        ("call, 41 layers, entries in turn that differ in the last", "deep_us", 1, " us"),
        ("reset of one function", "reset_us", 1, " us"),
        ("captured again after reset, of 10", "recaptured_after_reset", 1, ""),
        ("others captured again", "others_recaptured", 1, ""),
    ):
        cells = [
            "-" if not result or key not in result else f"{result[key] * scale:,.{1 if unit else 0}f}{unit}"
            for result in results
        ]
        table.add_row(label, *cells)
    console.print(table)
    write_json(options.out, sides, found)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
