"""The fuzzer that learns: programs of the second generator, kept and changed where they reach something new in src/.

    python -m tests.fuzz.learn --hours 2 [--jobs 2] [--corpus build/fuzz/corpus] [--backend mix|eager|aot_eager|inductor] [--count n]

A program is the byte string that wild.py makes it of. With a build that counts (`cmake --preset fuzz`; `make fuzz` makes it) a program that
reaches blocks that none before has reached goes into the corpus, and most programs are children of those in the corpus. Without one, all are new.
Every round forks its workers anew, with one setting of forced breaks and one backend. Findings are made smaller, told apart by the shape of
what is left, and written to build/fuzz/found/; a second one of the same shape is only counted. The corpus, what has been reached and the
findings stay: a later run goes on from there.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import io
import json
import linecache
import os
import random
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz import wild
from tests.fuzz.run import load
from tests.fuzz.shrink import shrink
from tests.python.differential import compare, prepare_process
from tests.python.frontends import FORCED_BREAKS, frontend
from tests.python.workers import OneWorker, run_tasks

BREAKS = ("", "", "1", "7", "random:{round}")
BACKENDS = ("", "", "", "aot_eager")
ROUND = 400


class Judge:
    """Runs one program both ways, in a worker: differences, and the blocks that this process had not reached before."""

    def __init__(self, backend: str, known: set[int], without: str, eager_only: bool = False) -> None:
        self.backend = backend
        self.without = without
        self.eager_only = eager_only
        self.known = known
        self._frontend: Any = None
        self._map: Any = None

    def __call__(self, task: tuple[str, str | None]) -> tuple[list[str], list[int]]:
        if self._frontend is None:
            self._frontend = frontend("stator", self.backend or None)
            from stator import _core

            self._map = getattr(_core, "coverage", None)
        genome, source = task
        text = (
            source
            if source is not None
            else wild.program(bytes.fromhex(genome), exact=bool(self.backend), without=self.without)
        )
        linecache.clearcache()
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            # Those that cannot be made, or do not agree with themselves (addresses, times), say nothing.
            try:
                program = load(text, genome[:12])
                moody = compare(program, frontend("eager"), fresh_calls=2, repeated_calls=1).differences
            except Exception:
                return [], []
            if moody or self.eager_only:
                return [], []
            found = compare(program, self._frontend, fresh_calls=2, repeated_calls=1).differences
        return found, self._reached()

    def _reached(self) -> list[int]:
        if self._map is None:
            return []
        new = [index for index in self._map() if index not in self.known]
        self.known.update(new)
        return new


@dataclass
class State:
    """What a run leaves to the next one."""

    folder: Path
    corpus: list[bytes] = field(default_factory=list)
    reached: set[int] = field(default_factory=set)
    found: dict[str, int] = field(default_factory=dict)  # by shape
    programs: int = 0
    rounds: int = 0

    @classmethod
    def open(cls, folder: Path) -> State:
        state = cls(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "state.json").exists():
            kept = json.loads((folder / "state.json").read_text())
            state.corpus = [bytes.fromhex(text) for text in kept["corpus"]]
            state.reached = set(kept["reached"])
            state.found = kept["found"]
            state.programs, state.rounds = kept["programs"], kept["rounds"]
        return state

    def save(self) -> None:
        kept = {
            "corpus": [genome.hex() for genome in self.corpus],
            "reached": sorted(self.reached),
            "found": self.found,
            "programs": self.programs,
            "rounds": self.rounds,
        }
        path = self.folder / "state.new"
        path.write_text(json.dumps(kept))
        path.replace(self.folder / "state.json")

    def next(self, rng: random.Random) -> bytes:
        if not self.corpus or rng.random() < 0.25:
            return wild.genome(rng)
        # Late ones are those that reached what is hard to reach.
        late = (
            self.corpus[-1 - int(len(self.corpus) * rng.random() ** 2)]
            if rng.random() < 0.5
            else rng.choice(self.corpus)
        )
        return wild.mutate(late, rng.choice(self.corpus), rng)


class _Shape(ast.NodeTransformer):
    """Names and numbers do not matter."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id[-1:].isdigit():
            node.id = self.names.setdefault(node.id, f"v{len(self.names)}")
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(type(node.value).__name__)


def shape(source: str, what: str) -> str:
    """A name for what is left of a program: equal for those that differ in names and numbers only."""
    tree = ast.parse(source)
    make = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "make")
    inner = [node for node in make.body if isinstance(node, ast.FunctionDef)]
    odd = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.startswith("Odd")]
    text = "\n".join(ast.unparse(_Shape().visit(node)) for node in (*inner, *odd))
    return hashlib.sha1((what + text).encode()).hexdigest()[:12]


