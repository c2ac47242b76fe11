"""Lines of src/ that tests and fuzzers reach: tools/coverage.py run [--part] and tools/coverage.py report.

`run` runs every test file, plain and with forced breaks, and programs of each fuzzer on the build that counts lines
(preset `coverage`); --part takes the corpus and the text cases alone. `report` prints what has been reached so far by
room, writes the lines that were not to build/coverage/missed.txt, and fails under the limit. Counts add up over runs;
`make coverage` begins with none.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

from rich.console import Console
from rich.table import Table

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "coverage"
LIMIT = 92.0
CORPUS = ["tests/python/test_programs.py", "tests/python/test_capture_cases.py"]
FUZZERS = {"python": 1000, "idioms": 300, "written": 300, "tensors": 300}


def run(part):
    environment = os.environ | {"PYTHONPATH": f"{BUILD / 'package'}:{ROOT}", "PYTHONSAFEPATH": "1"}
    python = [sys.executable, "-W", "ignore"]
    files = CORPUS if part else []
    commands = [[*python, "tools/run_tests.py", *files]]
    commands += [
        [*python, "-m", "tests.fuzz.run", "--generator", name, "--count", str(count), "--jobs", "2", "--break-every"]
        for name, count in FUZZERS.items()
        if not part
    ]
    for command in commands:
        subprocess.run(command, cwd=ROOT, env=environment)  # a failing test is make test's to tell


def counted():
    """{file: {line: how often}} of src/, by gcov."""
    made = BUILD / "lines.json"
    command = [sys.executable, "-m", "gcovr", "--root", str(ROOT), "--filter", "src/", "--object-directory", str(BUILD)]
    command += ["--gcov-ignore-parse-errors=all", "--merge-mode-functions=merge-use-line-min", "-j", "2"]
    subprocess.run([*command, "--json", str(made), str(BUILD)], cwd=ROOT, check=True)
    return {
        entry["file"]: {line["line_number"]: line["count"] for line in entry["lines"] if not line.get("gcovr/noncode")}
        for entry in json.loads(made.read_text())["files"]
    }


def room_of(file):
    folders = pathlib.PurePath(file).parts[1:-1]
    return "/".join(folders[:2] if folders[0] == "interpret" else folders[:1])


def report():
    reached, all_lines, missed = collections.Counter(), collections.Counter(), []
    for file, lines in sorted(counted().items()):
        text = (ROOT / file).read_text().splitlines()
        reached[room_of(file)] += sum(count > 0 for count in lines.values())
        all_lines[room_of(file)] += len(lines)
        missed += [f"{file}:{number}: {text[number - 1].strip()}" for number, count in lines.items() if count == 0]
    (BUILD / "missed.txt").write_text("\n".join(missed) + "\n")
    table = Table("room", "lines", "reached")
    for room, lines in sorted(all_lines.items()):
        table.add_row(room, f"{lines:,}", f"{100 * reached[room] / lines:.1f} %")
    share = 100 * reached.total() / all_lines.total()
    table.add_row("all", f"{all_lines.total():,}", f"{share:.1f} %", style="bold")
    Console().print(table, f"lines that nothing reached: {BUILD.relative_to(ROOT)}/missed.txt")
    return 0 if share >= LIMIT else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--part", action="store_true", help="the corpus and the text cases alone")
    options = parser.parse_args()
    return report() if options.what == "report" else run(options.part)


if __name__ == "__main__":
    sys.exit(main())
