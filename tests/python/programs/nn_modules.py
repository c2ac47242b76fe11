"""nn.Module: layers, containers, hooks, buffers, shared weights, attributes, state written in forward, lazy layers."""

import collections

import torch
import torch.nn.functional as F
from torch import nn

from tests.python.programs import Case, mat, program, vec


def seeded(build):
    """The module, with weights that do not depend on what ran before."""
    torch.manual_seed(11)
    return build()


def layer_case(build, *inputs):
    """A case that calls one layer in training mode, then in evaluation mode."""
    layer = seeded(build)
    return Case(layer, *inputs).then(lambda case: layer.eval(), lambda case: layer.train())


class Mlp(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(width, 8)
        self.second = nn.Linear(8, 2)
        self.scale = 2.0

    def forward(self, x):
        return self.second(F.relu(self.first(x))) * self.scale


@program(full=4)
def small_mlp():
    return Case(seeded(Mlp), mat())


@program(full=4)
def mlp_called_from_function():
    model = seeded(Mlp)

    def f(x):
        return model(x) + model.forward(x)

    return Case(f, mat())


@program(full=4)
def method_of_a_module():
    model = seeded(Mlp)
    return Case(model.forward, mat())


def _image():
    return torch.arange(96.0).reshape(2, 3, 4, 4) * 0.01 - 0.3


LAYERS = {
    "linear": (lambda: nn.Linear(4, 2), lambda: (mat(),)),
    "bilinear": (lambda: nn.Bilinear(4, 4, 2), lambda: (mat(), mat())),
    "identity": (lambda: nn.Sequential(nn.Identity(), nn.ReLU()), lambda: (mat(),)),
    "conv1d": (lambda: nn.Conv1d(3, 2, 2), lambda: (mat(3, 4)[None],)),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3, padding=1), lambda: (_image(),)),
    "conv2d_circular": (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), lambda: (_image(),)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(3, 2, 2, stride=2), lambda: (_image(),)),
    "batch_norm1d": (lambda: nn.BatchNorm1d(4), lambda: (mat(),)),
    "batch_norm2d": (lambda: nn.BatchNorm2d(3), lambda: (_image(),)),
    "batch_norm_cumulative": (lambda: nn.BatchNorm2d(3, momentum=None), lambda: (_image(),)),
    "layer_norm": (lambda: nn.LayerNorm(4), lambda: (mat(),)),
    "group_norm": (lambda: nn.GroupNorm(3, 3), lambda: (_image(),)),
    "instance_norm": (lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True), lambda: (_image(),)),
    "rms_norm": (lambda: nn.RMSNorm(4), lambda: (mat(),)),
    "dropout": (lambda: nn.Dropout(0.5), lambda: (mat(),)),
    "dropout2d": (lambda: nn.Dropout2d(0.5), lambda: (_image(),)),
    "embedding": (lambda: nn.Embedding(5, 3, padding_idx=0), lambda: (torch.tensor([[0, 2], [4, 1]]),)),
    "embedding_bag": (lambda: nn.EmbeddingBag(5, 3), lambda: (torch.tensor([0, 2, 4, 1]), torch.tensor([0, 2]))),
    "max_pool": (lambda: nn.MaxPool2d(2), lambda: (_image(),)),
    "avg_pool": (lambda: nn.AdaptiveAvgPool2d(2), lambda: (_image(),)),
    "upsample": (lambda: nn.Upsample(scale_factor=2), lambda: (_image(),)),
    "flatten": (lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (6, 8))), lambda: (_image(),)),
    "pixel_shuffle": (lambda: nn.PixelUnshuffle(2), lambda: (_image(),)),
    "padding": (lambda: nn.ReflectionPad2d(1), lambda: (_image(),)),
    "prelu": (lambda: nn.PReLU(), lambda: (mat(),)),
    "gelu": (lambda: nn.GELU(), lambda: (mat(),)),
    "softmax": (lambda: nn.Softmax(dim=-1), lambda: (mat(),)),
    "hardtanh_inplace": (lambda: nn.Hardtanh(inplace=True), lambda: (mat(),)),
    "relu_inplace": (lambda: nn.ReLU(inplace=True), lambda: (mat(),)),
    "attention": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        lambda: (mat()[None], mat()[None], mat()[None]),
    ),
    "transformer_layer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
        lambda: (mat()[None],),
    ),
    "cross_entropy": (lambda: nn.CrossEntropyLoss(), lambda: (mat(), torch.tensor([0, 1, 2]))),
    "mse_loss": (lambda: nn.MSELoss(reduction="sum"), lambda: (mat(), mat() * 2)),
    "cosine": (lambda: nn.CosineSimilarity(dim=1), lambda: (mat(), mat() + 1)),
}


