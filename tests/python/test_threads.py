"""Compiled functions called from several threads: results are eager's, graphs really run, nothing waits for ever."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import stator

TIMEOUT = 60.0


@pytest.fixture(autouse=True)
def fresh() -> Any:
    stator.reset()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with it ignored
    yield
    signal.signal(signal.SIGINT, before)
    stator.reset()


def together(*jobs: Callable[[], Any]) -> list[Any]:
    """Runs the jobs at the same time, from one starting line; their results, or the first error."""
    line = threading.Barrier(len(jobs))

    def start(job: Callable[[], Any]) -> Any:
        line.wait(TIMEOUT)
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result(TIMEOUT) for future in [pool.submit(start, job) for job in jobs]]


def graph_calls() -> int:
    return int(stator.stats()["graph_calls"])


def work(x: torch.Tensor, n: int) -> torch.Tensor:
    total = x
    for i in range(n):
        total = torch.sin(total) + i
    return total


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.second = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def test_one_function_in_many_threads() -> None:
    compiled = stator.compile(work, backend="eager")
    inputs = [torch.full((4,), float(i)) for i in range(6)]
    before = graph_calls()

    def job(x: torch.Tensor) -> list[torch.Tensor]:
        return [compiled(x, n) for n in (3, 5, 3, 7, 3) for _ in range(4)]

    for x, results in zip(inputs, together(*(lambda x=x: job(x) for x in inputs)), strict=True):
        expected = [work(x, n) for n in (3, 5, 3, 7, 3) for _ in range(4)]
        assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))
    assert graph_calls() - before >= 6 * 20


def test_threads_that_capture_the_same_at_once_take_one_place() -> None:
    together_there = threading.Barrier(4, timeout=60)

    def waits(graph: torch.fx.GraphModule, inputs: list[object]) -> object:
        together_there.wait()  # all of them are in the backend: none has found another's entry
        return graph.forward

    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    compiled = stator.compile(double, backend=waits)
    before = graph_calls()
    for i, result in enumerate(together(*(lambda i=i: compiled(torch.full((3,), float(i))) for i in range(4)))):
        assert torch.equal(result, torch.full((3,), 2.0 * i))
    assert graph_calls() - before == 4
    assert len(stator.guards(compiled)) == 1


def test_a_module_and_functions_with_breaks() -> None:
    model = Small()
    x = torch.randn(3, 4)
    log: list[int] = []

    def noisy(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        log.append(1)
        print(end="")
        return y + 1

    calls = stator.compile(model, backend="eager"), stator.compile(noisy, backend="eager")
    before = graph_calls()
    results = together(*(lambda c=c: [c(x) for _ in range(10)] for c in (*calls, *calls)))
    for answers, eager in zip(results, (model(x), x * 2 + 1) * 2, strict=True):
        assert all(torch.equal(answer, eager) for answer in answers)
    assert len(log) == 20
    assert graph_calls() - before >= 40


def test_a_compile_waits_while_another_thread_runs() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        inside.set()
        assert go_on.wait(TIMEOUT)
        return module.forward

    waiting = stator.compile(lambda x: x * 3, backend=slow)
    other = stator.compile(work, backend="eager")
    x = torch.ones(4)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(waiting, x)
        assert inside.wait(TIMEOUT)
        before = graph_calls()
        assert torch.equal(other(x, 4), work(x, 4))  # captured and run while the other compile stands still
        assert torch.equal(other(x, 4), work(x, 4))
        assert graph_calls() - before >= 2
        assert not late.done()
        go_on.set()
        assert torch.equal(late.result(TIMEOUT), x * 3)
    assert torch.equal(waiting(x), x * 3)


def test_same_function_compiles_in_two_threads() -> None:
    line = threading.Barrier(2)
    compiles: list[int] = []

    def meeting(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        compiles.append(1)
        if len(compiles) <= 2:
            line.wait(TIMEOUT)  # both threads are in the middle of a capture of the same place
        return module.forward

    compiled = stator.compile(lambda x: torch.cos(x) + 1, backend=meeting)
    x = torch.randn(5)
    for result in together(lambda: compiled(x), lambda: compiled(x)):
        assert torch.equal(result, torch.cos(x) + 1)
    before = len(compiles)
    assert torch.equal(compiled(x), torch.cos(x) + 1)
    assert len(compiles) == before


def test_an_exception_in_one_thread_leaves_the_others_alone() -> None:
    def fails(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        raise ValueError("this backend never works")

    def raises(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if y.shape[0] == 4:
            raise KeyError("four")
        return y

    broken = stator.compile(lambda x: x + 1, backend=fails)
    wrong = stator.compile(raises, backend="eager")
    right = stator.compile(work, backend="eager")
    x = torch.ones(4)

    def caught(call: Callable[..., Any], kind: type[BaseException]) -> list[str]:
        texts = []
        for _ in range(5):
            with pytest.raises(kind) as error:
                call(x)
            texts.append(str(error.value))
        return texts

    backend_errors, program_errors, good, _ = together(
        lambda: caught(broken, Exception),
        lambda: caught(wrong, KeyError),
        lambda: [right(x, 3) for _ in range(20)],
        lambda: [right(x, 4) for _ in range(20)],
    )
    assert all("never works" in text for text in backend_errors)
    assert program_errors == ["'four'"] * 5
    assert all(torch.equal(result, work(x, 3)) for result in good)


def test_reset_while_others_run() -> None:
    compiled = stator.compile(work, backend="eager")
    x = torch.ones(4)

    def resets() -> None:
        for _ in range(20):
            stator.reset()

    results = together(resets, lambda: [compiled(x, 3) for _ in range(50)], lambda: [compiled(x, 5) for _ in range(50)])
    assert all(torch.equal(result, work(x, 3)) for result in results[1])
    assert all(torch.equal(result, work(x, 5)) for result in results[2])


def test_keyboard_interrupt_in_a_backend() -> None:
    attempts: list[int] = []

    def interrupted(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        attempts.append(1)
        if len(attempts) == 1:
            signal.raise_signal(signal.SIGINT)
        return module.forward

    log: list[str] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        log.append("called")
        return x * 5

    compiled = stator.compile(program, backend=interrupted)
    x = torch.ones(3)
    with pytest.raises(KeyboardInterrupt):
        compiled(x)
    log.clear()
    before = graph_calls()
    assert torch.equal(compiled(x), x * 5)
    assert torch.equal(compiled(x), x * 5)
    assert log == ["called", "called"]
    assert graph_calls() - before == 2


def test_keyboard_interrupt_in_the_middle_of_a_capture() -> None:
    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        total = 0
        y = x + 1
        while total < n:
            total += 1
        return y * total

    compiled = stator.compile(program, backend="eager")
    x = torch.ones(3)
    signal.setitimer(signal.ITIMER_REAL, 0.02)

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    outer = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            while True:
                stator.reset()
                compiled(x, 100_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer)
    before = graph_calls()
    assert torch.equal(compiled(x, 3), program(x, 3))
    assert torch.equal(compiled(x, 3), program(x, 3))
    assert graph_calls() - before >= 2
