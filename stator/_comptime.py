"""stator.comptime: a look at the capture from inside of the program. As TorchDynamo's comptime, which means the same.

    @stator.comptime
    def _(ctx):
        ctx.print_graph()

runs the function once, while the program around it is captured; eager runs and compiled calls pass it by.
`comptime.print(x)`, `comptime.print_locals()` and their like are short for the usual ones.
"""

from __future__ import annotations

import dis
import logging
import os
import sys
import time
import traceback
from types import CodeType, FunctionType, TracebackType
from typing import Any, TextIO

import torch

from stator import _logs, config

_ERROR = -1  # among what was told: no break's number


class Shown:
    """In the place of a tensor or number of the graph: what is known of it while the program is captured."""

    def __init__(self, facts: str, kind: type, node: int = -1) -> None:
        self.facts, self.kind, self.node = facts, kind, node

    @property
    def sizes(self) -> str:
        return self.facts.partition("[")[2].rpartition("]")[0]

    def __repr__(self) -> str:
        if self.kind in (int, float, bool):
            return self.facts
        comma = "," if self.sizes and "," not in self.sizes else ""
        return f"FakeTensor(..., size=({self.sizes}{comma}))"


class Snapshot:
    """The graph so far, as torch.fx has it. A copy: what is added to it is seen here alone."""

    def __init__(self, module: Any) -> None:
        self.graph = module.graph
        self.nodes = [node for node in self.graph.nodes if node.op != "output"]
        for node in [node for node in self.graph.nodes if node.op == "output"]:
            self.graph.erase_node(node)

    def proxy(self, number: int) -> torch.fx.Proxy:
        return torch.fx.Proxy(self.nodes[number], torch.fx.proxy.GraphAppendingTracer(self.graph))

    def fake(self, number: int) -> Any:
        return self.nodes[number].meta["example_value"]

    def code(self, verbose: bool) -> str:
        return self.graph.python_code("self", verbose=verbose).src.strip()


class _Break(Exception):
    pass


class Value:
    """A value of the program. `value` is the object itself, or a Shown."""

    def __init__(self, value: Any, snapshot: Snapshot | None = None) -> None:
        self.value, self._snapshot = value, snapshot

    def as_proxy(self) -> Any:
        """A torch.fx.Proxy of it. What is computed with it is shown by print_graph, and is no part of the program."""
        if self._snapshot is None or not isinstance(self.value, Shown):
            raise TypeError(f"{self!r} is no value of the graph")
        return self._snapshot.proxy(self.value.node)

    def as_fake(self) -> Any:
        """A fake tensor with its facts; of a number of the graph the symbol."""
        if self._snapshot is None or not isinstance(self.value, Shown):
            raise TypeError(f"{self!r} is no value of the graph")
        return self._snapshot.fake(self.value.node)

    def size(self, dim: int | None = None) -> Any:
        return self.as_fake().size() if dim is None else self.as_fake().size(dim)

    def is_proxy(self) -> bool:
        return isinstance(self.value, (Shown, torch.Tensor))

    def is_python_constant(self) -> bool:
        return not self.is_proxy()

    def as_python_constant(self) -> Any:
        if self.is_proxy():
            raise TypeError(f"{self!r} is no constant of the capture")
        return self.value

    def python_type(self) -> type:
        return self.value.kind if isinstance(self.value, Shown) else type(self.value)

    def __repr__(self) -> str:
        if isinstance(self.value, torch.Tensor):
            comma = "," if self.value.dim() == 1 else ""
            return f"FakeTensor(..., size=({', '.join(map(str, self.value.shape))}{comma}))"
        return repr(self.value)


