"""Exceptions and with."""

import contextlib
import sys
import traceback

from tests.python.driver_programs.common import Loud, Manager, program


@program
def try_except_else_finally():
    log = []
    for v in (0, 1, 2):
        try:
            log.append(1 // v)
            if v == 2:
                raise KeyError(v)
        except ZeroDivisionError as e:
            log.append(str(e))
        except (KeyError, ValueError) as e:
            log.append(e.args)
        else:
            log.append("else")
        finally:
            log.append("finally")
    return log


@program
def finally_overrides_return():
    def f():
        for i in range(3):
            try:
                return i
            finally:
                if i < 2:
                    continue

    def g():
        try:
            return 1
        finally:
            return 2

    def h():
        try:
            raise ValueError
        finally:
            return "swallowed"

    return f(), g(), h()


@program
def bare_raise():
    try:
        try:
            raise KeyError("k")
        except KeyError:
            raise
    except KeyError as e:
        return e.args


@program
def bare_raise_uncaught():
    try:
        raise KeyError("k")
    except KeyError:
        x = 1
        raise


@program
def bare_raise_in_callee():
    def again():
        raise

    try:
        raise ValueError("v")
    except ValueError:
        again()


@program
def bare_raise_without_exception():
    raise


@program
def raise_from():
    try:
        1 / 0
    except ZeroDivisionError as e:
        raise ValueError("bad") from e


@program
def raise_from_none():
    try:
        1 / 0
    except ZeroDivisionError:
        raise ValueError("bad") from None


@program
def raise_from_class():
    raise ValueError("v") from KeyError


@program
def implicit_context():
    try:
        {}["a"]
    except KeyError:
        [][0]


@program
def context_chain():
    try:
        try:
            raise KeyError(1)
        except KeyError:
            try:
                raise ValueError(2)
            finally:
                raise TypeError(3)
    except TypeError as e:
        return [type(c).__name__ for c in (e, e.__context__, e.__context__.__context__)]


@program
def raise_forms():
    class Weird(Exception):
        def __new__(cls):
            return 5

    r = []
    for f in (
        lambda: exec("raise 5"),
        lambda: exec("raise int"),
        lambda: exec("raise ValueError from 5"),
        lambda: exec("raise KeyError()"),
        lambda: exec("raise KeyError"),
        lambda: (_ for _ in ()).throw(5),
    ):
        try:
            f()
        except BaseException as e:
            r.append((type(e).__name__, str(e)))
    try:
        raise Weird
    except TypeError as e:
        r.append("calling" in str(e))
    return r


@program
def exception_name_is_unbound_after():
    try:
        raise ValueError
    except ValueError as e:
        pass
    try:
        e
    except UnboundLocalError as err:
        return str(err)


@program
def catching_non_exceptions():
    try:
        try:
            raise ValueError("v")
        except 5:
            pass
    except TypeError as e:
        return str(e), type(e.__context__).__name__


@program
def catching_non_exceptions_in_tuple():
    try:
        raise ValueError("v")
    except (KeyError, "x"):
        pass


@program
def nested_handlers_exc_info():
    r = []

    def now():
        return sys.exc_info()[0] and sys.exc_info()[0].__name__

    try:
        raise KeyError
    except KeyError:
        r.append(now())
        try:
            raise ValueError
        except ValueError:
            r.append(now())
            (lambda: r.append(now()))()
        r.append(now())
    r.append(now())
    return r


@program
def handler_in_loop_with_continue():
    r = []
    for i in range(4):
        try:
            if i % 2:
                raise IndexError(i)
            r.append(i)
        except IndexError as e:
            r.append(e.args)
            continue
        finally:
            r.append("f")
            if i == 2:
                break
    return r, sys.exc_info()


@program
def exception_through_frames():
    def a():
        b()

    def b():
        c()

    def c():
        raise OSError("deep")

    a()


@program
def exception_in_comprehension():
    return [1 // (2 - i) for i in range(5)]


# fmt: off
@program
def exception_multi_line_expression():
    x = {"a": {"b": None}}
    return (x["a"]
            ["b"]
            ["c"])
# fmt: on


# fmt: off
@program
def exception_in_operator_method():
    class K:
        def __add__(self, o):
            raise ArithmeticError("add")

    return (1 +
            2) + (K() + 3)
# fmt: on


@program
def exception_in_property(x):
    class K:
        @property
        def p(self):
            raise AttributeError("inner")

        def __getattr__(self, name):
            if name == "q":
                return "from getattr"
            raise AttributeError(name)

    try:
        K().p
    except AttributeError as e:
        return e.args, K().q


@program
def reraise_keeps_first_line():
    try:
        int("x")
    finally:
        y = 1


@program
def reraise_moves_the_frame_back():
    log = []

    def f():
        with Manager(log):
            a = 1
            int("x")
        return a

    try:
        f()
    except ValueError as e:
        frame = e.__traceback__.tb_next.tb_frame
        return frame.f_lineno - frame.f_code.co_firstlineno, frame.f_lasti > 0


@program
def with_reraise_line():
    log = []
    with Manager(log):
        z = 1
        int("y")


@program
def exception_attributes():
    class E(Exception):
        def __init__(self, a, b):
            super().__init__(a)
            self.b = b

        def __str__(self):
            return f"E({self.b})"

    raise E(1, b=2)


@program
def exception_notes():
    e = ValueError("v")
    e.add_note("a note")
    raise e


@program
def except_star():
    log = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), ExceptionGroup("h", [ValueError(3), KeyError(4)])])
    except* ValueError as e:
        log.append(("v", [x.args for x in e.exceptions if not isinstance(x, ExceptionGroup)]))
    except* (TypeError, KeyError) as e:
        log.append(("t", len(e.exceptions)))
    return log, sys.exc_info()


