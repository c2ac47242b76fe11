"""Makes GoogleTest's sources available to the build, on machines that need not have them.

Looks at /usr/src (Debian's `googletest`), then at build/googletest; otherwise brings them there: from the source
archive of mypy on PyPI, which carries a copy of GoogleTest, or from Debian's package, unpacked without being installed.
Prints the folder.
"""

import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "googletest"
INSTALLED = [pathlib.Path("/usr/src/googletest/googletest"), pathlib.Path("/usr/src/gtest")]
MYPY = "mypy==1.11.2"


def usable(folder):
    return (folder / "src" / "gtest-all.cc").is_file()


def from_pypi(work):
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "-d", str(work), MYPY], check=True)
    archive = next(work.glob("mypy-*.tar.gz"))
    with tarfile.open(archive) as tar:
        members = [m for m in tar.getmembers() if "/mypyc/external/googletest/" in m.name]
        tar.extractall(work, members, filter="data")
    return next(work.glob("mypy-*/mypyc/external/googletest"))


def from_debian(work):
    subprocess.run(["apt-get", "download", "-q", "googletest"], cwd=work, check=True)
    subprocess.run(["dpkg", "-x", str(next(work.glob("googletest_*.deb"))), str(work)], check=True)
    return work / "usr/src/googletest/googletest"


def main():
    for folder in [*INSTALLED, TARGET]:
        if usable(folder):
            print(folder)
            return 0
    for bring in (from_pypi, from_debian):
        with tempfile.TemporaryDirectory() as work:
            try:
                found = bring(pathlib.Path(work))
            except (OSError, subprocess.CalledProcessError, StopIteration) as error:
                print(f"{bring.__name__}: {error}", file=sys.stderr)
                continue
            if usable(found):
                shutil.copytree(found, TARGET, dirs_exist_ok=True)
                print(TARGET)
                return 0
    print(
        "GoogleTest is not here and could not be brought: install Debian's `googletest`, or its like.",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
