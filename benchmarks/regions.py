"""Cold start and steady step with regions, whole, and with TorchDynamo: `python -m benchmarks.regions [--models
qwen3,bert] [--train]`.

Each cold start is a process of its own with empty caches, and is measured in CPU seconds of the process and the
compilers that it starts (one at a time), so that a busy machine says the same; inductor's own imports are not part of
it. Steady steps of the whole graph and of the regions alternate in one process, and are CPU time too. `--check` holds
the figures against the limits below.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks import runner

# As many layers as the published models have, but for T5: from 12 layers on regions have to pay.
LAYERS = {"bert": 12, "gpt2": 12, "llama": 32, "qwen3": 36, "t5_encoder": 12, "vit": 12}
FEW = 2
STEPS = 40
# Limits of --check: cold over that of the model with two layers, cold of the whole graph over that with regions, a step
# over the whole graph's.
OVER_FEW, UNDER_WHOLE, STEP = 1.3, 2.0, 1.03
# Regions and whole may differ by rounding alone.
TOLERANCE = {"atol": 1e-4, "rtol": 1e-3}


def cpu_seconds() -> float:
    used = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        used += usage.ru_utime + usage.ru_stime
    return used


class Way:
    """One model, compiled in one of the ways."""

    def __init__(self, way: str, program: Any, train: bool):
        import torch

        import stator

        self.program, self.train = program, train
        if way == "dynamo":
            self.compiled = torch.compile(program.target)
        else:
            self.compiled = stator.compile(program.target, options={"regions": {"whole": "off"}.get(way, way)})

    def step(self) -> Any:
        import torch

        if not self.train:
            with torch.no_grad():
                return self.program.run(self.compiled)[0]
        result = self.program.run(self.compiled)[0]
        result.square().mean().backward()
        return result

    def results(self) -> list[Any]:
        """Of one step with a known seed: the output, and the gradients."""
        import torch

        torch.manual_seed(3)
        self.program.target.zero_grad()
        made = [self.step().detach()]
        return made + [p.grad.clone() for p in self.program.target.parameters() if p.grad is not None]


def measure(way: str, name: str, layers: int, train: bool, against: str) -> dict[str, Any]:
    """In a process of its own: a cold start, then steps; with `against` those of that way too, in turn."""
    import torch

    import stator
    from benchmarks import programs

    torch.manual_seed(0)
    program = getattr(programs, name)(layers)
    program.target.train(train)
    torch.compile(lambda x: (x + 1).sin())(torch.ones(64))
    first = Way(way, program, train)
    wall, cpu = time.perf_counter(), cpu_seconds()
    first.step()
    found: dict[str, Any] = {"cold_cpu_s": cpu_seconds() - cpu, "cold_wall_s": time.perf_counter() - wall}
    stats = stator.stats()
    found |= {
        "compilations": stats["backend_compilations"],
        "regions": stats["regions"] or 1,
        "calls": stats["region_calls"] or 1,
    }
    sides = {way: first}
    if against:
        sides[against] = Way(against, program, train)
        found["equal"] = all(
            torch.allclose(a, b, **TOLERANCE) for a, b in zip(first.results(), sides[against].results(), strict=True)
        )
    for side in sides.values():
        for _ in range(3):
            side.step()
    steps: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(STEPS):
        for side in runner.alternating([*sides], turn):
            start = time.process_time()
            sides[side].step()
            steps[side].append(time.process_time() - start)
    found["step_ms"] = {side: 1e3 * statistics.median(each) for side, each in steps.items()}
    found["least_step_ms"] = {side: 1e3 * min(each) for side, each in steps.items()}
    return found


def in_a_process(way: str, name: str, layers: int, train: bool, against: str = "") -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="stator-regions-") as caches:
        variables = runner.environment({"TORCHINDUCTOR_CACHE_DIR": caches, "STATOR_CACHE": "0"})
        spec = json.dumps([way, name, layers, train, against])
        command = [sys.executable, "-m", "benchmarks.regions", "--one", spec]
        done = subprocess.run(command, cwd=runner.ROOT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-4000:])
    return json.loads(done.stdout.splitlines()[-1])


def row_of(name: str, layers: int, train: bool, with_dynamo: bool) -> dict[str, Any]:
    few = in_a_process("auto", name, FEW, train)
    regions = in_a_process("auto", name, layers, train)
    whole = in_a_process("whole", name, layers, train, against="auto")
    steps, least = whole["step_ms"], whole["least_step_ms"]
    row = {"model": name, "layers": layers, "train": train, "few_s": few["cold_cpu_s"], "regions_s": regions["cold_cpu_s"],
           "whole_s": whole["cold_cpu_s"], "step_whole_ms": steps["whole"], "step_regions_ms": steps["auto"], "equal": whole["equal"],
           "least_whole_ms": least["whole"], "least_regions_ms": least["auto"],
           "compilations": regions["compilations"], "regions": regions["regions"], "calls": regions["calls"]}  # fmt: skip
    if with_dynamo:
        row["dynamo_s"] = in_a_process("dynamo", name, layers, train)["cold_cpu_s"]
    return row


def shortfalls(row: dict[str, Any]) -> list[str]:
    """What of the limits a row does not hold."""
    step = min(row["step_regions_ms"] / row["step_whole_ms"], row["least_regions_ms"] / row["least_whole_ms"])
    limits = {
        f"cold over {FEW} layers {row['regions_s'] / row['few_s']:.2f}": row["regions_s"] <= OVER_FEW * row["few_s"],
        f"whole over regions {row['whole_s'] / row['regions_s']:.2f}": row["whole_s"] >= UNDER_WHOLE * row["regions_s"],
        f"step over whole's {step:.3f}": step <= STEP,
        "results differ": row["equal"],
        "more compilations than regions": row["compilations"] == row["regions"],
    }
    return [what for what, holds in limits.items() if not holds]


def shown(row: dict[str, Any]) -> str:
    dynamo = f", TorchDynamo {row['dynamo_s']:.1f}" if "dynamo_s" in row else ""
    return (f"{row['model']:10} {row['layers']:3} layers {'train' if row['train'] else 'forward':7} cold CPU s: {FEW} layers {row['few_s']:.1f}, "
            f"regions {row['regions_s']:.1f}, whole {row['whole_s']:.1f}{dynamo}; step ms: regions {row['step_regions_ms']:.2f}, "
            f"whole {row['step_whole_ms']:.2f} (least {row['least_regions_ms']:.2f}, {row['least_whole_ms']:.2f}); "
            f"{row['compilations']} compilations, {row['regions']} regions, {row['calls']} calls; "
            + ("; ".join(shortfalls(row)) or "holds"))  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(LAYERS), help="comma-separated: " + ", ".join(LAYERS))
    parser.add_argument("--layers", type=int, help="in place of each model's own number")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--dynamo", action="store_true", help="TorchDynamo's cold start too")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless the limits hold")
    parser.add_argument("--out")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(*json.loads(given.one))))
        return 0
    rows = []
    for name in given.models.split(","):
        rows.append(row_of(name, given.layers or LAYERS[name], given.train, given.dynamo))
        print(shown(rows[-1]), flush=True)
    if given.out:
        with open(given.out, "w") as file:
            json.dump(rows, file, indent=1)
    return 1 if given.check and any(map(shortfalls, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
