"""TORCH_COMPILE_DEBUG=1: what can be asked for by TORCH_LOGS goes into a file, in the folder where backends write
theirs."""

from __future__ import annotations

import atexit
import datetime
import functools
import logging
import os
import sys

from stator import _logs
from stator._loaded import loaded

log = logging.getLogger("stator")


def _root() -> str:
    theirs = loaded("torch._dynamo.config")
    if theirs is not None:
        return theirs.debug_dir_root
    return os.path.join(os.environ.get("TORCH_COMPILE_DEBUG_DIR", os.getcwd()), "torch_compile_debug")


def _listeners() -> list[logging.Logger]:
    graphs = [_logs.output(word) for word in ("graph_code", "graph_sizes")]
    breaks = _logs.artifact(_logs.TRACE, "graph_breaks")
    return [*graphs, breaks, _logs.guards(), _logs.recompiles(), _logs.bytecode(), *_logs.symbol_logs()]


@functools.cache
def start() -> str:
    """The folder; made at the first call, with the log that is written from then on."""
    stamp = datetime.datetime.now().strftime("%Y_%m_%d_%H_%M_%S_%f")
    folder = os.path.join(_root(), f"run_{stamp}-pid_{os.getpid()}", "stator")
    os.makedirs(folder, exist_ok=True)
    handler = logging.FileHandler(os.path.join(folder, "debug.log"))
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    atexit.register(handler.close)
    for logger in _listeners():
        # What nobody asked for by TORCH_LOGS goes into the file alone.
        if not logger.handlers:
            logger.propagate = False
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    log.addHandler(handler)
    sys.stderr.write(f"TORCH_COMPILE_DEBUG: writing to {folder}\n")
    return folder
