"""The two front ends under measurement, behind one small interface.

`self-test` stands in the Stator column but is torch.compile once more: it checks the harness, its
ratios ought to be 1, and every report that contains it says so.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TORCHDYNAMO = "torchdynamo"
STATOR = "stator"
SELF_TEST = "self-test"

LABELS = {
    TORCHDYNAMO: "TorchDynamo",
    STATOR: "Stator",
    SELF_TEST: "self-test (torch.compile)",
}

_PROBE = "import torch, stator; assert callable(getattr(stator, 'compile', None)), 'the package has no stator.compile'"


@dataclass
class Frontend:
    name: str
    compile: Callable[..., Any]
    reset: Callable[..., Any] | None

    def reset_one(self, function: Callable[..., Any], compiled: Callable[..., Any]) -> None:
        """Forgets the entries of one function."""
        if self.name == STATOR:
            self.reset(compiled)
        else:
            from torch._dynamo.eval_frame import reset_code

            reset_code(function.__code__)


def load(name: str) -> Frontend:
    """Imports the front end; whoever measures an import must call this inside the clock."""
    if name == STATOR:
        import stator

        return Frontend(name, stator.compile, getattr(stator, "reset", None))
    import torch
    import torch._dynamo

    return Frontend(name, torch.compile, torch._dynamo.reset)


def why_no_stator() -> str | None:
    """None where Stator can be measured, otherwise the reason why not."""
    probe = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True)
    if probe.returncode == 0:
        return None
    return (probe.stderr.strip().splitlines() or [f"exit status {probe.returncode}"])[-1]


def sides(self_test: bool) -> tuple[list[str], str | None]:
    """The front ends that a run measures, TorchDynamo first, and why Stator is missing if it is."""
    if self_test:
        return [TORCHDYNAMO, SELF_TEST], None
    missing = why_no_stator()
    return ([TORCHDYNAMO] if missing else [TORCHDYNAMO, STATOR]), missing
