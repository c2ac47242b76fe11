"""Compile ids, `[frame/attempt]`, as TorchDynamo numbers them: the number of a function, or of the rest of one behind a
break, in the order of their first captures, and how often it was captured before. Log lines and TORCH_TRACE records
(_trace_records.py) of a capture carry its id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType
from typing import Any

from torch._guards import CompileContext, CompileId, compile_context
from torch._logging._internal import TorchLogsFormatter, trace_log

# By place. Nothing here is an object that the garbage collector lists: a program may count those.
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


def begin(code: CodeType, offset: int) -> None:
    """A capture of this code begins on this thread, at this offset: behind a break the rest of a function has a number
    of its own."""
    key = f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}:{offset}"
    with _lock:
        number = _numbers.setdefault(key, len(_numbers))
        before = _captures.get(key, 0)
        _captures[key] = before + 1
    _thread.number, _thread.before = number, before
    _thread.name, _thread.file, _thread.line = code.co_name, code.co_filename, code.co_firstlineno


def current() -> CompileId:
    """Of the capture that is under way on this thread, or was last."""
    return CompileId(frame_id=getattr(_thread, "number", 0), frame_compile_id=getattr(_thread, "before", 0))


def under() -> Any:
    """A context in which log lines carry the id."""
    return compile_context(CompileContext(current()))


def say(log: Callable[..., None], *message: Any) -> None:
    with under():
        log(*message, stacklevel=3)  # the line of the one who says it


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
