"""Lines of the user's files, for people to look at."""

from __future__ import annotations

import inspect
import linecache
import os
import re
from typing import Any

MOST_LINES = 400
_PLACE = re.compile(r"^(?P<file>.*):(?P<line>\d+) in (?P<function>.*)$")


def function(file: str, line: int, name: str) -> dict[str, Any]:
    """A function with its source; no lines where the file cannot be read."""
    lines = linecache.getlines(file)[max(0, line - 1) :]
    try:
        block = inspect.getblock(lines) if lines else []
    except (SyntaxError, IndentationError, EOFError):
        block = lines[:20]
    return {
        "name": name,
        "file": file,
        "short": short(file),
        "line": line,
        "source": [text.rstrip("\n") for text in block[:MOST_LINES]],
    }


def short(file: str) -> str:
    """A file's name as people say it: relative to here, or its last two parts."""
    inside = os.path.relpath(file) if os.path.isabs(file) else file
    if not inside.startswith(".."):
        return inside
    return os.path.join(*os.path.normpath(file).split(os.sep)[-2:])


def around(stack: list[list[Any]], place: str) -> list[dict[str, Any]]:
    """The calls that led to a place, outermost first, each with the lines beside it."""
    if not stack:
        found = _PLACE.match(place)
        stack = [[found["file"], int(found["line"]), found["function"]]] if found else []
    chain = []
    for file, line, name in stack:
        all_lines = linecache.getlines(file)
        first = max(1, line - 2)
        chain.append(
            {
                "file": file,
                "short": short(file),
                "line": line,
                "function": name,
                "first": first,
                "lines": [text.rstrip("\n") for text in all_lines[first - 1 : line + 2]],
            }
        )
    return chain
