"""The minifier: cuts a failing program down to the few calls that fail, without losing the failure on the way.

Which cuts to try is C++'s business (src/debug/reduce.h); here candidates are run, each in a fork, and compared with the
failure that is looked for. Every candidate that still fails is a checkpoint on the disk at once, written and read back
as the script that it will be, so whatever ends the minifier, the smallest script so far is there and the next run goes
on from it.
"""

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import importlib
import json
import logging
import os
import shutil
import sys
import time

import torch

from stator.debug import _inputs, _models, _scripts, _stage, _text, _verdict, _worker
from stator.debug._verdict import Verdict

log = logging.getLogger("stator.debug")


class DoesNotFail(Exception):
    """The script shows no failure: there is nothing to cut down."""


@dataclasses.dataclass
class Report:
    script: str
    failure: Verdict
    calls_before: int
    calls_after: int
    inputs_after: int
    tries: int
    seconds: float  # of the reduction
    confirmed: int  # how often the script, run alone, showed the failure; of two

    def __str__(self):
        calls = "1 call" if self.calls_after == 1 else f"{self.calls_after} calls"
        return (
            f"{calls} of {self.calls_before} left, {self.inputs_after} inputs, after {self.tries} tries in {self.seconds:.1f} s\n"
            f"shows: {self.failure}\n"
            f"run alone it failed in the same way {self.confirmed} of 2 times\n{self.script}"
        )


class OutOfTime(Exception):
    pass


