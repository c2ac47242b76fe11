"""Figures of the house: what a stranger would trip over. Fails where one is over its limit.

A limit that is higher than its aim is where the code stands: it may only be lowered.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/python")]
import check_rooms  # noqa: E402
import wrap  # noqa: E402

import capture_coverage  # noqa: E402

LONG, TOO_LONG, LONG_FILE = 80, 120, 600
# A function starts in the first column and ends with a brace there; what stands between is indented (clang-format sees to it).
FUNCTION = re.compile(
    r"^(?!namespace|extern|struct|class|enum|union|typedef|#|//|\}|using|static_assert)\S.*\b([\w~]+)\(", re.M
)
COUNTING = re.compile(r"\bPy_X?(?:INCREF|DECREF|SETREF)\b|\bPy_CLEAR\b")
# A libstdc++ that is linked in statically crashes in its streams, beside another one in the process: locales are
# shared.
STREAMS = re.compile(r"#include <(?:sstream|iostream|fstream|iomanip|istream|ostream|regex|locale)>")
# Tables of rows, one line for each thing: as long as there are things.
TABLES = re.compile(r"^(?:register\w+|code[Pp]olicy)$")

# figure: (aim, limit)
LONG_LINES = 0
LIMITS = {
    "functions over 120 lines": (0, 0),
    "functions over 80 lines": (11, 11),
    "files over 600 lines": (0, 0),
    "public data of the tracer and its parts": (0, 0),
    "lines of interpret/core/tracer.h": (200, 200),
    "includes against the arrow": (0, 0),
    "files with raw reference counting outside of base/ref.h and python/": (0, 0),
    "files that use streams of the standard library": (0, 0),
    "rooms without README": (0, 0),
    "READMEs of rooms over 15 lines": (0, 0),
    "text cases missing to 400": (0, 0),
    "reasons without a text case": (0, 0),
    "guard kinds without a text case": (0, 0),
    "files with comments or docs past 120 columns (make format)": (0, LONG_LINES),
}


def sources(*suffixes):
    return [path for path in sorted((ROOT / "src").rglob("*")) if path.suffix in suffixes]


def functions(path):
    """(name, lines) of each function that is defined in the file."""
    lines = path.read_text().splitlines()
    start = name = None
    for number, line in enumerate(lines):
        if start is None and (found := FUNCTION.match(line)):
            start, name = number, found[1]
        if start is not None and line.endswith(";") and not line.startswith((" ", "}")):
            start = None
        if number == start and line.endswith("}"):  # all of it in one line
            start = None
        if start is not None and line == "}":
            yield name, number - start + 1
            start = None


def members(text):
    """Public data of a class that has methods and private data: a part, and no plain record."""
    for match in re.finditer(r"^class (\w+)[^;{]*\{\n(.*?)^\};", text, re.M | re.S):
        public = re.split(r"^ private:", match[2], maxsplit=1, flags=re.M)[0]
        public = re.sub(r"^  (?:struct|class|enum)\b.*?^  \};", "", public, flags=re.M | re.S)
        for line in public.splitlines():
            if re.match(r"  [A-Za-z_][\w:<>,\s*&]* [a-z_]\w*(?: = [^()]*)?;", line) and not re.match(
                r"  (?:using|friend|return)\b", line
            ):
                yield match[1], line.strip()


def parts():
    """Public data of the parts; the Tracer's own are the parts."""
    folder = ROOT / "src/interpret/core"
    named = {path.stem for path in folder.glob("*.h")}
    tracer = (folder / "tracer.h").read_text()
    included = set(re.findall(r'#include "interpret/core/(\w+)\.h"', tracer)) & named
    for stem in sorted(included - {"trace_options", "flow"}):
        yield from members((folder / f"{stem}.h").read_text())


def figures():
    long, longest = [], []
    for path in sources(".cpp", ".h"):
        for name, lines in functions(path):
            if lines > LONG and not TABLES.match(name):
                long.append((lines, name, path))
    for path in sources(".cpp", ".h", ".c"):
        if (count := len(path.read_text().splitlines())) > LONG_FILE:
            longest.append((count, path))
    long.sort(key=lambda row: -row[0])
    rooms = check_rooms.read_rooms((ROOT / "CMakeLists.txt").read_text())
    against = []
    for path in sources(".h", ".cpp", ".c", ".def"):
        relative = path.relative_to(ROOT)
        room = check_rooms.room_of("/".join(relative.parts[1:]), rooms)
        if room is not None:
            against += list(check_rooms.check_file(relative, room, rooms, path.read_text()))
    counting = [
        path
        for path in sources(".h", ".cpp")
        if path.relative_to(ROOT / "src").as_posix() != "base/ref.h"
        and path.relative_to(ROOT / "src").parts[0] != "python"
        and COUNTING.search(path.read_text())
    ]
    readmes = {room: ROOT / "src" / room / "README.md" for room in rooms}
    unseen, kinds = capture_coverage.reasons_without_case(), capture_coverage.guard_kinds_without_case()
    yield "functions over 120 lines", sum(lines > TOO_LONG for lines, _, _ in long), long
    yield "functions over 80 lines", len(long), []
    yield "files over 600 lines", len(longest), sorted(longest, reverse=True)
    public = list(parts())
    yield "public data of the tracer and its parts", len(public), public
    yield "lines of interpret/core/tracer.h", len((ROOT / "src/interpret/core/tracer.h").read_text().splitlines()), []
    yield "includes against the arrow", len(against), against
    yield "files with raw reference counting outside of base/ref.h and python/", len(counting), counting
    streams = [path for path in sources(".h", ".cpp") if STREAMS.search(path.read_text())]
    yield "files that use streams of the standard library", len(streams), streams
    yield (
        "rooms without README",
        sum(not path.exists() for path in readmes.values()),
        [room for room, path in readmes.items() if not path.exists()],
    )
    over = [room for room, path in readmes.items() if path.exists() and len(path.read_text().splitlines()) > 15]
    yield "READMEs of rooms over 15 lines", len(over), over
    yield "text cases missing to 400", max(0, 400 - capture_coverage.case_count()), []
    yield "reasons without a text case", len(unseen), unseen
    yield "guard kinds without a text case", len(kinds), kinds
    long_lines = [path for path in wrap.files() if wrap.wrapped(path, text := path.read_text()) != text]
    yield "files with comments or docs past 120 columns (make format)", len(long_lines), long_lines


def shown(row):
    return " ".join(
        str(part.relative_to(ROOT)) if isinstance(part, pathlib.Path) else str(part)
        for part in (row if isinstance(row, tuple) else (row,))
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=0, help="so many of the places behind each figure")
    rows = parser.parse_args().rows
    failed = False
    for name, value, places in figures():
        aim, limit = LIMITS[name]
        bad = value > limit
        failed |= bad
        print(
            f"{'OVER ' if bad else '     '}{name:70} {value:5}  limit {limit}"
            + (f", aim {aim}" if aim != limit else "")
        )
        for place in places[: max(rows, 10 if bad else 0)]:
            print("          " + shown(place))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
