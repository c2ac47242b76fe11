"""Prints results as tables."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks import frontends
from benchmarks.frontends import TORCHDYNAMO
from benchmarks.programs import LABELS
from benchmarks.results import (
    FIGURES,
    START_FIGURES,
    THRESHOLDS,
    Figure,
    Results,
    geometric_mean,
)


def duration(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    seconds = value * {"s": 1.0, "us": 1e-6}[unit]
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.{1 if seconds >= 1e-2 else 2}f} ms"
    return f"{seconds * 1e6:.{0 if seconds >= 1e-4 else 2}f} us"


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.{0 if value >= 100 else 1}f}x"


def _both_sides(title: str, first: str, results: Results) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column(first)
    table.add_column("TorchDynamo", justify="right")
    table.add_column(frontends.LABELS.get(results.other_side or "", "Stator"), justify="right")
    table.add_column("ratio", justify="right", style="green")
    return table


def _add(table: Table, label: str, program: str, figure: Figure, results: Results) -> None:
    table.add_row(
        label,
        duration(results.best(program, TORCHDYNAMO, figure), figure.unit),
        duration(results.best(program, results.other_side, figure), figure.unit),
        times(results.ratio(program, figure)),
    )


def _programs_table(results: Results) -> Table:
    other = results.other_side
    table = _both_sides("Programs: graph nodes and eager forward", "program", results)
    table.columns[3].header = "eager forward"
    for program in results.programs():
        eager = [
            sample["eager_s"]
            for side in (TORCHDYNAMO, other)
            if side
            for sample in results.of(program, side, "capture")
        ]
        table.add_row(
            LABELS.get(program, program),
            *(_graph_text(results, program, side) for side in (TORCHDYNAMO, other)),
            duration(min(eager, default=None), "s"),
        )
    return table


def _graph_text(results: Results, program: str, side: str | None) -> str:
    nodes = results.fact(program, side, "capture", "nodes")
    if nodes is None:
        return "-"
    graphs = results.fact(program, side, "capture", "graphs")
    text = f"{nodes:,}" + (f" in {graphs} graphs" if graphs != 1 else "")
    if not results.fact(program, side, "capture", "equal"):
        text += " WRONG"
    if results.fact(program, side, "capture", "recaptures"):
        text += " recaptured"
    return text


def _warnings(results: Results) -> list[str]:
    found = [f"{f['program'] or 'start'} {f['side']} {f['measure']}: {f['why']}" for f in results.failures]
    for (program, side, measure), samples in results.samples.items():
        busy = min((s["busy"] for s in samples if "busy" in s), default=1)
        if busy > 1.15:
            found.append(f"{program} {side}: machine was busy (wall/CPU {busy:.2f} at best)")
        if measure == "warm" and not any(s["aot_hits"] and not s["aot_misses"] for s in samples):
            found.append(f"{program} {side}: inductor's caches did not hit, the call was not warm")
    return found + _shortfalls(results)


def _shortfalls(results: Results) -> list[str]:
    """Where the other side gives its backend less than TorchDynamo does."""
    found = []
    for program in results.programs():
        if results.fact(program, results.other_side, "dynamic", "symbolic_nodes") == 0:
            found.append(f"{program} {results.other_side}: no symbol in the dynamic capture, it was a static one")
        for name in ("tensors", "stack_traces", "module_stacks"):
            ours, theirs = (
                results.fact(program, side, "everything_read", name) for side in (results.other_side, TORCHDYNAMO)
            )
            if ours is not None and theirs is not None and ours < theirs:
                found.append(f"{program} {results.other_side}: {name} on {ours} nodes, TorchDynamo has {theirs}")
    return found


def print_results(console: Console, results: Results) -> None:
    console.print(_programs_table(results))
    for figure in FIGURES:
        if not any(results.spread(program, TORCHDYNAMO, figure) for program in results.programs()):
            continue
        table = _both_sides(figure.title[0].upper() + figure.title[1:], "program", results)
        for program in results.programs():
            _add(table, LABELS.get(program, program), program, figure, results)
        table.add_section()
        table.add_row("geometric mean", "", "", times(geometric_mean(results.ratios(figure))))
        console.print(table)
    start = _both_sides("Start of a process, torch imported", "", results)
    for figure in START_FIGURES:
        _add(start, figure.title, "", figure, results)
    console.print(start)
    growth = [
        f"{frontends.LABELS[side]} {value:.2f}"
        for side in (TORCHDYNAMO, results.other_side)
        if (value := results.cost_growth(side)) is not None
    ]
    if growth:
        console.print(f"Cost per node, 10,000 adds over 1,000: {', '.join(growth)}")
    for warning in _warnings(results):
        console.print(f"[yellow]! {warning}[/yellow]")


def print_thresholds(console: Console, results: Results, level: str) -> bool:
    """Prints the thresholds of a level; true if all hold. What was not measured does not hold."""
    table = Table(title=f"Thresholds: {level}", title_justify="left", header_style="bold")
    for column in ("what", "measured", "wanted", ""):
        table.add_column(column, justify="right" if column in ("measured", "wanted") else "left")
    all_hold = True
    for threshold in THRESHOLDS:
        if threshold.level != level:
            continue
        value, holds = threshold.value(results), threshold.holds(results)
        all_hold = all_hold and bool(holds)
        table.add_row(
            threshold.text,
            "-" if value is None else f"{value:.3g}",
            f"{'>=' if threshold.at_least else '<='} {threshold.limit:g}",
            {
                True: "[green]holds[/green]",
                False: "[red]MISSED[/red]",
                None: "[yellow]not measured[/yellow]",
            }[holds],
        )
    console.print(table)
    return all_hold
