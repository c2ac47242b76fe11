"""Runs the text cases of tests/capture, eagerly and compiled, and tests the runner itself."""

import gc
import itertools
import pathlib
import sys

import pytest

import capture_cases
import capture_coverage
import capture_text
import stator

CASES = [case for path in sorted(capture_cases.FOLDER.rglob("*.txt")) for case in capture_cases.read(path)]
TEXTS = [case for case in CASES if not case.corpus]  # test_programs.py compares the corpus with eager
EXPECTING = [case for case in CASES if case.expected]
SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"


def name_of(case):
    return f"{case.path.relative_to(capture_cases.FOLDER).with_suffix('')}: {case.name}"


@pytest.mark.parametrize("case", TEXTS, ids=name_of)
def test_results(case):
    if case.raises and not capture_cases.can_compare_captures():
        pytest.skip("nothing is captured, so nothing is refused")
    with capture_cases.configured(case):
        eager, _ = capture_cases.run(case, compiled=False)
        compiled, _ = capture_cases.run(case, compiled=True)
    capture_cases.check_results(case, eager, compiled)


@pytest.mark.parametrize("case", EXPECTING, ids=name_of)
def test_capture(case, request):
    if not capture_cases.can_compare_captures():
        pytest.skip("forced breaks change what is captured")
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the texts are those of CPython 3.11: instructions, and where its statements can be left")
    captured = capture_cases.captured(case)
    if request.config.getoption("--update"):
        case.path.write_text(capture_cases.rewritten(case.path, {case.name: captured}))
        return
    assert [line.rstrip() for line in captured.strip().splitlines()] == case.expected


@pytest.fixture(scope="module")
def few_objects():
    """What lives by now is neither collected nor counted: a count is about what a case made."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


# What others keep of each run: typing its aliases (eagerly too), pytest log records, torch.fx the source of modules
# that ran, FakeTensor its dispatch cache, torch.cond what it compiles where a break is forced before it.
GROWING = {"class_getitem_user", "a gradient", "a checkpoint", "a function with its own gradient"}
GROWING |= {
    "logging_calls",
    "a function that is mapped",
    "branches of torch.cond",
    "an output whose size depends on data",
}
# Of the corpus every third, for the time that it takes: each is run fifteen times.
COUNTED = [case for case in TEXTS + [case for case in CASES if case.corpus][::3] if case.name not in GROWING]


@pytest.mark.parametrize("case", COUNTED, ids=name_of)
def test_no_object_is_left_behind(case, few_objects):
    if case.corpus and not capture_cases.can_compare_captures():
        pytest.skip("the corpus has its own test for forced breaks")
    for _ in range(3):
        capture_cases.captured(case)
    counts = []
    for _ in range(4):
        for _ in range(3):
            capture_cases.captured(case)
        if "torch._dynamo.utils" in sys.modules:  # which keeps the figures of the last compilations
            sys.modules["torch._dynamo.utils"].clear_compilation_metrics()
        gc.collect()
        counts.append(len(gc.get_objects()))
    assert min(after - before for before, after in itertools.pairwise(counts)) <= 2, counts


def test_names_are_unique():
    for path in {case.path for case in CASES}:
        names = [case.name for case in CASES if case.path == path]
        assert len(names) == len(set(names))


# ---- what the cases show, all together
def test_every_reason_is_shown():
    assert capture_coverage.reasons_without_case() == []
    assert set(stator._core.break_reasons()) <= {
        line.split()[0] for line in capture_coverage.shown("leaves") if line.startswith("k")
    }


def test_every_guard_kind_is_shown():
    rows = (capture_coverage.ROOT / "src/guards/kinds.def").read_text().count("\nSTATOR_GUARD_KIND(")
    assert len(capture_coverage.GUARD_KINDS) == rows > 0
    assert capture_coverage.guard_kinds_without_case() == []


def test_every_room_is_shown():
    """Each sub-room of interpret/ has its folder; the net as a whole has its size."""
    rooms = [path for path in capture_cases.FOLDER.iterdir() if path.is_dir()]
    assert {path.name for path in rooms} == {"core", "objects", "calls", "tensors", "library", "frames"}
    for section in ("graph", "guards", "makes", "changes", "leaves", "returns"):
        assert any(capture_coverage.shown(section)), section
    assert len(EXPECTING) >= 400


def test_expectations_are_the_same_everywhere():
    assert [line for case in CASES for line in case.expected if capture_text.ELSEWHERE.search(line)] == []


# ---- the runner itself
HERE = pathlib.Path("case.txt")
SAMPLE = """# a comment
case: one
python:
  def helper(x):
      return x + 1

  def f(x, n):
      print(n)
      return helper(x) * n
