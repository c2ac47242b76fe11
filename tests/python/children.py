"""Child processes that use the very stator of this one: in the checkout, in the build folder of another CPython and torch, or installed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parents[1]


def search_path(*more: str | os.PathLike[str]) -> str:
    """For PYTHONPATH: the folder of this stator, the checkout (for `tests.python`), and more."""
    spec = importlib.util.find_spec("stator")
    assert spec is not None and spec.origin is not None
    return os.pathsep.join(map(str, [Path(spec.origin).parents[1], ROOT, *more]))


def environment(*more: str | os.PathLike[str], **variables: str) -> dict[str, str]:
    """This process's, with that search path. Neither the folder that a child starts in nor its script's is searched: the checkout may hold a
    stator for another CPython, or none that is built."""
    return {**os.environ, "PYTHONPATH": search_path(*more), "PYTHONSAFEPATH": "1", **variables}
