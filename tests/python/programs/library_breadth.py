"""Small things of the library that programs use between tensors: typing, threading.local, weak references, warnings' filters, imports, modes."""

import collections.abc
import dataclasses
import functools
import importlib
import inspect
import itertools
import operator
import re
import sys
import threading
import types
import typing
import warnings
import weakref

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

import stator
from tests.python.programs import Case, program, vec


class Held:
    def __init__(self):
        self.number = 3


class Options(typing.TypedDict):
    scale: int
    name: str


_LOCAL = threading.local()


class Local(threading.local):
    """Each thread's first use runs __init__."""

    started: typing.ClassVar[list[str]] = []

    def __init__(self, scale):
        self.scale = scale
        self.started.append(threading.current_thread().name)


_HELD = Held()


@functools.lru_cache
def _of_types(kind, dtype, number=1):
    return (kind.__name__, str(dtype), number)


@program(full=1)
def typing_subscripts():
    def f(x):
        parts = typing.Dict[str, int], typing.Optional[int], typing.Callable[[int], str], typing.Union[int, str]
        return x + len(parts), typing.get_args(parts[0]), parts[1] == typing.Optional[int], repr(parts[2])

    return Case(f, vec())


@program(full=1)
def annotations_with_type_variables():
    def f(x):
        kind = typing.TypeVar("kind")

        def apply(function: typing.Callable[[kind], kind], value: kind) -> kind:
            return function(value)

        return apply(torch.sum, x), kind.__name__, kind.__module__

    return Case(f, vec())


@program(full=1)
def typed_dicts():
    def f(x):
        options = Options(scale=2, name="a")
        return x * options["scale"], options, type(options) is dict

    return Case(f, vec())


@program(full=1)
def cached_by_types():
    def f(x):
        return x + 1, _of_types(int, torch.float32), _of_types(str, torch.int64, number=2)

    _of_types.cache_clear()
    return Case(f, vec())


@program(full=1)
def thread_local_read_and_written():
    def f(x):
        before = getattr(_LOCAL, "seen", None)
        _LOCAL.seen = x
        _LOCAL.count = 5 - _LOCAL.count
        _LOCAL.extra = 1
        del _LOCAL.extra
        return x * _LOCAL.count, before is None, hasattr(_LOCAL, "missing"), hasattr(_LOCAL, "extra")

    _LOCAL.__dict__.clear()
    _LOCAL.count = 2
    return Case(f, vec()).watching(_LOCAL.__dict__)


@program(full=1)
def thread_local_with_its_own_init():
    local = Local(3)
    Local.started.clear()

    def f(x):
        y = x * local.scale
        local.scale = 7 - local.scale
        local.last = y
        return y + 1, hasattr(local, "missing")

    return Case(f, vec()).watching(local.__dict__, Local.started)


@program()
def thread_local_begun_inside():
    local = Local(2)
    Local.started.clear()

    def f(x):
        Local.started.append("f")
        y = x * local.scale
        Local.started.append("g")
        return y + local.scale

    def run(x):
        results = []
        thread = threading.Thread(target=lambda: results.extend([f(x), f(x)]), name="another")
        thread.start()
        thread.join()
        return results

    return Case(run, vec()).watching(Local.started)


@program(full=1)
def thread_local_error():
    def f(x):
        try:
            return x + _LOCAL.nothing_of_the_kind
        except AttributeError as error:
            return x - 1, str(error)

    return Case(f, vec())


@program(full=1)
def weak_references_made():
    def f(x, held):
        reference = weakref.ref(held)
        return x * reference().number, reference() is held, reference

    return Case(f, vec(), _HELD)


@program(full=1)
def namespaces_compared():
    def f(x):
        a, b = types.SimpleNamespace(n=1, t="x"), types.SimpleNamespace(n=1, t="x")
        c = types.SimpleNamespace(n=2)
        return x + 1, a == b, a != b, a == c, a != c, a == 3, a != None  # noqa: E711

    return Case(f, vec())


@program(full=1)
def warnings_filters_for_a_while():
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = x.sin()
        return y, len(warnings.filters) > 0

    return Case(f, vec())


