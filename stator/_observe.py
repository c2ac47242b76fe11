"""Listeners on graphs, and counters."""

import itertools
from typing import Any

from stator import _core

_listeners: dict[int, Any] = {}
_ids = itertools.count()


class _Handle:
    """Ends a registration: by remove(), or at the end of a `with`."""

    def __init__(self, key):
        self.key = key

    def remove(self):
        _listeners.pop(self.key, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def on_graph(callback):
    """Calls `callback(graph_module)` for each graph before it goes to its backend; returns a handle with remove()."""
    if not callable(callback):
        raise TypeError(f"on_graph takes a callable, not {type(callback).__name__}")
    handle = _Handle(next(_ids))
    _listeners[handle.key] = callback
    return handle


def graph_made(graph_module):
    for callback in list(_listeners.values()):
        callback(graph_module)


def has_listeners():
    return bool(_listeners)


def stats():
    """Counters since the process started or reset_stats() was called, as a dict: captures, graphs, breaks, hits, misses
    and so on."""
    return _core.stats()


def reset_stats():
    """Sets all counters to zero."""
    _core.reset_stats()
