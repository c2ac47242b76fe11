"""Document 004: modules, item by item (tests/python/seeds.py). Those that have to do with how modules are treated run
in both treatments."""

import collections
import contextlib
import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import stator
from seeds import Front, beside_call, item, numbers, raised


def module(forward, setup=None, bases=(nn.Module,), **names):
    """A module in one expression: setup(self) after __init__, forward(self, x)."""

    def __init__(self):
        super(made, self).__init__()
        if setup is not None:
            setup(self)

    made = type("Made", bases, {"__init__": __init__, "forward": forward, **names})
    return made()


def both(program):
    """The program in both treatments of modules."""

    def seeded(at):
        torch.manual_seed(0)
        return program(at)

    @functools.wraps(program)
    def twice(at):
        found = [seeded(at)]
        if at.name in ("stator", "breaks"):
            stator.reset()
        with stator.config.patch(specialize_modules=at.name in ("stator", "breaks")):
            return [*found, seeded(at)]

    return twice


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x):
        return F.relu(self.linear(x)) * self.scale + self.shift


class Child(nn.Module):
    def forward(self, x):
        return x + 1


# ---- two treatments


@item("004", "NNModuleVariable: get_attr/call_module, one graph per instance", breaks=False, graphs=2)
def test_specialised_modules(at):
    with stator.config.patch(specialize_modules=True):
        calls = [at.compile(Layer()) for _ in range(2)]
        found = [call(numbers()) for call in calls]
    if at.is_stator:
        ops = collections.Counter(node.op for node in at.graphs[0].graph.nodes)
        assert (ops["placeholder"], ops["get_attr"], ops["call_module"]) == (1, 2, 1), ops
    return found


@item("004", "Unspecialized: one graph per class, params inputs", breaks=False, graphs=1)
def test_unspecialised_modules(at):
    calls = [at.compile(Layer()) for _ in range(3)]
    found = [call(numbers()) for call in calls]
    if at.is_stator:
        ops = collections.Counter(node.op for node in at.nodes())
        assert (ops["placeholder"], ops["get_attr"], ops["call_module"]) == (5, 0, 0), ops
    return found


# ---- calls


@item("004", "hooks on torch layer -> inlined", dynamo="same")
@both
def test_layers_with_hooks_are_traced(at):
    def setup(self):
        self.hooked, self.free = nn.Linear(4, 4), nn.Linear(4, 4)
        self.hooked.register_forward_pre_hook(lambda m, a: (a[0] * 2,))

    found = at.compile(module(lambda self, x: self.free(self.hooked(x)), setup))(numbers())
    if at.is_stator and stator.config.specialize_modules:
        names = [node.target for node in at.nodes("call_module")]
        assert any("free" in name for name in names) and not any("hooked" in name for name in names), names
    return found


@item("004", "explicit forward(): call_method node", breaks=False, graphs=1)
def test_forward_called_by_name(at):
    """Of a specialised layer: one call_method of the module's own forward, as the document describes it."""

    def setup(self):
        self.layer = nn.Linear(4, 4)
        self.layer.register_forward_hook(lambda m, a, out: out * 100)

    with stator.config.patch(specialize_modules=True):
        found = at.compile(module(lambda self, x: self.layer.forward(x) + 1, setup))(numbers())
    if at.is_stator:
        (call,) = at.nodes("call_method")
        assert call.target == "forward" and call.args[0].op == "get_attr", call.format_node()
        assert type(at.graphs[0].get_submodule(call.args[0].target)) is nn.Linear
    return found


@item("004", "_call_impl/_wrapped_call_impl explicit", dynamo="same")
@both
def test_call_impl_called_by_name(at):
    def setup(self):
        self.layer = nn.Linear(4, 4)
        self.layer.register_forward_hook(lambda m, a, out: out * 2)

    def forward(self, x):
        return self.layer._call_impl(x) + self.layer._wrapped_call_impl(x) + self.layer.__call__(x)

    return at.compile(module(forward, setup))(numbers())


@item("004", "user __call__", dynamo="same")
@both
def test_a_class_with_its_own_call(at):
    class Own(Child):
        def __call__(self, x, times=3):
            return super().__call__(x) * times

    def setup(self):
        self.own = Own()

    root = Own()
    return [at.compile(module(lambda self, x: self.own(x), setup))(numbers()), at.compile(root)(numbers(), times=2)]


