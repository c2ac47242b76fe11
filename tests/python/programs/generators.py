"""Generators: made inside, passed in half consumed, returned, sent to, thrown into, closed."""

import itertools

from tests.python.programs import Case, program, vec


@program(full=3)
def consumed_by_a_loop():
    def powers(x, n):
        y = x
        for _ in range(n):
            y = y * x
            yield y

    def f(x):
        total = x
        for y in powers(x, 3):
            total = total + y
        return total

    return Case(f, vec())


@program(full=3)
def generator_expression():
    def f(x):
        return sum(x * i for i in range(3))

    return Case(f, vec())


@program(full=2)
def list_of_generator():
    def pairs(x):
        yield x, 1
        yield x + 1, 2

    def f(x):
        return list(pairs(x)), tuple(y for y, _ in pairs(x))

    return Case(f, vec())


@program(full=2)
def yield_from():
    def inner(x):
        got = yield x + 1
        return got

    def outer(x):
        got = yield from inner(x)
        yield got

    def f(x):
        it = outer(x)
        first = next(it)
        return first, it.send(first * 2)

    return Case(f, vec())


@program(full=2)
def yield_from_list_and_return_value():
    def outer(items):
        result = yield from items
        return result, "done"

    def f(x):
        it = outer([x, x + 1])
        out = [next(it), next(it)]
        try:
            next(it)
        except StopIteration as stop:
            out.append(stop.value)
        return out, x * 2

    return Case(f, vec())


@program(full=3)
def send_values():
    def accumulate(x):
        total = x
        while True:
            got = yield total
            if got is None:
                return
            total = total + got

    def f(x):
        it = accumulate(x)
        next(it)
        it.send(x)
        it.send(x * 2)
        return it.send(1)

    return Case(f, vec())


@program(full=2)
def throw_is_caught_inside():
    def source(x):
        try:
            yield x
        except ValueError as error:
            yield x + error.args[0]
        yield x * 3

    def f(x):
        it = source(x)
        next(it)
        return it.throw(ValueError(5)), next(it)

    return Case(f, vec())


@program(full=1)
def throw_passes_through():
    def source(x):
        yield x
        yield x + 1

    def f(x):
        it = source(x)
        next(it)
        try:
            it.throw(KeyError("k"))
        except KeyError as error:
            result = error.args
        return result, list(it), x * 2

    return Case(f, vec())


@program(full=1)
def close_runs_finally():
    log = []

    def source(x):
        try:
            yield x + 1
        finally:
            log.append("closed")

    def f(x):
        it = source(x)
        y = next(it)
        it.close()
        it.close()
        return y, list(it)

    return Case(f, vec()).watching(log)


@program()
def dropped_generator_is_closed():
    log = []

    def source(x):
        try:
            yield x + 1
        except GeneratorExit:
            log.append("exit")
            raise

    def f(x):
        y = next(source(x))
        log.append("after")
        return y

    return Case(f, vec()).watching(log)


@program(full=1)
def exhausted_generator():
    def source(x):
        yield x

    def f(x):
        it = source(x)
        return list(it), list(it), next(it, "end"), x + 1

    return Case(f, vec())


@program()
def returned_unstarted():
    def f(x):
        def source():
            yield x + 1
            yield x + 2

        return source()

    return Case(f, vec())


@program(full=1)
def returned_half_consumed():
    def source(x):
        y = x + 1
        yield y
        yield y * 2

    def f(x):
        it = source(x)
        return next(it), it

    return Case(f, vec())


@program()
def returned_generator_expression():
    def f(x):
        return (x * i for i in range(3))

    return Case(f, vec())


@program()
def passed_in_half_consumed():
    def source():
        for i in range(10):
            yield i

    it = source()
    next(it)
    next(it)

    def f(x, it):
        return x + next(it), next(it)

    return Case(f, vec(), it)


@program()
def passed_in_and_exhausted():
    def source(x):
        yield x
        yield x * 2

    def f(x, it):
        return sum(it, x)

    return Case(f, vec(), source(vec()))


@program()
def passed_in_tensor_generator_with_zip():
    def source():
        for i in range(5):
            yield vec(4, float(i))

    def f(x, it):
        out = [a * b for a, b in zip([x, x + 1], it)]
        return out, next(it)

    return Case(f, vec(), source())


@program(full=4)
def infinite_generator():
    def naturals():
        n = 0
        while True:
            yield n
            n += 1

    def f(x):
        for n in naturals():
            x = x + n
            if n == 3:
                break
        return x

    return Case(f, vec())


@program(full=3)
def islice_of_infinite():
    def naturals():
        n = 1
        while True:
            yield n
            n += 1

    def f(x):
        return [x * n for n in itertools.islice(naturals(), 3)]

    return Case(f, vec())


