"""Generators, coroutines, async iteration."""

import asyncio
import gc
import inspect
import itertools
import sys
import traceback
import types
import warnings

from tests.python.driver_programs.common import Loud, Manager, program


@program
def generator_basics():
    def g(n):
        for i in range(n):
            yield i
        return "done"

    it = g(3)
    r = [next(it), list(it)]
    try:
        next(it)
    except StopIteration as e:
        r.append(e.value)
    it = g(0)
    try:
        next(it)
    except StopIteration as e:
        r.append(e.value)
    return r


@program
def generator_send_throw_close():
    log = []

    def g():
        while True:
            try:
                v = yield "y"
                log.append(("got", v))
            except ValueError as e:
                log.append(("value", e.args))
                yield "handled"
            except GeneratorExit:
                log.append("closed")
                raise
            finally:
                log.append("finally")

    it = g()
    r = [next(it), it.send(1), it.throw(ValueError("t")), next(it)]
    it.close()
    return r, log, it.gi_frame


@program
def generator_throw_uncaught():
    def g():
        yield 1
        yield 2

    it = g()
    next(it)
    it.throw(KeyError("thrown"))


@program
def generator_throw_before_start():
    def g():
        yield 1

    g().throw(ValueError("early"))


@program
def generator_throw_kinds():
    def g():
        try:
            yield 1
        except BaseException as e:
            yield type(e).__name__, e.args

    r = []
    for kind in (ValueError, ValueError("a"), KeyError("k")):
        it = g()
        next(it)
        r.append(it.throw(kind))
    it = g()
    next(it)
    r.append(it.throw(ValueError, "msg"))
    return r


@program
def generator_send_errors():
    def g():
        yield 1

    r = []
    try:
        g().send(5)
    except TypeError as e:
        r.append(str(e))

    def selfish():
        yield next(it)

    it = selfish()
    try:
        next(it)
    except ValueError as e:
        r.append(str(e))
    return r


@program
def generator_stop_iteration_inside():
    def g():
        yield 1
        raise StopIteration("x")

    it = g()
    next(it)
    next(it)


@program
def generator_ignores_exit():
    def g():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    it = g()
    next(it)
    try:
        it.close()
    except RuntimeError as e:
        return str(e)


@program
def yield_from():
    def inner():
        a = yield 1
        b = yield a
        return a, b

    def outer():
        r = yield from inner()
        yield r
        yield from [7, 8]
        r = yield from iter("ab")
        yield r

    it = outer()
    return [next(it), it.send("A"), it.send("B"), list(it)]


@program
def yield_from_throw_and_close():
    log = []

    def inner():
        try:
            yield 1
        except KeyError as e:
            log.append(e.args)
            yield 2
        finally:
            log.append("inner finally")

    def outer():
        try:
            yield from inner()
        finally:
            log.append("outer finally")

    it = outer()
    r = [next(it), it.throw(KeyError("k"))]
    it.close()
    it = outer()
    next(it)
    try:
        it.throw(ValueError("through"))
    except ValueError as e:
        log.append(str(e))
    return r, log


@program
def yield_from_traceback():
    def a():
        yield 1
        raise ValueError("in a")

    def b():
        yield from a()

    def c():
        yield from b()

    list(c())


@program
def yield_from_non_generator():
    class It:
        def __iter__(self):
            return self

        def __next__(self):
            raise StopIteration("ret")

        def send(self, v):
            return "sent", v

        def throw(self, *a):
            return "thrown"

    def g():
        r = yield from It()
        yield r

    def h():
        yield from 5

    try:
        next(h())
    except TypeError as e:
        return list(g()), str(e)


@program
def yield_inside_try_with():
    log = []

    def g():
        with Manager(log, "g"):
            try:
                yield 1
                yield 2
            finally:
                log.append("fin")

    it = g()
    log.append(next(it))
    del it
    log.append("deleted")
    return log


@program
def yield_in_handler_and_exc_info():
    def g():
        try:
            raise KeyError("g")
        except KeyError:
            yield sys.exc_info()[0].__name__
            yield sys.exc_info()[0].__name__
        yield sys.exc_info()[0]

    r = []
    it = g()
    try:
        raise ValueError
    except ValueError:
        r.append(next(it))
        r.append(sys.exc_info()[0].__name__)
    r.append(next(it))
    r.append(next(it))
    r.append(sys.exc_info())
    return r


@program
def bare_raise_in_generator():
    def g():
        yield
        raise

    it = g()
    next(it)
    try:
        raise KeyError("outer")
    except KeyError:
        next(it)