def _register_layers():
    for name, (build, inputs) in LAYERS.items():

        def make(build=build, inputs=inputs):
            return layer_case(build, *inputs())

        make.__name__ = f"layer_{name}"
        program(full=1)(make)


_register_layers()


@program()
def layer_lstm():
    return layer_case(lambda: nn.LSTM(4, 3, batch_first=True), mat()[None])


@program()
def layer_gru_cell():
    return layer_case(lambda: nn.GRUCell(4, 3), mat())


@program(full=4)
def sequential():
    model = seeded(lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))

    def f(x):
        return model(x), len(model), model[0](x), model[1:](model[0](x)), [type(m).__name__ for m in model]

    return Case(f, mat())


@program(full=3)
def sequential_of_ordered_dict():
    model = seeded(lambda: nn.Sequential(collections.OrderedDict(a=nn.Linear(4, 4), b=nn.Tanh())))

    def f(x):
        return model.b(model.a(x)), model(x), list(dict(model.named_children()))

    return Case(f, mat())


@program(full=3)
def module_list():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

        def forward(self, x):
            for i, layer in enumerate(self.layers):
                x = layer(x) + i
            return x, self.layers[-1](x), len(self.layers), [m for m in self.layers[1:]][0] is self.layers[1]

    return Case(seeded(Stack), mat())


@program(full=3)
def module_dict():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})

        def forward(self, x, name):
            out = {k: m(x) for k, m in self.heads.items()}
            return self.heads[name](x), out, name in self.heads, list(self.heads.keys()), len(self.heads)

    return Case(seeded(Heads), mat(), "a").changing(mat(), "b")


@program(full=3)
def parameter_list_and_dict():
    class Params(nn.Module):
        def __init__(self):
            super().__init__()
            self.items = nn.ParameterList([nn.Parameter(vec()), nn.Parameter(vec(4, 1.0))])
            self.table = nn.ParameterDict({"w": nn.Parameter(vec(4, 2.0))})

        def forward(self, x):
            for p in self.items:
                x = x * p
            return x + self.table["w"], len(self.items), list(self.table)

    return Case(seeded(Params), vec())


@program(full=2)
def buffers_and_parameters():
    class Normaliser(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("scratch", None, persistent=False)
            self.weight = nn.Parameter(torch.ones(4))
            self.register_parameter("bias", None)

        def forward(self, x):
            y = (x - self.mean) * self.weight
            if self.bias is not None:
                y = y + self.bias
            return y, self.scratch

    return Case(seeded(Normaliser), mat())


@program(full=2)
def running_statistics():
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("steps", torch.tensor(0))
            self.calls = 0

        def forward(self, x):
            if self.training:
                self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
                self.steps += 1
                self.calls += 1
            return x - self.mean

    model = seeded(Running)
    return Case(model, mat()).then(lambda case: model.eval(), lambda case: model.train())


@program(full=2)
def buffer_replaced_in_forward():
    class Keeper(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(3, 4))

        def forward(self, x):
            out = x + self.last
            self.last = x.detach() * 2
            return out

    return Case(seeded(Keeper), mat())


@program(full=2)
def attributes_written_in_forward():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.count = 0
            self.history = []

        def forward(self, x):
            self.count += 1
            y = self.lin(x)
            self.last = y
            self.history.append(self.count)
            return y * 2

    return Case(seeded(Counting), mat())


@program(full=2)
def tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = nn.Linear(4, 4, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x)), self.a.weight is self.b.weight, len(list(self.parameters()))

    return Case(seeded(Tied), mat())


@program()
def weights_become_tied():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4, bias=False)
            self.b = nn.Linear(4, 4, bias=False)

        def forward(self, x):
            with torch.no_grad():
                self.a.weight.add_(1)
            return self.b(x)

    model = seeded(Two)
    return Case(model, mat()).then(lambda case: setattr(model.b, "weight", model.a.weight))


@program(full=3)
def shared_layer_called_twice():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.again = self.lin

        def forward(self, x):
            return self.again(F.relu(self.lin(x)))

    return Case(seeded(Shared), mat())