def five_times(self, *args, **kwargs):
    return nn.Module._call_impl(self, *args, **kwargs) * 5


def on_all_places(at, change, undo=lambda model: None, make=Child, later=True):
    """A module whose call is changed, before or after the first capture: the compiled root, a child, and called by a
    function."""
    found = []
    for when in ("before", "after") if later else ("before",):
        child = make()
        parent = nn.Sequential(child, nn.Tanh())
        calls = [at.compile(child), at.compile(parent), at.compile(lambda x, m=child: m(x) * 2)]
        if when == "after":
            found += [raised(lambda c=c: c(numbers())) for c in calls]
        change(child)
        try:
            found += [raised(lambda c=c: c(numbers())) for c in calls]
        finally:
            undo(child)
        found += [raised(lambda c=c: c(numbers())) for c in calls]
    return found


@item("004", "class _call_impl override honoured")
@both
def test_call_impl_of_a_class(at):
    kept = nn.Module._call_impl

    class Own(Child):
        _call_impl = five_times

    class OwnLayer(nn.Linear):
        def _call_impl(self, *args):
            return super()._call_impl(*args) - 1

    def change(child):
        type(child)._call_impl = lambda self, x: kept(self, x) * 7

    def undo(child):
        del type(child)._call_impl

    def fresh():
        return type("Fresh", (Child,), {})()

    found = on_all_places(at, lambda child: None, make=Own)
    found += on_all_places(at, lambda child: None, make=functools.partial(OwnLayer, 4, 4))
    return found + on_all_places(at, change, undo, fresh)


@item("004", "instance _call_impl override honoured")
@both
def test_call_impl_of_an_instance(at):
    def change(child):
        child._call_impl = lambda x: x * 9

    def undo(child):
        del child._call_impl

    return on_all_places(at, change, undo) + on_all_places(at, change, undo, functools.partial(nn.Linear, 4, 4))


@contextlib.contextmanager
def patched(owner, name, value):
    kept = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


@item("004", "nn.Module.__call__/_call_impl patched globally")
@both
def test_the_call_of_all_modules(at):
    found = []
    for name in ("__call__", "_call_impl"):
        kept = nn.Module.__dict__[name]

        def doubled(self, *args, _kept=kept, **kwargs):
            return _kept(self, *args, **kwargs) * 2

        with contextlib.ExitStack() as undo:
            found += on_all_places(
                at,
                lambda child, n=name, d=doubled, u=undo: u.enter_context(patched(nn.Module, n, d)),
                lambda child, u=undo: u.close(),
            )
    return found


@item("004", "instance forward patch guard, closure", dynamo="same")
@both
def test_forward_of_an_instance(at):
    def setup(self):
        self.layer = nn.Linear(4, 4)

    model = module(lambda self, x: self.layer(x) + 1, setup)
    call = at.compile(model)
    found = [call(numbers())]
    for by in (3, 4):
        model.layer.forward = lambda x, by=by: x * by
        found.append(call(numbers()))
    del model.layer.forward
    return [*found, call(numbers())]


@item(
    "004",
    "class forward patched",
    "better",
    "a forward that is replaced on the class takes effect in the next call: TorchDynamo goes on with the old one",
    dynamo="differs",
)
@both
def test_forward_of_a_class(at):
    Inner = type("Inner", (Child,), {})
    model = nn.Sequential(Inner())
    call = at.compile(model)
    found = [call(numbers())]
    Inner.forward = lambda self, x: x * 5
    found.append(call(numbers()))
    del Inner.forward
    return [*found, call(numbers())]


# ---- hooks


@item(
    "004",
    "empty hook dict guards; added/removed later",
    "better",
    "a hook that is added or removed later takes effect in the next call: TorchDynamo's default leaves it out",
    dynamo="differs",
)
@both
def test_hooks_that_come_and_go(at):
    def setup(self):
        self.layer = nn.Linear(4, 4)

    model = module(lambda self, x: self.layer(x) + 1, setup)
    call = at.compile(model)
    found = [call(numbers())]
    handles = [
        model.layer.register_forward_hook(lambda m, a, out: out * 2),
        model.layer.register_forward_pre_hook(lambda m, a: (a[0] + 1,)),
    ]
    found.append(call(numbers()))
    for handle in handles:
        handle.remove()
        found.append(call(numbers()))
    return found


