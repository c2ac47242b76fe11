"""The C++ shape rules on symbolic sizes, over torch.testing's op_db.

Each call is asked for once with every size of its tensors a symbol. The answer has to be FakeTensor's for the sizes as
they are, and, with other numbers put in for the symbols, FakeTensor's for tensors of those sizes: whatever a rule took
for granted must be among its decisions.
"""

import itertools
import logging
import warnings

import pytest
import torch

pytest.importorskip("expecttest", reason="torch's table of its operators needs it")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

from stator import _core  # noqa: E402
from tests.python.shape_cases import FAKE, describe, differences, infer, op_calls, relaid_calls, variants  # noqa: E402

logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
RULED = [op for op in op_db if any(_core.shapes_has_rule(form) for form in variants(op))]
SHARDS = 6


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def resized(value, sizes):
    if isinstance(value, torch.Tensor):
        size, stride = sizes.get(id(value), (None, None))
        if size is None or (size == tuple(value.shape) and stride == value.stride()):
            return value
        other = torch.empty_strided(size, stride, dtype=value.dtype)
        if not value.requires_grad:
            return other
        other.requires_grad_()
        return other if value.is_leaf else other.clone()
    if type(value) in (list, tuple):
        return type(value)(resized(item, sizes) for item in value)
    return value


def check(calls):
    """(answers at other sizes that were compared, answers that depend on the sizes as they are, differences)."""
    compared, pinned, wrong = 0, 0, []
    for seed, (target, args, kwargs) in enumerate(calls):
        seen = _core.infer_symbolic(target, tuple(args), kwargs, seed)
        if seen is None:
            continue
        decisions, here, sizes, there = seen
        name = f"{getattr(target, '__name__', target)} {describe(args)} {kwargs} under {decisions}"
        wrong += [f"{name}: {text}" for text in differences(("ok", "rule", here), infer(target, args, kwargs, FAKE))]
        if sizes is None:
            pinned += bool(decisions)  # without symbols there is nothing to decide
            continue
        compared += 1
        other_args = resized(tuple(args), sizes)
        other_kwargs = {key: resized(value, sizes) for key, value in kwargs.items()}
        expected = infer(target, other_args, other_kwargs, FAKE)
        wrong += [f"{name}: at {describe(other_args)} {text}" for text in differences(("ok", "rule", there), expected)]
    return compared, pinned, wrong


@pytest.mark.parametrize("shard", range(SHARDS))
def test_rules_on_symbolic_sizes_agree_with_fake_tensor(shard):
    compared, pinned, wrong = 0, 0, []
    for op in RULED[shard::SHARDS]:
        calls = itertools.chain(
            op_calls(op, (torch.float32,), count=6), relaid_calls(op, (torch.float32,), count=2, ways=1)
        )
        counts = check(calls)
        compared, pinned, wrong = compared + counts[0], pinned + counts[1], wrong + counts[2]
    print(f"\n{compared} answers compared at other sizes, {pinned} hold for few sizes alone")
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:60])
    assert compared > 5 * pinned, "the rules ask for more than they need"
