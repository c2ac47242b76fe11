"""The benchmark harness itself: arithmetic of the clock, thresholds, plan and drawing."""

import argparse
import time
import xml.etree.ElementTree

import pytest

pytest.importorskip("rich")

from benchmarks import bench, chart, demo
from benchmarks.clock import ClockedBackend
from benchmarks.frontends import STATOR, TORCHDYNAMO
from benchmarks.results import THRESHOLDS, Results, figure_named, geometric_mean, to_json


def sample(capture, guards=10.0, nodes=1000):
    timing = {"median_us": guards, "min_us": guards}
    return {
        "capture_s": capture,
        "eager_s": 0.1,
        "nodes": nodes,
        "graphs": 1,
        "equal": True,
        "busy": 1.0,
        "recaptures": 0,
        "guards_hot": timing,
        "guards_swept": timing,
    }


def results_with_ratio(ratio):
    results = Results(STATOR)
    for program, nodes in (("add_1000", 1000), ("add_10000", 10000), ("qwen3_36", 3000)):
        results.add(program, TORCHDYNAMO, "capture", sample(nodes * 1e-3, 300.0, nodes))
        results.add(program, STATOR, "capture", sample(nodes * 1e-3 / ratio, 300.0 / ratio, nodes))
    return results


def verdict(results, text, level="engine"):
    threshold = next(t for t in THRESHOLDS if t.text == text and t.level == level)
    return threshold.holds(results)


def test_geometric_mean_is_that_of_the_ratios():
    assert geometric_mean([10, 1000]) == pytest.approx(100)
    assert geometric_mean([]) is None
    assert geometric_mean(results_with_ratio(64).ratios(figure_named("capture"))) == pytest.approx(64)


def test_best_round_is_the_figure():
    results = Results(STATOR)
    for seconds in (3.0, 1.0, 2.0):
        results.add("add_1000", STATOR, "capture", sample(seconds))
    assert results.spread("add_1000", STATOR, figure_named("capture"))["best"] == 1.0
    assert results.spread("add_1000", STATOR, figure_named("capture"))["median"] == 2.0


@pytest.mark.parametrize(("ratio", "holds"), [(60, True), (40, False)])
def test_thresholds_tell_good_from_bad(ratio, holds):
    results = results_with_ratio(ratio)
    assert verdict(results, "capture, geometric mean of ratios") is holds
    assert verdict(results, "capture, geometric mean of ratios", "speed") is False
    assert verdict(results, "cost per node, 10,000 adds over 1,000") is True


def test_what_was_not_measured_does_not_hold():
    assert verdict(results_with_ratio(60), "first call, inductor warm, geometric mean of ratios") is None
    alone = Results(None)
    alone.add("add_1000", TORCHDYNAMO, "capture", sample(1.0))
    assert not any(threshold.holds(alone) for threshold in THRESHOLDS)


def test_partial_and_static_captures_are_noticed():
    results = results_with_ratio(60)
    assert verdict(results, "graph nodes, least share of TorchDynamo's") is True
    results.add("qwen3_36", STATOR, "capture", sample(0.01, 1.0, nodes=300))
    assert verdict(results, "graph nodes, least share of TorchDynamo's") is False
    results.add("qwen3_36", STATOR, "dynamic", {"dynamic_s": 0.01, "symbolic_nodes": 0})
    assert verdict(results, "capture with dynamic sizes over static, most", "speed") is None


def test_plan_alternates_and_fills_caches_before_warm_calls():
    options = argparse.Namespace(rounds=2, programs=["add_1000"], skip_dynamic=True, skip_inductor=False)
    jobs = bench.plan(options, [TORCHDYNAMO, STATOR])
    captures = [(job.round, job.side) for job in jobs if job.measure == "capture"]
    assert captures == [(0, TORCHDYNAMO), (0, STATOR), (1, STATOR), (1, TORCHDYNAMO)]
    measures = [job.measure for job in jobs if job.side == STATOR]
    assert measures.count("fill") == 1
    assert measures.index("fill") < measures.index("warm")


def test_drawing_is_well_formed_with_and_without_stator():
    for results in (results_with_ratio(60), Results(None)):
        xml.etree.ElementTree.fromstring(chart.svg(results, "a < b"))
        assert to_json(results, {})["meta"] == {}


class FakeGraph:
    def __init__(self, seconds):
        self.seconds = seconds

    def forward(self, value):
        time.sleep(self.seconds)
        return (value,)


def test_clock_leaves_out_backend_and_graph():
    def slow_backend(graph_module, example_inputs):
        time.sleep(0.05)
        return graph_module.forward

    backend = ClockedBackend(slow_backend)
    start = time.perf_counter()
    graph = backend(FakeGraph(0.03), [])
    assert graph(1) == (1,)
    wall = time.perf_counter() - start
    assert backend.in_backend >= 0.05
    assert backend.in_graphs >= 0.03
    assert wall - backend.in_backend - backend.in_graphs < 0.02


def test_canned_graph_repeats_its_results_in_order():
    backend = ClockedBackend()
    graph = backend(FakeGraph(0), [])
    graph(1), graph(2)
    backend.can()
    assert [graph(9), graph(9), graph(9)] == [(1,), (2,), (1,)]


def test_demo_shortens_code():
    body = "\n".join(f"    x{i} = x + {i}" for i in range(100))
    code = f"def forward(self, L_x_):\n    l_x_ = L_x_\n{body}\n    return (x99,)"
    shown = demo.shortened(code, head=3, tail=2)
    assert "l_x_ = L_x_" not in shown
    assert "97 lines" in shown
    assert shown.endswith("return (x99,)")
