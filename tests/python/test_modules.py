"""nn.Module under capture, item by item, in both treatments (config.specialize_modules): equal to eager in outputs,
state and effects."""

import collections
import copy
import functools
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import stator


@pytest.fixture(params=["unspecialised", "specialised"], autouse=True)
def treatment(request):
    stator.config.specialize_modules = request.param == "specialised"
    return request.param


class Graphs:
    """A backend that keeps the graphs it was given."""

    def __init__(self):
        self.seen = []

    def __call__(self, module, example_inputs):
        self.seen.append(module)
        return module.forward

    def nodes(self, *ops):
        return [node for module in self.seen for node in module.graph.nodes if not ops or node.op in ops]


def plain(value):
    """Something that `==` compares: tensors become values with their facts, objects their types."""
    if isinstance(value, nn.parameter.UninitializedTensorMixin):
        return type(value).__name__
    if isinstance(value, torch.Tensor):
        facts = (type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad)
        grad = plain(value.grad) if value.is_leaf and value.grad is not None else None
        return facts, value.detach().clone().double().nan_to_num().tolist(), grad
    if isinstance(value, nn.Module):
        return type(value).__name__, plain(state_of(value))
    if isinstance(value, dict):
        return type(value).__name__, [(plain(key), plain(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple, set)):
        return type(value).__name__, [plain(item) for item in value]
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    if isinstance(value, (int, float, str, bool, type(None), torch.dtype, torch.device)):
        return type(value).__name__, value
    return type(value).__name__


HIDDEN = {"_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"}


def state_of(model):
    """Tensors, order of registrations, training flags, classes and plain attributes of the whole tree."""
    found = []
    for name, part in model.named_modules(remove_duplicate=False):
        attributes = {
            k: v for k, v in part.__dict__.items() if k not in HIDDEN and not isinstance(v, (nn.Module, dict))
        }
        entries = [list(part._parameters.keys()), list(part._buffers.keys()), list(part._modules.keys())]
        found.append((name, type(part).__name__, plain(attributes), plain(entries)))
    return found, plain(dict(model.named_parameters())), plain(dict(model.named_buffers()))


def compare(make, script, graphs=1, full=True, close=False):
    """Runs script(call, model) eagerly and compiled, each with a model of its own. `graphs`: how many are captured
    (None: not checked)."""

    def observe(compiled):
        torch.manual_seed(5)
        model = make()
        backend = Graphs()
        call = stator.compile(model, backend=backend, fullgraph=full) if compiled else model
        torch.manual_seed(6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = script(call, model)
        return [plain(results), plain(state_of(model)), torch.get_rng_state().tolist()], backend

    expected, _ = observe(False)
    stator.reset()
    got, backend = observe(True)
    for name, one, other in zip(("results", "state", "random state"), expected, got, strict=True):
        if close and name != "random state":
            assert same_up_to_rounding(one, other), name
        else:
            assert one == other, name
    assert backend.seen, "nothing was captured"
    if graphs is not None:
        assert len(backend.seen) == graphs
    return backend


def same_up_to_rounding(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-5 + 1e-5 * abs(one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same_up_to_rounding, one, other))
    return one == other


def inputs(*shape):
    size = torch.Size(shape or (3, 4))
    return torch.arange(float(size.numel())).reshape(size) / size.numel() - 0.3


def twice(call, model):
    return [call(inputs()), call(inputs() + 1)]


def module(forward, setup=None, bases=(nn.Module,), **names):
    """A module class in one expression: setup(self) after __init__, forward(self, x)."""

    def __init__(self):
        super(made, self).__init__()
        if setup is not None:
            setup(self)

    made = type("Made", bases, {"__init__": __init__, "forward": forward, **names})
    return made


# ---- 1. two treatments


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x):
        return F.relu(self.linear(x)) * self.scale + self.shift


def test_what_the_graph_holds(treatment):
    backend = compare(Layer, twice)
    ops = collections.Counter(node.op for node in backend.nodes())
    if treatment == "unspecialised":
        assert (ops["placeholder"], ops["get_attr"], ops["call_module"]) == (5, 0, 0)
    else:
        assert (ops["placeholder"], ops["get_attr"], ops["call_module"]) == (1, 2, 1)
        (call,) = backend.nodes("call_module")
        assert type(backend.seen[0].get_submodule(call.target)) is nn.Linear
        assert {node.target for node in backend.nodes("get_attr")} == {"L__self___scale", "L__self___shift"}
        assert "L__self___scale" in dict(backend.seen[0].named_parameters())
        assert "L__self___shift" in dict(backend.seen[0].named_buffers())


def test_twenty_equal_layers_compiled_one_by_one(treatment):
    backend = Graphs()
    layers = [stator.compile(Layer(), backend=backend, fullgraph=True) for _ in range(20)]
    stator.config.recompile_limit = 64
    x = inputs()
    for layer in layers:
        assert torch.equal(layer(x), layer._orig_mod(x))
    assert len(backend.seen) == (1 if treatment == "unspecialised" else 20)


def test_settings_of_layers_stay_numbers(treatment):
    class Conv(nn.Conv2d):
        def forward(self, x):
            return F.conv2d(x, self.weight, self.bias, self.stride, self.padding)

    backend = Graphs()
    x = torch.randn(1, 4, 16, 16)
    for stride in (1, 2, 3):
        conv = Conv(4, 4, 2, stride)
        torch.testing.assert_close(stator.compile(conv, backend=backend, fullgraph=True)(x), conv(x))
    assert len(backend.seen) == 3
    assert not [
        node for gm in backend.seen for node in gm.graph.nodes if node.op == "placeholder" and "stride" in node.name
    ]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_backends_take_both(backend, treatment):
    if backend == "inductor" and treatment == "unspecialised":
        pytest.skip("tests/python/test_graph_fx.py has it")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.GELU(), Layer())
    reference = copy.deepcopy(model)
    compiled = stator.compile(model, backend=backend, fullgraph=True)
    for turn in range(3):
        x, y = inputs(3, 4).requires_grad_(), inputs(3, 4).requires_grad_()
        got, expected = compiled(x + turn), reference(y + turn)
        torch.testing.assert_close(got, expected)
        got.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    for (name, one), other in zip(model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, msg=name)
    torch.testing.assert_close(model.state_dict(), reference.state_dict())