class Context:
    """What a comptime function gets. Frames are counted from the innermost, which calls comptime: stacklevel=1 is its
    caller."""

    def __init__(
        self,
        frames: list[tuple[CodeType, int, dict[str, Any], list[Any], int]],
        graph: str,
        guards: str = "",
        snapshot: Snapshot | None = None,
    ) -> None:
        self._frames, self._graph, self._guards, self._snapshot = frames, graph, guards, snapshot

    def get_local(self, name: str, *, stacklevel: int = 0) -> Value:
        return Value(self._frames[stacklevel][2][name], self._snapshot)

    def parent(self) -> Context:
        return Context(self._frames[1:], self._graph, self._guards, self._snapshot)

    def graph_break(self, msg: str = "comptime") -> None:
        raise _Break(msg)

    def print(self, value: Any, *, file: TextIO | None = None) -> None:
        print(repr(value if isinstance(value, Value) else Value(value)), file=file)

    def print_graph(self, *, verbose: bool = True, file: TextIO | None = None) -> None:
        print(self._graph if self._snapshot is None else self._snapshot.code(verbose), file=file)

    def print_guards(self, *, file: TextIO | None = None) -> None:
        print(self._guards, end="", file=file)

    def print_disas(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        code, line, _, _, offset = self._frames[stacklevel]
        print(f"{code.co_filename}:{line} in {code.co_name}", file=file)
        print(dis.Bytecode(code, current_offset=offset).dis(), file=file)

    def print_locals(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        for name, value in self._frames[stacklevel][2].items():
            print(f"{name} = {Value(value)!r}", file=file)

    def print_value_stack(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        for value in self._frames[stacklevel][3]:
            print(f"- {Value(value)!r}", file=file)

    def print_bt(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        frames = [
            traceback.FrameSummary(code.co_filename, line, code.co_name) for code, line, *_ in self._frames[stacklevel:]
        ]
        print("".join(traceback.StackSummary.from_list(frames[::-1]).format()), end="", file=file)

    def sleep(self, sec: float) -> None:
        time.sleep(sec)


def run(
    what: Any, arguments: tuple[Any, ...], frames: list[Any], graph: str, guards: str, module: Any = None
) -> str | None:
    """Called while a program is captured. what: the user's function, or the name of a method of Context."""
    context = Context(frames, graph, guards, Snapshot(module) if module is not None else None)
    try:
        if isinstance(what, FunctionType):
            what(context)
        elif what == "print":
            for value in arguments:
                context.print(value, file=sys.stdout)
        else:
            getattr(context, what)(*arguments)
    except _Break as asked:
        return str(asked)
    except Exception as error:
        stack = [traceback.FrameSummary(code.co_filename, line, code.co_name) for code, line, *_ in frames[::-1]]
        _tell_where(error, stack)
        if not config.suppress_errors:
            raise
        _suppressed(error, frames[-1][0], stack)
    return None


def _tell_where(error: Exception, stack: list[traceback.FrameSummary]) -> None:
    """The error of a comptime function is for the one who wrote it: it gets the program's calls, and ends in his
    file."""
    where = f"\n\nfrom user code:\n {''.join(traceback.format_list(stack)).rstrip()}"
    if len(error.args) <= 1 and all(isinstance(text, str) for text in error.args):
        error.args = ("".join(error.args) + where,)
    else:
        error.add_note(where.lstrip())
    mine = error.__traceback__.tb_next if error.__traceback__ is not None else None
    if mine is not None and mine.tb_frame.f_code.co_filename != __file__:
        last = mine
        while last.tb_next is not None:
            last = last.tb_next
        if last.tb_frame.f_code.co_filename == __file__:  # a method of ours refused
            error.__traceback__ = TracebackType(None, mine.tb_frame, mine.tb_lasti, mine.tb_lineno)


def _suppressed(error: Exception, code: CodeType, stack: list[traceback.FrameSummary]) -> None:
    """Under config.suppress_errors: the capture goes on, and one line tells of it."""
    text = "".join(traceback.format_exception(error))
    if (_ERROR, text) in _logs.told_breaks:
        return
    _logs.told_breaks.add((_ERROR, text))
    head = f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}: what comptime was given raised; the capture goes on (config.suppress_errors)"
    if config.verbose:
        own = os.path.dirname(__file__) + os.sep
        callers = [frame for frame in traceback.extract_stack() if not frame.filename.startswith(own)]
        if callers and (callers[-1].filename, callers[-1].name) == (stack[0].filename, stack[0].name):
            callers.pop()  # the frame that is captured is there too, somewhere before its present line
        text = f"{head}\n{text}\ncaptured then:\n{''.join(traceback.format_list([*callers, *stack]))}"
    else:
        text = f"{head}\n{text.rstrip()}"
    logging.getLogger("torch._dynamo.convert_frame").warning("%s", text)


class Comptime:
    """`stator.comptime`. Outside of a capture nothing happens, or fallback_fn is called."""

    @staticmethod
    def __call__(fn: Any, fallback_fn: Any = lambda: None) -> None:
        fallback_fn()

    @staticmethod
    def print(e: Any) -> None:
        """Shows a value of the program, as the capture knows it."""

    @staticmethod
    def print_graph() -> None:
        """Shows the graph so far."""

    @staticmethod
    def print_disas() -> None:
        """Shows the bytecode of the function that calls this."""

    @staticmethod
    def print_locals() -> None:
        """Shows the local variables, as the capture knows them."""

    @staticmethod
    def print_value_stack() -> None:
        """Shows the evaluation stack."""

    @staticmethod
    def print_bt() -> None:
        """Shows the calls that led here."""

    @staticmethod
    def print_guards() -> None:
        """Shows what the capture relies on so far."""

    @staticmethod
    def graph_break() -> None:
        """Ends the graph here."""

    @staticmethod
    def assert_static(e: Any) -> None:
        """A break if the value is a symbol."""

    @staticmethod
    def sleep(sec: float) -> None:
        """Waits, while the program is captured."""


comptime = Comptime()
