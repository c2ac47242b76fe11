"""What the text cases of tests/capture/ show, all together. Needs neither torch nor stator: tools/house.py asks it too."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "tests/capture"
HEADER = re.compile(r"^(\w+):[ \t]*(.*)$")

# How each guard kind reads (guards/explain.cpp); the first that fits counts.
GUARD_KINDS = {
    "kGlobalState": r"^global state ",
    "kAbcToken": r"^no class was registered ",
    "kTypeVersion": r" is unchanged( in |$)",
    "kIsWeak": r" is the object of the capture(, held)?$",
    "kType": r"^type\(.*\) is ",
    "kLength": r"^len\(.*\) == \d+$",
    "kDictKeys": r"^list\(.*\) == \(",
    "kDictEmpty": r"^not ",
    "kNotSameAs": r" is not ",
    "kTensor": r": \w+, \w+, \[",
    "kPresent": r" is there$",
    "kAbsent": r" is missing$",
    "kSameAs": r"^[LG]\[.* is [LG]\[",
    "kIs": r" is ",
    "kEquals": r" == ",
}


def kind_of(guard):
    return next((kind for kind, pattern in GUARD_KINDS.items() if re.search(pattern, guard)), None)


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


def guard_kinds():
    text = (ROOT / "src/guards/guard.h").read_text()
    return re.findall(r"^  (k\w+),", text[text.index("enum class GuardKind") :].partition("};")[0], re.MULTILINE)


def guard_kinds_without_case():
    seen = {kind_of(line) for line in shown("guards")}
    return [kind for kind in guard_kinds() if kind not in seen]
