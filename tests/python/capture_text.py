"""Captures as the text of a case: what stator._core.take_captures gave, in readable lines that are the same in every
process."""

import linecache
import re

# In the order of a capture.
SECTIONS = ("at", "graph", "body", "guards", "makes", "changes", "leaves", "returns")

# What is another one elsewhere: an address, a path of one machine.
ELSEWHERE = re.compile(r"0x[0-9a-f]{6,}|(?<![\w.])/(home|usr|work|tmp|root|opt|var)/")


def text(captures, when="", program=None):
    """`when`: of which call, if not the first; `program`: of the corpus, whose own names are written short."""
    joined = "\n".join(line for capture in captures for line in _lines(capture, when))
    if program is not None:
        joined = joined.replace(f"{program.make.__module__}.", "").replace(f"{program.make.__name__}.<locals>.", "")
    joined = re.sub(r"'[^'\n]*/(\w+\.py)', \d+", r"'\1', ...", joined)  # files and their lines
    return re.sub(r"\b0x[0-9a-f]{6,}", "0x...", joined)


def _lines(capture, when):
    place = _place(capture["code"], capture["line"], capture["opcode"])
    yield from _section("at", f"{place} ({when})" if when else place)
    if capture["graph"] != "return\n":  # there is nothing in it
        yield from _section("graph", capture["graph"])
    for body in capture["bodies"]:
        yield from _section("body", body.code.strip())
    for name in ("guards", "makes", "changes"):
        yield from _section(name, capture[name])
    kind, _, reason = capture["exit"].partition(": ")
    frames = [line for row in capture["frames"] for line in _frame(*row)]
    yield from _section(kind, reason or capture["returned"], frames)


def _frame(code, line, opcode, then, written):
    yield f"at {_place(code, line, opcode)}" + (f"; then {then}" if then else "")
    yield from (f"  {one}" for one in written.splitlines())


def _place(code, line, opcode):
    """The function, and behind its head the line, counted from the function's first, with its text."""
    if code is None:
        return "a function that is made here"
    if not opcode:
        return code.co_qualname
    if line <= 0:  # belongs to no line
        return f"{code.co_qualname}, {opcode}"
    source = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_qualname}, line {line - code.co_firstlineno + 1}, {opcode}: {source}"


def _section(name, first, rest=()):
    lines = first.splitlines()
    if not lines and not rest:
        return
    if len(lines) == 1:
        yield f"{name}: {lines[0]}"
    else:
        yield f"{name}:"
        yield from (f"  {line}" for line in lines)
    yield from (f"  {line}" for line in rest)
