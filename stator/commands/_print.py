"""What was recorded, as text for a terminal: with colours where rich is installed."""

from __future__ import annotations

import importlib
import sys
from typing import Any

MOST = 20


class Out:
    """Lines to a stream, styled where that is possible."""

    def __init__(self, stream: Any = None) -> None:
        self.stream = stream or sys.stdout
        try:
            console = importlib.import_module("rich.console")
            self._text = importlib.import_module("rich.text").Text
        except ImportError:
            self._console = None
        else:
            self._console = console.Console(file=self.stream, soft_wrap=True, highlight=False)

    def line(self, *parts: str | tuple[str, str]) -> None:
        """Parts are texts, or (text, style)."""
        if self._console is None:
            print("".join(part if isinstance(part, str) else part[0] for part in parts), file=self.stream)
        else:
            self._console.print(self._text.assemble(*parts))

    def heading(self, text: str) -> None:
        self.line()
        self.line((text, "bold"))


def count(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def seconds(value: float) -> str:
    if value >= 1:
        return f"{value:.2f} s"
    return f"{1e3 * value:.1f} ms" if value >= 1e-4 else f"{1e6 * value:.0f} us"


def bar(share: float, width: int = 24) -> str:
    filled = round(share * width)
    return "█" * filled + "░" * (width - filled)


def guard_microseconds(process: dict[str, Any]) -> float:
    """The most that one entry's guards take."""
    return max((c["guards_nanoseconds"] or 0 for c in process["captures"]), default=0) / 1e3


def ranked_breaks(process: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(process["breaks"], key=lambda found: (-found["calls_outside"], -found["times"], found["id"]))


def figures(process: dict[str, Any]) -> dict[str, Any]:
    """What `check` has limits for."""
    return {
        "graphs": sum(capture["operations"] > 0 for capture in process["captures"]),
        "breaks": len(process["breaks"]),
        "recompiles": len(process["recompiles"]),
        "guard_us": round(guard_microseconds(process), 3),
    }


def summary(process: dict[str, Any], out: Out) -> None:
    found = figures(process)
    calls = process["calls"]
    inside, outside = calls["graphs"], calls["breaks"] + calls["native"]
    out.line(
        (
            f"{count(found['graphs'], 'graph')}, {count(found['breaks'], 'break')}, {count(found['recompiles'], 'recompile')}",
            "bold",
        ),
        f"; capture {seconds(sum(c['capture_seconds'] for c in process['captures']))}, "
        f"backends {seconds(sum(c['backend_seconds'] for c in process['captures']))}, "
        f"guards at most {found['guard_us']:.2f} us",
    )
    if not process["captures"] and not process["breaks"]:
        out.line("Nothing was captured: the program calls no compiled function.")
        return
    if inside + outside:
        share = inside / (inside + outside)
        out.line(
            (bar(share), "green" if share > 0.95 else "yellow"),
            f" {share:.0%} of the compiled functions' tensor calls ran inside of graphs "
            f"({inside:,} inside, {outside:,} outside)",
        )
    if calls["beside"]:
        out.line(f"{count(calls['beside'], 'tensor call')} ran outside of compiled functions.")


def breaks(process: dict[str, Any], out: Out) -> None:
    found = ranked_breaks(process)
    out.heading("Breaks, by tensor calls left outside of graphs" if found else "No breaks")
    for number, one in enumerate(found[:MOST], 1):
        out.line(
            f"{number:3}. ",
            (count(one["calls_outside"], "call"), "red" if one["calls_outside"] else "dim"),
            f", {count(one['times'], 'time')}: ",
            (one["reason"], "bold"),
            (f" [break reason {one['number']}]", "dim"),
        )
        for frame in one["source"]:
            text = frame["lines"][frame["line"] - frame["first"]].strip() if frame["lines"] else ""
            out.line("       ", (f"{frame['short']}:{frame['line']} in {frame['function']}", "cyan"), f": {text}")
        if one["advice"]:
            out.line("       What to do: ", (one["advice"], "green"), ".")
    if len(found) > MOST:
        out.line(f"     and {len(found) - MOST} more")


def recompiles(process: dict[str, Any], out: Out) -> None:
    found = sorted(process["recompiles"], key=lambda one: -one["seconds"])
    out.heading("Recompiles, by time" if found else "No recompiles")
    for number, one in enumerate(found[:MOST], 1):
        out.line(
            f"{number:3}. ", (seconds(one["seconds"]), "yellow"), f": entry {one['entries']} of at most {one['limit']} at ",
            (one["place"], "cyan"),
        )  # fmt: skip
        for change in one["changes"][:4]:
            used = f"    [{change['used_at']}]" if change["used_at"] else ""
            out.line(f"       {change['text']}{' -> now dynamic' if change['now_dynamic'] else ''}", (used, "dim"))
    if len(found) > MOST:
        out.line(f"     and {len(found) - MOST} more")
    for one in process["limits"]:
        out.line(
            ("Limit reached: ", "bold red"), f"{one['place']}, captured {one['limit']} times; further cases run eagerly"
        )
        out.line(one["advice"])


def everything(process: dict[str, Any], out: Out) -> None:
    summary(process, out)
    if process["captures"] or process["breaks"]:
        breaks(process, out)
        recompiles(process, out)