def test_specialised_modules_that_do_not_fit(treatment):
    """Hooks on a container and on a layer, a sliced container, state written: no call_module there, and no capture
    lost."""

    def setup(self):
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.ReLU())
        self.seq.register_forward_hook(lambda m, a, out: out + 1)
        self.hooked = nn.Linear(4, 4)
        self.hooked.register_forward_pre_hook(lambda m, a: (a[0] * 2,))
        self.free = nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.free(self.hooked(self.seq[:2](self.seq(x))))

    backend = compare(module(forward, setup), lambda call, model: [call(inputs()), model.calls])
    if treatment == "specialised":
        names = [node.target for node in backend.nodes("call_module")]
        assert "L__self___free" in names and "L__self___hooked" not in names


def test_layers_of_torch_that_do_more_than_compute(treatment):
    def setup(self):
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.relu = nn.ReLU(inplace=True)
        self.lstm = nn.LSTM(4, 4)
        self.attention = nn.MultiheadAttention(4, 2)
        self.identity = nn.Identity()

    def forward(self, x):
        y = self.relu(self.drop(self.norm(x)))
        out, (h, c) = self.lstm(y[None])
        out, weights = self.attention(out, out, out, need_weights=True)
        return self.identity(out), h, c, weights, y

    compare(
        module(forward, setup),
        lambda call, model: [call(inputs()), call(inputs()), model.eval() and call(inputs())],
        graphs=2,
    )


class Managed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Layer()
        self.note = 1

    def forward(self, x):
        return self.inner(x) * self.note


def test_modules_that_fsdp_manages(treatment):
    model = Managed()
    for part in model.modules():
        part._is_fsdp_managed_module = True
        part._fsdp_use_orig_params = True
    backend = Graphs()
    compiled = stator.compile(model, backend=backend, fullgraph=True)
    x = inputs()
    assert torch.equal(compiled(x), model(x))
    assert [node for node in backend.nodes("placeholder") if "linear" in node.name], "parameters are inputs"
    assert not backend.nodes("call_module"), "submodules are traced into"
    model.note = 2  # the program's own value, which FSDP leaves alone
    assert torch.equal(compiled(x), model(x))
    assert len(backend.seen) == 2
    stator.reset()
    with stator.config.patch(skip_fsdp_guards=False):
        assert torch.equal(compiled(x), model(x))
        model.note = 3
        assert torch.equal(compiled(x), model(x))


# ---- 2. attributes


def test_attribute_kinds():
    class Base(nn.Module):
        constant = 3
        table = torch.ones(4)

        @property
        def doubled(self):
            return self.weight * 2

        @classmethod
        def of_class(cls):
            return cls.constant

        @staticmethod
        def of_nobody(x):
            return x + 1

    def setup(self):
        self.weight = nn.Parameter(torch.ones(4))
        self.nothing = None
        self.register_parameter("no_weight", None)
        self.register_buffer("no_buffer", None)

    def forward(self, x):
        x = self.of_nobody(x) * self.doubled + self.of_class() + self.table
        found = [
            self.nothing,
            self.no_weight,
            self.no_buffer,
            hasattr(self, "weight"),
            hasattr(self, "missing"),
            getattr(self, "missing", 7),
        ]
        found += [
            self.__class__.__name__,
            type(self) is self.__class__,
            "weight" in self.__dict__,
            "weight" in self._parameters,
        ]
        return x, found

    compare(module(forward, setup, bases=(Base,)), twice)


