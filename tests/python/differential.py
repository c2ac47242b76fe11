"""Runs a program eagerly and under a front end, and compares all that can be seen of it.

One run of a program is a fixed sequence of calls: three with fresh equal inputs (first capture, then cache hits), one
with changed inputs, two more on objects that were already used (effects pile up), and the program's own steps
(something is replaced, then called again). After every call the result, the arguments, the state, output, warnings, log
records, exceptions with tracebacks, reference counts and the random state are compared with the eager run's; after the
objects are dropped, so are the events of their finalisers.

    python -m tests.python.differential --frontend stator --jobs 2 [-k words] [--break-every 1]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from tests.python.frontends import FORCED_BREAKS, Counts, CountTensorCalls, FrontendMissing, forced_breaks, frontend
from tests.python.observe import Observation, differences, forget_code, observe, observe_release
from tests.python.programs import Case, Program, load_all
from tests.python.workers import Outcome, run_tasks

FRESH_CALLS = 3
REPEATED_CALLS = 2
DEVICE_LOST = 77  # status of a worker whose program made the device fail, in eager already


@dataclass
class Run:
    """All observations of one run, named by the call they belong to, and what graphs did in the first and in a steady
    call."""

    seen: dict[str, Observation] = field(default_factory=dict)
    first: Counts | None = None
    steady: Counts | None = None


@dataclass
class Verdict:
    """What came of a program: differences from eager, expectations on capture that were not met, and the share of calls
    in graphs."""

    name: str
    differences: list[str] = field(default_factory=list)
    unmet: list[str] = field(default_factory=list)
    tensor_calls: int = 0
    captured: Counts | None = None

    def ok(self) -> bool:
        return not self.differences and not self.unmet


def prepare_process() -> None:
    """Makes runs repeatable and collections cheap: what is alive by now is never collected."""
    torch.set_num_threads(1)
    _forget_what_lives()


_modules_known = 0


def _forget_what_lives() -> None:
    """Keeps the collector away from modules; again whenever a program has imported more of them."""
    global _modules_known
    if len(sys.modules) != _modules_known:
        gc.collect()
        gc.freeze()
        _modules_known = len(sys.modules)


def run(
    program: Program, with_frontend: Any, fresh_calls: int = FRESH_CALLS, repeated_calls: int = REPEATED_CALLS
) -> Run:
    _forget_what_lives()
    forget_code()
    with_frontend.reset()
    program.make()  # sets back what an earlier run left in globals; finalisers of that have run before the first call
    gc.collect()
    outcome = Run()
    compiled_kept = []  # entries live only as long as something compiled uses them
    case: Case | None = None
    call: Any = None

    def fresh() -> Case:
        torch.utils.hooks.RemovableHandle.next_id = (
            0  # keys of hook dicts would count up from run to run, and with what a backend registers
        )
        return program.make()

    for turn in range(fresh_calls):
        case = fresh()
        call = with_frontend.compile(case.fn)
        compiled_kept.append((call, case.fn))
        before = with_frontend.counts()
        outcome.seen[f"fresh call {turn + 1}"] = observe(call, case)
        after = with_frontend.counts()
        if before is not None and after is not None:
            if turn == 0:
                outcome.first = after - before
            outcome.steady = after - before
        if turn + 1 < fresh_calls:
            outcome.seen[f"released {turn + 1}"] = observe_release(case)

    assert case is not None
    for turn in range(repeated_calls):
        outcome.seen[f"repeated call {turn + 1}"] = observe(call, case)
    outcome.seen["released after repetition"] = observe_release(case)

    case = fresh()
    case.change(case)
    call = with_frontend.compile(case.fn)
    compiled_kept.append((call, case.fn))
    outcome.seen["changed call"] = observe(call, case)
    outcome.seen["released after change"] = observe_release(case)

    case = fresh()
    if case.steps:
        call = with_frontend.compile(case.fn)
        compiled_kept.append((call, case.fn))
        outcome.seen["call before steps"] = observe(call, case)
        for number, step in enumerate(list(case.steps), 1):
            step(case)
            outcome.seen[f"call after step {number}"] = observe(call, case)
    return outcome


def compare(
    program: Program, with_frontend: Any, fresh_calls: int = FRESH_CALLS, repeated_calls: int = REPEATED_CALLS
) -> Verdict:
    """Runs both ways and compares."""
    verdict = Verdict(program.name)
    verdict.tensor_calls = count_tensor_calls(program)  # first: what happens once in a process has happened then
    expected = run(program, frontend("eager"), fresh_calls, repeated_calls)
    errors_before = with_frontend.internal_errors()
    actual = run(program, with_frontend, fresh_calls, repeated_calls)
    for name, observation in expected.seen.items():
        for text in differences(observation, actual.seen[name]):
            verdict.differences.append(f"{name}: {text}")
    if with_frontend.internal_errors() > errors_before:
        verdict.differences.append(f"internal errors: {with_frontend.internal_errors() - errors_before}")
    verdict.captured = actual.steady
    if not forced_breaks():
        verdict.unmet = unmet_expectations(program, actual)
    return verdict


def count_tensor_calls(program: Program) -> int:
    """Calls on tensors in one eager call of the program."""
    case = program.make()
    counter = CountTensorCalls()

    def counted(*args: Any, **kwargs: Any) -> Any:
        with counter:
            return case.fn(*args, **kwargs)

    observe(counted, case)
    return counter.calls


def unmet_expectations(program: Program, actual: Run) -> list[str]:
    if actual.steady is None or actual.first is None:
        return []
    unmet = []
    if program.min_ops is not None and actual.steady.ops < program.min_ops:
        unmet.append(f"{actual.steady.ops} operations ran in graphs, expected at least {program.min_ops}")
    if program.graphs is not None and actual.steady.graphs != program.graphs:
        unmet.append(f"{actual.steady.graphs} graphs ran, expected {program.graphs}")
    if program.max_breaks is not None and actual.first.breaks > program.max_breaks:
        unmet.append(f"{actual.first.breaks} breaks, expected at most {program.max_breaks}")
    return unmet


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.python.differential", description="Compare programs with eager."
    )
    parser.add_argument("--frontend", default="stator", choices=("stator", "dynamo", "eager"))
    parser.add_argument("--backend", help="name of a backend for stator (default: one that counts what runs)")
    parser.add_argument(
        "-k", dest="words", default="", help="only programs whose name contains one of these words (a,b,c)"
    )
    parser.add_argument("--device", default="cpu", help="where the programs' arguments and modules are made")
    parser.add_argument("--step", type=int, default=1, help="only every n-th program")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one program")
    parser.add_argument("--break-every", help=f"value of {FORCED_BREAKS}: a number or random:seed")
    parser.add_argument("--in-process", action="store_true", help="no worker processes: for a debugger")
    parser.add_argument("--brief", action="store_true", help="names only, not the differences")
    parser.add_argument("--names", type=Path, help="a file with the names of the programs to run, one a line")
    parser.add_argument("--json", type=Path, help="write the verdicts here, for another program to read")
    parser.add_argument("--list", action="store_true", help="list the programs and stop")
    return parser.parse_args(argv)


def selected(words: str) -> list[Program]:
    wanted = [word for word in words.split(",") if word]
    return [program for program in load_all() if not wanted or any(word in program.name for word in wanted)]


class NotThere(Exception):
    """The program cannot be made on the device (its own generator draws on the CPU, say)."""


def on_device(program: Program, device: torch.device) -> Program:
    """The same program, whose tensors are made on a device. What it makes when it runs is made where it says."""

    def make() -> Case:
        try:
            with device:
                case = program.make()
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise NotThere(str(error)) from error
        steps, change = list(case.steps), case.change

        def there(step: Any) -> Any:
            def run_there(case: Case) -> None:
                with device:
                    step(case)

            return run_there

        case.steps = [there(step) for step in steps]
        case.change = there(change)
        return case

    return replace(program, make=make, min_ops=None, max_breaks=None, graphs=None)


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    if options.break_every:
        os.environ[FORCED_BREAKS] = options.break_every
    programs = selected(options.words)
    if options.names:
        names = set(options.names.read_text().split())
        programs = [program for program in programs if program.name in names]
    programs = programs[:: options.step]
    if options.device != "cpu":
        programs = [on_device(program, torch.device(options.device)) for program in programs]
    if options.list:
        for program in programs:
            print(program.name)
        return 0
    prepare_process()
    by_name = {program.name: program for program in programs}
    made: list[Any] = []

    def judge(name: str) -> Verdict:
        if not made:  # in the worker, so that each has its own
            made.append(frontend(options.frontend, options.backend))
        try:
            verdict = compare(by_name[name], made[0])
        except NotThere:
            verdict = Verdict(name)
        if torch.cuda.is_initialized():
            try:
                torch.cuda.synchronize()
            except RuntimeError:  # an assert on the device: this process cannot use it any more
                os._exit(DEVICE_LOST)
        return verdict

    try:
        if options.in_process:
            results: Iterable[Outcome] = ((name, judge(name), None) for name in by_name)
        else:
            results = run_tasks(judge, list(by_name), options.jobs, options.timeout)
        if options.json:
            results = written(results, options.json)
        return report(results, options.brief)
    except FrontendMissing as missing:
        print(f"skipped: {missing}")
        return 0


def written(results: Iterable[Outcome], path: Path) -> Iterator[Outcome]:
    """The same results, with a line of JSON for each written to a file: name, differences, unmet expectations."""
    with path.open("w") as out:
        for name, verdict, failure in results:
            found = [failure] if failure is not None else verdict.differences
            line = {"name": name, "differences": found, "unmet": [] if failure is not None else verdict.unmet}
            line["ops"] = 0 if failure is not None or verdict.captured is None else verdict.captured.ops
            out.write(json.dumps(line) + "\n")
            out.flush()
            yield name, verdict, failure


def report(results: Iterable[Outcome], brief: bool) -> int:
    """Prints failures and a summary; programs that differ from eager, crash or hang decide the exit status."""
    passed = differing = unmet = lost = 0
    calls = captured = 0
    unmet_names = []
    differing_names = []
    for name, verdict, failure in results:
        if failure is not None:
            if failure.startswith("FrontendMissing"):
                print(f"skipped: {failure}")
                return 0
            lost += 1
            differing_names.append(name)
            print(f"LOST {name}: {failure}")
            continue
        calls += verdict.tensor_calls
        if verdict.captured is not None:
            captured += min(verdict.captured.ops, verdict.tensor_calls)
        if verdict.differences:
            differing += 1
            differing_names.append(name)
            print(f"DIFFERS {name}", flush=True)
            if not brief:
                for text in verdict.differences[:6]:
                    print("  " + text)
        elif verdict.unmet:
            unmet += 1
            unmet_names.append(name)
            print(f"NOT CAPTURED AS EXPECTED {name}: {'; '.join(verdict.unmet)}", flush=True)
        else:
            passed += 1
    total = passed + differing + unmet + lost
    print(
        f"{total} programs: {passed} as eager and captured as expected, {unmet} as eager only, {differing} differ, {lost} crashed or hung"
    )
    if calls:
        print(f"tensor calls in graphs on a steady call: {captured} of {calls} ({100 * captured / calls:.0f} %)")
    return 1 if differing or lost else 0


if __name__ == "__main__":
    sys.exit(main())
