"""Lifetimes: finalisers, weak references, the order in which things go."""

import gc
import weakref

import torch

from tests.python.programs import Case, program, vec


class Watched:
    def __init__(self, log, name):
        self.log = log
        self.name = name

    def __del__(self):
        self.log.append(("del", self.name))


@program()
def local_dies_at_return():
    log = []

    def f(x):
        w = Watched(log, "local")
        log.append("made")
        return x + len(w.name)

    return Case(f, vec()).logging(log)


@program()
def explicit_del():
    log = []

    def f(x):
        w = Watched(log, "w")
        y = x + 1
        del w
        log.append("after del")
        return y * 2

    return Case(f, vec()).logging(log)


@program()
def rebinding_kills_the_old():
    log = []

    def f(x):
        w = Watched(log, 1)
        w = Watched(log, 2)
        log.append("rebound")
        w = None
        log.append("none")
        return x + 1

    return Case(f, vec()).logging(log)


@program()
def temporaries_die_at_once():
    log = []

    def f(x):
        n = Watched(log, "temporary").name
        log.append("next line")
        return x + len(n)

    return Case(f, vec()).logging(log)


@program()
def order_in_a_loop():
    log = []

    def f(x):
        for i in range(3):
            w = Watched(log, i)
            log.append(("body", i))
            x = x + i
        log.append("end")
        return x

    return Case(f, vec()).logging(log)


@program()
def loop_with_break_in_it():
    log = []

    def f(x):
        for i in range(3):
            w = Watched(log, i)
            print("round", i)
            x = x + i
        return x

    return Case(f, vec()).logging(log)


@program()
def popped_from_argument():
    log = []

    def f(x, items):
        items.pop()
        log.append("popped")
        items.clear()
        log.append("cleared")
        return x + 1

    return Case(f, vec(), [Watched(log, "a"), Watched(log, "b")]).logging(log)


@program()
def attribute_overwritten():
    log = []

    class Box:
        pass

    box = Box()
    box.w = Watched(log, "old")

    def f(x):
        box.w = Watched(log, "new")
        log.append("overwritten")
        return x + 1

    return Case(f, vec()).logging(log)


@program()
def returned_object_lives():
    log = []

    def f(x):
        w = Watched(log, "returned")
        w.x = x + 1
        return w

    return Case(f, vec()).logging(log)


@program()
def cycle_waits_for_the_collector():
    log = []

    def f(x):
        w = Watched(log, "cycle")
        w.me = w
        log.append("made")
        return x + 1

    return Case(f, vec()).logging(log)


@program()
def del_raises():
    class Bad:
        def __del__(self):
            raise ValueError("ignored")

    import sys

    seen = []

    def f(x):
        hook = sys.unraisablehook
        sys.unraisablehook = lambda info: seen.append(str(info.exc_value))
        try:
            Bad()
            return x + 1
        finally:
            sys.unraisablehook = hook

    return Case(f, vec()).watching(seen)


@program()
def del_runs_tensor_code():
    log = []

    class Adder:
        def __init__(self, x):
            self.x = x

        def __del__(self):
            log.append(self.x + 1)

    def f(x):
        a = Adder(x * 2)
        del a
        return log[-1] * 3

    return Case(f, vec()).logging(log)


@program()
def weak_reference_to_argument():
    class Thing:
        n = 3

    def f(x, thing):
        r = weakref.ref(thing)
        return x + r().n, r() is thing, r

    return Case(f, vec(), Thing())


@program()
def weak_reference_dies():
    class Thing:
        pass

    log = []

    def f(x):
        thing = Thing()
        r = weakref.ref(thing, lambda dead: log.append("callback"))
        alive = r() is thing
        del thing
        return x + 1, alive, r() is None

    return Case(f, vec()).logging(log)


