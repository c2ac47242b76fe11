"""CPython's own tests, with every frame of theirs under Stator's evaluator: the results have to be those without it.

    python tools/cpython_tests.py [test_generators ...] [--break-every 1|7|random:1]

Each module runs three times in processes of its own: as it is; with the instructions of its frames counted; and with every test, setUp and
tearDown compiled (backend eager). Printed for each: tests, tests that came out otherwise, and the share of the counted instructions that ran
in captured entries or in the driver, one by one. Tests that end the counting (CPython drops a trace function when it runs into the
recursion limit, and tests may take it away), or that execute more with the hook than were counted (the depth at which they reach that
limit is another one), are left out of both numbers, and how many there are is printed. Exits with 1 if a result differs.
"""

from __future__ import annotations

import argparse
import doctest
import io
import json
import os
import random
import subprocess
import sys
import time
import unittest
from typing import Any

import test

MODULES = [
    "test_generators",
    "test_exceptions",
    "test_contextlib",
    "test_dict",
    "test_list",
    "test_set",
    "test_iter",
    "test_itertools",
    "test_functools",
    "test_dataclasses",
    "test_enum",
    "test_descr",
    "test_copy",
    "test_scope",
    "test_with",
    "test_unpack",
    "test_string",
    "test_format",
    "test_slice",
    "test_range",
]
_MARK = "\n== results of cpython_tests ==\n"


class _Record(unittest.TestResult):
    """The outcome of each test by its name; a test with failing subtests counts once, with the worst of them."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, str] = {}

    def _note(self, case: unittest.TestCase, outcome: str) -> None:
        name = case.id()
        while name in self.outcomes:  # modules may have two tests of one name
            name += "'"
        self.outcomes[name] = outcome

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "passed")

    def addError(self, test: unittest.TestCase, err: object) -> None:
        self._note(test, f"error {err[0].__name__}")  # type: ignore[index]

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        self._note(test, "failed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._note(test, "skipped")

    def addExpectedFailure(self, test: unittest.TestCase, err: object) -> None:
        self._note(test, "failed as expected")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "passed unexpectedly")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: object) -> None:
        if err is not None:
            self._note(subtest, f"error {err[0].__name__}")  # type: ignore[index]


def _child(module: str, mode: str) -> None:
    """Runs one module's tests and prints the outcomes as JSON."""
    import stator
    from stator import _core

    folder = os.path.dirname(test.__file__) + os.sep
    _core.watch_files(folder)
    instructions: dict[str, int] = {}  # by test; of those of which it is known
    uncounted: set[str] = set()
    if mode != "plain":
        probe = compile("1 + 1", folder + "probe", "eval")

        def so_far() -> int:
            counters = _core.driver_counters()
            if mode == "hook":
                return counters["watched_steps"] + counters["watched_captured"]
            return counters["counted"]

        # The machinery around the tests stays native; what it calls of the tests' own does not. Tests may set a trace function, so that
        # each of them is counted by itself.
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

            random.seed(0)
            before = so_far()
            try:
                if mode == "hook":
                    return stator.compile(method, backend="eager")()
                return _core.count_instructions(counted)
            finally:
                instructions[self.id()] = instructions.get(self.id(), 0) + so_far() - before

        unittest.TestCase._callTestMethod = run  # type: ignore[method-assign,attr-defined]
        unittest.TestCase._callSetUp = lambda self: run(self, self.setUp)  # type: ignore[method-assign,attr-defined]
        unittest.TestCase._callTearDown = lambda self: run(self, self.tearDown)  # type: ignore[method-assign,attr-defined]
    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{module}")
    record = _Record()
    output = sys.stdout
    sys.stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    start = time.perf_counter()
    suite.run(record)
    sys.stdout = output
    seconds = time.perf_counter() - start
    answer = {"outcomes": record.outcomes, "seconds": seconds, **_core.driver_counters()}
    answer.update(instructions=instructions, uncounted=sorted(uncounted))
    answer["internal_errors"] = stator.stats()["internal_errors"]
    print(_MARK + json.dumps(answer), flush=True)
    os._exit(0)


def _run(module: str, mode: str, breaks: str, timeout: float) -> dict:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment.pop("STATOR_BREAK_EVERY", None)
    environment.pop("STATOR_STRICT", None)
    if mode == "hook" and breaks:
        environment["STATOR_BREAK_EVERY"] = breaks
    command = [sys.executable, os.path.abspath(__file__), "--child", module, mode]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"failure": f"no end after {timeout:.0f} s"}
    if _MARK not in done.stdout:
        return {"failure": f"exit {done.returncode}: {done.stderr.strip()[-300:]}"}
    return json.loads(done.stdout.split(_MARK)[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("--break-every", default="", dest="breaks")
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(*options.modules)
    bad = total = ours = counted = 0
    for module in options.modules:
        plain = _run(module, "plain", "", options.timeout)
        count = _run(module, "count", "", options.timeout)
        hook = _run(module, "hook", options.breaks, options.timeout)
        if "failure" in plain or "failure" in hook:
            print(f"{module}: without {plain.get('failure', 'ok')}, with {hook.get('failure', 'ok')}", flush=True)
            bad += 1
            continue
        names = sorted({*plain["outcomes"], *hook["outcomes"]})
        differ = [n for n in names if plain["outcomes"].get(n) != hook["outcomes"].get(n)]
        of_test = count.get("instructions", {})
        left_out = set(count.get("uncounted", ()))
        left_out.update(name for name, n in hook["instructions"].items() if n > 1.01 * of_test.get(name, 0) + 20)
        run = sum(n for name, n in hook["instructions"].items() if name not in left_out)
        all_of_them = sum(n for name, n in of_test.items() if name not in left_out)
        share = f"{100 * run / all_of_them:.0f} %" if all_of_them else f"unknown ({count.get('failure')})"
        print(
            f"{module}: {len(names)} tests, {len(differ)} differ, {share} of {all_of_them} instructions "
            f"({len(left_out)} tests left out; in all {hook['watched_captured']} captured, {hook['watched_steps']} one by one), "
            f"{plain['seconds']:.1f} s without, {hook['seconds']:.1f} s with, {hook['internal_errors']} internal errors",
            flush=True,
        )
        for name in differ[:20]:
            print(f"    {name}: {plain['outcomes'].get(name)}, with the hook {hook['outcomes'].get(name)}", flush=True)
        bad += bool(differ)
        total += len(names)
        ours += run
        counted += all_of_them
    if counted:
        print(
            f"{total} tests, {100 * ours / counted:.0f} % of {counted} instructions in captured entries or the driver"
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