@item("004", "same hook on other instance no recompile", breaks=False, graphs=1)
def test_one_graph_for_one_hook_on_many_modules(at):
    def hook(m, a, out):
        return out * 2

    calls = []
    for _ in range(3):
        model = nn.Linear(4, 4)
        for _ in range(2):  # other ids of the handles each time
            model.register_forward_hook(hook)
        calls.append(at.compile(model))
    return [call(numbers()) for call in calls]


@item(
    "004",
    "global hooks",
    "better",
    "hooks on all modules run where eager runs them, added and removed later too: TorchDynamo leaves them out",
    dynamo="differs",
)
@both
def test_hooks_on_all_modules(at):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    call = at.compile(model)
    found = [call(numbers())]
    handle = nn.modules.module.register_module_forward_hook(lambda m, a, out: out + 1)
    try:
        found.append(call(numbers()))
    finally:
        handle.remove()
    return [*found, call(numbers())]


@item("004", "backward hooks full/pre")
@both
def test_backward_hooks(at):
    seen = []

    def setup(self):
        self.layer = nn.Linear(4, 4)
        self.layer.register_full_backward_hook(lambda m, gi, go: seen.append(("full", go[0].sum().item())))
        self.layer.register_full_backward_pre_hook(lambda m, go: seen.append(("pre", go[0].sum().item())))

    model = module(lambda self, x: self.layer(x + 1) * 2, setup)
    x = numbers().requires_grad_()
    out = at.compile(model, fullgraph=False)(x)
    out.sum().backward()
    return out, x, seen, model.layer.weight


@item("004", "hook registered in forward")
@both
def test_a_hook_registered_in_forward(at):
    def setup(self):
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        handle = self.layer.register_forward_hook(lambda m, a, out: out * 2)
        y = self.layer(x)
        handle.remove()
        return y + self.layer(x)

    model = module(forward, setup)
    return at.compile(model, fullgraph=False)(numbers()), len(model.layer._forward_hooks)


@item("004", "skip_nnmodule_hook_guards", whole=True)
def test_guards_on_hooks_can_be_left_out():
    """TorchDynamo's default leaves them out, Stator's has them: both can be asked for."""
    for skips in (False, True):
        with stator.config.patch(skip_nnmodule_hook_guards=skips):
            stator.reset()
            at, model = Front("stator"), nn.Sequential(nn.Linear(4, 4), nn.Tanh())
            call = at.compile(model)
            before = call(numbers())
            model[0].register_forward_hook(lambda m, a, out: out * 2)
            after = call(numbers())
            assert torch.equal(after, before if skips else model(numbers()))
            assert len(at.graphs) == (1 if skips else 2)
            stator.reset()
            assert torch.equal(call(numbers()), model(numbers())), "what is there at the capture runs"


@item("004", "with_kwargs/always_call/prepend hooks")
@both
def test_hooks_of_all_kinds(at):
    seen = []

    def setup(self):
        self.layer = module(lambda self, x, by=1: x * by)
        self.layer.register_forward_pre_hook(lambda m, a, k: (a, {**k, "by": 3}), with_kwargs=True)
        self.layer.register_forward_hook(lambda m, a, k, out: out + k.get("by", 0), with_kwargs=True)
        self.layer.register_forward_hook(lambda m, a, out: out * 10, prepend=True)
        self.fails = module(lambda self, x: x.unknown)
        self.fails.register_forward_hook(lambda m, a, out: seen.append("always"), always_call=True)

    def forward(self, x):
        try:
            self.fails(x)
        except AttributeError:
            seen.append("caught")
        return self.layer(x, by=2)

    return at.compile(module(forward, setup), fullgraph=False)(numbers()), seen


# ---- lazy modules

Pair = collections.namedtuple("Pair", "first second")


class LazyOfAll(nn.modules.lazy.LazyModuleMixin, nn.Module):
    """Its parameter has the size of what it is first called with, in whatever that is wrapped."""

    cls_to_become = None

    def __init__(self):
        super().__init__()
        self.weight = nn.parameter.UninitializedParameter()

    def initialize_parameters(self, pair, table=None, rest=()):
        if self.has_uninitialized_params():
            with torch.no_grad():
                self.weight.materialize((pair.first.shape[-1] + table["x"].shape[-1] + rest[0].shape[-1],))
                self.weight.fill_(2.0)

    def forward(self, pair, table=None, rest=()):
        return torch.cat([pair.second, table["x"], rest[0]], -1) * self.weight


