"""Which CPython and torch: what is not known is refused by a sentence, at import and by the build. The others are
pretended."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import children

IMPORT = """
import sys, torch
{pretend}
try:
    import stator
except ImportError as error:
    print(error)
else:
    print("imported")
"""
VERSION = "class Version(tuple): major, minor = {0}\nsys.version_info = Version(({0[0]}, {0[1]}, 0, 'final', 0))"


def imported(pretend):
    done = subprocess.run(
        [sys.executable, "-c", IMPORT.format(pretend=pretend)],
        env=children.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("pretend", "sentence"),
    [
        ("", "imported"),
        (VERSION.format((3, 14)), "stator knows CPython 3.11 to 3.13, and this is cpython 3.14"),
        (VERSION.format((3, 10)), "stator knows CPython 3.11 to 3.13, and this is cpython 3.10"),
        ("sys.abiflags = 't'", "stator does not know free-threaded builds of CPython"),
        ("sys.implementation.name = 'pypy'", "stator knows CPython 3.11 to 3.13, and this is pypy"),
        ("torch.__version__ = '2.99.0'", "and torch 2.99.0 is installed"),
    ],
    ids=["as it is", "3.14", "3.10", "free-threaded", "other implementation", "other torch"],
)
def test_import(pretend, sentence):
    assert sentence in imported(pretend)


def test_another_minor_than_the_build():
    other = (3, 11) if sys.version_info[1] != 11 else (3, 12)
    assert re.search(
        rf"for CPython 3\.{sys.version_info[1]}, and this is 3\.{other[1]}", imported(VERSION.format(other))
    )


def configured(version, python, torch="2.13.0", folder=None):
    """What CMake says of a CPython of this version, without a compiler."""
    beside = pathlib.Path(sys.executable).parent / "cmake"
    cmake = str(beside) if beside.exists() else shutil.which("cmake")
    if cmake is None:
        pytest.skip("there is no CMake here")
    major, minor = version.split(".")[:2]
    script = folder / "script.cmake"
    script.write_text(f'include("{children.ROOT}/cmake/versions.cmake")\nstator_check_torch("{torch}")\n')
    command = [
        cmake,
        f"-DPython_VERSION={version}",
        f"-DPython_VERSION_MAJOR={major}",
        f"-DPython_VERSION_MINOR={minor}",
    ]
    done = subprocess.run([*command, f"-DPython_EXECUTABLE={python}", "-P", script], capture_output=True, text=True)
    return done.returncode == 0, re.sub(r"\s+", " ", done.stderr)


def test_the_build(tmp_path):
    free = tmp_path / "python"
    free.write_text("#!/bin/sh\necho cpython 1\n")
    free.chmod(0o755)
    assert configured("3.11.7", sys.executable, folder=tmp_path)[0]
    for version, python, torch, sentence in (
        ("3.14.0", sys.executable, "2.13.0", "Stator knows CPython 3.11;3.12;3.13"),
        ("3.13.0", free, "2.13.0", "a free-threaded build"),
        ("3.12.1", sys.executable, "2.10.1", "Stator knows torch 2.11;2.12;2.13"),
    ):
        well, said = configured(version, python, torch, tmp_path)
        assert not well and sentence in said, said


def test_one_range_everywhere():
    cmake = (children.ROOT / "cmake/versions.cmake").read_text()
    pythons = re.search(r"set\(STATOR_PYTHONS (.*)\)", cmake)[1].split()
    torches = re.search(r"set\(STATOR_TORCHES (.*)\)", cmake)[1].split()
    project = (children.ROOT / "pyproject.toml").read_text()

    def after(version):
        major, minor = version.split(".")
        return f"{major}.{int(minor) + 1}"

    assert f'requires-python = ">={pythons[0]},<{after(pythons[-1])}"' in project
    assert f'"torch>={torches[0]},<{after(torches[-1])}"' in project
    assert f"CPython {pythons[0]} to {pythons[-1]}" in imported(VERSION.format((3, 14)))
