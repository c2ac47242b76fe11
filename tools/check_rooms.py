"""Fails on an include that crosses a wall between the rooms of src/.

The rooms and what each may include are read from the stator_room(...) calls in CMakeLists.txt. Also checked: torch's
headers occur in tensor/ alone (torch/headeronly in shapes/ too), <Python.h> is reached through base/python.h, and what
depends on a CPython version (PY_VERSION_HEX, PY_MINOR_VERSION, pycore_*.h, fields that move or mean something else from
version to version, fields that CPython's reference does not describe) occurs in python/ alone.
A str's characters come from base/text.h alone: CPython's own call gives null for a str that no encoding knows.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOM = re.compile(r"^\s*stator_room\(\s*([\w/]+)([^)]*)\)", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">]', re.M)
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
VERSION = re.compile(r"\bPY_VERSION_HEX\b|\bPY_MINOR_VERSION\b|\bpycore_\w+\.h\b")
# Each has a name in python/ that holds for all versions.
LAYOUT = re.compile(
    r"\btp_dict\b|\bma_version_tag\b|\b_PyDict_Next\b|\b_PyErr_GetTopmostException\b|\bPy_TPFLAGS_HEAPTYPE\b|\bcframe\b"
    r"|\b_PyMethodWrapper_Type\b"
)
# Fields that CPython's headers show and its reference does not: read through a macro of CPython's or a function of
# python/.
FIELD = re.compile(
    r"(?:->|\.)(ob_(?:item|size|digit|sval|fval|shash|exports)|ma_(?:used|keys|values)|tp_(?:version_tag|mro|subclasses|cache)"
    r"|ht_\w+|co_(?:nlocalsplus|nfreevars|ncellvars|nplaincellvars|localsplusnames|localspluskinds|code_adaptive|exceptiontable|extra)"
    r"|d_(?:type|member|getset|method|base|wrapped|qualname)|m_(?:ml|weakreflist)|im_\w+|gi_\w+|cr_\w+|ag_\w+)\b(?! *=[^=])"
)
TEXT = re.compile(r"\bPyUnicode_AsUTF8(AndSize)?\b")
TEXT_HOME = "src/base/text.h"
SUFFIXES = {".h", ".c", ".cpp", ".def", ".inc"}


def read_rooms(text):
    rooms = {}
    for name, rest in ROOM.findall(re.sub(r"#.*", "", text)):
        words = rest.split()
        deps = words[words.index("DEPS") + 1 :] if "DEPS" in words else []
        rooms[name] = {"deps": {d for d in deps if d.islower()}, "torch": "TORCH" in words}
    return rooms


def room_of(path, rooms):
    """The room that a path inside of src/ belongs to: the longest that is its beginning."""
    parts = path.split("/")
    return next((room for n in (2, 1) if (room := "/".join(parts[:n])) in rooms and len(parts) > n), None)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_file(path, room, rooms, text):
    """Yields (line, complaint)."""
    allowed = rooms[room]["deps"] | {room}
    for match in INCLUDE.finditer(text):
        line, quote, target = line_of(text, match.start()), match[1], match[2]
        if TORCH.match(target):
            if not rooms[room]["torch"] and not (room == "shapes" and target.startswith("torch/headeronly/")):
                yield line, f"{target}: torch's headers belong to tensor/ alone"
        elif target == "Python.h":
            if path.as_posix() != "src/base/python.h" and room != "python":
                yield line, "Python.h: include base/python.h instead"
        elif quote == '"' and "/" in target and not VERSION.search(target):
            other = room_of(target, rooms)
            if other is None:
                yield line, f"{target}: belongs to no room"
            elif other not in allowed:
                yield (
                    line,
                    f"{target}: {room}/ may include {', '.join(sorted(allowed))}, not {other}/",
                )
    for match in TEXT.finditer(text) if path.as_posix() != TEXT_HOME else ():
        yield line_of(text, match.start()), f"{match[0]}: base/text.h has names for it that cannot crash"
    if room != "python":
        for match in VERSION.finditer(text):
            yield line_of(text, match.start()), f"{match[0]}: CPython versions are python/'s business"
        if room != "base":
            for match in LAYOUT.finditer(text):
                yield (
                    line_of(text, match.start()),
                    f"{match[0]}: differs between CPython versions: python/ has a name for it",
                )
            for match in FIELD.finditer(text):
                yield line_of(text, match.start(1)), f"{match[1]}: CPython's layout is read in python/ alone"


def check_cycles(rooms):
    """A room may only depend on rooms declared before it: CMakeLists.txt lists them lowest first."""
    seen = set()
    for name, room in rooms.items():
        for dep in sorted(room["deps"] - seen):
            yield f"CMakeLists.txt: {name}/ depends on {dep}/, which is not declared before it"
        seen.add(name)


def main(root=ROOT):
    rooms = read_rooms((root / "CMakeLists.txt").read_text())
    complaints = list(check_cycles(rooms))
    checked = 0
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        checked += 1
        relative = path.relative_to(root)
        room = room_of("/".join(relative.parts[1:]), rooms)
        if room is None:
            complaints.append(f"{relative}: no stator_room() in CMakeLists.txt")
            continue
        for line, text in check_file(relative, room, rooms, path.read_text()):
            complaints.append(f"{relative}:{line}: {text}")
    for complaint in complaints:
        print(complaint)
    print(f"rooms: {len(rooms)} rooms, {checked} files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
