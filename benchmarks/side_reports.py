"""What the smaller benchmarks share: run named jobs on every side, and write what was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from benchmarks import runner


def measure_sides(
    console: Console, jobs: dict[str, dict[str, Any]], sides: list[str], timeout: float = 900
) -> dict[str, dict[str, Any]]:
    """found[side][job] is the job's result, or None where it failed (which is printed)."""
    found: dict[str, dict[str, Any]] = {side: dict.fromkeys(jobs) for side in sides}
    todo = [(side, job) for turn, job in enumerate(jobs) for side in runner.alternating(sides, turn)]
    for side, job in track(todo, "measuring", console=console):
        try:
            found[side][job] = runner.run_worker(jobs[job] | {"side": side}, timeout)
        except runner.WorkerFailed as failure:
            console.print(f"[red]{job} {side}: {failure}[/red]", highlight=False)
    return found


def write_json(path: str, sides: list[str], found: dict[str, Any]) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    content = {"meta": runner.facts() | {"sides": sides}, "results": found}
    target.write_text(json.dumps(content, indent=1) + "\n")
