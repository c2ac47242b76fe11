"""Random object graphs, random facts about them, random changes: a program has to fail exactly when one of its facts,
looked at plainly in Python, does not hold any more."""

import collections
import functools
import math
import random
import struct
import types

import hypothesis
import hypothesis.strategies as st
import pytest
import torch

from stator import _core

NAMES = "abcdef"
MISSING = object()


class Inline:
    """Attributes as inline values."""


class Other:
    """Another class with the same layout."""


class Wide:
    """More attributes than a shared table takes: a dict of its own."""

    def __init__(self):
        for i in range(40):
            setattr(self, f"w{i}", i)


class Slots:
    __slots__ = tuple(NAMES[:4])


class ListChild(list):
    def __len__(self):
        raise AssertionError("user code ran")

    __iter__ = __getitem__ = __eq__ = __bool__ = __len__


class Opaque:
    """Equality and hash of the user's own, which no check may call."""

    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return hash("a")

    def __eq__(self, other):
        if ALLOWED:
            return self is other
        raise AssertionError("user code ran")


ALLOWED = []


# --- graphs


CONSTANTS = [
    *range(-6, 7),
    300,
    True,
    False,
    None,
    "",
    "a",
    "b",
    "long one",
    0.0,
    -0.0,
    1.0,
    math.nan,
    b"",
    b"a",
    (1, "a"),
    frozenset({1, 2}),
    slice(1, 2),
    range(3),
]


def constants(rng):
    value = rng.choice(CONSTANTS)
    return value + 10**9 if type(value) is int and rng.random() < 0.3 else value  # an int of its own each time


def tensors(rng):
    shape = rng.choice([(), (2,), (2, 3), (1, 2, 1)])
    dtype = rng.choice([torch.float32, torch.float64])
    return torch.ones(shape, dtype=dtype, requires_grad=rng.choice((True, False)))


def graphs(rng, depth):
    kinds = ["constant", "constant", "tensor", "opaque"]
    if depth > 0:
        kinds += [
            "inline",
            "inline",
            "materialised",
            "wide",
            "slots",
            "list",
            "tuple",
            "dict",
            "ordered",
            "set",
            "deque",
            "function",
            "module",
            "partial",
            "list child",
            "cell",
        ]
    kind = rng.choice(kinds)
    below = lambda: graphs(rng, depth - 1)  # noqa: E731
    few = lambda: [below() for _ in range(rng.randint(0, 4))]  # noqa: E731
    if kind == "constant":
        return constants(rng)
    if kind == "tensor":
        return tensors(rng)
    if kind == "opaque":
        return Opaque(1)
    if kind in ("inline", "materialised", "wide", "slots"):
        made = {"inline": Inline, "materialised": Inline, "wide": Wide, "slots": Slots}[kind]()
        for name in rng.sample(NAMES[:4], 4)[: rng.randint(0, 4)]:
            setattr(made, name, below())
        if kind == "materialised":
            vars(made)
        return made
    if kind == "list":
        return few()
    if kind == "list child":
        child = ListChild()
        list.extend(child, few())
        return child
    if kind == "tuple":
        return tuple(few())
    if kind == "deque":
        return collections.deque(few())
    if kind in ("dict", "ordered"):
        made = {} if kind == "dict" else collections.OrderedDict()
        keys = rng.sample(["a", "b", 1, 10**9, (1, 2), None, ("x", 1.5), Inline, b"k"], rng.randint(0, 4))
        for key in keys:
            made[key] = below()
        return made
    if kind == "set":
        return set(rng.sample(["a", 1, None, 2.5], rng.randint(0, 3)))
    if kind == "function":
        captured = below()

        def function(a, b=below(), *, c=below()):
            return captured

        return function
    if kind == "cell":
        return types.CellType(below())
    if kind == "partial":
        return functools.partial(len, *few())
    module = torch.nn.Module()
    module.layer = torch.nn.Linear(2, 2, bias=rng.choice((True, False)))
    module.a = below()
    module.register_buffer("state", tensors(rng))
    return module


# --- reading, plainly


def attribute(obj, name):
    if isinstance(obj, torch.nn.Module):
        return vars(obj).get(name, MISSING)  # the instance's own, not the class's
    try:
        return object.__getattribute__(obj, name)
    except AttributeError:
        return MISSING


def item_of(mapping, key):
    for candidate, value in dict.items(mapping):
        if candidate is key or (type(candidate) in PLAIN and type(key) in PLAIN and candidate == key):
            return value
    return MISSING


