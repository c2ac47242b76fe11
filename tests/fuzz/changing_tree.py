"""A random tree of modules and the ways in which it and its world may change (tests/fuzz/changes.py)."""

from __future__ import annotations

import builtins
import gc
import threading
import types

import torch

FACTOR = 2.0
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


def scaled(x, *, by=1.0):
    return x * by


def negated(x, *, by=1.0):
    return -x * by


TABLE = {"scaled": scaled}


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
        return x * abs(self.factor) * self.options["power"] + len(self.options["names"])


class Halved(Leaf):
    def forward(self, x):
        return super().forward(x) * 0.5


class OtherLeaf(Leaf):
    def forward(self, x):
        return super().forward(x) - FACTOR


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.parts = torch.nn.ParameterList([torch.nn.Parameter(torch.rand(4)) for _ in range(2)])
        self.named = torch.nn.ModuleDict({"one": torch.nn.Identity(), "two": torch.nn.Tanh()})

    def forward(self, x):
        self.calls += 1
        for part in self.parts:
            x = x + part
        for layer in self.named.values():
            x = layer(x)
        return TABLE["scaled"](x, by=1.5) + scaled(x)


class Slotted(torch.nn.Module):
    __slots__ = ("extra",)

    def __init__(self):
        super().__init__()
        self.extra = 2.0

    def forward(self, x):
        return READ_CELL(shift(x)) * self.extra


