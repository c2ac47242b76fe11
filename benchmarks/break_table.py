"""How much is lost around a graph break: `python -m benchmarks.break_table`.

For each place of a break: the share of tensor operators that run inside graphs on a steady call.
Graphs are canned, so the operators that a profiler still sees ran outside graphs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import frontends, runner
from benchmarks.side_reports import measure_sides, write_json

WANTED = 0.95
# Reading a tensor's value is the break itself: it cannot be inside a graph.
READS = {"aten::item", "aten::is_nonzero", "aten::_local_scalar_dense"}


def operators(call: Callable[[], Any]) -> int:
    """Operators that one call dispatches itself, from the profiler, which no guard can see."""
    import torch

    with torch.autograd.profiler.profile(use_kineto=True) as profile:
        call()

    def is_outermost(event) -> bool:
        parent = event.cpu_parent
        while parent is not None:
            if parent.name.startswith("aten::"):
                return False
            parent = parent.cpu_parent
        return True

    return sum(
        event.name.startswith("aten::") and event.name not in READS and is_outermost(event)
        for event in profile.function_events
    )


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    import torch

    from benchmarks.break_programs import PROGRAMS
    from benchmarks.clock import ClockedBackend
    from benchmarks.worker import quiet

    quiet()
    torch.set_num_threads(1)
    frontend = frontends.load(spec["side"])
    program = PROGRAMS[spec["place"]]
    x = torch.arange(4.0) + 1
    expected = program(x)
    backend = ClockedBackend()
    compiled = frontend.compile(program, backend=backend)
    seen = []
    for _ in range(3):
        backend.tape.clear()
        try:
            seen.append(compiled(x))
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    graphs = len(backend.graphs)
    result = {
        "graphs": graphs,
        "graph_calls": len(backend.tape),
        "equal": all(torch.equal(expected, one) for one in seen),
        "operators": operators(lambda: program(x)),
    }
    backend.can()
    result["outside"] = operators(lambda: compiled(x))
    result["recaptures"] = len(backend.graphs) - graphs
    return result


def _share(result: dict[str, Any]) -> float:
    return 1 - result["outside"] / result["operators"]


def _cell(result: dict[str, Any] | None) -> str:
    if result is None:
        return "failed"
    if "error" in result:
        return f"raises {result['error']}"
    inside = result["operators"] - result["outside"]
    text = f"{inside}/{result['operators']} = {_share(result):.0%}, {result['graphs']} graphs"
    return text if result["equal"] else text + ", WRONG"


def main() -> int:
    from benchmarks.break_programs import PROGRAMS

    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", help="words of a place, such as 'for loop'")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--check", action="store_true", help=f"exit with 1 unless each share is {WANTED:.0%}")
    parser.add_argument("--out", default="bench-out/break_table.json")
    options = parser.parse_args()
    console = Console()
    sides = runner.announce_sides(console, options.self_test)
    jobs = {
        place: {"measure": "break_table:measure", "place": place}
        for place in PROGRAMS
        if not options.only or options.only in place
    }
    found = measure_sides(console, jobs, sides, timeout=120)
    table = Table("break in", *(frontends.LABELS[side] for side in sides))
    for place in jobs:
        table.add_row(place, *(_cell(found[side][place]) for side in sides))
    console.print(table)
    write_json(options.out, sides, found)
    if not options.check:
        return 0
    results = [found[sides[1]][place] for place in jobs] if len(sides) > 1 else [None]
    good = all(r and "error" not in r and r["equal"] and _share(r) >= WANTED for r in results)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
