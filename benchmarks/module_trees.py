"""Module trees and measurements that nn_module_guard_eval.py and deep_modules.py run in workers."""

from __future__ import annotations

import copy
import functools
import gc
import statistics
from typing import Any

from benchmarks import frontends
from benchmarks.clock import ClockedBackend, first_call, hot, swept
from benchmarks.worker import quiet, trivial_compile


def _start(spec: dict[str, Any]) -> frontends.Frontend:
    import torch

    quiet()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    frontend = frontends.load(spec["side"])
    with torch.no_grad():
        trivial_compile(frontend, ClockedBackend())
    return frontend


def row_of_modules(count: int, kind: str = "plain"):
    """`count` layers called one after the other: "plain" ones have no parameters, "linear" two."""
    import torch
    from torch import nn

    class Plain(nn.Module):
        def forward(self, x):
            return x

    class Shift(nn.Module):
        def forward(self, x):
            return x + 1

    class Row(nn.Module):
        def __init__(self):
            super().__init__()
            make = {"plain": Plain, "shift": Shift, "linear": lambda: nn.Linear(4, 4)}[kind]
            self.layers = nn.ModuleList(make() for _ in range(count))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x + 1

    return Row().eval(), torch.zeros(2, 4)


def nested_modules(depth: int):
    """A module in a module in a module; each level adds one node on the way in and one out."""
    import torch
    from torch import nn

    class Level(nn.Module):
        def __init__(self, below: int):
            super().__init__()
            self.inner = Level(below - 1) if below > 1 else nn.Identity()

        def forward(self, x):
            return self.inner(x + 1) * 2

    return Level(depth).eval(), torch.zeros(2, 4)


def _later_calls(compiled, backend: ClockedBackend, *args, **kwargs) -> dict[str, Any]:
    call = functools.partial(compiled, *args, **kwargs)
    return {"hot": hot(call), "swept": swept(call), "graphs": len(backend.graphs)}


def _armed(frontend: frontends.Frontend, target, *args, **kwargs):
    """The compiled target after its capture, its graphs canned."""
    backend = ClockedBackend()
    compiled = frontend.compile(target, backend=backend)
    compiled(*args, **kwargs)
    backend.tape.clear()
    compiled(*args, **kwargs)
    backend.can()
    return compiled, backend


def qwen_guards(spec: dict[str, Any]) -> dict[str, Any]:
    """Guard cost of Qwen3-36's tree: as built, and after train() and eval()."""
    import torch

    from benchmarks.programs import qwen3

    frontend = _start(spec)
    program = qwen3(spec.get("layers", 36))
    model = program.target
    with torch.no_grad():
        compiled, backend = _armed(frontend, model, **program.kwargs)
        result = {
            "modules": len(list(model.modules())),
            "parameters": len(list(model.parameters())),
            "steady": _later_calls(compiled, backend, **program.kwargs),
        }
        firsts = []
        for _ in range(9):
            model.train()
            model.eval()
            _, wall, _ = first_call(lambda: compiled(**program.kwargs))
            firsts.append(wall * 1e6)
        result["first_after_toggle_us"] = statistics.median(firsts)
        result["after_toggle"] = _later_calls(compiled, backend, **program.kwargs)
    return result


def program_guards(spec: dict[str, Any]) -> dict[str, Any]:
    """Guard cost of one of the programs, and how many tensors it has to look at."""
    import torch

    from benchmarks.programs import build

    frontend = _start(spec)
    program = build(spec["program"])
    with torch.no_grad():
        compiled, backend = _armed(frontend, program.target, *program.args, **program.kwargs)
        later = _later_calls(compiled, backend, *program.args, **program.kwargs)
    return later | {"parameters": len(list(program.target.parameters()))}


