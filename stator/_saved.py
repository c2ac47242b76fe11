"""stator.save and stator.load: all that backends made for a compiled function or model in one file, for deployment
(docs/CACHE.md).

The file holds artifacts as the cache folder does (stator/_disk.py), the arguments of the compile call, and which sizes
turned dynamic.
"""

import marshal
import os

from stator import _compile, _core, _disk, config, exc

_KEY = _core.disk_digest(b"stator.save, 1")
MISSES = ("capture", "error", "eager")


def save(compiled, path, *, partial=False):
    """Writes what backends have made for `compiled` (what stator.compile returned) to a file, for stator.load in
    another process.

    Call it with every kind of input, and train one step if it is to be trained, before. A graph that cannot be kept is
    an error; with partial=True it is left out. Returns the number of graphs in the file.
    """
    call = _compile.compiled_call(compiled, "save")
    if call._stator_cache is None:
        raise TypeError("save takes what stator.compile returned, and this is disabled")
    graphs, learned = _core.kept(call)
    own = _disk.folder()
    given = call._stator_cache.settings.backend.file
    file, missing = _Parts(), []
    for place, keys in graphs:
        for key in keys:
            parts = _parts_of(key, own, given)
            if isinstance(parts, str):
                missing.append(f"{place[0]} ({place[1]}:{place[2]}): {parts}")
            else:
                file.add(key, _place(place), parts)
    if not graphs:
        raise RuntimeError(
            "there is nothing to save: call the compiled function before, with the inputs that are to be served"
        )
    if missing and not partial:
        raise RuntimeError("save: what the backend made of a graph is not kept\n  " + "\n  ".join(missing))
    facts = {"versions": _disk.versions(), "machine": _core.disk_machine(), "graphs": file.graphs, "learned": learned}
    facts["arguments"] = _plain_arguments(call._stator_cache.settings.arguments)
    problem = _core.disk_write_file(os.fspath(path), _KEY, [marshal.dumps(facts), *file.parts])
    if problem is not None:
        raise OSError(f"{os.fspath(path)}: {problem}")
    return len(file.graphs)


def _place(place):
    return f"{place[0]} ({os.path.basename(place[1])}:{place[2]})"


def _parts_of(key, folder, given):
    """The parts of an artifact, or why they are not to be had."""
    if not key:
        return (
            "nothing of this kind is kept; logging.getLogger('stator.cache') says why"
            if config.cache
            else "config.cache is off"
        )
    found = given.parts(key) if given is not None else None
    if found is None:
        found = _core.disk_read(folder, key)
    if found is None:
        return _disk.reasons.get(
            key,
            "it can be trained, and no backward has run: call it under torch.no_grad() if it is to be served only, or "
            "run one backward, and save again (or its file is gone from the cache folder)",
        )
    return found


class _Parts:
    """Parts of all artifacts, equal ones once."""

    def __init__(self):
        self.parts, self.graphs, self.known = [], {}, {}

    def add(self, key, place, parts):
        self.graphs[key] = (place, [self._position(part) for part in parts])

    def _position(self, part):
        if part not in self.known:
            self.parts.append(part)
            self.known[part] = len(self.parts)
        return self.known[part]


def _plain_arguments(arguments):
    """Of compile's: load repeats them, unless it is given others."""
    kept = {}
    for name, value in arguments.items():
        try:
            marshal.dumps(value)
        except ValueError:
            raise TypeError(
                f"save: the argument {name!r} of stator.compile is no plain value, and cannot be in a file"
            ) from None
        kept[name] = value
    return kept


class File:
    """A file of stator.save's, as the backend of a loaded function sees it."""

    def __init__(self, path, on_miss, key=_KEY):
        self.path, self.on_miss = os.fspath(path), on_miss
        found = _core.disk_read_file(self.path, key)
        if not isinstance(found, list):
            if found is None:
                raise FileNotFoundError(f"stator.load: there is no file {self.path}")
            raise exc.PackageError(
                f"stator.load: {self.path}: {found.replace('of another graph', 'of something else')}"
            )
        self._found = found
        facts = marshal.loads(found[0])
        self.learned, self.arguments, self.graphs = facts["learned"], facts["arguments"], facts["graphs"]
        self._check(facts)

    def _check(self, facts):
        """Files of other versions or processors serve nothing: better said at once than at the first call."""
        if facts["versions"] == _disk.versions() and facts["machine"] == _core.disk_machine():
            return
        what = "versions of Python, torch or Stator" if facts["versions"] != _disk.versions() else "a kind of processor"
        text = f"{self.path} was saved with other {what}".replace("other a kind", "another kind")
        if self.on_miss == "error":
            raise exc.PackageError(f"stator.load: {text}")
        _disk.warn(text)

    def last_part(self):
        """What another kind of file has behind the artifacts."""
        return self._found[-1]

    def parts(self, key):
        """As in an artifact's own file; None: it is not here."""
        found = self.graphs.get(key)
        return None if found is None else [self._found[i] for i in found[1]]

    def find(self, key):
        parts = self.parts(key)
        return None if parts is None else _disk.made_of(parts, _disk.folder(), f"{self.path} ({key})", key)

    def missed(self, graph_module):
        """What becomes of a graph that is not in the file: None: the backend compiles it."""
        if self.on_miss == "capture":
            return None
        if self.on_miss == "eager":
            return graph_module.forward
        stack = graph_module.compile_subgraph_reason.user_stack
        where = f"{stack[-1].name} ({stack[-1].filename}:{stack[-1].lineno})" if stack else "a function"
        there = "\n  ".join(sorted({place for place, _ in self.graphs.values()}))
        raise exc.PackageError(
            f"{self.path} has no graph for this call of {where}: with other sizes, other dtypes, other settings of torch or another "
            f"number of threads than at stator.save, or the program has changed. It has graphs of\n  {there or 'nothing'}"
        )


def load(model, path, on_miss="capture", **arguments):
    """Compiles `model` as stator.compile did before stator.save wrote the file, without calling the backend for what
    the file has.

    on_miss: what a call does for which the file has no graph: "capture": the backend is called, as ever; "error":
    PackageError; "eager": the graph runs as it was captured. Arguments of stator.compile may be given anew; without,
    they are those of the file. The file holds code that runs: load it from nobody whose code you would not run.
    """
    if on_miss not in MISSES:
        raise ValueError(f"on_miss is one of {', '.join(map(repr, MISSES))}, not {on_miss!r}")
    file = File(path, on_miss)
    given = {**file.arguments, **arguments}
    _compile.compile(
        lambda: None, **{**given, "backend": "eager", "mode": None, "options": None}
    )  # checks the arguments
    return _compile.compiled_from(model, given, file)
