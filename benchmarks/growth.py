"""What grows with a program: `python -m benchmarks.growth [--check]`.

A loop over a list of ints beside a tensor, at later calls; functions with many graph breaks, and rows of Linear layers,
at the first call. The cost of an item, of a break and of a layer ought not to grow with their number. Stator alone, and
CPU time: TorchDynamo takes minutes for the larger ones.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import frontends, runner
from benchmarks.side_reports import write_json

SIZES = {"list": (10_000, 50_000), "breaks": (250, 4_000), "layers": (500, 5_000)}
# Largest over smallest cost of one that still counts as linear.
LINEAR = 1.5


def _over_a_list(x: Any, numbers: list[int]) -> Any:
    total = 0
    for number in numbers:
        total += number
    return x + total


def later_calls(spec: dict[str, Any]) -> dict[str, Any]:
    """A later call of a function that loops over a list; the call of one that has none is not the list's."""
    import torch

    frontend, x = frontends.load(spec["side"]), torch.ones(3)
    seconds = {}
    for size in (1, spec["size"]):
        compiled, numbers = frontend.compile(_over_a_list, backend="eager"), list(range(size))
        equal = torch.equal(compiled(x, numbers), _over_a_list(x, numbers))
        compiled(x, numbers)
        rounds = []
        for _ in range(50):
            start = time.process_time()
            compiled(x, numbers)
            rounds.append(time.process_time() - start)
        seconds[size] = min(rounds)
        frontend.reset()
    return {"seconds": seconds[spec["size"]] - seconds[1], "count": spec["size"], "equal": equal}


def first_call(spec: dict[str, Any]) -> dict[str, Any]:
    """The first call of a function with many breaks."""
    import torch

    frontend, x, made = frontends.load(spec["side"]), torch.ones(3), []
    for size in (1, spec["size"], spec["size"]):
        body = "".join(f"    x = x + {i}\n    print(end='')\n" for i in range(size))
        namespace: dict[str, Any] = {}
        exec(f"def function(x):\n{body}    return x\n", namespace)
        compiled = frontend.compile(namespace["function"], backend="eager")
        gc.collect()
        start = time.process_time()
        seen = compiled(x)
        made.append(time.process_time() - start)
        equal = torch.equal(seen, namespace["function"](x))
    return {"seconds": min(made[1:]), "count": spec["size"], "equal": equal}


def layers(spec: dict[str, Any]) -> dict[str, Any]:
    """The first call of a row of layers, without what eager takes for it."""
    import torch

    frontend, x, made = frontends.load(spec["side"]), torch.ones(1, 2), []
    with torch.no_grad():
        for size in (1, spec["size"], spec["size"]):
            model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(size)))
            compiled = frontend.compile(model, backend="eager")
            gc.collect()
            start = time.process_time()
            seen = compiled(x)
            middle = time.process_time()
            equal = torch.equal(seen, model(x))
            made.append(2 * middle - start - time.process_time())
            frontend.reset()
    return {"seconds": min(made[1:]), "count": spec["size"], "equal": equal}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 unless growth is linear")
    parser.add_argument("--out", default="bench-out/growth.json")
    options = parser.parse_args()
    console, found, held = Console(), {}, True
    table = Table("what", "how many", "us each", "growth")
    for what, measure in (
        ("list", "growth:later_calls"),
        ("breaks", "growth:first_call"),
        ("layers", "growth:layers"),
    ):
        costs = []
        for size in SIZES[what]:
            spec = {"measure": measure, "size": size, "side": frontends.STATOR}
            result = found[f"{what}_{size}"] = runner.run_worker(spec, 900)
            held &= result["equal"]
            costs.append(result["seconds"] / result["count"])
            growth = costs[-1] / costs[0]
            table.add_row(what, f"{size:,}", f"{costs[-1] * 1e6:.4g}", f"{growth:.2f}")
        held &= costs[-1] <= LINEAR * costs[0]
    console.print(table)
    write_json(options.out, [frontends.STATOR], {frontends.STATOR: found})
    return 0 if held or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
