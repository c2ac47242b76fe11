"""Runs test files side by side, each in a process of its own: tools/run_tests.py [--jobs n] [--breaks MODE ...] [--only
plain|breaks] [--quick] [FILE ...].

Files that took longest last time start first; times are CPU seconds, in build/test_times.json. A file that fails shows
its whole output at once, and is named again at the end. torch and pytest are imported once, here: each process is a
fork of this one, which has no threads and has loaded nothing of Stator.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import time

import pytest
import torch  # noqa: F401

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


class Run:
    """One file's tests, in a process that has begun."""

    def __init__(self, job, quick):
        self.name, file, mode = job
        self.begin = time.monotonic()
        self.output = os.memfd_create(self.name)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(self.output, 1)
            os.dup2(self.output, 2)
            if not sys.flags.safe_path:  # else this is the first of PYTHONPATH, the package of a pair of versions
                sys.path[0] = str(ROOT)  # as `python -m pytest` has it
            arguments = ["-q", "--no-header", file]
            if mode is not None:
                os.environ["STATOR_BREAK_EVERY"] = mode
            if quick or mode is not None:
                arguments += ["-m", "not slow"]
            sys.exit(pytest.main(arguments))

    def ended(self, status, usage):
        """(exit status, output, seconds, CPU seconds)"""
        with open(self.output, "rb") as output:
            output.seek(0)
            text = output.read().decode(errors="replace")
        cpu = usage.ru_utime + usage.ru_stime
        return os.waitstatus_to_exitcode(status), text, time.monotonic() - self.begin, cpu


def each_ended(jobs, at_once, quick):
    """(name, exit status, output, seconds, CPU seconds) of each job, as they end."""
    waiting, running = list(reversed(jobs)), {}
    while waiting or running:
        while waiting and len(running) < at_once:
            started = Run(waiting.pop(), quick)
            running[started.pid] = started
        pid, status, usage = os.wait4(-1, 0)
        run = running.pop(pid)
        yield run.name, *run.ended(status, usage)


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
    parser.add_argument("--quick", action="store_true", help="leave out what is marked as slow")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()

    times = known_times()
    # A file that is new here is taken for a long one, and the larger the longer.
    jobs = sorted(jobs_of(options), key=lambda job: -times.get(job[0], 1000 + (ROOT / job[1]).stat().st_size))
    failed, total = [], 0.0
    os.chdir(ROOT)
    for count, (name, status, output, seconds, cpu) in enumerate(each_ended(jobs, options.jobs, options.quick), 1):
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
