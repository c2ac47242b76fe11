"""Modules of torch's that are looked at where somebody has loaded them, and not loaded for it."""

import sys
from typing import Any


def loaded(name: str) -> Any:
    """The module; None where nobody has imported it, or its import is under way: then names are missing in it."""
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module
