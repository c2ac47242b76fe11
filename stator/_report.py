"""Texts for the user: breaks, limits and errors, with their place in the program first."""

import collections
import contextlib
import dataclasses
import dis
import functools
import itertools
import linecache
import logging
import os
import re
import traceback
import warnings
from typing import Any

import torch

from stator import _advice, _compilations, _compile_ids, _trace_records, config, exc
from stator._loaded import loaded

log = logging.getLogger("stator")
compile_ids = itertools.count()  # of graphs that went to a backend: __compiled_fn_<n>
BRANCH, FORBIDDEN, MISMATCH, OPERATION_RAISES = 4, 26, 32, 33  # in src/breaks/reasons.def
recorder: Any = None  # of a report under way (stator/recording)
told_breaks: set[tuple[int, str]] = set()  # under TORCH_LOGS=graph_breaks, since the last reset(): each is said once
# "reason name, place" -> how often; texts, which the collector does not count among its objects
breaks: collections.Counter[str] = collections.Counter()


def count(kind, key, by=1):
    """TorchDynamo's counters, which tools and tests read, are kept where somebody has loaded them."""
    theirs = loaded("torch._dynamo.utils")
    if theirs is not None:
        theirs.counters[kind][key] += by


def _chain(stack):
    """The program's calls that led to a place, as a traceback shows them."""
    frames = [traceback.FrameSummary(*frame) for frame in stack]
    return "".join(traceback.StackSummary.from_list(frames).format()).rstrip()


def raise_unsupported(place, sentence, number, hint, fullgraph, stack):
    if number == FORBIDDEN:
        raise AssertionError(f"{place}: Attempt to trace forbidden callable: {sentence} [break reason {number}]")
    forbids = "fullgraph=True allows no graph break" if fullgraph else "error_on_graph_break makes that an error"
    text = f"{place}: {sentence}, and {forbids} [break reason {number}]"
    hint = _advice.of(number, sentence, hint)
    if hint:
        text += f"\n  What to do: {hint}."
    if stack:
        text += f"\nThe program's calls:\n{_chain(stack)}"
    if config.verbose:
        own = os.path.dirname(__file__) + os.sep
        callers = [frame for frame in traceback.extract_stack() if not frame.filename.startswith(own)]
        text += f"\nThe compiled function was called by:\n{''.join(traceback.format_list(callers)).rstrip()}"
    if stack:
        file, line, _ = stack[-1]
        _compilations.note(fail_user_frame_filename=file, fail_user_frame_lineno=line)
    if number == OPERATION_RAISES:
        raise exc.TorchRuntimeError(text)
    if number == BRANCH:
        raise exc.DataDependentBranch(text)
    raise (exc.ArgsMismatchError if number == MISMATCH else exc.Unsupported)(text)


# ---- TORCH_LOGS: the words of TorchDynamo's, under the names of its loggers, which users and tools know


@functools.cache
def _artifact(module, word):
    import torch._logging

    return torch._logging.getArtifactLogger(module, word)


def _say(logger, *message):
    """A line at the level DEBUG, with the id of the capture that it is about."""
    if logger.isEnabledFor(logging.DEBUG):
        _compile_ids.say(logger.debug, *message)


def _recompiles(word="recompiles"):
    return _artifact("torch._dynamo.guards", word)


def _bytecode():
    return _artifact("torch._dynamo.convert_frame", "bytecode")


def _symbol_logs():
    return (
        _artifact("torch.fx.experimental.sym_node", "sym_node"),
        _artifact("torch.fx.experimental.recording", "trace_shape_events"),
    )


def _guards(word="guards"):
    return _artifact("torch._dynamo.guards", word)


def _guard_logs():
    return [logger for logger in (_guards(), _guards("verbose_guards")) if logger.isEnabledFor(logging.DEBUG)]


def _side_effects():
    return _artifact("torch._dynamo.side_effects", "side_effects")


