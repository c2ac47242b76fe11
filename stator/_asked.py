"""Settings that the tracer asks Python about: functions that are left out or run later, and sources that are dynamic by
name."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from stator import _core, config
from stator.polyfills import switches

_held: dict[int, Any] = {}  # functions that have a rule by these settings
_LEVELS = {
    "debug": 10,
    "info": 20,
    "warning": 30,
    "warn": 30,
    "error": 40,
    "exception": 40,
    "critical": 50,
    "isEnabledFor": None,
}


def changed(name: str) -> None:
    if name in ("dynamic_sources", "unbacked_sources"):
        _follow_sources()
    else:
        _follow_functions()


# ---- functions


def _rules() -> dict[int, tuple[Any, Callable[..., Any]]]:
    """id -> (function, what is traced in its place)."""
    made: dict[int, tuple[Any, Callable[..., Any]]] = {}
    loggers: dict[str, list[logging.Logger]] = {}
    for function in config.reorderable_logging_functions:
        made[id(function)] = (function, switches.later(function))
    for function in config.ignore_logging_functions:
        owner = getattr(function, "__self__", None)
        method = getattr(function, "__func__", None)
        if isinstance(owner, logging.Logger) and method is not None:
            loggers.setdefault(function.__name__, []).append(owner)
        else:
            made[id(function)] = (function, switches.ignored)
    for name, owners in loggers.items():
        method = getattr(logging.Logger, name, None)
        if method is not None and name in _LEVELS and id(method) not in made:
            made[id(method)] = (method, switches.ignored_of(tuple(owners), _LEVELS[name]))
    return made


def _follow_functions() -> None:
    rules = _rules()
    for key in [key for key in _held if key not in rules]:
        _core.drop_call_rule(key)
        del _held[key]
    for key, (function, traced) in rules.items():
        _held[key] = (function, traced)
        _core.set_call_rule(function, "substitute_in_graph", traced)


# ---- sources


def _patterns(text: str) -> list[tuple[str, int | None]]:
    """name or regular expression, with `:dim` behind it for one dim alone."""
    found: list[tuple[str, int | None]] = []
    for part in text.replace(" ", "").split(","):
        if not part:
            continue
        name, colon, dim = part.rpartition(":")
        found.append((name, int(dim)) if colon and dim.isdecimal() else (part, None))
    return found


def _dims(patterns: list[tuple[str, int | None]], name: str, rank: int) -> tuple[int, ...]:
    chosen: set[int] = set()
    for pattern, dim in patterns:
        if pattern == name or re.match(pattern, name):
            chosen.update(range(max(rank, 1)) if dim is None else [dim] if dim < rank else [])
    return tuple(sorted(chosen))


def _follow_sources() -> None:
    dynamic, unbacked = _patterns(config.dynamic_sources), _patterns(config.unbacked_sources)
    if not dynamic and not unbacked:
        _core.set_dynamic_sources(None)
        return

    def asks(name: str, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return _dims(dynamic, name, rank), _dims(unbacked, name, rank)

    _core.set_dynamic_sources(asks)
