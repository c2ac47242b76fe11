"""Random changes of random module trees, each followed by a call that has to give what eager gives: whatever a guard rests on may change.

    python -m tests.fuzz.changes --count 100000 --seed 0

Changes come from every side: attributes, classes, hooks, parameters, buffers, globals, code, defaults, cells, dicts written directly or replaced, threads,
objects that go while their dicts stay. A finding names the seed, the step and the changes since the call before.
"""

from __future__ import annotations

import argparse
import gc
import random
import threading
import types

import torch

import stator

FACTOR = 2.0
STEPS_OF_A_TREE = 120
DEFAULTS = (1.0, 2.0, -1.0)


def shift(x, by=1.0):
    return x + by


def shift_twice(x, by=1.0):
    return x + by + by


def make_cell(start):
    value = start

    def read(x):
        return x * value

    def write(to):
        nonlocal value
        value = to

    return read, write


READ_CELL, WRITE_CELL = make_cell(1.5)


class Leaf(torch.nn.Module):
    factor = 1.0

    def __init__(self, rng):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(4) + 0.5)
        self.register_buffer("offset", torch.rand(4))
        if rng.random() < 0.5:
            self.factor = 3.0
        self.options = {"power": 1, "names": ["a", "b"]}

    def forward(self, x):
        x = x * self.weight + self.offset
        if self.training:
            x = x + 1
        return x * self.factor * self.options["power"] + len(self.options["names"])


class OtherLeaf(Leaf):
    def forward(self, x):
        return super().forward(x) - FACTOR


class Slotted(torch.nn.Module):
    __slots__ = ("extra",)

    def __init__(self):
        super().__init__()
        self.extra = 2.0

    def forward(self, x):
        return READ_CELL(shift(x)) * self.extra


class Node(torch.nn.Module):
    scale = 0.5

    def __init__(self, rng, depth):
        super().__init__()
        self.first = grown(rng, depth - 1)
        self.rest = torch.nn.ModuleList([grown(rng, depth - 1) for _ in range(rng.randint(0, 2))])
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, x):
        x = self.first(x)
        for layer in self.rest:
            x = layer(x)
        return self.norm(x) * self.scale * FACTOR


class OtherNode(Node):
    def forward(self, x):
        return super().forward(x).relu()


def grown(rng, depth):
    kind = rng.random()
    if depth <= 0 or kind < 0.25:
        return rng.choice([Leaf, OtherLeaf])(rng) if rng.random() < 0.7 else torch.nn.Linear(4, 4)
    if kind < 0.35:
        return Slotted()
    if kind < 0.5:
        return torch.nn.Sequential(*[grown(rng, depth - 1) for _ in range(rng.randint(1, 2))])
    return Node(rng, depth)