@item("004", "lazy: convert namedtuple/dict args")
@both
def test_lazy_modules_of_wrapped_arguments(at):
    model = LazyOfAll()

    def g(x):
        return model(Pair(x * 1, x + 1), table={"x": x * 2}, rest=[x - 1])

    call = at.compile(g)
    return [call(numbers()), call(numbers()), model.weight]


@item("004", "lazy: cls_to_become")
@both
def test_lazy_modules_become_others(at):
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    call = at.compile(model)
    return [call(numbers()), call(numbers()), [type(m).__name__ for m in model], dict(model.named_buffers())]


@item(
    "004",
    "lazy: AttributeError observed",
    "better",
    "an error in the initialisation is eager's, with eager's text: TorchDynamo has a text of its own",
    dynamo="differs",
)
@both
def test_lazy_modules_that_cannot_be_initialised(at):
    class Fails(LazyOfAll):
        def initialize_parameters(self, x):
            return x.no_such_attribute

        def forward(self, x):
            return x

    model = Fails()

    def g(x):
        y = x + 1
        try:
            return model(y)
        except AttributeError as error:
            return y * 2, str(error)

    return at.compile(g, fullgraph=False)(numbers()), model.has_uninitialized_params()


# ---- names


def stack_of(node):
    return [(path, kind.__name__) for path, kind in (node.meta.get("nn_module_stack") or {}).values()]


@item("004", "record_nn_module_stack, @n", graphs=1, breaks=False)
def test_the_stack_of_modules(at):
    def setup(self):
        self.inner = Layer()

    found = at.compile(module(lambda self, x: self.inner(self.inner(x)), setup))(numbers())
    if at.is_stator:
        linears = [node for node in at.nodes("call_function") if node.target is F.linear]
        keys = [list(node.meta["nn_module_stack"]) for node in linears]
        assert all(stack_of(node)[-1] == ("L['self'].inner.linear", "Linear") for node in linears)
        assert not any("@" in key for key in keys[0]) and [key.endswith("@1") for key in keys[1]][1:] == [True, True], (
            keys
        )
    return found


@item(
    "004",
    "stack key id(mod), root left out",
    "better",
    "keys are names, so that equal programs give equal graphs in every process and cache, and the root is there: TorchDynamo's are addresses",
    graphs=1,
    breaks=False,
)
def test_the_stack_has_names_and_the_root(at):
    class OwnCall(Layer):
        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs)

    def setup(self):
        self.layers = nn.ModuleList([Layer(), OwnCall()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x + 1

    found = at.compile(module(forward, setup))(numbers())
    if at.is_stator:
        muls = [node for node in at.nodes("call_function") if node.name.startswith("mul")]
        wanted = [
            [("L['self']", "Made"), (f"L['self'].layers.{i}", kind)] for i, kind in ((0, "Layer"), (1, "OwnCall"))
        ]
        assert [stack_of(node) for node in muls] == wanted, [stack_of(node) for node in muls]
        assert all(not key.isdecimal() for node in muls for key in node.meta["nn_module_stack"])
    return found


# ---- kinds of modules


@item("004", "GraphModule call", dynamo="same")
@both
def test_graph_modules(at):
    def setup(self):
        self.inner = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))

    return at.compile(module(lambda self, x: self.inner(x) + 1, setup))(numbers())


@item("004", "ScriptModule unsupported")
@both
def test_script_modules(at):
    def setup(self):
        self.inner = torch.jit.script(nn.Linear(4, 4))

    model = module(lambda self, x: self.inner(x + 1) * 2, setup)
    if at.is_stator:
        error = raised(lambda: stator.compile(model, backend="eager", fullgraph=True)(numbers()))
        assert isinstance(error, stator.exc.Unsupported) and "ScriptModule" in str(error), error
    return at.compile(model, fullgraph=False)(numbers())


@item("004", "parametrize", dynamo="same")
@both
def test_parametrizations(at):
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

    model = nn.Sequential(nn.Linear(4, 4), parametrizations.weight_norm(nn.Linear(4, 4)))
    parametrize.register_parametrization(model[0], "weight", Symmetric())
    return at.compile(model)(numbers())


def containers(self):
    self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Tanh())
    self.list = nn.ModuleList([nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)])
    self.dict = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()})
    self.plist = nn.ParameterList([torch.ones(4) * i for i in range(3)])
    self.pdict = nn.ParameterDict({"a": torch.ones(4), "b": torch.full((4,), 2.0)})


