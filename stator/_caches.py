"""Which cache a compile call gets: equal arguments share one, so that twenty equal layers compiled one by one are captured once.

A cache is owned by the compiled objects that use it. The registry holds it weakly: the last compiled object that goes frees it, with
its entries.
"""

import itertools
import threading
import weakref
from typing import Any

from stator import _core, _report

_caches: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
_lock = threading.Lock()
_fresh = itertools.count()


class Settings:
    """The arguments of one compile call, but for the model. `arguments` are what the user gave: enough to make the call again."""

    def __init__(self, backend, fullgraph, dynamic, recompile_limit, isolate_recompiles, arguments):
        self.backend, self.fullgraph, self.dynamic = backend, fullgraph, dynamic
        self.recompile_limit, self.isolate_recompiles = recompile_limit, isolate_recompiles
        self.arguments = arguments
        # What the user says about guards (_guard_filter.py).
        self.guard_filter_fn = backend.guard_filter_fn
        self.guard_export_fn, self.guard_fail_fn = (arguments.get(k) for k in ("guard_export_fn", "guard_fail_fn"))

    def key(self):
        # `isolate_recompiles` asks for a cache of its own.
        alone = next(_fresh) if self.isolate_recompiles else None
        hooks = (
            id(self.guard_export_fn),
            id(self.guard_fail_fn),
        )  # alive as long as the cache, which has these settings
        return (self.backend.key(), self.fullgraph, self.dynamic, self.recompile_limit, alone, hooks)


def cache_for(settings):
    key = settings.key()
    with _lock:
        cache = _caches.get(key)
        if cache is None:
            cache = _core.Cache(settings)
            _caches[key] = cache
        return cache


def live_caches():
    with _lock:
        return list(_caches.values())


def reset_all():
    """Drops the entries of all caches, and what their backends keep for themselves."""
    _report.told_breaks.clear()
    for cache in live_caches():
        cache.reset()
        cache.settings.backend.reset()
