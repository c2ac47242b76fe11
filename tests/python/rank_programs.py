"""What the processes of test_ranks.py and tests/dist run: python -m tests.python.rank_programs <program,...> <rank>
<world> <folder>.

Each program gets (rank, world) and returns a dict, which goes to result<rank>.json under the program's name.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import stator

FOLDER = Path(".")
PROGRAMS: dict[str, Any] = {}


def program(function: Any) -> Any:
    PROGRAMS[function.__name__] = function
    return function


class Graphs:
    """A backend that runs graphs as they are, and keeps them."""

    def __init__(self) -> None:
        self.modules: list[torch.fx.GraphModule] = []

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        self.modules.append(module)
        return module.forward

    def texts(self) -> list[str]:
        return [m.code for m in self.modules]


@contextlib.contextmanager
def agreeing(**settings: Any) -> Any:
    with stator.config.patch(enable_compiler_collectives=True, **{"compiler_collectives_timeout": 60.0, **settings}):
        yield


def outcome(call: Any) -> dict[str, Any]:
    """What a call gives: its value, or the name and text of its exception; and how long it took."""
    start = time.monotonic()
    try:
        value = call()
        return {
            "value": value.tolist() if isinstance(value, torch.Tensor) else value,
            "seconds": time.monotonic() - start,
        }
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error), "seconds": time.monotonic() - start}


# ---- agreement


@program
def learned(rank: int, world: int) -> dict[str, Any]:
    """What one rank has learned by itself, in an earlier job, holds for all of them."""

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n + x.shape[0]

    def call(size: int) -> bool:
        x = torch.ones(size, 3)
        return torch.equal(compiled(x, size), f(x, size))

    settings = {"cache_dir": str(FOLDER / f"learned{rank}"), "job_id": "job", "cache": True}
    with stator.config.patch(**settings):
        if rank == 0:
            compiled = stator.compile(f, backend=Graphs())
            assert call(4) and call(5)
            stator.reset()
        before, graphs = stator.stats()["captures"], Graphs()
        compiled = stator.compile(f, backend=graphs)
        with agreeing():
            same = [call(6), call(7)]  # equal on all ranks: nothing else would make a size dynamic
    return {"same": same, "graphs": graphs.texts(), "captures": stator.stats()["captures"] - before}


@program
def told(rank: int, world: int) -> dict[str, Any]:
    """What a rank tells the others is in the log and in the trace."""
    logger, lines = logging.getLogger("torch._dynamo.output_graph"), []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    trace = logging.getLogger("torch.__trace")
    artifacts: list[Any] = []
    keeper = logging.Handler()
    keeper.emit = lambda record: artifacts.append((record.metadata, record.payload))  # type: ignore[method-assign,attr-defined]
    trace.addHandler(keeper)
    trace.setLevel(logging.DEBUG)
    try:
        with agreeing():
            value = stator.compile(lambda x: (x + 1) * 1.5, backend=Graphs())(torch.ones(3))
    finally:
        logger.removeHandler(handler)
        trace.removeHandler(keeper)
    kept = [json.loads(p) for m, p in artifacts if m.get("artifact", {}).get("name") == "compiler_collective"]
    return {
        "backend": dist.get_backend(),
        "value": value.tolist(),
        "logged": [line for line in lines if line.startswith("compiler_collective")],
        "artifacts": kept,
    }


@program
def gathers(rank: int, world: int) -> dict[str, Any]:
    """Objects gathered in the middle of a program: a break, with capture around it."""
    graphs = Graphs()

    def f(x: torch.Tensor) -> Any:
        y = x + 1
        gathered = [None] * world
        dist.all_gather_object(gathered, {"rank": rank})
        return y + rank, gathered

    value, gathered = stator.compile(f, backend=graphs)(torch.ones(2))
    return {"value": value.tolist(), "gathered": gathered, "graphs": len(graphs.modules)}


@program
def sizes(rank: int, world: int) -> dict[str, Any]:
    """Other batch sizes and other ints on each rank: one dynamic graph each."""
    graphs = Graphs()

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        return (x * n).sin().sum(dim=0) + x.shape[0]

    compiled = stator.compile(f, backend=graphs)
    same = []
    with agreeing():
        for step in range(4):
            x = torch.randn(4 + 3 * rank + step, 8)
            n = 5 + rank + 10 * step
            same.append(torch.equal(compiled(x, n), f(x, n)))
    return {"same": same, "graphs": graphs.texts(), "captures": stator.stats()["captures"]}


@program
def alone(rank: int, world: int) -> dict[str, Any]:
    """The same without agreement: a static graph at first, and each rank for itself."""
    graphs = Graphs()

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    compiled = stator.compile(f, backend=graphs)
    compiled(torch.randn(4 + 3 * rank, 8))
    return {"graphs": graphs.texts()}


@program
def equal(rank: int, world: int) -> dict[str, Any]:
    """Equal inputs: nothing becomes dynamic, and the texts are the same to the letter."""
    graphs = Graphs()
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    compiled = stator.compile(model, backend=graphs)
    with agreeing():
        compiled(torch.ones(4, 8))
    return {"graphs": graphs.texts()}


@program
def one_row(rank: int, world: int) -> dict[str, Any]:
    """A batch of one on one rank, which is always a constant: the graphs still belong together."""
    graphs = Graphs()

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], -1).sum(1) * 2

    compiled = stator.compile(f, backend=graphs)
    x = torch.randn(1 if rank == 0 else 6, 4)
    with agreeing():
        return {"same": torch.equal(compiled(x), f(x)), "graphs": len(graphs.modules)}


def _elsewhere(rank: int) -> Any:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if rank == 1:
            print("only here")
        return y * 2

    return f


@program
def breaks_elsewhere(rank: int, world: int) -> dict[str, Any]:
    compiled = stator.compile(_elsewhere(rank), backend="eager")
    with agreeing():
        return outcome(lambda: compiled(torch.ones(2)))


@program
def breaks_elsewhere_eagerly(rank: int, world: int) -> dict[str, Any]:
    """Ten calls that diverge, then one function that does not: it is captured as ever."""
    compiled = stator.compile(_elsewhere(rank), backend="eager")
    graphs = Graphs()
    other = stator.compile(lambda x: x.cos() + 1, backend=graphs)
    with agreeing(on_divergence="eager"), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = [outcome(lambda: compiled(torch.ones(2))) for _ in range(12)]
        entries = stator.stats()["entries"]
        after = other(torch.ones(2))
    return {"calls": found, "entries": entries, "graphs": len(graphs.modules), "after": after.tolist(),
            "warned": sum("different programs" in str(w.message) for w in warned)}  # fmt: skip


@program
def other_functions(rank: int, world: int) -> dict[str, Any]:
    """Ranks that are in different functions altogether."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def g(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = stator.compile(f if rank == 0 else g, backend="eager")
    with agreeing():
        return outcome(lambda: compiled(torch.ones(2)))