def test_missing_attribute_raises_as_eager():
    def forward(self, x):
        try:
            return self.missing
        except AttributeError as error:
            return x + 1, str(error)

    compare(module(forward), twice)


def test_instance_dict_hides_class_and_class_hides_registered():
    class Base(nn.Module):
        hidden = 5  # found before _buffers are looked at

    def setup(self):
        self.__dict__["forwarded"] = 2
        self._buffers["hidden"] = torch.ones(4)

    compare(module(lambda self, x: x * self.hidden + self.forwarded, setup, bases=(Base,)), twice)


def test_custom_getattr_with_and_without_super():
    class With(nn.Module):
        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name != "four":
                    raise
                return len(name)

    class Without(nn.Module):
        def __getattr__(self, name):
            if name != "four":
                raise AttributeError(name)
            return name, self._parameters["weight"]

    def setup(self):
        self.weight = nn.Parameter(torch.ones(4))

    compare(module(lambda self, x: x * self.weight + self.four, setup, bases=(With,)), twice)
    compare(module(lambda self, x: (x * self.four[1], self.four[0]), setup, bases=(Without,)), twice)


def test_custom_getattr_that_is_no_function_and_getattribute():
    class Callable:
        def __get__(self, owner, kind):
            return lambda name: 3

    class Odd(nn.Module):
        __getattr__ = Callable()

    compare(module(lambda self, x: x + self.absent, bases=(Odd,)), twice, graphs=None, full=False)

    class Watched(nn.Module):
        def __getattribute__(self, name):
            return 2 if name == "scale" else super().__getattribute__(name)

    compare(module(lambda self, x: x * self.scale, bases=(Watched,)), twice, graphs=None, full=False)


# ---- 3. state written in a trace


def test_plain_attributes_written_and_deleted():
    def setup(self):
        self.count, self.gone, self.last = 0, 1, None

    def forward(self, x):
        self.count += 1
        self.last = x * 2
        if hasattr(self, "gone"):
            del self.gone
        self.extra = [self.count, self.last]
        return x + self.count

    compare(
        module(forward, setup),
        lambda call, model: [call(inputs()), call(inputs()), model.last, model.extra, hasattr(model, "gone")],
        graphs=2,
    )


def test_registered_things_written():
    def setup(self):
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("state", torch.zeros(4))
        self.child = nn.Linear(4, 4)
        self.other = nn.Linear(4, 4)

    def forward(self, x):
        self.state = self.state + x.mean(0)
        self.child, self.other = self.other, self.child
        self.spare = self.child
        names = [name for name, _ in self.named_children()]
        return self.child(x) + self.state, names, [name for name, _ in self.named_buffers()]

    compare(module(forward, setup), twice, graphs=None)


def test_deleted_registrations():
    def setup(self):
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("state", torch.zeros(4))
        self.child = nn.Linear(4, 4)

    def forward(self, x):
        y = self.child(x) * self.weight
        del self.weight, self.state, self.child
        return y, [name for name, _ in self.named_parameters()], hasattr(self, "child")

    compare(module(forward, setup), lambda call, model: [call(inputs()), list(model.state_dict())])


def test_register_in_the_trace():
    def forward(self, x):
        if not hasattr(self, "running"):
            self.register_buffer("running", x.sum(0).detach(), persistent=False)
            self.register_module("late", None)
            self.register_parameter("absent", None)
            self.add_module("again", None)
        return x + self.running, [name for name, _ in self.named_buffers()]

    compare(
        module(forward),
        lambda call, model: [call(inputs()), call(inputs()), list(model.state_dict()), list(model._modules)],
        graphs=2,
    )


def test_registration_errors_are_eagers():
    def forward(self, x):
        said = []
        for name in ("", "a.b", "forward", 3):
            try:
                self.register_buffer(name, x)
            except (KeyError, TypeError) as error:
                said.append((type(error).__name__, str(error)))
        try:
            self.weight = x
        except TypeError as error:
            said.append(str(error))
        return x + 1, said

    def setup(self):
        self.weight = nn.Parameter(torch.ones(4))

    compare(module(forward, setup), twice, graphs=None, full=False)


def test_dicts_changed_directly():
    def setup(self):
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        self._modules["third"] = self._modules.pop("first")
        self._buffers["made"] = x.sum(0)
        self._parameters["tied"] = self.second.weight
        names = (
            [name for name, _ in self.named_children()],
            [name for name, _ in self.named_parameters()],
            list(self._buffers),
        )
        return self.third(x) + self.made, names

    compare(module(forward, setup), lambda call, model: [call(inputs()), list(model._modules), model._buffers["made"]])


# ---- 4. methods


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.again = self.a
        self.c = nn.Module()
        self.c.tied = self.a.weight
        self.empty = None

    def forward(self, x):
        return self.b(self.a(x))


