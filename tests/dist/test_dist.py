"""make test-dist: two and four real processes over gloo, 200 iterations of training where tests/python/test_ranks.py
has a few."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tests.python import ranks

TRAINING = "ddp_outside,ddp_inside,ddp_accumulates,ddp_unused,ddp_static,ddp_buckets,ddp_buckets_sizes,fsdp1,fsdp2,fsdp2_kept,fsdp2_mixed"
AGREEING = (
    "sizes,equal,one_row,breaks_elsewhere,breaks_elsewhere_eagerly,other_functions,no_graph,fullgraph,guards_together"
)


@functools.cache
def results(programs: str, world: int) -> list[dict[str, Any]]:
    return ranks.all_well(ranks.run(programs, world, timeout=900, env={"STATOR_TEST_STEPS": "200"}))


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("name", TRAINING.split(","))
def test_training_is_eagers(name: str, world: int) -> None:
    for result in results(TRAINING, world):
        found = result[name]
        assert found["losses"] < 1e-4 and found["weights"] < 1e-4
        assert found["graph_calls"] >= 200 and found["ops_run"] >= 200 * 13
        assert found["internal_errors"] == 0


def test_four_ranks_agree() -> None:
    every = results(AGREEING, 4)
    graphs = [result["sizes"]["graphs"] for result in every]
    assert all(one == graphs[0] and len(one) == 1 and "s0" in one[0] and "s1" in one[0] for one in graphs)
    assert all(
        result["sizes"]["same"] == [True] * 4 and result["one_row"] == {"same": True, "graphs": 1} for result in every
    )
    for name in ("breaks_elsewhere", "no_graph", "fullgraph", "other_functions"):
        assert all(result[name]["error"] == "RanksDiverged" and result[name]["seconds"] < 60 for result in every), name
    assert "ranks 0, 2, 3: captured" in every[2]["breaks_elsewhere"]["text"]
    assert "rank 1: captured" in every[2]["breaks_elsewhere"]["text"]
    assert all([graphs for _, graphs in result["guards_together"]["counts"]] == [1, 1, 2, 2] for result in every)


def test_a_rank_of_four_dies_in_a_capture() -> None:
    *alive, dead = ranks.run("dies_in_capture", 4, timeout=200)
    assert dead.code == 17
    for rank in alive:
        second = rank.result["dies_in_capture"]["second"]
        assert second["error"] == "RankLost" and "rank 3 did not come" in second["text"]
        assert second["seconds"] < 20


def test_rank_0_dies_in_its_backend() -> None:
    dead, alive = ranks.run("dies_in_backend", 2, timeout=120)
    assert dead.code == 17
    found = alive.result["dies_in_backend"]
    assert found["error"] == "RankLost" and "rank 0 did not come" in found["text"] and found["seconds"] < 20


def test_a_rank_that_captures_alone_names_who_did_not_come() -> None:
    hit, waited = ranks.all_well(ranks.run("does_not_come", 2, timeout=120))
    assert hit["does_not_come"]["value"] == [2.0, 2.0]
    found = waited["does_not_come"]
    assert found["error"] == "RankLost" and "rank 0 did not come" in found["text"] and found["seconds"] < 15
