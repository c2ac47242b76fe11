"""Tests of libraries from PyPI, run as they are and with every test compiled: tools/library_tests.py [LIBRARY ...].

Each test has to come out the same: what a library's authors check is real code that nobody here has looked at. Sources
are downloaded once, to build/library_tests; what they need beyond torch is installed into an environment there, over
the one of this interpreter. Prints one line for each library and the tests that differ; what was printed by both runs
is kept beside the sources.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "library_tests"
# library: (folder of its tests, what they need)
LIBRARIES = {
    "more-itertools": ("tests", []),
    "boltons": ("tests", []),
    "funcy": ("tests", ["whatever"]),
    "attrs": ("tests", ["hypothesis", "cloudpickle"]),
    "cachetools": ("tests", []),
    "pyrsistent": ("tests", ["hypothesis"]),
    "toolz": ("", []),
    "einops": ("", []),
    "intervaltree": ("test", ["sortedcontainers"]),
    "voluptuous": ("", []),
    "parse": ("tests", []),
    "multipledispatch": ("", []),
}
PLUGIN = """
import inspect

import pytest
import torch

import stator

torch.set_num_threads(1)
compiled = 0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    global compiled
    test = getattr(item, "obj", None)
    if test is not None and not inspect.iscoroutinefunction(test):
        stator.reset()
        item.obj = stator.compile(test, backend="eager")
        compiled += 1


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{compiled} tests compiled")
"""
OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+)", re.M)


def environment():
    """The interpreter of an environment over this one's packages."""
    python = FOLDER / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER / "venv")], check=True)
        own = "import sysconfig; print(sysconfig.get_path('purelib'))"
        below = subprocess.run([sys.executable, "-c", own], capture_output=True, text=True, check=True).stdout.strip()
        there = subprocess.run([python, "-c", own], capture_output=True, text=True, check=True).stdout.strip()
        pathlib.Path(there, "below.pth").write_text(below + "\n")
        (FOLDER / "compile_every_test.py").write_text(PLUGIN)
        install(python, "pytest<9", "pluggy", "iniconfig", "packaging")
    return python


def install(python, *packages):
    command = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps", *packages]
    subprocess.run(command, check=True)


def sources(python, library):
    folder = FOLDER / library
    if not folder.exists():
        command = [
            python,
            "-m",
            "pip",
            "download",
            "-qq",
            "--no-deps",
            "--no-binary",
            library,
            "-d",
            str(FOLDER),
            library,
        ]
        subprocess.run(command, check=True)
        name = library.replace("-", "[-_]")
        archive = next(path for path in FOLDER.glob("*.tar.gz") if re.match(rf"{name}-\d", path.name))
        with tarfile.open(archive) as packed:
            top = packed.getnames()[0].split("/")[0]
            packed.extractall(FOLDER, filter="data")
        (FOLDER / top).rename(folder)
        install(python, library, *LIBRARIES.get(library, ("", []))[1])
    return folder / LIBRARIES.get(library, ("tests", []))[0]


def outcomes(python, library, tests, with_plugin):
    shown = {"PYTHONPATH": f"{FOLDER}:{ROOT}", "STATOR_STRICT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        python,
        "-X",
        "faulthandler",
        "-m",
        "pytest",
        "-q",
        "-rA",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",  # of the library: plugins that are not here
        str(tests),
    ]
    command += ["-p", "compile_every_test"] if with_plugin else []
    run = subprocess.run(command, cwd=FOLDER / library, env=os.environ | shown, capture_output=True, text=True)
    (FOLDER / f"{library}.{'compiled' if with_plugin else 'plain'}.txt").write_text(run.stdout + run.stderr)
    found = {test: what for what, test in OUTCOME.findall(run.stdout)}
    # pytest's table comes at the end: of a process that died nothing else tells.
    return found if run.returncode >= 0 else found | {"the whole run": f"killed by signal {-run.returncode}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("libraries", nargs="*", default=list(LIBRARIES))
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    python, differ = environment(), 0
    for library in options.libraries:
        tests = sources(python, library)
        plain = outcomes(python, library, tests, False)
        compiled = outcomes(python, library, tests, True)
        others = [test for test in plain | compiled if compiled.get(test) != plain.get(test)]
        differ += len(others) if plain else 1  # without tests nothing is seen
        print(f"{library}: {len(plain)} tests, {len(others)} differ", flush=True)
        for test in others:
            print(f"  {test}: {plain.get(test, 'no result')}, compiled {compiled.get(test, 'no result')}", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
