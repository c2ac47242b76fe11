"""Modules of torch's that are looked at where somebody has loaded them, and not loaded for it."""

import importlib.abc
import importlib.machinery
import sys
from typing import Any


def loaded(name: str) -> Any:
    """The module; None where nobody has imported it, or its import is under way: then names are missing in it."""
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module


class _WhenLoaded(importlib.abc.MetaPathFinder):
    """Calls back once a module has been executed."""

    def __init__(self, module, call):
        self.module, self.call = module, call

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        # The finders behind this one, among them others that wait for the same module.
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                break
        else:
            return None
        if spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self.call(module)

        spec.loader.exec_module = exec_module
        return spec

    def cancel(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def when_loaded(name: str, call: Any) -> Any:
    """Calls `call` with the module: now, or once somebody has imported it. Returns what takes that back."""
    if name in sys.modules:
        call(sys.modules[name])
        return lambda: None
    finder = _WhenLoaded(name, call)
    sys.meta_path.insert(0, finder)
    return finder.cancel
