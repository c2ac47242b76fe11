"""Texts for the user: breaks, limits and errors, with their place in the program first."""

import collections
import dataclasses
import dis
import functools
import linecache
import logging
import os
import re
import sys
import traceback
import warnings
from typing import Any

from stator import exc

log = logging.getLogger("stator")
FORBIDDEN = 26  # in src/breaks/reasons.def
# "reason name, place" -> how often; texts, which the collector does not count among its objects
breaks: collections.Counter[str] = collections.Counter()


def count(kind, key, by=1):
    """TorchDynamo's counters, which tools and tests read, are kept where somebody has loaded them."""
    theirs = sys.modules.get("torch._dynamo.utils")
    if theirs is not None:
        theirs.counters[kind][key] += by


def raise_unsupported(place, sentence, number, hint, fullgraph):
    if number == FORBIDDEN:
        raise AssertionError(f"{place}: Attempt to trace forbidden callable: {sentence} [break reason {number}]")
    forbids = "fullgraph=True allows no graph break" if fullgraph else "error_on_graph_break makes that an error"
    text = f"{place}: {sentence}, and {forbids} [break reason {number}]"
    if hint:
        text += f"\n  What to do: {hint}."
    raise exc.Unsupported(text)


# ---- TORCH_LOGS: the words of TorchDynamo's, under the names of its loggers, which users and tools know


@functools.cache
def _artifact(module, word):
    import torch._logging

    return torch._logging.getArtifactLogger(module, word)


def _recompiles():
    return _artifact("torch._dynamo.guards", "recompiles")


def _guards():
    return _artifact("torch._dynamo.guards", "guards")


_dynamic = logging.getLogger("torch.fx.experimental.symbolic_shapes")  # the word `dynamic`


@dataclasses.dataclass
class GraphCompileReason:
    """Why a graph ends where it does: compile_subgraph_reason of a graph module. As TorchDynamo has it."""

    reason: str  # the break's sentence, or "return_value"
    user_stack: list  # of traceback.FrameSummary, the outermost first
    graph_break: bool = True  # it is a break; otherwise the program returns there


def compile_reason(made):
    reason, stack, is_break = made
    outer, innermost = stack
    frames = [traceback.FrameSummary(*outer, lookup_line=False)]
    inner = re.fullmatch(r"(?P<file>.*):(?P<line>\d+) in (?P<function>.*)", innermost)
    if inner is not None:
        frame = traceback.FrameSummary(
            inner["file"], int(inner["line"]), inner["function"].rpartition(".")[2], lookup_line=False
        )
        if frame != frames[0]:
            frames.append(frame)
    return GraphCompileReason(reason, frames, bool(is_break))


_output_graph = logging.getLogger("torch._dynamo.output_graph")


def compiling_graph(made):
    _output_graph.debug("COMPILING GRAPH due to %s", compile_reason(made))


def wanted_logs():
    """A mask: see LogWord in src/runtime/reports.h."""
    return (
        (1 if _recompiles().isEnabledFor(logging.DEBUG) else 0)
        | (2 if _guards().isEnabledFor(logging.DEBUG) else 0)
        | (4 if _dynamic.isEnabledFor(logging.INFO) else 0)
        | (8 if _output_graph.isEnabledFor(logging.DEBUG) else 0)
    )


def _graph_code():
    return _artifact("torch._dynamo.output_graph", "graph_code")


def wants_graphs():
    return _graph_code().isEnabledFor(logging.DEBUG)


def graph_made(graph_module):
    if wants_graphs():
        name = graph_module.meta.get("backend_id", "__compiled_fn")
        text = graph_module.print_readable(print_output=False)
        _graph_code().debug("TRACED GRAPH\n ===== %s =====\n %s", name, text)


