"""What a trace tells on its way: TORCH_LOGS words trace_source, trace_call and trace_bytecode, in TorchDynamo's form."""

from __future__ import annotations

import dis
import functools
import linecache
from types import CodeType

from stator import _report


def _listener(word: str):
    return _report._artifact(_report._TRACE, word)


@functools.lru_cache(maxsize=64)
def _instructions(code: CodeType) -> dict[int, dis.Instruction]:
    return {instruction.offset: instruction for instruction in dis.get_instructions(code)}


def _header(code: CodeType, line: int, depth: int = 0) -> str:
    inline = f" (inline depth: {depth})" if depth > 0 else ""
    return f"{code.co_filename}:{line} in {code.co_name}{inline}"


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


def line(code: CodeType, number: int, depth: int) -> None:
    source = linecache.getline(code.co_filename, number).rstrip()
    _listener("trace_source").debug("TRACE starts_line %s\n%s", _header(code, number, depth), _indented(source))


def instruction(code: CodeType, offset: int, stack: list[str]) -> None:
    found = _instructions(code).get(offset)
    name, value = (found.opname, found.argrepr or found.argval) if found is not None else ("?", None)
    _listener("trace_bytecode").debug("TRACE %s %s [%s]", name, value, ", ".join(stack))


def inlined(caller: CodeType, offset: int, callee: CodeType) -> None:
    found = _instructions(caller).get(offset)
    positions = found.positions if found is not None else None
    number = positions.lineno if positions is not None and positions.lineno else caller.co_firstlineno
    lines = [linecache.getline(caller.co_filename, number).rstrip("\n")]
    begin, end = (positions.col_offset, positions.end_col_offset) if positions is not None else (None, None)
    on_one_line = positions is not None and positions.end_lineno == number
    if begin is not None and end is not None and on_one_line and end <= len(lines[0].encode()):
        lines.append(" " * begin + "~" * (end - begin))
    text = "\n".join(lines)
    _listener("trace_call").debug("TRACE inlined call %s from %s\n%s", callee.co_name, _header(caller, number), text)
