"""What notebooks show of explain and guards: small fragments that look right on light and dark."""

from __future__ import annotations

import html
import os
from typing import Any

_SOFT = "opacity:.65"
_CODE = "font-family:ui-monospace,Menlo,'DejaVu Sans Mono',monospace;font-size:12px"


def _esc(text: Any) -> str:
    return html.escape(str(text))


def _bar(share: float, color: str, width: int = 120) -> str:
    return (
        f'<span style="display:inline-block;width:{width}px;height:7px;border-radius:4px;background:#8883;vertical-align:middle">'
        f'<span style="display:block;width:{max(1, round(width * min(1.0, share)))}px;height:7px;border-radius:4px;background:{color}"></span></span>'
    )


def _tile(value: int, word: str, color: str = "inherit", behind: str = "") -> str:
    return (
        f'<span style="display:inline-block;margin-right:28px"><b style="font-size:20px;color:{color}">{_esc(value)}</b> '
        f'<span style="{_SOFT}">{word}{"" if value == 1 else "s"}{behind}</span></span>'
    )


def _short(place: str) -> str:
    where, _, function = place.partition(" in ")
    return f"{os.path.basename(where)}{' in ' + function if function else ''}"


def counted(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def explanation(found: Any) -> str:
    outside = found.tensor_calls_outside
    parts = [
        "<div>",
        _tile(found.graph_count, "graph"),
        _tile(len(found.breaks), "break", "#d6392b" if outside else "inherit"),
        _tile(found.op_count, "operation"),
        _tile(outside, "tensor call", "#d6392b" if outside else "#17935f", " outside"),
        f'<div style="{_SOFT}">{_esc(found.compile_times)}</div>',
    ]
    most = max((one.tensor_calls_outside for one in found.breaks), default=0) or 1
    for one in sorted(found.breaks, key=lambda one: -one.tensor_calls_outside):
        parts.append(
            f'<div style="margin:8px 0;padding-left:10px;border-left:3px solid #d6392b">{_bar(one.tensor_calls_outside / most, "#d6392b")} '
            f"{counted(one.tensor_calls_outside, 'call')} outside: <b>{_esc(one.reason)}</b>"
            f'<div style="{_CODE}">{"<br>".join(map(_esc, one.lines()))}</div>'
            + (f'<div style="color:#17935f">What to do: {_esc(one.hint)}.</div>' if one.hint else "")
            + "</div>"
        )
    if found.stopped:
        parts.append(f"<div>The dry run ended early: {_esc(found.stopped)}</div>")
    for number, part in enumerate(found.captures, 1):
        parts.append(
            f'<details><summary>part {number}: <span style="{_CODE}">{_esc(_short(part.place))}</span>, {counted(part.ops, "operation")}, '
            f'{counted(len(part.guards), "guard")}</summary><pre style="{_CODE}">{_esc(part.graph)}</pre><pre style="{_CODE};{_SOFT}">'
            f"{_esc(chr(10).join(part.guards))}</pre></details>"
        )
    return "".join([*parts, "</div>"])


def guards(found: Any) -> str:
    parts = ["<div>"]
    for entry in found:
        cost = f", {entry.together / 1e3:.2f} µs together" if entry.together is not None else ""
        parts.append(
            f'<details open><summary><b>{_esc(entry.function)}</b> <span style="{_SOFT}">{_esc(_short(entry.place))}: {counted(entry.ops, "operation")}, '
            f"{counted(len(entry.guards), 'guard')}{cost}</span></summary>"
        )
        times = entry.nanoseconds or [None] * len(entry.guards)
        most = max((time or 0 for time in times), default=0) or 1
        for time, text in sorted(zip(times, entry.guards, strict=True), key=lambda row: -(row[0] or 0)):
            measured = f"{_bar((time or 0) / most, '#2f6fed', 80)} {time:8.1f} ns  " if time is not None else ""
            parts.append(f'<div style="{_CODE};white-space:pre-wrap">{measured}{_esc(text)}</div>')
        parts += [f'<div style="{_CODE};{_SOFT}">symbol {_esc(symbol)}</div>' for symbol in entry.symbols]
        parts.append("</details>")
    if len(parts) == 1:
        parts.append("nothing has been captured yet")
    return "".join([*parts, "</div>"])
