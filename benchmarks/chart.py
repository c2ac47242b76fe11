"""Draws results as an SVG: horizontal bars on a logarithmic scale, the ratio beside each pair."""

from __future__ import annotations

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks import frontends
from benchmarks.frontends import TORCHDYNAMO
from benchmarks.programs import LABELS
from benchmarks.report import duration, times
from benchmarks.results import Results, figure_named, geometric_mean

WIDTH = 900
LEFT, RIGHT = 170, 120
BAR, GAP, ROW = 12, 2, 38
PANEL_HEAD, PANEL_FOOT = 46, 34
COLOURS = ("#9aa5b1", "#e4572e")
INK, FAINT = "#1f2933", "#e4e7eb"
PANELS = ("capture", "everything_read", "guards_hot", "guards_swept", "warm")


@dataclass
class _Bar:
    label: str
    values: tuple[float | None, float | None]
    ratio: float | None


class _Canvas:
    def __init__(self):
        self.parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: int = 12,
        anchor: str = "start",
        weight: str = "400",
        colour: str = INK,
    ) -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}" fill="{colour}">{escape(words)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" fill="{colour}"/>'
        )

    def line(self, x: float, top: float, bottom: float) -> None:
        self.parts.append(f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="{FAINT}"/>')


def _bars(results: Results, key: str) -> list[_Bar]:
    figure = figure_named(key)
    found = []
    for program in results.programs():
        values = tuple(results.best(program, side, figure) for side in (TORCHDYNAMO, results.other_side))
        if any(values):
            found.append(_Bar(LABELS.get(program, program), values, results.ratio(program, figure)))
    return found


def _panel(canvas: _Canvas, results: Results, key: str, top: float) -> float:
    """Draws one figure of all programs; returns the y below it."""
    figure, bars = figure_named(key), _bars(results, key)
    if not bars:
        return top
    seen = [value for bar in bars for value in bar.values if value]
    low, high = math.floor(math.log10(min(seen)) - 0.01), math.ceil(math.log10(max(seen)))
    scale = (WIDTH - LEFT - RIGHT) / max(high - low, 1)

    def at(value: float) -> float:
        return LEFT + (math.log10(value) - low) * scale

    mean = geometric_mean(results.ratios(figure))
    heading = figure.title[0].upper() + figure.title[1:]
    canvas.text(24, top + 20, heading, 15, weight="600")
    if mean is not None:
        canvas.text(WIDTH - 24, top + 20, f"geometric mean {times(mean)}", 13, "end", "600", COLOURS[1])
    body = top + PANEL_HEAD - 10
    bottom = body + ROW * len(bars)
    for power in range(low, high + 1):
        canvas.line(at(10.0**power), body - 4, bottom)
        canvas.text(at(10.0**power), bottom + 14, _tick(power, figure.unit), 10, "middle", colour="#7b8794")
    for index, bar in enumerate(bars):
        y = body + ROW * index + 4
        canvas.text(LEFT - 10, y + BAR + 5, bar.label, 12, "end")
        for value, colour in zip(bar.values, COLOURS, strict=True):
            if value:
                canvas.box(LEFT, y, max(at(value) - LEFT, 1), BAR, colour)
                canvas.text(at(value) + 5, y + BAR - 2, duration(value, figure.unit), 10, colour="#52606d")
            y += BAR + GAP
        if bar.ratio is not None:
            canvas.text(WIDTH - 24, y - BAR + 2, times(bar.ratio), 14, "end", "600", COLOURS[1])
    return bottom + PANEL_FOOT


def _tick(power: int, unit: str) -> str:
    power += {"s": 0, "us": -6}[unit]
    for base, name in ((0, "s"), (-3, "ms"), (-6, "us"), (-9, "ns")):
        if power >= base:
            return f"{10 ** (power - base):,} {name}"
    return f"1e{power} s"


def svg(results: Results, caption: str) -> str:
    canvas = _Canvas()
    other = frontends.LABELS.get(results.other_side or "", "Stator (not measured)")
    canvas.text(24, 34, f"{other} beside TorchDynamo", 20, weight="700")
    x = 24
    for label, colour in zip(("TorchDynamo", other), COLOURS, strict=True):
        canvas.box(x, 48, 12, 12, colour)
        canvas.text(x + 18, 58, label, 12)
        x += 40 + 7 * len(label)
    canvas.text(WIDTH - 24, 58, "less is better; logarithmic scale", 11, "end", colour="#7b8794")
    y = 78.0
    for key in PANELS:
        y = _panel(canvas, results, key, y)
    canvas.text(24, y, caption, 10, colour="#7b8794")
    height = y + 18
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" '
        f'font-family="Inter, Helvetica, Arial, sans-serif">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(canvas.parts) + "\n</svg>\n"
    )
