"""Cases in processes that tell what they do: candidates in forks of this process, which pay for no imports, and scripts
in processes of their own.

A fork is sound as long as this process runs no tensor operation (torch's thread pools do not survive a fork) and has no
second thread; a process that has done either must not use check(): the minifier runs in one of its own.
"""

import contextlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time

from stator.debug._verdict import Verdict


def _limit_memory(nbytes):
    """Lets this process take so much more address space than it has."""
    if not nbytes:
        return
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + nbytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def _child(job, connection, memory):
    os.setpgid(0, 0)  # what it starts dies with it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    _limit_memory(memory)

    def tell(**message):
        connection.send(message)

    try:
        verdict = job(tell)
    except BaseException as error:
        small = isinstance(error, MemoryError)
        verdict = Verdict("unusable", message="not enough memory" if small else f"{type(error).__name__}: {error}")
    tell(verdict=verdict)


def check(job, timeout, memory=0, phase_limits=lambda phase, before: None):
    """Runs job(tell) -> verdict in a fork. (verdict, all that it told, {phase: seconds}); crashes and hangs are
    verdicts too.

    phase_limits(phase, seconds of the phases before) gives a limit for that phase alone, or None.
    """
    reading, writing = multiprocessing.Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        try:
            _child(job, writing, memory)
        finally:
            os._exit(0)
    writing.close()
    return _watched(reading, pid, timeout, phase_limits)


def run_script(script, timeout):
    """The verdict of a script that is run alone, in a new process."""
    reading, writing = multiprocessing.Pipe(duplex=False)
    command = [sys.executable, script, "run", "--verdict", str(writing.fileno())]
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=null, stderr=null, start_new_session=True, pass_fds=[writing.fileno()])
    writing.close()
    run_limit = max(5.0, timeout / 10)
    return _watched(reading, process.pid, timeout, lambda phase, before: run_limit if phase == "run" else None)[0]


def run_minifier(script, *options, **arguments):
    """Runs `python -m stator minify` on a script, in a process that neither watches nor bisects."""
    own = ("STATOR_REPRO", "STATOR_MINIFY", "STATOR_BISECT")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    environment["PYTHONPATH"] = os.pathsep.join(place for place in sys.path if place)
    command = [sys.executable, "-m", "stator", "minify", script, *options]
    return subprocess.run(command, env=environment, check=False, **arguments)


def _has_ended(pid):
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _watched(connection, pid, timeout, phase_limits):
    """(verdict, all that was told, {phase: seconds}) of a process, which is ended when it has said its verdict or
    cannot any more."""
    start = phase_start = time.monotonic()
    phase, seconds, told = "start", {}, {}
    with connection:
        while "verdict" not in told:
            now = time.monotonic()
            end = min(start + timeout, phase_start + (phase_limits(phase, seconds) or timeout))
            if now >= end:
                told["verdict"] = Verdict("hang", place=phase)
            elif connection.poll(min(end - now, 0.5)):
                try:
                    message = connection.recv()
                except (EOFError, OSError):  # it ended, perhaps in the middle of a message
                    break
                told |= message
                if "phase" in message or "verdict" in message:
                    seconds[phase] = time.monotonic() - phase_start
                    phase, phase_start = told["phase"], time.monotonic()
            elif _has_ended(pid) and not connection.poll():
                break  # a process that it started holds the pipe open
    code = _end(pid)
    if "verdict" not in told and code < 0:
        told["verdict"] = Verdict("signal", signal.Signals(-code).name, phase)
    elif "verdict" not in told:
        told["verdict"] = Verdict("unusable", message=f"the process ended with status {code} in phase {phase!r}")
    return told["verdict"], told, seconds


def _end(pid):
    """Ends a child and what it started; gives its status. One that has said its verdict may hang in its exit: it is not
    waited for long."""
    for _ in range(20):
        if _has_ended(pid):
            break
        time.sleep(0.001)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
