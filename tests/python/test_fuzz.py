"""The fuzzer: its generator, its shrinking, and a small run of it."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import tensors
from tests.fuzz.generate import generate
from tests.fuzz.shrink import shrink
from tests.python import children


def _fuzz(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz.run", "--out", str(out), *options]
    return subprocess.run(command, cwd=children.ROOT, env=children.environment(), capture_output=True, text=True)


def test_a_seed_gives_one_program() -> None:
    for seed in range(20):
        text = generate(seed)
        compile(text, "<fuzz>", "exec")
        assert text == generate(seed)
    code = "import hashlib\nfrom tests.fuzz.generate import generate\nprint(hashlib.sha1(generate(5).encode()).hexdigest())"
    command = [sys.executable, "-c", code]
    other = subprocess.run(command, env=children.environment(), capture_output=True, text=True, check=True)
    assert other.stdout.strip() == hashlib.sha1(generate(5).encode()).hexdigest()


def test_a_seed_gives_one_tensor_program() -> None:
    for seed in range(20):
        text = tensors.generate(seed)
        assert text == tensors.generate(seed) and "try:" in text
    whole = "".join(map(tensors.generate, range(60)))
    for part in (
        "backward()",
        "no_grad",
        "inference_mode",
        "nonlocal",
        "raise",
        "finally",
        "yield",
        ".data",
        ".add_(",
        "match ",
    ):
        assert part in whole
    code = (
        "import hashlib\nfrom tests.fuzz.tensors import generate\nprint(hashlib.sha1(generate(5).encode()).hexdigest())"
    )
    command = [sys.executable, "-c", code]
    other = subprocess.run(
        command, cwd=children.ROOT, env=children.environment(), capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == hashlib.sha1(tensors.generate(5).encode()).hexdigest()


def test_small_run_of_tensor_programs(tmp_path: Path) -> None:
    done = _fuzz(tmp_path, "--generator", "tensors", "--count", "20", "--shrink", "0", "--timeout", "60")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_programs_use_all_of_the_language() -> None:
    kinds = {type(node) for seed in range(60) for node in ast.walk(ast.parse(generate(seed)))}
    wanted = {
        ast.For,
        ast.While,
        ast.Try,
        ast.With,
        ast.Match,
        ast.ClassDef,
        ast.FunctionDef,
        ast.Lambda,
        ast.Yield,
        ast.ListComp,
    }
    wanted |= {
        ast.Nonlocal,
        ast.Global,
        ast.Raise,
        ast.Delete,
        ast.NamedExpr,
        ast.Starred,
        ast.DictComp,
        ast.GeneratorExp,
        ast.YieldFrom,
    }
    assert wanted <= kinds


def test_shrinking_keeps_what_matters() -> None:
    source = generate(7)
    assert source.count("LOG.append") > 3
    small = shrink(source, lambda text: "y[y > 1] = 0" in text)
    assert "y[y > 1] = 0" in small
    assert len(small.splitlines()) < 15


def test_eager_agrees_with_itself(tmp_path: Path) -> None:
    done = _fuzz(tmp_path, "--frontend", "eager", "--count", "100", "--seed", "5000", "--shrink", "0")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "100 programs, 0 findings" in done.stdout


def test_a_difference_is_found_and_written(tmp_path: Path) -> None:
    """TorchDynamo has known differences; the written program shows one of them."""
    pytest.importorskip("torch._dynamo")
    done = _fuzz(
        tmp_path, "--frontend", "dynamo", "--count", "40", "--shrink", "20", "--max-findings", "1", "--timeout", "120"
    )
    assert done.returncode == 1, done.stdout
    (found,) = tmp_path.glob("found_*.py")
    assert "@program()" in found.read_text()
    compile(found.read_text(), str(found), "exec")


@pytest.mark.parametrize("breaks", ["", "1", "random:3"])
def test_small_run(tmp_path: Path, breaks: str) -> None:
    done = _fuzz(tmp_path, "--count", "100", "--break-every", breaks, "--shrink", "0")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
