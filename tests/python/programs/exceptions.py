"""Raising, catching, chaining, cleaning up; exceptions that leave the program."""

import contextlib

import torch

from tests.python.programs import Case, program, vec


class AppError(Exception):
    def __init__(self, code, detail):
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


class QuietError(AppError):
    pass


@program(full=2)
def caught_in_the_same_frame():
    def f(x):
        try:
            raise ValueError("no")
        except ValueError as error:
            return x + len(error.args), str(error), x * 2

    return Case(f, vec())


@program(full=2)
def caught_in_the_caller():
    def fail(x):
        y = x + 1
        raise KeyError("k", y.shape[0])

    def f(x):
        try:
            fail(x)
        except KeyError as error:
            return x * error.args[1], x + 1

    return Case(f, vec())


@program()
def leaves_the_program():
    def f(x):
        y = x + 1
        raise AppError(3, y)

    return Case(f, vec())


@program()
def leaves_from_three_calls_deep():
    def third(x):
        raise AppError(7, x * 2)

    def second(x):
        return third(x + 1)

    def first(x):
        return second(x + 1)

    def f(x):
        return first(x)

    return Case(f, vec())


@program()
def effects_before_the_exception_stay():
    seen = []

    def f(x, d):
        seen.append("before")
        d["k"] = x + 1
        x.add_(1)
        raise RuntimeError("after effects")

    return Case(f, vec(), {}).watching(seen)


@program(full=2)
def finally_runs_on_return():
    log = []

    def f(x):
        try:
            return x + 1
        finally:
            log.append("finally")
            x = x * 2
            log.append(x)

    return Case(f, vec()).watching(log)


@program(full=1)
def return_in_finally_wins():
    def f(x):
        try:
            raise ValueError("lost")
        finally:
            return x + 2

    return Case(f, vec())


@program()
def break_in_finally_drops_exception():
    def f(x):
        for i in range(3):
            try:
                x = x + 1
                raise ValueError(i)
            finally:
                break
        return x

    return Case(f, vec())


@program(full=2)
def else_and_finally():
    log = []

    def f(x):
        try:
            y = x + 1
        except ValueError:
            log.append("except")
        else:
            log.append("else")
            y = y * 2
        finally:
            log.append("finally")
        return y

    return Case(f, vec()).watching(log)


@program()
def exception_through_finally():
    log = []

    def f(x):
        try:
            try:
                x = x + 1
                raise ValueError("a")
            finally:
                log.append("inner")
        finally:
            log.append("outer")

    return Case(f, vec()).watching(log)


@program()
def bare_raise():
    def f(x):
        try:
            raise ValueError("again")
        except ValueError:
            x = x + 1
            raise

    return Case(f, vec())


@program()
def bare_raise_in_a_callee():
    def again():
        raise

    def f(x):
        try:
            raise ValueError("again")
        except ValueError:
            again()

    return Case(f, vec())


@program()
def bare_raise_without_exception():
    def f(x):
        y = x + 1
        raise

    return Case(f, vec())


@program()
def raise_from():
    def f(x):
        try:
            {}["missing"]
        except KeyError as error:
            raise AppError(1, x + 1) from error

    return Case(f, vec())


@program()
def raise_from_none():
    def f(x):
        try:
            {}["missing"]
        except KeyError:
            raise AppError(1, "hidden") from None

    return Case(f, vec())


@program()
def implicit_context():
    def f(x):
        try:
            [][1]
        except IndexError:
            int("x")

    return Case(f, vec())


@program(full=1)
def context_chain_as_values():
    def f(x):
        chain = []
        try:
            try:
                try:
                    raise ValueError(1)
                except ValueError:
                    raise KeyError(2)
            except KeyError as error:
                raise TypeError(3) from error
        except TypeError as error:
            while error is not None:
                chain.append((type(error).__name__, error.args, error.__suppress_context__))
                error = error.__cause__ or error.__context__
        return chain, x + 1

    return Case(f, vec())


