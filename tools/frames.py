"""Builds the frame driver alone, without torch, for every CPython that is installed here, and runs its tests on each.

The rooms base, python and bytecode, and the concrete actions of runtime/, are compiled against the version's own
headers; tests/python/test_opcodes.py and test_driver.py then run against them. pytest comes from the environment that
runs this script; what follows `--` is for it.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
TESTS = ("tests/python/test_opcodes.py", "tests/python/test_driver.py")


def interpreters():
    """{minor version: path}, from PATH and from pyenv."""
    places = [pathlib.Path(place) for place in os.environ.get("PATH", "").split(os.pathsep)]
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    places += sorted(pyenv.glob("versions/*/bin"), reverse=True)
    found = {}
    for version in VERSIONS:
        for place in places:
            path = place / f"python{version}"
            # pyenv's own stand-ins run only where the version is chosen
            if path.exists() and runs(path) and has_headers(path):
                found[version] = path
                break
    return found


def runs(path):
    return subprocess.run([path, "-c", ""], capture_output=True).returncode == 0


def has_headers(path):
    code = "import os, sysconfig; print(os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')))"
    return subprocess.run([path, "-c", code], capture_output=True, text=True).stdout.strip() == "True"


def build(version, path, jobs, sanitize):
    folder = ROOT / "build" / "frames" / (version + ("-asan" if sanitize else ""))
    configure = [
        "cmake",
        "-S",
        ROOT,
        "-B",
        folder,
        "-G",
        "Ninja",
        "-DSTATOR_DRIVER_ALONE=ON",
        f"-DPython_EXECUTABLE={path}",
    ]
    configure += ["-DCMAKE_BUILD_TYPE=" + ("RelWithDebInfo" if sanitize else "Release")]
    configure += [f"-DSTATOR_SANITIZE={'ON' if sanitize else 'OFF'}", "--log-level=WARNING"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "-j", str(jobs)], check=True, stdout=subprocess.DEVNULL)
    return folder / "package"


def test(path, package, arguments):
    import pytest

    site = pathlib.Path(pytest.__file__).resolve().parent.parent
    code = f"import sys; sys.path.append({str(site)!r}); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    environment = {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{ROOT}", "PYTHONSAFEPATH": "1"}
    command = [
        path,
        "-c",
        code,
        "-q",
        "--no-header",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
    ]
    return subprocess.run([*command, *arguments], cwd=ROOT, env=environment).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", action="append", metavar="3.xx", help="these versions only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UBSan (preload libasan)")
    parser.add_argument("--build", action="store_true", help="build, do not test")
    parser.add_argument("tests", nargs="*", help="test files, instead of all frame tests")
    own, more = sys.argv[1:], []
    if "--" in own:
        own, more = own[: own.index("--")], own[own.index("--") + 1 :]
    options = parser.parse_args(own)
    if not shutil.which("cmake"):
        parser.error("cmake is not in PATH")
    chosen = {v: p for v, p in interpreters().items() if not options.only or v in options.only}
    for version in options.only or VERSIONS:
        if version not in chosen:
            print(f"== CPython {version} is not installed here with its headers: skipped", flush=True)
    if not chosen:
        parser.error(f"no CPython {', '.join(options.only or VERSIONS)} with its headers found")
    failed = []
    for version, path in chosen.items():
        start = time.monotonic()
        package = build(version, path, options.jobs, options.sanitize)
        built = time.monotonic()
        print(f"== CPython {version} ({path}): built in {built - start:.0f} s", flush=True)
        if options.build:
            continue
        if test(path, package, [*(options.tests or TESTS), *more]):
            failed.append(version)
        print(f"== CPython {version}: tests in {time.monotonic() - built:.0f} s", flush=True)
    print("frames:", ", ".join(f"{v} {'FAILED' if v in failed else 'ok'}" for v in chosen))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
