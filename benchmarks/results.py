"""Turns samples into figures: best and median of the rounds, ratios, means, thresholds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.frontends import STATOR, TORCHDYNAMO


@dataclass(frozen=True)
class Figure:
    """One figure of a program: where a sample has it, and how it is shown."""

    key: str
    title: str
    measure: str
    read: Callable[[dict[str, Any]], float | None]
    unit: str


def _field(*path: str) -> Callable[[dict[str, Any]], float | None]:
    def read(sample: dict[str, Any]) -> float | None:
        value: Any = sample
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    return read


FIGURES = (
    Figure("capture", "capture", "capture", _field("capture_s"), "s"),
    Figure("capture_cpu", "capture, CPU time", "capture", _field("capture_cpu_s"), "s"),
    Figure(
        "everything_read",
        "capture, everything read",
        "everything_read",
        _field("everything_read_s"),
        "s",
    ),
    Figure("dynamic", "capture, dynamic sizes", "dynamic", _field("dynamic_s"), "s"),
    Figure("guards_hot", "guards + dispatch, hot", "capture", _field("guards_hot", "median_us"), "us"),
    Figure(
        "guards_swept",
        "guards + dispatch, swept",
        "capture",
        _field("guards_swept", "median_us"),
        "us",
    ),
    Figure("warm", "first call, inductor warm", "warm", _field("first_call_s"), "s"),
)
START_FIGURES = (
    Figure("import", "import", "import_time", _field("import_s"), "s"),
    Figure("first_graph", "first graph of x + 1", "first_graph", _field("first_graph_s"), "s"),
)


def geometric_mean(values: Iterable[float]) -> float | None:
    logs = [math.log(value) for value in values if value and value > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _spread(values: list[float]) -> dict[str, Any] | None:
    # The best of the rounds is the figure: noise only ever adds time, on either side.
    if not values:
        return None
    return {"best": min(values), "median": statistics.median(values), "all": values}


class Results:
    """All samples of a run, by (program, side, measure)."""

    def __init__(self, other_side: str | None):
        self.other_side = other_side
        self.samples: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        self.failures: list[dict[str, str]] = []

    def add(self, program: str, side: str, measure: str, sample: dict[str, Any]) -> None:
        self.samples.setdefault((program, side, measure), []).append(sample)

    def fail(self, program: str, side: str, measure: str, why: str) -> None:
        self.failures.append({"program": program, "side": side, "measure": measure, "why": why})

    def of(self, program: str, side: str, measure: str) -> list[dict[str, Any]]:
        return self.samples.get((program, side, measure), [])

    def programs(self) -> list[str]:
        return list(dict.fromkeys(program for program, _, _ in self.samples if program))

    def spread(self, program: str, side: str | None, figure: Figure) -> dict[str, Any] | None:
        if side is None:
            return None
        read = (figure.read(sample) for sample in self.of(program, side, figure.measure))
        return _spread([value for value in read if value is not None])

    def best(self, program: str, side: str | None, figure: Figure) -> float | None:
        spread = self.spread(program, side, figure)
        return spread["best"] if spread else None

    def ratio(self, program: str, figure: Figure) -> float | None:
        """How many times less the other side costs than TorchDynamo."""
        ours, theirs = (
            self.best(program, self.other_side, figure),
            self.best(program, TORCHDYNAMO, figure),
        )
        return theirs / ours if ours and theirs else None

    def ratios(self, figure: Figure) -> list[float]:
        found = (self.ratio(program, figure) for program in self.programs())
        return [ratio for ratio in found if ratio is not None]

    def fact(self, program: str, side: str | None, measure: str, name: str) -> Any:
        samples = self.of(program, side, measure) if side else []
        return samples[-1].get(name) if samples else None

    def cost_growth(self, side: str | None) -> float | None:
        """Cost per node of 10,000 adds over that of 1,000."""
        figure = figure_named("capture")
        costs = []
        for program in ("add_10000", "add_1000"):
            best = self.best(program, side, figure)
            nodes = self.fact(program, side, "capture", "nodes")
            if not best or not nodes:
                return None
            costs.append(best / nodes)
        return costs[0] / costs[1]


def figure_named(key: str) -> Figure:
    return next(figure for figure in FIGURES + START_FIGURES if figure.key == key)


@dataclass(frozen=True)
class Threshold:
    level: str
    text: str
    value: Callable[[Results], float | None]
    limit: float
    at_least: bool

    def holds(self, results: Results) -> bool | None:
        """None where nothing was measured."""
        value = self.value(results)
        if value is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit


def _geomean(key: str) -> Callable[[Results], float | None]:
    return lambda results: geometric_mean(results.ratios(figure_named(key)))


def _least(key: str) -> Callable[[Results], float | None]:
    return lambda results: min(results.ratios(figure_named(key)), default=None)


def _of_other(program: str, key: str) -> Callable[[Results], float | None]:
    return lambda results: results.best(program, results.other_side, figure_named(key))


def _capture_over_eager(results: Results) -> float | None:
    samples = results.of("qwen3_36", results.other_side, "capture") if results.other_side else []
    capture = results.best("qwen3_36", results.other_side, figure_named("capture"))
    return capture / min(s["eager_s"] for s in samples) if samples and capture else None


def _imports_dynamo(results: Results) -> float | None:
    samples = results.of("", results.other_side, "first_graph") if results.other_side else []
    return float(any(s["imports_dynamo"] for s in samples)) if samples else None


def _most_graphs(results: Results) -> float | None:
    counts = [results.fact(program, results.other_side, "capture", "graphs") for program in results.programs()]
    return max((count for count in counts if count is not None), default=None)


def _least_share_of_nodes(results: Results) -> float | None:
    """A graph that holds only a part of the program is captured quickly, and proves nothing."""
    shares = []
    for program in results.programs():
        ours, theirs = (results.fact(program, side, "capture", "nodes") for side in (results.other_side, TORCHDYNAMO))
        if ours and theirs:
            shares.append(ours / theirs)
    return min(shares, default=None)


def _dynamic_over_static(results: Results) -> float | None:
    ratios = []
    for program in results.programs():
        # Without a symbol in the graph it was a static capture under another name.
        if results.fact(program, results.other_side, "dynamic", "symbolic_nodes") == 0:
            return None
        static = results.best(program, results.other_side, figure_named("capture"))
        symbolic = results.best(program, results.other_side, figure_named("dynamic"))
        if static and symbolic:
            ratios.append(symbolic / static)
    return max(ratios, default=None)


def _wrong_outputs(results: Results) -> float | None:
    if results.other_side is None:
        return None
    checked = [
        s["equal"]
        for key, found in results.samples.items()
        if key[1] == results.other_side
        for s in found
        if "equal" in s
    ]
    return float(sum(not equal for equal in checked)) if checked else None


# "engine" has to hold before anything is built on the engine, "speed" is where the project goes.
THRESHOLDS = (
    Threshold("engine", "results that differ from eager's", _wrong_outputs, 0, False),
    Threshold("engine", "graphs of a program, most", _most_graphs, 1, False),
    # Calls that hand back their argument (dropout in eval mode, contiguous() of a contiguous tensor) are no nodes of
    # Stator's.
    Threshold("engine", "graph nodes, least share of TorchDynamo's", _least_share_of_nodes, 0.85, True),
    Threshold("engine", "capture, geometric mean of ratios", _geomean("capture"), 50, True),
    Threshold("engine", "capture, least ratio", _least("capture"), 25, True),
    Threshold("engine", "Qwen3-36: capture over its eager forward", _capture_over_eager, 1, False),
    Threshold(
        "engine",
        "guards + dispatch hot, geometric mean of ratios",
        _geomean("guards_hot"),
        10,
        True,
    ),
    Threshold(
        "engine",
        "guards + dispatch swept, geometric mean of ratios",
        _geomean("guards_swept"),
        10,
        True,
    ),
    Threshold("engine", "first call, inductor warm, geometric mean of ratios", _geomean("warm"), 8, True),
    Threshold(
        "engine",
        "cost per node, 10,000 adds over 1,000",
        lambda results: results.cost_growth(results.other_side),
        1.5,
        False,
    ),
    Threshold("engine", "seconds to the first graph of x + 1", _of_other("", "first_graph"), 0.15, False),
    Threshold("engine", "torch._dynamo imported for it (0: no)", _imports_dynamo, 0, False),
    Threshold("speed", "capture, geometric mean of ratios", _geomean("capture"), 100, True),
    Threshold("speed", "guards + dispatch hot, geometric mean of ratios", _geomean("guards_hot"), 30, True),
    Threshold(
        "speed",
        "Qwen3-36: guards + dispatch hot, us",
        _of_other("qwen3_36", "guards_hot"),
        10,
        False,
    ),
    Threshold("speed", "first call, inductor warm, geometric mean of ratios", _geomean("warm"), 12, True),
    Threshold("speed", "capture with dynamic sizes over static, most", _dynamic_over_static, 1.5, False),
)


def to_json(results: Results, meta: dict[str, Any]) -> dict[str, Any]:
    other = results.other_side or STATOR  # a self-test is filed under its own name

    def figures_of(program: str, figures: tuple[Figure, ...]) -> dict[str, Any]:
        return {
            figure.key: {
                "unit": figure.unit,
                "torchdynamo": results.spread(program, TORCHDYNAMO, figure),
                other: results.spread(program, results.other_side, figure),
                "ratio": results.ratio(program, figure),
            }
            for figure in figures
        }

    return {
        "meta": meta,
        "start": figures_of("", START_FIGURES),
        "programs": {program: figures_of(program, FIGURES) for program in results.programs()},
        "geometric_means": {figure.key: geometric_mean(results.ratios(figure)) for figure in FIGURES},
        "cost_per_node_10000_over_1000": {
            "torchdynamo": results.cost_growth(TORCHDYNAMO),
            other: results.cost_growth(results.other_side),
        },
        "thresholds": [
            {
                "level": t.level,
                "text": t.text,
                "limit": t.limit,
                "at_least": t.at_least,
                "value": t.value(results),
                "holds": t.holds(results),
            }
            for t in THRESHOLDS
        ],
        "failures": results.failures,
        "samples": [
            {"program": program, "side": side, "measure": measure, "rounds": found}
            for (program, side, measure), found in results.samples.items()
        ],
    }