@program
def except_star_leaves_rest():
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError:
        pass


@program
def except_star_naked():
    try:
        raise ValueError(1)
    except* ValueError as e:
        r = type(e).__name__, e.message, e.exceptions[0].args
    return r


@program
def except_star_raises_new():
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), OSError(3)])
    except* ValueError:
        raise KeyError("new")
    except* TypeError as e:
        raise


@program
def except_star_rejects_groups():
    try:
        try:
            raise ValueError(1)
        except* ExceptionGroup:
            pass
    except TypeError as e:
        return str(e)


@program
def except_star_no_match():
    try:
        raise KeyError(1)
    except* ValueError:
        pass


@program
def base_exceptions():
    r = []
    for kind in (SystemExit, KeyboardInterrupt, GeneratorExit):
        try:
            try:
                raise kind(3)
            except Exception:
                r.append("wrong")
        except BaseException as e:
            r.append((type(e).__name__, e.args))
    return r


@program
def traceback_objects():
    def f():
        raise ValueError

    try:
        f()
    except ValueError as e:
        tb = e.__traceback__
        return [
            (fs.name, fs.lineno - traceback_objects.__code__.co_firstlineno) for fs in traceback.extract_tb(tb)
        ], tb.tb_frame.f_code.co_name


@program
def traceback_positions():
    def f(d):
        return d["a"]["b"]["missing"] + 1

    f({"a": {"b": {}}})


@program
def with_statements():
    log = []
    with Manager(log, "a") as a, Manager(log, "b") as b:
        log.append((a, b))
    with Manager(log, "c", swallow=True):
        raise KeyError("swallowed")
    return log


@program
def with_exceptions():
    log = []
    try:
        with Manager(log, "a"):
            with Manager(log, "b", fail_exit=True):
                raise KeyError("body")
    except RuntimeError as e:
        log.append((str(e), repr(e.__context__)))
    try:
        with Manager(log, "c", fail_enter=True):
            log.append("never")
    except RuntimeError as e:
        log.append(str(e))
    return log


@program
def with_return_break_continue():
    log = []

    def f():
        for i in range(3):
            with Manager(log, i):
                if i == 0:
                    continue
                if i == 1:
                    return i

    def g():
        while True:
            with Manager(log, "w"):
                break
        return "g"

    return f(), g(), log


@program
def with_protocol_errors():
    class OnlyEnter:
        def __enter__(self):
            return 1

    class OnlyExit:
        def __exit__(self, *a):
            pass

    r = []
    for cm in (5, OnlyEnter(), OnlyExit()):
        try:
            with cm:
                pass
        except TypeError as e:
            r.append(str(e))
    return r


@program
def with_contextlib():
    @contextlib.contextmanager
    def cm(log):
        log.append("in")
        try:
            yield 5
        except ValueError as e:
            log.append(str(e))
        finally:
            log.append("out")

    log = []
    with cm(log) as v:
        log.append(v)
        raise ValueError("inside")
    with contextlib.suppress(KeyError), contextlib.ExitStack() as s:
        s.callback(log.append, "callback")
        {}["k"]
    return log


@program
def with_releases_manager():
    Loud.log = log = []

    class M(Loud):
        def __enter__(self):
            return None

        def __exit__(self, *a):
            return True

    with M("m"):
        log.append("body")
        raise ValueError
    log.append("end")
    return log
