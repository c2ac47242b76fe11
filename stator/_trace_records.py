"""TORCH_TRACE: the records of captures that tlparse reads, in TorchDynamo's forms."""

from __future__ import annotations

import dis
import json
import time
import traceback
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

import torch
from torch._logging import trace_structured
from torch._logging.structured import from_traceback

from stator import _compile_ids


def _text(name: str, payload: Callable[[], str], encoding: str = "string") -> None:
    with _compile_ids.under():
        trace_structured("artifact", metadata_fn=lambda: {"name": name, "encoding": encoding}, payload_fn=payload)


def _record(kind: str, values: dict[str, Any]) -> None:
    with _compile_ids.under():
        trace_structured(kind, lambda: values)


def program_stack() -> list[Any]:
    """The program's frames that led here, for a record."""
    frames = [frame for frame in traceback.extract_stack() if "/stator/" not in frame.filename]
    return from_traceback(frames)


def started() -> None:
    _record("dynamo_start", {"stack": program_stack()})


def _custom_operators(module: Any) -> dict[str, list[str]]:
    """Operators of the program's and of libraries', by whether their authors say that they fit compilers."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for node in module.graph.nodes:
        target = node.target
        if isinstance(target, torch._ops.OpOverloadPacket):
            target = getattr(target, target.overloads()[0])
        if isinstance(target, torch._ops.OpOverload) and target.namespace not in ("aten", "prims", "prim"):
            found[torch.Tag.pt2_compliant_tag in target.tags].add(str(target))
    return {"compliant_custom_ops": sorted(found[True]), "non_compliant_ops": sorted(found[False])}


def graph(module: Any) -> dict[str, Any]:
    """The captured graph. Returns what metrics say of it."""
    sizes = {}
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            sizes[node.name] = [size if type(size) is int else str(size) for size in value.shape]
    with _compile_ids.under():
        trace_structured(
            "dynamo_output_graph",
            lambda: {"sizes": sizes},
            payload_fn=lambda: module.print_readable(print_output=False, include_stride=True, include_device=True),
        )
    return _custom_operators(module)


def graph_break(text: str) -> None:
    _text("dynamo_graph_break_reason", lambda: text)


def recompiled(reasons: list[str]) -> None:
    _text("recompile_reasons", lambda: json.dumps(reasons), "json")


def guards(text: str) -> None:
    """The capture is an entry, with these guards."""
    with _compile_ids.under():
        trace_structured("dynamo_cpp_guards_str", payload_fn=lambda: text)


def plan(place: str, code: CodeType, offset: int, text: str) -> None:
    """A capture that begins behind a break: the instructions, with the one at which it begins, and what the entry does
    in their place."""
    name = f"{code.co_name}_at_{place.partition(' in ')[0].rpartition(':')[2]}"
    _text(f"{name}_ORIGINAL_BYTECODE", lambda: dis.Bytecode(code, current_offset=offset).dis())
    _text(f"{name}_PLAN", lambda: text)


def symbols(made: Iterable[tuple[int, str, int]], conditions: Iterable[str]) -> None:
    """Sizes and numbers that the capture leaves open, and what has to hold between them."""
    stack = program_stack()
    for number, source, hint in made:
        values = {"symbol": f"s{number}", "val": str(hint), "source": source, "user_stack": stack, "stack": stack}
        _record("create_symbol", values)
    for condition in conditions:
        _record("guard_added_fast", {"expr": condition, "user_stack": stack, "stack": stack})


def failed(error: BaseException) -> None:
    _text("dynamo_error", lambda: "".join(traceback.format_exception(error)))


def metrics(values: dict[str, Any]) -> None:
    _record("compilation_metrics", values)


def inductor_times(utils: Any) -> tuple[float, float]:
    """Seconds of inductor and of its code generation since the process began, as torch._dynamo.utils counts them."""
    times = utils.compilation_time_metrics if utils is not None else {}
    return sum(times.get("compile_fx_inner", ())), sum(times.get("GraphLowering.compile_to_module", ()))


def limit_reached(reasons: list[str], text: str) -> None:
    """A further capture would be one too many."""
    recompiled(reasons)
    metrics(
        {**_compile_ids.facts(), "fail_type": "FailOnRecompileLimitHit", "fail_reason": text, "has_guarded_code": False}
    )


class Phases:
    """The parts of a compilation on the timeline of a process: events in Chromium's form. The innermost is followed by
    the next one."""

    def __init__(self, *names: str) -> None:
        self.open: list[str] = []
        for name in names:
            self._event(name, "B")
            self.open.append(name)

    def _event(self, name: str, phase: str) -> None:
        event = {
            "name": name,
            "ts": time.time_ns() / 1000,
            "args": {"compile_id": str(_compile_ids.current())},
            "ph": phase,
            "cat": "dynamo_timed",
            "tid": 0,
            "pid": 0,
        }
        with _compile_ids.under():
            trace_structured("chromium_event", payload_fn=lambda: event)

    def follow(self, name: str) -> None:
        """The innermost part ends, and this one begins."""
        self._event(self.open.pop(), "E")
        self._event(name, "B")
        self.open.append(name)

    def end(self) -> None:
        while self.open:
            self._event(self.open.pop(), "E")
