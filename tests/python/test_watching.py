"""Guards that are told of changes (src/guards/watch.h): every change is seen at the next check, whoever made it, and
what nobody changed is not looked at.

Before CPython 3.12 nobody tells; the answers are the same."""

import collections
import gc
import sys
import threading
import types

import pytest
import torch

import stator
from benchmarks.guards_bench import module_guards
from stator import _core
from tests.fuzz import changes

TOLD = sys.version_info >= (3, 12)


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.scale = 2


class OtherPart(Part):
    pass


def tree():
    return torch.nn.Sequential(*[Part() for _ in range(12)])


@pytest.fixture
def watched():
    model = tree()
    program = _core.guards_build(module_guards(model))
    for _ in range(4):
        assert _core.guards_check(program, [model])
    return model, program


def quiet_checks(program):
    return _core.guards_counts(program)[2]


def test_what_nobody_changes_is_not_looked_at(watched):
    model, program = watched
    before = quiet_checks(program)
    for _ in range(10):
        assert _core.guards_check(program, [model])
    assert quiet_checks(program) - before == (10 if TOLD else 0)


def hook(module, args, out):
    return out


def replaced_dict(module):
    module.__dict__ = {**vars(module), "scale": 3}


def cleared(module):
    vars(module).clear()


def in_another_thread(module):
    thread = threading.Thread(target=lambda: setattr(module, "scale", 3))
    thread.start()
    thread.join()


def swapped(module):
    other = torch.nn.Parameter(torch.rand(2, 2))
    torch.utils.swap_tensors(module.linear.weight, other)


BREAKING = {
    "attribute": lambda m: setattr(m, "scale", 3),
    "dict written": lambda m: vars(m).update(scale=3),
    "deleted": lambda m: delattr(m, "scale"),
    "cleared": cleared,
    "another dict": replaced_dict,
    "class": lambda m: setattr(m, "__class__", OtherPart),
    "class by the base's setter": lambda m: object.__dict__["__class__"].__set__(m, OtherPart),
    "hook": lambda m: m.register_forward_hook(hook),
    "hook written": lambda m: m._forward_hooks.__setitem__(7, hook),
    "another hook dict": lambda m: vars(m).update(_forward_hooks=collections.OrderedDict({1: hook})),
    "parameter": lambda m: setattr(m.linear, "weight", torch.nn.Parameter(torch.rand(2, 3))),
    "parameter written": lambda m: m.linear._parameters.update(weight=None),
    "data": lambda m: setattr(m.linear.weight, "data", torch.rand(2, 3)),
    "gradient": lambda m: m.linear.weight.requires_grad_(False),
    "swapped": swapped,
    "child": lambda m: m._modules.update(linear=torch.nn.Identity()),
    "train": lambda m: m.linear.eval(),
    "forward": lambda m: setattr(m, "forward", types.MethodType(lambda self, x: x, m)),
    "thread": in_another_thread,
}


@pytest.mark.parametrize("kind", BREAKING)
def test_changes_are_seen(watched, kind):
    model, program = watched
    BREAKING[kind](model[7])
    assert not _core.guards_check(program, [model])
    assert _core.guards_explain(program, [model])


HARMLESS = {
    "other attribute": lambda m: setattr(m, "note", object()),
    "there and back": lambda m: (setattr(m, "scale", 3), setattr(m, "scale", 2)),
    "hook and back": lambda m: m.register_forward_hook(hook).remove(),
    "equal dict": lambda m: setattr(m, "__dict__", dict(vars(m))),
    "class and back": lambda m: (setattr(m, "__class__", OtherPart), setattr(m, "__class__", Part)),
    "class elsewhere": lambda m: setattr(Part(), "__class__", OtherPart),
    "note on a parameter": lambda m: setattr(m.linear.weight, "note", 1),
}


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_stays_true_is_found_so_and_is_quiet_again(watched, kind):
    model, program = watched
    for _ in range(3):
        HARMLESS[kind](model[7])
        assert _core.guards_check(program, [model]), _core.guards_explain(program, [model])
    for _ in range(3):
        assert _core.guards_check(program, [model])
    before = quiet_checks(program)
    assert _core.guards_check(program, [model])
    assert quiet_checks(program) - before == (1 if TOLD else 0)


def test_another_object_at_the_same_address():
    model = tree()
    program = _core.guards_build(module_guards(model))
    for _ in range(4):
        assert _core.guards_check(program, [model])
    kept = [vars(part) for part in model]  # the dicts stay where their objects go
    for index in range(len(model)):
        model._modules[str(index)] = None
        model._modules[str(index)] = torch.nn.Identity()
    assert not _core.guards_check(program, [model])
    assert len(kept) == 12
    del model, kept
    gc.collect()
    again = tree()
    assert _core.guards_check(program, [again])
    again[3].scale = 5
    assert not _core.guards_check(program, [again])