@item("004", "keys/values/items/len/contains", dynamo="same")
@both
def test_containers_are_asked(at):
    def forward(self, x):
        for key, layer in self.dict.items():
            x = layer(x) + len(key)
        for parameter in self.pdict.values():
            x = x * parameter
        told = [list(self.dict.keys()), list(self.pdict.keys()), [type(m).__name__ for m in self.dict.values()]]
        told += [len(c) for c in (self.seq, self.list, self.dict, self.plist, self.pdict)]
        return x, told, "a" in self.dict, "z" in self.dict, "b" in self.pdict

    return at.compile(module(forward, containers))(numbers())


@item("004", "__getitem__ five containers", dynamo="same")
@both
def test_items_of_containers(at):
    def forward(self, x):
        return self.seq[0](x) + self.list[-1](x) + self.dict["a"](x) * self.plist[1] + self.pdict["b"]

    return at.compile(module(forward, containers))(numbers())


@item("004", "slices of containers", dynamo="same")
@both
def test_slices_of_containers(at):
    def forward(self, x):
        x = self.seq[1:](self.seq[:2](x))
        for layer in self.list[::2]:
            x = layer(x)
        for parameter in self.plist[1:]:
            x = x + parameter
        return x, type(self.seq[:1]).__name__, type(self.list[:1]).__name__, len(self.list[5:])

    return at.compile(module(forward, containers))(numbers())


@item("004", "symbolic/const/non-const key", breaks=False)
@both
def test_keys_of_all_kinds(at):
    def forward(self, x, key, index):
        n = x.shape[0] - 2
        return self.list[n](x) + self.dict[key](x) * self.plist[index]

    model = module(forward, containers)
    call = at.compile(model, fullgraph=False, dynamic=True)
    found = [call(numbers(n, 4), "a", 0) for n in (2, 3, 4)]
    found += [call(numbers(3, 4), "b", torch.tensor(2)), raised(lambda: call(numbers(9, 4), "a", 0))]
    return [*found, raised(lambda: call(numbers(3, 4), "z", 0))]


@item("004", "custom __getitem__/__iter__")
@both
def test_containers_with_their_own_ways(at):
    class Reversed(nn.ModuleList):
        def __iter__(self):
            return iter(list(super().__iter__())[::-1])

        def __getitem__(self, index):
            return super().__getitem__(len(self) - 1 - index)

    def setup(self):
        self.layers = Reversed([nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x + self.layers[0](x)

    return at.compile(module(forward, setup))(numbers())


@item("004", "_conv_forward/_output_padding/_check_input_dim")
@both
def test_inner_methods_of_layers(at):
    def setup(self):
        self.conv, self.up = nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), nn.ConvTranspose2d(3, 2, 2, 2)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        self.norm._check_input_dim(x)
        y = self.conv._conv_forward(x, self.conv.weight, self.conv.bias)
        size = self.up._output_padding(y, [13, 13], (2, 2), (0, 0), (2, 2), 2, (1, 1))
        try:
            self.norm._check_input_dim(y[0])
        except ValueError as error:
            return self.norm(y) + size[0], self.up(y, output_size=(13, 13)), str(error)

    return at.compile(module(forward, setup))(numbers(2, 2, 6, 6))


@item("004", "_get_item_by_idx/_get_abs_string_index")
@both
def test_inner_methods_of_containers(at):
    def forward(self, x):
        name = self.list._get_abs_string_index(-1)
        first = self.seq._get_item_by_idx(self.seq._modules.values(), 0)
        try:
            self.list._get_abs_string_index(7)
        except IndexError as error:
            return first(x), name, str(error)

    return at.compile(module(forward, containers))(numbers())


@item("004", "named_children/modules/buffers", dynamo="same")
@both
def test_what_modules_list(at):
    def setup(self):
        containers(self)
        self.norm = nn.BatchNorm1d(4)
        self.again = self.list

    def forward(self, x):
        told = [[name for name, _ in self.named_children()], [name for name, _ in self.named_modules()]]
        told += [[name for name, _ in self.named_buffers("p", False)], [name for name, _ in self.named_buffers()]]
        return self.norm(x), told, len(list(self.children())), len(list(self.modules())), len(list(self.buffers()))

    return at.compile(module(forward, setup))(numbers())


# ---- guards and writes


@item("004", "key order guards")
@both
def test_the_order_of_children_is_guarded(at):
    def forward(self, x):
        for child in self.children():
            x = child(x)
        return x

    def setup(self):
        self.one, self.two = nn.Linear(4, 4), nn.ReLU()

    model = module(forward, setup)
    call = at.compile(model)
    found = [call(numbers())]
    model._modules["one"] = model._modules.pop("one")
    found.append(call(numbers()))
    model.three = nn.Tanh()
    return [*found, call(numbers())]


@item("004", "hasattr guard", dynamo="same")
@both
def test_absence_is_guarded(at):
    def forward(self, x):
        return x * (self.extra if hasattr(self, "extra") else 2)

    model = module(forward)
    call = at.compile(model)
    found = [call(numbers())]
    model.extra = 7
    found.append(call(numbers()))
    del model.extra
    return [*found, call(numbers())]


@item("004", "__setattr__ param/buffer/module")
@both
def test_things_are_set(at):
    def setup(self):
        self.weight, self.spare = nn.Parameter(torch.ones(4)), nn.Parameter(torch.full((4,), 2.0))
        self.child, self.other = nn.Linear(4, 4), nn.ReLU()
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x):
        self.state = self.state + x.mean(0).detach()
        self.child, self.other = self.other, self.child
        self.note = 4
        self.weight, self.spare = self.spare, self.weight
        return self.child(x) * self.weight + self.state, [name for name, _ in self.named_parameters()]

    model = module(forward, setup)
    call = at.compile(model, fullgraph=False)
    found = [call(numbers()), call(numbers())]
    return found, model.state, model.note, [type(m).__name__ for m in model.children()], model.weight


