"""What the processes of test_disk_cache.py do: `python disk_programs.py
keep|start|save|load|save_grown|load_grown|changes [inductor]`. Prints one JSON object.

`keep` compiles all programs with inductor, which keeps them. `start` runs them in a process that should import nothing
large. `changes` runs programs that are a little different: each says whether the file of the first process may serve
it. There a graph that is not found runs as captured, unless "inductor" is asked for: what is tested is the key, and a
wrong hit would give a wrong result. `save` writes each program to a file of its own in a folder, `load` runs them from
there.
"""

import contextlib
import json
import os
import sys

import torch
import torch.nn.functional as F

import stator

HEAVY = ("torch._dynamo", "torch._inductor", "sympy")
SCALE = 2.0
imported: set[str] = set()


def heavy_modules():
    return [name for name in HEAVY if name in sys.modules]


class Net(torch.nn.Module):
    def __init__(self, width=16, factor=3, parameters=True):
        super().__init__()
        self.one, self.two = torch.nn.Linear(width, width), torch.nn.Linear(width, width)
        self.norm = torch.nn.BatchNorm1d(width)
        self.factor, self.twice = factor, False
        shift = torch.ones(width)
        if parameters:
            self.shift = torch.nn.Parameter(shift)
        else:
            self.register_buffer("shift", shift)

    def forward(self, x):
        x = F.gelu(self.one(x)) * self.factor
        if self.twice:
            x = x * 2
        return self.two(x) + self.shift


class Same(Net):
    """Another class, another file position, the same calls."""

    def forward(self, inputs):
        hidden = F.gelu(self.one(inputs)) * self.factor
        return self.two(hidden) + self.shift


class Trained(Net):
    def forward(self, x):
        return self.norm(super().forward(x))


class Checkpointed(Net):
    """Computed again in the backward."""

    def __init__(self, times=1, **options):
        super().__init__()
        self.times, self.options = times, options

    def again(self, x):
        return torch.tanh(super().forward(x)) * self.times

    def forward(self, x):
        for _ in range(2):
            x = torch.utils.checkpoint.checkpoint(self.again, x, use_reentrant=False, **self.options)
        return x


class CheckpointedSame(Checkpointed):
    """The same calls in the bodies."""

    def again(self, x):
        hidden = F.gelu(self.one(x)) * self.factor
        return torch.tanh(self.two(hidden) + self.shift) * self.times


class NotCheckpointed(Checkpointed):
    def forward(self, x):
        return self.again(self.again(x))


def function(x, y):
    return torch.cat([x.sin() * SCALE, y.cos() + 1], dim=1).sum(1, keepdim=True), x - y


def written(x, y):
    x.add_(y)
    return x.tanh() * 2


def dynamic(x, y):
    return (x @ y).relu() * x.shape[0]


def grows(x, n):
    return x.cos() * n


def views(x, y):
    """Outputs that are views of inputs, and an input."""
    return x.t(), x * 2 + y, y


def trained_views(x, y):
    return (x * y).sin().sum(), x.t()[1:], y


def pooled(x):
    return F.max_pool2d(x, 2).relu()


def tensors(*sizes, dtype=torch.float32):
    torch.manual_seed(1)
    return [torch.randn(*size).to(dtype) for size in sizes]


def net(kind=Net, **arguments):
    torch.manual_seed(0)
    return kind(**arguments)


# ---- running and comparing


def _copy(value):
    import copy

    if isinstance(value, torch.Tensor):
        plain = value.is_leaf and type(value) in (torch.Tensor, torch.nn.Parameter) and not value._is_view()
        return copy.deepcopy(value) if plain else value
    return copy.deepcopy(value)


def _same(left, right, tolerance=2e-2):
    if isinstance(left, (tuple, list)):
        return len(left) == len(right) and all(_same(a, b, tolerance) for a, b in zip(left, right))
    facts = (left.shape == right.shape and left.stride() == right.stride() and left.dtype == right.dtype
             and left.storage_offset() == right.storage_offset() and left._is_view() == right._is_view()
             and left.requires_grad == right.requires_grad and type(left) is type(right))  # fmt: skip
    return facts and torch.allclose(left, right, atol=tolerance, rtol=tolerance, equal_nan=True)


