"""aot_compile: captured before the first call, never anew; files of it in another process; hooks that get code for what
was captured."""

import io
import os
import subprocess
import sys
import textwrap

import pytest
import torch
import torch._dynamo
from torch._dynamo.aot_compile import SerializableCallable

import children
import stator
from stator import _answers

pytestmark = pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="it is about whole functions")


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    _answers.forget()
    yield
    stator.uninstall()


def eagerly(graph_module, example_inputs):
    return graph_module.forward


class Kept(SerializableCallable):
    """What a backend makes that can be written: the graph's code."""

    calls = 0

    def __init__(self, code):
        self.code = code
        scope = {"torch": torch, "device": torch.device, "inf": float("inf")}
        exec(code, scope)
        self.run = lambda *args: scope["forward"](None, *args)

    @classmethod
    def serialize_compile_artifacts(cls, made):
        return made.code.encode()

    @classmethod
    def deserialize_compile_artifacts(cls, data):
        return cls(data.decode())

    def __call__(self, *args):
        return self.run(*args)


def keeping(graph_module, example_inputs):
    Kept.calls += 1
    return Kept(graph_module.code)


seen = []
scale = 3


def effects(x, k=2, *, add=1):
    seen.append(k)
    return x.sin() * k * scale + add


def test_captured_without_being_run():
    x = torch.randn(4)
    ahead = stator.compile(effects, backend=eagerly, fullgraph=True).aot_compile(((x,), {"add": 5}))
    assert seen == []
    captures = stator.stats()["captures"]
    assert torch.equal(ahead(x, add=5), x.sin() * 2 * 3 + 5)
    assert torch.equal(ahead(x, 2, add=5), x.sin() * 2 * 3 + 5)
    assert seen == [2, 2] and stator.stats()["captures"] == captures
    assert ahead.__name__ == "effects" and ahead.__wrapped__ is effects
    seen.clear()


def test_other_inputs_are_an_error_and_never_captured():
    def f(x, k):
        return x * k

    x = torch.randn(4)
    ahead = stator.compile(f, backend=eagerly, fullgraph=True).aot_compile(((x, 2), {}))
    captures = stator.stats()["captures"]
    with pytest.raises(RuntimeError, match=r"guard check failed, reason.*\n.*k.*was 2, is 3"):
        ahead(x, 3)
    with pytest.raises(RuntimeError, match=r"x.*size\(0\).*was 4, is 5"):
        ahead(torch.randn(5), 2)
    assert ahead.guard_check(x, 2) and not ahead.guard_check(x, 3)
    assert torch.equal(ahead(x, 2), x * 2)
    assert stator.stats()["captures"] == captures
    ahead.disable_guard_check()
    assert torch.equal(ahead(x, 3), x * 2)  # as asked for
    assert torch.equal(ahead(torch.ones(5), 2), torch.full((5,), 2.0))


def test_marks_hold():
    x = torch.randn(4, 3)
    stator.mark_dynamic(x, 0)
    ahead = stator.compile(lambda x: x.sum(0) * x.shape[0], backend=eagerly, fullgraph=True).aot_compile(((x,), {}))
    for rows in (4, 7, 9):
        y = torch.randn(rows, 3)
        assert torch.equal(ahead(y), y.sum(0) * rows)
    with pytest.raises(RuntimeError, match="guard check failed"):
        ahead(torch.randn(4, 5))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x).relu()


@pytest.mark.parametrize("how", ["method", "module"])
def test_of_a_method_the_object_comes_first(how):
    model, x = Model(), torch.randn(2, 3)
    compiled = stator.compile(model.forward if how == "method" else model, backend=eagerly, fullgraph=True)
    ahead = (compiled if how == "method" else compiled.forward).aot_compile(((x,), {}))
    assert model.calls == 0
    assert torch.equal(ahead(model, x), model.linear(x).relu())
    assert model.calls == 1


def test_refusals():
    x = torch.randn(2)
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        stator.compile(lambda x: x + 1, backend=eagerly).aot_compile(((x,), {}))
    with pytest.raises(stator.exc.Unsupported, match="print"):
        stator.compile(lambda x: (print(x), x + 1)[1], backend=eagerly, fullgraph=True).aot_compile(((x,), {}))
    ahead = stator.compile(lambda x: x + 1, backend=eagerly, fullgraph=True).aot_compile(((x,), {}))
    with pytest.raises(RuntimeError, match="serialize_compile_artifacts"):
        ahead.save_compiled_function("unused")


def test_reset_leaves_it_alone():
    x = torch.randn(2)
    ahead = stator.compile(lambda x: x + 1, backend=eagerly, fullgraph=True).aot_compile(((x,), {}))
    stator.reset()
    assert torch.equal(ahead(x), x + 1)


