"""CPython's own tests, with every test compiled: a part of the quick modules, another one each day
(tools/cpython_tests.py has all of them)."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.skipif(importlib.util.find_spec("test.support") is None, reason="this Python has no tests of its own")
@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the list of modules that are equal is that of CPython 3.11"
)
def test_todays_part(tmp_path):
    environment = {**os.environ, "STATOR_TEST_RESULTS": str(tmp_path / "results.json")}
    command = [sys.executable, str(ROOT / "tools" / "cpython_tests.py"), "--part"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " equal, 0 differ" in done.stdout, done.stdout
