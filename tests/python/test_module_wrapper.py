"""A compiled module is still the module."""

import abc
import copy
import functools
import gc
import inspect
import io
import os
import pickle
import sys
import traceback
import warnings
import weakref

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import stator

compile = functools.partial(stator.compile, backend="eager")


class Net(nn.Module):
    kind = "net"

    def __init__(self, width=3):
        super().__init__()
        self.width = width
        self.layer = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("count", torch.zeros(()))
        self._hidden = 1

    def forward(self, x, *, twice=False):
        """Forward."""
        x = self.norm(self.layer(x)) * self.scale
        return x + x if twice else x

    def like_me(self):
        return type(self)(self.width), self.__class__(self.width)

    def run(self, x):
        return self(x)

    @property
    def hidden(self):
        return self._hidden

    @hidden.setter
    def hidden(self, value):
        self._hidden = value * 10


def pair(*args):
    module = Net(*args).eval()
    return module, compile(module)


X = torch.randn(5, 3)


def test_calls():
    module, compiled = pair()
    assert compiled is not module
    assert torch.equal(compiled(X), module(X))
    assert torch.equal(compiled(X, twice=True), module(X, twice=True))
    assert torch.equal(compiled.forward(X), module.forward(X))
    assert torch.equal(compiled.run(X), module(X))
    with pytest.raises(TypeError, match="twise"):
        compiled(X, twise=True)


def test_is_an_instance():
    module, compiled = pair()
    assert isinstance(compiled, Net) and isinstance(compiled, nn.Module)
    assert isinstance(compiled, stator.CompiledModule) and isinstance(compiled, stator.OptimizedModule)
    assert not isinstance(module, stator.CompiledModule)
    assert compiled.__class__ is Net
    assert type(compiled).__name__ == "Net" and type(compiled).__module__ == __name__
    assert compiled._orig_mod is module
    assert compiled.kind == "net"


def test_state_dict_is_the_module_s():
    module, compiled = pair()
    assert list(compiled.state_dict()) == list(module.state_dict())
    assert not any("_orig_mod" in key for key in compiled.state_dict())
    other = Net()
    compiled.load_state_dict(other.state_dict())
    assert torch.equal(module.layer.weight, other.layer.weight)
    other.load_state_dict(compiled.state_dict())


def test_parameters_modules_buffers():
    module, compiled = pair()
    assert [n for n, _ in compiled.named_parameters()] == [n for n, _ in module.named_parameters()]
    assert all(a is b for a, b in zip(compiled.parameters(), module.parameters()))
    assert [n for n, _ in compiled.named_buffers()] == [n for n, _ in module.named_buffers()]
    assert [n for n, _ in compiled.named_modules()] == [n for n, _ in module.named_modules()]
    assert list(compiled.children()) == list(module.children())
    assert compiled.get_submodule("layer") is module.layer


def test_train_eval_to_and_apply_return_the_compiled_module():
    module, compiled = pair()
    assert compiled.train() is compiled and module.training and module.norm.training
    assert compiled.eval() is compiled and not module.training
    assert compiled.to(torch.float64) is compiled and module.scale.dtype is torch.float64
    assert compiled.float() is compiled and module.layer.weight.dtype is torch.float32
    assert compiled.requires_grad_(False) is compiled and not module.scale.requires_grad
    seen = []
    compiled.apply(lambda m: seen.append(m))
    assert module.layer in seen


def test_attribute_writes_go_both_ways():
    module, compiled = pair()
    compiled.extra = 3
    assert module.extra == 3
    module.extra = 4
    assert compiled.extra == 4
    del compiled.extra
    assert not hasattr(module, "extra")
    compiled.scale = nn.Parameter(torch.full((1,), 2.0))
    assert module._parameters["scale"] is compiled.scale
    compiled.added = nn.Linear(2, 2)
    assert module._modules["added"] is compiled.added
    compiled.register_buffer("later", torch.ones(1))
    assert "later" in module._buffers
    compiled.count = torch.ones(())
    assert module.count == 1
    compiled.hidden = 5
    assert module.hidden == 50 and module._hidden == 50
    module.train()
    assert compiled.training
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        compiled.nothing


