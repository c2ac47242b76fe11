"""torch's own context managers and global state: entered inside, set outside, kept over breaks."""

import contextlib
import warnings

import torch

from tests.python.programs import Case, leaf, mat, program, vec


@program(full=2)
def autocast_cpu():
    def f(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = x @ y
        return z, z + 1, torch.is_autocast_enabled("cpu")

    return Case(f, mat(3, 4), mat(4, 3))


@program(full=2)
def autocast_nested_and_disabled():
    def f(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ y
            with torch.autocast("cpu", enabled=False):
                b = x @ y
            c = x @ y
        return a, b, c

    return Case(f, mat(3, 4), mat(4, 3))


@program()
def autocast_as_decorator():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def g(x, y):
        return x @ y

    def f(x, y):
        return g(x, y), x @ y

    return Case(f, mat(3, 4), mat(4, 3))


@program()
def autocast_around_a_break():
    def f(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ y
            print("inside", a.dtype)
            b = x @ y
        return a + b, x @ y

    return Case(f, mat(3, 4), mat(4, 3))


@program()
def device_context():
    def f(x):
        with torch.device("cpu"):
            a = torch.ones(2)
        with torch.device("meta"):
            b = torch.ones(2)
        return a + x[0], b.device.type

    return Case(f, vec())


@program()
def grad_mode_object_kept_and_used_twice():
    def f(x):
        mode = torch.no_grad()
        with mode:
            a = x * 2
        with mode:
            b = x * 3
        return a, b, x * 4

    return Case(f, leaf(vec()))


@program()
def grad_mode_passed_in():
    def f(x, mode):
        with mode:
            a = x * 2
        return a, x * 3

    return Case(f, leaf(vec()), torch.no_grad()).changing(leaf(vec()), torch.enable_grad())


@program()
def grad_mode_through_own_manager():
    @contextlib.contextmanager
    def frozen(flag):
        with torch.set_grad_enabled(not flag):
            yield

    def f(x, flag):
        with frozen(flag):
            a = x * 2
        return a, x * 3

    return Case(f, leaf(vec()), True).changing(leaf(vec()), False)


@program()
def grad_mode_left_by_exception():
    def f(x):
        try:
            with torch.no_grad():
                a = x * 2
                raise ValueError
        except ValueError:
            b = x * 3
        return a, b

    return Case(f, leaf(vec()))


@program()
def grad_mode_left_by_uncaught_exception():
    def f(x):
        with torch.no_grad():
            a = x * 2
            raise ValueError(a)

    return Case(f, leaf(vec()))


@program()
def grad_mode_entered_by_hand():
    def f(x):
        mode = torch.no_grad()
        mode.__enter__()
        a = x * 2
        mode.__exit__(None, None, None)
        return a, x * 3

    return Case(f, leaf(vec()))


@program()
def exit_stack_of_modes():
    def f(x):
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
            a = x @ x.t()
        return a, x @ x.t()

    return Case(f, leaf(mat()))


@program()
def profiler_range():
    def f(x):
        with torch.profiler.record_function("region"):
            y = x * 2
        return y + 1

    return Case(f, vec())


@program()
def sdpa_kernel_choice():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def f(q):
        with sdpa_kernel(SDPBackend.MATH):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    return Case(f, mat(6, 4).reshape(1, 2, 3, 4))


@program()
def deterministic_flag():
    def inner(x):
        if torch.are_deterministic_algorithms_enabled():
            return x + 1
        return x - 1

    def f(x, flag):
        torch._C._set_deterministic_algorithms(flag, warn_only=False)
        return inner(x)

    return Case(f, vec(), False).then_call(vec(), True).then_call(vec(), False)


@program()
def warnings_inside():
    def f(x):
        y = x + 1
        warnings.warn("watch out", UserWarning, stacklevel=1)
        warnings.warn("caller", DeprecationWarning, stacklevel=2)
        return y * 2

    return Case(f, vec())


@program()
def warnings_caught_inside():
    def f(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("inside")
            y = x + 1
        return y, [str(w.message) for w in caught]

    return Case(f, vec())


@program()
def torch_function_mode():
    from torch.overrides import TorchFunctionMode

    calls = []

    class Logging(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append(getattr(func, "__name__", "?"))
            return func(*args, **(kwargs or {}))

    def f(x):
        with Logging():
            y = torch.relu(x + 1)
        return y * 2

    return Case(f, vec()).watching(calls)


@program()
def temporary_attribute():
    class Settings:
        level = 1

    settings = Settings()

    @contextlib.contextmanager
    def level(n):
        before = settings.level
        settings.level = n
        try:
            yield settings
        finally:
            settings.level = before

    def f(x):
        with level(3) as s:
            y = x * s.level
            print("in", s.level)
            y = y * settings.level
        return y + settings.level

    return Case(f, vec()).watching(settings)


@program()
def redirect_output():
    import io

    def f(x):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            print("hidden")
            y = x + 1
        return y, out.getvalue()

    return Case(f, vec())


@program()
def context_variable():
    import contextvars

    setting = contextvars.ContextVar("setting", default=1)

    def f(x):
        token = setting.set(5)
        y = x + setting.get()
        setting.reset(token)
        return y * setting.get()

    return Case(f, vec())


@program()
def state_set_between_calls():
    def f(x):
        return x * 2, torch.is_grad_enabled(), torch.get_default_dtype(), torch.ones(1)

    def outer(x, grad, dtype):
        torch.set_default_dtype(dtype)
        with torch.set_grad_enabled(grad):
            out = f(x)
        torch.set_default_dtype(torch.float32)
        return out

    case = Case(outer, leaf(vec()), True, torch.float32)
    return case.then_call(leaf(vec()), False, torch.float32).then_call(leaf(vec()), True, torch.float64)
