"""Compile ids, `[frame/attempt]`, as TorchDynamo numbers them: a function's number in the order of their first captures, and how often it was
captured before. Log lines and TORCH_TRACE records of a capture carry its id; tlparse reads those records.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import traceback
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch._guards import CompileContext, CompileId, compile_context
from torch._logging import trace_structured
from torch._logging._internal import LazyTraceHandler, trace_log

_functions: dict[tuple[str, int, str], list[int]] = {}  # -> [number, captures]
_lock = threading.Lock()
_thread = threading.local()


def tracing() -> bool:
    """Whether somebody takes the records: TORCH_TRACE, or a handler of a tool's."""
    return any(_takes(handler) for handler in trace_log.handlers)


def _takes(handler: logging.Handler) -> bool:
    if isinstance(handler, LazyTraceHandler):
        return handler.root_dir is not None  # without a folder it goes away at the first record
    return not type(handler).__module__.startswith("_pytest")  # which listens to every logger


def begin(code: CodeType) -> None:
    """A capture of this code begins on this thread."""
    key = code.co_filename, code.co_firstlineno, code.co_qualname
    with _lock:
        row = _functions.setdefault(key, [len(_functions), 0])
        compile_id = CompileId(frame_id=row[0], frame_compile_id=row[1])
        row[1] += 1
    _thread.capture = compile_id, code, time.time()
    if tracing():
        frames = [frame for frame in traceback.extract_stack() if "/stator/" not in frame.filename]
        with under():
            trace_structured("dynamo_start", lambda: {"stack": torch._logging.structured.from_traceback(frames)})


def current() -> CompileId:
    """Of the capture that is under way on this thread, or was last."""
    found = getattr(_thread, "capture", None)
    return found[0] if found is not None else CompileId(frame_id=0, frame_compile_id=0)


def under() -> Any:
    """A context in which log lines carry the id."""
    return compile_context(CompileContext(current()))


def say(log: Callable[..., None], *message: Any) -> None:
    with under():
        log(*message, stacklevel=3)  # the line of the one who says it


def _text(name: str, payload: Callable[[], str], encoding: str = "string") -> None:
    with under():
        trace_structured("artifact", metadata_fn=lambda: {"name": name, "encoding": encoding}, payload_fn=payload)


def graph(module: Any) -> None:
    """The captured graph; inside of the backend's own context."""
    sizes = {}
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            sizes[node.name] = [*map(str, value.shape)]
    trace_structured(
        "dynamo_output_graph",
        lambda: {"sizes": sizes},
        payload_fn=lambda: module.print_readable(print_output=False, include_stride=True, include_device=True),
    )


def graph_break(text: str) -> None:
    _text("dynamo_graph_break_reason", lambda: text)


def recompiled(reasons: list[str]) -> None:
    _text("recompile_reasons", lambda: json.dumps(reasons), "json")


def ended(guards: str) -> None:
    """The capture is an entry, with these guards."""
    compile_id, code, start = _thread.capture
    with under():
        trace_structured("dynamo_cpp_guards_str", payload_fn=lambda: guards)
        trace_structured(
            "compilation_metrics",
            lambda: {
                "compile_id": str(compile_id),
                "frame_key": str(compile_id.frame_id),
                "co_name": code.co_name,
                "co_filename": code.co_filename,
                "co_firstlineno": code.co_firstlineno,
                "cache_size": compile_id.frame_compile_id,
                "guard_count": len(guards.splitlines()),
                "start_time": start,
                "entire_frame_compile_time_s": time.time() - start,
            },
        )
