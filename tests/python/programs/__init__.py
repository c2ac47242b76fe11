"""A corpus of small programs, by theme, that have to behave under a front end exactly as they do eagerly.

A program is a function `make` under `@program`: it returns a `Case` whose function, arguments and state are all fresh, so that the same
program can be run many times from the same start. What `make` does not create anew (module globals that a program rebinds) it resets.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


class Case:
    """One fresh instance of a program: what to call, with what, and what else to look at afterwards.

    Everything reachable from the function (closure, globals that it names, defaults), from the arguments and from `state` is compared.
    `log` is for events (finalisers, weakref callbacks): it is read after the call and again after all else was dropped.
    """

    def __init__(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.state: Any = None
        self.log: list[Any] = []
        self.change: Callable[[Case], None] = nudge_tensors
        self.steps: list[Callable[[Case], None]] = []

    def watching(self, *state: Any) -> Case:
        """Also compare these objects after each call."""
        self.state = state
        return self

    def logging(self, log: list[Any]) -> Case:
        self.log = log
        return self

    def changing(self, *args: Any, **kwargs: Any) -> Case:
        """The arguments of the call with changed inputs (default: the same, with other values in floating tensors)."""

        def change(case: Case) -> None:
            case.args = args
            case.kwargs = kwargs

        self.change = change
        return self

    def then(self, *steps: Callable[[Case], Any]) -> Case:
        """After a first call, do each step and call the same compiled function again."""
        self.steps.extend(steps)
        return self

    def then_call(self, *args: Any, **kwargs: Any) -> Case:
        """A step that only calls again, with these arguments."""

        def step(case: Case) -> None:
            case.args = args
            case.kwargs = kwargs

        self.steps.append(step)
        return self


def nudge_tensors(case: Case) -> None:
    seen: set[int] = set()

    def visit(value: Any) -> None:
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() and not value.is_sparse:
                with torch.no_grad():
                    value.detach().mul_(-1.5).add_(0.25)
        elif type(value) in (list, tuple):
            for item in value:
                visit(item)
        elif type(value) is dict:
            for item in value.values():
                visit(item)

    visit(case.args)
    visit(case.kwargs)


@dataclass(frozen=True)
class Program:
    """A named program with what is expected of its capture on a steady call (None: nothing)."""

    name: str
    make: Callable[[], Case]
    min_ops: int | None = None  # tensor operations inside the graphs that run
    max_breaks: int | None = None
    graphs: int | None = None  # graphs that run

    @property
    def theme(self) -> str:
        return self.name.partition(".")[0]

    def expects_capture(self) -> bool:
        return self.min_ops is not None or self.max_breaks is not None or self.graphs is not None


_programs: dict[str, Program] = {}


def program(
    *,
    min_ops: int | None = None,
    max_breaks: int | None = None,
    graphs: int | None = None,
    full: int | None = None,
) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Registers a program. `full=n`: all in one graph of at least n operations, without a break."""
    if full is not None:
        min_ops, max_breaks, graphs = full, 0, 1

    def register(make: Callable[[], Case]) -> Callable[[], Case]:
        name = f"{make.__module__.rpartition('.')[2]}.{make.__name__}"
        if name in _programs:
            raise ValueError(f"two programs are called {name}")
        _programs[name] = Program(name, make, min_ops, max_breaks, graphs)
        return make

    return register


def load_all() -> list[Program]:
    """All programs of all themes, in the order of the files and of the definitions in them."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda found: found.name):
        importlib.import_module(f"{__name__}.{module.name}")
    return list(_programs.values())


def vec(n: int = 4, start: float = -0.75) -> torch.Tensor:
    """A float vector with values of both signs."""
    return torch.arange(n, dtype=torch.float32) * 0.5 + start


def mat(rows: int = 3, columns: int = 4) -> torch.Tensor:
    """A float matrix without regularities that would hide a transposition."""
    flat = torch.arange(rows * columns, dtype=torch.float32)
    return ((flat * 7) % 11 - 5).reshape(rows, columns) * 0.25


def leaf(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as a leaf that requires a gradient."""
    return tensor.clone().requires_grad_(True)
