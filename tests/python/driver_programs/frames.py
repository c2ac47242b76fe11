"""Frames as the program sees them, lifetimes, threads and signals."""

import gc
import inspect
import io
import sys
import warnings
import weakref

from tests.python.driver_programs.common import Loud, program


@program
def getframe_sees_caller():
    def callee():
        f = sys._getframe(1)
        return (
            f.f_code.co_name,
            f.f_lineno - getframe_sees_caller.__code__.co_firstlineno,
            sorted(k for k in f.f_locals if k != "callee"),
        )

    a = 1
    r = callee()
    b = 2
    return r, callee(), a, b


@program
def inspect_stack():
    def f():
        return [(i.function, i.lineno - inspect_stack.__code__.co_firstlineno) for i in inspect.stack()[:2]]

    return f()


@program
def frame_locals_of_generator():
    def g():
        a = 1
        yield sys._getframe().f_locals.copy()
        b = 2
        yield sys._getframe().f_locals.copy()

    it = g()
    # 3.13.0 crashes by itself where a proxy outlives the generator
    return next(it), dict(it.gi_frame.f_locals), next(it)


@program
def frame_object_outlives_call():
    def f(a):
        b = a + 1
        return sys._getframe()

    fr = f(1)
    r = fr.f_locals, fr.f_lineno - frame_object_outlives_call.__code__.co_firstlineno, fr.f_back
    fr.clear()
    return r, fr.f_locals


@program
def frame_in_traceback_keeps_locals():
    def f(a):
        b = a * 2
        raise ValueError

    try:
        f(4)
    except ValueError as e:
        return e.__traceback__.tb_next.tb_frame.f_locals


@program
def clear_of_running_frame():
    try:
        sys._getframe().clear()
    except RuntimeError as e:
        return str(e)


@program
def warnings_name_the_line():
    def f():
        warnings.warn("here")
        warnings.warn("caller", stacklevel=2)

    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        f()
    return [x.lineno - warnings_name_the_line.__code__.co_firstlineno for x in w]


@program
def settrace_in_the_middle():
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "traced":
            events.append((event, frame.f_lineno - settrace_in_the_middle.__code__.co_firstlineno))
        return tracer

    def traced(n):
        a = n + 1
        return a

    traced(0)
    sys.settrace(tracer)
    traced(1)
    sys.settrace(None)
    traced(2)
    return events


@program
def setprofile_in_the_middle():
    events = []

    def f():
        return len("abc")

    def prof(frame, event, arg):
        events.append((event, frame.f_code.co_name))

    sys.setprofile(prof)
    f()
    sys.setprofile(None)
    return events


# fmt: off
@program
def lambda_line_numbers():
    f = (
        lambda:
        1 / 0
    )
    f()
# fmt: on


@program
def del_timing():
    Loud.log = log = []
    a = Loud("a")
    log.append(1)
    a = Loud("b")
    log.append(2)
    del a
    log.append(3)
    Loud("temp")
    log.append(4)
    [Loud("in list"), 1][1]
    log.append(5)
    x, y = Loud("x"), Loud("y")
    x = y = None
    log.append(6)
    return log


@program
def locals_die_at_return():
    Loud.log = log = []

    def f():
        a = Loud("a")  # noqa: F841
        b = Loud("b")  # noqa: F841
        return log.append("returning")

    f()
    log.append("returned")
    return log


@program
def operands_die_in_order():
    Loud.log = log = []

    class V(Loud):
        def __add__(self, o):
            log.append("add")
            return 5

        def __getitem__(self, k):
            log.append("item")
            return 6

        def __setitem__(self, k, v):
            log.append("setitem")

        def __lt__(self, o):
            log.append("lt")
            return True

        def __contains__(self, o):
            log.append("contains")
            return True

    V("l") + V("r")
    V("c")[V("k")]
    V("c2")[V("k2")] = V("v2")
    V("l3") < V("r3")
    V("l4") in V("r4")
    V("l5") is V("r5")
    return log


@program
def exception_frees_locals():
    Loud.log = log = []

    def f():
        a = Loud("a")  # noqa: F841
        raise ValueError

    try:
        f()
    except ValueError:
        log.append("caught")
    log.append("after")
    return log


@program
def loop_variable_lifetime():
    Loud.log = log = []
    for v in (Loud(str(i)) for i in range(3)):
        log.append("body")
    log.append("end")
    del v
    return log


@program
def weakrefs(x):
    class K:
        pass

    k = K()
    w = weakref.ref(k, lambda r: log.append("dead"))
    log = []
    alive = w() is k
    del k
    return alive, w(), log, weakref.ref(x)() is x


@program
def resurrecting():
    kept = []

    class K:
        def __del__(self):
            kept.append(self)

    k = K()
    del k
    return len(kept)


@program
def exception_in_del(x):
    class K:
        def __del__(self):
            raise ValueError("ignored")

    seen = []
    old = sys.unraisablehook
    sys.unraisablehook = lambda u: seen.append(str(u.exc_value))
    try:
        k = K()
        del k
    finally:
        sys.unraisablehook = old
    return seen


@program
def reference_cycles(x):
    Loud.log = log = []
    a = Loud("cycle")
    a.self = a
    a.x = x
    del a
    gc.collect()
    return log


@program
def input_is_passed_around(x):
    def f(v, *args, **kw):
        l = [v, v]
        d = {"v": v, **kw}
        for w in (v, *args):
            y = w
        try:
            raise ValueError(v)
        except ValueError as e:
            z = e.args[0]
        return y is z, len(l), sorted(d)

    g = (v for v in [x, x])
    return f(x, x, k=x), next(g) is x, [i for i in [x]][0] is x


@program
def input_escapes_by_exception(x):
    def f(v):
        raise KeyError(v.value)

    f(x)


@program
def printing():
    print("a", 1, sep="-")
    print("b", end="")
    buf = io.StringIO()
    print("c", file=buf)
    return buf.getvalue()


@program
def interactive_display():
    code = compile("1 + 1", "<display>", "single")
    exec(code, {})
    old = sys.displayhook
    sys.displayhook = lambda v: print("hook", v)
    try:
        exec(code, {})
    finally:
        sys.displayhook = old


@program
def threads():
    import threading

    r = []

    def work(n):
        t = 0
        for i in range(20000):
            t += i % n
        r.append(t)

    ts = [threading.Thread(target=work, args=(n,)) for n in (3, 5, 7)]
    for t in ts:
        t.start()
    for i in range(1000):
        pass
    for t in ts:
        t.join()
    return sorted(r)


@program
def signal_interrupts_loop():
    import signal

    def handler(num, frame):
        raise TimeoutError("alarm")

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        while True:
            pass
    except TimeoutError as e:
        return str(e)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@program
def keyboard_interrupt():
    import _thread

    try:
        _thread.interrupt_main()
        for i in range(10**6):
            i += 1
    except KeyboardInterrupt:
        return "interrupted"


@program
def async_exception_from_other_thread():
    import ctypes
    import threading

    me = threading.get_ident()
    t = threading.Timer(
        0.05, lambda: ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(me), ctypes.py_object(LookupError))
    )
    t.start()
    try:
        while True:
            pass
    except LookupError:
        t.join()
        return "got it"
