"""The differential fuzzer: random programs, eagerly and compiled, in worker processes; a difference, a crash or a hang is a finding.

    python -m tests.fuzz.run --count 20000 --seed 0 --jobs 2 [--break-every [1|7|random:3]] [--frontend eager] [--generator tensors] [--backend aot_eager]

Each finding is made smaller and written to a file that only has to be moved to tests/python/programs/ to become a test.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import linecache
import os
import sys
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz import idioms, own_ways, tensors, wild, written
from tests.fuzz.generate import generate
from tests.fuzz.shrink import shrink
from tests.python.differential import compare, prepare_process
from tests.python.frontends import FORCED_BREAKS, FrontendMissing, frontend
from tests.python.programs import Program
from tests.python.workers import OneWorker, run_tasks

GENERATORS = {"tensors": tensors, "idioms": idioms, "written": written}
MIXED_BREAKS = ("", "1", "7", "random:{seed}")


@dataclass
class Finding:
    seed: int
    breaks: str
    what: str
    details: list[str] = field(default_factory=list)
    source: str = ""


def load(source: str, label: str) -> Program:
    """A program from its source; lines of tracebacks are found under the label."""
    filename = f"<fuzz {label}>"
    module = types.ModuleType("fuzz_program")
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    sys.modules["fuzz_program"] = module
    exec(compile(source, filename, "exec"), module.__dict__)
    return Program(f"fuzz.{label}", module.make)


def source_of(seed: int, generator: str, backend: str) -> str:
    if generator == "python":
        return generate(seed)
    return GENERATORS[generator].generate(seed, exact=bool(backend))


class Judge:
    """Runs one program both ways, in a worker."""

    def __init__(self, frontend_name: str, generator: str, backend: str) -> None:
        self.frontend_name = frontend_name
        self.generator = generator
        self.backend = backend
        self._frontend: Any = None

    def __call__(self, task: tuple[int, str | None]) -> list[str]:
        if self._frontend is None:
            self._frontend = frontend(self.frontend_name, self.backend or None)
        seed, source = task
        linecache.clearcache()
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):  # what programs print outside of the observed calls
            doubtful = source is not None or self.generator != "python"
            text = source_of(seed, self.generator, self.backend) if source is None else source
            try:
                program = load(text, str(seed))
                if doubtful and self.frontend_name != "eager" and compare(program, frontend("eager")).differences:
                    return []  # it does not agree with itself, or made smaller no longer
            except Exception:
                if not doubtful:
                    raise
                return []  # it cannot be made: a step of it fails
            found = compare(program, self._frontend, fresh_calls=2, repeated_calls=1).differences
            return self._ours(program, found) if self.backend and found else found

    def _ours(self, program: Program, found: list[str]) -> list[str]:
        """The differences that are not the backend's own; with the front end that other people use, none is ours."""
        found = own_ways.not_by_words(found)
        if not found or self.frontend_name != "stator":
            return found
        watched = own_ways.Watched(self.backend)
        compare(program, frontend("stator", watched), fresh_calls=2, repeated_calls=1)
        return [] if watched.differs else found


def outcome(result: list[str] | None, failure: str | None) -> tuple[str, list[str]] | None:
    """What kind of finding this is, or None."""
    if failure is not None:
        return failure.splitlines()[0], [failure]
    if result:
        return "differs", result
    return None


def search(options: argparse.Namespace, seeds: list[int], breaks: str, advance: Any) -> Iterator[Finding]:
    """Findings among these seeds under one setting of forced breaks."""
    os.environ.pop(FORCED_BREAKS, None)
    if breaks:
        os.environ[FORCED_BREAKS] = breaks
    judge = Judge(options.frontend, options.generator, options.backend)
    for (seed, _), result, failure in run_tasks(
        judge, [(seed, None) for seed in seeds], options.jobs, options.timeout, renew_after=500
    ):
        advance()
        found = outcome(result, failure)
        if found is None:
            continue
        if found[0].startswith("FrontendMissing"):
            raise FrontendMissing(found[0])
        yield Finding(seed, breaks, found[0], found[1], source_of(seed, options.generator, options.backend))


# What may differ, the worst first; a finding is made smaller as long as it stays as bad.
_WORST = ("internal errors", "objects result", "objects raised", "objects", "warnings", "output")


def worst_of(details: list[str]) -> int:
    kinds = [detail.partition(": ")[2] if "call" in detail.partition(": ")[0] else detail for detail in details]
    return min((i for i, word in enumerate(_WORST) for kind in kinds if kind.startswith(word)), default=len(_WORST))


