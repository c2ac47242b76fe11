"""Documents 000 and 001: attributes of modules and their parameters, item by item (tests/python/seeds.py)."""

import torch
from torch import nn

import stator
from seeds import item, numbers, raised


def module(forward, setup=None, bases=(nn.Module,), **names):
    """A module in one expression: setup(self) after __init__, forward(self, x)."""

    def __init__(self):
        super(made, self).__init__()
        if setup is not None:
            setup(self)

    made = type("Made", bases, {"__init__": __init__, "forward": forward, **names})
    return made()


class Tree(nn.Module):
    """Tied parameters, one that is None, containers in containers."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Sequential(nn.Linear(4, 4), nn.ModuleList([nn.Linear(4, 2)])[0])
        self.table = nn.ModuleDict({"x": nn.ModuleList([nn.Linear(2, 2)])})
        self.tied = self.a.weight
        self.register_parameter("absent", None)
        self.none = nn.Linear(2, 2, bias=False)

    def forward(self, x):
        return self.what(self.a(x))


def over(what):
    """A program that calls what(module) inside of a compiled forward, twice."""

    def program(at):
        class Listing(Tree):
            def forward(self, x):
                return self.a(x), what(self)

        compiled = at.compile(Listing())
        return [compiled(numbers()), compiled(numbers() + 1)]

    return program


def shapes(parameters):
    return [tuple(p.shape) for p in parameters]


# ---- 000: attributes


@item("000", "getattr order params/modules/buffers", dynamo="same", graphs=1)
def test_getattr_order(at):
    def setup(self):
        self.w, self.child = nn.Parameter(torch.ones(4)), nn.Linear(4, 4)
        self.register_buffer("shift", torch.full((4,), 2.0))

    call = at.compile(module(lambda self, x: self.child(x) * self.w + self.shift, setup))
    return call(numbers())


@item("000", "AttributeError for missing, message", graphs=1)
def test_missing_attribute(at):
    def forward(self, x):
        try:
            return self.missing
        except AttributeError as error:
            return x + 1, str(error), error.name, error.obj is self

    return at.compile(module(forward))(numbers())


@item("000", "getattr default / hasattr", dynamo="same", graphs=1)
def test_getattr_default(at):
    def setup(self):
        self.w = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.w, hasattr(self, "w"), hasattr(self, "nothing"), getattr(self, "nothing", 5)

    return at.compile(module(forward, setup))(numbers())


@item("000", "name in two dicts", graphs=1)
def test_name_in_two_dicts(at):
    def setup(self):
        self._parameters["twice"] = nn.Parameter(torch.full((4,), 3.0))
        self._buffers["twice"] = torch.full((4,), 5.0)
        self._modules["twice"] = nn.Linear(4, 4)
        self._buffers["both"] = torch.full((4,), 7.0)
        self._modules["both"] = nn.Linear(4, 4)

    return at.compile(module(lambda self, x: x * self.twice + self.both, setup))(numbers())


@item("000", "getattr_helper on __dict__ shadow", dynamo="same", graphs=1)
def test_instance_dict_shadows(at):
    def setup(self):
        self.w = nn.Parameter(torch.ones(4))
        self.__dict__["w"] = 4.0

    return at.compile(module(lambda self, x: x * self.w, setup))(numbers())


@item("000", "var_getattr: class attr shadows _modules", dynamo="same", graphs=1)
def test_class_attribute_shadows(at):
    def setup(self):
        self._modules["layer"] = nn.Linear(4, 4)

    return at.compile(module(lambda self, x: x * self.layer, setup, layer=6.0))(numbers())


@item("000", "__dict__ read", dynamo="same", graphs=1)
def test_dict_read(at):
    def setup(self):
        self.w, self.note = nn.Parameter(torch.ones(4)), 3

    def forward(self, x):
        own = self.__dict__
        return x * own["note"] + own["_parameters"]["w"], "note" in own, "w" in own, own.get("nothing", 2)

    return at.compile(module(forward, setup))(numbers())


@item("000", "property", dynamo="same", graphs=1)
def test_property(at):
    def setup(self):
        self.w = nn.Parameter(torch.ones(4))

    doubled = property(lambda self: self.w * 2)
    return at.compile(module(lambda self, x: x * self.doubled, setup, doubled=doubled))(numbers())


@item("000", "property with setter", dynamo="same")
def test_property_with_setter(at):
    def write(self, value):
        self.kept = value + 1

    size = property(lambda self: self.kept, write)

    def forward(self, x):
        self.size = 4
        return x * self.size

    model = module(forward, size=size)
    return at.compile(model)(numbers()), model.kept


@item("000", "property raising -> __getattr__")
def test_property_that_raises(at):
    def read(self):
        raise AttributeError("inside")

    def __getattr__(self, name):
        return 9 if name == "odd" else nn.Module.__getattr__(self, name)

    model = module(lambda self, x: (x + 1) * self.odd, odd=property(read), __getattr__=__getattr__)
    return at.compile(model, fullgraph=False)(numbers())


@item("000", "classmethod, staticmethod", dynamo="same", graphs=1)
def test_class_and_static_methods(at):
    names = {
        "factor": 3,
        "of_class": classmethod(lambda cls: cls.factor),
        "of_nobody": staticmethod(lambda x: x + 1),
    }
    return at.compile(module(lambda self, x: self.of_nobody(x) * self.of_class(), **names))(numbers())


@item("000", "custom __getattr__", dynamo="same", graphs=1)
def test_custom_getattr(at):
    def setup(self):
        self.w = nn.Parameter(torch.ones(4))

    def __getattr__(self, name):
        return len(name) if name.startswith("len_") else nn.Module.__getattr__(self, name)

    return at.compile(module(lambda self, x: x * self.len_four + self.w, setup, __getattr__=__getattr__))(numbers())


@item("000", "custom __getattribute__", graphs=1)
def test_custom_getattribute(at):
    def __getattribute__(self, name):
        return 2 if name == "scale" else object.__getattribute__(self, name)

    return at.compile(module(lambda self, x: x * self.scale, __getattribute__=__getattribute__))(numbers())


@item(
    "000",
    "non-function __getattr__ break",
    "better",
    "a __getattr__ that is no function is asked in the middle of the frame, and capture goes on behind it: TorchDynamo cannot compile the module",
    dynamo="differs",
)
def test_getattr_that_is_no_function(at):
    class Reads:
        def __get__(self, owner, kind):
            return lambda name: 3

    def forward(self, x):
        return (x + 1) * self.absent + 2

    call = at.compile(module(forward, __getattr__=Reads()), fullgraph=False)
    found = [call(numbers()), call(numbers() + 1)]
    if at.is_stator:
        assert {"add", "mul"} <= set(at.calls()), at.calls()
    return found


@item("000", "deep hierarchy", dynamo="same", graphs=1)
def test_deep_hierarchy(at):
    class Nested(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.inner = Nested(depth - 1) if depth else None

        def forward(self, x):
            x = self.linear(x)
            return x if self.inner is None else self.inner(x)

    model = Nested(12)

    def deep(x):
        return model(x) + model.inner.inner.inner.inner.inner.linear.bias

    return at.compile(deep)(numbers())


@item("000", "call_function Sequential unrolled", dynamo="same", graphs=1)
def test_sequential_is_unrolled(at):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    found = at.compile(model)(numbers())
    if at.is_stator:
        assert at.calls() == ["linear", "relu", "linear"]
    return found


@item("000", "Sequential with hooks", dynamo="same", graphs=1)
def test_sequential_with_hooks(at):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model.register_forward_hook(lambda m, a, out: out + 1)
    model[0].register_forward_pre_hook(lambda m, a: (a[0] * 2,))
    return at.compile(lambda x: model(x) * 3)(numbers())


@item("000", "lazy module in call")
def test_lazy_module_in_a_call(at):
    model = nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(2))
    call = at.compile(model)
    return [call(numbers()), call(numbers()), type(model[0]).__name__, dict(model.named_parameters())]


@item("000", "register_attr: tied params one node", dynamo="same", graphs=1)
def test_tied_parameters_are_one_node(at):
    def setup(self):
        self.one = nn.Linear(4, 4, bias=False)
        self.two = nn.Linear(4, 4, bias=False)
        self.two.weight = self.one.weight

    found = at.compile(module(lambda self, x: self.two(self.one(x)), setup))(numbers())
    if at.is_stator:
        assert len(at.nodes("placeholder")) == 2, "the input, and one weight"
    return found


@item("000", "register_attr: higher-order body params lifted", dynamo="same", graphs=1)
def test_parameters_of_a_higher_order_body_are_lifted(at):
    def setup(self):
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: self.linear(y), lambda y: y * 2, (x,))

    found = at.compile(module(forward, setup))(numbers())
    if at.is_stator:
        names = [node.name for node in at.nodes("placeholder")]
        assert any("weight" in name for name in names) and any("bias" in name for name in names), names
        (cond,) = (node for node in at.nodes("call_function") if "cond" in str(node.target))
        assert len(cond.args[3]) >= 3, "the body takes them as arguments"
    return found


@item("000", "wrap_name: static address guard", graphs=2, breaks=False)
def test_static_address_is_guarded(at):
    """Of a specialised module the graph has the very buffer: another one in its place is captured anew."""

    def setup(self):
        self.register_buffer("state", torch.ones(4))
        stator.mark_static_address(self.state, guard=True)

    model = module(lambda self, x: x + self.state, setup)
    with stator.config.patch(specialize_modules=True):
        call = at.compile(model)
        found = [call(numbers()), call(numbers())]
        other = torch.full((4,), 2.0)
        stator.mark_static_address(other, guard=True)
        model.state = other
        return [*found, call(numbers())]


@item("000", "wrap_fx_proxy: fakes as example_value", graphs=1)
def test_fakes_are_example_values(at):
    found = at.compile(lambda x: torch.relu(x).sum(0))(numbers())
    if at.is_stator:
        from torch._subclasses.fake_tensor import FakeTensor

        values = [node.meta["example_value"] for node in at.nodes("placeholder", "call_function", "call_method")]
        assert len(values) == 3 and all(isinstance(value, FakeTensor) for value in values)
        assert [tuple(value.shape) for value in values] == [(3, 4), (3, 4), (4,)]
    return found


class Doubled(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        made = super().__torch_function__(function, types, args, kwargs or {})
        return made * 2 if function is torch.add else made


@item("000", "TensorWithTFOverride input", graphs=1)
def test_tensor_with_torch_function(at):
    given = numbers().as_subclass(Doubled)
    made = at.compile(lambda x: torch.add(x, 1).cos())(given)
    return type(made).__name__, made.as_subclass(torch.Tensor)


# ---- 001: parameters


@item("001", "parameters()", dynamo="same", graphs=1)
def test_parameters(at):
    return over(lambda m: shapes(m.parameters()))(at)


@item("001", "parameters(recurse) kw + positional", dynamo="same", graphs=1)
def test_parameters_recurse(at):
    return over(lambda m: [shapes(m.parameters(False)), shapes(m.parameters(recurse=True)), shapes(m.a.parameters())])(
        at
    )


@item("001", "dedup of tied", dynamo="same", graphs=1)
def test_tied_parameters_come_once(at):
    return over(lambda m: [len(list(m.parameters())), [p is m.tied for p in m.parameters()]])(at)


@item("001", "None parameters dropped", dynamo="same", graphs=1)
def test_absent_parameters_are_left_out(at):
    return over(lambda m: [[p is None for p in m.parameters()], shapes(m.none.parameters()), m.absent])(at)


@item("001", "named_parameters prefix/recurse/remove_duplicate", graphs=1)
def test_named_parameters(at):
    def what(m):
        return [
            [name for name, _ in m.named_parameters()],
            [name for name, _ in m.named_parameters("p", False)],
            [name for name, _ in m.named_parameters(prefix="q", remove_duplicate=False)],
        ]

    return over(what)(at)


@item("001", "get_kwargs: wrong kwarg error", graphs=1)
def test_wrong_keyword(at):
    def what(m):
        try:
            return list(m.parameters(deep=True))
        except TypeError as error:
            return str(error)

    return over(what)(at)


@item("001", "list iterator result (next, partial)", graphs=1)
def test_the_result_is_an_iterator(at):
    def what(m):
        rest = m.parameters()
        first = next(rest)
        left = shapes(rest)
        return [first is m.tied, left, next(rest, "over"), next(m.parameters()).dtype]

    return over(what)(at)


@item("001", "get_current_parameters after mutation")
def test_parameters_after_writes(at):
    def forward(self, x):
        self.w = self.v
        del self.v
        self.register_parameter("u", None)
        return x * self.w, [name for name, _ in self.named_parameters()], len(list(self.parameters()))

    def setup(self):
        self.w, self.v = nn.Parameter(torch.ones(4)), nn.Parameter(torch.full((4,), 2.0))

    model = module(forward, setup)
    return at.compile(model)(numbers()), list(model._parameters)


@item("001", "collect recursion through containers", dynamo="same", graphs=1)
def test_parameters_in_containers(at):
    return over(lambda m: [shapes(m.b.parameters()), shapes(m.table.parameters()), shapes(m.table["x"].parameters())])(
        at
    )


@item("001", "inline counters", breaks=False, graphs=1)
def test_calls_are_inlined_and_counted(at):
    """What is inlined is in one graph, and the counters say so: a graph, its calls, no break."""

    def inner(x):
        return x * 2

    def outer(x):
        return inner(x) + inner(x)

    before = stator.stats()
    found = at.compile(outer)(numbers())
    if at.is_stator:
        after = stator.stats()
        told = {name: after[name] - before[name] for name in ("captures", "graphs", "ops", "breaks")}
        assert told == {"captures": 1, "graphs": 1, "ops": 3, "breaks": 0}, told
        assert raised(lambda: outer(3)) == 12
    return found
