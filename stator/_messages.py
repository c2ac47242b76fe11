"""Warnings of captured code, given when it has run."""

from __future__ import annotations

import warnings
from typing import Any


def warn_at(text: str, category: type[Warning], file: str, line: int, scope: dict[str, Any]) -> None:
    """What warnings.warn does in that line of the module with these globals."""
    module = scope.get("__name__")
    registry = scope.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, file, line, module if isinstance(module, str) else "<string>", registry)
