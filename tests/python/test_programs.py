"""Every program of the corpus under Stator: equal to eager, and captured as the program says.

The programs run in worker processes of one child process, all selected ones at once, so that a crash costs one program.
To debug one: python -m tests.python.differential --in-process -k name
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.python import children
from tests.python.programs import load_all

_PROGRAMS = {program.name: program for program in load_all()}


def _read_shortfalls() -> Iterator[tuple[str, str]]:
    """Programs on which Stator is known to fall short, each with what is wrong: a line a program. They are run, and
    expected to fail."""
    for line in (Path(__file__).parent / "shortfalls.txt").read_text().splitlines():
        if line.strip() and line[0] != "#":
            kind, name = line.split()[:2]
            kind, _, since = kind.partition("@")
            if tuple(int(part) for part in (since or "3.11").split(".")) <= sys.version_info[:2]:
                yield kind, name


_SHORTFALLS = set(_read_shortfalls())
_EXPECTING = [name for name, program in _PROGRAMS.items() if program.expects_capture()]


def run_differential(folder: Path, names: set[str], frontend: str) -> dict[str, Any]:
    """The verdicts on these programs by name."""
    listed = folder / f"{frontend}.names"
    listed.write_text("\n".join(sorted(names)))
    results = folder / f"{frontend}.json"
    command = [sys.executable, "-m", "tests.python.differential", "--frontend", frontend, "--brief"]
    command += ["--names", str(listed), "--json", str(results)]
    done = subprocess.run(command, cwd=children.ROOT, env=children.environment(), capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr[-2000:]
    found = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    return {verdict["name"]: verdict for verdict in found}


@pytest.fixture(scope="session")
def verdicts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    items = [
        item for item in request.session.items if item.path.name == Path(__file__).name and hasattr(item, "callspec")
    ]
    names = {item.callspec.params["name"] for item in items if "name" in item.callspec.params}
    return run_differential(tmp_path_factory.mktemp("programs"), names, "stator")


def _known(kind: str, name: str) -> None:
    if (kind, name) in _SHORTFALLS:
        pytest.xfail("listed in shortfalls.txt")


@pytest.mark.break_every
@pytest.mark.parametrize("name", _PROGRAMS)
def test_as_eager(name: str, verdicts: dict[str, Any]) -> None:
    mode = os.environ.get("STATOR_BREAK_EVERY") or "plain"
    if verdicts[name]["differences"]:
        _known(f"differs:{mode}", name)
    assert verdicts[name]["differences"] == [], "\n".join(verdicts[name]["differences"][:6])


@pytest.mark.parametrize("name", _EXPECTING)
def test_captured(name: str, verdicts: dict[str, Any]) -> None:
    if os.environ.get("STATOR_BREAK_EVERY"):
        pytest.skip("breaks are forced")
    if verdicts[name]["unmet"]:
        _known("lost:plain", name)
    assert verdicts[name]["unmet"] == []


def test_eager_agrees_with_itself(tmp_path: Path) -> None:
    """Two eager runs show no difference: what the runner reports is never its own noise."""
    found = run_differential(tmp_path, set(_PROGRAMS), "eager")
    assert [name for name in _PROGRAMS if found[name]["differences"]] == []
