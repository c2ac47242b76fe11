"""The exec recorder: with config.replay_record_enabled, a capture that raises leaves a record, from which it can be run
again elsewhere.

A record is the frame as it was where the capture began: its function, the values in it, and the instruction. Functions
and classes that no importable module has are in it by value, with the globals that they read. A record is a pickle:
replaying one runs what it holds.
"""

import dataclasses
import logging
import os
from typing import Any

import torch

from stator import _by_value, _core, config, exc
from stator._by_value import Null
from stator.debug import _inputs, _scripts

log = logging.getLogger("stator.debug")


@dataclasses.dataclass
class ExecutionRecord:
    """A frame whose capture raised."""

    function: Any
    slots: list  # values of locals, cells and closure, in the code's order; Null for what is unbound
    stack: list
    offset: int  # of the instruction where the capture began
    settings: dict = dataclasses.field(default_factory=dict)  # arguments of stator.compile that can be kept
    config: dict = dataclasses.field(default_factory=dict)  # what is not as by default
    error: str = ""

    @property
    def code(self):
        return self.function.__code__

    @property
    def locals(self):
        names = self.code.co_varnames
        return {n: v for n, v in zip(names, self.slots, strict=False) if not isinstance(v, Null)}

    def dump(self, file):
        torch.save(self, file, pickle_module=_by_value)

    @classmethod
    def load(cls, file):
        record = torch.load(file, weights_only=False)
        if not isinstance(record, cls):
            raise TypeError(f"not a record of stator.debug: a {type(record).__name__}")
        return record


def capture_failed(function, slots, stack, offset, settings, error):
    """Called where a capture raises (runtime/entry.cpp). Puts the record on the error, and writes it."""
    if isinstance(error, exc.BackendCompilerFailed):
        return  # repro_after is for these
    changed = {n: v for n, v in config.get_config_copy().items() if v != config._ENTRIES[n].default}
    changed.pop("replay_record_enabled", None)
    kept = {k: v for k, v in settings.arguments.items() if k in ("fullgraph", "dynamic", "recompile_limit")}
    values, rest = ([Null() if v is _core.NULL else v for v in part] for part in (slots, stack))
    record = ExecutionRecord(function, values, rest, offset, kept, changed, f"{type(error).__name__}: {error}")
    error.exec_record = record
    try:
        path = _write(record, error)
    except Exception as problem:  # whatever a program holds that cannot be pickled
        log.warning("the failing capture was not recorded: %s: %s", type(problem).__name__, problem)
        return
    error.record_filename = path
    error.add_note(f"recorded; stator.replay({path!r}) runs it again")


def _write(record, error):
    code = record.code
    folder = os.path.join(_scripts.this_run().folder, "error_recordings")
    path = os.path.join(folder, f"{code.co_name}_{type(error).__name__}_{code.co_firstlineno}.rec")
    _inputs.write_file(path, record.dump)
    return path


def replay(filename, backend="eager", **arguments):
    """Runs a recorded frame again, compiled: what its capture raised is raised again, or its value is returned.

    The file is a pickle: replay records that you trust.
    """
    from stator._compile import Compiler

    with open(filename, "rb") as file:
        record = ExecutionRecord.load(file)
    compiler = Compiler({**record.settings, "backend": backend, **arguments})
    slots, stack = ([_core.NULL if isinstance(v, Null) else v for v in part] for part in (record.slots, record.stack))
    with config.patch({**record.config, "replay_record_enabled": False}):
        return _core.run_pending([(record.function, record.offset, slots, stack)], compiler.cache)