inputs: x = f32[2, 3]; n = 2
inputs: x = i64[4]; n = 3
compile: fullgraph=True
graph:
  %x = input L['x'] : f32[2, 3]
guards: L['x'] is Tensor

case: two
python:
  def g():
      return 1
"""


def test_reading():
    one, two = capture_cases.read(HERE, SAMPLE)
    assert (one.name, two.name) == ("one", "two")
    assert capture_cases.entry_name(one) == "f"
    assert one.calls == ["x = f32[2, 3]; n = 2", "x = i64[4]; n = 3"]
    assert one.arguments == "fullgraph=True"
    assert one.expected == ["graph:", "  %x = input L['x'] : f32[2, 3]", "guards: L['x'] is Tensor"]
    assert two.expected == [] and "return 1" in two.program
    outcomes, _ = capture_cases.run(one, compiled=False)
    assert [o.printed for o in outcomes] == ["2\n", "3\n"]
    assert outcomes[0].value.shape == (2, 3)


@pytest.mark.parametrize(
    "text, message",
    [
        ("case: a\npython:\n  def f(): pass\ninput: x = 1\n", "no section is called 'input'"),
        ("case: a\npython:\n  def f(): pass\n stray\n", "belongs to no section"),
        ("case: a\ninputs: x = 1\n", "has no program"),
        ("case:\npython:\n  def f(): pass\n", "has no name"),
        ("stray\ncase: a\n", "before the first case"),
        ("case: a\npython:\n  def f(): pass\ngraph:\n  x\ninputs: x = 1\n", "behind the capture"),
    ],
)
def test_bad_cases(text, message):
    with pytest.raises(capture_cases.BadCase, match=message):
        capture_cases.read(HERE, text)


def test_bad_inputs():
    with pytest.raises(capture_cases.BadCase, match="no input"):
        capture_cases.make_inputs("f32[2]", {})
    with pytest.raises(capture_cases.BadCase, match="defines no function"):
        capture_cases.entry_name(capture_cases.read(HERE, "case: a\npython:\n  x = 1\n")[0])


@pytest.mark.parametrize(
    "program, other",
    [
        ("return x + 1", "return x + 2"),
        ("return x", "return [x]"),
        ("x.add_(1)", "pass"),
        ("print(1)", "print(2)"),
        ("raise ValueError(1)", "raise ValueError(2)"),
        ("raise ValueError", "raise TypeError"),
        ("log.append(1)", "log.extend([1, 1])"),
        ("return {'a': 1, 'b': 2}", "return {'b': 2, 'a': 1}"),
        ("return x.t()", "return x.t().contiguous()"),
        ("return x.detach()", "return x.detach().requires_grad_()"),
        ("return Thing(1)", "return Thing(2)"),
        ("return 1", "return True"),
    ],
)
def test_differences_are_seen(program, other):
    text = "case: a\npython:\n  log = []\n  class Thing:\n      def __init__(self, v): self.v = v\n  def f(x):\n      {}\ninputs: x = f32[2, 3]\n"
    one, same, two = (capture_cases.read(HERE, text.format(p))[0] for p in (program, program, other))
    first, again, second = (capture_cases.run(c, compiled=False)[0] for c in (one, same, two))
    capture_cases.check_results(one, first, again)
    with pytest.raises(AssertionError):
        capture_cases.check_results(one, first, second)


def test_rewriting(tmp_path):
    path = tmp_path / "case.txt"
    path.write_text(SAMPLE)
    path.write_text(capture_cases.rewritten(path, {"one": "graph:\n  new\nleaves: nothing\n"}))
    one, two = capture_cases.read(path)
    assert one.expected == ["graph:", "  new", "leaves: nothing"]
    assert path.read_text() == SAMPLE.replace(
        "  %x = input L['x'] : f32[2, 3]\nguards: L['x'] is Tensor", "  new\nleaves: nothing"
    )
    assert two.name == "two"
