"""The driver executes frames one instruction at a time; whatever a program can see of that has to be as in eager."""

import contextlib
import dis
import gc
import inspect
import io
import re
import subprocess
import sys
import textwrap
import traceback
import types

import pytest

from stator import _core
from tests.python.driver_programs import PROGRAMS, Thing, newer


@pytest.fixture(autouse=True, scope="module")
def frozen():
    """Collections look only at what is made from here on."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def without_addresses(text):
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def describe(exc, seen=()):
    if exc is None or id(exc) in seen:
        return None
    tb = exc.__traceback__
    lines = [(f.filename, f.name, f.lineno) for f in traceback.extract_tb(tb) if f.filename != __file__]
    seen = (*seen, id(exc))
    return (
        type(exc).__name__,
        without_addresses(repr(exc.args)),
        lines,
        exc.__suppress_context__,
        describe(exc.__cause__, seen),
        describe(exc.__context__, seen),
    )


def formatted(exc):
    """The traceback as a user sees it, without the runner's own frames."""
    tb = exc.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename == __file__:
        tb = tb.tb_next
    return without_addresses("".join(traceback.format_exception(type(exc), exc, tb)))


def observe(fn, call):
    """Runs the program by `call(fn, args)` and returns everything that can be compared."""
    x = Thing()
    args = (x,) if inspect.signature(fn).parameters else ()
    before = sys.getrefcount(x)
    out = io.StringIO()
    result = error = None
    with contextlib.redirect_stdout(out):
        try:
            result = without_addresses(repr(call(fn, args)))
        except BaseException as e:
            error = describe(e), formatted(e)
    if sys.getrefcount(x) != before:
        gc.collect()  # a traceback and its frames refer to each other
    return {"result": result, "error": error, "stdout": out.getvalue(), "references": sys.getrefcount(x) - before}


def eager(fn, args):
    return fn(*args)


def driven(**options):
    return lambda fn, args: _core.run_concrete(fn, args, **options)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_program(fn):
    observe(fn, eager)  # imports and caches of the standard library
    expected = observe(fn, eager)
    before = _core.driver_counters()["steps"]
    got = observe(fn, driven())
    assert _core.driver_counters()["steps"] > before
    assert got == expected
    assert _core.driver_counters()["depth_errors"] == 0
    assert not _core.hook_installed()


SLOW = {
    "threads",
    "very_deep_recursion",
    "signal_interrupts_loop",
    "async_exception_from_other_thread",
    "keyboard_interrupt",
    "recursion_error",
    "reference_cycles",
    "copy_and_pickle",
    "argparse_error",
    "ast_and_compile",
    "named_tuples_dataclasses_enums",
    "async_gather_and_cancel",
}


@pytest.mark.parametrize("fn", [p for p in PROGRAMS if p.__name__ not in SLOW], ids=lambda fn: fn.__name__)
def test_program_handed_to_cpython_in_its_middle(fn):
    """After k instructions each frame goes on natively: every offset is entered at some k."""
    expected = observe(fn, eager)
    for k in (*range(0, 40), 45, 50, 60, 75, 100, 150):
        assert observe(fn, driven(native_after=k)) == expected, k


@pytest.mark.parametrize("every", [2, 3, 5])
def test_programs_with_native_frames_between(every):
    for fn in PROGRAMS:
        if fn.__name__ not in SLOW:
            assert observe(fn, driven(every=every)) == observe(fn, eager), fn.__name__


def test_there_are_many_programs():
    assert len(PROGRAMS) >= 150


def test_every_opcode_is_executed():
    """Over all programs the driver meets every opcode there is."""
    met = set()
    names = {row["opcode"]: name for name, row in _core.opcode_table().items()}

    def collect(code):
        for i in _core.code_info(code):
            met.add(names[i["opcode"]])
        for c in code.co_consts:
            if isinstance(c, types.CodeType):
                collect(c)

    for fn in PROGRAMS:
        collect(fn.__code__)
    collect(compile("from math import *\nx: int = 1\ndel x\nclass K:\n  y = 1", "<m>", "exec"))
    collect(compile("1", "<s>", "single"))
    collect(compile(newer.SOURCE, "<n>", "exec"))
    missing = set(_core.opcode_table()) - met - {"CACHE", "EXTENDED_ARG"}
    assert not missing