@program(full=3)
def recursive_module():
    class Nest(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.inner = Nest(depth - 1) if depth else None

        def forward(self, x):
            x = self.lin(x)
            return self.inner(x) if self.inner is not None else x

    return Case(seeded(lambda: Nest(2)), mat())


@program(full=3)
def forward_hooks():
    log = []
    model = seeded(Mlp)
    model.first.register_forward_hook(lambda m, args, out: log.append("hook") or out * 2)
    model.first.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    model.register_forward_hook(lambda m, args, kwargs, out: {"out": out}, with_kwargs=True)
    return Case(model, mat()).watching(log)


@program()
def hook_added_after_first_call():
    hits = []
    model = seeded(Mlp)

    def add(case):
        case.handle = model.second.register_forward_hook(lambda m, args, out: hits.append(1) or out + 100)

    return Case(model, mat()).watching(hits).then(add, lambda case: case.handle.remove())


@program()
def hook_on_a_list_member_added_later():
    model = seeded(lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    hits = []

    def add(case):
        model[1].register_forward_pre_hook(lambda m, args: hits.append(len(args)))

    return Case(model, mat()).watching(hits).then(add)


@program()
def global_hook_added_later():
    model = seeded(Mlp)
    hits = []

    def add(case):
        case.handle = nn.modules.module.register_module_forward_hook(lambda m, args, out: hits.append(type(m).__name__))

    return Case(model, mat()).watching(hits).then(add, lambda case: case.handle.remove())


@program()
def hook_always_called():
    hits = []

    class Failing(nn.Module):
        def forward(self, x):
            y = x + 1
            raise ValueError("in forward")

    model = Failing()
    model.register_forward_hook(lambda m, args, out: hits.append(out), always_call=True)
    return Case(model, mat()).watching(hits)


@program()
def backward_hooks_are_kept():
    hits = []
    model = seeded(Mlp)
    model.first.register_full_backward_hook(lambda m, gin, gout: hits.append(len(gout)))

    def f(x):
        y = model(x).sum()
        y.backward()
        return y

    return Case(f, mat()).watching(hits)


@program(full=1)
def call_against_forward():
    hits = []

    class A(nn.Module):
        def forward(self, x):
            return x + 1

    model = A()
    model.register_forward_hook(lambda m, args, out: hits.append("hook"))

    def f(x):
        return model(x), model.forward(x), model.__call__(x)

    return Case(f, mat()).watching(hits)


@program()
def train_and_eval_inside():
    model = seeded(lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4)))

    def f(x):
        model.eval()
        a = model(x)
        model.train()
        b = model(x)
        return a, b, model.training

    return Case(f, mat())


@program(full=2)
def named_things():
    model = seeded(Mlp)

    def f(x):
        names = [n for n, _ in model.named_parameters()]
        total = sum(p.sum() for p in model.parameters())
        return (
            names,
            [n for n, _ in model.named_modules()],
            x + total,
            [type(m).__name__ for m in model.children()],
            len(list(model.buffers())),
        )

    return Case(f, mat())


@program(full=2)
def get_submodule_and_parameter():
    model = seeded(Mlp)

    def f(x):
        return (
            model.get_submodule("first")(x),
            model.get_parameter("second.weight") * 2,
            getattr(model, "first")(x),
            hasattr(model, "third"),
        )

    return Case(f, mat())


@program()
def missing_attribute():
    model = seeded(Mlp)

    def f(x):
        y = model(x)
        return y + model.missing

    return Case(f, mat())


@program(full=1)
def custom_getattr():
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

        def forward(self, x):
            return self.inner(x) * self.scale

    return Case(seeded(lambda: Wrapper(Mlp())), mat())


@program(full=2)
def property_and_class_attributes():
    class Props(nn.Module):
        factor = 3

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(vec())

        @property
        def doubled(self):
            return self.weight * 2

        @classmethod
        def scaled(cls, x):
            return x * cls.factor

        @staticmethod
        def shifted(x):
            return x + 1

        def forward(self, x):
            return self.shifted(self.scaled(x)) + self.doubled

    return Case(seeded(Props), vec())


@program()
def forward_replaced_on_the_instance():
    model = seeded(Mlp)
    return Case(model, mat()).then(
        lambda case: setattr(model, "forward", lambda x: x + 7), lambda case: delattr(model, "forward")
    )


@program()
def forward_replaced_on_the_class():
    class A(nn.Module):
        def forward(self, x):
            return x + 1

    def outer(x):
        return model(x) * 2

    model = A()
    return Case(outer, mat()).then(lambda case: setattr(A, "forward", lambda self, x: x + 100))


@program()
def submodule_replaced():
    model = seeded(Mlp)
    return Case(model, mat()).then(lambda case: setattr(model, "second", nn.Identity()))


@program()
def parameter_replaced():
    model = seeded(Mlp)

    def replace(case):
        model.second.bias = nn.Parameter(torch.ones(2) * 9)

    def drop(case):
        model.second.bias = None

    return Case(model, mat()).then(replace, drop)


