"""Microseconds for each node on the ways out of a captured graph: to torch.fx, its source, example values, and the
executor.

python benchmarks/fx_conversion.py [NODES ...]; needs a built checkout. CPU time of this thread, best of five.
"""

import gc
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import torch

import stator._core as core
from tests.python.graph_describe import Value, facts

X = torch.randn(2, 3)


def chain(count):
    """count torch.add calls, one behind the other."""
    nodes = [{"op": "input", "example": X, "facts": facts(X), "source": [("local", 0)]}]
    for i in range(count):
        nodes.append(
            {"op": "call_function", "target": torch.add, "args": (Value(i), 1), "facts": facts(X), "location": 0}
        )
    graph = core.graph_build(Value, nodes, [count], [(chain.__code__, 0, -1)])
    core.graph_drop_dead(graph)
    return graph


def best(count, prepare, work, rounds=5):
    times = []
    for _ in range(rounds):
        made = prepare()
        gc.collect()
        start = time.thread_time()
        work(made)
        times.append(time.thread_time() - start)
    return min(times) / count * 1e6


def eager(count):
    value = X
    for _ in range(count):
        value = torch.add(value, 1)


def measure(count):
    graph = chain(count)
    runner = core.graph_runner(graph)
    runner(X)

    def convert():
        return core.graph_to_fx(graph)

    return {
        "to torch.fx": best(count, lambda: None, lambda _: convert()),
        "source": best(count, convert, lambda module: module.code),
        "example values": best(
            count, convert, lambda module: [n.meta.get("example_value") for n in module.graph.nodes]
        ),
        "stack traces": best(count, convert, lambda module: [n.stack_trace for n in module.graph.nodes]),
        "executor, a run": best(count, lambda: None, lambda _: runner(X)),
        "eager loop": best(count, lambda: None, lambda _: eager(count)),
    }


def main():
    for count in map(int, sys.argv[1:] or ["1000", "10000"]):
        rows = measure(count)
        print(f"{count} nodes:", ", ".join(f"{name} {value:.2f} us" for name, value in rows.items()))


if __name__ == "__main__":
    main()
