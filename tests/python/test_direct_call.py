"""Calls that are served without a frame: the same as eager in every way in which arguments can be given, and only where
nobody could tell."""

import gc
import sys
import threading
import traceback
import weakref

import pytest
import torch
from torch import nn

import stator
from stator import _core


def direct_calls():
    return _core.stats()["direct_calls"]


def both(function, *args, **kwargs):
    """What eager does, and the third call of the compiled function; whether that one was served without a frame."""

    def outcome(callee):
        try:
            return callee(*args, **kwargs)
        except Exception as error:
            return type(error), str(error)

    compiled = stator.compile(function, backend="eager")
    expected = outcome(function)
    outcome(compiled), outcome(compiled)
    before = direct_calls()
    got = outcome(compiled)
    return expected, got, direct_calls() - before


def assert_same(expected, got):
    if isinstance(expected, torch.Tensor):
        assert torch.equal(expected, got)
    elif isinstance(expected, (tuple, list)):
        assert type(expected) is type(got) and len(expected) == len(got)
        for left, right in zip(expected, got, strict=True):
            assert_same(left, right)
    elif isinstance(expected, dict):
        assert list(expected) == list(got)
        assert_same(list(expected.values()), list(got.values()))
    else:
        assert expected == got


x, y, z = torch.ones(3), torch.full((3,), 2.0), torch.full((3,), 3.0)


def plain(a, b):
    return a + b


def defaults(a, b=y, *, c=z, d=4):
    return a * b + c * d


def positional_only(a, b=y, /, c=z):
    return a + 2 * b + 3 * c


def rest(a, *more):
    return a + sum(more), len(more)


def named(a, **more):
    return a + sum(more.values()), list(more)


def everything(a, b=y, /, c=z, *more, d, e=5, **others):
    return a + b * c + sum(more) + d * e, others


def cells(a, b):
    def inner(k):
        return a * k

    b = b + 1
    return inner(2) + b


def rebinds(a, kw=None):
    a = a + 1
    a = a * 2
    return a if kw is None else a + kw


CALLS = [
    (plain, (x, y), {}),
    (plain, (), {"b": x, "a": y}),
    (plain, (x,), {"b": y}),
    (defaults, (x,), {}),
    (defaults, (x, z), {"d": 2}),
    (defaults, (x,), {"c": y, "b": z}),
    (positional_only, (x,), {}),
    (positional_only, (x, z), {"c": y}),
    (rest, (x,), {}),
    (rest, (x, y, z), {}),
    (named, (x,), {}),
    (named, (x,), {"one": y, "two": z}),
    (everything, (x,), {"d": y}),
    (everything, (x, y, z, x, y), {"d": y, "e": 2, "f": z}),
    (cells, (x, y), {}),
    (rebinds, (x,), {}),
    (rebinds, (x, y), {}),
    (rebinds, (x,), {"kw": y}),
]


@pytest.mark.parametrize("function, args, kwargs", CALLS, ids=lambda v: getattr(v, "__name__", None))
def test_arguments(function, args, kwargs):
    expected, got, direct = both(function, *args, **kwargs)
    assert_same(expected, got)
    assert direct == 1


@pytest.mark.parametrize(
    "function, args, kwargs",
    [
        (plain, (x,), {}),
        (plain, (x, y, z), {}),
        (plain, (x, y), {"b": z}),
        (plain, (x,), {"c": z}),
        (defaults, (x, y, z), {}),
        (positional_only, (), {"a": x}),
        (everything, (x,), {}),
    ],
)
def test_arguments_that_do_not_fit_are_for_cpython_to_refuse(function, args, kwargs):
    compiled = stator.compile(function, backend="eager")
    good = {plain: ((x, y), {}), defaults: ((x,), {}), positional_only: ((x,), {}), everything: ((x,), {"d": y})}
    for _ in range(3):
        compiled(*good[function][0], **good[function][1])
    expected, got, direct = both(function, *args, **kwargs)
    assert expected[0] is TypeError
    assert got == expected and direct == 0