def run(target, inputs, train=False, tolerance=1e-4, share=None, loads=None, **compile_arguments):
    """Eagerly and compiled, on copies: (equal, files found, graphs that were not there). With gradients if asked."""
    results = []
    before = stator.stats()
    there = heavy_modules()
    for compiled in (False, True):
        module = _copy(target) if isinstance(target, torch.nn.Module) else target
        given = share() if share is not None else [_copy(x) for x in inputs]
        called = module
        if compiled:
            called = stator.compile(module, **compile_arguments) if loads is None else stator.load(module, *loads)
        out = called(*given)
        kept = [out, *given]
        if train:
            wanted = [x for x in ([out] if isinstance(out, torch.Tensor) else out) if x.requires_grad and not x.is_leaf]
            sum(x.square().sum() for x in wanted).backward()
            kept += [p.grad for p in module.parameters()] if isinstance(module, torch.nn.Module) else []
            kept += [x.grad for x in given if x.requires_grad]
        if isinstance(module, torch.nn.Module):
            kept += [b.detach() for b in module.buffers()]
        results.append([x for x in kept if x is not None])
    if not isinstance(target, Checkpointed):  # torch.utils.checkpoint imports torch._dynamo by itself
        imported.update(set(heavy_modules()) - set(there))
    after = stator.stats()
    equal = _same(*results, tolerance)
    return equal, after["disk_hits"] - before["disk_hits"], after["disk_misses"] - before["disk_misses"]


def programs():
    """name -> (target, inputs, arguments of run)"""
    (x,), (a, b), (m, n) = tensors((8, 16)), tensors((4, 6), (4, 6)), tensors((5, 16), (16, 16))
    return {
        "net": (net(), [x], {}),
        "function": (function, [a, b], {}),
        "written": (written, [a, b], {}),
        "dynamic": (dynamic, [m, n], {"dynamic": True}),
        "trained": (net(Trained), [x], {"train": True}),
        "views": (views, [a, b], {}),
        "trained_views": (trained_views, [a.clone().requires_grad_(), b.clone().requires_grad_()], {"train": True}),
        "pooled": (pooled, tensors((2, 3, 8, 8)), {}),
        "checkpointed": (net(Checkpointed), [x], {"train": True}),
    }


def run_all(names=None):
    found = {}
    for name, (target, inputs, arguments) in programs().items():
        if names is not None and name not in names:
            continue
        with torch.set_grad_enabled(bool(arguments.get("train"))):
            found[name] = run(target, inputs, **arguments)
    return found


# ---- changes


@contextlib.contextmanager
def setting(change, undo):
    change()
    try:
        yield
    finally:
        undo()


def attribute(owner, name, value):
    old = getattr(owner, name)
    return setting(lambda: setattr(owner, name, value), lambda: setattr(owner, name, old))


def variable(name, value):
    old = os.environ.get(name)
    undo = (lambda: os.environ.pop(name)) if old is None else (lambda: os.environ.__setitem__(name, old))
    return setting(lambda: os.environ.__setitem__(name, value), undo)


def own_gelu(x):
    return x.relu()


HIT, MISS, NEITHER = "hit", "miss", "neither"