def over(methods):
    class Lists(Tree):
        def forward(self, x):
            x = super().forward(x)
            return x, methods(self)

    return Lists


def shapes(pairs):
    return [(name, tuple(tensor.shape)) for name, tensor in pairs]


@pytest.mark.parametrize(
    "methods",
    [
        lambda m: shapes(m.named_parameters()),
        lambda m: shapes(m.named_parameters("p", False)),
        lambda m: shapes(m.named_parameters(prefix="p", remove_duplicate=False)),
        lambda m: [tuple(p.shape) for p in m.parameters()] + [tuple(p.shape) for p in m.parameters(False)],
        lambda m: shapes(m.named_buffers()) + shapes(m.named_buffers("q", True, False)),
        lambda m: [tuple(b.shape) for b in m.buffers()],
        lambda m: [type(c).__name__ for c in m.children()] + [name for name, _ in m.named_children()],
        lambda m: [type(c).__name__ for c in m.modules()],
        lambda m: (
            [name for name, _ in m.named_modules()]
            + [name for name, _ in m.named_modules(prefix="r", remove_duplicate=False)]
        ),
        lambda m: [name for name, _ in m.named_modules(memo={m.b})],
        lambda m: [
            m.get_submodule("b.0") is m.b[0],
            m.get_parameter("b.0.weight") is m.b[0].weight,
            m.get_buffer("b.1.running_mean") is m.b[1].running_mean,
        ],
        lambda m: [next(m.parameters()).dtype, next(iter(m.children())) is m.a, len(list(m.parameters()))],
    ],
)
def test_methods_that_list(methods):
    compare(over(methods), twice)


def test_missing_submodule_raises_as_eager():
    def methods(m):
        said = []
        for name in ("x", "a.x", "a.weight"):
            try:
                m.get_submodule(name)
            except AttributeError as error:
                said.append(str(error))
        return said

    compare(over(methods), twice)


def test_train_and_eval_in_the_trace():
    def forward(self, x):
        self.b.eval()
        y = Tree.forward(self, x)
        self.b.train()
        return y, self.b.training, self.training

    compare(type("Switches", (Tree,), {"forward": forward}), twice)


def test_state_dict_in_the_trace():
    def forward(self, x):
        return Tree.forward(self, x), sorted(self.state_dict())

    compare(type("Saves", (Tree,), {"forward": forward}), twice, graphs=None, full=False)


def test_requires_grad_zero_grad_apply_to():
    def forward(self, x):
        y = Tree.forward(self, x)
        seen = []
        self.apply(lambda m: seen.append(type(m).__name__))
        self.zero_grad()
        return y, seen

    compare(type("Walks", (Tree,), {"forward": forward}), twice, graphs=None, full=False)

    def freezes(self, x):
        self.a.requires_grad_(False)
        return Tree.forward(self, x), [p.requires_grad for p in self.parameters()]

    compare(type("Freezes", (Tree,), {"forward": freezes}), twice, graphs=None, full=False)

    def moves(self, x):
        return self.to(torch.float64).b[0](x.double())

    compare(type("Moves", (Tree,), {"forward": moves}), twice, graphs=None, full=False)


def test_keys_added_or_moved_are_noticed():
    def forward(self, x):
        for child in self.children():
            x = child(x)
        return x

    def setup(self):
        self.one, self.two = nn.Linear(4, 4), nn.ReLU()

    def script(call, model):
        results = [call(inputs())]
        model.three = nn.Linear(4, 4)
        results.append(call(inputs()))
        model._modules.move_to_end("one") if hasattr(model._modules, "move_to_end") else model._modules.update(
            one=model._modules.pop("one")
        )
        return [*results, call(inputs())]

    compare(module(forward, setup), script, graphs=3)


# ---- 5. containers


def test_sequential_and_module_list():
    def setup(self):
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.list = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.names = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()})

    def forward(self, x):
        x = self.seq(x) + self.seq[-1](x) + self.seq[1:](x) + self.seq[:2][0](x)
        for layer in self.list:
            x = layer(x)
        for layer in self.list[::2]:
            x = layer(x)
        for index in range(len(self.list)):
            x = x + self.list[index](x)
        for name, layer in self.names.items():
            x = layer(x) + len(name)
        found = [
            len(self.seq),
            len(self.list),
            len(self.names),
            "a" in self.names,
            "c" in self.names,
            self.list[1] in self.list,
        ]
        found += [
            list(self.names),
            list(self.names.keys()),
            [type(v).__name__ for v in self.names.values()],
            type(self.list[:2]).__name__,
            type(self.seq[:1]).__name__,
        ]
        return self.names["a"](x), found

    compare(module(forward, setup), twice)


