"""A quick look at one pair of CPython and torch, for `make smoke`: is it right, does it capture, is it fast?

Every eighth program of the corpus plain and every sixteenth with a break at each instruction, and a small decoder with
inductor, whose capture and guards are timed beside TorchDynamo's. Prints the versions and one line of figures; fails on
any difference from eager.
"""

import argparse
import os
import pathlib
import platform
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

TOLERANCE = 2e-3  # of a float32 decoder whose operations inductor orders anew


def corpus(step, break_every, offset):
    """(programs run, what differs) of every `step`-th program."""
    from tests.python.test_programs import _PROGRAMS, _SHORTFALLS, run_differential

    names = set(sorted(_PROGRAMS)[offset::step])
    os.environ["STATOR_STRICT"] = "1"
    os.environ.pop("STATOR_BREAK_EVERY", None)
    if break_every:
        os.environ["STATOR_BREAK_EVERY"] = break_every
    mode = break_every or "plain"
    with tempfile.TemporaryDirectory() as folder:
        verdicts = run_differential(pathlib.Path(folder), names, "stator")
    os.environ.pop("STATOR_BREAK_EVERY", None)
    wrong = [n for n in names if n not in verdicts]
    wrong += [n for n, v in verdicts.items() if v["differences"] and (f"differs:{mode}", n) not in _SHORTFALLS]
    if not break_every:
        wrong += [n for n, v in verdicts.items() if v["unmet"] and ("lost:plain", n) not in _SHORTFALLS]
    return len(names), sorted(set(wrong))


def model(layers):
    """{side: figures} of both front ends with inductor."""
    from benchmarks import frontends, runner

    sides, _ = frontends.sides(False)
    found = {}
    for side in sides:
        spec = {"measure": "demo:measure", "side": side, "layers": layers, "backend": "inductor"}
        found[side] = runner.run_worker(spec, 300)
    return sides, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument(
        "--part", type=int, default=8, help="every n-th program of the corpus, and half as many with forced breaks"
    )
    parser.add_argument("--offset", type=int, default=0, help="other programs")
    options = parser.parse_args()
    import torch

    import stator

    started = time.monotonic()
    print(f"CPython {platform.python_version()}, torch {torch.__version__}, stator {stator.__version__}", flush=True)
    plain, wrong = corpus(options.part, "", options.offset)
    print(f"corpus: {plain} programs plain, {len(wrong)} wrong {' '.join(wrong)}", flush=True)
    broken, more = corpus(2 * options.part, "1", options.offset)
    print(f"corpus: {broken} programs with a break at each instruction, {len(more)} wrong {' '.join(more)}", flush=True)
    sides, found = model(options.layers)
    theirs, ours = found[sides[0]], found[sides[-1]]
    right = ours["difference"] <= max(TOLERANCE, 2 * theirs["difference"])
    print(
        f"smoke: {plain + broken - len(wrong) - len(more)} of {plain + broken} programs as in eager; "
        f"decoder with inductor off by {ours['difference']:.1e}, {ours['graphs']} graph(s); "
        f"capture {theirs['capture_s'] / ours['capture_s']:.0f} and guards {theirs['guards_us'] / ours['guards_us']:.0f} times TorchDynamo's speed; "
        f"{time.monotonic() - started:.0f} s"
    )
    return 0 if right and not wrong and not more and len(sides) > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
