"""What is written for users runs: every Python block of README and docs, every example; links lead somewhere; made
pages are up to date."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import runpy
import subprocess
import sys

import pytest
import torch
from torch._inductor.utils import fresh_cache

import stator

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
unbroken = pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="they count graphs")


class DecoderLayer(torch.nn.Module):
    def forward(self, x):
        return x.relu()


def served(x):
    return x.relu() * x.shape[0]


# What a page speaks of without making it.
GIVEN = {
    "CACHE.md": lambda: {
        "stator": stator,
        "torch": torch,
        "model": torch.nn.Linear(4, 4),
        "example": torch.randn(2, 4),
        "f": served,
    },
    "DEBUG.md": lambda: {"stator": stator, "model": torch.nn.Linear(4, 4), "x": torch.randn(2, 4)},
    "RANKS.md": lambda: {"stator": stator, "group": None},
    "REGIONS.md": lambda: {"stator": stator, "torch": torch, "model": DecoderLayer(), "DecoderLayer": DecoderLayer},
}


@pytest.fixture(autouse=True)
def as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved = stator.config.save_config()
    stator.reset()
    stator.reset_stats()
    yield
    stator.set_enable_guard_collectives(False)
    stator.config.load_config(saved)
    stator.uninstall()
    stator.reset()


@unbroken
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_blocks_run(page, tmp_path):
    scope = {"__name__": page.stem, **GIVEN.get(page.name, dict)()}
    text = page.read_text()
    for found in BLOCK.finditer(text):
        # A file, so that sources are found; its lines are the page's.
        block = "\n" * text[: found.start(1)].count("\n") + found[1]
        path = tmp_path / f"{page.stem}_{found.start()}.py"
        path.write_text(block)
        # inductor compiles kernels, which takes seconds: its own tests are elsewhere
        quick = page.name in ("README.md", "DEBUG.md")
        forced = stator.set_stance("default", force_backend="aot_eager") if quick else contextlib.nullcontext()
        kept = stator.config.patch(cache=page.name == "CACHE.md", cache_dir=str(tmp_path / "kept"))
        with forced, fresh_cache(), kept:  # as on a new machine: nothing of inductor's is there yet
            exec(compile(block, str(path), "exec"), scope)


@unbroken
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip(), "an example shows something"


def test_there_are_five_and_all_are_listed():
    assert len(EXAMPLES) == 5
    text = (ROOT / "examples/README.md").read_text()
    assert all(f"]({path.name})" in text for path in EXAMPLES)


def _anchors(text):
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)):
        if "://" in target or not re.match(r"[A-Za-z#.]", target):  # what an error message says is no link
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name} points to {target}"
        if anchor:
            assert anchor in _anchors(file.read_text()), f"{page.name} points to {target}"


def test_architecture_names_what_is_there():
    """The page follows one call: each file and each function that it names exists."""
    text = (ROOT / "docs/ARCHITECTURE.md").read_text()
    names = set(re.findall(r"`([^`\n]+)`", text))
    paths = {name for name in names if re.fullmatch(r"[\w/]+(?:/|\.(?:cpp|h|c|def|py))", name)}
    missing = [n for n in paths if not any((ROOT / part / n).exists() for part in ("", "src", "stator"))]
    assert set(missing) <= {"Python.h", "stator/_build_info.py"}  # CPython's; made by the build
    sources = "\n".join(
        path.read_text()
        for folder in ("src", "stator")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".cpp", ".h", ".c", ".py")
    )
    life = text[text.index("One call,") : text.index("## Rooms")]
    called = {name.rpartition("::")[2] for name in re.findall(r"`([A-Za-z_]\w*(?:::\w+)*)`", life)}
    assert len(called) > 15
    assert not [name for name in called if not re.search(rf"\b{name}\b", sources)]


def test_commits_that_adding_cites_are_there():
    rows = re.findall(r"^\|.*\| ([0-9a-f]{7})\b[^|]*\|$", (ROOT / "docs/ADDING.md").read_text(), re.M)
    assert len(rows) > 8
    if not (ROOT / ".git").exists():
        pytest.skip("no repository here")
    missing = [
        row for row in rows if subprocess.run(["git", "cat-file", "-e", row], cwd=ROOT, capture_output=True).returncode
    ]
    shallow = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True)
    assert not missing or shallow.stdout.strip() == "true"


@pytest.mark.parametrize("tool", ["api_page", "break_reasons"])
def test_made_pages_are_up_to_date(tool, monkeypatch):
    monkeypatch.setattr(sys, "argv", [tool, "--check"])
    runpy.run_path(str(ROOT / f"tools/{tool}.py"), run_name="__main__")


def test_the_version_is_one():
    assert f'version = "{stator.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"## {stator.__version__}" in (ROOT / "CHANGELOG.md").read_text()