def _regions():
    return _artifact("torch._dynamo.graph_region_tracker", "graph_region_expansion")


_dynamic = logging.getLogger("torch.fx.experimental.symbolic_shapes")  # the word `dynamic`


@dataclasses.dataclass
class GraphCompileReason:
    """Why a graph ends where it does: compile_subgraph_reason of a graph module. As TorchDynamo has it."""

    reason: str  # the break's sentence, or "return_value"
    user_stack: list  # of traceback.FrameSummary, the outermost first
    graph_break: bool = True  # it is a break; otherwise the program returns there


def compile_reason(made):
    reason, stack, is_break = made
    frames = [traceback.FrameSummary(*frame, lookup_line=False) for frame in stack]
    return GraphCompileReason(reason, frames, bool(is_break))


_TRACE, _TRACE_WORDS = "torch._dynamo.symbolic_convert", ("trace_source", "trace_call", "trace_bytecode")
_output_graph = logging.getLogger("torch._dynamo.output_graph")
_dynamo = logging.getLogger("torch._dynamo.convert_frame")  # the word `dynamo`


def compiling_graph(made):
    _say(_output_graph, "COMPILING GRAPH due to %s", compile_reason(made))


def wanted_logs(code, offset):
    """A mask: see LogWord in src/runtime/reports.h. A capture of this code is about to begin, behind a break if the
    offset is not 0."""
    _compile_ids.begin(code, offset)
    traced = _compile_ids.tracing()
    if traced:
        _trace_records.started()
    return (
        (1 if traced or recorder is not None or _recompiles().isEnabledFor(logging.DEBUG) else 0)
        | (2 if traced or _guard_logs() else 0)
        | (4 if _dynamic.isEnabledFor(logging.INFO) else 0)
        | (8 if _output_graph.isEnabledFor(logging.DEBUG) else 0)
        | (128 if traced or any(logger.isEnabledFor(logging.DEBUG) for logger in (_bytecode(), _side_effects())) else 0)
        | (256 if _recompiles("recompiles_verbose").isEnabledFor(logging.DEBUG) else 0)
        | (512 if traced or any(logger.isEnabledFor(logging.DEBUG) for logger in _symbol_logs()) else 0)
        | (1024 if traced or loaded("torch._dynamo.utils") is not None or _dynamo.isEnabledFor(logging.INFO) else 0)
        | (4096 if _regions().isEnabledFor(logging.DEBUG) else 0)
        | (2048 if _bytecode_hooks() else 0)
        | sum(16 << bit for bit, word in enumerate(_TRACE_WORDS) if _artifact(_TRACE, word).isEnabledFor(logging.DEBUG))
    )


def _output(word):
    return _artifact("torch._dynamo.output_graph", word)


_GRAPH_WORDS = ("graph_code", "graph_code_verbose", "graph", "graph_sizes")


def wants_graphs():
    return any(_output(word).isEnabledFor(logging.DEBUG) for word in _GRAPH_WORDS)


def _table(graph_module):
    rows = [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in graph_module.graph.nodes]
    head = ("opcode", "name", "target", "args", "kwargs")
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _sizes(graph_module):
    lines = []
    for node in graph_module.graph.nodes:
        value = node.meta.get("example_value")
        if hasattr(value, "shape"):
            lines.append(f"{node.name}: {tuple(value.shape)}")
    return "\n".join(lines)


def graph_made(graph_module):
    if not wants_graphs():
        return
    name = graph_module.meta.get("backend_id", "__compiled_fn")
    texts = {
        "graph_code": lambda: graph_module.print_readable(print_output=False),
        "graph_code_verbose": lambda: graph_module.print_readable(
            print_output=False, include_stride=True, include_device=True
        ),
        "graph": lambda: _table(graph_module),
        "graph_sizes": lambda: _sizes(graph_module),
    }
    for word, text in texts.items():
        if _output(word).isEnabledFor(logging.DEBUG):
            _say(
                _output(word),
                "TRACED GRAPH%s\n ===== %s =====\n %s",
                " TENSOR SIZES" if word == "graph_sizes" else "",
                name,
                text(),
            )