def saved(ahead, path, **more):
    assert ahead.save_compiled_function(path, **more).serialized_data == path.read_bytes()
    with open(path, "rb") as file:
        return stator.load_compiled_function(file, external_data=more.get("external_data"))


def test_a_file_in_this_process(tmp_path):
    x = torch.randn(4, 3)
    stator.mark_dynamic(x, 0)
    ahead = stator.compile(effects, backend=keeping, fullgraph=True).aot_compile(((x,), {}))
    loaded = saved(ahead, tmp_path / "f")
    calls = Kept.calls
    for rows in (6, 4, 9):
        y = torch.randn(rows, 3)
        assert torch.equal(loaded(y), y.sin() * 2 * 3 + 1)
        assert not any(name.startswith("_dynamo") for name in vars(y))
    assert Kept.calls == calls and seen == [2, 2, 2]
    seen.clear()
    with pytest.raises(RuntimeError, match="guard check failed"):
        loaded(torch.randn(4, 3).double())
    (source,) = ahead.source_info().inlined_sources
    assert source.module == __name__ and "def effects" in source.content
    assert {each.module for each in loaded.source_info().inlined_sources} == {__name__}


def test_closures_and_what_is_not_written(tmp_path):
    model, k = Model(), 3

    def f(x):
        return model.linear(x) * k

    x = torch.randn(2, 3)
    ahead = stator.compile(f, backend=keeping, fullgraph=True).aot_compile(((x,), {}))
    with pytest.raises(RuntimeError, match="external_data"):
        ahead.save_compiled_function(tmp_path / "f")
    loaded = saved(ahead, tmp_path / "f", external_data={"model": model})
    assert torch.equal(loaded(x), model.linear(x) * 3)
    with open(tmp_path / "f", "rb") as file, pytest.raises(RuntimeError, match="'model'"):
        stator.load_compiled_function(file)


def test_closures_that_hold_themselves_and_classes_of_their_own(tmp_path):
    class Step:
        by = 2

        def of(self, x):
            return x * self.by + (x if self.__class__ is Step else 0)

    def down(x, n):
        return x if n == 0 else down(Step().of(x), n - 1) + down.more

    down.more = 1
    x = torch.randn(2, 3)
    ahead = stator.compile(down, backend=keeping, fullgraph=True).aot_compile(((x, 2), {}))
    assert torch.equal(saved(ahead, tmp_path / "f")(x, 2), down(x, 2))
    with open(tmp_path / "f", "rb") as file:
        loaded = stator.load_compiled_function(file, f_globals={**globals(), "torch": None})
    assert torch.equal(loaded(x, 2), down(x, 2))


def test_a_named_backend_is_called_again(tmp_path):
    x = torch.randn(2, 3, requires_grad=True)
    ahead = stator.compile(effects, backend="aot_eager", fullgraph=True).aot_compile(((x,), {}))
    loaded = saved(ahead, tmp_path / "f")
    for one in (ahead, loaded):
        (grad,) = torch.autograd.grad(one(x).sum(), x)
        torch.testing.assert_close(grad, x.cos() * 6)
    seen.clear()


def test_another_graph_than_the_files(tmp_path):
    x = torch.randn(2, 3)
    ahead = stator.compile(lambda x: x * 2, backend=keeping, fullgraph=True).aot_compile(((x,), {}))
    loaded = saved(ahead, tmp_path / "f")
    with pytest.raises(stator.exc.PackageError, match="another graph"):
        loaded(torch.randn(5))
    assert torch.equal(loaded(x), x * 2)  # that one was for nothing: the file serves what it is for


def test_damaged_files():
    with pytest.raises(stator.exc.PackageError):
        stator.load_compiled_function(io.BytesIO(b"nothing of ours"))


PROGRAM = """
import sys, torch, stator
sys.path.insert(0, {folder!r})
import the_program
stator.install()
x = torch.arange(12.0).reshape({rows}, -1)[:, :2].clone()
if {write}:
    torch._dynamo.mark_dynamic(x, 0)
    ahead = torch.compile(the_program.f, backend=the_program.backend, fullgraph=True).aot_compile(((x,), {{}}))
    ahead.save_compiled_function({file!r})
else:
    with open({file!r}, "rb") as file:
        ahead = torch.compiler.load_compiled_function(file, f_globals=vars(the_program))
print(ahead(x).tolist() == the_program.f(x).tolist(), the_program.calls, stator.stats()["captures"])
"""


