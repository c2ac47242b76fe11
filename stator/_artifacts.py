"""torch.compiler.save_cache_artifacts and load_cache_artifacts under stator.install(): torch's own, with what Stator
keeps among the rest."""

import functools
import marshal

import torch
from torch.compiler import _cache

from stator import _core, _disk, config

# torch's own: under install() the names there are ours, which remember what they stand for.
_save, _load = (
    getattr(function, "__wrapped__", function)
    for function in (torch.compiler.save_cache_artifacts, torch.compiler.load_cache_artifacts)
)
_KIND = "stator"


@functools.cache
def _register():
    @_cache.CacheArtifactFactory.register
    class StatorCacheArtifact(_cache.CacheArtifact):
        def populate_cache(self):
            problem = _core.disk_write(_disk.folder(), self.key, marshal.loads(self.content), config.cache_limit << 20)
            if problem is not None:
                _disk.not_kept(f"{_disk.folder()}: {problem}", self.key)

        @staticmethod
        def type():
            return _KIND


def save_cache_artifacts():
    """(bytes, what is in them) of all that was compiled, or found in caches, in this process; None if there is
    nothing."""
    _register()
    for key, folder in list(_disk.used.items()):
        parts = _core.disk_read(folder, key)
        if isinstance(parts, list):
            _cache.CacheArtifactManager.record_artifact(_KIND, key, marshal.dumps(parts))
    return _save()


def load_cache_artifacts(serialized_artifacts):
    """Puts what save_cache_artifacts gave into the caches of this process; what was in them, or None if the bytes are
    not of that kind."""
    _register()
    return _load(serialized_artifacts)
