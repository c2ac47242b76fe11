"""What is asked for: the words of TORCH_LOGS, TORCH_TRACE, a report under way; and what is counted. Every capture looks
here, so it is loaded at the start; the texts themselves are made in _report.py, which a quiet run does not load.
"""

import collections
import functools
import itertools
import logging
from collections.abc import Callable
from types import CodeType
from typing import Any

from stator import _compile_ids
from stator._loaded import loaded

log = logging.getLogger("stator")
compile_ids = itertools.count()  # of graphs that went to a backend: __compiled_fn_<n>
recorder: Any = None  # of a report under way (stator/recording)
told_breaks: set[tuple[int, str]] = set()  # under TORCH_LOGS=graph_breaks, since the last reset(): each is said once
# "reason name, place" -> how often; texts, which the collector does not count among its objects
breaks: collections.Counter[str] = collections.Counter()


def count(kind, key, by=1):
    """TorchDynamo's counters, which tools and tests read, are kept where somebody has loaded them."""
    theirs = loaded("torch._dynamo.utils")
    if theirs is not None:
        theirs.counters[kind][key] += by


# TORCH_LOGS: the words of TorchDynamo's, under the names of its loggers, which users and tools know.


@functools.cache
def artifact(module, word):
    import torch._logging

    return torch._logging.getArtifactLogger(module, word)


def say(logger, *message):
    """A line at the level DEBUG, with the id of the capture that it is about."""
    if logger.isEnabledFor(logging.DEBUG):
        _compile_ids.say(logger.debug, *message)


def recompiles(word="recompiles"):
    return artifact("torch._dynamo.guards", word)


def bytecode():
    return artifact("torch._dynamo.convert_frame", "bytecode")


def symbol_logs():
    return (
        artifact("torch.fx.experimental.sym_node", "sym_node"),
        artifact("torch.fx.experimental.recording", "trace_shape_events"),
    )


def guards(word="guards"):
    return artifact("torch._dynamo.guards", word)


def guard_logs():
    return [logger for logger in (guards(), guards("verbose_guards")) if logger.isEnabledFor(logging.DEBUG)]


def side_effects():
    return artifact("torch._dynamo.side_effects", "side_effects")


def regions():
    return artifact("torch._dynamo.graph_region_tracker", "graph_region_expansion")


dynamic = logging.getLogger("torch.fx.experimental.symbolic_shapes")  # the word `dynamic`


TRACE, TRACE_WORDS = "torch._dynamo.symbolic_convert", ("trace_source", "trace_call", "trace_bytecode")
output_graph = logging.getLogger("torch._dynamo.output_graph")
dynamo = logging.getLogger("torch._dynamo.convert_frame")  # the word `dynamo`


def bytecode_hooks():
    """Those of torch._dynamo.convert_frame.register_bytecode_hook."""
    theirs = loaded("torch._dynamo.convert_frame")
    return getattr(theirs, "_bytecode_hooks", None)


inline_listeners: list[Callable[[CodeType], None]] = []  # told of each function that a capture inlines


def inline_watcher() -> Any:
    """What somebody has put in the place of InliningInstructionTranslator.inline_call_, to be told the same: vLLM keeps
    what it compiled for as long as the files of these functions do not change. None: nobody has."""
    theirs = loaded("torch._dynamo.symbolic_convert")
    function = getattr(getattr(theirs, "InliningInstructionTranslator", None), "inline_call_", None)
    return None if function is None or function.__module__ == theirs.__name__ else function


def wanted_logs(code, offset):
    """A mask: see LogWord in src/runtime/reports.h. A capture of this code is about to begin, behind a break if the
    offset is not 0."""
    _compile_ids.begin(code, offset)
    traced = _compile_ids.tracing()
    if traced:
        from stator import _trace_records

        _trace_records.started()
    return (
        (1 if traced or recorder is not None or recompiles().isEnabledFor(logging.DEBUG) else 0)
        | (2 if traced or guard_logs() else 0)
        | (4 if dynamic.isEnabledFor(logging.INFO) else 0)
        | (8 if output_graph.isEnabledFor(logging.DEBUG) else 0)
        | (128 if traced or any(logger.isEnabledFor(logging.DEBUG) for logger in (bytecode(), side_effects())) else 0)
        | (256 if recompiles("recompiles_verbose").isEnabledFor(logging.DEBUG) else 0)
        | (512 if traced or any(logger.isEnabledFor(logging.DEBUG) for logger in symbol_logs()) else 0)
        | (1024 if traced or loaded("torch._dynamo.utils") is not None or dynamo.isEnabledFor(logging.INFO) else 0)
        | (4096 if regions().isEnabledFor(logging.DEBUG) else 0)
        | (2048 if bytecode_hooks() else 0)
        | sum(16 << bit for bit, word in enumerate(TRACE_WORDS) if artifact(TRACE, word).isEnabledFor(logging.DEBUG))
        | (32 if inline_listeners or inline_watcher() is not None else 0)  # trace_call
    )


def output(word):
    return artifact("torch._dynamo.output_graph", word)


GRAPH_WORDS = ("graph_code", "graph_code_verbose", "graph", "graph_sizes")


def wants_graphs():
    return any(output(word).isEnabledFor(logging.DEBUG) for word in GRAPH_WORDS)
