"""python -m benchmarks.dist [--out FILE]: a model in DistributedDataParallel on 2 ranks over gloo, Stator beside
TorchDynamo and eager, in one run.

Steps a second in steady state, the time of the first step, and what agreement costs: on each capture, and on each
look-up (guard collectives). They are measured in turn, a few steps at a time, in the same processes, and the median
counts; the backend runs graphs as they are, so what differs is capture and dispatch.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


def measure(rank, world, folder, rounds, blocks, steps):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import stator

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)

    def model():
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def seconds(call):
        dist.barrier()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def settings(name):
        stator.config.enable_compiler_collectives = name in ("stator, agreeing", "stator, guards too")
        stator.set_enable_guard_collectives(name == "stator, guards too")

    def stepper(name):
        """A function that does one step of training."""
        net = DistributedDataParallel(model())
        if name.startswith("stator"):
            net = stator.compile(net, backend="eager")
        elif name == "torchdynamo":
            net = torch.compile(net, backend="eager")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        x = torch.randn(4, 16, 64)

        def step():
            net(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    def first(name):
        stator.reset()
        torch._dynamo.reset()
        settings(name)
        return seconds(stepper(name))

    import torch._dynamo

    names = ("eager", "stator", "stator, agreeing", "stator, guards too", "torchdynamo")
    for name in ("eager", "torchdynamo", "stator"):
        first(name)  # imports, and what is done once in a process
    firsts = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            firsts[name].append(first(name))
    # Steady state: a few steps of each in turn, many times, so that what else the machine does meets all of them.
    stator.reset()
    torch._dynamo.reset()
    steppers = {name: stepper(name) for name in names}
    steady = {name: [] for name in names}
    for block in range(blocks + 1):
        for name, step in steppers.items():
            settings(name)
            taken = seconds(lambda step=step: [step() for _ in range(steps)])
            if block > 0:
                steady[name].append(taken / steps)
    if rank == 0:
        rows = {
            name: {
                "first_step_ms": 1e3 * statistics.median(firsts[name]),
                "step_ms": 1e3 * statistics.median(steady[name]),
                "steps_per_second": 1 / statistics.median(steady[name]),
            }
            for name in names
        }
        with open(os.path.join(folder, "rows.json"), "w") as file:
            json.dump(rows, file)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--steps", type=int, default=5, help="in a block")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        return measure(given.rank, given.world, given.folder, given.rounds, given.blocks, given.steps)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "benchmarks.dist",
            "--world",
            str(given.world),
            "--rounds",
            str(given.rounds),
            "--blocks",
            str(given.blocks),
            "--steps",
            str(given.steps),
        ]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        children = [
            subprocess.Popen([*command, "--rank", str(r), "--folder", folder], env=env) for r in range(given.world)
        ]
        codes = [child.wait() for child in children]
        if any(codes):
            sys.exit("a rank failed")
        with open(os.path.join(folder, "rows.json")) as file:
            rows = json.load(file)
    print(f"{'':20} {'first step':>12} {'a step':>12} {'steps/s':>10}")
    for name, row in rows.items():
        print(f"{name:20} {row['first_step_ms']:9.1f} ms {row['step_ms']:9.2f} ms {row['steps_per_second']:10.1f}")
    if given.out:
        with open(given.out, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