def test_a_file_in_another_process(tmp_path):
    (tmp_path / "the_program.py").write_text(
        textwrap.dedent("""
        import torch
        from torch._dynamo.aot_compile import SerializableCallable
        calls = 0
        class Kept(SerializableCallable):
            def __init__(self, code):
                self.code, self.scope = code, {"torch": torch}
                exec(code, self.scope)
            def serialize_compile_artifacts(made): return made.code.encode()
            @classmethod
            def deserialize_compile_artifacts(cls, data): return cls(data.decode())
            def __call__(self, *args): return self.scope["forward"](None, *args)
        def backend(module, inputs):
            global calls
            calls += 1
            return Kept(module.code)
        def f(x): return x.sin().sum(1) * x.shape[0]
        """)
    )
    said = []
    for write, rows in ((True, 6), (False, 4)):
        program = PROGRAM.format(folder=str(tmp_path), file=str(tmp_path / "file"), write=write, rows=rows)
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=children.environment()
        )
        assert run.returncode == 0, run.stderr
        said.append(run.stdout.split())
    assert said == [["True", "1", "1"], ["True", "0", "1"]]


# ---- hooks on code


@pytest.fixture
def hooked():
    """A function that registers a hook until the test ends."""
    handles = []
    yield lambda hook: handles.append(torch._dynamo.convert_frame.register_bytecode_hook(hook))
    for handle in handles:
        handle.remove()


def shapes(a, /, b, *rest, k=1, **more):
    return a * k + b + sum(rest) + more.get("z", 0)


def test_code_that_takes_the_functions_place(hooked):
    found = []
    hooked(lambda old, new: found.append((old, new)))
    x = torch.randn(3)
    given, named = (x, x + 1, x, x), {"k": 3, "z": 2}
    expected = shapes(*given, **named)
    assert torch.equal(stator.compile(shapes, backend=eagerly, fullgraph=True)(*given, **named), expected)
    ((old, new),) = found
    assert old is shapes.__code__
    shapes.__code__ = new
    try:
        calls, captures = stator.stats()["graph_calls"], stator.stats()["captures"]
        assert torch.equal(shapes(*given, **named), expected)
        assert stator.stats()["graph_calls"] == calls + 1 and stator.stats()["captures"] == captures
    finally:
        shapes.__code__ = old


def test_code_of_a_closure(hooked):
    found = []
    hooked(lambda old, new: found.append(new))
    two, three = 2, 3

    def f(x):
        return x * three + two

    x = torch.randn(3)
    compiled = stator.compile(f, backend=eagerly)
    expected = compiled(x)
    f.__code__ = found[0]
    assert torch.equal(f(x), expected)


class WithHook:
    """As vLLM does it: the frame is looked for on the stack, and the code put into the class."""

    def __init__(self):
        self.code, self.weight = None, torch.randn(3)
        self.compiled = torch.compile(self.forward, backend=eagerly, fullgraph=True, dynamic=False,
                                      options={"guard_filter_fn": lambda guards: [False] * len(guards)})  # fmt: skip

    def forward(self, x):
        return x * self.weight

    def hook(self, old, new):
        if old is not type(self).forward.__code__:
            return
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            file = frame.f_code.co_filename.rpartition("/")[2]
            if frame.f_code.co_name == "_compile" and file == "convert_frame.py":
                break
        frame = frame.f_locals["frame"]
        assert frame.f_code is old
        if frame.f_locals["self"] is self:
            self.code = new

    def __call__(self, x):
        if self.code is None:
            torch._dynamo.eval_frame.remove_from_cache(type(self).forward.__code__)
            return self.compiled(x)
        original = type(self).forward.__code__
        type(self).forward.__code__ = self.code
        try:
            return self.forward(x)
        finally:
            type(self).forward.__code__ = original


def test_the_way_of_vllm(hooked):
    stator.install()
    one = WithHook()
    hooked(one.hook)
    for rows in (4, 4, 4):
        x = torch.randn(rows, 3)
        calls = stator.stats()["graph_calls"]
        assert torch.equal(one(x), x * one.weight)
        assert stator.stats()["graph_calls"] == calls + 1
    assert one.code is not None


def test_a_hook_that_refuses(hooked):
    def refuse(old, new):
        raise RuntimeError("not this one")

    hooked(refuse)
    with pytest.raises(RuntimeError, match="not this one"):
        stator.compile(lambda x: x + 1, backend=eagerly)(torch.ones(2))


def test_what_a_hook_returns_is_answered(hooked):
    hooked(lambda old, new: old)
    with pytest.warns(UserWarning, match="bytecode hook"):
        assert torch.equal(stator.compile(lambda x: x + 1, backend=eagerly)(torch.ones(2)), torch.full((2,), 2.0))
