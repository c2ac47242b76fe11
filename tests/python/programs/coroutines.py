"""Coroutines and async generators: driven by hand, as an event loop would."""

import asyncio

from tests.python.programs import Case, program, vec


def _drive(coroutine, *answers):
    """What a loop does: sends answers for what is awaited; (values that came up, the result)."""
    asked, answer = [], None
    pending = list(answers)
    while True:
        try:
            asked.append(coroutine.send(answer))
        except StopIteration as stop:
            return asked, stop.value
        answer = pending.pop(0) if pending else None


class _Ask:
    def __init__(self, what):
        self.what = what

    def __await__(self):
        return (yield self.what)


@program(min_ops=3)
def coroutine_driven_by_hand():
    async def double(x, n):
        y = x * 2
        more = await _Ask(n)
        return y + more

    def f(x):
        asked, y = _drive(double(x, 3), 5)
        return y - 1, asked

    return Case(f, vec())


@program()
def coroutines_await_each_other():
    async def inner(x, n):
        return x + n + await _Ask(n)

    async def outer(x):
        total = x
        for n in range(3):
            total = await inner(total, n)
        return total

    def f(x):
        asked, y = _drive(outer(x), 1, 2, 3)
        return y * 2, asked

    return Case(f, vec())


@program()
def async_with_and_for():
    log = []

    class Manager:
        async def __aenter__(self):
            log.append("enter")
            return await _Ask("enter")

        async def __aexit__(self, kind, error, traceback):
            log.append(("exit", kind.__name__ if kind else None))
            return kind is ValueError

    class Count:
        def __init__(self, n):
            self.n = n

        def __aiter__(self):
            return self

        async def __anext__(self):
            if self.n == 0:
                raise StopAsyncIteration
            self.n -= 1
            return await _Ask(self.n)

    async def run(x):
        async with Manager() as value:
            x = x + value
            async for i in Count(3):
                x = x * 2 + i
            raise ValueError("inside")
        return x, [i async for i in Count(2)]

    def f(x):
        asked, (y, rest) = _drive(run(x), 7, 1, 2, 3, 4, 5)
        return y - 1, asked, rest, list(log)

    return Case(f, vec())


@program()
def async_generator():
    async def numbers(x, n):
        for i in range(n):
            sent = yield x + i
            if sent is not None:
                x = x + sent

    async def total(x):
        result = 0
        async for item in numbers(x, 3):
            result = result + item
        return result

    def f(x):
        asked, y = _drive(total(x))
        return y * 2, asked

    return Case(f, vec())


@program()
def asyncio_runs_it():
    async def work(x, n):
        await asyncio.sleep(0)
        return x + n

    async def main(x):
        results = await asyncio.gather(*(work(x, n) for n in range(3)))
        return sum(results)

    def f(x):
        return asyncio.run(main(x)) * 2

    return Case(f, vec())


@program()
def compiled_coroutine_function():
    async def work(x):
        y = x + 1
        z = await _Ask(y.shape[0])
        return y * z

    def f(x):
        return work(x)

    def call(x):
        return _drive(f(x), 3)

    return Case(call, vec())


@program()
def error_out_of_a_coroutine():
    async def work(x):
        y = x + 1
        await _Ask(1)
        raise KeyError(y.dim())

    def f(x):
        try:
            _drive(work(x))
        except KeyError as error:
            return x * 2, str(error)

    return Case(f, vec())


@program()
def closed_and_thrown_into():
    log = []

    async def work(x):
        try:
            await _Ask(1)
        except ValueError as error:
            log.append(str(error))
            x = x + 1
        finally:
            log.append("end")
        return x * 2

    def f(x):
        first = work(x)
        first.send(None)
        try:
            first.throw(ValueError("thrown"))
        except StopIteration as stop:
            y = stop.value
        second = work(x)
        second.send(None)
        second.close()
        return y, list(log)

    return Case(f, vec())