def test_programs_come_and_go():
    for _ in range(20):
        model = tree()
        programs = [_core.guards_build(module_guards(model)) for _ in range(3)]
        for program in programs:
            for _ in range(3):
                assert _core.guards_check(program, [model])
        del programs[0]
        model[0].scale = 9
        assert not any(_core.guards_check(program, [model]) for program in programs)


@pytest.mark.parametrize("seed", range(4))
def test_random_changes(seed):
    calls, hits, finding = changes.run(seed, steps=40)
    assert finding is None, finding
    assert calls > 40 and hits > 0
    stator.reset()


@pytest.mark.parametrize("replay", [True, False])
@pytest.mark.parametrize("thing", [None, 10**30, "text", torch.nn.Identity])
def test_no_tensor_in_a_tensors_place(thing, replay):
    """What memory is asked for ahead is not followed before it is known to be a tensor."""
    model = tree()
    program = _core.guards_build(module_guards(model))
    _core.guards_allow_replay(program, replay)
    for index in range(12):
        for _ in range(3):
            assert _core.guards_check(program, [model])
        weight = model[index].linear._parameters["weight"]
        model[index].linear._parameters["weight"] = thing
        assert not _core.guards_check(program, [model])
        model[index].linear._parameters["weight"] = weight


def column(tensor):
    with torch.no_grad():
        tensor.unsqueeze_(1)


def strided(tensor):
    tensor.data = torch.rand(tensor.shape[::-1]).t() if tensor.dim() > 1 else torch.rand(6)[::2]


IN_PLACE = {
    "one more dim": column,
    "other strides": strided,
    "dtype": lambda tensor: setattr(tensor, "data", tensor.data.double()),
    "fewer": lambda tensor: setattr(tensor, "data", torch.rand(2)),
    "reshaped": lambda tensor: setattr(tensor, "data", torch.rand(tensor.numel(), 1, 1)),
    "no dims": lambda tensor: setattr(tensor, "data", torch.rand(())),
    "many dims": lambda tensor: setattr(tensor, "data", torch.rand([1] * 7 + [tensor.numel()])),
    "grad": lambda tensor: tensor.requires_grad_(False),
    "class": lambda tensor: setattr(tensor, "__class__", Noted),
    "mark": lambda tensor: torch._dynamo.mark_static(tensor),
    "swapped": lambda tensor: torch.utils.swap_tensors(tensor, torch.nn.Parameter(torch.rand(5))),
}


class Noted(torch.nn.Parameter):
    pass


@pytest.mark.parametrize("kind", IN_PLACE)
@pytest.mark.parametrize("name", ["weight", "bias"])
def test_tensors_changed_in_place(kind, name):
    """Of every tensor of a tree, wherever in its cache lines it lies."""
    for index in range(12):
        model = tree()
        program = _core.guards_build(module_guards(model))
        for _ in range(4):
            assert _core.guards_check(program, [model])
        IN_PLACE[kind](getattr(model[index].linear, name))
        assert not _core.guards_check(program, [model]), index
        assert _core.guards_explain(program, [model])


@pytest.mark.parametrize("rank", range(7))
def test_sizes_and_strides_of_any_number_of_dims(rank):
    sizes = [2 + dim for dim in range(rank)]
    changed = [torch.rand([size + (at == dim) for at, size in enumerate(sizes)]) for dim in range(rank)]
    changed += [torch.rand([*sizes, 1]), torch.rand(sizes, dtype=torch.float64)]
    if rank > 1:
        changed += [
            torch.rand(sizes[::-1]).permute(*range(rank - 1, -1, -1)),
            torch.rand([*sizes[:-2], sizes[-1], sizes[-2]]),
        ]
    for grad in (False, True):
        for other in changed:
            model = tree()
            for part in model:
                part.linear.weight = torch.nn.Parameter(torch.rand(sizes), requires_grad=grad)
            program = _core.guards_build(module_guards(model))
            for _ in range(4):
                assert _core.guards_check(program, [model])
            model[5].linear.weight.data = other
            assert not _core.guards_check(program, [model]), (grad, other.shape, other.stride())
            model[5].linear.weight.data = torch.rand(sizes)
            assert _core.guards_check(program, [model]), _core.guards_explain(program, [model])


def test_tensors_written_to_stay_known(watched):
    model, program = watched
    for _ in range(40):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1)
        model[3].linear.weight.data = torch.rand(3, 3)
        model[3].linear.bias.note = object()
        assert _core.guards_check(program, [model]), _core.guards_explain(program, [model])