PLAIN = (int, str, float, bytes, tuple, bool, type(None))


def read(source, frame):
    kind = source[0]
    if kind == "local":
        return frame[source[1]]
    base = read(source[1], frame)
    return step(kind, base, source[2] if len(source) > 2 else None) if base is not MISSING else MISSING


def step(kind, base, key):
    if kind == "attr":
        return attribute(base, key)
    if kind in ("parameter", "buffer", "submodule"):
        holder = attribute(base, {"parameter": "_parameters", "buffer": "_buffers", "submodule": "_modules"}[kind])
        return item_of(holder, key) if isinstance(holder, dict) else MISSING
    if kind == "dict_item":
        return item_of(base, key) if isinstance(base, dict) else MISSING
    if kind == "list_item":
        return list.__getitem__(base, key) if isinstance(base, list) and key < list.__len__(base) else MISSING
    if kind == "tuple_item":
        return base[key] if isinstance(base, tuple) and key < len(base) else MISSING
    if kind == "deque_item":
        return base[key] if isinstance(base, collections.deque) and key < len(base) else MISSING
    if kind == "cell":
        try:
            return base.cell_contents if type(base) is types.CellType else MISSING
        except ValueError:
            return MISSING
    function = isinstance(base, types.FunctionType)
    if kind == "closure":
        return base.__closure__[key] if function and base.__closure__ and key < len(base.__closure__) else MISSING
    if kind == "default":
        return base.__defaults__[key] if function and base.__defaults__ and key < len(base.__defaults__) else MISSING
    if kind == "kw_default":
        return (base.__kwdefaults__ or {}).get(key, MISSING) if function else MISSING
    if kind == "code":
        return base.__code__ if function else MISSING
    if kind == "partial_args":
        return base.args if isinstance(base, functools.partial) else MISSING
    if kind == "tensor_size":
        return base.shape[key] if isinstance(base, torch.Tensor) and key < base.dim() else MISSING
    raise AssertionError(kind)


def children(value):
    """(kind, key) of what can be read from a value, and of some things that cannot."""
    if isinstance(value, torch.nn.Module):
        yield from [
            ("attr", "a"),
            ("attr", "training"),
            ("attr", "forward"),
            ("attr", "_forward_hooks"),
            ("submodule", "layer"),
            ("buffer", "state"),
            ("submodule", "gone"),
        ]
        if isinstance(value, torch.nn.Linear):
            yield from [("parameter", "weight"), ("parameter", "bias"), ("attr", "in_features")]
    elif isinstance(value, (Inline, Other, Wide, Slots)):
        yield from [("attr", name) for name in NAMES[:4]]
    elif isinstance(value, list):
        yield from [("list_item", i) for i in range(list.__len__(value) + 1)]
    elif isinstance(value, tuple):
        yield from [("tuple_item", i) for i in range(len(value) + 1)]
    elif isinstance(value, collections.deque):
        yield from [("deque_item", i) for i in range(len(value) + 1)]
    elif isinstance(value, dict):
        yield from [("dict_item", key) for key in [*dict.keys(value), "a", 1]]
    elif isinstance(value, types.FunctionType):
        yield from [("closure", 0), ("default", 0), ("kw_default", "c"), ("code", None)]
    elif isinstance(value, types.CellType):
        yield ("cell", None)
    elif isinstance(value, functools.partial):
        yield ("partial_args", None)
    elif isinstance(value, torch.Tensor):
        yield from [("tensor_size", 0)]


def walk(frame, depth):
    """All (source, value) within reach, values missing included."""
    todo = [(("local", i), value, depth) for i, value in enumerate(frame)]
    while todo:
        source, value, left = todo.pop(0)
        yield source, value
        if left == 0 or value is MISSING:
            continue
        for kind, key in children(value):
            child = (kind, source) if key is None and kind in ("cell", "code", "partial_args") else (kind, source, key)
            todo.append((child, step(kind, value, key), left - 1))


# --- facts, plainly


def same(seen, expected):
    if seen is expected:
        return True
    if type(seen) is not type(expected):
        return False
    if type(seen) is float:
        return struct.pack("d", seen) == struct.pack("d", expected)
    if type(seen) is tuple:
        return len(seen) == len(expected) and all(map(same, seen, expected))
    return seen == expected if type(seen) in (int, str, bytes, frozenset, slice, range) else False


