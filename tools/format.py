"""Formats C and C++ files: tools/format.py [--check] [FILE ...], all of src/ and tests/cpp/ by default.

Before clang-format, a comment behind code that makes the line longer than the limit goes above the line; clang-format
would break the code for its sake.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 100
TRAILING = re.compile(r"^(\s*)(\S.*?)\s+(//\s.*)$")


def lift_comments(text):
    lines = []
    for line in text.split("\n"):
        found = TRAILING.match(line) if len(line) > LIMIT else None
        code = found[2] if found else ""
        if found and not code.startswith(("//", "#", "}")) and code.count('"') % 2 == 0 and 'R"' not in code:
            lines += [found[1] + found[3], found[1] + code]
        else:
            lines.append(line)
    return "\n".join(lines)


def formatted(tool, path):
    command = [tool, f"--assume-filename={path}"]
    done = subprocess.run(command, input=lift_comments(path.read_text()), capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{path}: {done.stderr}")
    return done.stdout


def main():
    check = "--check" in sys.argv[1:]
    named = [pathlib.Path(a).resolve() for a in sys.argv[1:] if not a.startswith("--")]
    patterns = [f"{folder}/**/*.{ending}" for folder in ("src", "tests/cpp") for ending in ("h", "c", "cpp")]
    files = named or sorted(f for pattern in patterns for f in ROOT.glob(pattern))
    beside = pathlib.Path(sys.executable).parent / "clang-format"
    tool = str(beside) if beside.exists() else shutil.which("clang-format")
    if not tool:
        sys.exit("clang-format not found: run `make format`, which installs it")
    changed = 0
    for path in files:
        wanted = formatted(tool, path)
        if wanted != path.read_text():
            changed += 1
            print(path.relative_to(ROOT))
            if not check:
                path.write_text(wanted)
    print(f"format: {len(files)} files, {changed} {'to be formatted' if check else 'formatted'}")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
