"""Cost of checking the guards of a module tree: hot, and after a sweep of the caches.

    python -m benchmarks.guards_bench [--layers 36] [--sweep-mib 64]
    python -m benchmarks.guards_bench --check      calls beside TorchDynamo, and whether each limit holds (exit status
    1: not)

The tree is transformers' Qwen3 (hidden 256) where transformers is installed, else one of the same make from torch.nn.
Every module is guarded the way capture does it: exact type, type version with the names that a call looks up, empty
hook dicts, `training`, the plain numbers among its attributes, submodules and parameters (each with its tensor facts).
"""

import argparse
import statistics
import sys

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


PROGRAMS = ("qwen3_36", "llama_32", "bert_12", "gpt2_12", "t5_encoder_6")
LAYERS = (500, 1500)
WATCHES = sys.version_info >= (3, 12)
# For Qwen3-36: microseconds, and how many times less than TorchDynamo's. The other programs in proportion to their
# parameters, with one microsecond for the call itself. Before CPython 3.12 nobody tells of changes.
HOT_US, SWEPT_US, HOT_RATIO, SWEPT_RATIO = (3, 12, 100, 80) if WATCHES else (15, 110, 30, 10)


def checked(layers, rounds):
    """Whether each limit holds; TorchDynamo and Stator measured in turn."""
    from rich.console import Console
    from rich.table import Table

    from benchmarks import programs, runner
    from benchmarks.side_reports import measure_sides, write_json

    console = Console()
    sides = runner.announce_sides(console, False)
    if len(sides) < 2:
        return 1
    jobs = {name: {"measure": "module_trees:program_guards", "program": name} for name in PROGRAMS}
    for kind in ("plain", "linear"):
        for count in LAYERS:
            jobs[f"{kind}_{count}"] = {"measure": "module_trees:row_guards", "kind": kind, "count": count}
    jobs["shared"] = {"measure": "module_trees:shared_entry", "layers": layers, "instances": 20}
    jobs["written"] = {"measure": "module_trees:written_dicts", "rounds": rounds}
    found = measure_sides(console, jobs, sides)
    write_json("bench-out/guards.json", sides, found)
    theirs, ours = (found[side] for side in sides)
    table = Table("guards + dispatch of a call", "TorchDynamo", "Stator", "ratio", "limit", "holds")
    verdicts = []

    def line(label, read, limit, ratio=None, unit="us"):
        values = []
        for side in (theirs, ours):
            try:
                values.append(read(side))
            except (KeyError, TypeError):
                values.append(None)
        times = values[0] / values[1] if None not in values and values[1] > 0 else None
        holds = values[1] is not None and values[1] <= limit and (ratio is None or (times or 0) >= ratio)
        verdicts.append(holds)
        cells = ["-" if value is None else f"{value:,.2f} {unit}" for value in values]
        wanted = f"{limit:,.2f} {unit}" + (f", {ratio}x" if ratio else "")
        shown = f"{times:.1f}x" if times and unit == "us" else ""
        table.add_row(label, *cells, shown, wanted, "[green]yes" if holds else "[red]no")

    parameters = {name: (ours[name] or {}).get("parameters", 0) for name in PROGRAMS}
    for name in PROGRAMS:
        share = parameters[name] / max(parameters["qwen3_36"], 1)
        for kind, limit, ratio in (("hot", HOT_US, HOT_RATIO), ("swept", SWEPT_US, SWEPT_RATIO)):
            scaled = limit if name == "qwen3_36" else 1 + limit * share
            line(
                f"{programs.LABELS[name]}, {kind}",
                lambda side, name=name, kind=kind: side[name][kind]["min_us"],
                scaled,
                ratio if name == "qwen3_36" else None,
            )

    def slope(side, kind):
        few, many = (side[f"{kind}_{count}"]["hot"]["min_us"] for count in LAYERS)
        return (many - few) * 1e3 / (LAYERS[1] - LAYERS[0])

    line("each further module without parameters", lambda side: slope(side, "plain"), 1 if WATCHES else 15, unit="ns")
    line("each further Linear", lambda side: slope(side, "linear"), 40, unit="ns")
    one = (ours["shared"] or {}).get("hot", {}).get("min_us", 0)
    line("20 instances in turn, each", lambda side: side["shared"]["turn"]["min_us"], 2 * one)
    line(
        "training loop that writes, share added",
        lambda side: (side["written"]["training_ratio"] - 1) * 100,
        0.5,
        unit="%",
    )
    line("a write to a dict that guards rest on", lambda side: side["written"]["write_ns"], 30, unit="ns")
    console.print(table)
    return 0 if all(verdicts) else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--sweep-mib", type=int, default=64)
    parser.add_argument("--check", action="store_true", help="beside TorchDynamo; exit with 1 unless the limits hold")
    parser.add_argument("--rounds", type=int, default=50, help="of loops that write, with --check")
    options = parser.parse_args()
    if options.check:
        sys.exit(checked(options.layers, options.rounds))
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