@program()
def weak_reference_passed_in():
    class Thing:
        n = 2

    thing = Thing()

    def f(x, r):
        target = r()
        return x + (target.n if target is not None else 100)

    def kill(case):
        case.state = None

    return Case(f, vec(), weakref.ref(thing)).watching(thing).then(kill)


@program()
def weak_dictionaries():
    class Thing:
        pass

    registry = weakref.WeakValueDictionary()
    keys = weakref.WeakKeyDictionary()

    def f(x, thing):
        registry["t"] = thing
        keys[thing] = 5
        return x + len(registry) + keys[thing], "t" in registry

    return Case(f, vec(), Thing())


@program()
def weak_reference_to_tensor():
    def f(x):
        y = x + 1
        r = weakref.ref(y)
        same = r() is y
        del y
        return same, r() is None, x * 2

    return Case(f, vec())


@program()
def weak_reference_to_argument_tensor():
    def f(x, r):
        return r() is x, x + 1

    x = vec()
    return Case(f, x, weakref.ref(x))


@program()
def proxy():
    class Thing:
        n = 4

        def m(self, x):
            return x * self.n

    thing = Thing()
    p = weakref.proxy(thing)

    def f(x):
        return p.m(x) + p.n

    return Case(f, vec()).watching(thing)


@program()
def finalize():
    class Thing:
        pass

    log = []

    def f(x, thing):
        weakref.finalize(thing, log.append, "finalised")
        return x + 1

    return Case(f, vec(), Thing()).logging(log)


@program()
def weak_method():
    class Thing:
        def m(self):
            return 6

    thing = Thing()
    w = weakref.WeakMethod(thing.m)

    def f(x):
        return x + w()()

    return Case(f, vec()).watching(thing)


@program()
def collector_called_inside():
    log = []

    def f(x):
        w = Watched(log, "c")
        w.me = w
        del w
        gc.collect()
        log.append("collected")
        return x + 1

    return Case(f, vec()).logging(log)


@program()
def reference_counts_of_arguments():
    import sys

    def f(x, items):
        before = sys.getrefcount(items)
        alias = items
        return x + (sys.getrefcount(items) - before), alias is items

    return Case(f, vec(), [1])


@program()
def exception_keeps_frame_alive():
    log = []

    def fail():
        w = Watched(log, "in frame")
        raise ValueError("keeps")

    def f(x):
        try:
            fail()
        except ValueError as error:
            log.append("handler")
            kept = error
        log.append("after handler")
        del kept
        log.append("after del")
        return x + 1

    return Case(f, vec()).logging(log)


@program()
def generator_dropped_runs_finally():
    log = []

    def source():
        w = Watched(log, "in generator")
        try:
            yield 1
            yield 2
        finally:
            log.append("finally")

    def f(x):
        it = source()
        n = next(it)
        del it
        log.append("dropped")
        return x + n

    return Case(f, vec()).logging(log)


@program()
def closure_keeps_alive():
    log = []

    def f(x):
        w = Watched(log, "captured")

        def get():
            return w.name

        log.append("made")
        return get, x + 1

    return Case(f, vec()).logging(log)


@program()
def arguments_die_with_the_caller():
    log = []

    def f(x, w):
        w = None
        log.append("let go")
        return x + 1

    return Case(f, vec(), Watched(log, "argument")).logging(log)


@program()
def tensors_are_not_kept():
    refs = []

    def f(x):
        y = x + 1
        refs.append(weakref.ref(y))
        z = y * 2
        del y
        alive = refs[-1]() is not None
        return z, alive

    return Case(f, vec())


@program()
def modules_are_not_kept():
    def f(x):
        model = torch.nn.Linear(4, 2)
        r = weakref.ref(model)
        del model
        return x + 1, r() is None

    return Case(f, vec())


@program()
def resurrection():
    log = []
    saved = []

    class Phoenix:
        def __del__(self):
            log.append("del")
            saved.append(self)

    def f(x):
        p = Phoenix()
        del p
        return x + len(saved)

    return Case(f, vec()).logging(log)