def test_names_that_are_not_interned():
    name = "".join(["o", "t", "h", "e", "r"])
    compiled = stator.compile(lambda a, other: a + other, backend="eager")
    for _ in range(4):
        assert torch.equal(compiled(x, **{name: y}), x + y)


def test_closures_and_defaults_are_read_at_the_call():
    factor = 2

    def scale(a, by=y):
        return a * by * factor

    compiled = stator.compile(scale, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(x), x * y * 2)
    factor = 3
    assert torch.equal(compiled(x), x * y * 3)
    scale.__defaults__ = (z,)
    assert torch.equal(compiled(x), x * z * 3)
    before = direct_calls()
    assert torch.equal(compiled(x), x * z * 3)
    assert direct_calls() == before + 1


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = 2

    def forward(self, value, *, bias=0):
        return self.linear(value) * self.scale + bias


def warm(target, *args, **kwargs):
    compiled = stator.compile(target, backend="eager")
    for _ in range(3):
        compiled(*args, **kwargs)
    return compiled


def test_modules():
    module = Layer()
    compiled = warm(module, x, bias=1)
    before = direct_calls()
    assert torch.equal(compiled(x, bias=1), module(x, bias=1))
    assert direct_calls() == before + 1


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.register_forward_hook(lambda module, args, output: output + 10),
        lambda m: m.register_forward_pre_hook(lambda module, args: (args[0] + 10,)),
        lambda m: m.linear.register_forward_hook(lambda module, args, output: output + 10),
        lambda m: m._forward_hooks.__setitem__(7, lambda module, args, output: output + 10),
        lambda m: setattr(m, "forward", lambda value, bias=0: value + 10),
        lambda m: setattr(m, "scale", 5),
        lambda m: setattr(m.linear, "weight", nn.Parameter(torch.ones(3, 3))),
        lambda m: m.__class__.__dict__ and setattr(m, "__class__", Other),
    ],
)
def test_what_changes_at_a_module_counts(change):
    module = Layer()
    compiled = warm(module, x, bias=1)
    change(module)
    for _ in range(3):
        assert torch.equal(compiled(x, bias=1), module(x, bias=1))


class Other(Layer):
    def forward(self, value, *, bias=0):
        return value - bias


def test_a_forward_replaced_in_its_class():
    class Changing(Layer):
        pass

    module = Changing()
    compiled = warm(module, x)
    Changing.forward = lambda self, value: value * 7
    assert torch.equal(compiled(x), x * 7)


def test_global_hooks():
    module = Layer()
    compiled = warm(module, x)
    expected = module(x)
    handle = nn.modules.module.register_module_forward_hook(
        lambda m, args, output: output + 100 if m is module else None
    )
    try:
        assert torch.equal(compiled(x), expected + 100)
    finally:
        handle.remove()
    assert torch.equal(compiled(x), expected)


def test_marks_and_resets():
    def add(a):
        return a + 1

    compiled = warm(add, x)
    add._torchdynamo_disable = True
    before = direct_calls()
    assert torch.equal(compiled(x), x + 1) and direct_calls() == before
    del add._torchdynamo_disable
    stator.reset()
    captures = _core.stats()["captures"]
    assert torch.equal(compiled(x), x + 1)
    assert _core.stats()["captures"] == captures + 1


def test_trace_functions_see_their_frames():
    def add(a):
        return a + 1

    compiled = warm(add, x)
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_name))
    try:
        compiled(x)
    finally:
        sys.setprofile(None)
    assert "add" in seen


def test_errors_of_the_graph_are_eager_s():
    def gather(a, index):
        return a.take(index) + 1

    compiled = stator.compile(gather, backend="eager")
    for _ in range(3):
        compiled(x, torch.tensor([0, 1]))

    def lines(callee):
        with pytest.raises(IndexError) as caught:
            callee(x, torch.tensor([0, 9]))
        last = traceback.extract_tb(caught.value.__traceback__)[-1]
        return str(caught.value), last.name, last.lineno

    assert lines(compiled) == lines(gather)


