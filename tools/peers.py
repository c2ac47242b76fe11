"""Writes docs/PEERS.md: every test of PyTorch's own test/dynamo that means something, or that plain eager passes, and
that fails here, with its cause.

    python tools/peers.py RESULTS.details.json BASELINE_DYNAMO.json BASELINE_EAGER.json [> docs/PEERS.md]

The first is what a run of the suites leaves ({suite: {"tests": {test: [outcome, seconds, message, graphs]}}}), the
others the outcomes of both baselines ({suite: {test: outcome}}). Causes are kept by hand in docs/peer_causes.txt: a
line `pattern: cause` for each, the pattern a regular expression over `suite::test message`; the first that fits holds.
A test that none fits is listed with the run's own message, so that nothing is silent.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

CAUSES = Path(__file__).parent.parent / "docs" / "peer_causes.txt"
HEAD = """# Peers: what fails, and why

Tests of PyTorch's test/dynamo that fail with Stator. *Meaningful*: TorchDynamo passes it, and eager does not. *Floor*: both pass it.
Made by `tools/peers.py` from a run's results and `docs/peer_causes.txt`; a cause in quotes is the run's own message.
"""


def causes() -> list[tuple[re.Pattern[str], str]]:
    rows = []
    for line in CAUSES.read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, _, cause = line.partition(": ")
            rows.append((re.compile(pattern), cause))
    return rows


def cause_of(rows: list[tuple[re.Pattern[str], str]], name: str, message: str) -> str:
    for pattern, cause in rows:
        if pattern.search(f"{name} {message}"):
            return cause
    said = re.sub(r"^\S*Unsupported: \S+ in \S+: ", "", message).replace("|", "/")
    return f'"{said[:140]}"'


def main() -> None:
    results, dynamo, eager = (json.loads(Path(path).read_text()) for path in sys.argv[1:4])
    rows = causes()
    print(HEAD)
    print("| suite | meaningful | pass | floor lost |\n|---|---|---|---|")
    failing: dict[str, list[str]] = {}
    for suite, found in sorted(results.items()):
        meaningful = passed = lost = 0
        # Of a file that cannot be imported there are none.
        left_out = {
            test: ("not collected", 0, "", None) for test in dynamo.get(suite, {}) if test not in found["tests"]
        }
        for test, (outcome, _, message, _) in sorted({**left_out, **found["tests"]}.items()):
            if dynamo.get(suite, {}).get(test) != "passed":
                continue
            floor = eager.get(suite, {}).get(test) == "passed"
            meaningful += not floor
            passed += not floor and outcome == "passed"
            lost += floor and outcome != "passed"
            if outcome != "passed":
                kind = "floor, " if floor else ""
                line = f"- `{test}` ({kind}{outcome}): {cause_of(rows, f'{suite}::{test}', message)}"
                failing.setdefault(suite, []).append(line)
        print(f"| {suite} | {meaningful} | {passed} | {lost} |")
    for suite, lines in failing.items():
        print(f"\n## {suite}")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
