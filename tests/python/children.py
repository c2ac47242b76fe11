"""Child processes that use the very stator of this one: in the checkout, in the build folder of another CPython and
torch, or installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parents[1]


def search_path(*more: str | os.PathLike[str]) -> str:
    """For PYTHONPATH: the folder of this stator, the checkout (for `tests.python`), and more."""
    spec = importlib.util.find_spec("stator")
    assert spec is not None and spec.origin is not None
    return os.pathsep.join(map(str, [Path(spec.origin).parents[1], ROOT, *more]))


def environment(*more: str | os.PathLike[str], **variables: str) -> dict[str, str]:
    """This process's, with that search path. Neither the folder that a child starts in nor its script's is searched:
    the checkout may hold a stator for another CPython, or none that is built."""
    return {**os.environ, "PYTHONPATH": search_path(*more), "PYTHONSAFEPATH": "1", **variables}


def answer_of(script: Path, place: Path, *options: str, **variables: str) -> Any:
    """What a script says in its last line, as JSON, in a process that keeps what it compiles below `place`. It
    imports what lies beside it."""
    variables = {"STATOR_STRICT": "1", "STATOR_CACHE": "1", "STATOR_CACHE_DIR": str(place / "stator"), **variables}
    variables["TORCHINDUCTOR_CACHE_DIR"] = str(place / "inductor")
    within = environment(script.parent, **variables)
    within.pop("STATOR_BREAK_EVERY", None)
    command = [sys.executable, "-W", "ignore", str(script), *options]
    done = subprocess.run(command, env=within, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
