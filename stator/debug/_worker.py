"""Cases in processes that tell what they do: candidates in forks of this process, which pay for no imports, and scripts
in processes of their own.

A fork is sound as long as this process runs no tensor operation (torch's thread pools do not survive a fork) and has no
second thread; a process that has done either must not use check(): the minifier runs in one of its own.
"""

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time

from stator.debug._verdict import Verdict


class Telegraph:
    """Phases and the verdict as JSON lines into a file descriptor, each written at once: what was sent survives a
    crash."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def send(self, **message):
        data = (json.dumps(message) + "\n").encode()
        while data:
            data = data[os.write(self.descriptor, data) :]

    def phase(self, name):
        self.send(phase=name)


def _limit_memory(nbytes):
    """Lets this process take so much more address space than it has."""
    if not nbytes:
        return
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + nbytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def _child(job, descriptor, memory):
    os.setpgid(0, 0)  # what it starts dies with it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    _limit_memory(memory)
    telegraph = Telegraph(descriptor)
    try:
        verdict, extra = job(telegraph.phase)
        telegraph.send(verdict=verdict.data(), **extra)
    except BaseException as error:
        small = isinstance(error, MemoryError)
        said = "not enough memory" if small else f"{type(error).__name__}: {error}"
        telegraph.send(verdict=Verdict("unusable", message=said).data())


def check(job, timeout, memory=0, phase_limits=lambda phase, before: None):
    """Runs job(phase) -> (verdict, dict) in a fork. (verdict, last message, seconds); crashes and hangs are verdicts
    too.

    phase_limits(phase, seconds of the phases before) gives a limit for that phase alone, or None.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    start = time.monotonic()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            _child(job, writing, memory)
        finally:
            os._exit(0)
    os.close(writing)
    found = _watch(reading, pid, timeout, phase_limits)
    _, status = os.waitpid(pid, 0)
    verdict, message = _verdict_of(*found, os.waitstatus_to_exitcode(status))
    return verdict, message, time.monotonic() - start


def run_script(script, timeout):
    """The verdict of a script that is run alone, in a new process."""
    reading, writing = os.pipe()
    command = [sys.executable, script, "run", "--verdict", f"/dev/fd/{writing}"]
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=null, stderr=null, start_new_session=True, pass_fds=[writing])
    os.close(writing)
    run_limit = max(5.0, timeout / 10)
    found = _watch(reading, process.pid, timeout, lambda phase, before: run_limit if phase == "run" else None)
    return _verdict_of(*found, process.wait())[0]


def run_minifier(script, *options, **arguments):
    """Runs `python -m stator minify` on a script, in a process that neither watches nor bisects."""
    own = ("STATOR_REPRO", "STATOR_MINIFY", "STATOR_BISECT")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    environment["PYTHONPATH"] = os.pathsep.join(place for place in sys.path if place)
    command = [sys.executable, "-m", "stator", "minify", script, *options]
    return subprocess.run(command, env=environment, check=False, **arguments)


def _has_ended(pid):
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _watch(descriptor, pid, timeout, phase_limits):
    """(last phase, last message, whether the time was up) of a process, when it has said its verdict or cannot any
    more; it is ended then."""
    start = phase_start = time.monotonic()
    phase, before, buffer, said, timed_out = "start", {}, b"", {}, False
    with open(descriptor, "rb", buffering=0) as pipe:
        while "verdict" not in said:
            now = time.monotonic()
            end = min(start + timeout, phase_start + (phase_limits(phase, before) or timeout))
            if now >= end:
                timed_out = True
                break
            if not select.select([pipe], [], [], min(end - now, 0.5))[0]:
                # A process that it started may hold the pipe open.
                if _has_ended(pid) and not select.select([pipe], [], [], 0)[0]:
                    break
                continue
            data = pipe.read(1 << 16)
            if not data:
                break
            *lines, buffer = (buffer + data).split(b"\n")
            for message in map(json.loads, lines):
                if "phase" in message:
                    before[phase] = time.monotonic() - phase_start
                    phase, phase_start = message["phase"], time.monotonic()
                said = message if "verdict" in message else said
    _end(pid)
    return phase, said, timed_out


def _end(pid):
    """Ends a child and what it started. One that has said its verdict may hang in its exit: it is not waited for
    long."""
    for _ in range(20):
        if _has_ended(pid):
            return
        time.sleep(0.001)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _verdict_of(phase, said, timed_out, code):
    """(verdict, last message) of a process that has ended with this code."""
    if timed_out:
        return Verdict("hang", place=phase), said
    if "verdict" in said:
        return Verdict(**said["verdict"]), said
    if code < 0:
        return Verdict("signal", signal.Signals(-code).name, phase), said
    return Verdict("unusable", message=f"the process ended with status {code} in phase {phase!r}"), said
