"""What a call of a module runs, replaced in each place where Python looks for it, before and after the first
capture."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import stator

CALL, CALL_IMPL = nn.Module.__call__, nn.Module._call_impl


class Plain(nn.Module):
    def forward(self, x):
        return x + 1


class Times13:
    def __call__(self, x):
        return x * 13


def other_call_impl(self, name):
    found = object.__getattribute__(self, name)
    return (lambda x: x * 23) if name == "_call_impl" else found


def on_class(name, value):
    return lambda m: setattr(type(m), name, value), lambda m: delattr(type(m), name)


def on_instance(name, value):
    return lambda m: m.__dict__.__setitem__(name, value), lambda m: m.__dict__.pop(name)


def other_class(module):
    own = {"_call_impl": lambda self, x: CALL_IMPL(self, x) * 31}
    module.__class__ = type("Other", (type(module),), own)


def first_class(module):
    module.__class__ = type(module).__mro__[1]


CHANGES = {
    "class_call_impl": on_class("_call_impl", lambda self, x: CALL_IMPL(self, x) * 7),
    "class_call": on_class("__call__", lambda self, x: CALL(self, x) * 6),
    "class_static_call": on_class("__call__", staticmethod(lambda x: x * 5)),
    "class_object_call": on_class("__call__", Times13()),
    "class_property_call_impl": on_class("_call_impl", property(lambda self: lambda x: x * 17)),
    "class_static_call_impl": on_class("_call_impl", staticmethod(lambda x: x * 18)),
    "class_compiled_call_impl": on_class("_compiled_call_impl", staticmethod(lambda x: x * 29)),
    "class_forward": on_class("forward", lambda self, x: x * 19),
    "class_getattribute": on_class("__getattribute__", other_call_impl),
    "instance_call_impl": on_instance("_call_impl", lambda x: x * 9),
    "instance_forward": on_instance("forward", lambda x: x * 8),
    "other_class": (other_class, first_class),
}


@pytest.mark.parametrize("specialised", (False, True), ids=("unspecialised", "specialised"))
@pytest.mark.parametrize("base", (Plain, nn.Linear))
@pytest.mark.parametrize("name", CHANGES)
def test_a_replaced_call(name, base, specialised):
    change, undo = CHANGES[name]
    x = torch.ones(2, 4)
    for first in (False, True):
        stator.reset()
        module = type("Fresh", (base,), {})(*((4, 4) if base is nn.Linear else ()))
        eager = [module, nn.Sequential(module, nn.Tanh()), lambda x, m=module: m(x) * 2]
        with stator.config.patch(specialize_modules=specialised):
            compiled = [stator.compile(one, backend="eager") for one in eager]

            def same():
                wanted = [one(x) for one in eager]
                before = stator.stats()["graph_calls"]
                for _ in range(2):
                    assert all(map(torch.equal, [one(x) for one in compiled], wanted)), (name, wanted)
                assert stator.stats()["graph_calls"] > before
                return wanted

            plain = same() if first else [one(x) for one in eager]
            change(module)
            assert not torch.equal(same()[0], plain[0])
            undo(module)
            assert torch.equal(same()[0], plain[0])


PATCHED = """
import torch
from torch import nn
old = nn.Module.{name}
def doubled(self, *args, **kwargs):
    return old(self, *args, **kwargs) * 2
nn.Module.{name} = doubled
import stator
module, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.ones(2, 4)
calls = [stator.compile(module, backend="eager"), stator.compile(lambda x: module(x) + 1, backend="eager")]
for now in ("patched", "restored"):
    wanted = [module(x), module(x) + 1]
    assert all(map(torch.equal, [call(x) for call in calls], wanted)), now
    nn.Module.{name} = old
assert stator.stats()["graph_calls"] >= 4
"""


@pytest.mark.parametrize("name", ("__call__", "_call_impl"))
def test_replaced_before_the_import(name):
    done = subprocess.run([sys.executable, "-c", PATCHED.format(name=name)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_stack_of_a_root_with_its_own_call():
    class Own(Plain):
        def __call__(self, x):
            return super().__call__(x * 2)

    seen = []
    stator.compile(Own(), backend=lambda gm, _: seen.append(gm) or gm.forward)(torch.ones(2))
    (graph,) = (one.graph for one in seen)
    stacks = [node.meta["nn_module_stack"] for node in graph.nodes if node.op == "call_function"]
    assert len(stacks) == 2 and all([kind for _, kind in stack.values()] == [Own] for stack in stacks), stacks
