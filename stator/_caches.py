"""Which cache a compile call gets: equal arguments share one, so that twenty equal layers compiled one by one are
captured once.

A cache is owned by the compiled objects that use it, and kept for the plain functions that were compiled lately. The
registry holds it weakly: with the last of them goes the cache, with its entries.
"""

import collections
import functools
import gc
import itertools
import threading
import types
import weakref
from typing import Any

from stator import _core, _logs

_caches: dict[Any, Any] = {}  # key -> the cache, weakly
_lock = threading.Lock()
_fresh = itertools.count()


class Settings:
    """The arguments of one compile call, but for the model. `arguments` are what the user gave: enough to make the call
    again."""

    def __init__(self, backend, fullgraph, dynamic, recompile_limit, isolate_recompiles, arguments):
        self.backend, self.fullgraph, self.dynamic = backend, fullgraph, dynamic
        self.recompile_limit, self.isolate_recompiles = recompile_limit, isolate_recompiles
        self.arguments = arguments
        # For shapes_spec (_shapes_spec.py): code in which sources are asked for by name, and (name, rank) -> (dynamic
        # dims, unbacked dims).
        self.dynamic_sources = None
        # What the user says about guards (_guard_filter.py).
        self.guard_filter_fn = backend.guard_filter_fn
        self.guard_export_fn, self.guard_fail_fn = (arguments.get(k) for k in ("guard_export_fn", "guard_fail_fn"))

    def key(self):
        # `isolate_recompiles` asks for a cache of its own; `shapes_spec` speaks of one function's parameters.
        by_itself = self.isolate_recompiles or self.arguments.get("shapes_spec") is not None
        alone = next(_fresh) if by_itself else None
        hooks = (
            id(self.guard_export_fn),
            id(self.guard_fail_fn),
        )  # alive as long as the cache, which has these settings
        return (self.backend.key(), self.fullgraph, self.dynamic, self.recompile_limit, alone, hooks)


def cache_for(settings):
    key = settings.key()
    with _lock:
        held = _caches.get(key)
        cache = held and held()
        if cache is None:
            cache = _core.Cache(settings)
            _caches[key] = weakref.ref(cache, _unseen(_drop, _caches, key))
        return cache


def _unseen(function, *args):
    """What the collector and weak references call: no trace function of the program's is told of it."""
    return functools.partial(_core.call_unseen, function, *args)


def _drop(held, key, reference):
    """The entry of an object that went; another one may have taken its place."""
    if key in held and held[key] is reference:
        del held[key]


class _Kept:
    """The captures of a function that lives, while no compiled object of it does: `stator.compile(f)(x)` in a loop
    captures once.

    The garbage collector does not see a function that its own captures hold. So the latest are kept, and of these only
    what was asked for since the full collection before the last.
    """

    MOST = 64

    def __init__(self):
        # a function's id and its cache's -> [the function, weakly; a compiled object of the function's code that does
        # not know the function; whether it was asked for since the last full collection]
        self.owners = collections.OrderedDict()
        self.aging = _unseen(self.age)

    def add(self, function, cache):
        key = (id(function), id(cache))
        found = self.owners.get(key)
        if found is None or found[0]() is not function or found[1].__code__ is not function.__code__:
            empty = tuple(types.CellType() for _ in function.__code__.co_freevars)
            hollow = types.FunctionType(function.__code__, {}, None, None, empty)
            gone = weakref.ref(function, _unseen(self.owners.pop, key))
            self.owners[key] = found = [gone, _core.CompiledFunction(hollow, cache), True]
            if self.aging not in gc.callbacks:
                gc.callbacks.append(self.aging)
        found[2] = True
        self.owners.move_to_end(key)
        while len(self.owners) > self.MOST:
            self.owners.popitem(last=False)

    def age(self, phase, info):
        if phase != "start" or info["generation"] != 2:
            return
        # A list of the keys alone makes nothing at which the collector runs, whose callbacks take owners out.
        for key in list(self.owners):
            owner = self.owners.get(key)
            if owner is not None and owner[2]:
                owner[2] = False
            else:
                self.owners.pop(key, None)
        if not self.owners:
            gc.callbacks.remove(self.aging)


_kept = _Kept()


def keep(function, cache):
    """The cache stays while the function does. Not of modules: all that have one class share a code, and a file of one
    would have the graphs of the others."""
    if type(function) is types.FunctionType and not cache.settings.isolate_recompiles:
        with _lock:
            _kept.add(function, cache)


def forget_kept():
    """Another setting may make other captures: functions that are compiled from here on get their own."""
    _kept.owners.clear()


def live_caches():
    with _lock:
        return [cache for held in list(_caches.values()) if (cache := held()) is not None]


def reset_all():
    """Drops the entries of all caches, and what their backends keep for themselves."""
    _logs.told_breaks.clear()
    for cache in live_caches():
        cache.reset()
        cache.settings.backend.reset()