def test_no_leaks():
    """Objects that the collector knows do not grow in number with runs."""
    quiet = [p for p in PROGRAMS if p.__name__ not in SLOW]
    grown = []
    for fn in quiet:
        counts = []
        for _ in range(4):
            observe(fn, driven())
            gc.collect()
            counts.append(len(gc.get_objects()))
        expected = []
        for _ in range(3):
            observe(fn, eager)
            gc.collect()
            expected.append(len(gc.get_objects()))
        if counts[3] - counts[1] > max(0, expected[2] - expected[0]):
            grown.append((fn.__name__, counts, expected))
    assert not grown


def test_singletons_keep_their_references():
    watched = [None, True, False, (), "", 0, 1, Exception, ValueError, KeyError, _core.NULL]
    quiet = [p for p in PROGRAMS if p.__name__ not in SLOW]
    for fn in quiet:
        observe(fn, driven())
    gc.collect()
    before = [sys.getrefcount(w) for w in watched]
    for _ in range(3):
        for fn in quiet:
            observe(fn, driven())
    gc.collect()
    after = [sys.getrefcount(w) for w in watched]
    for w, b, a in zip(watched, before, after, strict=True):
        assert abs(a - b) < 40, (w, b, a)


# --- Inlined frames that become real
NULL = _core.NULL


def off(f, op, arg=None, nth=0):
    return [i.offset for i in dis.get_instructions(f) if i.opname == op and (arg is None or i.argval == arg)][nth]


def call_site(f):
    """Where a call is entered that has its operands: before 3.12 an instruction prepares it."""
    return next(i.offset for i in dis.get_instructions(f) if i.opname in ("PRECALL", "CALL"))


def f(a, b):
    s = 0
    try:
        for i in range(3):
            s = s * 10 + a
        str("from the middle")
        with open("/dev/null") as fh:
            s = s + b
        if s > 100:
            raise ValueError(s)
    except ValueError as e:
        return ("caught", e.args, a, b)
    return s


def test_enter_in_mid_function():
    got = _core.run_pending([(f, off(f, "LOAD_GLOBAL", "str"), [5, 6, 777, 2], [])])
    assert got == ("caught", (783,), 5, 6)


def test_enter_in_loop_with_live_iterator():
    assert _core.run_pending([(f, off(f, "FOR_ITER"), [1, 2, 0], [iter([1, 1])])]) == 13


def g(x, *, y=1):
    z = x + y
    str(z)
    if z < 0:
        raise KeyError(z)
    return z * 2


def h(x):
    w = x + 1
    try:
        r = g(w)
    except KeyError as e:
        return "h caught %r" % e.args
    return r + w


@pytest.mark.parametrize("z, want", [(50, 107), (-5, "h caught -5")])
def test_caller_and_callee(z, want):
    before = _core.driver_counters()["inlined_materialised"]
    chain = [(h, call_site(h), [0, 7], []), (g, off(g, "LOAD_GLOBAL", "str"), [0, 0, z], [])]
    assert _core.run_pending(chain) == want
    assert _core.driver_counters()["inlined_materialised"] == before + 2


def test_traceback_of_materialised_frames():
    def top(v):
        r = h2(v)
        return r

    def h2(v):
        a = 1
        return g(v) + a

    chain = [
        (top, call_site(top), [1], []),
        (h2, call_site(h2), [1, 1], []),
        (g, off(g, "LOAD_GLOBAL", "KeyError"), [0, 0, -3], []),
    ]
    # The cells of `top`: h2 is a free variable.
    slots = top.__code__.co_varnames + top.__code__.co_freevars
    chain[0] = (top, chain[0][1], [1, NULL, top.__closure__[0]], []) if len(slots) == 3 else chain[0]
    with pytest.raises(KeyError) as info:
        _core.run_pending(chain)
    frames = [(t.name, t.line) for t in traceback.extract_tb(info.tb)][1:]
    assert frames == [("top", "r = h2(v)"), ("h2", "return g(v) + a"), ("g", "raise KeyError(z)")]


def test_callee_sees_materialised_callers():
    seen = []

    def look():
        frame = sys._getframe(1)
        while frame and frame.f_code.co_name != "test_callee_sees_materialised_callers":
            seen.append(
                (frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno, dict(frame.f_locals).get("v"))
            )
            frame = frame.f_back

    def inner(v):
        x = 1
        look()
        return x

    def outer(v):
        y = v
        return inner(y) + 1

    cell_look, cell_inner = (c for c in (inner.__closure__ + outer.__closure__))
    chain = [
        (outer, call_site(outer), [10, 10, cell_inner], []),
        (inner, min(off(inner, "PUSH_NULL"), off(inner, "LOAD_DEREF", "look")), [20, 1, cell_look], []),
    ]
    assert _core.run_pending(chain) == 2
    assert seen == [("inner", 2, 20), ("outer", 2, 10)]


