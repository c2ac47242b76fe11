"""What the user says about guards: which of them an entry is to have (guard_filter_fn), which it has (guard_export_fn),
which failed (guard_fail_fn). What these functions get has the fields and names that TorchDynamo's have, so that
torch.compiler's filters work.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from types import CodeType
from typing import Any, NamedTuple

from torch import nn
from torch._guards import GuardSource


class GuardFail(NamedTuple):
    reason: str
    orig_code: CodeType


@dataclasses.dataclass(frozen=True)
class Guard:
    name: str
    guard_type: str
    source: GuardSource
    # What is checked, in words: guards here are no Python code.
    code_list: list[str] = dataclasses.field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        if not self.code_list:
            self.code_list.append(f"{self.guard_type} of {self.name}")

    def create_fn_name(self) -> str:
        return self.guard_type

    def is_fsdp_module(self) -> bool:
        return self.source.is_fsdp_module()


@dataclasses.dataclass(frozen=True)
class GuardFilterEntry:
    name: str
    has_value: bool
    value: object
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: Guard


def _source(kind: str, is_global: bool, module: nn.Module | None) -> GuardSource:
    if kind == "SHAPE_ENV":
        return GuardSource.SHAPE_ENV
    place = "GLOBAL" if is_global else "LOCAL"
    if module is None:
        return GuardSource[place]
    builtin = "BUILTIN_" if type(module).__module__.startswith(("torch.nn.", "torch.ao.")) else ""
    return GuardSource[f"{place}_UNSPECIALIZED_{builtin}NN_MODULE"]


def _entry(name: str, kind: str, has_value: bool, value: Any, is_global: bool, module: Any) -> GuardFilterEntry:
    guard = Guard(name, kind, _source(kind, is_global, module))
    return GuardFilterEntry(name, has_value, value, kind, (), is_global, guard)


def keep(settings: Any, found: Sequence[tuple[Any, ...]]) -> list[bool]:
    """For each guard whether it is checked."""
    entries = [_entry(*each) for each in found]
    wanted = [True] * len(entries)
    if settings.guard_filter_fn is not None:
        answer = list(settings.guard_filter_fn(entries))
        if len(answer) != len(entries):
            raise ValueError(f"guard_filter_fn returned {len(answer)} answers for {len(entries)} guards")
        wanted = [bool(each) for each in answer]
    if settings.guard_export_fn is not None:
        settings.guard_export_fn({entry.orig_guard for entry, kept in zip(entries, wanted, strict=True) if kept})
    return wanted


def failed(settings: Any, reason: str, code: CodeType) -> None:
    try:
        settings.guard_fail_fn(GuardFail(reason, code))
    except Exception:  # it is told of a capture, and has no say in the call
        logging.getLogger(__name__).exception("guard_fail_fn raised")