_NUMBER = r"-?\d[\d.e+-]*"
_SIZE = re.compile(rf"^(?P<what>.*)\.size\((?P<dim>\d+)\): was {_NUMBER}, is {_NUMBER}$")
_NUMBERS = re.compile(rf": was {_NUMBER}, is {_NUMBER}$")
_FAR = re.compile(r"\.(dtype|device|dim\(\)|layout): was |: was an? ")
_PLACE = re.compile(r"(?P<root>[LG])\['(?P<name>[^']+)'\](?:\.(?P<attribute>\w+))?")
_LOADS = {"L": ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF"), "G": ("LOAD_GLOBAL", "LOAD_NAME")}


def _used_at(code, reason):
    """The first line of the function that reads what the reason is about, with its text; "" if there is none."""
    found = _PLACE.search(reason)
    if found is None:
        return ""
    line = head = used = None
    before = False  # the instruction before this one loads the name
    for instruction in dis.get_instructions(code):
        line = instruction.starts_line or line
        if before and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and instruction.argval == found["attribute"]:
            used = line
            break
        before = instruction.opname in _LOADS[found["root"]] and instruction.argval == found["name"]
        if before and head is None:
            head = line
    line = used or head
    if line is None:
        return ""
    text = linecache.getline(code.co_filename, line).strip()
    return f"{os.path.basename(code.co_filename)}:{line}" + (f": {text}" if text else "")


def reasons(failed_guards, code, symbols=""):
    """Lines for people, each with the line that uses the value: the nearest entry first. Far are those for tensors of another kind.

    symbols: what the new entry leaves open, one to a line.
    """
    counted = collections.Counter(failed_guards.splitlines())
    lines = []
    for reason in sorted(counted, key=lambda reason: _FAR.search(reason) is not None):
        name = reason.partition(": was ")[0]
        text = f"{reason} -> now dynamic" if _NUMBERS.search(reason) and name in symbols.splitlines() else reason
        used = _used_at(code, reason)
        if counted[reason] > 1:
            text += f" ({counted[reason]} entries)"
        lines.append(f"    - {text}" + (f"    [{used}]" if used else ""))
    return "\n".join(lines)


def advice(failed_guards):
    """What to do about values that are others at each call, one sentence for each kind."""
    lines = []
    for reason in dict.fromkeys(failed_guards.splitlines()):
        size = _SIZE.match(reason)
        name = reason.partition(": was ")[0]
        if size:
            lines.append(
                f"{size['what']}: stator.mark_dynamic(..., {size['dim']}), or compile with dynamic=True or None"
            )
        elif name.endswith((".dtype", ".device")):
            lines.append(f"{name}: convert the tensor before the call, so that it is one at all times")
        elif name.endswith(".dim()"):
            lines.append(f"{name}: reshape the tensor before the call, so that it is one at all times")
        elif ": was " in reason:
            lines.append(f"{name}: each value is a program of its own; pass fewer of them, or a tensor")
    lines.append("or raise stator.config.recompile_limit (recompile_limit= of stator.compile for one function)")
    return "\n".join(f"    - {line}" for line in dict.fromkeys(lines))


def recompiled(place, failed_guards, symbols, seconds, entries, limit, code):
    """One place has one entry more. failed_guards: of each older entry, most recent first."""
    text = reasons(failed_guards, code, symbols)
    _recompiles().debug(
        "%s: captured once more (entry %d of at most %d, %.1f ms):\n%s", place, entries, limit, seconds * 1e3, text
    )
    if entries == limit:
        summary = (
            f"{place}: the last of {limit} entries is taken; further cases run eagerly. What differed from the others:\n{text}\n"
            f"  What to do:\n{advice(failed_guards)}"
        )
        _recompiles().debug("%s", summary)
        log.info("%s", summary)


def constant_sizes(code, name, size):
    log.warning(
        "%s:%d in %s: with dynamic=True, sizes of 0 and 1 are constants all the same: %s is %d, and other sizes are captured anew",
        code.co_filename, code.co_firstlineno, code.co_qualname, name, size,
    )  # fmt: skip


def guards_made(place, guards, symbols):
    _guards().debug("%s: guards\n%s", place, guards)
    for name in symbols.splitlines():
        _dynamic.info("%s: %s is a symbol", place, name)


def graph_break(place, sentence, number, name, hint):
    breaks[f"{name}, {place}"] += 1
    count("graph_break", sentence)
    _artifact("torch._dynamo.symbolic_convert", "graph_breaks").debug(
        "%s: graph break: %s [break reason %d]", place, sentence, number
    )
    log.debug("%s: graph break: %s [break reason %d]", place, sentence, number)


def recompile_limit(place, failed_guards, limit, fullgraph, code):
    text = (
        f"{place}: captured {limit} times, and no entry fits this call. It runs eagerly from now on where no entry fits.\n"
        f"{reasons(failed_guards, code)}\n  What to do:\n{advice(failed_guards)}"
    )
    if fullgraph:
        raise exc.FailOnRecompileLimitHit(text)
    warnings.warn(text, stacklevel=2)


def recompile(place, failed_guards, by_stance, code):
    why = "the stance is 'fail_on_recompile'" if by_stance else "config.error_on_recompile is set"
    seen = reasons(failed_guards, code) if failed_guards else "    - nothing is captured yet"
    text = f"{place}: a new capture is needed, and {why}:\n{seen}"
    raise RuntimeError(text) if by_stance else exc.RecompileError(text)


def graph_failed(place, backend, number, error, raises):
    """A compiled graph raised what the same graph, run as it was captured, does not raise."""
    name = getattr(backend, "compiler_name", type(backend).__name__)
    graph = f"__compiled_fn_{number} of backend {name!r} ({place})"
    repro = (
        ""
        if hasattr(error, "_stator_repro")
        else "; stator.config.repro_after (STATOR_REPRO_AFTER=auto) writes a script that shows it"
    )
    if raises:
        error.add_note(f"raised by the compiled graph {graph}; the program itself runs{repro}")
        return
    first = (str(error).splitlines() or [""])[0]
    warnings.warn(
        f"the compiled graph {graph} failed when it ran ({type(error).__name__}: {first}). From now on it runs as it was captured{repro}",
        stacklevel=2,
    )


_warned: set[Any] = set()


def internal_error(place, what, strict):
    if strict:
        raise exc.InternalError(f"{place}: {what}")
    if (place, what) not in _warned:
        _warned.add((place, what))
        warnings.warn(
            f"{place}: an internal error of stator; the call runs eagerly. Please report it: {what}", stacklevel=2
        )
