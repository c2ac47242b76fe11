"""Figures on a GPU beside TorchDynamo: `python -m benchmarks.cuda`.

Qwen3 from a config with random weights, in bfloat16. Each measurement has a process of its own, the front ends take
turns, and both hand their graphs to the same inductor. Prints one line for each figure, and writes all of them as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import frontends, runner

# Issue: what has to hold on the machine that the figures are for.
WANTED = {"capture": 100.0, "guards": 25.0, "warm_s": 0.8}
QUIETEST = 1.02  # two runs of the same code differ by about this much


def build(spec: dict[str, Any]):
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    hidden, length = spec["hidden"], spec["length"]
    config = Qwen3Config(
        vocab_size=1000, hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=spec["layers"],
        num_attention_heads=hidden // 64, num_key_value_heads=hidden // 64, head_dim=64,
        max_position_embeddings=2 * length, use_cache=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    with torch.device(spec["device"]):
        model = Qwen3ForCausalLM(config).to(torch.bfloat16).eval()
    ids = torch.randint(5, 1000, (2, length), generator=torch.Generator().manual_seed(1)).to(spec["device"])
    return model, {"input_ids": ids}


def prepare(spec: dict[str, Any]):
    import torch

    from benchmarks.worker import quiet

    quiet()
    torch.set_num_threads(1)
    model, kwargs = build(spec)

    def wait() -> None:
        if spec["device"].startswith("cuda"):
            torch.cuda.synchronize()

    wait()
    return model, kwargs, wait, frontends.load(spec["side"])


def capture(spec: dict[str, Any]) -> dict[str, Any]:
    """Capture, then guards and dispatch of later calls with a canned graph."""
    import functools
    import gc

    import torch

    from benchmarks.clock import ClockedBackend, first_call, hot
    from benchmarks.worker import trivial_compile

    model, kwargs, wait, frontend = prepare(spec)
    with torch.no_grad():
        expected = model(**kwargs).logits
        trivial_compile(frontend, ClockedBackend())
        backend = ClockedBackend()
        compiled = frontend.compile(model, backend=backend)
        gc.collect()
        wait()
        seen, wall, _ = first_call(lambda: compiled(**kwargs))
        if not backend.graphs:
            sys.exit("no graph was captured: there is nothing to time")
        result = {
            "capture_s": wall - backend.in_backend - backend.in_graphs,
            "graphs": len(backend.graphs),
            "nodes": backend.nodes(),
            "equal": torch.equal(seen.logits, expected),
        }
        backend.tape.clear()
        compiled(**kwargs)
        backend.can()
        result["guards_us"] = hot(functools.partial(compiled, **kwargs), 1.0)["median_us"]
    return result


def compiled_with(frontend, model, spec: dict[str, Any]):
    if "regions" in spec:
        return frontend.compile(model, backend="inductor", options={"regions": spec["regions"]})
    mode = spec.get("mode")
    return frontend.compile(model, backend="inductor") if mode is None else frontend.compile(model, mode=mode)


def parts_of(spec: dict[str, Any]) -> dict[str, int]:
    """How many graphs the backend compiled, and how many calls of them one call of the model makes: Stator's alone are
    fewer."""
    if spec["side"] != "stator":
        return {}
    import stator

    counts = stator.stats()
    return {
        "compilations": counts["backend_compilations"],
        "parts": counts["region_calls"] or 1,
        "kept": counts["disk_hits"],
    }


def warm(spec: dict[str, Any]) -> dict[str, Any]:
    """The first call of a new process. The caller's cache folder decides whether inductor's caches are hot. The device
    itself is awake, and so is inductor (a trivial function was compiled), as in `make bench`."""
    import torch

    from benchmarks.clock import first_call
    from benchmarks.worker import trivial_compile

    model, kwargs, wait, frontend = prepare(spec)
    with torch.no_grad():
        expected = model(**kwargs).logits
        trivial_compile(frontend, "inductor")
        compiled = compiled_with(frontend, model, spec)
        wait()

        def call():
            out = compiled(**kwargs).logits
            wait()
            return out

        seen, wall, _ = first_call(call)
    from torch._dynamo.utils import counters

    return {
        "first_s": wall,
        "fx_hits": counters["inductor"]["fxgraph_cache_hit"],
        "fx_misses": counters["inductor"]["fxgraph_cache_miss"],
        "aot_hits": counters["aot_autograd"]["autograd_cache_hit"],
        "difference": (seen.float() - expected.float()).abs().max().item(),
        **parts_of(spec),
    }


def steady(spec: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds of a step: calls one after another until the device is done, in several rounds; and peak memory of a
    step."""
    import torch

    model, kwargs, wait, frontend = prepare(spec)
    compiled = compiled_with(frontend, model, spec)
    rounds, on_cuda = [], spec["device"].startswith("cuda")
    with torch.no_grad():
        for _ in range(5):
            compiled(**kwargs)
        wait()
        if on_cuda:
            torch.cuda.reset_peak_memory_stats()
        compiled(**kwargs)
        wait()
        peak = torch.cuda.max_memory_allocated() if on_cuda else 0
        for _ in range(spec["rounds"]):
            start = time.perf_counter()
            for _ in range(spec["steps"]):
                compiled(**kwargs)
            wait()
            rounds.append((time.perf_counter() - start) / spec["steps"] * 1e3)
    return {"step_ms": statistics.median(rounds), "least_ms": min(rounds), "peak": peak, **parts_of(spec)}


