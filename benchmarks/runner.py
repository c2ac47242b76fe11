"""Starts workers, each measurement in a fresh process, and alternates between the front ends."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import frontends

ROOT = Path(__file__).resolve().parent.parent

# Switches of the user's that would change what is measured.
_DROPPED = ("TORCH_", "TORCHDYNAMO", "TORCHINDUCTOR", "STATOR_", "PYTORCH_")


class WorkerFailed(Exception):
    """A measurement that gave no result; the text is the end of the worker's error output."""


def environment(extra: dict[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_DROPPED)}
    # What the environment names comes first: the build for its CPython and torch.
    path = [p for p in [kept.get("PYTHONPATH")] if p] + [str(ROOT)]
    return (
        kept
        | {
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_VERBOSITY": "error",
            "TOKENIZERS_PARALLELISM": "false",
        }
        | extra
    )


def run_worker(spec: dict[str, Any], timeout: float = 900, variables: dict[str, str] | None = None) -> dict[str, Any]:
    """The result of one measurement in a new process."""
    with tempfile.TemporaryDirectory(prefix="stator-bench-") as folder:
        output = Path(folder) / "result.json"
        # What is measured is the work, not what an earlier run kept of it; benchmarks/start.py measures that.
        extra = {"TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "inductor"), "STATOR_CACHE": "0"} | (variables or {})
        try:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.worker", json.dumps(spec), str(output)],
                cwd=ROOT,
                env=environment(extra),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise WorkerFailed(f"no result after {timeout:.0f} s") from None
        if done.returncode == 0 and output.exists():
            return json.loads(output.read_text())
        lines = done.stderr.strip().splitlines()[-4:] or ["no error output"]
        raise WorkerFailed(f"exit status {done.returncode}: " + " | ".join(lines))


def alternating(sides: list[str], turn: int) -> Iterable[str]:
    """The sides in the order of this turn, so that neither always goes first."""
    return sides if turn % 2 == 0 else list(reversed(sides))


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def facts() -> dict[str, Any]:
    """What a reader needs to judge the figures of a run."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "transformers": _version("transformers"),
        "stator": _version("stator"),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": 1,
        "load_at_start": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
    }


def announce_sides(console, self_test: bool) -> list[str]:
    """The sides to measure; says what is missing or pretended."""
    sides, missing = frontends.sides(self_test)
    if self_test:
        console.print(
            "[yellow]Self-test: the Stator column is torch.compile once more; ratios ought to be near 1.[/yellow]"
        )
    if missing:
        console.print(f"[yellow]Stator is skipped: {missing}. Only TorchDynamo is measured.[/yellow]")
    return sides
