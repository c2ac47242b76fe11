"""Compilations that are under way: those who want to know of them are called, and their figures are kept."""

import contextlib
import logging
import threading
import time

from stator import _compile_ids, _core, _logs, _torch_versions, config
from stator._loaded import loaded

_log = logging.getLogger("torch._dynamo.convert_frame")  # the word `dynamo`


def _callbacks():
    """torch._dynamo's registry of those who want to know when something is compiled; None where nobody has loaded
    it."""
    module = loaded("torch._dynamo.callback")
    return getattr(module, "callback_handler", None)


def _listening(handler):
    return handler is not None and bool(handler.start_callbacks or handler.end_callbacks)


def took(what, seconds):
    """For torch._dynamo.utils.compile_times(), where somebody has loaded it."""
    theirs = loaded("torch._dynamo.utils")
    if theirs is not None:
        theirs.compilation_time_metrics.setdefault(what, []).append(seconds)


_compiling = threading.local()  # .stack: one for each compilation under way on this thread, the innermost last


_PHASES = (
    "dynamo",
    "entire_frame_compile",
    "bytecode_tracing",
)  # as TorchDynamo's; a backend's and that of guards follow the last


class _Compilation:
    """One that is under way, for those who ask for figures of it."""

    def __init__(self, installed):
        from stator import _trace_records

        self.installed, self.start, self.begun = installed, time.time(), time.perf_counter()
        self.facts = _compile_ids.facts()
        self.before = _core.stats()
        self.inductor = _trace_records.inductor_times(loaded("torch._dynamo.utils"))
        # None: nobody wants records of it
        self.phases = _trace_records.Phases(*_PHASES) if _compile_ids.tracing() else None
        self.suppressed = None  # what the backend raised, under config.suppress_errors

    def metrics(self, guards, error):
        """In the fields of torch._dynamo.utils.CompilationMetrics."""
        from stator import _trace_records

        error = self.suppressed if error is None else error
        now, before = _core.stats(), self.before
        seconds = time.perf_counter() - self.begun
        ended = _trace_records.inductor_times(loaded("torch._dynamo.utils"))
        inductor, code = (later - earlier for later, earlier in zip(ended, self.inductor, strict=True))
        return {
            "dynamo_time_before_restart_s": 0.0 if error is None else seconds,  # all of it was in vain
            "shape_env_guard_count": 0,
            "inductor_compile_time_s": inductor or None,
            "code_gen_time_s": code or None,
            **self.facts,
            "start_time": self.start,
            "entire_frame_compile_time_s": seconds,
            "backend_compile_time_s": now["backend_seconds"] - before["backend_seconds"],
            "dynamo_cumulative_compile_time_us": int(seconds * 1e6),
            "graph_op_count": now["ops"] - before["ops"],
            "num_graph_breaks": now["breaks"] - before["breaks"],
            "guard_count": guards if guards >= 0 else None,
            "has_guarded_code": guards >= 0,
            "is_forward": True,
            "config_suppress_errors": config.suppress_errors,
            "specialize_float": config.specialize_float,
            "fail_type": None if error is None else type(error).__qualname__,
            "fail_reason": None if error is None else str(error),
        }


def _top():
    stack = _compiling.__dict__.get("stack")
    return stack[-1] if stack else None


def note(**facts):
    """Of the compilation that is under way on this thread, if anybody wants to know."""
    if (top := _top()) is not None:
        top.facts.update(facts)


def backend_failed(error):
    """The graph of the compilation that is under way on this thread runs as it was captured."""
    if (top := _top()) is not None:
        top.suppressed = error


def phase(name):
    """The compilation that is under way on this thread comes to another part."""
    if (top := _top()) is not None and top.phases is not None:
        top.phases.follow(name)


def compile_starts():
    installed = contextlib.nullcontext()
    if _listening(handler := _callbacks()):
        from torch._dynamo.callback import CallbackTrigger

        installed = handler.install_callbacks(CallbackTrigger.DYNAMO, str(_compile_ids.current()))
    installed.__enter__()
    _logs.count("frames", "total")
    _compiling.__dict__.setdefault("stack", []).append(_Compilation(installed))


def _say_captured(metrics):
    place = f"{metrics['co_name']} ({metrics['co_filename']}:{metrics['co_firstlineno']})"
    if metrics["has_guarded_code"]:
        what = f"captured, {metrics['graph_op_count']} operations, {metrics['guard_count']} guards"
    elif metrics["fail_type"] is None:
        what = "nothing to capture"
    else:
        what = f"not captured, {metrics['fail_type']}"
    seconds, backend = metrics["entire_frame_compile_time_s"], metrics["backend_compile_time_s"]
    text = f"{place}: {what}, {1e3 * seconds:.2f} ms of which the backend {1e3 * backend:.2f}"
    _compile_ids.say(_log.info, "%s", text)


def compile_ends(guards, error):
    ended = _compiling.stack.pop()
    if error is None:
        _logs.count("frames", "ok")
    metrics = ended.metrics(guards, error)
    took("stator: capture and backend", metrics["entire_frame_compile_time_s"])
    _torch_versions.record_metrics(metrics)
    if _log.isEnabledFor(logging.INFO):
        _say_captured(metrics)
    if ended.phases is not None:
        from stator import _trace_records

        if error is not None:
            _trace_records.failed(error)
        _trace_records.metrics(metrics)
        ended.phases.end()
    ended.installed.__exit__(None, None, None)