def plan_made(place, code, offset, plan, changes):
    """The words `bytecode`: what is captured, and what an entry does in its place (there is no generated bytecode), and
    `side_effects`: what it changes of what was there before."""
    if _bytecode().isEnabledFor(logging.DEBUG):
        text = dis.Bytecode(code, current_offset=offset if offset > 0 else None).dis()
        _say(_bytecode(), "ORIGINAL BYTECODE %s\n%s", place, text)
        _say(_bytecode(), "PLAN %s\n%s", place, plan)
    if offset > 0 and _compile_ids.tracing():
        _trace_records.plan(place, code, offset, plan)
    if changes:
        _say(_side_effects(), "%s: side effects, when the graph has run:\n%s", place, changes.rstrip())


def regions_found(place, regions):
    _say(_regions(), "%s: %s", place, f"regions:\n{regions.rstrip()}" if regions else "no part of the graph repeats")


def _bytecode_hooks():
    """Those of torch._dynamo.convert_frame.register_bytecode_hook."""
    theirs = loaded("torch._dynamo.convert_frame")
    return getattr(theirs, "_bytecode_hooks", None)


def code_made(function, settings):
    from stator._bytecode_hooks import convert_frame

    convert_frame.call_hooks(list(_bytecode_hooks().values()), function, settings)


def each_failure(place, failed_guards):
    _say(_recompiles("recompiles_verbose"), "%s: captured once more; guards that fail:\n%s", place, failed_guards)


def symbols_made(place, symbols, conditions):
    with _compile_ids.under():
        nodes, events = _symbol_logs()
        for number, source, hint in symbols:
            where = source or "known when the graph runs"
            _dynamic.info("create_symbol s%d = %d: %s is a symbol (%s)", number, hint, where, place)
            events.debug("create_symbol s%d = %d for %s (%s)", number, hint, where, place)
            nodes.debug("s%d: SymInt of %s, hint %d (%s)", number, where, hint, place)
        _compilations.note(shape_env_guard_count=len(conditions))
        if _compile_ids.tracing():
            _trace_records.symbols(symbols, conditions)
        for condition in conditions:
            _dynamic.info("eval %s (%s)", condition, place)
            events.debug("evaluate_expr %s (%s)", condition, place)
            nodes.debug("condition %s (%s)", condition, place)


