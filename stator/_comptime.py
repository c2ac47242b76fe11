"""stator.comptime: a look at the capture from inside of the program. As TorchDynamo's comptime, which means the same.

    @stator.comptime
    def _(ctx):
        ctx.print_graph()

runs the function once, while the program around it is captured; eager runs and compiled calls pass it by. `comptime.print(x)`,
`comptime.print_locals()` and their like are short for the usual ones.
"""

from __future__ import annotations

import dis
import sys
import time
from types import CodeType, FunctionType
from typing import Any, TextIO

import torch


class Shown:
    """In the place of a tensor or number of the graph: what is known of it while the program is captured."""

    def __init__(self, facts: str, kind: type) -> None:
        self.facts, self.kind = facts, kind

    @property
    def sizes(self) -> str:
        return self.facts.partition("[")[2].rpartition("]")[0]

    def __repr__(self) -> str:
        if self.kind in (int, float, bool):
            return self.facts
        comma = "," if self.sizes and "," not in self.sizes else ""
        return f"FakeTensor(..., size=({self.sizes}{comma}))"


class _Break(Exception):
    pass


class Value:
    """A value of the program. `value` is the object itself, or a Shown."""

    def __init__(self, value: Any) -> None:
        self.value = value

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
    """What a comptime function gets. Frames are counted from the innermost, which calls comptime: stacklevel=1 is its caller."""

    def __init__(
        self, frames: list[tuple[CodeType, int, dict[str, Any], list[Any], int]], graph: str, guards: str = ""
    ) -> None:
        self._frames, self._graph, self._guards = frames, graph, guards

    def get_local(self, name: str, *, stacklevel: int = 0) -> Value:
        return Value(self._frames[stacklevel][2][name])

    def parent(self) -> Context:
        return Context(self._frames[1:], self._graph, self._guards)

    def graph_break(self, msg: str = "comptime") -> None:
        raise _Break(msg)

    def print(self, value: Any, *, file: TextIO | None = None) -> None:
        print(repr(value if isinstance(value, Value) else Value(value)), file=file)

    def print_graph(self, *, verbose: bool = True, file: TextIO | None = None) -> None:
        print(self._graph, file=file)

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
        import traceback

        frames = [
            traceback.FrameSummary(code.co_filename, line, code.co_name) for code, line, *_ in self._frames[stacklevel:]
        ]
        print("".join(traceback.StackSummary.from_list(frames[::-1]).format()), end="", file=file)

    def sleep(self, sec: float) -> None:
        time.sleep(sec)


def run(what: Any, arguments: tuple[Any, ...], frames: list[Any], graph: str, guards: str) -> str | None:
    """Called while a program is captured. what: the user's function, or the name of a method of Context."""
    context = Context(frames, graph, guards)
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
    return None


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
