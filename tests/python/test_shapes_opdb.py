"""The C++ shape rules against FakeTensor, over torch.testing's op_db: every answer of a rule has to be FakeTensor's
answer."""

import itertools
import logging
import warnings
from collections import Counter

import pytest
import torch

pytest.importorskip("expecttest", reason="torch's table of its operators needs it")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

from stator import _core  # noqa: E402
from tests.python.shape_cases import (  # noqa: E402
    FAKE,
    RULES,
    copied,
    describe,
    differences,
    infer,
    op_calls,
    relaid_calls,
    variants,
    wrong_calls,
)

logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)

# The entries of which at least one form has a rule.
RULED = [op for op in op_db if any(_core.shapes_has_rule(form) for form in variants(op))]
OTHER_DTYPES = (torch.int64, torch.bool, torch.complex64, torch.bfloat16)
SHARDS = 8


def check(calls, ignore=()):
    """(answers of rules, calls without one, differences)."""
    served, missed, wrong = 0, [], []
    for target, args, kwargs in calls:
        rule = infer(target, args, kwargs, RULES)
        if rule[0] != "ok":
            missed.append((target, args, kwargs))
            continue
        served += 1
        found = differences(rule, infer(target, args, kwargs, FAKE), ignore)
        if found:
            wrong.append(f"{target} {describe(args)} {kwargs}: " + "; ".join(found))
    return served, missed, wrong


def tier_of(served, missed):
    if served:
        return "rules for some calls, FakeTensor for others" if missed else "rules alone"
    if not missed:
        return "no samples"
    return f"FakeTensor ({infer(*missed[0], FAKE)[0]})"


def complain(wrong):
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:40])


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def tally():
    counts = {"tiers": Counter(), "answers": 0}
    yield counts
    print(f"\n{sum(counts['tiers'].values())} op_db entries by tier:")
    for tier, count in counts["tiers"].most_common():
        print(f"  {count:4d}  {tier}")
    print(f"  {counts['answers']} answers of rules compared")


@pytest.mark.parametrize("shard", range(SHARDS))
def test_rules_agree_with_fake_tensor(shard, tally):
    wrong = []
    for op in op_db[shard::SHARDS]:
        served, missed, found = check(
            itertools.chain(op_calls(op, (torch.float32,), count=6), op_calls(op, OTHER_DTYPES, count=3))
        )
        tally["tiers"][tier_of(served, missed)] += 1
        tally["answers"] += served
        wrong += found
    complain(wrong)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_rules_agree_in_every_layout(shard):
    wrong = []
    for op in RULED[shard::SHARDS]:
        wrong += check(relaid_calls(op, (torch.float32,), count=4, ways=2))[2]
    complain(wrong)


@pytest.mark.parametrize("shard", range(2))
def test_rules_agree_without_grad(shard):
    wrong = []
    for op in RULED[shard::2]:
        calls = list(op_calls(op, (torch.float32,), count=2))
        with torch.no_grad():
            wrong += check(calls)[2]
    complain(wrong)


@pytest.mark.parametrize("shard", range(4))
def test_rules_agree_under_autocast(shard):
    wrong, answers = [], 0
    for op in RULED[shard::4]:
        calls = list(op_calls(op, (torch.float32, torch.bfloat16), count=2))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            served, _, found = check(calls)
        wrong += found
        answers += served
    assert answers > 100
    complain(wrong)


@pytest.mark.parametrize("shard", range(2))
def test_rules_agree_in_inference_mode(shard):
    # FakeTensor forgets requires_grad of composite views here (reshape, flatten, T); eager and the rules keep it: see
    # below.
    wrong = []
    for op in RULED[shard::2]:
        calls = list(op_calls(op, (torch.float32,), count=2))
        with torch.inference_mode():
            wrong += check(calls, ignore=("requires_grad",))[2]
    complain(wrong)


# What these refuse are data, or numbers that graph/raising.cpp knows of.
LOOK_AT_DATA = ("getitem", "gather", "scatter", "index", "normal", "uniform", "exponential", "histc", "hardtanh")


@pytest.mark.parametrize("shard", range(4))
def test_rules_refuse_what_eager_refuses(shard):
    wrong, answers = [], 0
    for op in RULED[shard::4]:
        if any(part in op.name for part in LOOK_AT_DATA):
            continue
        for target, args, kwargs in wrong_calls(op, (torch.float32,), count=1):
            if not _core.shapes_has_rule(target) or any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
                continue
            if infer(target, args, kwargs, RULES)[0] != "ok":
                continue
            answers += 1
            try:
                target(*map(copied, args), **{name: copied(value) for name, value in kwargs.items()})
            except Exception as error:
                wrong.append(f"{target} {describe(args)} {kwargs}: {type(error).__name__} {str(error)[:100]}")
    assert answers > 100
    complain(wrong)


@pytest.mark.parametrize("name, args", [("reshape", (-1,)), ("unsqueeze", (0,)), ("T", ()), ("add", (1,)), ("sum", ())])
def test_requires_grad_in_inference_mode_is_eagers(name, args):
    tensor = torch.randn(3, 4, requires_grad=True)
    with torch.inference_mode():
        attribute = getattr(tensor, name)
        result = attribute if isinstance(attribute, torch.Tensor) else attribute(*args)
        facts = infer(name, (tensor, *args), tiers=RULES)[2]["outputs"][0]
    assert facts["requires_grad"] == result.requires_grad
    assert facts["is_leaf"] == result.is_leaf
    assert facts["is_inference"] == result.is_inference()


def test_every_name_in_the_tables_exists():
    assert _core.shapes_unresolved() == []