def test_parameter_containers():
    def setup(self):
        self.list = nn.ParameterList([torch.ones(4) * i for i in range(3)])
        self.dict = nn.ParameterDict({"a": torch.ones(4), "b": torch.full((4,), 2.0)})

    def forward(self, x):
        for parameter in self.list:
            x = x + parameter
        x = x * self.list[-1] + self.list[0]
        for name, parameter in self.dict.items():
            x = x * parameter + len(name)
        return x + self.dict["a"], [
            len(self.list),
            len(self.dict),
            "a" in self.dict,
            list(self.dict.keys()),
            [tuple(v.shape) for v in self.dict.values()],
        ]

    compare(module(forward, setup), twice)


def test_containers_grow_in_the_trace():
    def setup(self):
        self.list = nn.ModuleList([nn.Linear(4, 4)])
        self.names = nn.ModuleDict({"a": nn.Linear(4, 4)})
        self.seq = nn.Sequential(nn.Linear(4, 4))
        self.spare = nn.Linear(4, 4)

    def forward(self, x):
        self.list.append(self.spare)
        self.list.extend([self.seq[0]])
        self.list.insert(0, self.names["a"])
        self.names["z"] = self.spare
        self.names.update({"y": self.seq[0]})
        self.seq.append(self.spare)
        popped = self.list.pop(1)
        for layer in self.list:
            x = layer(x)
        return popped(self.seq(x)), [len(self.list), list(self.names), len(self.seq), popped is self.list[0]]

    compare(
        module(forward, setup), lambda call, model: [call(inputs()), len(model.list), list(model.names), len(model.seq)]
    )


def test_container_subclasses():
    class Reversed(nn.ModuleList):
        def __iter__(self):
            return iter(list(super().__iter__())[::-1])

        def __getitem__(self, index):
            return super().__getitem__(len(self) - 1 - index)

    def setup(self):
        self.layers = Reversed([nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)])
        self.nested = nn.ModuleList(
            [nn.ModuleList([nn.Linear(4, 4)]), nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU()))]
        )
        self.nested.append(self.nested[0][0])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.nested[2](self.nested[1](self.nested[0][0](x))) + self.layers[0](x)

    compare(module(forward, setup), twice)


def test_containers_indexed_by_sizes():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))
            self.row = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)))
            self.named = nn.ModuleDict({str(i): nn.Linear(4, 4) for i in range(6)})

        def forward(self, x):
            n = x.size(0)
            x = self.row[n - 1](self.layers[n - 2](x))
            for layer in self.layers[:n]:
                x = layer(x)
            return self.named[str(n)](self.row[1:n](x)) + n

    model, backend = Model(), Graphs()
    compiled = stator.compile(model, backend=backend, dynamic=True)
    for n in (2, 3, 4, 3):
        x = torch.randn(n, 4)
        torch.testing.assert_close(compiled(x), model(x))
    assert len(backend.seen) == 3  # one for each number: it says which layers run


def test_index_errors_are_eagers():
    def setup(self):
        self.list = nn.ModuleList([nn.Linear(4, 4)])
        self.names = nn.ModuleDict()

    def forward(self, x):
        said = []
        for attempt in (lambda: self.list[3], lambda: self.names["q"]):
            try:
                attempt()
            except (IndexError, KeyError) as error:
                said.append((type(error).__name__, str(error)))
        return self.list[0](x), said

    compare(module(forward, setup), twice)


# ---- 6. calls


def test_ways_to_call():
    def setup(self):
        self.layer = nn.Linear(4, 4)
        self.layer.register_forward_hook(lambda m, a, out: out * 2)

    def forward(self, x):
        return (
            self.layer(x),
            self.layer.forward(x),
            self.layer.__call__(x),
            self.layer._call_impl(x),
            nn.Linear.forward(self.layer, x),
        )

    compare(module(forward, setup), twice)


def test_forward_patched_on_the_instance():
    def script(call, model):
        results = [call(inputs())]
        model.layer.forward = lambda x: x * 3
        results.append(call(inputs()))
        del model.layer.forward
        return [*results, call(inputs())]

    def setup(self):
        self.layer = nn.Linear(4, 4)

    compare(module(lambda self, x: self.layer(x) + 1, setup), script, graphs=2)


def test_forward_patched_on_the_class():
    class Inner(nn.Module):
        def forward(self, x):
            return x + 1

    original = Inner.forward

    def script(call, model):
        Inner.forward = original
        results = [call(inputs())]
        Inner.forward = lambda self, x: x * 5
        results.append(call(inputs()))
        Inner.forward = original
        return [*results, call(inputs())]

    def setup(self):
        self.inner = Inner()

    compare(module(lambda self, x: self.inner(x) * 2, setup), script, graphs=2)


def test_graph_module_inside():
    def setup(self):
        self.inner = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))

    compare(module(lambda self, x: self.inner(x) + 1, setup), twice)


def test_script_module_inside():
    def setup(self):
        self.inner = torch.jit.script(nn.Linear(4, 4))

    compare(module(lambda self, x: self.inner(x + 1) * 2, setup), twice, graphs=None, full=False)