def shortest(found: list[dict[str, Any]], key: str) -> float:
    return min(one[key] for one in found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--turns", type=int, default=2, help="processes for each figure and front end")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("bench-out/cuda.json"))
    parser.add_argument("--only", default="capture,warm,steady,reduce,whole", help="which figures")
    options = parser.parse_args()
    asked = options.only.split(",")
    if options.device.startswith("cuda"):
        import torch

        if not torch.cuda.is_available():
            print(f"skipped: there is no device {options.device} here")
            return 0
    sides, missing = frontends.sides(False)
    if missing:
        print(f"Stator is missing: {missing}")
        return 1
    base = {k: getattr(options, k) for k in ("device", "layers", "hidden", "length", "steps")} | {"rounds": 10}
    print(json.dumps(runner.facts()), flush=True)
    found: dict[str, dict[str, list[Any]]] = {}
    kept = tempfile.TemporaryDirectory(prefix="stator-cuda-")

    def measure(name: str, measure: str, turns: int, **extra: Any) -> None:
        for turn in range(turns):
            for side in runner.alternating(sides, turn):
                if "regions" in extra and side != "stator":
                    continue
                # Each front end has caches of its own, kept over its processes.
                places = {
                    "TORCHINDUCTOR_CACHE_DIR": f"{kept.name}/{side}{extra.get('regions', '')}",
                    "TRITON_CACHE_DIR": f"{kept.name}/{side}{extra.get('regions', '')}/triton",
                    "TORCHINDUCTOR_COMPILE_THREADS": "1" if name == "warm" else "8",
                }
                spec = {**base, "measure": f"cuda:{measure}", "side": side, **extra}
                begun = time.monotonic()
                try:
                    one = runner.run_worker(spec, 400, places)
                except runner.WorkerFailed as failure:
                    one = {"failed": str(failure)}
                print(f"{name} {side} ({time.monotonic() - begun:.0f} s): {json.dumps(one)}", flush=True)
                found.setdefault(name, {}).setdefault(side, []).append(one)
                options.out.parent.mkdir(parents=True, exist_ok=True)
                options.out.write_text(
                    json.dumps({"facts": runner.facts(), "settings": base, "found": found}, indent=1)
                )

    if "capture" in asked:
        measure("capture", "capture", options.turns)
    if "warm" in asked:
        measure("cold", "warm", 1)
        measure("warm", "warm", options.turns)
    if "steady" in asked:
        measure("steady", "steady", options.turns)
    if "reduce" in asked:
        measure("reduce-overhead", "steady", options.turns, mode="reduce-overhead")
    if "whole" in asked:  # without regions: what one graph for all layers costs
        measure("cold, whole", "warm", 1, regions="off")
        measure("steady, whole", "steady", options.turns, regions="off")
    return summary(sides, found)


def summary(sides: list[str], found: dict[str, dict[str, list[Any]]]) -> int:
    lines, held = [], True

    def line(name: str, key: str, unit: str, holds=None) -> None:
        nonlocal held
        if name not in found:
            return
        if any("failed" in one for side in sides for one in found[name][side]):
            held = False
            lines.append(f"{name:16} FAILED")
            return
        a, b = (shortest(found[name][side], key) for side in sides)
        good = holds is None or holds(a, b)
        held &= good
        lines.append(f"{name:16} {key:10} TorchDynamo {a:10.4g} {unit}  Stator {b:10.4g} {unit}  ratio {a / b:7.2f}  {'holds' if good else 'FALLS SHORT'}")  # fmt: skip

    line("capture", "capture_s", "s", lambda a, b: a / b >= WANTED["capture"])
    line("capture", "guards_us", "us", lambda a, b: a / b >= WANTED["guards"])
    line("warm", "first_s", "s", lambda a, b: b < WANTED["warm_s"])
    for name in ("steady", "reduce-overhead"):
        line(name, "step_ms", "ms", lambda a, b: b <= a * QUIETEST)
        line(name, "peak", "B", lambda a, b: b <= a * 1.01)
    print("== summary")
    print("\n".join(lines))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
