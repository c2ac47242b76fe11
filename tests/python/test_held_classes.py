"""Classes that user code took from torch._dynamo before install() still catch, and libraries' questions for compiled
modules are answered."""

from __future__ import annotations

import os
import pickle

import pytest
import torch
import torch._dynamo
import torch._dynamo.eval_frame
import torch._dynamo.exc
from torch._dynamo.exc import BackendCompilerFailed, FailOnRecompileLimitHit, TorchDynamoException, Unsupported

import stator

pytestmark = pytest.mark.skipif("STATOR_BREAK_EVERY" in os.environ, reason="forced breaks raise too, under fullgraph")
ERRORS = [
    name
    for name in stator.exc.__all__
    if isinstance(getattr(stator.exc, name), type) and issubclass(getattr(stator.exc, name), BaseException)
]
THEIRS = {
    name: getattr(torch._dynamo.exc, name)
    for name in ERRORS
    if isinstance(getattr(torch._dynamo.exc, name, None), type)
}


@pytest.fixture
def installed():
    before = {name: getattr(stator.exc, name).__mro__ for name in ERRORS}
    kept = torch._dynamo.eval_frame.OptimizedModule
    stator.install()
    yield
    stator.uninstall()
    stator.reset()
    assert {name: getattr(stator.exc, name).__mro__ for name in ERRORS} == before
    assert torch._dynamo.eval_frame.OptimizedModule is kept


@pytest.mark.parametrize("name", THEIRS)
def test_every_class_of_the_same_name_catches(installed, name):
    assert issubclass(getattr(stator.exc, name), THEIRS[name])
    assert getattr(torch._dynamo.exc, name) is THEIRS[name]  # TorchDynamo raises and catches its own


@pytest.mark.parametrize("held", [Unsupported, TorchDynamoException, RuntimeError])
def test_a_break_under_fullgraph(installed, held):
    def program(x):
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(held) as error:
        torch.compile(program, backend="eager", fullgraph=True)(torch.ones(2))
    assert type(error.value) is stator.exc.Unsupported and "graph_break() was called" in str(error.value)
    again = pickle.loads(pickle.dumps(error.value))
    assert type(again) is stator.exc.Unsupported and str(again) == str(error.value)


def test_a_backend_that_fails(installed):
    def failing(graph_module, example_inputs):
        raise ValueError("of the backend")

    with pytest.raises(BackendCompilerFailed) as error:
        torch.compile(lambda x: x + 1, backend=failing)(torch.ones(2))
    assert isinstance(error.value.inner_exception, ValueError) and "of the backend" in str(error.value)


def test_the_limit(installed):
    compiled = torch.compile(lambda x, mode: x + len(mode), backend="eager", fullgraph=True, recompile_limit=1)
    compiled(torch.ones(2), "a")
    with pytest.raises(FailOnRecompileLimitHit):
        compiled(torch.ones(2), "bc")


def test_without_install_nothing_is_shared():
    assert not any(issubclass(getattr(stator.exc, name), theirs) for name, theirs in THEIRS.items())


def test_compiled_modules_are_known(installed):
    module = torch.nn.Linear(2, 2)
    compiled = torch.compile(module, backend="eager")
    for asked in (torch._dynamo.eval_frame.OptimizedModule, torch._dynamo.OptimizedModule):
        assert isinstance(compiled, asked) and issubclass(type(compiled), asked)
        assert not isinstance(module, asked) and not issubclass(torch.nn.Linear, asked)
    assert compiled._orig_mod is module and compiled.get_compiler_config() is None


def test_torchdynamos_own_modules_are_known_too():
    theirs = torch._dynamo.optimize("eager")
    stator.install()
    try:
        module = theirs(torch.nn.Linear(2, 2))
        assert isinstance(module, torch._dynamo.eval_frame.OptimizedModule)
        assert type(module).__name__ == "OptimizedModule" and not isinstance(module, stator.CompiledModule)
    finally:
        stator.uninstall()
        torch._dynamo.reset()