@program(min_ops=2)
def warns_under_a_filter():
    def f(x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            y = x.sin()
            warnings.warn("one", stacklevel=1)
            z = y.cos()
        return z, len(seen), str(seen[0].message)

    return Case(f, vec())


@program(full=1)
def imports_by_name():
    def f(x):
        return x * importlib.import_module("math").pi, __import__("os.path").sep

    return Case(f, vec())


@program(full=1)
def matches_one_by_one():
    pattern = re.compile(r"(\w+)\.(\d+)")

    def f(x):
        total = 0
        for match in pattern.finditer("a.1 b.2 c.30"):
            total += int(match.group(2))
        return x + total, [m.group(0) for m in re.finditer("[a-c]", "abxc")]

    return Case(f, vec())


@program(full=3)
def accumulate_given_out():
    def f(x):
        parts = [x, x + 1, x * 2]
        return (
            itertools.accumulate(parts, initial=3),
            itertools.accumulate(parts, func=operator.mul),
            itertools.accumulate(parts, operator.sub, initial=x - 1),
        )

    return Case(f, vec())


@program(full=1)
def text_of_a_function_made_here():
    def f(x):
        def inner():
            return x

        return inner() + 1, "inner" in str(inner), f"{inner}".startswith("<function"), f"{inner!r:.9}"

    return Case(f, vec())


@program(full=2)
def cells_that_end_with_the_call():
    def f(x):
        y = x + 1
        z = y * 2

        def once():
            return y + z

        def both():
            return once() * z

        return both()

    return Case(f, vec())


@program(full=2)
def cells_of_functions_given_out():
    def f(x):
        y = x + 1
        kept = y * 2

        def inner():
            return kept

        def outer():
            return inner

        return y - 1, outer

    return Case(f, vec())


class Doubling(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.add else result


@program(full=2)
def modes_counted():
    def f(x):
        with Doubling():
            inside = torch._C._len_torch_function_stack()
            y = torch.add(x, 1)
        return y, inside, torch._C._len_torch_function_stack(), len(torch.overrides._get_current_function_mode_stack())

    return Case(f, vec())


@program(full=3)
def modes_pushed_and_popped():
    mode = Doubling()

    def f(x):
        torch._C._push_on_torch_function_stack(mode)
        y = torch.add(x, 1)
        popped = torch._C._pop_torch_function_stack()
        return y, popped is mode, torch.add(x, 1)

    return Case(f, vec())


@program(full=1)
def default_device_for_a_while():
    def f(x):
        torch.set_default_device("cpu")
        y = torch.ones(2) + x.sum()
        device = torch.get_default_device()
        torch.set_default_device(None)
        return y, device

    return Case(f, vec())


@program(full=2)
def deterministic_for_a_while():
    def f(x):
        before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True, warn_only=True)
        inside = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        y = x + 1
        torch.use_deterministic_algorithms(before)
        return y * 2, before, inside

    return Case(f, vec())


@dataclasses.dataclass(frozen=True)
class Pair:
    left: torch.Tensor
    right: torch.Tensor
    factors: list = dataclasses.field(default_factory=lambda: [5])
    bias: int = 3


@stator.allow_in_graph
def _of_pair(pair, *, times=1):
    return (pair.left + pair.right * pair.factors[0] + pair.bias) * times


@program(full=2)
def objects_made_here_for_an_allowed_function():
    def f(x):
        return _of_pair(Pair(x, x + 1)), x * 2

    return Case(f, vec())


@program(full=1)
def compiled_functions_are_functions():
    def inner(x):
        return x + 1

    compiled = stator.compile(inner, backend="eager")

    def f(x):
        return compiled(x), inspect.isfunction(compiled), isinstance(compiled, types.FunctionType)

    return Case(f, vec())


@program(full=2)
def array_with_an_output():
    def f(x):
        array = np.arange(4.0)
        out = np.empty(4)
        same = np.sin(array, out=out)
        return same is out, torch.from_numpy(out) + x, np.issubdtype(type(3), np.integer)

    return Case(f, vec())


class Table(collections.abc.MutableMapping):
    """A mapping of the program's own: its class has the __subclasshook__ of collections.abc."""

    def __init__(self, **items):
        self.items_ = items

    def __getitem__(self, key):
        return self.items_[key]

    def __setitem__(self, key, value):
        self.items_[key] = value

    def __delitem__(self, key):
        del self.items_[key]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)


@program(full=2)
def kinds_of_mappings():
    def f(x, table):
        kinds = [issubclass(type(v), Table) for v in (table, x, 1)]
        return x * 2 + table["a"], kinds, isinstance(table, collections.abc.Collection), isinstance([], Table)

    return Case(f, vec(), Table(a=1))


class Letters(str):
    def __lt__(self, other):
        return len(self) < len(other)

    def __eq__(self, other):
        return len(self) == len(other)

    __hash__ = str.__hash__


@program(full=1)
def letters_of_a_kind_of_text():
    def f(x, text):
        found = re.search(r"(\d+)\.(\d+)", text)
        return x + int(found.group(1)), re.sub(r"\d", "n", text), re.match("[a-z]", text), re.split(r"\.", text)

    return Case(f, vec(), Letters("2.13.0")).then_call(vec(), Letters("3.14"))


@program(full=1)
def type_variables_that_get_out():
    """Each call of the program makes its own."""

    def f(x, seen):
        one = typing.TypeVar("one", int, str)
        bounded = typing.TypeVar("bounded", bound=int, covariant=True)
        one.note = "kept"
        seen.append(one)
        return x + 1, len(seen), one.__constraints__, bounded, bounded.__bound__, one.note, one.__module__

    return Case(f, vec(), [])


@program(full=1)
def functions_with_type_parameters():
    """CPython 3.11 does not know the brackets."""
    parameters = "[T, **P, *Ts]" if sys.version_info >= (3, 12) else ""
    space = {"__name__": __name__, "functools": functools}
    text = f"""
def f(x):
    def scaled{parameters}(a, by: "T" = 2):
        return a * by

    @functools.wraps(scaled)
    def wrapper(*args):
        return scaled(*args)

    return wrapper(x), scaled, [p.__name__ for p in getattr(wrapper, "__type_params__", ())]
"""
    exec(compile(text, "<type parameters>", "exec"), space)
    return Case(space["f"], vec())


@program(full=1)
def functions_that_wrap_classes():
    """The class's dict becomes the function's, with names that functions have elsewhere."""

    def f(x):
        def wrapper(*args):
            return x * 2

        functools.update_wrapper(wrapper, Held)
        return wrapper(), wrapper, wrapper.__name__, "__doc__" in wrapper.__dict__, len(wrapper.__dict__)

    return Case(f, vec())