def outcome(result: Any, failure: str | None) -> tuple[str, list[str]] | None:
    if failure is not None:
        return failure.splitlines()[0][:200], [failure]
    if result[0]:
        return "differs: " + result[0][0].split(":")[1].split(" ")[1], result[0]
    return None


def smaller(
    genome: bytes, source: str, what: str, backend: str, without: str, timeout: float, attempts: int
) -> tuple[str, list[str]] | None:
    """The program cut down while it fails in the same way, in a process of its own; None: alone it does not fail."""
    details: list[str] = []
    with OneWorker(Judge(backend, set(), without), timeout) as worker:

        def fails_alike(text: str) -> bool:
            _, result, failure = worker.run((genome.hex(), text))
            found = outcome(result, failure)
            if found is None or found[0] != what:
                return False
            details[:] = found[1]
            return True

        if not fails_alike(source):
            return None
        with OneWorker(Judge(backend, set(), without, eager_only=True), timeout) as eager:
            if eager.run((genome.hex(), source))[2] is not None:
                return None  # it dies without us
        genes = [genome[i : i + wild.GENE] for i in range(0, len(genome), wild.GENE)]
        at = len(genes) - 1
        while at >= 4 and len(genes) > 5:
            fewer = genes[:at] + genes[at + 1 :]
            text = wild.program(b"".join(fewer), exact=bool(backend), without=without)
            if fails_alike(text):
                genes, source = fewer, text
            at -= 1
        return (shrink(source, fails_alike, attempts) if attempts else source), details


def write(folder: Path, name: str, source: str, what: str, setting: str, details: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"found_{name}.py"
    reason = "\n".join(details[:2]).replace('"""', "'''")
    body = source.replace("def make():", f"@program()\ndef found_{name}():")
    body = body.replace(
        "from tests.fuzz.world import *", "from tests.fuzz.world import *\nfrom tests.python.programs import program", 1
    )
    path.write_text(f'r"""Found by the fuzzer ({setting}): {what}\n\n{reason}\n"""\n\n{body}')
    return path


def one_round(state: State, options: argparse.Namespace, rng: random.Random, until: float) -> int:
    """Programs under one setting; the number of new findings."""
    backend = options.backend if options.backend != "mix" else rng.choice(BACKENDS)
    backend = "" if backend == "eager" else backend
    breaks = rng.choice(BREAKS).format(round=state.rounds)
    os.environ.pop(FORCED_BREAKS, None)
    if breaks:
        os.environ[FORCED_BREAKS] = breaks
    setting = f"backend {backend or 'eager'}, {FORCED_BREAKS}={breaks or 0}"
    tasks = [(state.next(rng).hex(), None) for _ in range(min(ROUND, options.count or ROUND))]
    new = 0
    failing = []
    for (genome, _), result, failure in run_tasks(
        Judge(backend, state.reached, options.without), tasks, options.jobs, options.timeout
    ):
        state.programs += 1
        if result is not None and any(index not in state.reached for index in result[1]):
            state.reached.update(result[1])
            state.corpus.append(bytes.fromhex(genome))
        if (found := outcome(result, failure)) is not None:
            failing.append((bytes.fromhex(genome), found))
        if time.monotonic() > until:
            break
    for genome, (what, _) in failing:
        source = wild.program(genome, exact=bool(backend), without=options.without)
        cut = smaller(genome, source, what, backend, options.without, options.timeout, options.shrink)
        if cut is None:
            state.found["alone it does not fail"] = state.found.get("alone it does not fail", 0) + 1
            continue
        name = shape(cut[0], what)
        state.found[name] = state.found.get(name, 0) + 1
        if state.found[name] == 1:
            new += 1
            print(f"  {what}; {write(state.folder / 'found', name, cut[0], what, setting, cut[1])}", flush=True)
    state.rounds += 1
    state.save()
    return new


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.learn", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--count", type=int, default=0, help="stop after so many programs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzz/corpus"))
    parser.add_argument("--backend", default="mix")
    parser.add_argument(
        "--without", default="", help="productions that match this expression are left out (known findings)"
    )
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds for one program")
    parser.add_argument("--shrink", type=int, default=300, help="attempts to make a finding smaller")
    parser.add_argument("--seed", type=int, help="for a run that can be repeated")
    options = parser.parse_args(argv)
    os.environ.setdefault("STATOR_STRICT", "1")
    prepare_process()
    state = State.open(options.corpus)
    rng = random.Random(options.seed)
    start, before, new = time.monotonic(), state.programs, 0
    until = start + 3600 * options.hours
    while time.monotonic() < until and (not options.count or state.programs - before < options.count):
        new += one_round(state, options, rng, until)
        seconds = time.monotonic() - start
        print(
            f"{state.programs - before} programs ({state.programs} in all), {(state.programs - before) / seconds:.1f} a second, "
            f"{len(state.corpus)} kept, {len(state.reached)} blocks reached, {new} new findings",
            flush=True,
        )
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
