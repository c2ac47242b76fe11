"""Runs tests/gpu, each file in a process of its own and several at once, for `make gpu`. All logs go into one file, and
a summary to the terminal: what passed, what failed with which line, what was skipped and why. Goes on after
failures."""

import argparse
import concurrent.futures
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|error|errors|xfailed)")
TEST = re.compile(r"^(?:FAILED|ERROR) \S*?([\w.]+::\S+)(?: - (.*))?$", re.M)


def run(path, limit, words):
    """(file, seconds, status, output) of one file's tests."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-rfEs", "--tb=short"]
    command += ["--durations=5", str(path), *(["-k", words] if words else [])]
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2", "HF_HUB_OFFLINE": "1", "PYTHONFAULTHANDLER": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit,
            check=False,
        )
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, output = 124, (late.stdout or b"") + f"\nno end within {limit} s\n".encode()
    return path.name, time.monotonic() - begun, status, output.decode(errors="replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/gpu.log", help="where all output goes")
    parser.add_argument("--jobs", type=int, default=max(1, min(6, (os.cpu_count() or 2) // 2)))
    parser.add_argument("--limit", type=float, default=330, help="seconds for one file")
    parser.add_argument("-k", dest="words", default="", help="pytest's -k")
    options = parser.parse_args()
    import torch

    import stator

    device = os.environ.get("STATOR_TEST_DEVICE", "cuda")
    there = torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"
    head = f"CPython {platform.python_version()}, torch {torch.__version__}, stator {stator.__version__}, {there}"
    print(head, flush=True)
    if device == "cuda" and not torch.cuda.is_available():
        print("gpu: skipped, there is no CUDA device here (STATOR_TEST_DEVICE=cpu tries most tests on another device)")
        return 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    files = sorted((ROOT / "tests/gpu").glob("test_*.py"))
    failures, totals, begun = [], {}, time.monotonic()
    with options.out.open("w") as log, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        log.write(head + "\n")
        waiting = [pool.submit(run, path, options.limit, options.words) for path in files]
        for future in concurrent.futures.as_completed(waiting):
            name, seconds, status, output = future.result()
            log.write(f"\n======== {name}: status {status}, {seconds:.0f} s\n{output}\n")
            log.flush()
            last = (output.strip().splitlines() or [""])[-1]
            print(f"{name:28} {seconds:4.0f} s  {last}", flush=True)
            for count, kind in COUNTS.findall(last):
                totals[kind] = totals.get(kind, 0) + int(count)
            found = TEST.findall(output)
            failures += found
            if status not in (0, 1, 5) or (status == 1 and not found):
                failures.append((name, f"status {status}: {last}"))
    print(f"\n{len(failures)} failure(s); all output is in {options.out}")
    for name, why in failures:
        print(f"  {name}: {why[:160]}")
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(totals.items()))
    print(f"gpu: {said}; {time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
