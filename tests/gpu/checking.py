"""What the tests share: the device, inputs on it, and the comparison of a compiled function with eager."""

import copy
import os

import pytest
import torch
from torch.utils import _pytree

DEVICE = torch.device(os.environ.get("STATOR_TEST_DEVICE", "cuda"))
needs_cuda = pytest.mark.needs_cuda


def device_is_there():
    return DEVICE.type != "cuda" or torch.cuda.is_available()


def tensor(*sizes, seed=0, dtype=torch.float32, grad=False):
    made = torch.randn(*sizes, generator=torch.Generator("cpu").manual_seed(seed), device="cpu").to(DEVICE, dtype)
    return made.requires_grad_(grad)


def seed():
    torch.manual_seed(7)


def close(expected, seen, rtol, atol, path="result"):
    """Asserts that two structures are alike: kinds, devices, dtypes, strides' order and values."""
    left, left_spec = _pytree.tree_flatten(expected)
    right, right_spec = _pytree.tree_flatten(seen)
    assert left_spec == right_spec, f"{path}: {left_spec} and {right_spec}"
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        assert type(a) is type(b), f"{path}[{i}]: {type(a)} and {type(b)}"
        if isinstance(a, torch.Tensor):
            assert a.device == b.device and a.requires_grad == b.requires_grad, f"{path}[{i}]"
            torch.testing.assert_close(b, a, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{path}[{i}]: {m}")
            if a.grad is not None or b.grad is not None:
                torch.testing.assert_close(b.grad, a.grad, rtol=rtol, atol=atol)
        else:
            assert a == b, f"{path}[{i}]: {a} and {b}"


def copied(values):
    """Own copies of arguments; leaves stay leaves."""

    def one(value):
        if isinstance(value, torch.Tensor):
            return value.detach().clone().requires_grad_(value.requires_grad)
        return copy.deepcopy(value) if isinstance(value, torch.nn.Module) else value

    return _pytree.tree_map(one, values)


class Counted:
    """What `same` found: counters of all calls."""

    def __init__(self, stats):
        self.__dict__.update(stats)


def same(function, *args, calls=3, breaks=0, graphs=None, exact=None, backward=False, **options):
    """Runs eagerly and compiled, each with its own copies of the arguments and the same random numbers, and compares
    results, arguments (in-place writes, gradients) and the random state. At least one graph has run, and there were
    exactly `breaks` breaks (None: any)."""
    import stator
    from stator import _core

    options.setdefault("backend", "eager")
    if exact is None:
        exact = options["backend"] in ("eager", "aot_eager")
    rtol, atol = (0, 0) if exact else (2e-2, 2e-2) if _halves(args) else (2e-3, 2e-3)
    theirs, mine = copied(args), copied(args)
    _core.reset_stats()
    compiled = stator.compile(function, **options)
    for turn in range(calls):
        found = []
        for called, arguments in ((function, theirs), (compiled, mine)):
            seed()
            result = called(*arguments)
            if backward:
                sum(r.float().sum() for r in _pytree.tree_leaves(result) if isinstance(r, torch.Tensor)).backward()
                result = _pytree.tree_map(lambda r: r.detach() if isinstance(r, torch.Tensor) else r, result)
            found.append((result, _random_state()))
        close(found[0][0], found[1][0], rtol, atol, f"result of call {turn + 1}")
        close(_tensors(theirs), _tensors(mine), rtol, atol, f"arguments after call {turn + 1}")
        if exact:
            close(found[0][1], found[1][1], 0, 0, f"random state after call {turn + 1}")
    stats = _core.stats()
    assert stats["graph_calls"] >= calls and stats["ops_run"] > 0, stats
    assert stats["internal_errors"] == 0, stats
    if breaks is not None:
        assert stats["breaks"] == breaks, stats
    if graphs is not None:
        assert stats["graphs"] == graphs, stats
    return Counted(stats)


def _halves(values):
    return any(
        isinstance(v, torch.Tensor) and v.dtype in (torch.float16, torch.bfloat16)
        for v in _pytree.tree_leaves(_tensors(values))
    )


def _tensors(values):
    """Tensors of arguments, those of modules by name."""
    return [
        {**dict(v.named_parameters()), **dict(v.named_buffers())} if isinstance(v, torch.nn.Module) else v
        for v in _pytree.tree_leaves(values)
        if isinstance(v, (torch.Tensor, torch.nn.Module))
    ]


def _random_state():
    states = [torch.get_rng_state()]
    if DEVICE.type == "cuda":
        states.append(torch.cuda.get_rng_state())
    return states
