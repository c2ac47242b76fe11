"""Measures TorchDynamo and Stator alternately: `python -m benchmarks.bench` (or `make bench`).

Prints tables, writes bench.json and bench.svg. README.md says what each figure means.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import chart, report, runner, start
from benchmarks.programs import PROGRAMS, QUICK
from benchmarks.results import Results, to_json


@dataclass(frozen=True)
class Job:
    round: int
    program: str
    side: str
    measure: str


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="repetitions, front ends alternating")
    parser.add_argument("--only", help="comma-separated programs: " + ", ".join(PROGRAMS))
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"one round of {', '.join(QUICK)}, without inductor and dynamic sizes",
    )
    parser.add_argument("--skip-inductor", action="store_true", help="no warm first calls")
    parser.add_argument("--skip-dynamic", action="store_true", help="no captures with dynamic sizes")
    parser.add_argument("--out", type=Path, default=Path("bench-out"), help="folder of the results")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one measurement")
    parser.add_argument("--inductor-cache", type=Path, help="keep inductor's caches in this folder for the next run")
    parser.add_argument("--self-test", action="store_true", help="torch.compile on both sides, to check the harness")
    parser.add_argument(
        "--check",
        nargs="?",
        const="engine",
        choices=("engine", "speed"),
        help="exit with 1 unless the level's thresholds hold (default: engine)",
    )
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.skip_inductor, options.skip_dynamic = 1, True, True
    chosen = options.only.split(",") if options.only else list(QUICK if options.quick else PROGRAMS)
    unknown = [name for name in chosen if name not in PROGRAMS]
    if unknown:
        parser.error(f"no program {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    options.programs = chosen
    return options


def plan(options: argparse.Namespace, sides: list[str]) -> list[Job]:
    """All measurements in order: by round, then program, then measure, the sides in turn."""
    measures = ["capture", "everything_read"]
    if not options.skip_dynamic:
        measures.append("dynamic")
    jobs = []
    for turn in range(options.rounds):
        order = runner.alternating(sides, turn)
        jobs += [Job(turn, "", side, m) for m in ("import_time", "first_graph") for side in order]
        for index, program in enumerate(options.programs):
            order = list(runner.alternating(sides, turn + index))
            todo = list(measures)
            if not options.skip_inductor:
                todo += ["fill", "warm"] if turn == 0 else ["warm"]
            jobs += [Job(turn, program, side, measure) for measure in todo for side in order]
    return jobs


def run(job: Job, options: argparse.Namespace, caches: Path) -> dict:
    measure = {"fill": "inductor", "warm": "inductor"}.get(job.measure, job.measure)
    spec = {"measure": measure, "side": job.side, "program": job.program}
    # Each side has caches of its own: neither may profit from what the other one filled.
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(caches / job.side)} if measure == "inductor" else {}
    return runner.run_worker(spec, options.timeout, cache)


def measure_all(console: Console, options: argparse.Namespace, sides: list[str]) -> Results:
    results = Results(sides[1] if len(sides) > 1 else None)
    jobs = plan(options, sides)
    caches = options.inductor_cache or Path(tempfile.mkdtemp(prefix="stator-bench-inductor-"))
    columns = (
        TextColumn("{task.description:46}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("", total=len(jobs))
            for job in jobs:
                words = f"round {job.round + 1}: {job.program or 'start'} {job.measure} {job.side}"
                progress.update(task, description=words)
                if not console.is_terminal:  # a log gets lines, since bars are drawn once at the end
                    progress.console.print(words, highlight=False)
                try:
                    results.add(job.program, job.side, job.measure, run(job, options, caches.resolve()))
                except runner.WorkerFailed as failure:
                    results.fail(job.program, job.side, job.measure, str(failure))
                    progress.console.print(f"[red]{words}: {failure}[/red]", highlight=False)
                progress.advance(task)
    finally:
        if options.inductor_cache is None:
            shutil.rmtree(caches, ignore_errors=True)
    return results


def main() -> int:
    options = parse()
    console = Console()
    sides = runner.announce_sides(console, options.self_test)
    meta = runner.facts() | {
        "rounds": options.rounds,
        "sides": sides,
        "self_test": options.self_test,
    }
    if not options.skip_inductor and len(sides) > 1 and not options.self_test:  # what a user waits for comes first
        start.main(["--rounds", str(options.rounds), "--out", str(options.out / "start.json")])
    results = measure_all(console, options, sides)
    report.print_results(console, results)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(to_json(results, meta), indent=1) + "\n")
    caption = (
        f"{meta['date']}, {meta['cpu']}, one thread, Python {meta['python']}, "
        f"torch {meta['torch']}, "
        f"best of {options.rounds} rounds, each in a fresh process"
    )
    (options.out / "bench.svg").write_text(chart.svg(results, caption))
    console.print(f"Written: {options.out}/bench.json, {options.out}/bench.svg")
    if options.check and not report.print_thresholds(console, results, options.check):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