def p(a):
    try:
        raise KeyError(a)
    except KeyError as e:
        str(type(sys.exc_info()[1]).__name__)
        if a:
            raise
        return e.args, sys.exc_info()[1]


def test_enter_inside_handler():
    err = ValueError("was being handled")
    where = off(p, "LOAD_GLOBAL", "str")
    assert _core.run_pending([(p, where, [0, err], [None], err)]) == (("was being handled",), err)
    assert sys.exc_info() == (None, None, None)
    with pytest.raises(ValueError) as info:
        _core.run_pending([(p, where, [1, err], [None], err)])
    assert info.value is err
    assert sys.exc_info() == (None, None, None)


def test_enter_with_our_cells():
    def c(a):
        n = a

        def inc():
            nonlocal n
            n += 1
            return n

        x = inc()
        return x + inc(), n

    cell = types.CellType(40)
    inner = types.FunctionType(
        next(k for k in c.__code__.co_consts if isinstance(k, types.CodeType)), globals(), "inc", None, (cell,)
    )
    names = list(c.__code__.co_varnames) + [v for v in c.__code__.co_cellvars if v not in c.__code__.co_varnames]
    slots = {"a": 0, "inc": inner, "x": NULL, "n": cell}
    # The NULL of a call lies behind the callable since 3.13.
    stack = [inner] if sys.version_info >= (3, 13) else []
    assert _core.run_pending([(c, off(c, "PUSH_NULL"), [slots[v] for v in names], stack)]) == (41 + 42, 42)


class Box:
    def __init__(self, v):
        self.v = v

    def __bool__(self):
        return bool(self.v)

    def __contains__(self, item):
        return item == self.v

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)

    def __iter__(self):
        return self

    def __next__(self):
        if self.v == 0:
            raise StopIteration
        self.v -= 1
        return self.v


def body_start(fn):
    return next(i["offset"] for i in _core.code_info(fn.__code__) if i["legal"])


def test_continuation_instance():
    def make(v):
        return Box(v).v

    box = Box.__new__(Box)
    chain = [
        (make, call_site(make), [0], []),
        (Box.__init__, body_start(Box.__init__), [box, 9], [], None, "push the instance", box),
    ]
    assert _core.run_pending(chain) == 9

    def bad_init(self):
        return 5

    chain[1] = (bad_init, body_start(bad_init), [box], [], None, "push the instance", box)
    with pytest.raises(TypeError, match=r"__init__\(\) should return None, not 'int'"):
        _core.run_pending(chain)


@pytest.mark.parametrize("v", [0, 1])
def test_continuation_truth(v):
    def invert(b):
        return not b, "end"

    def contains(b):
        return 1 in b

    def contains_not(b):
        return 1 not in b

    def branch(b):
        if b:
            return "yes"
        return "no"

    def both(b):
        return b and "second"

    box = Box(v)
    call = (Box.__bool__, body_start(Box.__bool__), [box], [])
    # What asks for the truth: since 3.13 an instruction of its own.
    if sys.version_info >= (3, 13):
        asks = dict.fromkeys(("not", "if", "and"), ("TO_BOOL", "push its truth"))
    elif sys.version_info >= (3, 12):
        asks = {"if": ("POP_JUMP_IF_FALSE", "branch"), "and": ("POP_JUMP_IF_FALSE", "branch")}
    else:
        asks = {"if": ("POP_JUMP_FORWARD_IF_FALSE", "branch"), "and": ("JUMP_IF_FALSE_OR_POP", "branch")}
    for fn, kind, stack in ((invert, "not", []), (branch, "if", []), (both, "and", [box])):
        opname, continuation = asks.get(kind, ("UNARY_NOT", "push its untruth"))
        assert _core.run_pending([(fn, off(fn, opname), [box], stack), (*call, None, continuation)]) == fn(box)
    member = (Box.__contains__, body_start(Box.__contains__), [box, 1], [])
    assert _core.run_pending(
        [(contains, off(contains, "CONTAINS_OP"), [box], []), (*member, None, "push its truth")]
    ) == contains(box)
    assert _core.run_pending(
        [(contains_not, off(contains_not, "CONTAINS_OP"), [box], []), (*member, None, "push its untruth")]
    ) == contains_not(box)


