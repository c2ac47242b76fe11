"""What a user waits for at a warm start: `python -m benchmarks.start`.

From process start to the first result, less `import torch` and building the model, in a new process with all caches hot; TorchDynamo and
Stator alternate. "With imports" is what a user sees; "without" has the front end's and inductor's modules imported before the clock starts.
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
SIDES = {"dynamo": "TorchDynamo", "stator": "Stator"}


def small() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    import torch

    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())]
    return torch.nn.Sequential(*layers), (torch.randn(8, 64),), {}


def qwen3_12() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    import torch

    from benchmarks.programs import qwen3

    torch.manual_seed(0)
    program = qwen3(12)
    return program.target, program.args, program.kwargs


PROGRAMS: dict[str, Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]] = {"small": small, "qwen3_12": qwen3_12}
TITLES = {"small": "12 layers of Linear and GELU", "qwen3_12": "Qwen3, 12 layers"}


def work(side: str, name: str, imported: bool) -> dict[str, Any]:
    """In a process of its own: seconds to the first result, and which of the large modules that took."""
    import time

    started = time.perf_counter()
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
        start = time.perf_counter()
        if side == "dynamo":
            compiled = torch.compile(target)
        else:
            import stator

            compiled = stator.compile(target)
        result = compiled(*args, **kwargs)
        end = time.perf_counter()
        first, second = (_tensor(value) for value in (result, target(*args, **kwargs)))
    return {
        "seconds": end - start,
        "before": start - started,
        "equal": torch.allclose(first, second, atol=1e-4, rtol=1e-4),
        "modules": [module for module in HEAVY if module in sys.modules and module not in before],
        "hits": stator.stats()["disk_hits"] if side == "stator" else None,
    }


def _tensor(value: Any) -> Any:
    return value.logits if hasattr(value, "logits") else value


def run(side: str, name: str, imported: bool, caches: Path) -> dict[str, Any]:
    folders = {
        "TORCHINDUCTOR_CACHE_DIR": str(caches / side),
        "STATOR_CACHE_DIR": str(caches / "kept"),
        "STATOR_CACHE": "1",
    }
    command = [sys.executable, "-m", "benchmarks.start", "--worker", side, name, "imported" if imported else "all"]
    done = subprocess.run(
        command, cwd=runner.ROOT, env=runner.environment(folders), capture_output=True, text=True, timeout=900
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def measure(names: list[str], rounds: int, caches: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name in names:
        rows: dict[str, Any] = {f"{side}_{kind}": [] for side in SIDES for kind in ("all", "imported")}
        for side in SIDES:  # twice: what a first process keeps, a second may keep in another form
            run(side, name, False, caches)
            run(side, name, False, caches)
        for _ in range(rounds):
            for kind in ("all", "imported"):
                for side in SIDES:
                    seen = run(side, name, kind == "imported", caches)
                    if not seen["equal"]:
                        raise RuntimeError(f"{SIDES[side]} differs from eager on {name}")
                    rows[f"{side}_{kind}"].append(seen["seconds"])
                    if side == "stator":
                        rows["modules"], rows["hits"] = seen["modules"], seen["hits"]
        figures[name] = {
            key: statistics.median(value) if key.partition("_")[0] in SIDES else value for key, value in rows.items()
        }
    return figures


def table(figures: dict[str, Any]) -> str:
    lines = ["Warm start, seconds to the first result (caches hot, less import torch and building the model)",
             f"{'':32}{'':16}{'TorchDynamo':>12}{'Stator':>10}{'ratio':>8}"]  # fmt: skip
    for name, row in figures.items():
        for kind, title in (("all", "with imports"), ("imported", "without")):
            theirs, ours = row[f"dynamo_{kind}"], row[f"stator_{kind}"]
            label = TITLES[name] if kind == "all" else ""
            lines.append(f"{label:32}{title:16}{theirs:12.3f}{ours:10.3f}{theirs / ours:8.1f}")
        loaded = ", ".join(row["modules"]) or "none of " + ", ".join(HEAVY)
        lines.append(f"{'':32}imported by Stator: {loaded}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PROGRAMS), help="comma-separated: " + ", ".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--caches", type=Path, help="keep the caches in this folder for the next run")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 unless Stator is 10 times as fast with imports"
    )
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        side, name, kind = options.worker
        print(json.dumps(work(side, name, kind == "imported")))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        figures = measure(options.only.split(","), options.rounds, options.caches or Path(temporary))
    print(table(figures))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(figures, indent=1))
    holds = all(row["dynamo_all"] >= 10 * row["stator_all"] and not row["modules"] for row in figures.values())
    return 0 if holds or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
