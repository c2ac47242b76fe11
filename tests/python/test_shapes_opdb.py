"""The C++ shape rules against FakeTensor, over torch.testing's op_db: every answer of a rule has to be FakeTensor's answer."""

import itertools
import logging
import warnings
from collections import Counter

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from stator import _core

RULES, FAKE = 1, 2
SAMPLES = 10  # of each variant and dtype
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16)

logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)


def infer(target, args, kwargs, tiers):
    return _core.infer_shapes(target, args, kwargs, tiers)


def differences(rule, fake):
    """Readable list of what a rule's answer gets wrong."""
    if fake[0] != "ok":
        return [f"fake says {fake[0]}: {str(fake[2])[:100]}"]
    found = []
    for key in ("structure", "type", "mutates", "random"):
        if rule[2][key] != fake[2][key]:
            found.append(f"{key}: rule {rule[2][key]}, fake {fake[2][key]}")
    mine, theirs = rule[2]["outputs"], fake[2]["outputs"]
    if len(mine) != len(theirs):
        found.append(f"{len(mine)} outputs, fake has {len(theirs)}")
    for index, (one, other) in enumerate(zip(mine, theirs)):
        for key in one.keys() | other.keys():
            if one.get(key) != other.get(key):
                found.append(f"output {index} {key}: rule {one.get(key)}, fake {other.get(key)}")
        if "constant" in one and type(one["constant"]) is not type(other.get("constant")):
            found.append(f"output {index}: another type of constant")
    if rule[2]["changed"] != fake[2]["changed"]:
        found.append(f"changed: rule {rule[2]['changed']}, fake {fake[2]['changed']}")
    return found


def variants(op):
    seen = [op.op]
    yield op.op
    for variant in (op.method_variant, op.inplace_variant, op.operator_variant, op.inplace_operator_variant):
        if variant is None:
            continue
        # OpInfo finds methods by name on the class, and wraps some in functions.
        if variant not in seen:
            seen.append(variant)
            yield variant


def describe(value):
    if isinstance(value, torch.Tensor):
        grad = ", grad" if value.requires_grad else ""
        return f"{value.dtype}{list(value.shape)} stride {value.stride()}{grad}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(describe, value)) + "]"
    return repr(value)


def calls(op):
    """Calls of one entry: (callable, args, kwargs)."""
    for dtype in DTYPES:
        if not op.supports_dtype(dtype, "cpu"):
            continue
        for grad in (False, True):
            if grad and not (op.supports_autograd and op.supports_dtype(dtype, "cpu") and dtype.is_floating_point):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), SAMPLES))
            except Exception:  # a few generators need packages or devices that are not here
                continue
            for variant in variants(op):
                in_place = variant in (op.inplace_variant, op.inplace_operator_variant)
                for sample in samples:
                    value = sample.input
                    if in_place and grad and isinstance(value, torch.Tensor):
                        value = value.clone()
                    yield variant, (value, *sample.args), sample.kwargs


def check_entry(op):
    """(tier that serves the entry, rule answers, differences)."""
    served, missed, wrong, fake_status = 0, 0, [], None
    for target, args, kwargs in calls(op):
        rule = infer(target, args, kwargs, RULES)
        if rule[0] != "ok":
            missed += 1
            if fake_status is None:
                fake_status = infer(target, args, kwargs, FAKE)[0]
            continue
        served += 1
        found = differences(rule, infer(target, args, kwargs, FAKE))
        if found:
            wrong.append(f"{target} {describe(args)} {kwargs}: " + "; ".join(found))
    if served and missed:
        tier = "rules, some calls by FakeTensor"
    elif served:
        tier = "rules alone"
    elif fake_status is None:
        tier = "no samples"
    else:
        tier = f"FakeTensor ({fake_status})"
    return tier, served, wrong


SHARDS = 8


@pytest.fixture(scope="module")
def tally():
    counts = {"tiers": Counter(), "answers": 0}
    yield counts
    print("\nop_db entries by tier:")
    for tier, count in counts["tiers"].most_common():
        print(f"  {count:4d}  {tier}")
    print(f"  {counts['answers']} answers of rules compared")


@pytest.mark.parametrize("shard", range(SHARDS))
def test_rules_agree_with_fake_tensor(shard, tally):
    wrong = []
    for op in op_db[shard::SHARDS]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tier, served, found = check_entry(op)
        tally["tiers"][tier] += 1
        tally["answers"] += served
        wrong.extend(found)
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:60])


def test_every_name_in_the_tables_exists():
    assert _core.shapes_unresolved() == []