_NUMBER = r"-?\d[\d.e+-]*"
_SIZE = re.compile(rf"^(?P<what>.*)\.size\((?P<dim>\d+)\): was {_NUMBER}, is {_NUMBER}$")
_NUMBERS = re.compile(rf": was {_NUMBER}, is {_NUMBER}$")
_FAR = re.compile(r"\.(dtype|device|dim\(\)|layout): was |: was an? ")
_PLACE = re.compile(r"(?P<root>[LG])\['(?P<name>[^']+)'\](?:\.(?P<attribute>\w+))?")
_LOADS = {"L": ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF"), "G": ("LOAD_GLOBAL", "LOAD_NAME")}


def _used_at(code, reason, start=0):
    """The first line of the function, from this offset on, that reads what the reason is about, with its text; "" if
    there is none."""
    found = _PLACE.search(reason)
    if found is None:
        return ""
    line = head = used = None
    before = False  # the instruction before this one loads the name
    for instruction in dis.get_instructions(code):
        line = instruction.starts_line or line
        if instruction.offset < start:
            continue
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


def expression(code, offset, iterated):
    """What the program has written for the instruction, with its line: `f(x)` (line 3). iterated: its iterator is
    meant."""
    first, last, start, end = list(code.co_positions())[offset // 2]
    if first is None:
        return "a value on the stack"
    lines = linecache.getlines(code.co_filename)[first - 1 : last]
    if not lines or start is None:
        return f"a value of line {first}"
    # Columns count bytes.
    lines[-1] = lines[-1].encode()[:end].decode(errors="replace")
    lines[0] = lines[0].encode()[start:].decode(errors="replace")
    text = " ".join(" ".join(lines).split())
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"`{f'iter({text})' if iterated else text}` (line {first})"


def changes(failed_guards, code, symbols=""):
    """What differed from older entries, each with the line that uses the value: the nearest entry first. Far are those
    for tensors of another kind.

    symbols: what the new entry leaves open, one to a line.
    """
    counted = collections.Counter(failed_guards.splitlines())
    found = []
    for reason in sorted(counted, key=lambda reason: _FAR.search(reason) is not None):
        name = reason.partition(": was ")[0]
        dynamic = _NUMBERS.search(reason) is not None and name in symbols.splitlines()
        used = _used_at(code, reason)
        found.append({"text": reason, "now_dynamic": dynamic, "entries": counted[reason], "used_at": used})
    return found


def reasons(failed_guards, code, symbols=""):
    """The same as lines for people."""
    lines = []
    for change in changes(failed_guards, code, symbols):
        text = change["text"] + (" -> now dynamic" if change["now_dynamic"] else "")
        if change["entries"] > 1:
            text += f" ({change['entries']} entries)"
        lines.append(f"    - {text}" + (f"    [{change['used_at']}]" if change["used_at"] else ""))
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
    if recorder is not None:
        recorder.recompiled(place, changes(failed_guards, code, symbols), seconds, entries, limit)
    _say(
        _recompiles(),
        "%s: captured once more (entry %d of at most %d, %.1f ms):\n%s",
        place,
        entries,
        limit,
        seconds * 1e3,
        text,
    )
    _compilations.note(recompile_reason=failed_guards.partition("\n")[0])
    if _compile_ids.tracing():
        _trace_records.recompiled([change["text"] for change in changes(failed_guards, code, symbols)])
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


def guards_made(place, guards, code, offset):
    if loggers := _guard_logs():
        lines = [(line, _used_at(code, line, offset)) for line in guards.splitlines()]
        text = "\n".join(f"{line}    [{used}]" if used else line for line, used in lines)
        for logger in loggers:
            _say(logger, "%s: guards\n%s", place, text)
    if _compile_ids.tracing():
        _trace_records.guards(guards)


def graph_break(place, sentence, number, name, hint, stack):
    breaks[f"{name}, {place}"] += 1
    count("graph_break", sentence)
    if _compile_ids.tracing():  # an object of its own for each break, which the program's collector would see
        _compilations.note(restart_reasons=[f"{place}: {sentence}"])
    listener = _artifact(_TRACE, "graph_breaks")
    if (listener.isEnabledFor(logging.DEBUG) or _compile_ids.tracing()) and (number, place) not in told_breaks:
        told_breaks.add((number, place))
        hint = _advice.of(number, sentence, hint)
        advice = f"\n  What to do: {hint}." if hint else ""
        text = f"Graph break in user code at {place}: {sentence} [break reason {number}]{advice}\nUser code traceback:\n{_chain(stack)}"
        _say(listener, "%s", text)
        if _compile_ids.tracing():
            _trace_records.graph_break(text)
    _say(log, "%s: graph break: %s [break reason %d]", place, sentence, number)


def recompile_limit(place, failed_guards, limit, fullgraph, code, offset):
    times = "once" if limit == 1 else f"{limit} times"
    then = (
        "The recompile limit is reached, which is an error under fullgraph=True and config.fail_on_recompile_limit_hit."
        if fullgraph
        else "It runs eagerly from now on where no entry fits."
    )
    text = (
        f"{place}: captured {times}, and no entry fits this call. {then}\n"
        f"{reasons(failed_guards, code)}\n  What to do:\n{advice(failed_guards)}"
    )
    if recorder is not None:
        recorder.limit_reached(place, changes(failed_guards, code), limit, advice(failed_guards))
    if _compile_ids.tracing():
        _compile_ids.begin(code, offset)
        _trace_records.limit_reached([change["text"] for change in changes(failed_guards, code)], text)
    if fullgraph:
        raise exc.FailOnRecompileLimitHit(text)
    warnings.warn(text, stacklevel=2)


_NO_CAPTURE = {
    "stance": "the stance is 'fail_on_recompile'",
    "config": "config.error_on_recompile is set",
    "aot_compile": "what was compiled ahead (aot_compile) captures nothing more. The guard check failed, reason",
}


def recompile(place, failed_guards, why, code):
    seen = reasons(failed_guards, code) if failed_guards else "    - nothing is captured yet"
    text = f"{place}: a new capture is needed, and {_NO_CAPTURE[why]}:\n{seen}"
    raise exc.RecompileError(text) if why == "config" else RuntimeError(text)


def graph_failed(place, backend, number, error, raises):
    """A compiled graph raised what the same graph, run as it was captured, does not raise."""
    graph = _graph_name(place, backend, number)
    if raises:
        error.add_note(f"raised by the compiled graph {graph}; the program itself runs{_repro_advice(error)}")
        return
    first = (str(error).splitlines() or [""])[0]
    warnings.warn(
        f"the compiled graph {graph} failed when it ran ({type(error).__name__}: {first}). From now on it runs as it was captured"
        f"{_repro_advice(error)}",
        stacklevel=2,
    )


def _graph_name(place, backend, number):
    name = getattr(backend, "compiler_name", type(backend).__name__)
    return f"__compiled_fn_{number} of backend {name!r} ({place})"


def watch_backward(place, backend, number, outputs):
    """AOTAutograd makes a class for each graph that it differentiates: an error that leaves its backward says which
    graph that is."""
    with torch._C.DisableTorchFunction():  # no mode or class of the program's is asked
        functions = [getattr(output, "grad_fn", None) for output in outputs]
    for function in functions:
        made = getattr(function, "_forward_cls", None)
        if made is None or not hasattr(made, "compiled_bw") or hasattr(made, "_stator_watched"):
            continue
        made._stator_watched = True
        made.backward = staticmethod(_noting(made.backward, _graph_name(place, backend, number)))


def _noting(backward, graph):
    @functools.wraps(backward)
    def watched(*args):
        try:
            return backward(*args)
        except Exception as error:
            if not getattr(error, "_stator_noted", False):
                with contextlib.suppress(AttributeError):
                    error._stator_noted = True
                error.add_note(f"raised by the backward of the compiled graph {graph}{_repro_advice(error)}")
            raise

    return watched


def _repro_advice(error):
    if hasattr(error, "_stator_repro"):
        return ""
    return "; stator.config.repro_after (STATOR_REPRO_AFTER=auto) writes a script that shows it"


def suppressed(place, error):
    """The backend failed, and config.suppress_errors is set."""
    _compilations.backend_failed(error)
    inner = getattr(error, "inner_exception", error)
    first = (str(inner).splitlines() or [""])[0]
    name = getattr(error, "backend_name", "")
    warnings.warn(
        f"{place}: the backend {name!r} failed ({type(inner).__name__}: {first}); the graph runs as it was captured, since "
        "config.suppress_errors is set",
        stacklevel=2,
    )
    log.debug("%s: the backend failed", place, exc_info=error)


_warned: set[Any] = set()


def internal_error(place, what, strict):
    if strict:
        raise exc.InternalError(f"{place}: {what}")
    if (place, what) not in _warned:
        _warned.add((place, what))
        warnings.warn(
            f"{place}: an internal error of stator; the call runs eagerly. Please report it: {what}", stacklevel=2
        )