def written_dicts(spec: dict[str, Any]) -> dict[str, Any]:
    """What guards cost those who write: a dict that a guard rests on, and a training loop whose modules count their
    calls.

    Least of many rounds, with guards and without in turn: what else runs on the machine only adds.
    """
    import time

    import torch

    frontend = _start(spec)

    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(64, 64)
            self.seen = 0

        def forward(self, x):
            return self.linear(x)

    def train(model, steps):
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        x = torch.ones(16, 64)
        for step in range(steps):
            for layer in model:
                layer.seen = step
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    def write(module, count):
        contents = vars(module)
        for number in range(count):
            contents["seen"] = number

    models = {name: torch.nn.Sequential(*[Counted() for _ in range(6)]) for name in ("plain", "guarded")}
    compiled = frontend.compile(models["guarded"], backend=ClockedBackend())
    found: dict[str, list[float]] = {}
    writes = 20000
    for _ in range(spec.get("rounds", 50)):
        for name, model in models.items():
            if name == "guarded":
                for _ in range(2):
                    compiled(torch.ones(16, 64))
            for label, work in (("train", lambda m=model: train(m, 8)), ("write", lambda m=model: write(m[0], writes))):
                start = time.perf_counter()
                work()
                found.setdefault(f"{label}_{name}", []).append(time.perf_counter() - start)
    least = {name: min(times) for name, times in found.items()}
    return {
        "training_ratio": least["train_guarded"] / least["train_plain"],
        "write_ns": (least["write_guarded"] - least["write_plain"]) / writes * 1e9,
    }


def row_guards(spec: dict[str, Any]) -> dict[str, Any]:
    """Guard cost of a row of `count` layers of one kind."""
    import torch

    frontend = _start(spec)
    model, x = row_of_modules(spec["count"], spec["kind"])
    with torch.no_grad():
        compiled, backend = _armed(frontend, model, x)
        return _later_calls(compiled, backend, x)


def shared_entry(spec: dict[str, Any]) -> dict[str, Any]:
    """Twenty equal models passed in turn to one compiled function."""
    import torch

    from benchmarks.programs import qwen3

    frontend = _start(spec)
    program = qwen3(spec.get("layers", 36))
    ids = program.kwargs["input_ids"]
    models = [program.target]
    for _ in range(spec.get("instances", 20) - 1):
        twin = copy.deepcopy(program.target)
        # Parameters of its own, over the same numbers: twenty copies of those would take 2 GB.
        for ours, theirs in zip(twin.parameters(), program.target.parameters(), strict=True):
            ours.data = theirs.data
        models.append(twin)

    def forward(model, input_ids):
        return model(input_ids=input_ids)

    with torch.no_grad():
        compiled, backend = _armed(frontend, forward, models[0], ids)
        backend._canned.clear()
        for model in models:
            compiled(model, ids)
        graphs = len(backend.graphs)
        backend.tape.clear()
        compiled(models[0], ids)
        backend.can()
        gc.collect()

        def each_once():
            for model in models:
                compiled(model, ids)

        # Hot: each called over and over, the slowest of them counts. In turn: between two calls of a model the other
        # nineteen pass through the caches, which do not hold all of their memory.
        count = len(models)
        each_hot = [hot(functools.partial(compiled, model, ids), 0.05) for model in models]
        turn_us, swept_us = hot(each_once, 1.0, 1), swept(each_once, 20)
        return {
            "instances": count,
            "graphs": graphs,
            "hot": max(each_hot, key=lambda summary: summary["median_us"]),
            "turn": {key: value / count for key, value in turn_us.items()},
            "swept": {key: value / count for key, value in swept_us.items()},
        }


def tree_capture(spec: dict[str, Any]) -> dict[str, Any]:
    """Capture time of a deep or a wide tree of modules."""
    import torch

    frontend = _start(spec)
    size = spec["size"]
    model, x = nested_modules(size) if spec["shape"] == "deep" else row_of_modules(size, "shift")
    with torch.no_grad():
        expected = model(x)
        backend = ClockedBackend()
        compiled = frontend.compile(model, backend=backend)
        gc.collect()
        seen, wall, _ = first_call(lambda: compiled(x))
    return {
        "capture_s": wall - backend.in_backend - backend.in_graphs,
        "modules": len(list(model.modules())),
        "nodes": backend.nodes(),
        "graphs": len(backend.graphs),
        "equal": bool(torch.equal(expected, seen)),
    }