@program
def no_graph(rank: int, world: int) -> dict[str, Any]:
    """A rank whose function has nothing to compute."""

    def f(x: torch.Tensor) -> Any:
        return x + 1 if rank == 0 else 3

    with agreeing():
        return outcome(lambda: stator.compile(f, backend="eager")(torch.ones(2)))


@program
def fullgraph(rank: int, world: int) -> dict[str, Any]:
    """fullgraph=True and a break on one rank: an error on all, no wait."""
    compiled = stator.compile(_elsewhere(rank), backend="eager", fullgraph=True)
    with agreeing():
        return outcome(lambda: compiled(torch.ones(2)))


@program
def backend_fails(rank: int, world: int) -> dict[str, Any]:
    def backend(module: Any, inputs: Any) -> Any:
        if rank == 1:
            raise ValueError("no compiler on this machine")
        return module.forward

    with agreeing():
        return outcome(lambda: stator.compile(lambda x: x + 1, backend=backend)(torch.ones(2)))


@program
def traced(rank: int, world: int) -> dict[str, Any]:
    """The last of three functions is not the same on all ranks."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y * 2 if rank == 0 else y - 2

    def g(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    with stator.config.patch(trace_dir=str(FOLDER / "traces")):
        stator.compile(g, backend="eager")(torch.ones(2))
        stator.compile(f, backend="eager")(torch.ones(2))
    dist.barrier()
    from stator._rank_log import report

    return dict(zip(("text", "status"), report(str(FOLDER / "traces")), strict=True))


@program
def constants(rank: int, world: int) -> dict[str, Any]:
    """The process group's answers are constants of the graph."""

    def f(x: torch.Tensor) -> torch.Tensor:
        if not dist.is_initialized():
            return x - 100
        return x * dist.get_world_size() + dist.get_rank()

    return {"value": stator.compile(f, backend="eager", fullgraph=True)(torch.ones(2)).tolist()}


