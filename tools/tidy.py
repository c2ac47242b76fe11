"""Runs clang-tidy over C++ files, or over all of src/, with the compile commands of a build folder."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILDS = ["build/release", "build/dev"]
# GCC's own options; and .clang-tidy says what is an error here.
LEFT_OUT = ("-fno-canonical-system-headers", "-Wno-restrict", "-Werror")


def compile_database():
    for build in BUILDS:
        path = ROOT / build / "compile_commands.json"
        if path.is_file():
            return path
    sys.exit("no compile_commands.json: run `make build` first")


def prepared(database):
    """A copy without options that are not for clang, and without ccache in front of the compiler."""
    folder = ROOT / "build" / "tidy"
    folder.mkdir(parents=True, exist_ok=True)
    entries = json.loads(database.read_text())
    for entry in entries:
        words = entry["command"].split(" ")
        if os.path.basename(words[0]) == "ccache":
            words = words[1:]
        entry["command"] = " ".join(w for w in words if w not in LEFT_OUT)
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return folder, {pathlib.Path(e["file"]).resolve() for e in entries}


def main():
    beside = pathlib.Path(sys.executable).parent / "clang-tidy"
    tool = str(beside) if beside.exists() else shutil.which("clang-tidy")
    if not tool:
        sys.exit("clang-tidy not found: run `make lint`, which installs it")
    folder, known = prepared(compile_database())
    named = [pathlib.Path(f).resolve() for f in sys.argv[1:]]
    files = named or sorted(f for f in known if (ROOT / "src") in f.parents and f.suffix == ".cpp")

    def tidy(file):
        command = [tool, "--quiet", "-p", str(folder), str(file)]
        return file, subprocess.run(command, capture_output=True, text=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for done, (file, result) in enumerate(pool.map(tidy, [f for f in files if f in known]), 1):
            if result.returncode:
                failed += 1
                print(
                    f"[{done}/{len(files)}] {file.relative_to(ROOT)}\n{result.stdout}{result.stderr[-2000:]}",
                    flush=True,
                )
    print(f"clang-tidy: {len(files)} files, {failed} with complaints")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
