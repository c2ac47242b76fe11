"""Calls for the shape tests, and the comparison of two answers."""

import itertools
import random
import warnings

import torch

from stator import _core

ALL, RULES, FAKE = 0, 1, 2


def infer(target, args, kwargs=None, tiers=ALL):
    return _core.infer_shapes(target, tuple(args), kwargs, tiers)


def differences(rule, fake, ignore=()):
    """Readable list of what a rule's answer gets wrong."""
    if fake[0] != "ok":
        return [f"FakeTensor says {fake[0]}: {str(fake[2])[:100]}"]
    found = []
    for key in ("structure", "type", "mutates", "random", "written"):
        if rule[2][key] != fake[2][key]:
            found.append(f"{key}: rule {rule[2][key]}, fake {fake[2][key]}")
    mine, theirs = rule[2]["outputs"], fake[2]["outputs"]
    if len(mine) != len(theirs):
        found.append(f"{len(mine)} outputs, fake has {len(theirs)}")
    for index, (one, other) in enumerate(zip(mine, theirs)):
        for key in sorted((one.keys() | other.keys()) - set(ignore)):
            if one.get(key) != other.get(key):
                found.append(f"output {index} {key}: rule {one.get(key)}, fake {other.get(key)}")
        if "constant" in one and type(one["constant"]) is not type(other.get("constant")):
            found.append(f"output {index}: another type of constant")
    if rule[2]["changed"] != fake[2]["changed"]:
        found.append(f"changed: rule {rule[2]['changed']}, fake {fake[2]['changed']}")
    return found


def describe(value):
    if isinstance(value, torch.Tensor):
        grad = ", grad" if value.requires_grad else ""
        return f"{value.dtype}{list(value.shape)} stride {value.stride()}{grad}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(describe, value)) + "]"
    return repr(value)


def variants(op):
    """The function of an op_db entry, its method, its operator and their in-place forms."""
    seen = []
    forms = (op.op, op.method_variant, op.inplace_variant, op.operator_variant, op.inplace_operator_variant)
    for form in forms:
        if form is not None and form not in seen:
            seen.append(form)
    return seen


def op_calls(op, dtypes, count):
    """Calls of one op_db entry: (callable, args, kwargs), `count` samples for each form, dtype and need for grad."""
    for dtype, grad in itertools.product(dtypes, (False, True)):
        if not op.supports_dtype(dtype, "cpu"):
            continue
        if grad and not (op.supports_autograd and dtype.is_floating_point):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), count))
        except Exception:  # a few generators need packages or devices that are not here
            continue
        for form in variants(op):
            in_place = form in (op.inplace_variant, op.inplace_operator_variant)
            for sample in samples:
                value = sample.input
                if in_place and grad and isinstance(value, torch.Tensor):
                    value = value.clone()  # a leaf would raise
                yield form, (value, *sample.args), sample.kwargs


LAYOUTS = ("reversed", "gaps", "expanded", "channels_last", "swapped", "offset", "outer_swapped")


def laid_out(tensor, layout):
    """A tensor of the same size and dtype whose strides are of another kind."""
    if tensor.layout is not torch.strided or tensor.dim() == 0:
        return tensor
    size, rank = list(tensor.shape), tensor.dim()

    def zeros(*sizes):
        return torch.zeros(sizes, dtype=tensor.dtype)

    with torch.no_grad():
        if layout == "reversed":
            other = zeros(*size[::-1]).permute(*range(rank - 1, -1, -1))
        elif layout == "gaps":
            other = zeros(*size[:-1], size[-1] * 2)[..., ::2]
        elif layout == "expanded" and max(size) > 1:
            dim = next(i for i, length in enumerate(size) if length > 1)
            other = zeros(*size[:dim], 1, *size[dim + 1 :]).expand(size)
        elif layout == "channels_last" and rank == 4:
            other = zeros(*size).contiguous(memory_format=torch.channels_last)
        elif layout == "channels_last" and rank == 5:
            other = zeros(*size).contiguous(memory_format=torch.channels_last_3d)
        elif layout == "swapped" and rank > 1:
            other = zeros(*size[:-2], size[-1], size[-2]).transpose(-1, -2)
        elif layout == "outer_swapped" and rank > 1:
            other = zeros(size[1], size[0], *size[2:]).transpose(0, 1)
        elif layout == "offset":
            other = zeros(size[0] + 1, *size[1:])[1:]
        else:
            return tensor
        other = other.detach()
    return other.requires_grad_() if tensor.requires_grad else other


def with_layouts(value, choose):
    if isinstance(value, torch.Tensor):
        return laid_out(value, choose())
    if type(value) in (list, tuple):
        return type(value)(with_layouts(item, choose) for item in value)
    return value


def relaid_calls(op, dtypes, count, ways=3):
    """op_calls with the tensors of each call in other layouts: all in one, or mixed at random."""
    choice = random.Random(op.name)
    for target, args, kwargs in op_calls(op, dtypes, count):
        for way in choice.sample([*LAYOUTS, None, None], ways):
            choose = (lambda way=way: way) if way else (lambda: choice.choice([*LAYOUTS, None]))
            yield (
                target,
                with_layouts(args, choose),
                {name: with_layouts(value, choose) for name, value in kwargs.items()},
            )


def _others_than(value):
    """What a caller might pass in place of it by mistake."""
    if isinstance(value, torch.Tensor):
        plain = value.detach()
        yield from (plain.to(d) for d in (torch.bool, torch.int64, torch.complex64, torch.float16) if d != value.dtype)
        yield plain.unsqueeze(0)
        yield torch.zeros((), dtype=value.dtype)
        if value.dim() > 0:
            yield torch.cat([plain, plain])
    else:
        yield torch.zeros(2)
    yield from (None, "wrong", 1.5, -9, True, [], (0, 0), [None], torch.float32, 1j, object())


def wrong_calls(op, dtypes, count):
    """op_calls with one argument missing, too many, under another name or of another kind. Some are right all the
    same."""
    for target, args, kwargs in op_calls(op, dtypes, count):
        yield target, args[:-1], kwargs
        for extra in (1, None, torch.zeros(2)):
            yield target, (*args, extra), kwargs
            for name in ("dim", "alpha", "bogus"):
                if name not in kwargs:
                    yield target, args, {**kwargs, name: extra}
        for i, value in enumerate(args):
            yield from ((target, (*args[:i], other, *args[i + 1 :]), kwargs) for other in _others_than(value))
        for name, value in kwargs.items():
            yield target, args, {key: kept for key, kept in kwargs.items() if key != name}
            yield from ((target, args, {**kwargs, name: other}) for other in _others_than(value))


def copied(value):
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        return value.detach().clone().requires_grad_(value.requires_grad)
    return type(value)(map(copied, value)) if type(value) in (list, tuple) else value