def changes():
    """name -> (what is expected, a function that gives (target, inputs, arguments, context))"""
    made = {}

    def change(expected, context=contextlib.nullcontext, **arguments):
        def add(build):
            made[build.__name__] = (expected, build, context, arguments)

        return add

    def one(*size, **arguments):
        return tensors(size or (8, 16), **arguments)

    def pair(*sizes, **arguments):
        return tensors(*(sizes or ((4, 6), (4, 6))), **arguments)

    # The same graph, whatever it is called

    @change(HIT)
    def unchanged():
        return net(), one()

    @change(HIT)
    def other_weights():
        torch.manual_seed(7)
        return Net(), one()

    @change(HIT)
    def another_class_with_equal_calls():
        return net(Same), one()

    @change(HIT, fullgraph=True)
    def fullgraph():
        return net(), one()

    @change(HIT)
    def unchanged_function():
        return function, pair()

    @change(HIT)
    def a_function_with_equal_calls():
        def other(a, b):
            first, second = a.sin() * 2.0, b.cos() + 1
            return torch.cat([first, second], dim=1).sum(1, keepdim=True), a - b

        return other, pair()

    @change(HIT)
    def unchanged_writes():
        return written, pair()

    change(HIT, context=lambda: variable("TORCHINDUCTOR_CACHE_DIR", "/elsewhere"))(
        _named("inductors_own_folder", lambda: (net(), one()))
    )

    # Functions
    @change(MISS)
    def a_constant():
        return (lambda x, y: (torch.cat([x.sin() * 3.0, y.cos() + 1], dim=1).sum(1, keepdim=True), x - y)), pair()

    @change(MISS)
    def an_int_for_a_float():
        return (lambda x, y: (torch.cat([x.sin() * 2, y.cos() + 1], dim=1).sum(1, keepdim=True), x - y)), pair()

    @change(MISS)
    def a_bool_for_an_int():
        return (lambda x, y: (torch.cat([x.sin() * 2.0, y.cos() + True], dim=1).sum(1, keepdim=True), x - y)), pair()

    @change(MISS)
    def another_call():
        return (lambda x, y: (torch.cat([x.sin() * 2.0, y.sin() + 1], dim=1).sum(1, keepdim=True), x - y)), pair()

    @change(MISS)
    def another_dim():
        return (lambda x, y: (torch.cat([x.sin() * 2.0, y.cos() + 1], dim=0).sum(1, keepdim=True), x - y)), pair()

    @change(MISS)
    def no_keepdim():
        return (lambda x, y: (torch.cat([x.sin() * 2.0, y.cos() + 1], dim=1).sum(1), x - y)), pair()

    @change(MISS)
    def operands_changed():
        return (lambda x, y: (torch.cat([x.sin() * 2.0, y.cos() + 1], dim=1).sum(1, keepdim=True), y - x)), pair()

    @change(MISS)
    def outputs_changed():
        def turned(x, y):
            made = torch.cat([x.sin() * 2.0, y.cos() + 1], dim=1).sum(1, keepdim=True)
            return x - y, made

        return turned, pair()

    @change(MISS)
    def an_output_less():
        return (lambda x, y: torch.cat([x.sin() * 2.0, y.cos() + 1], dim=1).sum(1, keepdim=True)), pair()

    @change(MISS)
    def an_output_more():
        return (lambda x, y: (*function(x, y), x * 5)), pair()

    @change(MISS)
    def a_negative_zero():
        return (lambda x, y: (torch.cat([x.sin() * -0.0, y.cos() + 1], dim=1).sum(1, keepdim=True), x - y)), pair()

    @change(MISS)
    def a_global():
        return function, pair()

    made["a_global"] = (MISS, made["a_global"][1], lambda: attribute(sys.modules[__name__], "SCALE", 4.0), {})

    @change(MISS)
    def a_closure():
        def of(value):
            return lambda x, y: (torch.cat([x.sin() * value, y.cos() + 1], dim=1).sum(1, keepdim=True), x - y)

        return of(2.5), pair()

    @change(MISS)
    def no_write():
        return (lambda x, y: x.add(y).tanh() * 2), pair()

    # Classes, hooks, attributes
    @change(MISS)
    def an_attribute():
        return net(factor=4), one()

    @change(MISS)
    def an_attribute_of_another_class():
        return net(factor=3.0), one()

    @change(MISS)
    def a_flag():
        module = net()
        module.twice = True
        return module, one()

    @change(MISS)
    def a_method():
        class Other(Net):
            def forward(self, x):
                return self.two(F.relu(self.one(x)) * self.factor) + self.shift

        return net(Other), one()

    @change(MISS)
    def an_argument_of_a_call():
        class Other(Net):
            def forward(self, x):
                return self.two(F.gelu(self.one(x), approximate="tanh") * self.factor) + self.shift

        return net(Other), one()

    @change(MISS, context=lambda: attribute(F, "gelu", own_gelu))
    def a_function_of_torchs_replaced():
        return net(), one()

    @change(MISS)
    def a_hook():
        module = net()
        module.one.register_forward_hook(lambda module, args, output: output * 2)
        return module, one()

    @change(MISS)
    def a_hook_before():
        module = net()
        module.two.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        return module, one()

    @change(MISS)
    def a_layer_replaced():
        module = net()
        module.one = torch.nn.Linear(16, 16, bias=False)
        return module, one()

    @change(MISS)
    def a_buffer_for_a_parameter():
        return net(parameters=False), one()

    @change(MISS)
    def layers_in_another_order():
        class Other(Net):
            def forward(self, x):
                return self.one(F.gelu(self.two(x)) * self.factor) + self.shift

        # Parameters come in another order only if the program reads them so: the graph is the same, and so is its file.
        return net(Other), one()

    made["layers_in_another_order"] = (HIT, *made["layers_in_another_order"][1:])

    # Inputs
    @change(MISS)
    def another_batch():
        return net(), one(9, 16)

    @change(MISS)
    def another_width():
        return net(width=8), one(8, 8)

    @change(MISS)
    def one_more_dim():
        return net(), one(2, 8, 16)

    @change(MISS)
    def double():
        return net().double(), one(dtype=torch.float64)

    @change(MISS, tolerance=0.2)
    def bfloat16():
        return net().bfloat16(), one(dtype=torch.bfloat16)

    @change(MISS)
    def other_strides():
        return net(), [one(16, 8)[0].t()]

    @change(MISS)
    def an_offset():
        return net(), [one(9, 16)[0][1:]]

    @change(MISS)
    def an_expanded_input():
        return net(), [one(1, 16)[0].expand(8, 16)]

    @change(MISS)
    def one_tensor_twice():
        (x,) = one(4, 6)
        return function, [x, x]

    made["one_tensor_twice"][3]["share"] = lambda: [tensors((4, 6))[0]] * 2

    @change(MISS)
    def shared_memory():
        return function, pair()

    made["shared_memory"][3]["share"] = lambda: (lambda base: [base[:4], base[2:6]])(tensors((6, 6))[0])

    @change(MISS)
    def written_and_shared():
        return written, pair()

    made["written_and_shared"][3]["share"] = lambda: (lambda base: [base[:4], base[4:]])(tensors((8, 6))[0])

    @change(MISS)
    def a_parameter_for_a_tensor():
        x, y = pair()
        return function, [torch.nn.Parameter(x), y]

    @change(MISS)
    def a_number_for_a_tensor():
        return function, [*pair((4, 6)), torch.randint(3, (4, 6), generator=torch.Generator().manual_seed(1))]

    @change(NEITHER)
    def a_subclass():
        class Own(torch.Tensor):
            pass

        x, y = pair()
        return function, [x.as_subclass(Own), y]

    @change(MISS)
    def a_gradient_is_wanted():
        x, y = pair()
        return function, [x.requires_grad_(), y]

    made["a_gradient_is_wanted"][3]["train"] = True

    @change(MISS)
    def evaluation():
        return net(Trained).eval(), one()

    # State of torch
    change(MISS, context=torch.enable_grad, train=True)(_named("grad_mode", lambda: (net(), one())))

    # Checkpoints: what is in their bodies counts

    @change(HIT, train=True)
    def equal_checkpoints():
        return net(CheckpointedSame), one()

    @change(MISS, train=True)
    def a_constant_in_a_checkpoint():
        return net(Checkpointed, times=2), one()

    @change(MISS, train=True)
    def an_option_of_a_checkpoint():
        return net(Checkpointed, preserve_rng_state=False), one()

    @change(MISS, train=True)
    def no_checkpoint():
        return net(NotCheckpointed), one()

    @change(NEITHER, train=True)
    def a_policy_of_a_checkpoint():
        return net(Checkpointed, context_fn=torch.utils.checkpoint.noop_context_fn), one()

    change(MISS, context=torch.inference_mode)(_named("inference_mode", lambda: (net(), one())))
    for dtype in (torch.bfloat16, torch.float16):
        name = f"autocast_{str(dtype)[6:]}"
        change(MISS, context=lambda dtype=dtype: torch.autocast("cpu", dtype), tolerance=0.2)(
            _named(name, lambda: (net(), one()))
        )
    states = {
        "deterministic": (torch.use_deterministic_algorithms, True, False),
        "matmul_precision": (torch.set_float32_matmul_precision, "medium", torch.get_float32_matmul_precision()),
        "default_dtype": (torch.set_default_dtype, torch.float64, torch.float32),
        "threads": (torch.set_num_threads, torch.get_num_threads() + 1, torch.get_num_threads()),
    }
    for name, (change_it, value, old) in states.items():
        module, inputs = net(), one()
        context = lambda f=change_it, v=value, o=old: setting(lambda: f(v), lambda: f(o))
        change(MISS, context=context, tolerance=2e-2)(
            _named(name, lambda module=module, inputs=inputs: (module, inputs))
        )
    change(MISS, context=lambda: torch.backends.mkldnn.flags(enabled=False))(_named("mkldnn", lambda: (net(), one())))
    change(NEITHER, context=lambda: torch.device("cpu"))(_named("default_device", lambda: (net(), one())))

    # Settings of the backend
    change(MISS, options={"max_fusion_size": 3})(_named("an_option", lambda: (net(), one())))
    change(MISS, mode="max-autotune-no-cudagraphs")(_named("a_mode", lambda: (net(), one())))
    change(MISS, dynamic=True)(_named("dynamic_sizes", lambda: (net(), one())))
    change(MISS, dynamic=False)(_named("no_dynamic_sizes", lambda: (net(), one())))
    change(MISS, context=lambda: variable("TORCHINDUCTOR_EPILOGUE_FUSION", "0"))(
        _named("a_variable", lambda: (net(), one()))
    )

    def inductor_setting():
        from torch._inductor import config

        return config.patch(max_fusion_size=5)

    def functorch_setting():
        from torch._functorch import config

        return config.patch(functionalize_rng_ops=True)

    change(MISS, context=inductor_setting)(_named("a_setting_of_inductor", lambda: (net(), one())))
    change(MISS, context=functorch_setting)(_named("a_setting_of_aotautograd", lambda: (net(), one())))
    change(NEITHER, backend="aot_eager")(_named("another_backend", lambda: (net(), one())))
    change(NEITHER, context=lambda: stator.config.patch(cache=False))(_named("switched_off", lambda: (net(), one())))
    return made


