"""One graph for all batch sizes: runs models of the peer zoo with sizes 2 to 64 and compares with eager.

    tools/batch_sizes.py PEER_FOLDER [--backend aot_eager] [--models bert,gpt2] [--sizes 2,3,5,8,16,33,64]

The first size is captured as it is, the second makes the batch dynamic; every further size has to be served by what is there then.
Each model runs in a process of its own. Exits with 1 if a model is captured anew later, differs from eager, or fails.
"""

import argparse
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


def run_one(zoo, name, backend, sizes):
    """One line of the table; empty words at its end: all is well."""
    import torch

    import stator

    sys.path.insert(0, str(zoo.parent))
    import zoo as peer

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, inputs = peer.SPECS[name]["build"]()[:2]
    model.eval()
    compiled = stator.compile(model, backend=backend)
    start, captured, wrong = time.perf_counter(), [], []
    with torch.no_grad():
        for size in sizes:
            before = stator.stats()["graphs"]
            got = compiled(**inputs(size))
            captured.append(stator.stats()["graphs"] - before)
            if found := same(model(**inputs(size)), got):
                wrong.append(f"size {size}: {found}")
    late = [f"{n} graphs at size {s}" for n, s in zip(captured[2:], sizes[2:], strict=True) if n]
    print(
        f"{name:16} {captured[0]:3} {captured[1]:3} {sum(captured[2:]):5} {time.perf_counter() - start:7.1f}  "
        + "; ".join(late + wrong)
    )
    return 1 if late or wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", type=pathlib.Path)
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--models")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    zoo = options.peer.resolve() / "zoo.py"
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.one:
        sys.exit(run_one(zoo, options.one, options.backend, sizes))
    sys.path[:0] = [str(zoo.parent)]
    import zoo as peer

    names = options.models.split(",") if options.models else peer.OPEN
    print(
        f"{'model':16} graphs at the 1st, 2nd, later sizes; seconds ({options.backend}, sizes {options.sizes})",
        flush=True,
    )
    failed = []
    for name in names:
        command = [sys.executable, __file__, str(zoo.parent), "--backend", options.backend, "--sizes", options.sizes]
        result = subprocess.run([*command, "--one", name], cwd=ROOT, capture_output=True, text=True)
        print(
            result.stdout.rstrip() or f"{name:16} failed: {(result.stderr.strip().splitlines() or ['no message'])[-1]}",
            flush=True,
        )
        if result.returncode:
            failed.append(name)
    print(f"{len(names) - len(failed)} of {len(names)} models" + (f"; not: {', '.join(failed)}" if failed else ""))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
