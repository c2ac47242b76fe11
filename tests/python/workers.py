"""Tasks in forked worker processes: a crash or a hang costs one task, and is reported as its outcome.

The parent imports what is slow (torch) once; workers are forked from it and take one task after another. Nothing that
starts threads may have run in the parent before the fork.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Outcome = tuple[Any, Any, str | None]  # task, result, what went wrong


@dataclass
class _Worker:
    process: Any
    pipe: Any
    task: Any = None
    deadline: float = 0.0


def _serve(pipe: Any, work: Callable[[Any], Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setrecursionlimit(1000)
    while True:
        task = pipe.recv()
        if task is None:
            break
        try:
            answer = (work(task[0]), None)
        except BaseException as error:
            answer = (None, f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        pipe.send(answer)
    pipe.close()
    sys.stdout.flush()
    os._exit(0)  # no finalisers of state that was forked


def _start(work: Callable[[Any], Any]) -> _Worker:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _why(worker: _Worker) -> str:
    worker.process.join(5)
    code = worker.process.exitcode
    if code is not None and code < 0:
        return f"the process died of {signal.Signals(-code).name}"
    return f"the process ended with status {code}"


def _stop(worker: _Worker) -> None:
    if worker.process.is_alive():
        worker.process.kill()
    worker.process.join()
    worker.pipe.close()


def run_tasks(
    work: Callable[[Any], Any], tasks: list[Any], jobs: int, timeout: float, renew_after: int = 0
) -> Iterator[Outcome]:
    """Yields the outcome of each task as it comes. `renew_after`: replace a worker after so many tasks (0: never)."""
    waiting = deque(tasks)
    workers: list[_Worker] = []
    done: dict[int, int] = {}
    try:
        while waiting or any(worker.task is not None for worker in workers):
            while len(workers) < jobs and waiting:
                workers.append(_start(work))
            for worker in workers:
                if worker.task is None and waiting:
                    worker.task = (waiting.popleft(),)
                    worker.deadline = time.monotonic() + timeout
                    worker.pipe.send(worker.task)
            busy = [worker for worker in workers if worker.task is not None]
            pause = max(0.0, min(worker.deadline for worker in busy) - time.monotonic())
            ready = multiprocessing.connection.wait([worker.pipe for worker in busy], pause)
            for worker in busy:
                if worker.pipe in ready:
                    task = worker.task[0]
                    worker.task = None
                    try:
                        result, failure = worker.pipe.recv()
                    except (EOFError, ConnectionResetError):
                        result, failure = None, _why(worker)
                        _stop(worker)
                        workers.remove(worker)
                    else:
                        done[id(worker)] = done.get(id(worker), 0) + 1
                        if renew_after and done[id(worker)] >= renew_after:
                            done.pop(id(worker))
                            _stop(worker)
                            workers.remove(worker)
                    yield task, result, failure
                elif (
                    time.monotonic() >= worker.deadline and not worker.pipe.poll()
                ):  # an answer may have come while the caller was busy
                    task = worker.task[0]
                    _stop(worker)
                    workers.remove(worker)
                    yield task, None, f"no answer within {timeout:g} s"
    finally:
        for worker in workers:
            _stop(worker)


class OneWorker:
    """One worker process for tasks that come one by one; a new one takes over after a crash or a hang."""

    def __init__(self, work: Callable[[Any], Any], timeout: float) -> None:
        self._work = work
        self._timeout = timeout
        self._worker: _Worker | None = None

    def __enter__(self) -> OneWorker:
        return self

    def __exit__(self, *details: object) -> None:
        if self._worker is not None:
            _stop(self._worker)
            self._worker = None

    def run(self, task: Any) -> Outcome:
        if self._worker is None:
            self._worker = _start(self._work)
        self._worker.pipe.send((task,))
        if self._worker.pipe.poll(self._timeout):
            try:
                result, failure = self._worker.pipe.recv()
                return task, result, failure
            except (EOFError, ConnectionResetError):
                why = _why(self._worker)
        else:
            why = f"no answer within {self._timeout:g} s"
        self.__exit__()
        return task, None, why
