"""Compile ids, `[frame/attempt]`, as TorchDynamo numbers them: a function's number in the order of their first captures, and how often it was
captured before. Log lines and TORCH_TRACE records of a capture carry its id; tlparse reads those records.
"""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch._guards import CompileContext, CompileId, compile_context
from torch._logging import trace_structured
from torch._logging._internal import TorchLogsFormatter, trace_log

# By function. Nothing here is an object that the garbage collector lists: a program may count those.
_numbers: dict[str, int] = {}
_captures: dict[str, int] = {}
_lock = threading.Lock()
_thread = threading.local()


def tracing() -> bool:
    """Whether TORCH_TRACE is on."""
    # Those that write the records have torch's formatter. torch adds one in any case, which may have nowhere to write.
    return any(
        isinstance(handler.formatter, TorchLogsFormatter) and getattr(handler, "root_dir", "") is not None
        for handler in trace_log.handlers
    )


def begin(code: CodeType) -> None:
    """A capture of this code begins on this thread."""
    key = f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}"
    with _lock:
        number = _numbers.setdefault(key, len(_numbers))
        before = _captures.get(key, 0)
        _captures[key] = before + 1
    _thread.number, _thread.before = number, before
    _thread.name, _thread.file, _thread.line = code.co_name, code.co_filename, code.co_firstlineno
    if tracing():
        frames = [frame for frame in traceback.extract_stack() if "/stator/" not in frame.filename]
        with under():
            trace_structured("dynamo_start", lambda: {"stack": torch._logging.structured.from_traceback(frames)})


def current() -> CompileId:
    """Of the capture that is under way on this thread, or was last."""
    return CompileId(frame_id=getattr(_thread, "number", 0), frame_compile_id=getattr(_thread, "before", 0))


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
    with under():
        trace_structured("dynamo_cpp_guards_str", payload_fn=lambda: guards)


def facts() -> dict[str, Any]:
    """Of the capture that is under way on this thread: what metrics begin with."""
    compile_id = current()
    return {
        "compile_id": str(compile_id),
        "frame_key": str(compile_id.frame_id),
        "co_name": _thread.name,
        "co_filename": _thread.file,
        "co_firstlineno": _thread.line,
        "cache_size": compile_id.frame_compile_id,
        "accumulated_cache_size": compile_id.frame_compile_id,
    }


def metrics(values: dict[str, Any]) -> None:
    with under():
        trace_structured("compilation_metrics", lambda: values)