@program
def generator_expression_errors():
    try:
        list(1 // i for i in (1, 0))
    except ZeroDivisionError as e:
        return str(e), [f.name for f in traceback.extract_tb(e.__traceback__)]


@program
def generator_finalizer_order():
    Loud.log = log = []

    def g():
        a = Loud("a")
        yield 1
        b = Loud("b")
        yield 2

    it = g()
    next(it)
    next(it)
    log.append("before")
    del it
    log.append("after")
    return log


@program
def generator_attributes():
    def g():
        yield 1

    it = g()
    r = [it.gi_running, it.gi_yieldfrom, inspect.getgeneratorstate(it), it.__name__]
    next(it)
    r += [inspect.getgeneratorstate(it), it.gi_frame.f_lineno - generator_attributes.__code__.co_firstlineno]
    list(it)
    return r + [inspect.getgeneratorstate(it)]


@program
def generator_running_flag():
    def g():
        yield it.gi_running, inspect.getgeneratorstate(it)

    it = g()
    return next(it)


@program
def nested_generators():
    def tree(n):
        if n:
            yield from tree(n - 1)
            yield n
            yield from tree(n - 1)

    return list(tree(4))


@program
def generator_pipeline():
    def source():
        for i in itertools.count():
            yield i

    def take(n, it):
        for _, v in zip(range(n), it):
            yield v

    return sum(v * v for v in take(5, source()) if v % 2)


@program
def generator_in_cycle_is_collected():
    Loud.log = log = []

    def g():
        me = holder  # noqa: F841
        keep = Loud("kept")  # noqa: F841
        yield

    holder = []
    it = g()
    holder.append(it)
    next(it)
    del it, holder
    gc.collect()
    return log


@program
def gc_during_generator():
    def g():
        a = [1]
        a.append(a)
        gc.collect()
        yield len(a)
        gc.collect()
        yield from (gc.collect() and 0 or v for v in (1, 2))

    return list(g())


@program
def coroutine_basics():
    async def add(a, b):
        return a + b

    async def main():
        return await add(1, 2), [await add(i, i) for i in range(3)]

    return asyncio.run(main())


@program
def coroutine_by_hand():
    @types.coroutine
    def trap(v):
        r = yield v
        return r

    async def f():
        a = await trap("first")
        try:
            b = await trap("second")
        except KeyError as e:
            b = e.args
        return a, b

    c = f()
    r = [c.send(None), c.send("A")]
    try:
        c.throw(KeyError("K"))
    except StopIteration as e:
        r.append(e.value)
    return r


@program
def coroutine_errors():
    async def f():
        await 5

    async def g():
        return 1

    class BadAwait:
        def __await__(self):
            return 5

    class CoroAwait:
        def __await__(self):
            c = g()
            keep.append(c)
            return c

    keep = []

    async def bad(v):
        return await v

    r = []
    for c in (f(), bad(BadAwait()), bad(CoroAwait())):
        try:
            c.send(None)
        except TypeError as e:
            r.append(str(e))
    for c in keep:
        c.close()
    c = g()
    try:
        c.send(None)
    except StopIteration:
        pass
    try:
        c.send(None)
    except RuntimeError as e:
        r.append(str(e))
    return r


@program
def coroutine_awaited_twice():
    @types.coroutine
    def trap():
        yield

    async def inner():
        await trap()

    async def outer(c):
        await c

    c = inner()
    first, second = outer(c), outer(c)
    first.send(None)
    try:
        second.send(None)
    except RuntimeError as e:
        r = str(e)
    first.close()
    return r


@program
def async_for_and_with():
    class It:
        def __init__(self, n):
            self.n = n

        def __aiter__(self):
            return self

        async def __anext__(self):
            if self.n == 0:
                raise StopAsyncIteration
            self.n -= 1
            await asyncio.sleep(0)
            return self.n

    class CM:
        async def __aenter__(self):
            log.append("in")
            return "v"

        async def __aexit__(self, *a):
            log.append(a[0] and a[0].__name__)
            return True

    log = []

    async def main():
        async for i in It(3):
            log.append(i)
        else:
            log.append("else")
        async with CM() as v:
            log.append(v)
            raise KeyError
        async with CM():
            pass
        return [i async for i in It(2) if i], {i: i async for i in It(2)}

    return asyncio.run(main()), log


@program
def async_protocol_errors():
    class BadAiter:
        def __aiter__(self):
            return 5

    class BadAnext:
        def __aiter__(self):
            return self

        def __anext__(self):
            return 5

    class BadEnter:
        def __aenter__(self):
            return 5

        async def __aexit__(self, *a):
            pass

    class NoExit:
        async def __aenter__(self):
            pass

    async def loop(v):
        async for i in v:
            pass

    async def use(v):
        async with v:
            pass

    r = []
    for c in (loop(5), loop(BadAiter()), loop(BadAnext()), use(5), use(BadEnter()), use(NoExit())):
        try:
            c.send(None)
        except TypeError as e:
            r.append((str(e), repr(e.__cause__)))
    return r


@program
def async_generators():
    log = []

    async def agen():
        try:
            for i in range(3):
                v = yield i
                if v:
                    log.append(v)
                await asyncio.sleep(0)
        finally:
            log.append("finally")

    async def main():
        r = [i async for i in agen()]
        g = agen()
        r.append(await g.__anext__())
        r.append(await g.asend("sent"))
        try:
            await g.athrow(KeyError("k"))
        except KeyError as e:
            r.append(e.args)
        g = agen()
        async for i in g:
            if i:
                break
        await g.aclose()
        return r

    return asyncio.run(main()), log


@program
def async_gather_and_cancel():
    log = []

    async def worker(n):
        try:
            for i in range(n):
                await asyncio.sleep(0)
                log.append((n, i))
            return n
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def main():
        t = asyncio.create_task(worker(100))
        r = await asyncio.gather(worker(2), worker(3))
        t.cancel()
        try:
            await t
        except asyncio.CancelledError:
            r.append("c")
        return r

    return asyncio.run(main()), log[-1]


@program
def async_comprehension_errors():
    async def f():
        return [await g(i) for i in range(3)]

    async def g(i):
        return 1 // (1 - i)

    asyncio.run(f())


@program
def coroutine_never_awaited():
    async def f():
        pass

    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        f()
        gc.collect()
    return [str(x.message) for x in w]
