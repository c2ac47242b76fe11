"""Programs written by hand, theme by theme, alone and several in one call: the fuzzer's fourth generator.

    python -m tests.fuzz.run --generator written --count 400 [--break-every]

The texts below `written_programs/` hold one program each behind a line `### name`: what a module defines, with a function `f(x, n)`. It is called
with tensors of several sizes and dtypes and with numbers of several types, one after the other. The first seeds are the programs alone, all further
ones two or three of them in one function. Each is made anew from the same code objects before each run, as a module that is imported twice would
be if its code were shared: functions are known by their code, and have to be told apart by their globals.
"""

from __future__ import annotations

import functools
import linecache
import random
import re
import sys
import types
from pathlib import Path
from typing import Any

from tests.python.programs import Case

FOLDER = Path(__file__).parent / "written_programs"
PRELUDE = (FOLDER / "prelude.txt").read_text()


@functools.cache
def programs() -> dict[str, str]:
    """All texts, by name."""
    found: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.txt")):
        parts = re.split(r"^### *(\S+).*\n", path.read_text(), flags=re.MULTILINE)
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            found[f"{path.stem}.{name}"] = text
    return found


@functools.cache
def _code(name: str) -> types.CodeType:
    return compile(PRELUDE + programs()[name], f"<written {name}>", "exec")


def _module(name: str) -> dict[str, Any]:
    text, filename = PRELUDE + programs()[name], f"<written {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    module = types.ModuleType("fuzz_program")
    sys.modules["fuzz_program"] = module  # where classes are looked for by name
    exec(_code(name), module.__dict__)
    return module.__dict__


def case_of(*names: str) -> Case:
    """The programs in one function, made anew."""
    parts = [_module(name) for name in names]
    calls = parts[0]["CALLS"]
    if len(parts) == 1:
        function = parts[0]["f"]
    else:
        driver: dict[str, Any] = {f"part{i}": part["f"] for i, part in enumerate(parts)}
        driver["__name__"] = "fuzz_program"
        body = "".join(f"    r{i} = part{i}(x, n)\n" for i in range(len(parts)))
        results = ", ".join(f"r{i}" for i in range(len(parts)))
        exec(f"def f(x, n):\n{body}    return {results}\n", driver)
        function = driver["f"]
    case = Case(function, *calls[0]).watching(*(part["LOG"] for part in parts)).changing(*calls[1])
    for call in calls[1:]:
        case.then_call(*call)
    return case


def generate(seed: int, exact: bool = False) -> str:
    names = list(programs())
    rng = random.Random(seed)
    chosen = [names[seed]] if seed < len(names) else rng.sample(names, rng.choice((2, 2, 3)))
    return f"from tests.fuzz.written import case_of\n\n\ndef make():\n    return case_of(*{chosen!r})\n"
