"""The internal clock: what a front end itself costs, apart from its backend and its graphs.

Capture time is the first call's time less the time inside the backend and inside the graph: call to
backend entry, plus backend return to first graph call, plus graph return to call return. With graph
breaks the same difference adds up all such stretches.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

SWEEP_BYTES = 64 << 20


def run_as_is(graph_module, example_inputs):
    """The inner backend of most measurements: no compilation at all."""
    return graph_module.forward


class ClockedBackend:
    """A backend that clocks itself and its graphs, and can replace the graphs by canned results."""

    def __init__(self, inner: Callable[..., Any] = run_as_is):
        self.inner = inner
        self.graphs: list[Any] = []
        self.in_backend = 0.0
        self.in_graphs = 0.0
        self.cpu_elsewhere = 0.0
        self.tape: list[Any] = []
        self._canned: list[Callable[[], Any]] = []

    def __call__(self, graph_module, example_inputs, **_options):
        entered, entered_cpu = time.perf_counter(), time.process_time()
        self.graphs.append(graph_module)
        compiled = self.inner(graph_module, example_inputs)
        canned = self._canned

        def graph(*args):
            if canned:
                return canned[0]()
            called, called_cpu = time.perf_counter(), time.process_time()
            result = compiled(*args)
            self.tape.append(result)
            self.cpu_elsewhere += time.process_time() - called_cpu
            self.in_graphs += time.perf_counter() - called
            return result

        self.cpu_elsewhere += time.process_time() - entered_cpu
        self.in_backend += time.perf_counter() - entered
        return graph

    def can(self) -> None:
        """From now on graphs hand back, in order, what they returned since the tape was cleared.

        A call then consists of guards, dispatch and the rebuilding of outputs, and of what runs
        outside graphs.
        """
        if self.tape:
            self._canned.append(itertools.cycle(self.tape).__next__)

    def nodes(self) -> int:
        return sum(len(graph_module.graph.nodes) for graph_module in self.graphs)


class ReadingBackend(ClockedBackend):
    """A backend that reads all there is to read, so that a lazy front end has to pay for it."""

    def __init__(self):
        super().__init__(self._read)
        self.found = {"tensors": 0, "stack_traces": 0, "module_stacks": 0, "code_lines": 0}

    def _read(self, graph_module, example_inputs):
        import torch

        for node in graph_module.graph.nodes:
            value = node.meta.get("example_value")
            if isinstance(value, torch.Tensor):
                # Touching the fields keeps a proxy from passing for the value.
                _ = value.shape, value.dtype, value.device, value.stride()
                self.found["tensors"] += 1
            self.found["stack_traces"] += bool(node.stack_trace)
            self.found["module_stacks"] += bool(list((node.meta.get("nn_module_stack") or {}).items()))
        self.found["code_lines"] += graph_module.code.count("\n")
        return graph_module.forward


def first_call(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Result, wall seconds and CPU seconds of one call."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def _summary(seconds: list[float]) -> dict[str, float]:
    return {"median_us": statistics.median(seconds) * 1e6, "min_us": min(seconds) * 1e6}


def hot(call: Callable[[], Any], seconds: float = 0.5, batch: int = 10) -> dict[str, float]:
    """Microseconds of a call in a tight loop, in batches, so that the clock's own cost vanishes."""
    for _ in range(batch):
        call()
    samples: list[float] = []
    repeat = range(batch)
    end = time.perf_counter() + seconds
    while len(samples) < 20 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in repeat:
            call()
        samples.append((time.perf_counter() - start) / batch)
    return _summary(samples)


def swept(call: Callable[[], Any], count: int = 60) -> dict[str, float]:
    """Microseconds of a call when 64 MiB of other memory were read and written before it."""
    import torch

    memory = torch.zeros(SWEEP_BYTES // 8, dtype=torch.int64)
    call()
    samples: list[float] = []
    for _ in range(count):
        memory.add_(1)
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return _summary(samples)


def median_seconds(call: Callable[[], Any], seconds: float = 1.0, least: int = 7) -> float:
    call()
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < least or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)