def _named(name, function):
    function.__name__ = name
    return function


def run_changes():
    answers = {}
    for name, (expected, build, context, arguments) in changes().items():
        stator.reset()
        train = arguments.get("train", False)
        target, inputs = build()
        try:
            with torch.set_grad_enabled(train), context():
                equal, hits, misses = run(target, inputs, **arguments)
        except Exception as error:
            equal, hits, misses = f"{type(error).__name__}: {error}", 0, 0
        answers[name] = [expected, HIT if hits else MISS if misses else NEITHER, equal]
    return answers


def run_as_captured():
    """In inductor's place, for graphs that are not found."""
    from stator import _fx

    real = _fx.compile_graph
    _fx.compile_graph = lambda module, backend, key="": (
        (module._stator_runner, [], [], 0) if key else real(module, backend, key)
    )


def run_saved(task, folder):
    """Saves each program to a file, or runs it from there: [files and results are there, what a call without a graph in
    the file raises]."""
    answers = {}
    for name, (target, inputs, arguments) in programs().items():
        path = os.path.join(folder, name)
        with torch.set_grad_enabled(bool(arguments.get("train"))):
            if task == "load":
                arguments = {k: v for k, v in arguments.items() if k == "train"}
                answers[name] = run(target, inputs, loads=(path, "error"), **arguments)
                continue
            compiled = stator.compile(target, **{k: v for k, v in arguments.items() if k != "train"})
            out = compiled(*(_copy(x) for x in inputs))
            if arguments.get("train"):
                (out if isinstance(out, torch.Tensor) else out[0]).sum().backward()
            answers[name] = stator.save(compiled, path)
    return answers