def is_constant(value):
    if type(value) is tuple:
        return all(map(is_constant, value))
    return type(value) in (int, bool, str, float, bytes, type(None), frozenset, slice, range)


def length(value):
    for kind in (list, dict, set, collections.deque, tuple):
        if isinstance(value, kind):
            return kind.__len__(value)
    return len(value) if type(value) in (str, bytes, range, frozenset) else -1


def keys(value):
    ALLOWED.append(1)  # OrderedDict's iterator looks its keys up
    try:
        return list(
            collections.OrderedDict.__iter__(value)
            if isinstance(value, collections.OrderedDict)
            else dict.__iter__(value)
        )
    finally:
        ALLOWED.pop()


def facts_of(tensor):
    return type(tensor), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad


def fact_holds(guard, frame, tensor_facts):
    kind, source = guard[0], guard[1]
    seen = read(source, frame)
    if kind == "absent":
        base = read(source[1], frame) if source[0] != "local" else None
        if base is MISSING or (source[0] == "dict_item" and not isinstance(base, dict)):
            return False
        if source[0] in ("parameter", "buffer", "submodule"):
            holder = attribute(
                base, {"parameter": "_parameters", "buffer": "_buffers", "submodule": "_modules"}[source[0]]
            )
            return isinstance(holder, dict) and seen is MISSING
        return seen is MISSING
    if seen is MISSING:
        return False
    if kind == "present":
        return True
    if kind in ("is", "is_weak"):
        return seen is guard[2]
    if kind == "equals":
        return same(seen, guard[2])
    if kind == "type":
        return type(seen) is guard[2]
    if kind == "length":
        return length(seen) == guard[2]
    if kind == "dict_keys":
        return isinstance(seen, dict) and len(keys(seen)) == len(guard[2]) and all(map(same, keys(seen), guard[2]))
    if kind == "dict_empty":
        return isinstance(seen, dict) and dict.__len__(seen) == 0
    if kind == "tensor":
        return isinstance(seen, torch.Tensor) and facts_of(seen) == tensor_facts[id(guard)]
    other = read(guard[2], frame)
    return other is not MISSING and (seen is other) == (kind == "same")


def only_user_code_knows(source, frame):
    """A dict on the way has a key of the same hash whose __eq__ may not be asked."""
    while source[0] != "local":
        base = read(source[1], frame)
        if (
            source[0] == "dict_item"
            and source[2] == "a"
            and isinstance(base, dict)
            and any(type(key) is Opaque for key in keys(base))
        ):
            return True
        source = source[1]
    return False


def guards_for(rng, source, value, others):
    """Some facts that hold of the value."""
    if value is MISSING:
        return [("absent", source)] if source[0] != "local" else []
    possible = [("present", source), ("type", source, type(value)), ("is", source, value)]
    if not isinstance(value, (types.CellType, Slots)) and type(value) not in (
        int,
        list,
        dict,
        tuple,
        str,
        bytes,
        bool,
        float,
        type(None),
        slice,
        range,
        Opaque,
        types.CodeType,
    ):
        possible.append(("is_weak", source, value))
    if is_constant(value):
        possible += [("equals", source, value)] * 3
    if length(value) >= 0:
        possible.append(("length", source, length(value)))
    if isinstance(value, dict):
        possible.append(("dict_keys", source, tuple(keys(value))))
        if not value:
            possible.append(("dict_empty", source))
    if isinstance(value, torch.Tensor):
        possible += [("tensor", source, value)] * 4
    if isinstance(value, (Inline, Wide, Slots, torch.nn.Module)):
        possible += [("type", source, type(value))] * 6  # what capture always does for objects
    chosen = rng.choices(possible, k=rng.randint(1, 2))
    if others and rng.randint(0, 9) == 0:
        other_source, other_value = rng.choice(others)
        if other_value is not MISSING:
            chosen.append(("same" if other_value is value else "not_same", source, other_source))
    return chosen


# --- changes


