"""One measurement in a process of its own: `python -m benchmarks.worker SPEC OUTPUT`.

SPEC is a JSON object with the measurement's name under "measure", the front end under "side" and
further arguments; the result goes as JSON to the file OUTPUT. Nothing here imports torch at the
top: some measurements time just that.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import sys
import time
from typing import Any

from benchmarks import frontends
from benchmarks.clock import ClockedBackend, ReadingBackend, first_call, hot, median_seconds, swept


def quiet() -> None:
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)


def trivial_compile(frontend: frontends.Frontend, backend: Any) -> None:
    """Has first-use costs paid before the clock starts.

    Dtype and sizes occur in no program, so a memo of operator results stays empty for them.
    """
    import torch

    compiled = frontend.compile(lambda x: -x, backend=backend)
    for _ in range(2):
        compiled(torch.ones(3, 5, dtype=torch.float64))


def equal_outputs(expected: Any, seen: Any) -> bool:
    import torch
    from torch.utils import _pytree

    left, left_spec = _pytree.tree_flatten(expected)
    right, right_spec = _pytree.tree_flatten(seen)
    if left_spec != right_spec:
        return False
    return all(
        torch.allclose(a, b, rtol=1e-4, atol=1e-5) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(left, right, strict=True)
    )


def _demand_graphs(backend: ClockedBackend) -> None:
    """A front end that gave up and ran eagerly was quick, but captured nothing."""
    if not backend.graphs:
        sys.exit("no graph was captured: there is nothing to time")


def _prepare(spec: dict[str, Any]):
    import torch

    from benchmarks import programs

    quiet()
    torch.set_num_threads(1)
    program = programs.build(spec["program"])
    return program, frontends.load(spec["side"])


def capture(spec: dict[str, Any]) -> dict[str, Any]:
    """Capture time, then guard and dispatch time of later calls with a canned graph."""
    import torch

    program, frontend = _prepare(spec)
    with torch.no_grad():
        expected = program.run()
        eager = median_seconds(program.run, 0.5)
        trivial_compile(frontend, ClockedBackend())
        backend = ClockedBackend()
        compiled = frontend.compile(program.target, backend=backend)
        gc.collect()
        seen, wall, cpu = first_call(lambda: program.run(compiled))
        _demand_graphs(backend)
        result = {
            "capture_s": wall - backend.in_backend - backend.in_graphs,
            "capture_cpu_s": cpu - backend.cpu_elsewhere,
            "busy": wall / max(cpu, 1e-9),
            "graphs": len(backend.graphs),
            "nodes": backend.nodes(),
            "equal": equal_outputs(expected, seen),
            "eager_s": eager,
        }
        del seen
        backend.tape.clear()
        program.run(compiled)
        result["graph_calls"] = len(backend.tape)
        result["recaptures"] = len(backend.graphs) - result["graphs"]
        if not backend.tape:
            result["note"] = "no graph ran"
            return result
        backend.can()
        later_call = functools.partial(compiled, *program.args, **program.kwargs)
        result["guards_hot"] = hot(later_call, spec.get("seconds", 0.5))
        result["guards_swept"] = swept(later_call, spec.get("sweeps", 60))
        result["recaptures"] = len(backend.graphs) - result["graphs"]
    return result


def everything_read(spec: dict[str, Any]) -> dict[str, Any]:
    """Capture time with a backend that reads all metadata and the code; its reading counts."""
    import torch

    program, frontend = _prepare(spec)
    with torch.no_grad():
        program.run()
        trivial_compile(frontend, ReadingBackend())
        backend = ReadingBackend()
        compiled = frontend.compile(program.target, backend=backend)
        gc.collect()
        _, wall, _ = first_call(lambda: program.run(compiled))
        _demand_graphs(backend)
    return {
        "everything_read_s": wall - backend.in_graphs,
        "nodes": backend.nodes(),
        **backend.found,
    }


def dynamic(spec: dict[str, Any]) -> dict[str, Any]:
    """Capture time with symbolic batch and length."""
    import torch

    program, frontend = _prepare(spec)
    with torch.no_grad():
        program.run()
        trivial_compile(frontend, ClockedBackend())
        backend = ClockedBackend()
        compiled = frontend.compile(program.target, backend=backend, dynamic=True)
        gc.collect()
        _, wall, _ = first_call(lambda: program.run(compiled))
        _demand_graphs(backend)
        symbolic = sum(
            isinstance(node.meta.get("example_value"), torch.SymInt)
            or any(isinstance(s, torch.SymInt) for s in getattr(node.meta.get("example_value"), "shape", ()))
            for graph_module in backend.graphs
            for node in graph_module.graph.nodes
        )
    return {
        "dynamic_s": wall - backend.in_backend - backend.in_graphs,
        "nodes": backend.nodes(),
        "symbolic_nodes": symbolic,
    }


def inductor(spec: dict[str, Any]) -> dict[str, Any]:
    """The first call with inductor; the caller decides by the cache folder whether it is warm."""
    import torch

    program, frontend = _prepare(spec)
    with torch.no_grad():
        expected = program.run()
        trivial_compile(frontend, "inductor")
        compiled = frontend.compile(program.target, backend="inductor")
        from torch._dynamo.utils import counters

        counters.clear()
        gc.collect()
        seen, wall, cpu = first_call(lambda: program.run(compiled))
    hits, misses = counters["inductor"], counters["aot_autograd"]
    return {
        "first_call_s": wall,
        "first_call_cpu_s": cpu,
        "equal": equal_outputs(expected, seen),
        "fx_hits": hits["fxgraph_cache_hit"],
        "fx_misses": hits["fxgraph_cache_miss"] + hits["fxgraph_cache_bypass"],
        "aot_hits": misses["autograd_cache_hit"],
        "aot_misses": misses["autograd_cache_miss"] + misses["autograd_cache_bypass"],
    }


def import_time(spec: dict[str, Any]) -> dict[str, Any]:
    """`import stator` or `import torch._dynamo`, torch being imported already."""
    import torch  # noqa: F401

    before = len(sys.modules)
    start = time.perf_counter()
    importlib.import_module("stator" if spec["side"] == frontends.STATOR else "torch._dynamo")
    return {"import_s": time.perf_counter() - start, "modules": len(sys.modules) - before}


def first_graph(spec: dict[str, Any]) -> dict[str, Any]:
    """From `import torch` done to the first captured graph of `x + 1` with backend "eager"."""
    import torch

    x = torch.ones(3)
    start = time.perf_counter()
    compiled = frontends.load(spec["side"]).compile(lambda x: x + 1, backend="eager")
    result = compiled(x)
    seconds = time.perf_counter() - start
    return {
        "first_graph_s": seconds,
        "equal": bool((result == 2).all()),
        "imports_dynamo": "torch._dynamo" in sys.modules,
    }


MEASURES = {
    measure.__name__: measure for measure in (capture, everything_read, dynamic, inductor, import_time, first_graph)
}


def find_measure(name: str):
    """A name of this module's, or `module:function` for another module of the package."""
    if ":" not in name:
        return MEASURES[name]
    module, function = name.split(":")
    return getattr(importlib.import_module(f"benchmarks.{module}"), function)


def main() -> None:
    spec = json.loads(sys.argv[1])
    result = find_measure(spec["measure"])(spec)
    with open(sys.argv[2], "w") as output:
        json.dump(result, output)


if __name__ == "__main__":
    main()
