"""Candidates in processes of their own, without paying for imports each time: each check is a fork of this process.

That is sound as long as this process runs no tensor operation (torch's thread pools do not survive a fork) and has no
second thread; a process that has done either must not use this: the minifier runs in one of its own.
"""

import os
import resource
import select
import signal
import sys
import time
import traceback

from stator.debug._verdict import Telegraph, Verdict, from_lines


def _limit_memory(nbytes):
    """Lets this process take so much more address space than it has."""
    if not nbytes:
        return
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + nbytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def _child(job, descriptor, memory, quiet):
    os.setpgid(0, 0)  # what it starts dies with it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if quiet:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
    _limit_memory(memory)
    telegraph = Telegraph(descriptor)
    try:
        verdict, extra = job(telegraph.phase)
        telegraph.send(verdict=verdict.data(), **extra)
    except MemoryError:
        telegraph.send(verdict=Verdict("unusable", message="not enough memory").data())
    except BaseException as error:
        if not quiet:
            traceback.print_exc()
        telegraph.send(verdict=Verdict("unusable", message=f"{type(error).__name__}: {error}").data())


def check(job, timeout, memory=0, quiet=True, phase_limits=None):
    """Runs job(phase) -> (verdict, dict) in a fork. (verdict, last message, seconds); crashes and hangs are verdicts
    too.

    phase_limits(phase, seconds of the phases before) gives a limit for that phase alone, or None.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            _child(job, writing, memory, quiet)
        finally:
            os._exit(0)
    os.close(writing)
    start = time.monotonic()
    try:
        lines, timed_out = _listen(reading, pid, start, timeout, phase_limits or (lambda phase, before: None))
    finally:
        os.close(reading)
        _end(pid)
    _, status = os.waitpid(pid, 0)
    verdict, message = from_lines(lines, status, timed_out)
    return verdict, message, time.monotonic() - start


def _has_ended(pid):
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _listen(descriptor, pid, start, timeout, phase_limits):
    """Lines until the other side closes or ends, or time is up."""
    buffer, lines = b"", []
    phase_start, phase, before = start, "start", {}
    while True:
        now = time.monotonic()
        end = min(start + timeout, phase_start + (phase_limits(phase, before) or timeout))
        if now >= end:
            return lines, True
        ready, _, _ = select.select([descriptor], [], [], min(end - now, 0.5))
        if not ready:
            # A process that the child started may hold the pipe open.
            if _has_ended(pid) and not select.select([descriptor], [], [], 0)[0]:
                return lines, False
            continue
        data = os.read(descriptor, 1 << 16)
        if not data:
            return lines, False
        *whole, buffer = (buffer + data).split(b"\n")
        for line in whole:
            lines.append(line)
            if line.startswith(b'{"phase"'):
                before[phase] = time.monotonic() - phase_start
                phase, phase_start = line.split(b'"')[3].decode(), time.monotonic()
            if line.startswith(b'{"verdict"'):
                return lines, False


def _end(pid):
    """Ends a child and what it started. One that has said its verdict may hang in its exit: it is not waited for
    long."""
    for _ in range(20):
        if _has_ended(pid):
            return
        time.sleep(0.001)
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
