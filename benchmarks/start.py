"""What a user waits for: `python -m benchmarks.start`.

From process start to the first result, less `import torch` and building the model. Cold: empty caches. Warm: a new
process with all caches hot; from a file: `stator.load` of what `stator.save` wrote, without any cache. "With imports"
is what a user sees; "without" has the front end's and inductor's modules imported before the clock starts. The step is
a later call. Each in a process of its own; TorchDynamo and Stator alternate. `--cpu`: CPU time of the process and the
compilers that it starts in place of seconds, for a busy machine. `--check` holds the figures against the limits below.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import runner

HEAVY = ("torch._dynamo", "torch._inductor", "sympy")
SIDES = {"dynamo": "TorchDynamo", "whole": "Stator, whole", "stator": "Stator", "file": "from a file"}
STEPS = 20
# Limits of --check: TorchDynamo's warm start with imports over Stator's; seconds of Stator's, by program; and by how
# many seconds the first call from a file may be longer than a later one.
TIMES, AT_MOST, FIRST_CALL = 10, {"small": 0.3, "qwen3_12": 0.3}, {"qwen3_36": 0.06}


def small() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    import torch

    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())]
    return torch.nn.Sequential(*layers), (torch.randn(8, 64),), {}


def model(name: str, layers: int) -> Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """A model of benchmarks/programs.py, which is imported when it is built."""

    def made() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        import torch

        from benchmarks import programs

        torch.manual_seed(0)
        program = getattr(programs, name)(layers)
        return program.target, program.args, program.kwargs

    return made


PROGRAMS: dict[str, Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]] = {
    "small": small,
    "qwen3_12": model("qwen3", 12),
    "bert_12": model("bert", 12),
    "gpt2_12": model("gpt2", 12),
    "vit_12": model("vit", 12),
    "t5_encoder_6": model("t5_encoder", 6),
    "llama_32": model("llama", 32),
    "qwen3_36": model("qwen3", 36),
}
USUAL = ("small", "qwen3_12", "bert_12", "gpt2_12", "vit_12")
TITLES = {
    "small": "12 layers of Linear and GELU",
    "qwen3_12": "Qwen3, 12 layers",
    "bert_12": "BERT, 12 layers",
    "gpt2_12": "GPT-2, 12 layers",
    "vit_12": "ViT, 12 layers",
    "t5_encoder_6": "T5 encoder, 6 layers",
    "llama_32": "Llama, 32 layers",
    "qwen3_36": "Qwen3, 36 layers",
}


def work(side: str, name: str, imported: bool, file: str, saves: bool) -> dict[str, Any]:
    """In a process of its own: seconds to the first result, and which of the large modules that took."""
    started = now()
    import torch

    target, args, kwargs = PROGRAMS[name]()
    before = [module for module in HEAVY if module in sys.modules]
    if imported:
        if side == "dynamo":
            import torch._inductor.compile_fx
        else:
            import stator
            from stator import _disk  # noqa: F401
    with torch.no_grad():
        start = now()
        if side == "dynamo":
            compiled = torch.compile(target)
        else:
            import stator

            if side == "whole":
                stator.config.regions = "off"
            compiled = stator.load(target, file, on_miss="error") if side == "file" else stator.compile(target)
        calling = now()
        result = compiled(*args, **kwargs)
        end = now()
        modules = [module for module in HEAVY if module in sys.modules and module not in before]
        steps = []
        for _ in range(STEPS):
            begin = now()
            compiled(*args, **kwargs)
            steps.append([later - earlier for later, earlier in zip(now(), begin, strict=True)])
        first, second = (_tensor(value) for value in (result, target(*args, **kwargs)))
    if saves:
        stator.save(compiled, file)
    stats = stator.stats() if side != "dynamo" else {}
    return {
        "seconds": [later - earlier for later, earlier in zip(end, start, strict=True)],
        "first": [later - earlier for later, earlier in zip(end, calling, strict=True)],
        "before": [later - earlier for later, earlier in zip(start, started, strict=True)],
        "step": [statistics.median(column) for column in zip(*steps, strict=True)],
        "equal": torch.allclose(first, second, atol=1e-4, rtol=1e-4),
        "modules": modules,
        "hits": stats.get("disk_hits"),
        "compilations": stats.get("backend_compilations"),
    }


def now() -> tuple[float, float]:
    """Seconds by the clock, and of CPU time with all finished children."""
    import resource
    import time

    used = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        used += usage.ru_utime + usage.ru_stime
    return time.perf_counter(), used


def _tensor(value: Any) -> Any:
    return value if not hasattr(value, "keys") else next(iter(value.values()))


def run(side: str, name: str, imported: bool, caches: Path, saves: bool = False) -> dict[str, Any]:
    folders = {
        "TORCHINDUCTOR_CACHE_DIR": str(caches / side),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of processes whose work would be counted for nobody
        "STATOR_CACHE_DIR": str(caches / "kept" / side),
        "STATOR_CACHE": "0" if side == "file" else "1",
    }
    kind = "imported" if imported else "all"
    worker = [side, name, kind, str(caches / f"{name}.stator"), "save" if saves else ""]
    command = [sys.executable, "-m", "benchmarks.start", "--worker", *worker]
    done = subprocess.run(
        command, cwd=runner.ROOT, env=runner.environment(folders), capture_output=True, text=True, timeout=900
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-3000:])
    seen = json.loads(done.stdout.splitlines()[-1])
    if not seen["equal"]:
        raise RuntimeError(f"{SIDES[side]} differs from eager on {name}")
    return seen


def measure(names: list[str], rounds: int, caches: Path, sides: list[str], clock: int) -> dict[str, Any]:
    """By program: `<side>_<cold|all|imported|step>`, and what Stator imported; `clock`: 0 the clock, 1 CPU time."""
    figures: dict[str, Any] = {}
    for name in names:
        row: dict[str, Any] = {}
        samples: dict[str, list[float]] = {}
        compiling = [side for side in sides if side != "file"]
        for side in compiling:  # twice: what a first process keeps, a second may keep in another form
            cold = run(side, name, False, caches)
            row[f"{side}_cold"], row[f"{side}_compilations"] = cold["seconds"][clock], cold["compilations"]
            run(side, name, False, caches, saves=side == "stator")
        for turn in range(rounds):
            for kind in ("all", "imported"):
                for side in runner.alternating(sides, turn):
                    seen = run(side, name, kind == "imported", caches)
                    samples.setdefault(f"{side}_{kind}", []).append(seen["seconds"][clock])
                    samples.setdefault(f"{side}_step", []).append(seen["step"][clock])
                    if kind == "imported":
                        samples.setdefault(f"{side}_first", []).append(seen["first"][clock])
                    if side == "stator" and kind == "all":
                        row["modules"], row["hits"] = seen["modules"], seen["hits"]
        figures[name] = row | {key: statistics.median(values) for key, values in samples.items()}
    return figures


MEASURES = {
    "all": "warm, with imports",
    "imported": "warm, without",
    "first": "the first call alone",
    "cold": "cold, with imports",
    "step": "a later call",
}


def table(figures: dict[str, Any], sides: list[str], clock: int) -> str:
    what = "CPU seconds" if clock else "Seconds"
    lines = [f"{what} to the first result (less import torch and building the model), and of a later call",
             f"{'':30}{'':20}" + "".join(f"{SIDES[side]:>15}" for side in sides) + f"{'ratio':>8}"]  # fmt: skip
    for name, row in figures.items():
        for kind, title in MEASURES.items():
            cells = [row.get(f"{side}_{kind}") for side in sides]
            ratio = f"{row[f'dynamo_{kind}'] / row[f'stator_{kind}']:8.1f}" if {"dynamo", "stator"} <= {*sides} else ""
            shown = "".join(
                f"{'' if cell is None else format(cell, '.4f' if kind == 'step' else '.3f'):>15}" for cell in cells
            )
            lines.append(f"{TITLES[name] if kind == 'all' else '':30}{title:20}{shown}{ratio}")
        loaded = ", ".join(row["modules"]) or "none of " + ", ".join(HEAVY)
        counts = ", ".join(
            f"{SIDES[s]} {row[f'{s}_compilations']}" for s in sides if row.get(f"{s}_compilations") is not None
        )
        lines.append(f"{'':30}imported by Stator at a warm start: {loaded}; compilations when cold: {counts}")
    return "\n".join(lines)


def shortfalls(name: str, row: dict[str, Any]) -> list[str]:
    """What of the limits a program does not hold, as far as it was measured."""
    found = []
    warm = row.get("stator_all")
    if warm is not None and row["modules"]:
        found.append(f"{name}: a warm start imports {', '.join(row['modules'])}")
    if warm is not None and "dynamo_all" in row and row["dynamo_all"] < TIMES * warm:
        found.append(f"{name}: a warm start is {row['dynamo_all'] / warm:.1f} times TorchDynamo's, not {TIMES}")
    if warm is not None and warm > AT_MOST.get(name, warm):
        found.append(f"{name}: a warm start takes {warm:.3f} s, not {AT_MOST[name]}")
    if "file_first" in row and name in FIRST_CALL:
        above = row["file_first"] - row["file_step"]
        if above > FIRST_CALL[name]:
            found.append(
                f"{name}: the first call from a file is {above:.3f} s above a later one, not {FIRST_CALL[name]}"
            )
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", default=",".join(USUAL), help="comma-separated: " + ", ".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--caches", type=Path, help="keep the caches in this folder for the next run")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless the limits hold")
    parser.add_argument("--sides", default=",".join(SIDES), help="comma-separated: " + ", ".join(SIDES))
    parser.add_argument("--cpu", action="store_true", help="CPU time in place of seconds")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        side, name, kind, file, saves = options.worker
        print(json.dumps(work(side, name, kind == "imported", file, bool(saves))))
        return 0
    sides, clock = options.sides.split(","), int(options.cpu)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.caches or Path(temporary)).resolve()
        figures = measure(options.only.split(","), options.rounds, folder, sides, clock)
    print(table(figures, sides, clock))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(figures, indent=1))
    missed = [text for name, row in figures.items() for text in shortfalls(name, row)]
    if options.check:
        print("\n".join(missed) or "all limits hold")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
