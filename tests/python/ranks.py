"""Starts real processes over gloo for the tests of several ranks, and gathers what each of them reports.

python -m tests.python.ranks <program> [--world 2]      # one program by hand, output shown
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.python.children import ROOT, environment


@dataclass
class Rank:
    """How one process ended, and what it reported: the dict that the program returned, or the exception's text."""

    code: int | None  # exit status; None: it was still running when the time was up
    output: str
    result: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def run(
    program: str,
    world: int = 2,
    timeout: float = 240,
    env: dict[str, str] | None = None,
    by_rank: dict[int, dict[str, str]] | None = None,
) -> list[Rank]:
    """Runs rank_programs.<program> (several with commas) in `world` processes. Never leaves one behind."""
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(world):
            settings = {
                "STATOR_STRICT": "1",
                "OMP_NUM_THREADS": "1",
                **(env or {}),
                **(by_rank or {}).get(rank, {}),
            }
            settings = {k: v.replace("{folder}", folder) for k, v in settings.items()}
            command = [sys.executable, "-m", "tests.python.rank_programs", program, str(rank), str(world), folder]
            log = open(Path(folder) / f"out{rank}", "w")
            children.append(
                (
                    subprocess.Popen(
                        command, cwd=ROOT, env=environment(**settings), stdout=log, stderr=subprocess.STDOUT
                    ),
                    log,
                )
            )
        start = time.monotonic()
        ranks = []
        try:
            for rank, (child, log) in enumerate(children):
                try:
                    code = child.wait(max(0.1, start + timeout - time.monotonic()))
                except subprocess.TimeoutExpired:
                    code = None
                log.close()
                result = Path(folder) / f"result{rank}.json"
                found = json.loads(result.read_text()) if result.exists() else {}
                ranks.append(Rank(code, (Path(folder) / f"out{rank}").read_text(), found, time.monotonic() - start))
        finally:
            for child, _ in children:
                if child.poll() is None:
                    child.kill()
                    child.wait()
        return ranks


def all_well(ranks: list[Rank]) -> list[dict[str, Any]]:
    """The results; fails with the output of the first process that did not end well."""
    for number, rank in enumerate(ranks):
        assert rank.code == 0, f"rank {number} ended with {rank.code}:\n{rank.output[-4000:]}"
    return [rank.result for rank in ranks]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--world", type=int, default=2)
    given = parser.parse_args()
    for number, done in enumerate(run(given.program, given.world)):
        print(
            f"--- rank {number}: exit {done.code}, {done.seconds:.1f} s, {json.dumps(done.result, indent=1)}\n{done.output}"
        )
