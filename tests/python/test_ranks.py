"""Several ranks: real processes over gloo (tests/python/rank_programs.py), two of them here; tests/dist has the longer
ones."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stator import _core
from tests.python import children, ranks

AGREEING = "sizes,learned,alone,equal,one_row,breaks_elsewhere,breaks_elsewhere_eagerly,other_functions,no_graph,fullgraph,backend_fails,guards_together,guards_alone,traced,constants,collectives,dtensors"


@functools.cache
def _results() -> list[dict[str, Any]]:
    return ranks.all_well(ranks.run(AGREEING))


def found(name: str) -> list[Any]:
    return [result[name] for result in _results()]


def test_other_sizes_and_ints_give_one_dynamic_graph_each() -> None:
    first, second = found("sizes")
    assert first["same"] == second["same"] == [True] * 4
    assert first["graphs"] == second["graphs"]  # to the letter
    assert len(first["graphs"]) == 1 and "s0" in first["graphs"][0] and "s1" in first["graphs"][0]
    assert "s0" not in found("alone")[0]["graphs"][0]  # it is the agreement that made them dynamic


def test_equal_inputs_stay_static() -> None:
    first, second = found("equal")
    assert first["graphs"] == second["graphs"] and len(first["graphs"]) == 1
    assert "s0" not in first["graphs"][0]


def test_what_one_rank_has_learned_holds_for_all() -> None:
    first, second = found("learned")
    assert first == second and first["same"] == [True, True]
    assert len(first["graphs"]) == 1 and "s0" in first["graphs"][0]


def test_a_batch_of_one_on_one_rank() -> None:
    assert found("one_row") == [{"same": True, "graphs": 1}] * 2


@pytest.mark.parametrize("name", ["breaks_elsewhere", "no_graph", "fullgraph", "other_functions"])
def test_another_program_is_an_error_on_all_ranks(name: str) -> None:
    for result in found(name):
        assert result["error"] == "RanksDiverged"
        assert "rank 0: captured" in result["text"] and "rank 1: captured" in result["text"]
        assert result["seconds"] < 30
    if name == "breaks_elsewhere":
        assert "breaks at rank_programs.py:" in found(name)[0]["text"]


def test_or_runs_eagerly_on_all() -> None:
    for result in found("breaks_elsewhere_eagerly"):
        assert [call.get("value") for call in result["calls"]] == [[4.0, 4.0]] * 12
        assert result["entries"] == 0
        assert result["warned"] == 8  # then it is not tried any more
        assert result["graphs"] == 1  # of a function on which the ranks do agree


def test_a_backend_that_fails_on_one_rank() -> None:
    well, failed = found("backend_fails")
    assert failed["error"] == "BackendCompilerFailed"
    assert (
        well["error"] == "RanksDiverged"
        and "rank 1: the backend failed" in well["text"]
        and "no compiler on this machine" in well["text"]
    )


def test_guards_miss_on_all_or_hit_on_all() -> None:
    alone, together = found("guards_alone"), found("guards_together")
    assert all(same for result in alone + together for same, _ in result["counts"])
    assert [graphs for _, graphs in alone[0]["counts"]] == [1, 1, 1, 1]  # its guards hold
    assert [graphs for _, graphs in alone[1]["counts"]] == [1, 1, 2, 2]
    assert [graphs for _, graphs in together[0]["counts"]] == [1, 1, 2, 2]
    assert [graphs for _, graphs in together[1]["counts"]] == [1, 1, 2, 2]


def test_the_report_shows_the_first_difference() -> None:
    for result in found("traced"):
        assert result["status"] == 1
        assert "first difference: capture 2 (rank_programs.py:" in result["text"] and "in its graph" in result["text"]
        assert (
            "rank 0: line 3: %2 = mul(%1, 2)" in result["text"] and "rank 1: line 3: %2 = sub(%1, 2)" in result["text"]
        )


def test_rank_and_world_size_are_constants() -> None:
    assert [result["value"] for result in found("constants")] == [[2.0, 2.0], [3.0, 3.0]]


IN_PLACE = {"all_reduce": 5, "of_an_input": 4, "all_gather": 12, "into_tensor": 6, "reduce_scatter": 7, "all_to_all": 7}


def test_collectives_of_the_program() -> None:
    for result in found("collectives"):
        assert all(same for same, *_ in result.values()), result
        assert result["plain"][1:3] == [4, 0]  # functional: in the graph, with its wait
        for name, calls in IN_PLACE.items():  # functional ones and a copy, as TorchDynamo has them
            assert result[name][1:3] == [calls, 0] and "copy_" in result[name][3], (name, result[name])
        # A break that resumes: what is asynchronous, and what has no functional form that does the same.
        assert result["asynchronous"][1] == result["broadcast"][1] == 2 and result["broadcast"][2] == 1
    first, second = ({name: found[3] for name, found in result["collectives"].items()} for result in _results())
    assert first == second  # the same names on all ranks


def test_dtensors_are_captured_whole() -> None:
    for result in found("dtensors"):
        assert result["same"] == [True] * 3 and result["module"] == [True] * 2 and result["internal_errors"] == 0
        assert result["reasons"] == []
        assert result["ops_run"] > 0


def test_a_rank_that_dies_in_a_capture_is_named() -> None:
    alive, dead = ranks.run("dies_in_capture", timeout=120)
    assert dead.code == 17
    result = alive.result["dies_in_capture"]
    assert result["first"]["value"] == [2.0, 2.0]
    assert result["second"]["error"] == "RankLost" and "rank 1 did not come" in result["second"]["text"]
    assert result["second"]["seconds"] < 15
    assert result["third"]["error"] == "RankLost"


# ---- training, a few steps; two hundred in tests/dist

TRAINING = "ddp_outside,ddp_inside,ddp_unused,ddp_buckets_sizes,fsdp1,fsdp2"


@functools.cache
def _trained() -> list[dict[str, Any]]:
    return ranks.all_well(ranks.run(TRAINING, env={"STATOR_TEST_STEPS": "6"}))


@pytest.mark.parametrize("name", TRAINING.split(","))
def test_training_is_eagers(name: str) -> None:
    for result in _trained():
        found = result[name]
        assert found["losses"] < 1e-5 and found["weights"] < 1e-5
        assert found["ops_run"] >= 6 * 13, "all of the model's calls run in graphs"
        if name == "fsdp2":
            assert found["graph_calls"] == 6 * 8  # cut at the hooks of each layer, and resumed behind them
        else:
            assert found["breaks"] == 0 and found["graph_calls"] == 6
        if name == "ddp_buckets_sizes":
            assert (
                found["captures"] == 1 and len(found["parts"]) == 2
            )  # one dynamic graph in two parts, for all batch sizes of both ranks


# ---- determinism


def _captures(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        path.parent.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.glob("*/rank0.jsonl"))
    }


def test_texts_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    programs = r"keys_and_fields\.tensors_as|nn_modules\.(apply|tied|hook|state)|closures_cells|stand_ins_as_keys\.dict|containers\.set"
    processes = []
    for seed in ("1", "2"):
        env = children.environment(PYTHONHASHSEED=seed, OMP_NUM_THREADS="1")
        command = [sys.executable, "-m", "tests.python.capture_texts", str(tmp_path / seed), programs]
        processes.append(
            subprocess.Popen(
                command, cwd=children.ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    for child in processes:
        output, _ = child.communicate(timeout=300)
        assert child.returncode == 0, output[-3000:]
    first, second = _captures(tmp_path / "1"), _captures(tmp_path / "2")
    assert len(first) > 20 and sum(map(len, first.values())) > 50
    assert first.keys() == second.keys()
    for name, captures in first.items():
        for one, other in zip(captures, second[name], strict=True):
            for field in ("site", "graph", "guards", "name", "place", "graph_digest", "guards_digest"):
                assert one[field] == other[field], f"{name}: {field}"


# ---- many ranks, simulated


def test_a_thousand_ranks() -> None:
    for case, verdict in (("equal", "agreed"), ("sizes", "agreed"), ("branches", "agreed"), ("stray", "diverged")):
        done = _core.rehearse_ranks(case, 1024, 8)
        assert done["verdict"] == verdict
        # As the design says: log2(n) messages in a row for a reduction, twice that for a merge along a tree, whatever n
        # is in memory.
        assert done["longest_path"] == 10 * done["reductions"] + 20 * done["merges"]
        assert done["messages"] == 10240 * done["reductions"] + 2046 * done["merges"] and done["memory"] < 1e5
        assert (done["merges"] == 0) == (case in ("equal", "sizes"))
    assert "rank 512:" in done["message"] and "ranks 0-511, 513-1023" in done["message"]
