"""Runs test files side by side, each in a process of its own: tools/run_tests.py [--jobs n] [--breaks MODE ...] [--only
plain|breaks] [FILE ...].

Files that took longest last time start first; times are CPU seconds, in build/test_times.json. A file that fails shows
its whole output at once, and is named again at the end.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMES = ROOT / "build" / "test_times.json"
# Programs that also run with an exit forced at every n-th legal offset.
BREAK_FILES = ["test_programs.py", "test_module_wrapper.py", "test_capture_cases.py"]


def jobs_of(options):
    """(name, file, forced breaks) of each run."""
    plain = options.files or sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/python").glob("test_*.py"))
    made = [(file, file, None) for file in plain] if options.only != "breaks" else []
    if options.only != "plain":
        broken = [f"tests/python/{file}" for file in BREAK_FILES]
        made += [(f"{file} (breaks: {mode})", file, mode) for mode in options.breaks for file in broken]
    return made


def run(job):
    name, file, mode = job
    environment = dict(os.environ)
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", file]
    if mode is not None:
        environment["STATOR_BREAK_EVERY"] = mode
        command += ["-m", "not slow"]
    begin = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return name, process.returncode, text, time.monotonic() - begin, usage.ru_utime + usage.ru_stime


def known_times():
    try:
        return json.loads(TIMES.read_text())
    except (OSError, ValueError):
        return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--breaks", nargs="*", default=["1", "7", "random:1"])
    parser.add_argument("--only", choices=["plain", "breaks"])
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()

    times = known_times()
    # A file that is new here is taken for a long one, and the larger the longer.
    jobs = sorted(jobs_of(options), key=lambda job: -times.get(job[0], 1000 + (ROOT / job[1]).stat().st_size))
    failed, total = [], 0.0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = [pool.submit(run, job) for job in jobs]
        for count, future in enumerate(concurrent.futures.as_completed(waiting), 1):
            name, status, output, seconds, cpu = future.result()
            times[name] = cpu  # what others do on the machine does not change it
            total += cpu
            summary = re.sub(r" in [0-9.]+s.*", "", output.strip().rsplit("\n", 1)[-1])
            # 5: nothing to run in this file here.
            good = status in (0, 5)
            print(
                f"[{count}/{len(jobs)}] {'ok    ' if good else 'FAILED'} {name}  {summary}, {seconds:.0f} s ({cpu:.0f} of CPU)",
                flush=True,
            )
            if not good:
                failed.append(name)
                print(output, flush=True)
    TIMES.parent.mkdir(exist_ok=True)
    TIMES.write_text(json.dumps(times, indent=1, sort_keys=True))
    print(f"{len(jobs)} runs, {total:.0f} s of CPU")
    if failed:
        print("failed:", *failed, sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
