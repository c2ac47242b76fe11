"""The command line: what each command prints, its exit status, and that the program runs as `python SCRIPT` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import symbolic_shapes

import stator
from stator import commands
from stator.commands import doctor

pytestmark = pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks are what it would report")

PROGRAM = """
import sys
import torch

def inner(y):
    print("said")
    return y.relu()

def outer(x, k):
    y = inner(x + 1)
    if y.sum() > 1000:
        y = y + 1
    return y * k

compiled = torch.compile(outer, backend="eager")
total = sum(float(compiled(torch.ones(rows, 4), 2).sum()) for rows in (3, 5))
print(__name__, sys.argv[1:], total)
"""


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    before = torch.compile
    yield
    assert torch.compile is before and not stator.installed()
    stator.reset()


@pytest.fixture
def script(tmp_path):
    def write(text, name="program.py"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def test_explain_runs_the_program_as_it_is_and_ranks_its_breaks(script, capsys):
    path = script(PROGRAM)
    argv, found = list(sys.argv), list(sys.path)
    assert commands.main(["explain", path, "--some", "argument"]) == 0
    assert sys.argv == argv and sys.path == found
    text = capsys.readouterr().out
    # eager's own output
    expected = sum(float((torch.ones(rows, 4) + 1).relu().mul(2).sum()) for rows in (3, 5))
    assert f"__main__ ['--some', 'argument'] {expected}" in text
    assert text.count("said") == 2 + 1  # the program's, and its line among the breaks
    assert "4 graphs" not in text and "2 breaks, " in text
    branch, call = text.index("a branch depends on the data of a tensor"), text.index("(print)")
    assert branch < call, "breaks with tensor calls left outside come first"
    # the whole chain of calls, with their lines
    assert "in outer: y = inner(x + 1)" in text and 'in inner: print("said")' in text
    assert "L['x'].size(0): was 3, is 5 -> now dynamic" in text


def test_explain_as_data(script, capsys):
    assert commands.main(["explain", "--quiet", "--json", script(PROGRAM)]) == 0
    data = json.loads(capsys.readouterr().out)
    (process,) = data["processes"]
    assert {found["name"] for found in process["breaks"]} == {"CallsOutside", "DataDependentBranch"}


def test_a_dry_run_computes_nothing(script, capsys):
    path = script(
        "import torch\n"
        "def f(x):\n    y = x @ x.T\n    print('seen', y.device)\n    return y.relu()\n"
        "out = torch.compile(f, backend='inductor')(torch.randn(1 << 20, 2))\n"  # 4 TiB, if it were computed
        "assert out.shape == (1 << 20, 1 << 20)\n"
        "print(out.sum().item())\nprint('not reached')\n"
    )
    assert commands.main(["explain", "--dry", path]) == 0
    text = capsys.readouterr().out
    assert "seen meta" in text and "not reached" not in text
    assert "2 graphs, 1 break, 0 recompiles" in text
    assert f"{path}:8 in <module>: print(out.sum().item()) needs the data of a tensor" in text
    assert torch.get_default_device() == torch.device("cpu")


def test_a_dry_run_of_a_function():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x, read=False):
            y = self.norm(self.layer(x)) + torch.ones(4)
            return y.sum().item() if read else y

    model = Model()
    before = model.norm.running_mean.clone()
    found = stator.dry_run(model)(torch.randn(3, 4))
    assert found.graph_count == 1 and not found.breaks and not found.stopped
    assert found.result.device.type == "meta" and found.result.shape == (3, 4)
    found = stator.dry_run(model.forward)(torch.randn(3, 4), read=True)
    assert found.graph_count == 1 and "meta" in found.stopped and "dry run ended early" in str(found)
    assert [one.name for one in found.breaks] == ["kDataDependentRead"]
    assert torch.equal(model.norm.running_mean, before) and model.layer.weight.device.type == "cpu"
    with pytest.raises(ZeroDivisionError):
        stator.dry_run(lambda x: x + 1 // 0)(torch.randn(2))
    # fake ones, made by a mode that is there or was, with sizes that are open or not
    sizes = symbolic_shapes.ShapeEnv()
    with FakeTensorMode(shape_env=sizes) as mode:
        fake = Model()
        given = torch.randn(3, 4), mode.from_tensor(torch.empty(3, 4, device="meta"), static_shapes=False)
        inside = stator.dry_run(fake)(given[0])
    for found in (inside, *(stator.dry_run(fake)(x) for x in given), stator.dry_run(model)(given[0].to("meta"))):
        assert found.graph_count == 1 and not found.breaks and not found.stopped
        assert type(found.result) is torch.Tensor and found.result.shape == (3, 4)


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (["--max-breaks", "2", "--max-recompiles", "9"], 0),
        (["--max-breaks", "1"], 1),
        (["--max-recompiles", "0"], 1),
        (["--max-graphs", "1"], 1),
        (["--max-guard-us", "0"], 1),
        (["--max-guard-us", "1000"], 0),
    ],
)
def test_check(script, capsys, limits, status):
    path = script(PROGRAM)
    assert commands.main(["check", "--quiet", *limits, path]) == status
    assert ("FAIL" in capsys.readouterr().out) == bool(status)
    assert commands.main(["check", "--quiet", "--json", *limits, path]) == status
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["holds"] is (status == 0) and verdict["figures"]["breaks"] == 2
    assert set(verdict["over"]) <= set(verdict["limits"]) and bool(verdict["over"]) == bool(status)


def test_options_behind_the_program(script, capsys):
    path = script(PROGRAM + "\nimport sys\nprint(sys.argv[1:])\n")
    assert commands.main(["check", path, "--mine", "--max-breaks", "0"]) == 1
    said = capsys.readouterr()
    assert "['--mine']" in said.out and "FAIL" in said.out and not said.err
    with pytest.raises(SystemExit):
        commands.main(["check", path, "--max-breaks", "none"])
    assert "--max-breaks: invalid int value: 'none'" in capsys.readouterr().err
    # Others are the program's, and it is said.
    assert commands.main(["explain", path, "--json"]) == 0
    said = capsys.readouterr()
    assert "['--json']" in said.out and f"stator: --json behind {path} goes to the program" in said.err


def test_check_fails_where_nothing_is_captured_or_the_program_fails(script, capsys):
    assert commands.main(["check", "--max-breaks", "0", script("print('plain')")]) == 1
    assert "nothing was captured" in capsys.readouterr().out
    path = script("import sys, torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\nsys.exit(7)")
    assert commands.main(["check", "--max-breaks", "0", path]) == 1
    assert "ended with status 7" in capsys.readouterr().out
    path = script("def broken():\n    raise KeyError('mine')\nbroken()")
    assert commands.main(["explain", path]) == 1
    error = capsys.readouterr().err
    assert "KeyError: 'mine'" in error and "runpy" not in error and "_script" not in error


def test_what_cannot_run_is_said_in_a_sentence(script, capsys):
    assert commands.main(["check", script(PROGRAM)]) == 2
    assert "check needs a limit: --max-graphs" in capsys.readouterr().err
    assert commands.main(["explain", "absent.py"]) == 2
    assert capsys.readouterr().err == "stator: there is no file absent.py\n"
    assert commands.main(["ranks", "absent"]) == 2
    assert commands.main(["report", "absent.json"]) == 2
    with pytest.raises(SystemExit) as error:
        commands.main(["explan"])
    assert error.value.code == 2


def test_report(script, capsys, tmp_path):
    page, data = tmp_path / "page.html", tmp_path / "data.json"
    assert commands.main(["report", "--quiet", "-o", str(data), script(PROGRAM)]) == 0
    assert json.loads(data.read_text())["schema"] == "stator-report/1"
    assert commands.main(["report", "-o", str(page), str(data), str(data)]) == 0
    assert page.read_text().startswith("<!doctype html>")


def test_doctor(capsys):
    status = commands.main(["doctor", "--backend", "eager"])
    text = capsys.readouterr().out
    assert status == 0, text
    for topic in ("versions", "C++ compiler", "Stator's cache", "inductor's cache", "TorchDynamo", "capture, eager"):
        assert topic in text
    with stator.config.patch(disable=True):
        found = list(doctor._captures("eager"))
        slow = [one for one in doctor._settings() if one.verdict == doctor.NOTE]
    assert [one.verdict for one in found] == [doctor.WRONG]
    assert any("nothing is captured at all" in one.text for one in slow)


def test_the_module_is_the_command():
    run = subprocess.run([sys.executable, "-m", "stator", "--help"], capture_output=True, text=True, check=True)
    for name in (*commands.COMMANDS, "run", "minify", "analyze"):
        assert f"\n    {name} " in run.stdout


def test_a_module_a_folder_and_windows_line_ends(script, tmp_path, monkeypatch, capsys):
    package = tmp_path / "of_programs"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "part.py").write_text(
        PROGRAM.replace("import sys\n", "import sys\nfrom of_programs import __name__ as p\n")
    )
    (package / "__main__.py").write_text(PROGRAM.replace("\n", "\r\n"))
    monkeypatch.chdir(tmp_path)
    for given in (["-m", "of_programs.part"], ["-m", "of_programs"], ["of_programs"], ["of_programs/__main__.py"]):
        stator.reset()
        assert commands.main(["explain", *given, "--own"]) == 0
        text = capsys.readouterr().out
        assert "__main__ ['--own']" in text and "2 breaks, " in text and 'in inner: print("said")' in text, given
    for name in [name for name in sys.modules if name.startswith("of_programs")]:
        del sys.modules[name]


def test_what_cannot_run_is_said_before(script, capsys):
    assert commands.main(["explain", "--backend", "egaer", script(PROGRAM)]) == 2
    error = capsys.readouterr()
    assert "Did you mean 'eager'?" in error.err and "said" not in error.out
    with pytest.raises(SystemExit) as ended:
        commands.main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out.startswith(f"stator {stator.__version__} for CPython 3.")


def test_a_page_of_data_is_named_before_or_behind(script, tmp_path, capsys):
    data, page = str(tmp_path / "run.json"), str(tmp_path / "page.html")
    assert commands.main(["report", "--quiet", "-o", data, script(PROGRAM)]) == 0
    for given in (["-o", page, data], [data, "-o", page]):
        assert commands.main(["report", *given]) == 0
        assert os.path.exists(page)
        os.remove(page)


def test_a_dry_run_says_where_it_ends(script, tmp_path, monkeypatch, capsys):
    script(PROGRAM)
    monkeypatch.chdir(tmp_path)
    assert commands.main(["explain", "--dry", "program.py"]) == 0
    assert "program.py:11 in outer: if y.sum() > 1000: needs the data of a tensor" in capsys.readouterr().out