def test_modules_defined_in_the_trace():
    def forward(self, x):
        class Local(nn.Module):
            def __init__(self, by):
                super().__init__()
                self.by = by
                self.inner = nn.ReLU()

            def forward(self, x):
                return self.inner(x) * self.by

        return Local(3)(x)

    compare(module(forward), twice, graphs=None, full=False)

    def plain_module(self, x):
        return nn.Sequential(nn.ReLU(), nn.Flatten())(x)

    compare(module(plain_module), twice, graphs=None, full=False)


def test_recursion():
    class Nested(nn.Module):
        def __init__(self, depth=4):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.inner = Nested(depth - 1) if depth else None

        def forward(self, x):
            x = self.linear(x)
            return x if self.inner is None else self.inner(x)

    backend = compare(Nested, twice)
    assert len(backend.nodes("call_function", "call_module")) == 5


def test_regional_compile():
    for whole in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(*[Layer() for _ in range(6)])
        reference = copy.deepcopy(model)
        backend = Graphs()
        for layer in model:
            stator.compile_module_inplace(layer, backend=backend)
        call = stator.compile(model, backend=backend) if whole else model
        for _ in range(2):
            assert torch.equal(call(inputs()), reference(inputs()))
        assert backend.seen
        if not whole and not stator.config.specialize_modules:
            assert len(backend.seen) == 2, (
                "equal layers share what was captured; the first one's input needs no gradient"
            )
        stator.reset()


def test_compiled_module_inside_of_modules():
    inner = stator.compile(Layer(), backend="eager")
    x = inputs()

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) * 2

    model = Outer()
    expected = inner._orig_mod(x) * 2
    assert torch.equal(model(x), expected)
    backend = Graphs()
    assert torch.equal(stator.compile(model, backend=backend)(x), expected)
    assert backend.seen


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).T


def test_parametrize():
    def make():
        layer = nn.Linear(4, 4)
        parametrize.register_parametrization(layer, "weight", Symmetric())
        return nn.Sequential(layer, nn.ReLU())

    def script(call, model):
        results = twice(call, model)
        with parametrize.cached():
            results.append(call(inputs()))
        parametrize.remove_parametrizations(model[0], "weight")
        return [*results, call(inputs())]

    compare(make, script, graphs=None, full=False)
    compare(make, twice)


def test_weight_norm_and_spectral_norm():
    compare(lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 4)), nn.ReLU()), twice)
    compare(
        lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 4)), nn.ReLU()),
        twice,
        graphs=None,
        full=False,
    )
    compare(lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 4)), nn.ReLU()), twice, graphs=None, full=False)
    compare(lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 4)), nn.ReLU()), twice, graphs=None, full=False)


# ---- 7. hooks


def hooked(register):
    def make():
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        register(model)
        return model

    return make


def test_hook_kinds():
    def forward_hook(m, args, out):
        return out * 2

    def pre_with_kwargs(m, args, kwargs):
        return (args[0] + 1,), kwargs

    def with_kwargs(m, args, kwargs, out):
        return out + len(kwargs)

    compare(hooked(lambda m: m[0].register_forward_hook(forward_hook)), twice)
    compare(hooked(lambda m: m.register_forward_hook(forward_hook)), twice)
    compare(hooked(lambda m: m[0].register_forward_pre_hook(lambda m, args: (args[0] * 3,))), twice)
    compare(hooked(lambda m: m[0].register_forward_pre_hook(pre_with_kwargs, with_kwargs=True)), twice)
    compare(hooked(lambda m: m[0].register_forward_hook(with_kwargs, with_kwargs=True)), twice)

    def ordered(m):
        m[0].register_forward_hook(lambda m, a, o: o + 1)
        m[0].register_forward_hook(lambda m, a, o: o * 2, prepend=True)

    compare(hooked(ordered), twice)


def test_always_called_hook():
    seen = []

    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    def make():
        seen.clear()
        model = nn.Sequential(nn.Linear(4, 4), Fails())
        model[1].register_forward_hook(lambda m, a, o: seen.append("called"), always_call=True)
        return model

    def script(call, model):
        try:
            call(inputs())
        except ValueError as error:
            return [str(error), list(seen)]

    compare(make, script, graphs=None, full=False)


def test_backward_hooks():
    def run(register):
        def script(call, model):
            events = []
            register(model, events)
            x = inputs().requires_grad_()
            call(x).sum().backward()
            return [x.grad, events]

        compare(lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()), script, graphs=None, full=False)

    run(
        lambda m, events: m[0].register_full_backward_hook(
            lambda m, gi, go: events.append(("full", go[0].sum().item()))
        )
    )
    run(
        lambda m, events: m[0].register_full_backward_pre_hook(lambda m, go: events.append(("pre", go[0].sum().item())))
    )


