"""CPython's own tests, with every frame of theirs under Stator's evaluator: the results have to be those without it.

    python tools/cpython_tests.py [test_generators ...] [--part [DATE]] [--table FILE] [--break-every 1|7|random:1]
    [--again] [--budget SECONDS] [--steps] [--count]

Each module runs in processes of its own, forked from one that has torch imported: as it is, and with every test, setUp
and tearDown compiled (backend eager). Without names all modules of Lib/test are taken that come to an end within ten
minutes as they are; which those are is found out once, and tests that fail then are not asked. What came of a module is
kept in build/cpython/results-<version>.json with a mark of the binary, so that a run that was stopped goes on where it
was (--again: does not). --part takes a part of the modules that are quick and were equal whenever they were run
(tools/cpython_quick.txt: module, seconds), another one each day: for CI. What differs for a known reason is in
tools/cpython_causes.txt. --table writes all results down. --steps: what does not pay to be captured is run by the
driver, instruction by instruction, where a program's frames go back to CPython's loop; it takes many times as long, and
tests the driver more. --count does that too, and adds a third run, in which CPython counts instructions, and prints the
share of them that ran in captured entries or in the driver, one by one. Tests that end the counting (CPython drops a
trace function when it runs into the recursion limit, and tests may take it away), or that execute more with the hook
than were counted (the depth at which they reach that limit is another one), are left out of both numbers, and how many
there are is printed. Exits with 1 if a result differs, a process dies, or an internal error was counted.
"""

from __future__ import annotations

import argparse
import datetime
import doctest
import faulthandler
import functools
import gc
import hashlib
import importlib.util
import json
import logging
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

import test
from test import support

sys.path.append(str(Path(__file__).resolve().parent))
from outcomes import Causes, Record, fails

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(
    os.environ.get(
        "STATOR_TEST_RESULTS",
        ROOT / "build" / "cpython" / f"results-{sys.version_info[0]}.{sys.version_info[1]}.json",
    )
)
# A day's part of those that are quick, for CI: seconds of the processor's time, both runs together.
PART = 40
# So many times its limit of the processor's time a run may take by the clock.
WAITING = 4
# Tests whose outcome says something else than what a program computes, with the reason.
ABOUT_THE_INTERPRETER = {
    "test_dis": "specialised instructions: how often CPython itself has run a function",
    "test_gdb": "needs the debugger's view of native frames",
    "test_embed": "starts other interpreters",
}


def all_modules() -> list[str]:
    folder = Path(test.__file__).parent
    names = {path.stem for path in folder.glob("test_*.py")}
    names |= {path.name for path in folder.glob("test_*") if (path / "__init__.py").exists()}
    return sorted(names)


def run_tests(module: str, mode: str, steps: bool) -> dict[str, Any]:
    """Runs one module's tests in this process. With `steps` the driver gives no frame of theirs back to CPython."""
    import stator
    from stator import _core

    # Tests of logging let the root logger show everything: what stator says there is none of theirs.
    logging.getLogger("stator").setLevel(logging.CRITICAL)
    folder = os.path.dirname(test.__file__) + os.sep
    _core.count_files(folder, steps)
    instructions: dict[str, int] = {}  # by test; of those of which it is known
    uncounted: set[str] = set()
    probe = compile("1 + 1", folder + "probe", "eval")

    def so_far() -> int:
        counters = _core.driver_counters()
        if mode == "hook":
            return counters["counted_steps"] + counters["counted_captured"]
        return counters["counted"]

    # The machinery around the tests stays native; what it calls of the tests' own does not. Tests may set a trace
    # function, so that each of them is counted by itself.
    def run(self: unittest.TestCase, method: Any) -> object:
        def counted() -> object:
            try:
                return method()
            finally:
                before = so_far()
                eval(probe)
                # doctest takes the trace function away when it has done its work
                if so_far() == before and not isinstance(self, doctest.DocTestCase):
                    uncounted.add(self.id())

        random.seed(1)  # with 0 a test of test_statistics fails by itself
        before = so_far()
        try:
            if mode == "hook":
                return stator.compile(method, backend="eager")()
            return _core.count_instructions(counted) if mode == "count" else method()
        finally:
            instructions[self.id()] = instructions.get(self.id(), 0) + so_far() - before

    unittest.TestCase._callTestMethod = run  # type: ignore[method-assign,attr-defined]
    unittest.TestCase._callSetUp = lambda self: run(self, self.setUp)  # type: ignore[method-assign,attr-defined]
    unittest.TestCase._callTearDown = lambda self: run(self, self.tearDown)  # type: ignore[method-assign,attr-defined]
    support.use_resources = []  # neither network nor gigabytes
    record = Record()
    start = time.process_time()
    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{module}")
    suite.run(record)
    answer: dict[str, Any] = {"outcomes": record.outcomes, "why": record.why, "seconds": time.process_time() - start}
    answer.update(_core.driver_counters())
    answer.update(instructions=instructions, uncounted=sorted(uncounted))
    answer["internal_errors"] = stator.stats()["internal_errors"]
    return answer


