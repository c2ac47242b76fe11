"""Cost of checking the guards of a module tree: hot, and after a sweep of the caches.

    python benchmarks/guards_bench.py [--layers 36] [--sweep-mib 64]

The tree is transformers' Qwen3 (hidden 256) where transformers is installed, else one of the same make from torch.nn. Every module is
guarded the way capture does it: exact type, type version with the names that a call looks up, empty hook dicts, `training`, the plain
numbers among its attributes, submodules and parameters (each with its tensor facts).
"""

import argparse
import statistics

import torch

from stator import _core

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
LOOKED_UP = ("forward", "__call__", "_call_impl", "__getattr__")


def qwen3(layers):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=1000,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        use_cache=False,
    )
    return Qwen3ForCausalLM(config)


class Block(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(hidden, bias=False) for _ in range(4)])
        self.attention = torch.nn.ModuleList([torch.nn.Linear(hidden, hidden, bias=False) for _ in range(4)])
        self.mlp = torch.nn.ModuleList([torch.nn.Linear(hidden, hidden, bias=False) for _ in range(3)])
        self.act = torch.nn.SiLU()
        self.scale = 8


def plain(layers):
    return torch.nn.Sequential(
        torch.nn.Embedding(1000, 256), *[Block(256) for _ in range(layers)], torch.nn.LayerNorm(256)
    )


def module_guards(model, root=("local", 0)):
    guards = [("global_state", None)]
    types = set()

    def visit(module, source):
        guards.append(("type", source, type(module)))
        if type(module) not in types:
            types.add(type(module))
            guards.append(("type_version", source, type(module), LOOKED_UP))
        guards.append(("absent", ("attr", source, "forward")))
        for name in HOOKS:
            guards.append(("dict_empty", ("attr", source, name)))
        for name, value in vars(module).items():
            if name == "training" or (type(value) in (int, float, bool) and not name.startswith("_")):
                guards.append(("equals", ("attr", source, name), value))
        for name, parameter in module._parameters.items():
            if parameter is not None:
                guards.append(("tensor", ("parameter", source, name), parameter))
        for name, buffer in module._buffers.items():
            if buffer is not None:
                guards.append(("tensor", ("buffer", source, name), buffer))
        for name, child in module._modules.items():
            if child is not None:
                visit(child, ("submodule", source, name))

    visit(model, root)
    return guards


def report(title, guards, frame, sweep):
    program = _core.guards_build(guards)
    assert _core.guards_check(program, frame), _core.guards_explain(program, frame)
    _core.guards_time(program, frame, None, 50, 0)
    hot = statistics.median(_core.guards_time(program, frame, None, 200, 0))
    cold = statistics.median(_core.guards_time(program, frame, None, 30, sweep))
    print(f"{title:<34} {len(guards):6} guards   hot {hot / 1000:8.2f} us   after sweep {cold / 1000:8.2f} us")
    return program


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--sweep-mib", type=int, default=64)
    options = parser.parse_args()
    sweep = options.sweep_mib << 20
    x, y = torch.randn(2, 64), torch.randn(2, 64)
    local = ("local", 0), ("local", 1), ("local", 2)
    report(
        "f(x, y, 3)",
        [("tensor", local[0], x), ("tensor", local[1], y), ("equals", local[2], 3), ("global_state", None)],
        [x, y, 3],
        sweep,
    )
    report(
        "f(x, y, 3), no global state",
        [("tensor", local[0], x), ("tensor", local[1], y), ("equals", local[2], 3)],
        [x, y, 3],
        sweep,
    )
    models = [("torch.nn blocks", plain)]
    try:
        import transformers  # noqa: F401

        models.insert(0, ("Qwen3", qwen3))
    except ImportError:
        pass
    for name, make in models:
        model = make(options.layers)
        guards = module_guards(model)
        modules, parameters = len(list(model.modules())), len(list(model.parameters()))
        title = f"{name}, {modules} modules, {parameters} par."
        program = report(title, guards, [model], sweep)
        again = make(options.layers)
        frames = [[model], [again]]
        for frame in frames:
            assert _core.guards_check(program, frame), _core.guards_explain(program, frame)
        _core.guards_time(program, frames[1], None, 20, 0)
        hot = statistics.median(_core.guards_time(program, frames[1], None, 100, 0))
        print(f"{'  a second instance, same program':<34} {'':13}   hot {hot / 1000:8.2f} us")
        model.counter = 0
        times = []
        for i in range(60):
            model.counter = i + 10**6  # a write to the root's dict before every call
            times.append(_core.guards_time(program, frames[0], None, 1, 1 << 6)[0])
        print(
            f"{'  an attribute written before each':<34} {'':13}   hot {statistics.median(times[20:]) / 1000:8.2f} us"
        )
        half = make(options.layers // 2)
        few = module_guards(half)
        count = len(list(half.modules()))
        small = _core.guards_build(few)
        _core.guards_time(small, [half], None, 50, 0)
        small_hot = statistics.median(_core.guards_time(small, [half], None, 200, 0))
        full_hot = statistics.median(_core.guards_time(program, frames[0], None, 200, 0))
        print(f"{'  each further module':<34} {'':13}       {(full_hot - small_hot) / (modules - count):8.2f} ns")


if __name__ == "__main__":
    main()