def test_global_hooks():
    handles = []

    def script(call, model):
        results = [call(inputs())]
        handles.append(nn.modules.module.register_module_forward_hook(lambda m, a, o: o + 1))
        results.append(call(inputs()))
        handles.pop().remove()
        handles.append(nn.modules.module.register_module_forward_pre_hook(lambda m, a: (a[0] * 2,)))
        results.append(call(inputs()))
        handles.pop().remove()
        return [*results, call(inputs())]

    compare(lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()), script, graphs=3)


def test_state_dict_hooks_do_not_matter():
    def make():
        model = nn.Sequential(nn.Linear(4, 4))
        model._register_state_dict_hook(lambda *a: None)
        model.register_state_dict_pre_hook(lambda *a: None)
        model.register_load_state_dict_post_hook(lambda *a: None)
        return model

    compare(make, twice)


@pytest.mark.parametrize("where", ["", "0", "1.0"])
def test_hooks_added_and_removed_later(where):
    """The hook takes effect in the next call, wherever it is; going back finds the first entry again."""

    def script(call, model):
        target = model.get_submodule(where)
        results = [call(inputs())]
        handle = target.register_forward_hook(lambda m, a, out: out + 10)
        results.append(call(inputs()))
        second = target.register_forward_pre_hook(lambda m, a: (a[0] * 2,))
        results.append(call(inputs()))
        second.remove()
        results.append(call(inputs()))
        handle.remove()
        return [*results, call(inputs())]

    compare(lambda: nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU())), script, graphs=3)


def test_same_hook_on_another_instance_shares_the_graph(treatment):
    def hook(m, args, out):
        return out * 2

    backend = Graphs()
    models = []
    for turn in range(4):
        model = nn.Sequential(nn.Linear(4, 4))
        for _ in range(turn):  # the hook's key is another one in each instance
            model[0].register_forward_hook(hook).remove()
        model[0].register_forward_hook(hook)
        models.append(model)
    compiled = [stator.compile(model, backend=backend, fullgraph=True) for model in models]
    for call, model in zip(compiled, models, strict=True):
        assert torch.equal(call(inputs()), model(inputs()))
    assert len(backend.seen) == (1 if treatment == "unspecialised" else 4)


# ---- 8. lazy modules


@pytest.mark.parametrize(
    "make, shape",
    [
        (lambda: nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(3)), (3, 4)),
        (
            lambda: nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(3)),
            (2, 3, 8, 8),
        ),
        (lambda: nn.Sequential(nn.LazyConvTranspose1d(4, 3), nn.LazyInstanceNorm1d()), (2, 3, 8)),
    ],
)
def test_lazy_modules(make, shape):
    compare(make, lambda call, model: [call(inputs(*shape)), call(inputs(*shape))])


def test_lazy_module_compiled_itself():
    # The first call's frame is the one that sees to hooks; afterwards there are none, and forward is the frame.
    compare(lambda: nn.LazyLinear(4), lambda call, model: [call(inputs()) for _ in range(3)], graphs=2)


class DataDependent(nn.modules.lazy.LazyModuleMixin, nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.parameter.UninitializedParameter()

    def initialize_parameters(self, x):
        with torch.no_grad():
            self.weight.materialize(x.shape[-1:])
            self.weight.copy_(x.std(0))

    def forward(self, x):
        return x / self.weight


def test_lazy_module_that_looks_at_data():
    compare(DataDependent, twice, graphs=2)  # the real input is there
    compare(
        lambda: nn.Sequential(nn.Linear(4, 4), DataDependent()), twice, graphs=None, full=False
    )  # the input is computed


def test_lazy_modules_draw_in_eagers_order():
    compare(lambda: nn.Sequential(nn.LazyLinear(4), nn.Dropout(0.5), nn.LazyLinear(3)), twice, graphs=None, full=False)


def test_lazy_module_that_fails():
    def script(call, model):
        try:
            return call(inputs(4))
        except Exception as error:
            return type(error).__name__

    compare(lambda: nn.Sequential(nn.ReLU(), nn.LazyConv2d(4, 3)), script, graphs=None, full=False)


# ---- 9. names


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.ModuleDict({"linear": nn.Linear(4, 4)}), nn.Sequential(nn.Linear(4, 4), nn.ReLU())]
        )
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        y = self.layers[0]["linear"](x)
        z = self.layers[1](y) * self.scale
        return self.layers[0]["linear"](z)


def stacks(node):
    return list(node.meta["nn_module_stack"].items())


def test_module_stack():
    backend = compare(Named, twice)
    for node in backend.nodes("call_function", "call_method", "call_module"):
        assert stacks(node)[0] == ("L__self__", ("L['self']", Named)), node
    paths = [[path for _, (path, _) in stacks(node)] for node in backend.nodes("call_function", "call_module")]
    assert paths[0] == ["L['self']", "L['self'].layers.0.linear"]
    assert paths[1] == ["L['self']", "L['self'].layers.1", "L['self'].layers.1.0"]
    assert paths[3] == ["L['self']"]
    assert stacks(backend.nodes("call_function", "call_module")[0])[1][1][1] is nn.Linear
    key, (path, kind) = stacks(backend.nodes("call_function", "call_module")[-1])[-1]
    assert key.endswith("@1") and path == "L['self'].layers.0.linear" and kind is nn.Linear


