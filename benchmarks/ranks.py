"""python -m benchmarks.ranks [--out FILE]: the agreement of many simulated ranks. Real protocol code, messages counted,
computing timed."""

import argparse
import json

from stator import _core


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    parser.add_argument("--inputs", type=int, default=32, help="tensors that each rank's capture reads")
    given = parser.parse_args()
    rows = []
    print(
        f"{'case':9} {'ranks':>7} {'verdict':9} {'captures':>8} {'reduce':>6} {'merge':>6} {'messages':>12} {'in a row':>8} {'MB/rank':>8} {'us/rank':>8}"
    )
    for case in ("equal", "sizes", "branches", "stray"):
        for ranks in (2, 32, 1024, 100_000):
            done = _core.rehearse_ranks(case, ranks, given.inputs)
            done.update(case=case, ranks=ranks)
            rows.append(done)
            print(f"{case:9} {ranks:7} {done['verdict']:9} {done['captures']:8} {done['reductions']:6} {done['merges']:6} {done['messages']:12} "
                  f"{done['longest_path']:8} {done['memory'] / 1e6:8.3f} {1e6 * done['seconds'] / ranks:8.1f}")  # fmt: skip
    if given.out:
        with open(given.out, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
