"""What the guards of a module tree cost a call: `python -m benchmarks.nn_module_guard_eval`.

Qwen3 with 36 layers (547 modules, 399 parameters), hot and after a cache sweep, as built and after
train()/eval(); the cost of each further module that has no hooks; twenty instances on one entry.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from benchmarks import frontends, runner
from benchmarks.side_reports import measure_sides, write_json

COUNTS = (500, 1500)
HOT_LIMIT_US, SWEPT_RATIO, MODULE_LIMIT_NS = 15, 10, 15


def _median(result: dict | None, *path: str) -> float | None:
    for name in path:
        result = (result or {}).get(name)
    return (result or {}).get("median_us")


def _slope_ns(few: dict | None, many: dict | None) -> float | None:
    low, high = _median(few, "hot"), _median(many, "hot")
    return None if low is None or high is None else (high - low) * 1e3 / (COUNTS[1] - COUNTS[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless the limits hold")
    parser.add_argument("--out", default="bench-out/nn_module_guard_eval.json")
    options = parser.parse_args()
    console = Console()
    sides = runner.announce_sides(console, options.self_test)
    jobs = {
        "qwen": {"measure": "module_trees:qwen_guards", "layers": options.layers},
        "shared": {"measure": "module_trees:shared_entry", "layers": options.layers, "instances": options.instances},
    } | {
        f"{kind}_{count}": {"measure": "module_trees:row_guards", "kind": kind, "count": count}
        for kind in ("plain", "linear")
        for count in COUNTS
    }
    found = measure_sides(console, jobs, sides)

    def row(label: str, read, unit: str = "us") -> list[float | None]:
        values = [read(found[side]) for side in sides]
        cells = [("-" if value is None else f"{value:,.1f} {unit}") for value in values]
        ratio = values[0] / values[1] if len(values) > 1 and all(values) else None
        table.add_row(label, *cells, *["-"] * (2 - len(cells)), f"{ratio:.1f}x" if ratio else "-")
        return values

    other = sides[1] if len(sides) > 1 else frontends.STATOR
    table = Table("guards + dispatch of a call", "TorchDynamo", frontends.LABELS[other], "ratio")
    hot = row(f"Qwen3-{options.layers}, hot", lambda f: _median(f["qwen"], "steady", "hot"))
    swept = row(f"Qwen3-{options.layers}, swept", lambda f: _median(f["qwen"], "steady", "swept"))
    row(
        "first call after train() and eval()",
        lambda f: (f["qwen"] or {}).get("first_after_toggle_us"),
    )
    toggled = row("later calls, hot", lambda f: _median(f["qwen"], "after_toggle", "hot"))
    shared = row(f"{options.instances} instances on one entry, hot (slowest)", lambda f: _median(f["shared"], "hot"))
    row(f"{options.instances} instances in turn", lambda f: _median(f["shared"], "turn"))
    row(f"{options.instances} instances in turn, swept", lambda f: _median(f["shared"], "swept"))
    module = row("each further module", lambda f: _slope_ns(f["plain_500"], f["plain_1500"]), "ns")
    row("each further Linear", lambda f: _slope_ns(f["linear_500"], f["linear_1500"]), "ns")
    console.print(table)
    for side in sides:
        qwen, one = found[side]["qwen"], found[side]["shared"]
        if qwen and one:
            console.print(
                f"{frontends.LABELS[side]}: {qwen['modules']} modules, "
                f"{qwen['parameters']} parameters; "
                f"{one['instances']} instances needed {one['graphs']} graph(s)"
            )
    write_json(options.out, sides, found)
    if not options.check:
        return 0
    if len(sides) < 2 or None in hot + swept + toggled + shared + module:
        console.print("[red]not everything was measured[/red]")
        return 1
    verdicts = {
        f"hot under {HOT_LIMIT_US} us, also toggled and shared": max(hot[1], toggled[1], shared[1]) < HOT_LIMIT_US,
        f"swept at least {SWEPT_RATIO} times less": swept[0] / swept[1] >= SWEPT_RATIO,
        f"at most {MODULE_LIMIT_NS} ns for each further module": module[1] <= MODULE_LIMIT_NS,
        "one graph serves all instances": found[sides[1]]["shared"]["graphs"] == 1,
    }
    for text, holds in verdicts.items():
        console.print(f"{'[green]holds' if holds else '[red]MISSED'}[/] {text}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