def test_continuation_discard():
    def store(b):
        b.v = 5
        return b.v

    box = Box(1)
    chain = [
        (store, off(store, "STORE_ATTR"), [box], []),
        (Box.__setattr__, body_start(Box.__setattr__), [box, "v", 6], [], None, "discard"),
    ]
    assert _core.run_pending(chain) == 6


def test_iterator_method_in_for_loop():
    def loop(b):
        r = []
        for i in b:
            r.append(i)
        return r

    for v, want in ((3, [2, 1, 0]), (0, [])):
        box = Box(v)
        chain = [(loop, off(loop, "FOR_ITER"), [box, []], [box]), (Box.__next__, body_start(Box.__next__), [box], [])]
        assert _core.run_pending(chain) == want


def test_materialised_frames_hold_no_extra_references():
    def callee(a):
        before = sys.getrefcount(a)
        del a
        return before

    def caller(a):
        return callee(a)

    watched = object()
    chain = [
        (caller, call_site(caller), [None, caller.__closure__[0]], []),
        (callee, body_start(callee), [watched], []),
    ]
    count = sys.getrefcount(watched)
    _core.run_pending(chain)
    assert sys.getrefcount(watched) == count


def test_suspended_generator():
    def gen(n):
        total = 0
        for i in range(n):
            got = yield i
            total += got
        return total

    it = _core.make_suspended_generator((gen, off(gen, "YIELD_VALUE"), [5, 100, 1, NULL], [iter([7])]))
    assert inspect.getgeneratorstate(it) == inspect.GEN_SUSPENDED
    assert it.send(11) == 7
    with pytest.raises(StopIteration) as info:
        it.send(1)
    assert info.value.value == 112
    it = _core.make_suspended_generator((gen, 0, [2], []))
    assert inspect.getgeneratorstate(it) == inspect.GEN_CREATED
    assert next(it) == 0


def test_suspended_generator_in_handler():
    def gen():
        try:
            raise KeyError
        except KeyError:
            yield 1
            raise

    err = ValueError("handled")
    it = _core.make_suspended_generator((gen, off(gen, "YIELD_VALUE"), [], [None], err))
    with pytest.raises(ValueError) as info:
        next(it)
    assert info.value is err


# --- The hook
def test_hook_is_there_only_inside():
    seen = []
    _core.run_concrete(lambda: seen.append(_core.hook_installed()), ())
    assert seen == [True]
    assert not _core.hook_installed()


def test_hook_is_removed_after_errors():
    with pytest.raises(ZeroDivisionError):
        _core.run_concrete(lambda: 1 / 0, ())
    assert not _core.hook_installed()


def test_nested_runs():
    assert _core.run_concrete(lambda: _core.run_concrete(lambda a: a + 1, (1,)) + 1, ()) == 3


def test_skipped_code_runs_natively():
    def skipped():
        return sum(i for i in range(10))

    _core.skip_code(skipped.__code__)
    before = _core.driver_counters()
    assert _core.run_concrete(skipped, ()) == 45
    after = _core.driver_counters()
    assert after["native_frames"] == before["native_frames"] + 1


def test_tracing_runs_natively():
    events = []

    def traced(a):
        b = a + 1
        return b

    def tracer(frame, event, arg):
        if frame.f_code is traced.__code__:
            events.append(event)
        return tracer

    outer = sys.gettrace()
    sys.settrace(tracer)
    try:
        assert _core.run_concrete(traced, (1,)) == 2
    finally:
        sys.settrace(outer)
    assert events == ["call", "line", "line", "return"]


def test_ctrl_c_ends_a_driven_loop():
    code = """
        import os, signal, threading
        from stator import _core
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with it ignored
        def forever():
            while True: pass
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try: _core.run_concrete(forever, ())
        except KeyboardInterrupt: print("stopped")
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert run.stdout == "stopped\n", run.stdout + run.stderr


def test_recursion_through_c_in_a_small_thread():
    """A thread with a small stack: driving stops while there is room, and the program gets through."""
    code = """
        import sys, threading
        from stator import _core
        class K:
            def __init__(self, n): self.n = n
            def __getattr__(self, name): return 0 if self.n == 0 else 1 + K(self.n - 1).x
        sys.setrecursionlimit(20000)
        threading.stack_size(4 * 1024 * 1024)
        out = []
        t = threading.Thread(target=lambda: out.append(_core.run_concrete(lambda: K(1200).x, ())))
        t.start(); t.join()
        print(out, _core.driver_counters()["deep_frames"] > 0)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert run.stdout == "[1200] True\n" or run.stdout == "[1200] False\n", run.stdout + run.stderr
