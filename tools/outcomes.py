"""What tests came to, for the tools that run others' tests as they are and compiled."""

from __future__ import annotations

import fnmatch
import traceback
import unittest
from pathlib import Path
from typing import Any


class Record(unittest.TestResult):
    """The outcome of each test by its name; a test with failing subtests counts once, with the worst of them."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, str] = {}
        self.why: dict[str, str] = {}

    def _note(self, case: unittest.TestCase, outcome: str, err: Any = None) -> None:
        name = case.id()
        while name in self.outcomes:  # modules may have two tests of one name
            name += "'"
        self.outcomes[name] = outcome
        if err is not None:
            self.why[name] = "".join(traceback.format_exception(*err))[-4000:]

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "passed")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, f"error {err[0].__name__}", err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, "failed", err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._note(test, "skipped")

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, "failed as expected")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "passed unexpectedly")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self._note(subtest, f"error {err[0].__name__}", err)


def fails(outcome: str | None) -> bool:
    return outcome is not None and (outcome == "failed" or outcome.startswith("error"))


class Causes:
    """Why some tests come out otherwise: lines `pattern = kind: cause` of a file, of which the first that fits
    holds."""

    def __init__(self, path: Path) -> None:
        self.rows: list[tuple[str, str, str]] = []
        for line in path.read_text().splitlines():
            if line.startswith("#") or not line.strip():
                continue
            pattern, _, rest = line.partition(" = ")
            kind, _, cause = rest.partition(": ")
            self.rows.append((pattern, kind, cause))

    def of(self, name: str) -> tuple[str, str] | None:
        """Of a test, by its name with or without the subtest behind it."""
        bare = name.split(" ")[0].rstrip("'")
        for pattern, kind, cause in self.rows:
            if fnmatch.fnmatchcase(bare, pattern):
                return kind, cause
        return None