class Noted(torch.nn.Parameter):
    pass


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
        return Slotted() if rng.random() < 0.5 else Counting()
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
        self.patched = []

    def any(self, *kinds):
        found = [m for m in self.model.modules() if not kinds or isinstance(m, kinds)]
        return self.rng.choice(found) if found else self.model

    def change(self):
        name = self.rng.choice(self.kinds)

        def make():
            try:
                getattr(self, name)()
            except (AttributeError, KeyError, RuntimeError, TypeError):
                pass  # what came before does not allow it

        if self.rng.random() < 0.1:
            thread = threading.Thread(target=make)
            thread.start()
            thread.join()
        else:
            make()
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

    def do_kwdefaults(self):
        scaled.__kwdefaults__ = {"by": self.rng.choice(DEFAULTS)}

    def do_kwdefault_written(self):
        scaled.__kwdefaults__["by"] = self.rng.choice(DEFAULTS)

    def do_table(self):
        TABLE["scaled"] = self.rng.choice([scaled, negated])

    def do_global_function(self):
        self.patch(globals(), "shift", self.rng.choice([shift_twice, self.shift]))

    def do_builtin(self):
        self.patch(vars(builtins), "abs", self.rng.choice([self.abs, lambda of: self.abs(of) + 1]))

    def do_functional(self):
        plain = self.linear
        doubled = lambda x, weight, bias=None: plain(x, weight, bias) * 2  # noqa: E731
        self.patch(vars(torch.nn.functional), "linear", self.rng.choice([plain, doubled]))

    def do_counted(self):
        module = self.any(Counting)
        if isinstance(module, Counting):
            module.calls = self.rng.randint(0, 3)

    shift = staticmethod(shift)
    abs = staticmethod(abs)
    linear = staticmethod(torch.nn.functional.linear)

    def patch(self, where, name, by):
        """Until the end of the tree."""
        self.patched.append((where, name, where[name]))
        where[name] = by

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

    def do_property(self):
        if "scale" in vars(OtherNode) and self.rng.random() < 0.5:
            del OtherNode.scale
        else:
            OtherNode.scale = property(lambda self: 0.25)

    def do_library_forward(self):
        if self.rng.random() < 0.5:
            torch.nn.LayerNorm.forward = self.layer_norm
        else:
            torch.nn.LayerNorm.forward = lambda self, x: x * 0.5

    def do_bases(self):
        OtherLeaf.__bases__ = (self.rng.choice([Leaf, Halved]),)

    def do_call(self):
        if "__call__" in vars(OtherNode):
            del OtherNode.__call__
        elif self.rng.random() < 0.3:
            OtherNode.__call__ = lambda self, x: Node.__call__(self, x) + 0.25

    layer_norm = staticmethod(torch.nn.LayerNorm.forward)

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

    def do_hook_order(self):
        for module in self.model.modules():
            if len(module._forward_hooks) > 1:
                module._forward_hooks.move_to_end(next(iter(module._forward_hooks)))

    def do_hook_first(self):
        hook = self.any().register_forward_hook(lambda module, args, out: out - 0.5, prepend=True)
        self.handles.append(hook)

    def do_backward_hook(self):
        self.handles.append(self.any().register_full_backward_hook(lambda module, into, out: None))

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

    def tensor(self):
        module = self.any(Leaf)
        found = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        return self.rng.choice(found) if found else torch.rand(4)

    def do_shape(self):
        tensor = self.tensor()
        with torch.no_grad():
            if tensor.dim() > 1:
                tensor.squeeze_(0) if self.rng.random() < 0.5 else tensor.squeeze_()
            else:
                tensor.unsqueeze_(0)

    def do_strides(self):
        tensor = self.tensor()
        if tensor.dim() == 1:
            tensor.data = torch.rand(8, dtype=tensor.dtype)[:: self.rng.choice([1, 2])][:4]

    def do_transposed(self):
        module = self.any(torch.nn.Linear)
        if isinstance(module, torch.nn.Linear):
            with torch.no_grad():
                module.weight.t_()

    def do_data_of_another_shape(self):
        tensor = self.tensor()
        tensor.data = torch.rand(self.rng.choice([(1,), (4,), (1, 4), (2, 4), ()]), dtype=tensor.dtype)

    def do_set(self):
        tensor = self.tensor()
        with torch.no_grad():
            tensor.set_(torch.rand(self.rng.choice([1, 4]), dtype=tensor.dtype))

    def do_resize(self):
        tensor = self.tensor()
        if not tensor.requires_grad:
            tensor.resize_(self.rng.choice([1, 4])).fill_(2)

    def do_swap(self):
        tensor = self.tensor()
        other = torch.rand(self.rng.choice([1, 4]), dtype=self.rng.choice([tensor.dtype, torch.float64]))
        torch.utils.swap_tensors(tensor, torch.nn.Parameter(other) if self.rng.random() < 0.5 else other)

    def do_class_of_parameter(self):
        tensor = self.tensor()
        tensor.__class__ = torch.nn.Parameter if type(tensor) is not torch.nn.Parameter else Noted

    def do_mark(self):
        module = self.any(torch.nn.Linear)
        if isinstance(module, torch.nn.Linear):
            torch._dynamo.mark_static(module.weight)

    def do_parameter_gone(self):
        module = self.any(torch.nn.Linear)
        if isinstance(module, torch.nn.Linear):
            module.bias = None

    def do_tied(self):
        one, other = self.any(Leaf), self.any(Leaf)
        if isinstance(one, Leaf):
            other.weight = one.weight

    def do_list_of_parameters(self):
        module = self.any(Counting)
        if isinstance(module, Counting):
            module.parts[0] = torch.nn.Parameter(torch.rand(self.rng.choice([1, 4]), dtype=self.dtype()))

    def do_assigned_state(self):
        state = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(state, assign=True)

    def do_frozen(self):
        self.any().requires_grad_(self.rng.random() < 0.5)

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
        """The world as it was, so that a seed alone tells what happens."""
        for handle in self.handles:
            handle.remove()
        for where, name, value in reversed(self.patched):
            where[name] = value
        globals()["FACTOR"], TABLE["scaled"] = 2.0, scaled
        shift.__code__, shift.__defaults__ = self.code_of_shift, (1.0,)
        scaled.__kwdefaults__ = {"by": 1.0}
        WRITE_CELL(1.5)
        torch.nn.LayerNorm.forward = self.layer_norm
        OtherLeaf.__bases__ = (Leaf,)
        Leaf.factor = 1.0
        for kind, name in (
            (OtherLeaf, "factor"),
            (OtherNode, "scale"),
            (OtherNode, "__call__"),
            (OtherNode, "forward"),
        ):
            if name in vars(kind):
                delattr(kind, name)
        OtherNode.forward = self.forward_of_other

    forward_of_other = staticmethod(OtherNode.forward)
