"""Capture time of deep and of wide module trees: `python -m benchmarks.deep_modules`.

Modules nested up to 50 levels deep, and rows of up to 5,000 layers: the cost of each module ought
not to grow with the size of the tree.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from benchmarks import frontends, runner
from benchmarks.side_reports import measure_sides, write_json

DEEP = (10, 25, 50)
WIDE = (500, 1000, 2500, 5000)
# Largest over smallest cost of a module that still counts as linear.
LINEAR = 1.5


def _per_module_us(result: dict | None) -> float | None:
    return result["capture_s"] * 1e6 / result["modules"] if result else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="at most 1,000 layers")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless growth is linear")
    parser.add_argument("--out", default="bench-out/deep_modules.json")
    options = parser.parse_args()
    console = Console()
    sides = runner.announce_sides(console, options.self_test)
    sizes = {"deep": DEEP, "wide": [n for n in WIDE if n <= 1000] if options.quick else WIDE}
    jobs = {
        f"{shape}_{size}": {"measure": "module_trees:tree_capture", "shape": shape, "size": size}
        for shape in sizes
        for size in sizes[shape]
    }
    found = measure_sides(console, jobs, sides)

    table = Table("tree", "modules", *(f"{frontends.LABELS[s]}" for s in sides), "us a module")
    for job in jobs:
        results = [found[side][job] for side in sides]
        known = next((r for r in results if r), {"modules": "-"})
        table.add_row(
            job.replace("_", ", "),
            str(known["modules"]),
            *(f"{r['capture_s'] * 1e3:,.1f} ms" + ("" if r["equal"] else " WRONG") if r else "-" for r in results),
            " / ".join("-" if not r else f"{_per_module_us(r):.1f}" for r in results),
        )
    console.print(table)
    linear = {}
    for side in sides:
        for shape, counts in sizes.items():
            costs = [_per_module_us(found[side][f"{shape}_{count}"]) for count in counts]
            growth = None if None in costs else costs[-1] / costs[0]
            linear[side, shape] = growth is not None and growth <= LINEAR
            text = "not measured" if growth is None else f"{growth:.2f}"
            console.print(f"{frontends.LABELS[side]}, {shape}: cost of a module, {counts[-1]} over {counts[0]}: {text}")
    write_json(options.out, sides, found)
    if options.check:
        return 0 if len(sides) > 1 and all(linear[sides[1], shape] for shape in sizes) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