@item(
    "004",
    "__delattr__",
    "better",
    "what a forward deletes is gone in the graph and behind it, and what is not there cannot be deleted: TorchDynamo raises nothing",
    dynamo="differs",
)
@both
def test_things_are_deleted(at):
    def setup(self):
        self.weight, self.child, self.note = nn.Parameter(torch.ones(4)), nn.Linear(4, 4), 3
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x):
        y = self.child(x) * self.weight + self.note
        del self.weight, self.state, self.child, self.note
        try:
            del self.nothing
        except AttributeError as error:
            return y, str(error), hasattr(self, "child"), len(list(self.parameters()))

    model = module(forward, setup)
    return at.compile(model)(numbers()), list(model.state_dict()), "note" in model.__dict__


@item(
    "004",
    "module built inside",
    "better",
    "a module with parameters that a function makes is made in one graph, and they get gradients: TorchDynamo breaks there",
    dynamo="differs",
)
@both
def test_modules_made_inside(at):
    class Times(nn.Module):
        def __init__(self, by):
            super().__init__()
            self.by, self.inner = by, nn.ReLU()

        def forward(self, x):
            return self.inner(x) * self.by

    def g(x):
        made = nn.Sequential(Times(3), nn.Linear(4, 2))
        with torch.no_grad():
            made[1].weight.fill_(0.5)
            made[1].bias.zero_()
        return made(x), made

    out, made = at.compile(g)(numbers())
    out.sum().backward()
    return out, list(made.parameters()), [type(m).__name__ for m in made]


@item("004", "constant=True method: stored attribute", breaks=False, graphs=1)
def test_results_that_are_constant(at):
    """What a method under assume_constant_result returned is an attribute of the graph's module."""

    def table(self):
        return torch.full((4,), 3.0) * len(self.name)

    model = module(lambda self, x: x * self.table(), table=stator.assume_constant_result(table), name="ab")
    found = at.compile(model)(numbers())
    if at.is_stator:
        assert [node.op for node in at.nodes()].count("get_attr") == 1, at.graphs[0].graph
        assert len(at.nodes("placeholder")) == 1
    return found


@item("004", "export slice", whole=True)
def test_slices_are_exported():
    model = module(lambda self, x: self.seq[1:](self.seq[:1](x)), containers)
    exported = stator.export(model)(numbers())
    made = exported.graph_module if hasattr(exported, "graph_module") else exported[0]
    out = made(numbers())
    assert torch.equal(out if isinstance(out, torch.Tensor) else out[0], model(numbers()))


# ---- FSDP


def managed():
    def setup(self):
        self.inner, self.note = Layer(), 1

    model = module(lambda self, x: self.inner(x) * self.note, setup)
    for part in model.modules():
        part._is_fsdp_managed_module = part._fsdp_use_orig_params = True
    return model