def change(rng, frame, graph_depth):
    reachable = [(source, value) for source, value in walk(frame, graph_depth) if value is not MISSING]
    source, value = rng.choice(reachable)
    fresh = lambda: rng.choice([constants, tensors, lambda rng: graphs(rng, 1)])(rng)  # noqa: E731
    if isinstance(value, torch.nn.Module):
        action = rng.randint(0, 6)
        if action == 0:
            value.training = not value.training
        elif action == 1:
            value.__dict__["a"] = constants(rng)
        elif action == 2:
            value.forward = constants(rng)
        elif action == 3:
            value.register_forward_hook(print)
        elif action == 4:
            value._forward_hooks.clear()
        elif action == 5 and isinstance(value, torch.nn.Linear):
            value.weight = torch.nn.Parameter(torch.ones(rng.choice([(2, 2), (3, 2)])))
        elif action == 6:
            value.__dict__ = dict(value.__dict__)
    elif isinstance(value, (Inline, Other, Wide, Slots)):
        name, action = rng.choice(NAMES[:4]), rng.randint(0, 5)
        if action <= 2:
            setattr(value, name, fresh())
        elif action == 3 and attribute(value, name) is not MISSING:
            delattr(value, name)
        elif action == 4 and type(value) in (Inline, Other):
            value.__class__ = Other if type(value) is Inline else Inline
        elif action == 5 and not isinstance(value, Slots):
            value.__dict__ = dict(vars(value))
    elif isinstance(value, list):
        size, action = list.__len__(value), rng.randint(0, 2)
        if action == 0 or size == 0:
            list.append(value, fresh())
        elif action == 1:
            list.__setitem__(value, rng.randint(0, size - 1), fresh())
        else:
            list.pop(value)
    elif isinstance(value, collections.deque):
        value.rotate(1) if rng.choice((True, False)) else value.append(fresh())
    elif isinstance(value, dict):
        action = rng.randint(0, 4)
        ALLOWED.append(1)
        if action == 0 or not value:
            value[rng.choice(["a", "b", 1, Opaque(2)])] = fresh()
        elif action == 1:
            del value[rng.choice(keys(value))]
        elif action == 2:
            key = rng.choice(keys(value))
            value.move_to_end(key) if isinstance(value, collections.OrderedDict) else value.__setitem__(
                key, value.pop(key)
            )
        elif action == 3:
            value[rng.choice(keys(value))] = fresh()
        else:
            value.clear()
        ALLOWED.clear()
    elif isinstance(value, set):
        value.add(rng.choice([7, "z"]))
    elif isinstance(value, types.FunctionType):
        if rng.choice((True, False)):
            value.__defaults__ = (fresh(),)
        else:
            value.__kwdefaults__ = {"c": fresh()}
    elif isinstance(value, types.CellType):
        value.cell_contents = fresh()
    elif isinstance(value, torch.Tensor):
        if rng.choice((True, False)) and value.is_leaf:
            value.requires_grad_(not value.requires_grad)
        else:
            with torch.no_grad():
                value.data = torch.ones(rng.choice([(2,), (2, 3), (4,)]), dtype=value.dtype)
    else:
        frame[rng.randint(0, len(frame) - 1)] = fresh()


# --- the test


@pytest.mark.parametrize("replay", [True, False])
@hypothesis.settings(max_examples=400, deadline=None, derandomize=True)
@hypothesis.given(seed=st.integers(0, 10**9))
def test_programs_agree_with_plain_evaluation(replay, seed):
    rng = random.Random(seed)
    frame = [graphs(rng, 3) for _ in range(rng.randint(1, 3))]
    places = list(walk(frame, 4))[:120]
    guards = []
    for source, value in places:
        if rng.randint(0, 4) != 0:
            guards += guards_for(rng, source, value, places)
    hypothesis.assume(guards)
    tensor_facts = {id(guard): facts_of(guard[2]) for guard in guards if guard[0] == "tensor"}
    keep_alive = [guard[2] for guard in guards if guard[0] == "is_weak"]  # noqa: F841
    program = _core.guards_build(guards)
    _core.guards_allow_replay(program, replay)

    def agree():
        expected = all(fact_holds(guard, frame, tensor_facts) for guard in guards)
        if expected and any(only_user_code_knows(guard[1], frame) for guard in guards):
            expected = _core.guards_check(program, frame)  # it may say no
        for _ in range(3):
            assert _core.guards_check(program, frame) == expected
        assert (_core.guards_explain(program, frame) == "") == expected
        return expected

    assert agree()
    for _ in range(rng.randint(1, 8)):
        change(rng, frame, 4)
        agree()
    REPLAYED[replay] += _core.guards_counts(program)[0]


REPLAYED = collections.Counter()


def test_that_replays_were_tested():
    test_programs_agree_with_plain_evaluation(True)
    assert REPLAYED[True] > 500
    assert REPLAYED[False] == 0