def _one_call(function: Any, rank: int) -> list[Any]:
    """[whether two calls' results and inputs are eager's, calls in graphs at each, breaks, names of the graph's
    calls]"""
    graphs = Graphs()
    stator.reset_stats()
    compiled = stator.compile(function, backend=graphs)
    same = True
    for step in range(2):
        given, wanted = (torch.full((4,), rank + 1.0 + step) for _ in range(2))
        value, expected = compiled(given), function(wanted)
        same = same and torch.equal(value, expected) and torch.equal(given, wanted)
    names = [n.name for m in graphs.modules for n in m.graph.nodes if n.op.startswith("call")]
    stats = stator.stats()
    return [same, stats["ops_run"] // 2, stats["breaks"], names]


@program
def collectives(rank: int, world: int) -> dict[str, Any]:
    """Functional and in-place ones: results as eager's, in a graph or behind a break that resumes."""
    import torch.distributed._functional_collectives as functional

    def plain(x: torch.Tensor) -> torch.Tensor:
        y = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
        return y + 1

    def all_reduce(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        given = dist.all_reduce(y)
        return y + 1 if given is None else y

    def of_an_input(x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x, op=dist.ReduceOp.MAX, group=dist.group.WORLD)
        return x + 1

    def all_gather(x: torch.Tensor) -> torch.Tensor:
        out = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(out, x * 2)
        return torch.cat(out) + 1

    def into_tensor(x: torch.Tensor) -> torch.Tensor:
        whole = torch.empty(dist.get_world_size() * 4)
        dist.all_gather_into_tensor(whole, x * 2)
        return whole + 1

    def reduce_scatter(x: torch.Tensor) -> torch.Tensor:
        part = torch.empty(4 // dist.get_world_size())
        dist.reduce_scatter_tensor(part, x * torch.arange(4.0), op=dist.ReduceOp.SUM)
        return part + 1

    def all_to_all(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x * torch.arange(4.0))
        return out + 1

    def asynchronous(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        work = dist.all_reduce(y, async_op=True)
        work.wait()
        return y + 1

    def broadcast(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.broadcast(y, 0)
        return y + 1

    functions = [
        plain,
        all_reduce,
        of_an_input,
        all_gather,
        into_tensor,
        reduce_scatter,
        all_to_all,
        asynchronous,
        broadcast,
    ]
    return {f.__name__: _one_call(f, rank) for f in functions}


@program
def dtensors(rank: int, world: int) -> dict[str, Any]:
    """DTensors as input and as parameters: eager's result, and reasons for what is not captured (none)."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor

    mesh = init_device_mesh("cpu", (world,))
    full = torch.arange(8.0 * world).reshape(2 * world, 4)
    x = distribute_tensor(full, mesh, [Shard(0)])

    def f(x: Any, y: torch.Tensor) -> Any:
        z = y.sin() * 2
        w = (x * 2 + 1).relu()
        local = w.to_local()
        return w, local.sum() + z.sum(), w.redistribute(placements=[Replicate()])

    found: dict[str, Any] = {}
    y = torch.ones(3)
    stator.reset_stats()
    explained = stator.explain(f)(x, y)
    found["reasons"] = [str(reason) for reason in explained.break_reasons]
    compiled = stator.compile(f, backend="eager")
    for _ in range(2):
        value, wanted = compiled(x, y), f(x, y)
    found["same"] = [
        torch.equal(value[0].full_tensor(), wanted[0].full_tensor()) and value[0].placements == wanted[0].placements,
        torch.equal(value[1], wanted[1]),
        torch.equal(value[2].to_local(), wanted[2].to_local()),
    ]
    found["ops_run"] = stator.stats()["ops_run"]
    found["internal_errors"] = stator.stats()["internal_errors"]

    def shard(name: str, module: torch.nn.Module, mesh: Any) -> None:
        for key, parameter in list(module.named_parameters(recurse=False)):
            module.register_parameter(key, torch.nn.Parameter(distribute_tensor(parameter.data, mesh, [Shard(0)])))

    torch.manual_seed(0)
    model = distribute_module(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), mesh, shard)
    net = stator.compile(model, backend="eager")
    value, wanted = net(x), model(x)
    value.sum().full_tensor().backward()
    grad = model[0].weight.grad.full_tensor().clone()
    model.zero_grad()
    wanted.sum().full_tensor().backward()
    found["module"] = [
        torch.equal(value.full_tensor(), wanted.full_tensor()),
        torch.allclose(grad, model[0].weight.grad.full_tensor()),
    ]
    return found


# ---- guards


def _guarded(rank: int, collectives: bool) -> dict[str, Any]:
    """A setting that only one rank changes."""
    graphs = Graphs()
    settings = {"scale": 2.0}

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * settings["scale"]

    compiled = stator.compile(f, backend=graphs, dynamic=False)
    before = stator.set_enable_guard_collectives(collectives)
    try:
        counts = []
        for step in range(4):
            if step == 2 and rank == 1:
                settings["scale"] = 3.0
            same = torch.equal(compiled(torch.ones(2)), f(torch.ones(2)))
            counts.append([same, len(graphs.modules)])
    finally:
        stator.set_enable_guard_collectives(before)
    return {"counts": counts, "before": before}


@program
def guards_together(rank: int, world: int) -> dict[str, Any]:
    return _guarded(rank, True)


@program
def guards_alone(rank: int, world: int) -> dict[str, Any]:
    return _guarded(rank, False)


# ---- ranks that go


@program
def dies_in_capture(rank: int, world: int) -> dict[str, Any]:
    """The last rank ends while it traces; the time-out is five seconds."""

    @stator.assume_constant_result
    def probe() -> int:
        if rank == world - 1 and armed:
            os._exit(17)
        return 1

    armed = False

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + probe()

    def g(x: torch.Tensor) -> torch.Tensor:
        return x - probe()

    with agreeing(compiler_collectives_timeout=5.0):
        first = outcome(lambda: stator.compile(f, backend="eager")(torch.ones(2)))
        armed = True
        second = outcome(lambda: stator.compile(g, backend="eager")(torch.ones(2)))
        third = outcome(lambda: stator.compile(f, backend="eager")(torch.ones(3)))
    return {"first": first, "second": second, "third": third}


@program
def dies_in_backend(rank: int, world: int) -> dict[str, Any]:
    """Rank 0, which holds the store, ends while its backend compiles."""

    def backend(module: Any, inputs: Any) -> Any:
        if rank == 0:
            os._exit(17)
        return module.forward

    with agreeing(compiler_collectives_timeout=5.0):
        return outcome(lambda: stator.compile(lambda x: x + 1, backend=backend)(torch.ones(2)))


@program
def does_not_come(rank: int, world: int) -> dict[str, Any]:
    """Rank 0 has an entry of its own, and does not capture again; the other one waits in vain."""
    settings = {"scale": 2.0}

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * settings["scale"]

    compiled = stator.compile(f, backend="eager")
    with agreeing(compiler_collectives_timeout=3.0):
        compiled(torch.ones(2))
        if rank == 1:
            settings["scale"] = 3.0
        found = outcome(lambda: compiled(torch.ones(2)))
    (FOLDER / f"done{rank}").touch()
    while not all((FOLDER / f"done{r}").exists() for r in range(world)):
        time.sleep(0.05)  # alive all the time
    return found


# ---- training: each returns how far losses and weights are from eager's after STEPS iterations

STEPS = int(os.environ.get("STATOR_TEST_STEPS", "20"))


class Net(torch.nn.Module):
    """Some layers, one of which is not always used."""

    def __init__(self, spare: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(16, 16) for _ in range(4)])
        self.head = torch.nn.Linear(16, 4)
        self.spare = torch.nn.Linear(16, 16) if spare else None

    def forward(self, x: torch.Tensor, use_spare: bool = True) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        if self.spare is not None and use_spare:
            x = x + self.spare(x)
        return self.head(x)


def _train(
    model: Any, rank: int, accumulate: int = 1, spare: bool = False, sizes: bool = False
) -> tuple[list[float], list[torch.Tensor]]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = torch.Generator().manual_seed(rank)
    losses = []
    for step in range(STEPS):
        rows = 4 + (step + rank) % 3 if sizes else 4
        x, y = torch.randn(rows, 16, generator=data), torch.randn(rows, 4, generator=data)
        last = (step + 1) % accumulate == 0
        with contextlib.nullcontext() if last or not hasattr(model, "no_sync") else model.no_sync():
            loss = ((model(x, step % 3 != 0) if spare else model(x)) - y).square().mean()
            loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    weights = [p.detach() for p in model.parameters()]
    return losses, [w.full_tensor() if hasattr(w, "full_tensor") else w for w in weights]


def _compare(rank: int, make: Any, **how: Any) -> dict[str, Any]:
    """`make(compile)` gives a model; compile is the identity, or stator.compile."""
    graphs = Graphs()
    backend = how.pop("backend", graphs)
    losses, weights = _train(make(lambda model: model), rank, **how)
    stator.reset_stats()
    with agreeing():
        found = _train(make(lambda model: stator.compile(model, backend=backend)), rank, **how)
    return {
        "losses": max(abs(a - b) for a, b in zip(losses, found[0], strict=True)),
        "weights": max((a - b).abs().max().item() for a, b in zip(weights, found[1], strict=True) if a.numel() > 0),
        "learned": losses[0] - losses[-1],
        "graphs": len(graphs.modules),
        **{
            k: v
            for k, v in stator.stats().items()
            if k in ("captures", "breaks", "graph_calls", "ops_run", "internal_errors")
        },
    }


def _ddp(model: Any, **options: Any) -> Any:
    # small buckets: several of them in a small model
    return torch.nn.parallel.DistributedDataParallel(model, **{"bucket_cap_mb": 0.0015, **options})


@program
def ddp_outside(rank: int, world: int) -> dict[str, Any]:
    return _compare(rank, lambda compile: compile(_ddp(Net())))


@program
def ddp_inside(rank: int, world: int) -> dict[str, Any]:
    return _compare(rank, lambda compile: _ddp(compile(Net())))


@program
def ddp_buckets(rank: int, world: int) -> dict[str, Any]:
    """Behind AOTAutograd: a graph for each bucket, so that gradients come in between. The order in which buckets become
    ready shows it."""
    from torch._dynamo.backends.debugging import aot_eager

    parts = []

    def backend(module: Any, inputs: Any) -> Any:
        parts.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        return aot_eager(module, inputs)

    found = _compare(rank, lambda compile: compile(_ddp(Net())), backend=backend)
    return {**found, "parts": parts}


@program
def ddp_buckets_sizes(rank: int, world: int) -> dict[str, Any]:
    """The same with batch sizes that change and differ between ranks."""
    from torch._dynamo.backends.debugging import aot_eager

    parts = []

    def backend(module: Any, inputs: Any) -> Any:
        parts.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        return aot_eager(module, inputs)

    return {**_compare(rank, lambda compile: compile(_ddp(Net())), backend=backend, sizes=True), "parts": parts}


@program
def ddp_accumulates(rank: int, world: int) -> dict[str, Any]:
    return _compare(rank, lambda compile: compile(_ddp(Net())), accumulate=4)


@program
def ddp_unused(rank: int, world: int) -> dict[str, Any]:
    return _compare(rank, lambda compile: compile(_ddp(Net(spare=True), find_unused_parameters=True)), spare=True)


@program
def ddp_static(rank: int, world: int) -> dict[str, Any]:
    return _compare(rank, lambda compile: compile(_ddp(Net(), static_graph=True)))


def _fully_shard(compile: Any, **options: Any) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Net()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return compile(model)


@program
def fsdp2(rank: int, world: int) -> dict[str, Any]:
    return _compare(rank, _fully_shard)


@program
def fsdp2_kept(rank: int, world: int) -> dict[str, Any]:
    """Parameters stay gathered between forward and backward."""
    return _compare(rank, lambda compile: _fully_shard(compile, reshard_after_forward=False))


@program
def fsdp2_mixed(rank: int, world: int) -> dict[str, Any]:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return _compare(rank, lambda compile: _fully_shard(compile, mp_policy=policy))


@program
def fsdp1(rank: int, world: int) -> dict[str, Any]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    def make(compile: Any) -> Any:
        return compile(FullyShardedDataParallel(Net(), use_orig_params=True, device_id=torch.device("cpu")))

    return _compare(rank, make)


ENDS_WITHOUT_GOODBYE = {"dies_in_capture", "dies_in_backend", "does_not_come"}


def main() -> None:
    global FOLDER
    names, rank, world, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    FOLDER = Path(folder)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world, timeout=timedelta(seconds=120)
    )
    results = {}
    for name in names.split(","):
        torch.manual_seed(0)
        stator.reset()
        stator.reset_stats()
        results[name] = PROGRAMS[name](rank, world)
        (FOLDER / f"result{rank}.json").write_text(json.dumps(results))
    if ENDS_WITHOUT_GOODBYE.isdisjoint(names.split(",")):
        dist.barrier()
        dist.destroy_process_group()
    else:
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
