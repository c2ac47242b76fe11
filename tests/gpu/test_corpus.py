"""Programs of the corpus (tests/python/programs) with their arguments on the device: equal to eager there too. Which
part runs is chosen by STATOR_TEST_CORPUS: every n-th program (default 4; 1 is all of them)."""

import json
import os
import subprocess
import sys

import pytest
from checking import DEVICE

from tests.python import children

# An index out of range ends all work on the device, in eager too (test_errors_and_memory.py has it, in a process of its
# own).
ENDS_THE_DEVICE = {
    "graphs_that_raise.an_index_out_of_range",
    "graphs_that_raise.index_out_of_range_inside_of_a_checkpoint",
    "graphs_that_raise.rows_of_an_expanded_tensor_written_before_an_index_out_of_range",
    "odd_tensors_too.error_comes_later",
}
STEP = int(os.environ.get("STATOR_TEST_CORPUS", "4"))


@pytest.mark.parametrize("mode", ["", "1", "7", "random:1"])
def test_as_eager(mode, tmp_path):
    results = tmp_path / "results.json"
    command = [sys.executable, "-W", "ignore", "-m", "tests.python.differential", "--brief", "--json", str(results)]
    command += ["--device", str(DEVICE), "--step", str(STEP if mode in ("", "1") else 4 * STEP)]
    command += ["--jobs", str(min(8, os.cpu_count() or 1)), "--timeout", "120"]
    environment = children.environment()
    environment.pop("STATOR_BREAK_EVERY", None)
    if mode:
        environment["STATOR_BREAK_EVERY"] = mode
    done = subprocess.run(command, cwd=children.ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr[-3000:]
    found = [json.loads(line) for line in results.read_text().splitlines()]
    known = {
        tuple(line.split()[:2])
        for line in (children.ROOT / "tests/python/shortfalls.txt").read_text().splitlines()
        if line.strip() and line[0] != "#"
    }
    wrong = {
        v["name"]: v["differences"][:2]
        for v in found
        if v["differences"]
        and v["name"] not in ENDS_THE_DEVICE
        and "ended with status 77" not in v["differences"][0]
        and (f"differs:{mode or 'plain'}", v["name"]) not in known
    }
    assert len(found) > 20
    assert not wrong, f"{len(wrong)} of {len(found)}: {json.dumps(wrong, indent=1)[:6000]}"
    if not mode:
        assert sum(v["ops"] for v in found) > len(found), "hardly anything was captured"