class Changes:
    """One tree and what is done to it. Each method whose name begins with `do_` is one kind of change."""

    def __init__(self, rng):
        self.rng = rng
        self.model = Node(rng, 3)
        self.handles = []
        self.kept = []
        self.kinds = [name for name in dir(self) if name.startswith("do_")]

    def any(self, *kinds):
        found = [m for m in self.model.modules() if not kinds or isinstance(m, kinds)]
        return self.rng.choice(found) if found else self.model

    def change(self):
        name = self.rng.choice(self.kinds)
        if self.rng.random() < 0.1:
            thread = threading.Thread(target=getattr(self, name))
            thread.start()
            thread.join()
        else:
            getattr(self, name)()
        return name

    # --- attributes
    def do_attribute(self):
        self.any(Leaf).factor = self.rng.choice(DEFAULTS)

    def do_scale(self):
        self.any(Node).scale = self.rng.choice(DEFAULTS)

    def do_unrelated(self):
        self.any().unrelated = self.rng.random()

    def do_delete(self):
        vars(self.any(Leaf)).pop("factor", None)

    def do_class_attribute(self):
        self.rng.choice([Leaf, OtherLeaf]).factor = self.rng.choice(DEFAULTS)

    def do_class_attribute_gone(self):
        if "factor" in vars(OtherLeaf):
            del OtherLeaf.factor

    def do_options(self):
        options = getattr(self.any(Leaf), "options", {})
        options["power"] = self.rng.choice(DEFAULTS)

    def do_list(self):
        names = getattr(self.any(Leaf), "options", {}).get("names", [])
        names.append("c") if len(names) < 3 or self.rng.random() < 0.5 else names.pop()

    def do_slot(self):
        module = self.any(Slotted)
        if isinstance(module, Slotted):
            module.extra = self.rng.choice(DEFAULTS)

    def do_global(self):
        globals()["FACTOR"] = self.rng.choice(DEFAULTS)

    def do_code(self):
        shift.__code__ = self.rng.choice([shift_twice.__code__, self.code_of_shift])

    def do_defaults(self):
        shift.__defaults__ = (self.rng.choice(DEFAULTS),)

    def do_cell(self):
        WRITE_CELL(self.rng.choice(DEFAULTS))

    code_of_shift = shift.__code__

    # --- what modules are
    def do_class(self):
        module = self.any(Leaf, Node)
        pairs = {Leaf: OtherLeaf, OtherLeaf: Leaf, Node: OtherNode, OtherNode: Node}
        module.__class__ = pairs[type(module)]

    def do_dict(self):
        module = self.any()
        if self.rng.random() < 0.5:
            self.kept.append(vars(module))
        module.__dict__ = dict(vars(module))

    def do_dict_with_change(self):
        module = self.any(Leaf)
        module.__dict__ = {**vars(module), "factor": self.rng.choice(DEFAULTS)}

    def do_cleared(self):
        module = self.any(Leaf, torch.nn.Linear)
        contents = dict(vars(module))
        vars(module).clear()
        vars(module).update(contents)

    def do_train(self):
        self.any().train(self.rng.random() < 0.5)

    def do_instance_forward(self):
        module = self.any(Leaf)
        if self.rng.random() < 0.5:
            module.forward = types.MethodType(lambda self, x: x * 2, module)
        else:
            vars(module).pop("forward", None)

    def do_class_forward(self):
        if "forward" in vars(OtherNode) and self.rng.random() < 0.5:
            del OtherNode.forward
        else:
            OtherNode.forward = lambda self, x: Node.forward(self, x).sigmoid()

    # --- hooks
    def do_hook(self):
        self.handles.append(self.any().register_forward_hook(lambda module, args, out: out * 1.5))

    def do_pre_hook(self):
        self.handles.append(self.any().register_forward_pre_hook(lambda module, args: (args[0] + 0.5,)))

    def do_hook_gone(self):
        if self.handles:
            self.handles.pop(self.rng.randrange(len(self.handles))).remove()

    def do_hooks_cleared(self):
        module = self.any()
        module._forward_hooks.clear()
        module._forward_pre_hooks.clear()

    def do_hook_and_back(self):
        self.any().register_forward_hook(lambda module, args, out: out * 7).remove()

    def do_hooks_replaced(self):
        module = self.any()
        vars(module)["_forward_hooks"] = type(module._forward_hooks)(module._forward_hooks)

    def do_global_hook(self):
        handle = torch.nn.modules.module.register_module_forward_hook(lambda module, args, out: out * 1.25)
        self.handles.append(handle)

    # --- parameters and buffers
    def do_requires_grad(self):
        for parameter in self.any().parameters(recurse=False):
            parameter.requires_grad_(not parameter.requires_grad)

    def do_new_parameter(self):
        module = self.any(Leaf)
        if isinstance(module, Leaf):
            module.weight = torch.nn.Parameter(torch.rand(4))

    def do_parameter_directly(self):
        module = self.any(Leaf)
        if "weight" in module._parameters:
            module._parameters["weight"] = torch.nn.Parameter(torch.rand(self.rng.choice([1, 4])))

    def do_data(self):
        for parameter in self.any().parameters(recurse=False):
            parameter.data = torch.rand_like(parameter)

    def do_written(self):
        with torch.no_grad():
            for parameter in self.any().parameters(recurse=False):
                parameter.add_(1)

    def do_attribute_of_parameter(self):
        for parameter in self.any().parameters(recurse=False):
            parameter.note = self.rng.random()

    def do_buffer(self):
        module = self.any(Leaf)
        if isinstance(module, Leaf):
            module.offset = torch.rand(4)

    def do_buffer_directly(self):
        module = self.any(Leaf)
        if "offset" in module._buffers:
            module._buffers["offset"] = torch.rand(self.rng.choice([1, 4]), dtype=self.dtype())

    def do_double(self):
        self.model.to(self.rng.choice([torch.float32, torch.float64]))

    def do_state(self):
        self.model.load_state_dict(self.model.state_dict())

    # --- the tree
    def do_child(self):
        self.any(Node).first = grown(self.rng, 1).to(self.dtype())

    def do_child_directly(self):
        module = self.any(Node)
        if isinstance(module, Node):
            module._modules["first"] = grown(self.rng, 1).to(self.dtype())

    def do_same_address(self):
        module = self.any(Node)
        self.kept.append(vars(module.first))  # the dict stays where its object goes
        module.first = None
        module.first = Leaf(self.rng).to(self.dtype())

    def do_list_of_modules(self):
        layers = getattr(self.any(Node), "rest", None)
        if layers is None:
            return
        if len(layers) and self.rng.random() < 0.5:
            layers.pop(self.rng.randrange(len(layers)))
        else:
            layers.append(Leaf(self.rng).to(self.dtype()))

    def do_collect(self):
        del self.kept[:]
        gc.collect()

    def dtype(self):
        return next(self.model.parameters()).dtype

    def end(self):
        for handle in self.handles:
            handle.remove()


def outcome(function, x):
    try:
        return function(x)
    except Exception as error:
        return type(error), str(error).splitlines()[:1]


def same(left, right):
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.dtype == right.dtype and left.requires_grad == right.requires_grad and torch.equal(left, right)
    return type(left) is type(right) and not isinstance(left, torch.Tensor) and left == right


def run(seed, steps=STEPS_OF_A_TREE):
    """How many calls were made, how many found an entry, and what was found."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    changes = Changes(rng)
    stator.reset()
    compiled = stator.compile(changes.model, backend="eager")
    since = []
    calls = 0
    stator._core.reset_stats()
    try:
        with stator.config.patch(recompile_limit=1000, accumulated_recompile_limit=10000):
            for step in range(steps):
                since = [changes.change() for _ in range(rng.choice([0, 1, 1, 1, 2]))]
                x = torch.rand(2, 4, dtype=changes.dtype())
                for _ in range(rng.choice([1, 1, 3])):
                    calls += 1
                    expected = outcome(changes.model, x)
                    got = outcome(compiled, x)
                    if not same(expected, got):
                        return calls, 0, f"seed {seed}, step {step}, behind {since}: eager {expected}, compiled {got}"
    finally:
        changes.end()
        if "factor" in vars(OtherLeaf):
            del OtherLeaf.factor
    return calls, stator._core.stats()["hits"], None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100000, help="changes in all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = seed = calls = hits = 0
    while done < options.count:
        made, found, finding = run(options.seed + seed)
        if finding is not None:
            raise SystemExit(finding)
        calls, hits, done, seed = calls + made, hits + found, done + STEPS_OF_A_TREE, seed + 1
        print(f"\r{done} changes, {calls} calls, {hits} found an entry", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