@program()
def exception_as_returned_value():
    def f(x):
        try:
            raise AppError(2, x * 2)
        except AppError as error:
            return error

    return Case(f, vec())


@program(full=1)
def exception_made_not_raised():
    def f(x):
        return AppError(1, x + 1), ValueError("v")

    return Case(f, vec())


@program(full=2)
def user_exception_hierarchy():
    def f(x):
        out = []
        for cls in (AppError, QuietError):
            try:
                raise cls(5, x + 1)
            except QuietError as error:
                out.append(("quiet", error.detail))
            except AppError as error:
                out.append(("app", error.detail * error.code))
        return out

    return Case(f, vec())


@program(full=1)
def tuple_of_types():
    def f(x):
        out = []
        for make in (lambda: {}["k"], lambda: [][0], lambda: int("z")):
            try:
                make()
            except (KeyError, IndexError) as error:
                out.append(type(error).__name__)
            except ValueError as error:
                out.append(str(error))
        return out, x + 1

    return Case(f, vec())


@program()
def type_chosen_at_run_time():
    def f(x, expected):
        try:
            raise ValueError("v")
        except expected:
            return x + 1

    return Case(f, vec(), ValueError).changing(vec(), KeyError)


@program(full=1)
def name_is_deleted_after_except():
    def f(x):
        error = "before"
        try:
            raise ValueError
        except ValueError as error:
            pass
        try:
            error
        except UnboundLocalError as missing:
            return str(missing), x + 1

    return Case(f, vec())


@program(full=2)
def retry_loop():
    def f(x):
        tries = 0
        while True:
            try:
                tries += 1
                if tries < 3:
                    raise OSError(tries)
                return x + tries, tries
            except OSError:
                x = x * 2

    return Case(f, vec())


@program(full=2)
def nested_handlers_restore_exc_info():
    def f(x):
        names = []
        import sys

        try:
            raise ValueError
        except ValueError:
            try:
                raise KeyError
            except KeyError:
                names.append(sys.exc_info()[0].__name__)
            names.append(sys.exc_info()[0].__name__)
        names.append(sys.exc_info()[0])
        return names, x + 1, x * 2

    return Case(f, vec())


@program()
def exception_group():
    def f(x):
        out = []
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2), ValueError(3)])
        except* ValueError as group:
            out.append([e.args for e in group.exceptions])
            x = x + 1
        except* KeyError as group:
            out.append([e.args for e in group.exceptions])
            x = x * 2
        return out, x

    return Case(f, vec())


@program()
def exception_group_rest_is_raised():
    def f(x):
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError:
            x = x + 1

    return Case(f, vec())


@program(full=1)
def assertion_passes():
    def f(x):
        assert x.shape[0] == 4, "wrong length"
        return x + 1

    return Case(f, vec())


@program()
def assertion_fails():
    def f(x):
        y = x + 1
        assert y.shape[0] == 3, f"length {y.shape[0]}"
        return y

    return Case(f, vec())


@program()
def assertion_on_tensor_data():
    def f(x):
        assert (x < 5).all(), "too large"
        return x + 1

    return Case(f, vec()).changing(vec(40))


@program()
def shape_error_from_torch():
    def f(x, y):
        z = x * 2
        return z @ y

    return Case(f, torch.ones(2, 3), torch.ones(2, 3))


@program()
def shape_error_from_torch_caught():
    def f(x, y):
        z = x * 2
        try:
            return z @ y
        except RuntimeError as error:
            return str(error), z

    return Case(f, torch.ones(2, 3), torch.ones(2, 3))


@program()
def type_error_from_torch():
    def f(x):
        return torch.cat([x, "not a tensor"])

    return Case(f, vec())


@program()
def index_error_from_torch():
    def f(x):
        y = x + 1
        return y[17]

    return Case(f, vec())


@program()
def attribute_error_on_tensor():
    def f(x):
        y = x + 1
        return y.no_such_attribute

    return Case(f, vec())


