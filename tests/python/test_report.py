"""Reports: what is recorded is what happened, the data fit their schema, and the page has all of it and needs nothing
else."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import threading

import pytest
import torch

import stator
from schema import misfits
from stator import recording
from stator.recording import page

pytestmark = pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are what it would report")

with open(os.path.join(os.path.dirname(recording.__file__), "schema.json"), encoding="utf-8") as _file:
    SCHEMA = json.load(_file)


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    yield
    assert recording._recorder is None and stator._logs.recorder is None
    stator.reset()


def inner(y):
    print(end="")  # the break
    return y.relu()


def outer(x, k):
    y = inner(x + 1)
    if y.sum() > 1000:  # the branch
        y = y + 1
    return y * k


def line_of(words):
    with open(__file__) as source:
        (number,) = [n for n, text in enumerate(source, 1) if text.rstrip().endswith("  # " + words)]
    return number


def recorded(program, *calls, **how):
    compiled = stator.compile(program, backend="eager", **how)
    with stator.report() as report:
        for arguments in calls:
            expected = program(*arguments)
            assert torch.equal(compiled(*arguments), expected)
        data = report.data()
    assert not (wrong := misfits(data, SCHEMA, SCHEMA)), wrong
    (process,) = data["processes"]
    return process


def test_what_is_recorded_is_what_happened():
    process = recorded(outer, (torch.randn(3, 4), 2), (torch.randn(5, 4), 2))
    captures, functions = process["captures"], process["functions"]
    names = [functions[one["function"]]["name"] for one in captures]
    # x + 1 up to print, relu behind it, sum up to the branch, the product behind it; each twice
    assert names == ["outer", "inner", "outer", "outer"] * 2
    assert [one["operations"] for one in captures if one["operations"]] == [1, 1, 2, 1] * 2
    assert [one["recompile"] is not None for one in captures] == [False] * 4 + [True] * 4
    assert process["counters"]["captures"] >= len(captures)
    starts = [one["start"] for one in captures]
    assert starts == sorted(starts) and starts[-1] < process["seconds"]
    assert process["calls"]["graphs"] == 2 * 5
    # bool() of a tensor, once for each call; what the test itself computes is not the compiled function's
    assert process["calls"]["breaks"] == 2 and process["calls"]["native"] == 0 and process["calls"]["beside"] > 8
    by_name = {one["name"]: one for one in process["breaks"]}
    assert set(by_name) == {"CallsOutside", "DataDependentBranch"}
    call, branch = by_name["CallsOutside"], by_name["DataDependentBranch"]
    assert [(frame["function"], frame["line"]) for frame in call["source"]] == [
        ("outer", outer.__code__.co_firstlineno + 1),
        ("inner", line_of("the break")),
    ]
    assert call["times"] == 2 and call["calls_outside"] == 0 and branch["calls_outside"] == 2
    assert branch["source"][-1]["lines"][2].strip().startswith("if y.sum() > 1000:")
    assert process["breaks"][captures[0]["break"]] is call and captures[-1]["break"] is None
    change = process["recompiles"][0]["changes"][0]
    assert (
        change["text"] == "L['x'].size(0): was 3, is 5"
        and change["now_dynamic"]
        and "y = inner(x + 1)" in change["used_at"]
    )


def test_lines_of_the_source_are_those_of_the_graph():
    def block(x, n):
        for _ in range(n):
            x = torch.relu(x)
        return x

    def program(x):
        y = block(x, 3)
        return y + 1

    process = recorded(program, (torch.randn(3),))
    (capture,) = process["captures"]
    first = program.__code__.co_firstlineno
    lines = {(function.rpartition(".")[2], line): calls for _, line, function, calls in capture["lines"]}
    assert lines[("program", first + 1)] == 3 and lines[("program", first + 2)] == 1
    assert lines[("block", block.__code__.co_firstlineno + 2)] == 3
    # each node has the outermost line that made it
    graph = process["texts"][capture["graph"]].splitlines()
    at = [capture["lines"][position][1] if position >= 0 else None for position in capture["nodes"]]
    assert len(at) == sum(line.startswith("%") for line in graph)
    assert at[1:] == [first + 1] * 3 + [first + 2]
    assert process["functions"][0]["source"][0].strip() == "def program(x):"


def test_guards_are_measured():
    process = recorded(outer, (torch.randn(3, 4), 2))
    for capture in process["captures"]:
        assert capture["guards"] and capture["guards_nanoseconds"] > 0
        texts = [process["texts"][text] for text, _ in capture["guards"]]
        assert len(set(texts)) == len(texts)
        assert all(cost is None or cost >= 0 for _, cost in capture["guards"])
    assert any("L['x']: Tensor" in process["texts"][text] for text, _ in process["captures"][0]["guards"])


def test_the_limit_is_recorded():
    def program(x, mode):
        return x + len(mode)

    x = torch.randn(3)
    with pytest.warns(UserWarning, match="captured 2 times"):
        process = recorded(program, *((x, "m" * n) for n in range(4)), recompile_limit=2)
    (limit,) = process["limits"]
    assert limit["limit"] == 2 and "mode" in limit["changes"][0]["text"] and "pass fewer of them" in limit["advice"]


def two_of_a_line(x, y, module):
    z = [k for k in (1, 2)]
    w = x + y  # both
    return w * len(z) + module.scale  # the attribute


@pytest.mark.parametrize(
    ("place", "words"), [("L['x']", "both"), ("L['y']", "both"), ("L['module'].scale", "the attribute")]
)
def test_a_recompile_names_the_line_that_reads(place, words):
    """An instruction may load two variables, and say in its own way where a line begins."""
    used = stator._report._used_at(two_of_a_line.__code__, f"{place}.size(0): was 3, is 5")
    assert used.startswith(f"test_report.py:{line_of(words)}: ")


def test_other_threads_are_recorded_and_explain_works_meanwhile():
    compiled = stator.compile(lambda x: x * 3, backend="eager")
    with stator.report() as report:
        thread = threading.Thread(target=compiled, args=(torch.ones(2),), name="worker")
        thread.start()
        thread.join()
        found = stator.explain(outer)(torch.randn(3, 4), 2)
        with stator.report.__globals__["_lock"]:
            pass
        with pytest.raises(RuntimeError, match="under way already"):
            stator.report()
        data = report.data()
    assert len(found.breaks) == 2 and found.tensor_calls_outside == 1
    captures = data["processes"][0]["captures"]
    assert captures[0]["thread"] == "worker" and {one["thread"] for one in captures[1:]} == {"MainThread"}
    # it goes on counting behind explain
    assert data["processes"][0]["calls"]["breaks"] == 1


def test_nothing_is_recorded_behind_the_end(tmp_path):
    compiled = stator.compile(lambda x: x - 1, backend="eager")
    with stator.report(tmp_path / "one.json") as report:
        pass
    compiled(torch.ones(2))
    assert json.loads((tmp_path / "one.json").read_text())["processes"][0]["captures"] == []
    assert report.data()["processes"][0]["captures"] == []
    report.stop()
    with pytest.raises(ValueError, match="where to write"), stator.report() as report:
        report.write()


def test_the_page_has_everything_and_asks_for_nothing(tmp_path):
    compiled = stator.compile(outer, backend="eager", name="</script><b>")
    path = tmp_path / "folder" / "page.html"
    with stator.report(path) as report:
        compiled(torch.randn(3, 4), 2)
    text = path.read_text()
    assert text.startswith("<!doctype html>") and "{{" not in text
    for outside in re.findall(r"(?:https?:)?//[\w.-]+\.\w+|src=|@import|<link", text.partition('<script id="data"')[0]):
        raise AssertionError(f"the page asks for {outside}")
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text).group(1))
    assert data == json.loads(json.dumps(report.data()))
    frame = report._repr_html_()
    assert frame.startswith("<iframe") and html.unescape(frame).count("<!doctype html>") == 1
    long = {**data["processes"][0], "texts": ["x" * 10**6]}
    assert len(page.html({**data, "processes": [long]})) < 300_000


def test_ranks_are_merged():
    with stator.report() as report:
        data = report.data()
    other = json.loads(json.dumps(data))
    other["processes"][0]["rank"] = 1
    merged = recording.merge([other, data])
    assert [process["rank"] for process in merged["processes"]] == [0, 1]
    assert not misfits(merged, SCHEMA, SCHEMA)
    with pytest.raises(ValueError, match="no stator-report/1"):
        recording.merge([{"schema": "another"}])


def test_by_the_environment_and_by_rank(tmp_path):
    program = "import torch, stator\nstator.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\n"
    program += "import os\nif os.fork() == 0:\n    import sys\n    sys.exit()\nos.wait()\n"
    environment = {**os.environ, "STATOR_REPORT": str(tmp_path / "run.json"), "RANK": "3", "WORLD_SIZE": "4"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert os.listdir(tmp_path) == ["run.rank3.json"]
    data = json.loads((tmp_path / "run.rank3.json").read_text())
    assert not misfits(data, SCHEMA, SCHEMA)
    assert [one["operations"] for one in data["processes"][0]["captures"]] == [1]


def test_a_misfit_is_found():
    with stator.report() as report:
        data = report.data()
    data["processes"][0]["seconds"] = "long"
    data["processes"][0]["unknown"] = 1
    del data["processes"][0]["pid"]
    assert len(misfits(data, SCHEMA, SCHEMA)) == 3


def test_notebooks_show_explain_and_guards():
    found = stator.explain(outer)(torch.randn(3, 4), 2)
    text = found._repr_html_()
    assert "print(end=&quot;&quot;)" in text and "What to do" in text and "<script" not in text
    lines = found.breaks[0].lines()
    assert lines[0].endswith(f"in outer: {'y = inner(x + 1)'}") and "in inner: print" in lines[1]
    compiled = stator.compile(outer, backend="eager")
    assert "nothing has been captured yet" in stator.guards(compiled)._repr_html_()
    assert " ns " in stator.guards(compiled)(torch.randn(3, 4), 2)._repr_html_()


def test_a_place_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    wrong = str(tmp_path / "file" / "page.html")
    with pytest.raises(OSError):
        stator.report(wrong)
    with stator.report():
        pass  # none is under way
    program = "import torch, stator\nprint(stator.compile(lambda x: x + 1, backend='eager')(torch.ones(1)).item())"
    environment = {**os.environ, "STATOR_REPORT": wrong}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "2.0\n", done.stderr
    assert "config.report: nothing can be written there" in done.stderr and "Traceback" not in done.stderr


def test_the_place_is_that_of_the_start(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with stator.report("page.html"):
        monkeypatch.chdir(tmp_path / "other")
    assert (tmp_path / "page.html").exists()