@program()
def break_inside_a_generator():
    def source(x):
        for i in range(3):
            y = x + i
            print("yielding", i)
            yield y * 2

    def f(x):
        return sum(source(x))

    return Case(f, vec())


@program()
def break_between_generator_steps():
    def source(x):
        for i in range(3):
            yield x * i

    def f(x):
        total = x
        for y in source(x):
            print("got one")
            total = total + y
        return total

    return Case(f, vec())


@program(full=1)
def raise_inside_generator():
    def source(x):
        yield x + 1
        raise ValueError("inside")

    def f(x):
        out = []
        try:
            for y in source(x):
                out.append(y)
        except ValueError as error:
            out.append(str(error))
        return out

    return Case(f, vec())


@program()
def uncaught_raise_inside_generator():
    def source(x):
        yield x + 1
        raise ValueError("inside")

    def f(x):
        return list(source(x))

    return Case(f, vec())


@program(full=1)
def stop_iteration_inside_becomes_runtime_error():
    def source(x):
        yield x + 1
        raise StopIteration("early")

    def f(x):
        out = []
        try:
            for y in source(x):
                out.append(y)
        except RuntimeError as error:
            out.append((str(error), type(error.__cause__).__name__))
        return out

    return Case(f, vec())


@program(full=1)
def generator_already_executing():
    def f(x):
        def source():
            yield x + 1
            try:
                next(it)
            except ValueError as error:
                yield str(error)

        it = source()
        return list(it)

    return Case(f, vec())


@program(full=3)
def generator_method():
    class Tree:
        def __init__(self, value, *children):
            self.value = value
            self.children = children

        def __iter__(self):
            yield self.value
            for child in self.children:
                yield from child

    def f(x):
        tree = Tree(x, Tree(x + 1), Tree(x + 2, Tree(x + 3)))
        return [node for node in tree]

    return Case(f, vec())


@program(full=3)
def nested_generator_expressions():
    def f(x):
        return [list(x * i + j for j in range(2)) for i in range(2)]

    return Case(f, vec())


@program(full=2)
def generator_with_state_outside():
    seen = []

    def source(x):
        for i in range(2):
            seen.append(i)
            yield x + i

    def f(x):
        return list(source(x))

    return Case(f, vec()).watching(seen)


@program(full=2)
def any_and_all_stop_early():
    seen = []

    def source(x):
        for i in range(5):
            seen.append(i)
            yield i

    def f(x):
        a = any(i == 2 for i in source(x))
        b = all(i < 1 for i in source(x))
        return x + a, x * b

    return Case(f, vec()).watching(seen)


@program(full=2)
def unpacking_a_generator():
    def source(x):
        yield x + 1
        yield x + 2
        yield 3

    def f(x):
        a, *rest = source(x)
        b, c, d = source(x)
        return a, rest, b, c, d

    return Case(f, vec())


@program(full=1)
def unpacking_too_few():
    def source(x):
        yield x + 1

    def f(x):
        try:
            a, b = source(x)
        except ValueError as error:
            return str(error), x + 2

    return Case(f, vec())


@program(full=2)
def dict_and_set_from_generators():
    def f(x):
        d = dict((i, x * i) for i in range(2))
        s = set(i % 2 for i in range(5))
        return d, s, x + len(s)

    return Case(f, vec())


@program()
def generator_in_argument_list_grows():
    def f(x, items):
        for item in items:
            if len(items) < 4:
                items.append(item + 1)
            x = x + item
        return x

    return Case(f, vec(), [1, 2])


@program()
def coroutine_driven_by_hand():
    class Pause:
        def __await__(self):
            got = yield "paused"
            return got

    async def work(x):
        got = await Pause()
        return x + got

    def f(x):
        coroutine = work(x)
        first = coroutine.send(None)
        try:
            coroutine.send(3)
        except StopIteration as stop:
            return first, stop.value

    return Case(f, vec())


@program()
def async_generator_driven_by_hand():
    async def numbers(n):
        for i in range(n):
            yield i

    async def work(x):
        total = x
        async for i in numbers(3):
            total = total + i
        return total

    def f(x):
        coroutine = work(x)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value

    return Case(f, vec())


@program()
def generator_frame_attributes():
    def source(x):
        y = x + 1
        yield y

    def f(x):
        it = source(x)
        before = it.gi_running, it.gi_frame is None
        next(it)
        list(it)
        return before, it.gi_frame is None

    return Case(f, vec())


@program(min_ops=1)
def generator_inside_of_an_iterator_is_closed_where_the_loop_is_left():
    def f(x):
        log = []

        def numbers():
            try:
                for i in range(5):
                    yield x * i
            finally:
                log.append("closed")

        for around in (enumerate, lambda g: zip(g, [1, 2]), lambda g: map(lambda v: v, g)):
            for _ in around(numbers()):
                break
            log.append("left")
        return log, x + 1

    return Case(f, vec())
