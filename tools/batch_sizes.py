"""One graph for all batch sizes: runs models of the peer zoo with sizes 2 to 64 and compares with eager.

    tools/batch_sizes.py PEER_FOLDER [--backend aot_eager] [--models bert,gpt2] [--sizes 2,3,5,8,16,33,64] [--train]
    [--frontend both]

The first size is captured as it is, the second makes the batch dynamic; every further size has to be served by what is
there then. --train compares gradients too. --frontend both runs TorchDynamo beside it, which may not need fewer graphs
behind the first size (of models of which it captures something at all). Each model runs in a process of its own. Exits
with 1 if a model is captured anew later, needs more than TorchDynamo, differs from eager, or fails.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = "2,3,5,8,16,33,64"


def same(expected, got, path="out"):
    """The first place where two results differ, or None."""
    import torch

    if isinstance(expected, torch.Tensor):
        if expected.shape != got.shape:
            return f"{path}: {tuple(got.shape)} instead of {tuple(expected.shape)}"
        wide = torch.float64 if not expected.is_complex() else torch.complex128
        close = torch.allclose(expected.to(wide), got.to(wide), rtol=1e-3, atol=1e-4, equal_nan=True)
        return None if close else f"{path}: differs by up to {(expected.to(wide) - got.to(wide)).abs().max():.2g}"
    if isinstance(expected, dict):
        parts = [(k, expected[k], got[k]) for k in expected]
    elif isinstance(expected, (list, tuple)):
        parts = list(zip(range(len(expected)), expected, got, strict=True))
    else:
        return None
    for key, one, other in parts:
        if found := same(one, other, f"{path}[{key!r}]"):
            return found
    return None


def steps(peer, name, train):
    """The model, and what one step with it and one batch gives: outputs, or the loss and the gradients."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, inputs, *labels = peer.SPECS[name]["build"]()
    if not train:
        model.eval()

        def forward(call, size):
            with torch.no_grad():
                return call(**inputs(size))

        return model, forward
    model.train()
    for module in model.modules():
        for key, value in list(vars(module).items()):
            if isinstance(value, float) and (key == "p" or "drop" in key):
                setattr(module, key, 0.0)
    state = {key: value.clone() for key, value in model.state_dict().items()}

    def backward(call, size):
        model.load_state_dict(state)
        model.zero_grad(set_to_none=True)
        torch.manual_seed(7)
        loss = peer.loss_of(call(**inputs(size), **(labels[0](size) if labels and labels[0] else {})))
        loss.backward()
        return loss.detach(), {key: p.grad for key, p in model.named_parameters() if p.grad is not None}

    return model, backward


def run_one(zoo, options, sizes):
    """Prints graphs for each size, seconds and what was wrong, as JSON."""
    import torch

    sys.path.insert(0, str(zoo.parent))
    import zoo as peer

    model, step = steps(peer, options.one, options.train)
    if options.frontend == "dynamo":
        from torch._dynamo.backends.registry import lookup_backend
        from torch._dynamo.utils import counters

        compiled = torch.compile(model, backend=lookup_backend(options.backend))

        def graphs():
            return counters["stats"]["unique_graphs"]
    else:
        import stator

        compiled = stator.compile(model, backend=options.backend)

        def graphs():
            return stator.stats()["graphs"]

    start, captured, wrong = time.perf_counter(), [], []
    for size in sizes:
        before = graphs()
        got = step(compiled, size)
        captured.append(graphs() - before)
        if found := same(step(model, size), got):
            wrong.append(f"size {size}: {found}")
    print(json.dumps({"graphs": captured, "seconds": time.perf_counter() - start, "wrong": wrong}))


def measured(zoo, options, name, frontend):
    command = [sys.executable, __file__, str(zoo.parent), "--backend", options.backend, "--sizes", options.sizes]
    command += ["--frontend", frontend, "--one", name] + ["--train"] * options.train
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    try:
        return json.loads(result.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return (result.stderr.strip().splitlines() or ["no message"])[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("peer", type=pathlib.Path)
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--models")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--frontend", choices=("stator", "dynamo", "both"), default="stator")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    zoo = options.peer.resolve() / "zoo.py"
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.one:
        return run_one(zoo, options, sizes)
    sys.path[:0] = [str(zoo.parent)]
    import zoo as peer

    names = options.models.split(",") if options.models else peer.OPEN
    both = options.frontend == "both"
    print(
        f"{'model':16} graphs at the 1st, 2nd, later sizes; seconds{'; the same of TorchDynamo' * both} "
        f"({options.backend}{', train' * options.train}, sizes {options.sizes})",
        flush=True,
    )
    failed = []
    for name in names:
        found = measured(zoo, options, name, "stator" if both else options.frontend)
        theirs = measured(zoo, options, name, "dynamo") if both else None
        line, trouble = f"{name:16}", []
        for row in (found, theirs):
            if isinstance(row, dict):
                counts = row["graphs"]
                line += f" {counts[0]:3} {counts[1]:3} {sum(counts[2:]):5} {row['seconds']:7.1f} "
            elif row is not None:
                line += f" {'failed':>20} "
        if isinstance(found, dict):
            counts = found["graphs"]
            trouble += [f"{n} graphs at size {s}" for n, s in zip(counts[2:], sizes[2:], strict=True) if n]
            trouble += found["wrong"]
            if counts[1] > counts[0]:
                trouble.append("more graphs at the second size than at the first")
            if isinstance(theirs, dict) and theirs["graphs"][0] and sum(counts[1:]) > sum(theirs["graphs"][1:]):
                trouble.append("recompiles more than TorchDynamo")
        else:
            trouble.append(found)
        print(f"{line} {'; '.join(trouble)}".rstrip(), flush=True)
        if trouble:
            failed.append(name)
    print(f"{len(names) - len(failed)} of {len(names)} models" + (f"; not: {', '.join(failed)}" if failed else ""))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