def test_replaced_forward():
    module, compiled = pair()
    compiled.forward = lambda x: x + 100
    assert torch.equal(module(X), X + 100) and torch.equal(compiled(X), X + 100)
    del compiled.forward
    assert torch.equal(compiled(X), module(X)) and not torch.equal(compiled(X), X + 100)
    module.forward = compile(module.forward)
    assert torch.equal(module(X), compiled(X))


def test_hooks():
    module, compiled = pair()
    calls = []
    compiled(X)
    first = compiled.register_forward_hook(lambda m, args, out: calls.append(("hook", m)))
    module.register_forward_pre_hook(lambda m, args: calls.append(("pre", m)))
    compiled(X)
    assert calls == [("pre", module), ("hook", module)]
    first.remove()
    compiled(X)
    assert calls[2:] == [("pre", module)]
    compiled.forward(X)
    assert len(calls) == 3


def test_repr_dir_signature():
    module, compiled = pair()
    assert repr(compiled) == repr(module)
    assert set(dir(module)) <= set(dir(compiled))
    assert inspect.signature(compiled) == inspect.signature(module)
    assert inspect.signature(compiled.forward) == inspect.signature(module.forward)
    assert compiled.forward.__doc__ == "Forward."


def test_making_more_of_the_same():
    _, compiled = pair()
    for made in compiled.like_me():
        assert type(made) is Net and made.width == 3
    with pytest.raises(TypeError, match="stator.compile"):
        stator.CompiledModule()


def test_in_a_parent():
    module, compiled = pair()
    parent = nn.Sequential(compiled, nn.ReLU())
    assert list(parent.state_dict())[0] == "0.scale"
    assert torch.equal(parent(X), nn.ReLU()(module(X)))
    parent.train()
    assert module.norm.training


def test_two_compilations_of_one_module():
    module, compiled = pair()
    other = stator.compile(module, backend="eager", fullgraph=True)
    assert other._orig_mod is compiled._orig_mod is module
    assert other.__dict__ is compiled.__dict__
    again = compile(compiled)
    assert again._orig_mod is module


def test_deepcopy_and_copy():
    module, compiled = pair()
    deep = copy.deepcopy(compiled)
    assert isinstance(deep, stator.CompiledModule) and isinstance(deep, Net)
    assert deep._orig_mod is not module and deep.layer.weight is not module.layer.weight
    assert torch.equal(deep(X), module(X))
    with torch.no_grad():
        deep.scale.zero_()
    assert torch.equal(deep(X), torch.zeros(5, 3)) and not torch.equal(compiled(X), deep(X))
    assert type(deep).__call__.__get__(deep)._stator_cache is type(compiled).__call__.__get__(compiled)._stator_cache
    shallow = copy.copy(compiled)
    assert isinstance(shallow, stator.CompiledModule) and shallow.layer is module.layer
    shallow.extra = 1
    parent = nn.Sequential(compiled, compiled)
    twin = copy.deepcopy(parent)
    assert twin[0] is twin[1] and isinstance(twin[0], stator.CompiledModule)


def test_pickle_and_save():
    module, compiled = pair()
    for other in (pickle.loads(pickle.dumps(compiled)), saved(compiled)):
        assert isinstance(other, stator.CompiledModule) and isinstance(other, Net)
        assert torch.equal(other(X), module(X))
        assert list(other.state_dict()) == list(module.state_dict())
    assert type(pickle.loads(pickle.dumps(compiled._orig_mod))) is Net
    assert b"stator" not in pickle.dumps(module)