def test_module_stack_of_a_function_and_of_hooks():
    model = Named()
    backend = Graphs()
    stator.compile(lambda x: model(x) + 1, backend=backend)(inputs())
    inside = backend.nodes("call_function", "call_module")
    assert [path for _, (path, _) in stacks(inside[0])] == ["L['model']", "L['model'].layers.0.linear"]
    assert "nn_module_stack" not in inside[-1].meta
    model.register_forward_hook(lambda m, a, out: out * 2)
    backend = Graphs()
    stator.compile(model, backend=backend)(inputs())
    assert all(stacks(node)[0][1] == ("L['self']", Named) for node in backend.nodes("call_function", "call_module"))


def test_nodes_are_called_after_variables():
    backend = compare(Named, twice)
    names = [node.name for node in backend.nodes("call_function", "call_module")]
    assert "y" in names and "z" in names


# ---- 10. training


def test_running_statistics():
    def script(call, model):
        results = [call(inputs()) for _ in range(3)]
        model.eval()
        return [*results, call(inputs()), model[1].num_batches_tracked]

    compare(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), script, graphs=2)


def test_dropout_draws_as_eager():
    compare(
        lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.AlphaDropout(0.3)),
        lambda call, model: [call(inputs()) for _ in range(3)],
    )


def test_tied_weights_come_and_go():
    def setup(self):
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight

    def script(call, model):
        results = [call(inputs())]
        model.two.weight = nn.Parameter(torch.ones(4, 4))
        results.append(call(inputs()))
        model.two.weight = model.one.weight
        return [*results, call(inputs())]

    compare(module(lambda self, x: self.two(self.one(x)), setup), script, graphs=None)


def test_parameter_replaced_and_data_set(treatment):
    def script(call, model):
        results = [call(inputs())]
        model.linear.weight = nn.Parameter(torch.full((4, 4), 0.5))
        results.append(call(inputs()))
        model.linear.weight.data = torch.full((4, 4), 0.25)
        results.append(call(inputs()))
        with torch.no_grad():
            model.linear.weight.mul_(2)
        results.append(call(inputs()))
        model.load_state_dict({name: tensor + 1 for name, tensor in model.state_dict().items()})
        return [*results, call(inputs())]

    compare(Layer, script, graphs=1 if treatment == "unspecialised" else 2)


def test_requires_grad_toggled_and_double():
    def script(call, model):
        results = [call(inputs())]
        model.linear.weight.requires_grad_(False)
        results.append(call(inputs()))
        model.double()
        return [*results, call(inputs().double())]

    compare(Layer, script, graphs=3)


@pytest.mark.parametrize(
    "optimizer",
    [torch.optim.SGD, functools.partial(torch.optim.SGD, momentum=0.9), torch.optim.Adam, torch.optim.AdamW],
)
def test_training_steps(optimizer):
    """No stale value and no further capture while an optimiser works between calls."""

    def script(call, model):
        steps = optimizer(model.parameters(), lr=0.1)
        losses = []
        for turn in range(4):
            loss = call(inputs() + turn).square().mean()
            loss.backward()
            steps.step()
            steps.zero_grad()
            losses.append(loss.detach())
        return losses

    compare(Layer, script)


@pytest.mark.parametrize(
    "optimizer",
    [torch.optim.SGD, functools.partial(torch.optim.SGD, momentum=0.9), torch.optim.Adam, torch.optim.AdamW],
)
def test_compiled_optimizer_step(optimizer):
    def train(compiled):
        torch.manual_seed(0)
        model = Layer()
        steps = optimizer(model.parameters(), lr=0.1)
        backend = Graphs()
        step = stator.compile(steps.step, backend=backend) if compiled else steps.step
        for turn in range(4):
            model(inputs() + turn).square().mean().backward()
            step()
            steps.zero_grad()
        return [plain(state_of(model)), plain(steps.state_dict())], backend

    expected, _ = train(False)
    got, backend = train(True)
    assert same_up_to_rounding(expected, got)
    assert backend.seen, "nothing was captured"


# ---- 11. messages


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: nn.Sequential(nn.ReLU(), torch.jit.script(nn.Linear(4, 4))), "ScriptModule"),
        (lambda: nn.Sequential(nn.Linear(4, 4), DataDependent()), "lazy module"),
    ],
)
def test_break_reasons(make, says):
    with pytest.raises(stator.exc.Unsupported) as raised:
        stator.compile(make(), backend="eager", fullgraph=True)(inputs())
    text = str(raised.value)
    assert says in text and "What to do" in text and "break reason" in text
