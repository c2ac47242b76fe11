"""What is asked for and not done here is answered: one warning for each, which names it and says what to do."""

from __future__ import annotations

import warnings

_said: set[str] = set()


def once(what: str, why: str, instead: str = "", stacklevel: int = 3) -> None:
    if what in _said:
        return
    _said.add(what)
    advice = f": {instead}" if instead else ""
    warnings.warn(f"{what} has no effect under Stator: {why}{advice}", stacklevel=stacklevel + 1)


def forget() -> None:
    """Says everything again from here on; for tests."""
    _said.clear()