def saved(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def test_weakrefs_and_lifetimes():
    module, compiled = pair()
    inner, outer, weight = (
        weakref.ref(module),
        weakref.ref(compiled),
        weakref.ref(module.layer.weight),
    )
    compiled(X)
    gc.collect()
    gc.disable()
    try:
        del compiled
        assert outer() is None and inner() is module
        compiled = compile(module)
        del module
        assert inner() is not None
        del compiled
        assert inner() is None and weight() is None
    finally:
        gc.enable()


def test_classes_are_shared_and_freed():
    def make():
        class Local(nn.Module):
            def forward(self, x):
                return x

        return Local

    local = make()
    first, second = compile(local()), compile(local())
    assert type(first) is type(second)
    gone = weakref.ref(local)
    del local, first, second
    gc.collect()
    assert gone() is None


def test_class_changed_by_a_parametrization():
    class Double(nn.Module):
        def forward(self, w):
            return 2 * w

    module = nn.Linear(3, 3, bias=False)
    compiled = compile(module)
    before = module(X)
    parametrize.register_parametrization(compiled, "weight", Double())
    assert torch.allclose(compiled(X), 2 * before)
    assert torch.equal(compiled.weight, module.weight)
    assert parametrize.is_parametrized(compiled) and parametrize.is_parametrized(module)
    assert compiled.__class__ is type(module) and isinstance(compiled, type(module))
    parametrize.remove_parametrizations(compiled, "weight")
    assert torch.allclose(compiled(X), 2 * before)

    inner = nn.Linear(3, 3, bias=False)
    outer = compile(inner)
    parametrize.register_parametrization(inner, "weight", Double())
    assert torch.equal(outer.weight, inner.weight)


def test_lazy_module():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = nn.LazyLinear(2)
    compiled = compile(module)
    out = compiled(X)
    assert out.shape == (5, 2) and type(module) is nn.Linear
    assert compiled.__class__ is nn.Linear and torch.equal(compiled(X), out)
    assert compiled.weight is module.weight
    assert repr(compiled) == repr(module)


def test_own_call_metaclass_and_registry():
    registered = []

    class Registry(type(nn.Module)):
        def __new__(meta, name, bases, names):
            cls = super().__new__(meta, name, bases, names)
            registered.append(name)
            return cls

    class Base(nn.Module, metaclass=Registry):
        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__(**kwargs)
            registered.append("subclass " + cls.__name__)

        def __call__(self, x):
            return super().__call__(x) + 1

    class Leaf(Base):
        def forward(self, x):
            return x * 2

    before = list(registered)
    compiled = compile(Leaf())
    assert registered == before
    assert torch.equal(compiled(X), X * 2 + 1)


def test_abstract_base_class():
    class Abstract(nn.Module, abc.ABC):
        @abc.abstractmethod
        def forward(self, x): ...

    class Concrete(Abstract):
        def forward(self, x):
            return x + 1

    compiled = compile(Concrete())
    assert isinstance(compiled, Abstract) and torch.equal(compiled(X), X + 1)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(3, 3), nn.ReLU()),
        nn.ModuleList([nn.Linear(3, 3)]),
        nn.ModuleDict({"a": nn.Linear(3, 3)}),
        nn.ParameterList([torch.ones(2)]),
    ],
    ids=lambda m: type(m).__name__,
)
def test_containers(module):
    compiled = compile(module)
    assert len(compiled) == len(module)
    assert list(compiled) == list(module)
    assert repr(compiled) == repr(module)
    assert list(compiled.state_dict()) == list(module.state_dict())


def test_sequential_slices():
    module = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Tanh())
    compiled = compile(module)
    assert type(compiled[:2]) is nn.Sequential and len(compiled[:2]) == 2
    compiled.append(nn.ReLU())
    assert len(module) == 4


def test_graph_module():
    graph_module = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    compiled = compile(graph_module)
    assert torch.equal(compiled(X), graph_module(X))
    assert compiled.graph is graph_module.graph and compiled.code == graph_module.code


def test_data_parallel_replica():
    module, compiled = pair()
    replica = compiled._replicate_for_data_parallel()
    assert isinstance(replica, stator.CompiledModule) and replica._orig_mod is not module


def test_optimizer_and_gradients():
    module, compiled = pair()
    twin = copy.deepcopy(module)
    step = torch.optim.SGD(compiled.parameters(), lr=0.1)
    compiled.train()(X).sum().backward()
    twin.train()(X).sum().backward()
    assert torch.equal(module.layer.weight.grad, twin.layer.weight.grad)
    step.step()
    compiled.zero_grad()
    assert module.layer.weight.grad is None


def test_in_place():
    module = Net().eval()
    before = module(X)
    stator.compile_module_inplace(module, backend="eager")
    assert type(module) is Net
    assert torch.equal(module(X), before)
    assert module._compiled_call_impl.__self__ is module
    assert copy.deepcopy(module)._compiled_call_impl is None
    assert "_compiled_call_impl" not in module.state_dict()
    with pytest.raises(TypeError):
        stator.compile_module_inplace(lambda: 0)
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None