@item("004", "FSDP guards skipped", breaks=False)
def test_modules_that_fsdp_manages(at):
    """Parameters are inputs, submodules are traced into, and what TorchDynamo guards of them is guarded."""
    model = managed()
    call = at.compile(model)
    found = [call(numbers())]
    if at.is_stator:
        assert [node for node in at.nodes("placeholder") if "linear" in node.name] and not at.nodes("call_module")
    model.inner.scale = nn.Parameter(torch.full((4,), 2.0))
    found.append(call(numbers()))
    return found


class OwnForward(Layer):
    def forward(self, x):
        return x * 3


def swapped(model, inner):
    for part in inner.modules():
        part._is_fsdp_managed_module = part._fsdp_use_orig_params = True
    model.inner = inner


CHANGES = {
    "an attribute": lambda m: setattr(m, "note", 3),
    "an attribute inside": lambda m: setattr(m.inner, "factor", 5),
    "a list inside": lambda m: m.inner.parts.append(4.0),
    "the mode": lambda m: m.train(),
    "a new attribute": lambda m: setattr(m.inner, "extra", 1),
    "another parameter": lambda m: setattr(m.inner, "scale", nn.Parameter(torch.full((4,), 2.0))),
    "a buffer": lambda m: setattr(m.inner, "shift", torch.full((4,), 2.0)),
    "a buffer of another dtype": lambda m: setattr(m.inner, "shift", torch.full((4,), 2.0, dtype=torch.float64)),
    "a module of the same class": lambda m: swapped(m, Fresh()),
    "a module of another class": lambda m: swapped(m, OwnForward()),
    "a forward hook": lambda m: m.inner.register_forward_hook(lambda m, a, out: out * 2) and None,
    "a forward pre-hook": lambda m: m.inner.linear.register_forward_pre_hook(lambda m, a: (a[0] * 2,)) and None,
    "the forward of an instance": lambda m: setattr(m.inner, "forward", lambda x: x * 7),
}


class Fresh(Layer):
    """A layer whose forward looks at all kinds of things."""

    def __init__(self):
        super().__init__()
        self.factor, self.parts = 2, [1.0, 2.0]

    def forward(self, x):
        x = super().forward(x)
        for part in self.parts:
            x = x * part
        x = x + 1 if self.training else x
        return (x + 100 if hasattr(self, "extra") else x) * self.factor


def changes_seen(at):
    """Which changes inside of modules that FSDP manages take effect in the next call."""
    fresh = {}
    for name, change in CHANGES.items():
        torch.manual_seed(0)
        model = managed()
        swapped(model, Fresh())
        model.eval()
        if at.name == "dynamo":
            torch._dynamo.reset()
        else:
            stator.reset()
        call = at.compile(model)
        call(numbers())
        change(model)
        fresh[name] = torch.allclose(call(numbers()), model(numbers()))
    return fresh


def test_modules_that_fsdp_manages_are_no_staler_than_with_torchdynamo():
    ours, theirs = changes_seen(Front("stator")), beside_call("test_seeds_modules", "changes_seen")
    assert not all(theirs.values()), "its hooks"
    assert all(ours[name] or not theirs[name] for name in CHANGES), (ours, theirs)
    assert all(ours.values()), ours


@item("004", "FSDP skip off", breaks=False)
def test_modules_that_fsdp_manages_with_all_guards(at):
    with stator.config.patch(skip_fsdp_guards=False):
        model = managed()
        call = at.compile(model)
        found = [call(numbers())]
        model.note = 3
        found.append(call(numbers()))
        model.inner.linear = nn.Linear(4, 4)
        return [*found, call(numbers())]


@item("004", "non-const method args break")
@both
def test_methods_of_modules_with_arguments_that_are_not_known(at):
    """Where TorchDynamo wants constants as arguments of a module's method, tensors do: traced, or left to Python."""

    def setup(self):
        containers(self)

    def forward(self, x, flag):
        names = [name for name, _ in self.named_parameters(recurse=bool(flag))]
        return self.seq(x) + len(names)

    model = module(forward, setup)
    call = at.compile(model, fullgraph=False)
    return [call(numbers(), torch.tensor(flag)) for flag in (True, False)]


@pytest.fixture(autouse=True)
def all_is_as_before():
    kept = dict(nn.Module.__dict__)
    yield
    assert dict(nn.Module.__dict__) == kept