@program()
def parameter_data_changed():
    model = seeded(Mlp)

    def change(case):
        model.first.weight.data = model.first.weight.data * 2

    def load(case):
        model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})

    return Case(model, mat()).then(change, load)


@program()
def attribute_changed():
    model = seeded(Mlp)
    return Case(model, mat()).then(lambda case: setattr(model, "scale", 5.0), lambda case: setattr(model, "scale", 2))


@program()
def module_converted_to_double():
    model = seeded(Mlp)
    return Case(model, mat()).then(lambda case: (model.double(), setattr(case, "args", (mat().double(),))))


@program()
def requires_grad_toggled():
    model = seeded(Mlp)
    return Case(model, mat()).then(
        lambda case: model.requires_grad_(False), lambda case: model.first.requires_grad_(True)
    )


@program()
def layer_appended_to_list():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    model = seeded(Stack)
    return Case(model, mat()).then(
        lambda case: model.layers.append(nn.ReLU()), lambda case: model.layers.__delitem__(0)
    )


@program()
def two_instances_of_one_class():
    a, b = seeded(Mlp), seeded(lambda: Mlp().requires_grad_(False))
    b.scale = 3.0

    def f(x):
        return a(x) - b(x)

    return Case(f, mat())


@program()
def module_made_inside():
    def f(x):
        layer = nn.Linear(4, 2)
        return layer(x).shape, nn.ReLU()(x)

    return Case(f, mat())


@program()
def lazy_linear():
    return Case(seeded(lambda: nn.Sequential(nn.LazyLinear(3), nn.ReLU())), mat())


@program()
def lazy_conv():
    return Case(seeded(lambda: nn.LazyConv2d(2, 3)), _image())


@program()
def lazy_batch_norm():
    return Case(seeded(lambda: nn.LazyBatchNorm2d()), _image())


@program()
def weight_norm_and_spectral_norm():
    model = seeded(
        lambda: nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
            nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
        )
    )
    return Case(model, mat())


@program(full=2)
def forward_with_kwargs_and_dict_output():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x, *, mask=None, return_dict=True, **kwargs):
            y = self.lin(x)
            if mask is not None:
                y = y * mask
            return {"y": y, "extra": kwargs} if return_dict else (y,)

    return Case(seeded(Block), mat(), mask=torch.ones(4), tag=3).changing(mat(), return_dict=False)


@program()
def print_in_forward():
    class Loud(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.inner = Mlp()

        def forward(self, x):
            x = self.lin(x)
            print("between", tuple(x.shape))
            return self.inner(x)

    return Case(seeded(Loud), mat())


@program()
def state_written_then_exception():
    class Fragile(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.tensor(0))
            self.stage = "new"

        def forward(self, x):
            self.steps += 1
            self.stage = "started"
            y = x @ x
            self.stage = "done"
            return y

    return Case(Fragile(), mat())


@program(full=1)
def module_in_containers():
    table = {"net": seeded(Mlp), "list": [seeded(Mlp)]}

    def f(x):
        return table["net"](x) + table["list"][0](x)

    return Case(f, mat())


@program(full=1)
def isinstance_on_modules():
    model = seeded(lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.0)))

    def f(x):
        for layer in model:
            if isinstance(layer, nn.Linear):
                x = layer(x) + layer.in_features
            elif isinstance(layer, (nn.ReLU, nn.GELU)):
                x = layer(x) * 2
        return x

    return Case(f, mat())


@program()
def apply_and_zero_grad():
    model = seeded(Mlp)
    seen = []

    def f(x):
        model.apply(lambda m: seen.append(type(m).__name__))
        model.zero_grad()
        return model(x)

    return Case(f, mat()).watching(seen)


@program()
def state_dict_inside():
    model = seeded(Mlp)

    def f(x):
        state = model.state_dict()
        return model(x), list(state), state["first.bias"] + 1

    return Case(f, mat())


@program(full=1)
def registration_in_forward():
    class Registering(nn.Module):
        def __init__(self):
            super().__init__()
            self.ready = False

        def forward(self, x):
            if not self.ready:
                self.register_buffer("offset", x.detach() + 1)
                self.ready = True
            return x + self.offset

    return Case(Registering(), mat())


@program(full=3)
def residual_block_stack():
    class Block(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.norm = nn.LayerNorm(4)
            self.lin = nn.Linear(4, 4)
            self.n = n

        def forward(self, x, cache=None):
            if cache is not None:
                cache[self.n] = x.detach()
            return x + self.lin(self.norm(x))

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block(i) for i in range(3))

        def forward(self, x, cache=None):
            for block in self.blocks:
                x = block(x, cache=cache)
            return x

    return Case(seeded(Stack), mat(), {}).changing(mat())