def test_an_interrupt_is_not_lost():
    def backend(graph_module, examples):
        def run(*args):
            if interrupted:
                raise KeyboardInterrupt
            return graph_module.forward(*args)

        return run

    interrupted = []

    def add(a):
        return a + 1

    compiled = stator.compile(add, backend=backend)
    for _ in range(3):
        compiled(x)
    interrupted.append(True)
    with pytest.raises(KeyboardInterrupt) as caught:
        compiled(x)
    assert "add" in [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]


def test_backends_of_all_kinds_keep_their_arguments():
    class Callable:
        def __init__(self, forward):
            self.forward = forward

        def __call__(self, *args):
            gc.collect()
            return self.forward(*args)

    for wrap in (lambda f: f, Callable, lambda f: Callable(f).__call__, lambda f: [f].pop().__call__):
        compiled = stator.compile(lambda a, b: a * 2 + b, backend=lambda gm, _: wrap(gm.forward))
        for _ in range(4):
            assert torch.equal(compiled(torch.ones(3), torch.ones(3)), torch.full((3,), 3.0))


def test_nothing_stays_alive():
    def pair(a, *more, **named):
        return a + more[0] + named["k"]

    compiled = stator.compile(pair, backend="eager")
    for _ in range(3):
        compiled(x, y, k=z)
    value = torch.ones(3)
    gone = weakref.ref(value)
    references = sys.getrefcount(value)
    before = direct_calls()
    compiled(value, value, k=value)  # another pattern of equal arguments: captured anew
    compiled(value, value, k=value)
    assert direct_calls() >= before + 1
    assert sys.getrefcount(value) == references
    del value
    assert gone() is None


def test_exceptions_under_way():
    def add(a):
        try:
            raise ValueError
        except ValueError:
            a = a + 1
        return a

    compiled = warm(add, x)
    try:
        raise KeyError("outer")
    except KeyError as outer:
        assert torch.equal(compiled(x), x + 1)
        assert sys.exc_info()[1] is outer


def test_threads():
    def add(a):
        return a + 1

    compiled = stator.compile(add, backend="eager")
    failed = []

    def work():
        for _ in range(300):
            if not torch.equal(compiled(x), x + 1):
                failed.append(True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_grads_that_do_not_matter_are_not_guarded():
    linear = nn.Linear(3, 3)
    compiled = stator.compile(linear, backend="aot_eager")
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
        captures = _core.stats()["captures"]
        linear.weight.requires_grad_(False)
        assert torch.equal(compiled(x), linear(x))
        assert _core.stats()["captures"] == captures
    linear.weight.requires_grad_(True)
    result = compiled(x)
    assert result.requires_grad
    result.sum().backward()
    assert linear.weight.grad is not None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "function",
    [
        lambda w: w + (1 if w.requires_grad else 2),
        lambda w: w.t(),
        lambda w: (w * 2, w.view(-1)),
        lambda w: w.detach() * (3 if w.is_leaf and w.requires_grad else 4),
        lambda w: w if w.grad is None else w * 2,
    ],
)
def test_grads_that_matter_are_guarded(function, backend):
    weight = nn.Parameter(torch.ones(2, 3))
    compiled = stator.compile(function, backend=backend)
    with torch.no_grad():
        for needed in (True, True, True, False, False, True):
            weight.requires_grad_(needed)
            expected, got = function(weight), compiled(weight)
            expected, got = (v if isinstance(v, tuple) else (v,) for v in (expected, got))
            for left, right in zip(expected, got, strict=True):
                assert torch.equal(left, right) and left.requires_grad == right.requires_grad


def test_grad_mode_turned_on_inside():
    def function(w):
        with torch.enable_grad():
            return w * 2

    weight = nn.Parameter(torch.ones(2))
    compiled = stator.compile(function, backend="aot_eager")
    with torch.no_grad():
        for needed in (True, True, False, True):
            weight.requires_grad_(needed)
            assert compiled(weight).requires_grad == needed
