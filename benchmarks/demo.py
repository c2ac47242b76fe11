"""Captures and compiles a real model with both front ends: `python -m benchmarks.demo`.

Qwen3 from a config with random weights; nothing is downloaded. Each front end works in a process of
its own and hands its graph to the same backend.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from benchmarks import frontends, runner
from benchmarks.report import duration, times

CODE_WIDTH = 100


def backend_named(name: str):
    """The backend as a plain function of graph and inputs, so that it can be clocked."""
    if name == "eager":
        return lambda graph_module, example_inputs: graph_module.forward
    if name == "aot_eager":
        from torch._dynamo.backends.debugging import aot_eager

        return aot_eager
    from torch._inductor.compile_fx import compile_fx

    return compile_fx


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    import gc

    import torch
    from torch.utils import _pytree

    from benchmarks.clock import ClockedBackend, first_call, hot, median_seconds
    from benchmarks.programs import qwen3
    from benchmarks.worker import quiet, trivial_compile

    quiet()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    program = qwen3(spec["layers"])
    frontend = frontends.load(spec["side"])
    inner = backend_named(spec["backend"])
    with torch.no_grad():
        expected = program.run()
        result: dict[str, Any] = {"eager_s": median_seconds(program.run, 0.5)}
        trivial_compile(frontend, ClockedBackend(inner))
        backend = ClockedBackend(inner)
        compiled = frontend.compile(program.target, backend=backend)
        gc.collect()
        seen, wall, _ = first_call(lambda: program.run(compiled))
        result |= {
            "capture_s": wall - backend.in_backend - backend.in_graphs,
            "backend_s": backend.in_backend,
            "graphs": len(backend.graphs),
            "nodes": backend.nodes(),
            "code": "".join(graph_module.code for graph_module in backend.graphs),
        }
        pairs = zip(_pytree.tree_leaves(expected), _pytree.tree_leaves(seen), strict=True)
        result["difference"] = max((a - b).abs().max().item() for a, b in pairs)
        later = functools.partial(compiled, **program.kwargs)
        result["compiled_s"] = median_seconds(later, 0.5)
        backend.tape.clear()
        later()
        backend.can()
        result["guards_us"] = hot(later)["median_us"]
    return result


def shortened(code: str, head: int = 22, tail: int = 8) -> str:
    """The code's first and last lines, without the renaming of inputs, long names abbreviated."""
    lines = [
        re.sub(r"\w{36,}", lambda name: f"{name[0][:10]}…{name[0][-20:]}", line)
        for line in code.splitlines()
        if line.strip() and not re.match(r"\s*l_\w+ = L_\w+$", line)
    ]
    if len(lines) > head + tail:
        dropped = len(lines) - head - tail
        lines = [*lines[:head], f"    # ... {dropped:,} lines ...", *lines[-tail:]]
    return "\n".join(line if len(line) <= CODE_WIDTH else line[: CODE_WIDTH - 4] + " ..." for line in lines)


def _table(sides: list[str], found: dict[str, dict[str, Any]], options: argparse.Namespace) -> Table:
    table = Table(title=f"Qwen3, {options.layers} layers, hidden 256, batch 2, length 64; {options.backend}")
    table.add_column("")
    for side in sides:
        table.add_column(frontends.LABELS[side], justify="right")
    table.add_column("ratio", justify="right", style="green")

    def row(label: str, key: str, unit: str | None, ratio: bool = False) -> None:
        values = [found[side][key] for side in sides]
        cells = [duration(v, unit) if unit else f"{v:,}" if isinstance(v, int) else f"{v:.1e}" for v in values]
        table.add_row(label, *cells, times(values[0] / values[1]) if ratio and len(values) > 1 else "")

    row("graphs", "graphs", None)
    row("graph nodes", "nodes", None)
    row("capture", "capture_s", "s", True)
    row("later call: guards and dispatch", "guards_us", "us", True)
    row("later call, graph included", "compiled_s", "s", True)
    row("compilation by the backend", "backend_s", "s")
    row("eager forward, for comparison", "eager_s", "s")
    row("largest difference from eager", "difference", None)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--backend", choices=("inductor", "aot_eager", "eager"), default="inductor")
    parser.add_argument("--self-test", action="store_true", help="torch.compile on both sides")
    options = parser.parse_args()
    console = Console()
    sides = runner.announce_sides(console, options.self_test)
    found: dict[str, dict[str, Any]] = {}
    for side in sides:
        spec = {
            "measure": "demo:measure",
            "side": side,
            "layers": options.layers,
            "backend": options.backend,
        }
        with console.status(f"{frontends.LABELS[side]} captures, {options.backend} compiles ..."):
            try:
                found[side] = runner.run_worker(spec, 600)
            except runner.WorkerFailed as failure:
                console.print(f"[red]{frontends.LABELS[side]}: {failure}[/red]", highlight=False)
                return 1
    last = sides[-1]
    console.rule(f"What {frontends.LABELS[last]} captured")
    console.print(Syntax(shortened(found[last]["code"]), "python", background_color="default", word_wrap=True))
    console.print()
    console.print(_table(sides, found, options))
    return 0 if len(sides) > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
