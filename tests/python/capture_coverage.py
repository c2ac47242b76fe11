"""What the text cases of tests/capture/ show, all together. Needs neither torch nor stator: tools/house.py asks it
too."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "tests/capture"
HEADER = re.compile(r"^(\w+):[ \t]*(.*)$")

KIND = re.compile(r'^STATOR_GUARD_KIND\((k\w+), [^"]*"\w+", "\w+",\s*"([^"]*)"', re.MULTILINE)


def _patterns():
    """How each guard kind reads (guards/kinds.def): the first that fits counts, so those that say most come first."""
    kinds = dict(KIND.findall((ROOT / "src/guards/kinds.def").read_text()))
    holes = {"at": ".*", "was": ".*", "other": r"[LG]\[.*"}

    def weight(item):
        return len(re.sub(r"{\w+}", "", item[1])), "{other}" in item[1]

    for kind, text in sorted(kinds.items(), key=weight, reverse=True):
        parts = re.split(r"{(\w+)}", text)
        yield kind, "".join(holes[part] if i % 2 else re.escape(part) for i, part in enumerate(parts))


GUARD_KINDS = dict(_patterns())


def kind_of(guard):
    return next((kind for kind, pattern in GUARD_KINDS.items() if re.match(pattern, guard)), None)


def shown(section):
    """Each line of a section, over all cases."""
    for path in sorted(FOLDER.rglob("*.txt")):
        now = None
        for line in path.read_text().splitlines():
            header = HEADER.match(line)
            now = header[1] if header else now
            if now == section:
                yield (header[2] if header else line).strip()


def case_count():
    """Cases with expectations."""
    count = 0
    for path in FOLDER.rglob("*.txt"):
        cases = re.split(r"^case: ", path.read_text(), flags=re.MULTILINE)[1:]
        count += sum(bool(re.search(r"^(graph|guards|leaves|returns):", case, re.MULTILINE)) for case in cases)
    return count


def reasons_without_case():
    rows = re.findall(r"^REASON\((k\w+)", (ROOT / "src/breaks/reasons.def").read_text(), re.MULTILINE)
    seen = {line.split()[0] for line in shown("leaves") if line.startswith("k")}
    return [row for row in rows if row != "kNone" and row not in seen]


def guard_kinds_without_case():
    seen = {kind_of(line) for line in shown("guards")}
    return [kind for kind in GUARD_KINDS if kind not in seen]