def run_grown(task, folder):
    """A function whose sizes and ints change: what is learned is in the file."""
    path = os.path.join(folder, "grows")
    calls = [(torch.ones(n, 3), n) for n in ((4, 5, 6) if task == "save" else (9, 7))]
    with torch.no_grad():
        compiled = stator.compile(grows) if task == "save" else stator.load(grows, path, "error")
        before = stator.stats()["captures"]
        equal = all(torch.allclose(compiled(*call), grows(*call)) for call in calls)
        captures = stator.stats()["captures"] - before
        if task == "save":
            return [equal, captures, stator.save(compiled, path)]
        modules = heavy_modules()
        try:
            compiled(torch.ones(4, 4, dtype=torch.float64), 5)
            raised = None
        except stator.exc.PackageError as error:
            raised = str(error)
        captured = stator.load(grows, path, "eager")(torch.ones(4, 4, dtype=torch.float64), 5)
        return [
            equal and torch.allclose(captured, grows(torch.ones(4, 4, dtype=torch.float64), 5)),
            captures,
            modules,
            raised,
        ]


def main(task, *options):
    if task == "changes":
        if "inductor" not in options:
            run_as_captured()
        answer = run_changes()
    elif task in ("save", "load"):
        answer = {"programs": run_saved(task, *options), "modules": sorted(imported)}
    elif task in ("save_grown", "load_grown"):
        answer = run_grown(task.removesuffix("_grown"), *options)
    else:
        if task == "keep":
            with torch.no_grad(), stator.config.patch(cache_dir=stator.config.cache_dir + "-grown"):
                compiled = stator.compile(grows)
                for n in (4, 5, 6):
                    compiled(torch.ones(n, 3), n)
        answer = {"programs": run_all(), "modules": sorted(imported)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