def test_slots_are_refused_with_advice():
    class Slotted(nn.Module):
        __slots__ = ("value",)

        def forward(self, x):
            return x

    with pytest.raises(TypeError, match="compile_module_inplace"):
        compile(Slotted())


class LooksAtItsCaller(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x, *, y=1, fails=False):
        caller = sys._getframe(1)
        seen = dict(caller.f_locals)
        if fails:
            raise ValueError("no")
        held = seen["self"] is self, len(seen["args"]), sorted(seen["kwargs"]), seen["forward_call"] == self.forward
        return self.layer(x) * y, (caller.f_code.co_name, caller.f_lineno, sorted(seen), held)


def test_the_frame_between_a_call_and_forward_is_eagers():
    """_call_impl is not interpreted where there are no hooks, but its frame is there: line, locals, traceback."""
    torch.manual_seed(0)
    module = LooksAtItsCaller()
    graphs = []
    compiled = stator.compile(module, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
    x = torch.randn(2, 3)
    for kwargs in ({}, {"y": 2}):
        expected, frame = module(x, **kwargs)
        for _ in range(2):
            got, seen = compiled(x, **kwargs)
            assert torch.equal(got, expected) and seen == frame
    assert graphs or os.environ.get("STATOR_BREAK_EVERY") == "1"  # where each instruction runs by itself

    def lines(function):
        with pytest.raises(ValueError) as caught:
            function(x, fails=True)
        found = traceback.extract_tb(caught.value.__traceback__)
        return [(entry.name, entry.lineno) for entry in found if entry.name in ("_call_impl", "forward")]

    assert lines(compiled) == lines(module)


@pytest.mark.parametrize("where", ["own", "global"])
def test_a_hook_that_comes_between_calls_is_called(where):
    module = torch.nn.Linear(3, 3)
    compiled = stator.compile(module, backend="eager")
    x = torch.randn(2, 3)
    plain = compiled(x)
    called = []

    def hook(_module, _inputs, output):
        called.append(1)
        return output + 1

    if where == "own":
        handle = module.register_forward_hook(hook)
    else:
        handle = torch.nn.modules.module.register_module_forward_hook(hook)
    try:
        assert torch.equal(compiled(x), module(x)) and len(called) == 2
    finally:
        handle.remove()
    assert torch.equal(compiled(x), plain) and len(called) == 2
    module.forward = lambda x: x * 7
    assert torch.equal(compiled(x), x * 7)
    del module.forward
    assert torch.equal(compiled(x), plain)


def test_libraries_put_the_module_back():
    """accelerate's unwrap_model assigns `_orig_mod`: it becomes no submodule, and another module is the compiled one
    from then on."""
    inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = stator.compile(inner, backend="eager")
    x = torch.randn(3, 4)
    expected = inner(x)
    compiled._orig_mod = inner
    assert list(inner._modules) == ["0", "1"] and torch.equal(compiled(x), expected)
    other = nn.Linear(4, 2)
    compiled._orig_mod = other
    assert compiled._orig_mod is other and isinstance(compiled, nn.Linear) and not isinstance(compiled, nn.Sequential)
    assert torch.equal(compiled(x), other(x)) and "_orig_mod" not in dict(other.named_modules())
    assert list(compiled.state_dict()) == list(other.state_dict())


def test_dynamo_ctx_and_compile_kwargs():
    model = stator.compile(nn.Linear(2, 2), backend="eager", dynamic=True)
    before = stator.stats()["graph_calls"]
    assert torch.equal(model.dynamo_ctx(lambda x: x + 1)(torch.ones(2)), torch.full((2,), 2.0))
    assert stator.stats()["graph_calls"] > before or "STATOR_BREAK_EVERY" in os.environ
    assert model._compile_kwargs["backend"] == "eager" and model._compile_kwargs["dynamic"] is True
    model._compile_kwargs = {"backend": "aot_eager"}
    assert model._compile_kwargs == {"backend": "aot_eager"}