def confirm_and_shrink(options: argparse.Namespace, finding: Finding) -> Finding:
    """Runs the program again, alone in a new process, and makes it smaller while it fails in the same way."""
    with OneWorker(Judge(options.frontend, options.generator, options.backend), options.timeout) as worker:

        def found_in(source: str) -> tuple[str, list[str]] | None:
            _, result, failure = worker.run((finding.seed, source))
            return outcome(result, failure)

        def fails_alike(source: str) -> bool:
            found = found_in(source)
            return found is not None and found[0] == finding.what and worst_of(found[1]) == worst_of(finding.details)

        if found_in(finding.source) is None:
            finding.what = f"only after other programs in one process: {finding.what}"
        elif options.shrink:
            finding.source = shrink(finding.source, fails_alike, options.shrink)
            last = found_in(finding.source)
            finding.details = last[1] if last else finding.details
    return finding


def write(finding: Finding, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"found_{finding.seed}.py"
    reason = finding.details[0].replace('"""', "'''") if finding.details else ""
    setting = f", {FORCED_BREAKS}={finding.breaks}" if finding.breaks else ""
    body = finding.source.replace("def make():", f"@program()\ndef seed_{finding.seed}():")
    body = body.replace("from tests.python.programs import Case", "from tests.python.programs import Case, program")
    for world in (tensors.WORLD, wild.PRELUDE):
        body = body.replace(world, world + "from tests.python.programs import program\n")
    path.write_text(
        f'r"""Found by the fuzzer (seed {finding.seed}{setting}): {finding.what}\n\n{reason}\n"""\n\n{body}'
    )
    return path


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description="Differential fuzzing against eager.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds for one program")
    parser.add_argument("--frontend", default="stator", choices=("stator", "dynamo", "eager"))
    parser.add_argument("--generator", default="python", choices=("python", *GENERATORS))
    parser.add_argument("--backend", default="", help="of stator (default: one that runs graphs as they are)")
    parser.add_argument(
        "--break-every", nargs="?", const="mix", default="", help="a number, random:seed, or nothing for a mixture"
    )
    parser.add_argument("--shrink", type=int, default=400, help="attempts to make a finding smaller (0: none)")
    parser.add_argument("--max-findings", type=int, default=20, help="stop after so many")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="where findings go")
    parser.add_argument("--show", type=int, metavar="SEED", help="print the program of a seed and stop")
    return parser.parse_args(argv)


def settings(options: argparse.Namespace) -> list[tuple[str, list[int]]]:
    """The seeds to run, by setting of forced breaks."""
    seeds = list(range(options.seed, options.seed + options.count))
    if options.break_every != "mix":
        return [(options.break_every, seeds)]
    return [
        (text.format(seed=options.seed), seeds[index :: len(MIXED_BREAKS)]) for index, text in enumerate(MIXED_BREAKS)
    ]


class Progress:
    """A bar on a terminal, a line now and then elsewhere."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.findings = 0
        self.started = time.monotonic()
        self._last = self.started
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if sys.stdout.isatty():
            from rich import progress

            columns = (
                *progress.Progress.get_default_columns(),
                progress.MofNCompleteColumn(),
                progress.TextColumn("{task.fields[found]} found"),
            )
            self._bar = progress.Progress(*columns)
            self._bar.start()
            self._task = self._bar.add_task("programs", total=self.total, found=0)
        return self

    def __exit__(self, *details: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        self.done += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=1, found=self.findings)
        elif time.monotonic() - self._last > 10:
            self._last = time.monotonic()
            print(
                f"{self.done} of {self.total} programs, {self.rate():.0f} a second, {self.findings} found", flush=True
            )

    def rate(self) -> float:
        return self.done / max(1e-9, time.monotonic() - self.started)


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    if options.show is not None:
        print(source_of(options.show, options.generator, options.backend), end="")
        return 0
    prepare_process()
    findings = []
    with Progress(options.count) as progress:
        try:
            for breaks, seeds in settings(options):
                for finding in search(options, seeds, breaks, progress.advance):
                    finding = confirm_and_shrink(options, finding)
                    findings.append(finding)
                    progress.findings += 1
                    path = write(finding, options.out)
                    print(f"seed {finding.seed}: {finding.what}; {path}", flush=True)
                    if len(findings) >= options.max_findings:
                        print(f"stopped after {len(findings)} findings")
                        return 1
        except FrontendMissing as missing:
            print(f"skipped: {missing}")
            return 0
        rate = progress.rate()
    print(f"{progress.done} programs, {len(findings)} findings, {rate:.0f} programs a second")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