class Minifier:
    def __init__(self, case, run, timeout, memory, total, memo_path):
        self.case, self.run = case, run
        self.timeout, self.memory, self.total = timeout, memory, total
        self.memo_path = memo_path
        self.memo = _read_memo(memo_path)
        self.failure = None
        self.tries = 0
        self.start = time.monotonic()
        self.slowest = {}  # phase -> the longest time in which it ended
        self.checkpoint = None
        self.shown = None
        self.candidate = os.path.join(run.folder, "candidates", f"{os.getpid()}.py")
        if os.path.exists(self.memo.get("best", "")):
            log.warning("going on from %s", self.memo["best"])
            self.checkpoint = self.memo["best"]
            self.case = _scripts.load(self.checkpoint)

    def show(self, text):
        """Progress: a line for each change."""
        left = self.case.specimen.call_count()
        if (text, left) != self.shown:
            seconds = time.monotonic() - self.start
            print(f"[{seconds:6.1f} s] {left} calls left, {self.tries} tries: {text}", file=sys.stderr)
        self.shown = text, left

    # ---- one candidate

    def phase_limit(self, phase, before):
        """A hang is told from a slow run by what eager and the runs so far took; never less than five seconds."""
        if phase == "run":
            seconds = 10 * max(before.get("eager", 0.0), self.slowest.get("run", 0.0))
            return max(5.0 if self.slowest or self.failure else 20.0, seconds)
        known = phase in self.slowest and phase not in ("start", "load")
        return max(20.0, 10 * self.slowest[phase]) if known else None

    def examine(self, job):
        left = self.total - (time.monotonic() - self.start) if self.total else float("inf")
        if left <= 0:
            raise OutOfTime
        self.tries += 1
        verdict, told, seconds = _worker.check(job, min(self.timeout, left + 5), self.memory, self.phase_limit)
        for phase, taken in seconds.items():
            self.slowest[phase] = max(self.slowest.get(phase, 0.0), taken)
        log.debug("try %d: %s %s", self.tries, verdict, seconds)
        return verdict, told

    def first(self):
        """What the script shows: that is the failure that has to stay."""
        case = self.case
        verdict, told = self.examine(lambda tell: _verdict.examine(case, tell)[0])
        if verdict.kind == "unusable":
            raise DoesNotFail(f"the script cannot be run: {verdict.message}")
        early = verdict.kind in ("signal", "hang") and verdict.place in ("start", "load", "eager")
        if verdict.kind == "eager error" or early:
            raise DoesNotFail(f"the program fails without the backend too: {verdict}")
        if not verdict.fails:
            raise DoesNotFail("the script runs, and its results agree with eager's")
        recorded = case.failure
        if recorded.fails and not verdict.matches(recorded):
            log.warning("the script was written for: %s. It shows: %s. Going on with the latter", recorded, verdict)
        self.failure = self.last = verdict.wanting(recorded.contains)
        case.specimen.learn(told.get("facts", {}))

    def still_fails(self, make, specimen, what, text):
        """Whether make(describer) -> case shows the failure; then it is the new case, and on the disk."""
        key = hashlib.sha256(f"{self.checkpoint} {specimen.hash()} {what}".encode()).hexdigest()[:24]
        if self.memo.get(key) is False:
            return False
        self.show(text)

        def job(tell):
            # What is judged is a script as it would be left: it is there already if the process does not survive.
            store = _inputs.Store(self.run.store.folder)
            try:
                _scripts.write(make(_inputs.Describer(store)), self.candidate)
            finally:
                tell(files=store.made)
            return _verdict.examine(_scripts.load(self.candidate), tell, self.failure)[0]

        files = []
        for _ in range(2):
            verdict, told = self.examine(job)
            files += told.get("files", [])
            good = verdict.matches(self.failure)
            if verdict.kind != "hang" or good:  # a machine that was busy, perhaps
                break
        self.remember(key, good)
        if good:
            self.last = verdict.wanting(self.failure.contains)
            self.adopt(told.get("facts", {}))
        else:
            for file in files:
                os.unlink(file)
        return good

    def adopt(self, facts):
        known = {name: (kind, text) for name, _, kind, text, _, _ in self.case.specimen.calls()}
        self.case = _scripts.load(self.candidate).changed(failure=self.last)
        self.case.specimen.learn(known | facts)
        self.checkpoint = _scripts.write_case(self.case, self.run, convenient=False)
        self.remember("best", self.checkpoint)

    def remember(self, key, value):
        self.memo[key] = value
        try:
            with open(self.memo_path, "a", encoding="utf-8") as file:
                file.write(json.dumps([key, value]) + "\n")
        except OSError as error:
            log.warning("the minifier's notes cannot be written (%s): it cannot be resumed", error)

    # ---- passes over the graph: C++ says what to try

    def reduce(self, *passes):
        # The reducer's specimens and the case's differ in nothing but the names of files: kept in step by adopt().
        def ask(base, candidate, cut, text):
            case = self.case

            def make(describer):
                specs = dict(case.specs)
                if cut:
                    # Snapshots come in the order in which the values were made, as `cut` is.
                    values = dict(zip(case.specs, case.load_inputs(), strict=True))
                    inputs, shapes = [values[name] for name in base.inputs()], case.shapes
                    fakes = _stage.Prepared(base, inputs, case.stage, shapes).values if shapes else {}
                    for name, value in zip(cut, _snapshots(case, base, cut, inputs), strict=True):
                        specs[name] = _inputs.with_shape(describer.spec(value), _text.symbolic_shape(fakes.get(name)))
                return case.changed(specimen=candidate, specs={name: specs[name] for name in candidate.inputs()})

            return self.still_fails(make, candidate, "graph", text)

        self.case.specimen.reduce(ask, passes, _text.body_of)

    # ---- passes over the inputs

    def shrink_shapes(self):
        """Sizes, the batch first: every size that is the same number becomes 1, 2 or its half, in inputs and in
        arguments."""
        tried = set()
        while sizes := [size for size in self.sizes() if size not in tried]:
            size = sizes[0]
            smaller = (n for n in dict.fromkeys([1, 2, size // 2]) if self.try_size(size, n))
            tried |= {size, next(smaller, size)}

    def sizes(self):
        """Sizes over 2 of the inputs, first dimensions first."""
        shapes = [spec.shape for spec in self.case.specs.values() if isinstance(spec, _inputs.TensorSpec)]
        ordered = [shape[i] for i in range(8) for shape in shapes if len(shape) > i]
        return list(dict.fromkeys(size for size in ordered if size > 2))

    def try_size(self, was, now):
        case = self.case
        candidate = case.specimen.with_ints(was, now)

        def make(describer):
            specs = {}
            for (name, spec), value in zip(case.specs.items(), case.load_inputs(), strict=True):
                shape = _inputs.shape_of(spec)
                small = now if isinstance(shape, str) and value == was else _narrowed(value, was, now)
                specs[name] = _inputs.with_shape(describer.spec(small), shape)
            return case.changed(specimen=candidate, specs=specs)

        return self.still_fails(make, candidate, f"size {was} {now}", "shrink shapes")

    def simplify_values(self):
        """Values that come from a seed need no file."""
        specs = self.case.specs.items()
        saved = [n for n, s in specs if isinstance(getattr(s, "storage", None), _inputs.SavedStorage)]
        self.together_or_alone(self.try_random, saved)

    def try_random(self, names):
        case = self.case

        def make(describer):
            values = dict(zip(case.specs, case.load_inputs(), strict=True))
            specs = {n: _inputs.like(case.specs[n], values[n], seed) or case.specs[n] for seed, n in enumerate(names)}
            return case.changed(specs=case.specs | specs)

        return self.still_fails(make, case.specimen, f"random {names}", "values from a seed")

    def fix_sizes(self, one_by_one):
        """Sizes that are symbols become constants, if the failure does not need them."""
        self.together_or_alone(self.try_constant, list(self.case.shapes), one_by_one)

    def try_constant(self, names):
        case = self.case
        constant = {name: _inputs.with_shape(case.specs[name], None) for name in names}
        made = case.changed(specs=case.specs | constant)
        return self.still_fails(lambda describer: made, case.specimen, f"constant sizes {names}", "constant sizes")

    def together_or_alone(self, attempt, names, one_by_one=True):
        if names and not attempt(names) and one_by_one and len(names) > 1:
            for name in names:
                attempt([name])

    def all_passes(self):
        self.fix_sizes(one_by_one=False)  # one is enough for such a failure, and which one is best is known at the end
        self.reduce("calls", "functions", "calls")
        self.reduce("values")
        if self.case.specimen.call_count() <= 40:
            self.shrink_shapes()
            self.reduce("calls", "values", "constants")
            self.fix_sizes(one_by_one=True)
            self.simplify_values()
            self.reduce("values")


def _snapshots(case, specimen, names, inputs):
    """What values of a specimen are when they are made, from an eager run."""
    with _verdict.state(case.header), _stage.grad(case.stage):
        case.seed()
        return specimen.snapshots(names, _models.snapshot).runner()(*_models.clone_inputs(inputs))


def _narrowed(value, was, now):
    if not isinstance(value, torch.Tensor) or was not in value.shape:
        return value
    with torch.no_grad():
        made = value.detach()
        for dim, size in enumerate(value.shape):
            if size == was:
                made = made.narrow(dim, 0, now)
        made = made.clone(memory_format=torch.contiguous_format)
    return made.requires_grad_(value.requires_grad)


def _read_memo(path):
    memo = {}
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        for line in file:
            with contextlib.suppress(ValueError):  # the last line of a process that was killed
                key, value = json.loads(line)
                memo[key] = value
    return memo


def minify(script, *, timeout=120.0, memory=0, total=0.0, output=None, fresh=False):
    """Cuts the program in a script down, in this process, which must not have run tensor operations
    (stator.debug.minify starts one).

    Raises ScriptError, InputsError or DoesNotFail; gives a Report.
    """
    # This process must not run tensor operations: it is forked for each candidate. Half of the cores: on a busy machine
    # threads that wait for each other cost more than they give.
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))
    case = _scripts.load(script)
    run = _run_of(script, case)
    os.makedirs(run.folder, exist_ok=True)
    with open(script, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:12]
    memo_path = os.path.join(run.folder, f"minify_{digest}.jsonl")
    if fresh and os.path.exists(memo_path):
        os.unlink(memo_path)
    _preload(case)
    before = case.specimen.call_count()
    minifier = Minifier(case, run, timeout, memory, total, memo_path)
    minifier.show("the failure itself")
    minifier.first()
    try:
        minifier.all_passes()
    except OutOfTime:
        log.warning("the time is up: the smallest script so far is kept")
    seconds = time.monotonic() - minifier.start
    shutil.rmtree(os.path.dirname(minifier.candidate), ignore_errors=True)
    final = minifier.case.changed(failure=minifier.last)
    minifier.show("confirm")
    path = _final(final, script, run, output)
    # No candidate is forked any more, so threads do no harm now.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(_worker.run_script, [path] * 2, [max(60.0, timeout)] * 2))
    confirmed = [verdict.matches(minifier.failure) for verdict in verdicts]
    for verdict, good in zip(verdicts, confirmed, strict=True):
        if not good:
            log.warning("run alone, the script showed: %s", verdict)
    calls, inputs = final.specimen.call_count(), len(final.specs)
    return Report(path, minifier.last, before, calls, inputs, minifier.tries, seconds, sum(confirmed))


def _run_of(script, case):
    """The run that a script belongs to, so that values and checkpoints stay together; a new one where that cannot be
    written to."""
    own = os.path.dirname(case.folder)
    if os.path.basename(case.folder) == "storages" and os.access(own, os.W_OK):
        return _scripts.Run(folder=own)
    run = _scripts.Run(folder=os.path.join(os.path.dirname(os.path.abspath(script)), "stator_debug", "minify"))
    if os.path.isdir(case.folder):
        shutil.copytree(case.folder, run.store.folder, dirs_exist_ok=True)
    case.folder = run.store.folder
    return run


def _final(case, script, run, output):
    if output is None:
        place = os.path.dirname(os.path.abspath(script))
        output = os.path.join(place if os.path.basename(place) != "checkpoints" else run.folder, "minified.py")
    if os.path.exists(output) and not _scripts.is_ours(output):
        raise _scripts.ScriptError(f"{output} is not a script of stator.debug: name another file with --output")
    return _scripts.write(case, output)


def _preload(case):
    """Imports what candidates need, once for all forks. Nothing here may run a tensor operation."""
    # Each fork would start compile workers of its own, and end before they are of use.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    case.backend.resolve()
    needed = [
        "stator.debug.faults",
        "torch._dynamo.backends.common",
        "torch.fx.experimental.symbolic_shapes",
        "torch.fx.experimental.validator",
        "torch.utils.serialization.config",
    ]
    if case.backend.text == "inductor":
        needed += [
            "torch._inductor.compile_fx",
            "torch._inductor.graph",
            "torch._inductor.codegen.cpp",
            "torch._inductor.codegen.wrapper",
        ]
    for name in needed:
        importlib.import_module(name)
    _scripts._template()
