"""What a trace tells on its way: TORCH_LOGS words trace_source, trace_call and trace_bytecode, in TorchDynamo's
form."""

from __future__ import annotations

import contextlib
import dis
import functools
import linecache
import logging
import traceback
from types import CodeType
from typing import Any

from stator import _compile_ids, _logs


def _say(word: str, *message: Any) -> None:
    _compile_ids.say(_logs.artifact(_logs.TRACE, word).debug, *message)


@functools.lru_cache(maxsize=64)
def _instructions(code: CodeType) -> dict[int, dis.Instruction]:
    return {instruction.offset: instruction for instruction in dis.get_instructions(code)}


def _header(code: CodeType, line: int, depth: int = 0) -> str:
    inline = f" (inline depth: {depth})" if depth > 0 else ""
    whole = code.co_qualname.replace("<locals>.", "")
    return f"{code.co_filename}:{line} in {code.co_name} ({whole}){inline}"


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


def line(code: CodeType, number: int, depth: int) -> None:
    source = linecache.getline(code.co_filename, number).rstrip()
    _say("trace_source", "TRACE starts_line %s\n%s", _header(code, number, depth), _indented(source))


def instruction(code: CodeType, offset: int, stack: list[str]) -> None:
    found = _instructions(code).get(offset)
    name, value = (found.opname, found.argrepr or found.argval) if found is not None else ("?", None)
    _say("trace_bytecode", "TRACE %s %s [%s]", name, value, ", ".join(stack))


def _marked(code: CodeType, offset: int) -> tuple[int, str]:
    """The line of an instruction, and its source with the part marked that the instruction computes, as a traceback
    marks it."""
    found = _instructions(code).get(offset)
    positions = found.positions if found is not None else None
    number = positions.lineno if positions is not None and positions.lineno else code.co_firstlineno
    source = linecache.getline(code.co_filename, number).rstrip("\n")
    if positions is None or positions.col_offset is None or positions.end_lineno != number:
        return number, source
    shown = traceback.FrameSummary(
        code.co_filename, number, code.co_name,
        end_lineno=number, colno=positions.col_offset, end_colno=positions.end_col_offset,
    )  # fmt: skip
    *_, marks = "".join(traceback.StackSummary.from_list([shown]).format()).splitlines()
    if set(marks) <= set(" ~^"):
        begin = len(source.encode()[: positions.col_offset].decode(errors="ignore"))
        return number, f"{source}\n{' ' * begin}{marks.strip()}"
    return number, source  # nothing is marked where the whole line is meant


class _Told(BaseException):
    """Whoever watches has been told, and hands the call on."""


class _Inlined:
    """In the place of TorchDynamo's translator of an inlined call: there is its code, and nothing else to be had."""

    def __init__(self, code: CodeType) -> None:
        self.f_code = code

    def __getattr__(self, name: str) -> Any:
        raise _Told


def inlined(caller: CodeType, offset: int, callee: CodeType) -> None:
    for listener in _logs.inline_listeners:
        listener(callee)
    watching = _logs.inline_watcher()
    if watching is not None:
        with contextlib.suppress(_Told):
            watching(_Inlined(callee))
    if not _logs.artifact(_logs.TRACE, "trace_call").isEnabledFor(logging.DEBUG):
        return
    number, text = _marked(caller, offset)
    _say("trace_call", "TRACE inlined call %s from %s\n%s", callee.co_name, _header(caller, number), text)


def node(code: CodeType, offset: int, target: Any) -> None:
    if not _logs.artifact(_logs.TRACE, "trace_call").isEnabledFor(logging.DEBUG):
        return
    number, text = _marked(code, offset)
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    _say("trace_call", "TRACE FX call %s from %s\n%s", name, _header(code, number), text)
