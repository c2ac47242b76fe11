"""Keeps comments and docs to 120 columns: tools/wrap.py [--check] [FILE ...].

What goes past the last column moves to the next line of the same paragraph, or to a line of its own; nothing else is
touched. Tables, blocks of code, and words that are longer than a line (addresses) stay as they are.
"""

import argparse
import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 120
CODE = {".h", ".c", ".cpp", ".def"}
# Lines of programs that are captured are counted: text cases name them.
LEFT_ALONE = ("tests/python/programs/", "tests/python/driver_programs/", "tests/fuzz/")
LIST = re.compile(r"(?:[-*+]|\d+\.)\s+")


def moved(lines, starts, prefix_of, same_paragraph):
    """The lines, with the tails of those in `starts` that are too long moved on. prefix_of(line): what its continuation
    begins with."""
    made = []
    waiting, prefix = "", ""
    for number, line in enumerate(lines):
        if waiting:
            if number in starts and same_paragraph(line, prefix):
                line = prefix + waiting + " " + line[len(prefix) :]
            else:
                made.append(prefix + waiting)
            waiting = ""
        # What was moved may itself be longer than a line.
        while number in starts and len(line) > COLUMNS:
            prefix = prefix_of(line)
            cut = line.rfind(" ", len(prefix) + 1, COLUMNS + 1)
            if cut <= len(prefix):
                break
            waiting = (line[cut + 1 :] + " " + waiting).strip()
            line = line[:cut]
        made.append(line)
    if waiting:
        made.append(prefix + waiting)
    # A tail that is too long for a line of its own is cut again.
    return made


def settled(text, once):
    """The text after as many rounds as change something."""
    for _ in range(50):
        new = once(text)
        if new == text:
            break
        text = new
    return text


def comments(mark):
    start = re.compile(rf"\s*{mark} ?(?=\S)")

    def once(text):
        lines = text.split("\n")
        starts = {i for i, line in enumerate(lines) if start.match(line) and "clang-format" not in line}
        return "\n".join(
            moved(
                lines,
                starts,
                lambda line: start.match(line)[0],
                # A list, or text that is indented for a reason, begins anew.
                lambda line, prefix: line.startswith(prefix) and not re.match(r"[-*\s]|\d+\.", line[len(prefix) :]),
            )
        )

    return once


def docstrings(text):
    """Lines of the docstrings of a Python file, without their last: the quotes stand there."""
    lines = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node
        ):
            lines |= set(range(node.body[0].lineno - 1, node.body[0].end_lineno))
    return lines


def python_once(text):
    text = comments("#")(text)
    lines = text.split("\n")

    def same(line, prefix):
        return line.startswith(prefix) and line.strip() != '"""' and not re.match(r"\s|[-*] |$", line[len(prefix) :])

    return "\n".join(moved(lines, docstrings(text), lambda line: re.match(r"\s*", line)[0], same))


def markdown_once(text):
    lines = text.split("\n")
    starts, fenced = set(), False
    for number, line in enumerate(lines):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith(("|", "#", "<", "[!", "![")) and not line.startswith("    "):
            starts.add(number)
        elif not fenced and re.match(r"\s{4,}\S", line) and number - 1 in starts and lines[number - 1].strip():
            starts.add(number)  # goes on below a list

    def prefix_of(line):
        indent = re.match(r"\s*", line)[0]
        item = LIST.match(line[len(indent) :])
        return indent + " " * len(item[0] if item else "")

    def same(line, prefix):
        rest = line[len(prefix) :]
        return line.startswith(prefix) and rest[:1].strip() != "" and not LIST.match(rest)

    return "\n".join(moved(lines, starts, prefix_of, same))


def wrapped(path, text):
    if path.suffix in CODE:
        return settled(text, comments("//"))
    return settled(text, python_once if path.suffix == ".py" else markdown_once)


def files():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in sorted(listed.stdout.split("\n")):
        path = ROOT / name
        if path.suffix in CODE | {".py", ".md"} and not name.startswith(LEFT_ALONE) and path.is_file():
            yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something would be")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    changed = 0
    for path in [p.resolve() for p in options.files] or files():
        text = path.read_text()
        new = wrapped(path, text)
        if new == text:
            continue
        changed += 1
        print(path.relative_to(ROOT))
        if not options.check:
            path.write_text(new)
    print(f"wrap: {changed} files {'would be ' if options.check else ''}wrapped")
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