@program()
def python_errors_leave():
    def f(x, what):
        y = x + 1
        if what == 0:
            return [][y.dim()]
        if what == 1:
            return {}["missing"]
        if what == 2:
            return 1 / 0
        if what == 3:
            return unknown_name  # noqa: F821
        if what == 4:
            return int("zz")
        if what == 5:
            return None.attribute
        if what == 6:
            return y()
        if what == 7:
            return "a" + 1
        if what == 8:
            a, b = (1, 2, 3)
        if what == 9:
            return len(3)
        return y

    case = Case(f, vec(), 0)
    for what in range(1, 11):
        case.then_call(vec(), what)
    return case


@program(full=1)
def suppress():
    def f(x):
        with contextlib.suppress(KeyError, IndexError):
            x = x + 1
            {}["missing"]
            x = x * 100
        return x

    return Case(f, vec())


@program()
def break_inside_try():
    log = []

    def f(x):
        try:
            y = x + 1
            print("in try")
            y = y * 2
            raise ValueError("v")
        except ValueError:
            y = y + 3
            print("in except")
            y = y * 4
        finally:
            y = y - 1
            print("in finally")
            log.append(y + 0)
        return y * 5

    return Case(f, vec()).watching(log)


@program()
def exception_state_visible_after_break_in_handler():
    def f(x):
        import sys

        try:
            raise ValueError("here")
        except ValueError:
            y = x + 1
            print("break", sys.exc_info()[1])
            y = y * 2
            try:
                raise
            except ValueError as error:
                return y, error.args

    return Case(f, vec())


@program()
def add_note_and_attributes():
    def f(x):
        try:
            raise ValueError("noted")
        except ValueError as error:
            error.add_note("first")
            error.extra = x + 1
            raise

    return Case(f, vec())


@program()
def exception_class_instead_of_instance():
    def f(x):
        x = x + 1
        raise AppError

    return Case(f, vec())


@program()
def raise_something_that_is_no_exception():
    def f(x):
        x = x + 1
        raise 42

    return Case(f, vec())


@program(full=1)
def stop_iteration_by_hand():
    def f(x):
        it = iter([x, x + 1])
        out = []
        while True:
            try:
                out.append(next(it))
            except StopIteration:
                break
        return out

    return Case(f, vec())


@program()
def exception_in_an_argument():
    def fail():
        raise ValueError("arg")

    seen = []

    def note(value):
        seen.append(value)
        return value

    def f(x):
        return torch.add(note(x + 1), fail(), alpha=note(2))

    return Case(f, vec()).watching(seen)


@program()
def exception_from_dunder():
    class Bad:
        def __add__(self, other):
            raise AppError(9, other)

        def __bool__(self):
            raise AppError(10, "bool")

    bad = Bad()

    def f(x, which):
        if which:
            return bad + (x + 1)
        return 1 if bad else x

    return Case(f, vec(), True).changing(vec(), False)


@program()
def handler_type_is_not_an_exception():
    def f(x):
        try:
            raise ValueError("v")
        except 3:
            return x

    return Case(f, vec())


@program()
def system_exit_passes():
    def f(x):
        try:
            x = x + 1
            raise SystemExit(3)
        except Exception:
            return x

    return Case(f, vec())


@program()
def runtime_error_inside_a_graph_shows_the_line():
    def f(x, index):
        y = x * 2
        z = y.index_select(0, index)
        return z + 1

    return Case(f, vec(), torch.tensor([0, 9]))


class _FailsWhenMade(Exception):
    def __init__(self, *args):
        raise RuntimeError("cannot be made")


def _raising(items):
    yield from items
    raise _FailsWhenMade  # noqa: RSE102


@program()
def an_exception_that_fails_when_it_is_made():
    def f(x):
        y = x + 1
        try:
            sum(_raising([1, 2]))
        except RuntimeError as e:
            return y, str(e)

    return Case(f, torch.ones(3))