def _child(module: str, mode: str, breaks: str, folder: str, timeout: float, steps: bool) -> None:
    """In a forked process: runs the tests, writes what came of them to a file, and ends."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(timeout), resource.RLIM_INFINITY))
    os.environ.pop("STATOR_STRICT", None)
    os.environ.pop("STATOR_BREAK_EVERY", None)
    if mode == "hook" and breaks:
        os.environ["STATOR_BREAK_EVERY"] = breaks
    os.chdir(folder)
    out = os.open("output", os.O_CREAT | os.O_WRONLY)
    null = os.open(os.devnull, os.O_RDONLY)
    for target in (1, 2):
        os.dup2(out, target)
    os.dup2(null, 0)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    sys.argv = [module]
    faulthandler.enable(open("fault", "w"))  # noqa: SIM115
    os.mkdir("work")
    os.chdir("work")
    try:
        answer = run_tests(module, mode, steps)
    except BaseException as error:
        answer = {"failure": f"{type(error).__name__}: {error}"[:300]}
    Path(folder, "answer.json").write_text(json.dumps(answer))
    os._exit(0)


def run_module(module: str, mode: str, breaks: str, timeout: float, steps: bool = False) -> dict[str, Any]:
    """One run in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="cpython_tests_", ignore_cleanup_errors=True) as folder:
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            _child(module, mode, breaks, folder, timeout, steps)
        deadline = time.monotonic() + WAITING * timeout  # of a busy machine, and of tests that sleep
        status = None
        while status is None and time.monotonic() < deadline:
            done, seen = os.waitpid(process, os.WNOHANG)
            if done:
                status = seen
            else:
                time.sleep(0.02)
        try:  # what the tests have started goes with them
            os.killpg(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if status is None:
            os.waitpid(process, 0)
            return {"failure": f"no end after {WAITING * timeout:.0f} s"}
        answer = Path(folder, "answer.json")
        if answer.exists():
            return json.loads(answer.read_text())
        fault = Path(folder, "fault")
        text = fault.read_text()[:800] if fault.exists() else ""
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGXCPU:
            return {"failure": f"no end after {timeout:.0f} s of the processor's time"}
        how = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return {"failure": f"{how}: {text}"}


def runs_here(plain: dict[str, Any]) -> str:
    """Why a module says nothing on this machine, or the empty string."""
    if "failure" in plain:
        return plain["failure"].splitlines()[0][:120]
    return "" if any(outcome == "passed" for outcome in plain["outcomes"].values()) else "no test that passes"


@functools.cache
def known_causes() -> Causes:
    """(interpreter or open, cause) of tests that come out otherwise."""
    return Causes(ROOT / "tools" / "cpython_causes.txt")


def cause_of(name: str) -> tuple[str, str] | None:
    return known_causes().of(name.removeprefix("test."))


def differences(module: str, plain: dict[str, Any], hook: dict[str, Any]) -> list[tuple[str, str]]:
    """What differs: (test, what came out). Tests that fail by themselves are not asked."""
    if "failure" in hook:
        return [("", hook["failure"])]
    found = []
    for name in sorted({*plain["outcomes"], *hook["outcomes"]}):
        before, now = plain["outcomes"].get(name), hook["outcomes"].get(name)
        if before != now and not fails(before) and module not in ABOUT_THE_INTERPRETER:
            found.append((name, f"{before}, with the hook {now}"))
    if hook["internal_errors"]:
        found.append(("", f"{hook['internal_errors']} internal errors"))
    return found


def judge(module: str, plain: dict[str, Any], hook: dict[str, Any]) -> list[str]:
    """What differs without a known cause, a line each."""
    lines = []
    for name, what in differences(module, plain, hook):
        if not name or cause_of(name) is None:
            lines.append(f"{name}: {what}" if name else what)
    return lines


def share(count: dict[str, Any], hook: dict[str, Any]) -> str:
    of_test = count.get("instructions", {})
    left_out = set(count.get("uncounted", ()))
    left_out.update(name for name, n in hook["instructions"].items() if n > 1.01 * of_test.get(name, 0) + 20)
    run = sum(n for name, n in hook["instructions"].items() if name not in left_out)
    counted = sum(n for name, n in of_test.items() if name not in left_out)
    if not counted:
        return f"share unknown ({count.get('failure')})"
    return f"{100 * run / counted:.0f} % of {counted} instructions ({len(left_out)} tests left out)"


class Kept:
    """Results of earlier runs: of modules as they are, and with the hook by the mark of the binary."""

    def __init__(self, breaks: str) -> None:
        self.kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        # Found and not imported: what the environment says is read at the import, in each process.
        package = importlib.util.find_spec("stator")
        assert package is not None and package.submodule_search_locations
        (binary,) = Path(package.submodule_search_locations[0]).glob("_core*.so")
        digest = hashlib.sha1(binary.read_bytes()).hexdigest()[:12]
        self.mark = f"{digest} {breaks}"

    def of(self, module: str) -> dict[str, Any]:
        return self.kept.setdefault(module, {})

    def save(self) -> None:
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        new = KEPT.with_suffix(".new")
        new.write_text(json.dumps(self.kept))
        new.replace(KEPT)


def chosen(options: argparse.Namespace) -> list[str]:
    names = options.modules or all_modules()
    if options.part is None:
        return names
    day = datetime.date.fromisoformat(options.part) if options.part else datetime.date.today()
    rows = [line.split() for line in (ROOT / "tools" / "cpython_quick.txt").read_text().splitlines()]
    parts = math.ceil(sum(float(seconds) for _, seconds in rows) / PART)
    here = set(all_modules())
    return [name for name, _ in rows[day.toordinal() % parts :: parts] if name in here]


def plain_result(module: str, kept: Kept, timeout: float) -> dict[str, Any]:
    entry = kept.of(module)
    if "plain" not in entry:
        entry["plain"] = run_module(module, "plain", "", timeout)
        entry["plain"].pop("instructions", None)
        kept.save()
    return entry["plain"]


def drop_moody(module: str, entry: dict[str, Any], timeout: float) -> None:
    """Where the results differ: a second run as it is tells tests that come out one way or the other by themselves."""
    if "moody" not in entry:
        again = run_module(module, "plain", "", timeout).get("outcomes", {})
        entry["moody"] = [name for name, outcome in entry["plain"]["outcomes"].items() if again.get(name) != outcome]
    for name in entry["moody"]:
        entry["plain"]["outcomes"].pop(name, None)
        entry["hook"].get("outcomes", {}).pop(name, None)


def report(module: str, entry: dict[str, Any], lines: list[str], note: str) -> None:
    plain, hook = entry["plain"], entry["hook"]
    times = f"{plain['seconds']:.1f} s without, {hook['seconds']:.1f} s with" if "seconds" in hook else "no answer"
    print(f"{'DIFFERS' if lines else 'equal':8}{module}: {len(plain['outcomes'])} tests, {times}{note}", flush=True)
    for line in lines[:20]:
        print("        " + line.replace("\n", "\n        ")[:600], flush=True)


def row(module: str, entry: dict[str, Any]) -> tuple[str, str, str]:
    """(tests, result, remark) of a module for the table."""
    plain, hook = entry["plain"], entry.get("hook")
    if why := runs_here(plain):
        return "", "does not run here", why
    tests = str(len(plain["outcomes"]))
    if hook is None:
        return tests, "not run", ""
    remarks: dict[str, int] = {}
    unknown = 0
    for name, what in differences(module, plain, hook):
        known = cause_of(name) if name else None
        unknown += known is None
        text = f"{known[0]}: {known[1]}" if known else what.splitlines()[0][:80]
        remarks[text] = remarks.get(text, 0) + 1
    broken = sum(fails(outcome) for outcome in plain["outcomes"].values())
    texts = [f"{count} {text}" for text, count in remarks.items()] + (
        [f"{broken} fail without it too"] if broken else []
    )
    return tests, "differs" if unknown else "equal" if not remarks else "equal but", "; ".join(texts)


def table(kept: Kept) -> str:
    rows = {module: row(module, entry) for module, entry in sorted(kept.kept.items()) if "plain" in entry}
    counts = {
        kind: sum(r[1] == kind for r in rows.values())
        for kind in ("equal", "equal but", "differs", "does not run here")
    }
    lines = [
        "# CPython's own tests",
        "",
        "Every module of CPython's `Lib/test`, run as it is and with every test, `setUp` and `tearDown` of it compiled (backend `eager`): the results of each test have to be",
        "the same. Made by `python tools/cpython_tests.py --table docs/CPYTHON.md` from what `make test-cpython` found.",
        "",
        f"{len(rows)} modules with {sum(int(r[0] or 0) for r in rows.values())} tests: {counts['equal']} equal, {counts['equal but']} equal but for tests whose cause is known",
        f"(`tools/cpython_causes.txt`), {counts['differs']} differ, {counts['does not run here']} do not run here without the hook either. `interpreter`: the test looks at what no",
        "program computes (counts of references, sizes, what the collector finds). `open`: a shortfall.",
        "",
        "| module | tests | result | remark |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {module} | {tests} | {result} | {remark.replace('|', '/')} |"
        for module, (tests, result, remark) in rows.items()
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--break-every", default="", dest="breaks")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of the processor's time for one run")
    parser.add_argument("--part", nargs="?", const="", help="a part of the quick modules; the date says which")
    parser.add_argument("--again", action="store_true", help="forget what is kept of these modules with the hook")
    parser.add_argument("--budget", type=float, default=0, help="stop after so many seconds; the next run goes on")
    parser.add_argument("--count", action="store_true", help="also the share of instructions")
    parser.add_argument("--steps", action="store_true", help="the driver runs what is not captured, one by one")
    parser.add_argument("--table", help="write what is kept of all modules to this file, and run nothing")
    options = parser.parse_args()
    options.steps |= options.count
    sys.path[:] = [path for path in sys.path if path != str(ROOT / "tools")]
    if importlib.util.find_spec("stator") is None:
        sys.path.insert(0, str(ROOT))
    import torch

    torch.set_num_threads(1)
    gc.freeze()
    kept = Kept(f"{options.breaks} steps" if options.steps else options.breaks)
    if options.table:
        Path(options.table).write_text(table(kept))
        return 0
    names = chosen(options)
    start, differing, equal, tests, not_here = time.monotonic(), [], 0, 0, []
    for number, module in enumerate(names, 1):
        if options.budget and time.monotonic() - start > options.budget:
            print(f"stopped after {number - 1} of {len(names)} modules: the time is over")
            break
        if sys.stdout.isatty():
            print(f"\r[{number}/{len(names)}] {module:40}", end="\r", flush=True)
        plain = plain_result(module, kept, options.timeout)
        if why := runs_here(plain):
            not_here.append(f"{module}: {why}")
            continue
        entry = kept.of(module)
        if entry.get("mark") != kept.mark or options.again:
            entry["hook"] = run_module(module, "hook", options.breaks, options.timeout, options.steps)
            if judge(module, plain, entry["hook"]):
                drop_moody(module, entry, options.timeout)
            entry["mark"] = kept.mark
            kept.save()
        lines = judge(module, plain, entry["hook"])
        note = ""
        if options.count and "failure" not in entry["hook"]:
            note = ", " + share(run_module(module, "count", "", options.timeout, True), entry["hook"])
        report(module, entry, lines, note)
        tests += len(plain["outcomes"])
        if lines:
            differing.append(module)
        else:
            equal += 1
    print(
        f"{equal + len(differing)} modules with {tests} tests: {equal} equal, {len(differing)} differ; {len(not_here)} do not run here"
    )
    for line in not_here:
        print("    " + line)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
