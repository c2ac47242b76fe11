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
import sys
import time

import torch

from stator.debug import _inputs, _models, _program, _scripts, _stage, _text, _verdict, _worker
from stator.debug._inputs import SavedStorage
from stator.debug._progress import Progress
from stator.debug._verdict import Verdict

log = logging.getLogger("stator.debug")


class DoesNotFail(Exception):
    """The script shows no failure: there is nothing to cut down."""


@dataclasses.dataclass
class Limits:
    timeout: float = 120.0  # seconds for one candidate
    memory: int = 0  # bytes beyond what the process has; 0: no limit
    total: float = 0.0  # seconds for the whole reduction; 0: no limit


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
    def __init__(self, case, run, limits, progress, memo_path):
        self.case, self.run, self.limits, self.progress = case, run, limits, progress
        self.memo_path = memo_path
        self.memo = _read_memo(memo_path)
        self.failure = None
        self.tries = 0
        self.start = time.monotonic()
        self.slowest = {}  # phase -> the longest time in which it ended
        self.checkpoint = None

    # ---- one candidate

    def phase_limit(self, phase, before):
        """A hang is told from a slow run by what eager and the runs so far took; never less than five seconds."""
        if phase == "run":
            seconds = 10 * max(before.get("eager", 0.0), self.slowest.get("run", 0.0))
            return max(5.0 if self.slowest or self.failure else 20.0, seconds)
        return max(20.0, 10 * self.slowest[phase]) if phase in self.slowest else None

    def examine(self, job):
        left = self.limits.total - (time.monotonic() - self.start) if self.limits.total else float("inf")
        if left <= 0:
            raise OutOfTime
        self.tries += 1
        timeout = min(self.limits.timeout, left + 5)
        verdict, message, seconds = _worker.check(job, timeout, self.limits.memory, self.phase_limit)
        for phase, taken in (message.get("seconds") or {}).items():
            self.slowest[phase] = max(self.slowest.get(phase, 0.0), taken)
        log.debug("try %d: %s (%.2f s)", self.tries, verdict, seconds)
        return verdict, message

    def first(self):
        """What the script shows: that is the failure that has to stay."""
        case = self.case
        verdict, message = self.examine(lambda phase: _told(_verdict.examine(case, phase=phase)))
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
        if not message.get("facts"):  # where the compiled run told nothing: an eager run
            _, message = self.examine(lambda phase: (verdict, {"facts": _eager_facts(case, case.load_inputs())}))
        case.specimen.learn({name: tuple(f) for name, f in (message.get("facts") or {}).items()})

    def key(self, specimen, what):
        return hashlib.sha256(f"{self.checkpoint} {specimen.hash()} {what}".encode()).hexdigest()[:24]

    def still_fails(self, make, specimen, what, text):
        """Whether make() -> (case, values) shows the failure; then the case is the new one, and on the disk."""
        key = self.key(specimen, what)
        if self.memo.get(key) is False:
            return False
        self.progress.update(self.case, self.tries, text)

        def job(phase):
            phase("load")
            case, values = make()
            # What is judged is the text: a script that reads back differently would be caught here.
            case = case.changed(specimen=_reread(case))
            verdict, said = _told(_verdict.examine(case, values, phase, self.failure))
            if verdict.matches(self.failure):
                phase("write")
                case.specimen.learn(said["facts"])
                failure = verdict.wanting(self.failure.contains)
                said["script"] = _save(case.changed(failure=failure), values, self.run)
            return verdict, said

        verdict, message = self.examine(job)
        if verdict.kind == "hang" and not verdict.matches(self.failure):
            verdict, message = self.examine(job)  # a machine that was busy, perhaps
        same = verdict.matches(self.failure)
        if same and self.failure.kind in ("signal", "hang"):
            # The process could not write any more: another one makes the same candidate and writes it without running
            # it.
            message = self.write_only(make, verdict)
        good = same and message.get("script") is not None
        self.remember(key, good)
        if good:
            self.last = verdict.wanting(self.failure.contains)
            self.adopt(message["script"], message.get("facts") or {})
        return good

    def write_only(self, make, verdict):
        def job(phase):
            case, values = make()
            case = case.changed(specimen=_reread(case), failure=verdict)
            facts = _eager_facts(case, values)
            case.specimen.learn(facts)
            return verdict, {"script": _save(case, values, self.run), "facts": facts}

        return _worker.check(job, self.limits.timeout, self.limits.memory)[1]

    def adopt(self, script, facts):
        known = _call_facts(self.case.specimen) | {name: tuple(fact) for name, fact in facts.items()}
        self.case = _loaded(script, known)
        self.checkpoint = os.path.basename(script)
        self.remember("best", script)

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

            def make():
                values = case.values()
                names = candidate.inputs()
                shapes = dict(case.shapes)
                if cut:
                    found = _eager_values(case, base, cut, [values[n] for n in base.inputs()])
                    # Snapshots come in the order in which the values were made, as `cut` is.
                    values |= dict(zip(cut, found, strict=True))
                    facts = _call_facts(base)
                    shapes = {n: _text.symbolic_shape(facts[n]) for n in cut} | shapes
                made = case.changed(
                    specimen=candidate,
                    specs={n: case.specs.get(n) for n in names},
                    shapes={n: shapes[n] for n in names if shapes.get(n) is not None},
                )
                return made, [values[n] for n in names]

            return self.still_fails(make, candidate, "graph", text)

        self.case.specimen.reduce(ask, passes, _text.body_of)

    # ---- passes over the inputs

    def shrink_shapes(self):
        """Sizes, the batch first: every size that is the same number becomes 1, 2 or its half, in inputs and in
        arguments."""
        tried = set()
        while True:
            sizes = [s for s in self.sizes() if s not in tried]
            if not sizes:
                return
            size = sizes[0]
            tried.add(size)
            for smaller in dict.fromkeys([1, 2, size // 2]):
                if smaller < size and smaller > 0 and self.try_size(size, smaller):
                    tried.discard(size)
                    tried.add(smaller)
                    break

    def sizes(self):
        """Sizes over 2 of the inputs, first dimensions first."""
        shapes = [s.shape for s in self.case.specs.values() if isinstance(s, _inputs.TensorSpec)]
        ordered = [shape[i] for i in range(8) for shape in shapes if len(shape) > i]
        return list(dict.fromkeys(size for size in ordered if size > 2))

    def try_size(self, was, now):
        case = self.case
        candidate = case.specimen.with_ints(was, now)

        def make():
            values = {
                n: now if type(v) is int and v == was and n in case.shapes else _narrowed(v, was, now)
                for n, v in case.values().items()
            }
            return case.changed(specimen=candidate, specs=dict.fromkeys(values)), list(values.values())

        return self.still_fails(make, candidate, f"size {was} {now}", "shrink shapes")

    def simplify_values(self):
        """Values that come from a seed need no file."""
        specs = self.case.specs
        self.together_or_alone(self.try_random, [n for n in specs if isinstance(_storage(specs[n]), SavedStorage)])

    def try_random(self, names):
        case = self.case

        def make():
            values, specs = case.values(), dict(case.specs)
            for seed, name in enumerate(names):
                specs[name] = _inputs.like(specs[name], values[name], seed) or specs[name]
            made = case.changed(specs=specs)
            return made, made.build(_inputs.Loader(case.folder))

        return self.still_fails(make, case.specimen, f"random {names}", "values from a seed")

    def fix_sizes(self, one_by_one):
        """Sizes that are symbols become constants, if the failure does not need them."""
        self.together_or_alone(self.try_constant, list(self.case.shapes), one_by_one)

    def try_constant(self, names):
        case = self.case

        def make():
            shapes = {name: shape for name, shape in case.shapes.items() if name not in names}
            return case.changed(shapes=shapes), case.load_inputs()

        return self.still_fails(make, case.specimen, f"constant sizes {names}", "constant sizes")

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


def _reread(case):
    """The specimen as a script's reader sees it."""
    text = _text.text_of(case.specimen)
    scope = {"torch": torch, "operator": __import__("operator"), "math": __import__("math")}
    for module in text.modules:
        __import__(module)
        scope[module.partition(".")[0]] = sys.modules[module.partition(".")[0]]
    program = _text.program_in(case.specimen)
    if program is not None:
        scope["program"] = _program.definitions(program)
    made = _text.from_fx(_text.read_forward(text.source(), scope, "candidate"))
    made.learn(_call_facts(case.specimen))
    return made


def _told(examined):
    """What a process tells of an examination: (verdict, message)."""
    verdict, examination = examined
    return verdict, {"facts": examination.facts, "seconds": examination.seconds}


def _call_facts(specimen):
    return {name: (kind, facts) for name, _, kind, facts, _, _ in specimen.calls()}


def _eager_values(case, specimen, names, inputs):
    """What values of a specimen are when they are made, from an eager run."""
    with _verdict.state(case.header), _stage.grad(case.stage):
        case.seed()
        return specimen.snapshots(names, _models.snapshot).runner()(*_models.clone_inputs(inputs))


def _eager_facts(case, inputs):
    """What each value is, from an eager run."""
    names = list(_call_facts(case.specimen))
    values = _eager_values(case, case.specimen, names, inputs)
    together = zip([*case.specimen.inputs(), *names], [*inputs, *values], strict=True)
    found = {name: _text.facts_of(value) for name, value in together}
    if case.symbolic() is not None:  # which sizes are symbols is nothing that values tell
        found |= _stage.symbolic_facts(case.specimen, inputs, case.stage, case.symbolic())
    return found


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


def _save(case, values, run):
    """Writes a candidate. Inputs without a description get one from their values."""
    describer = _inputs.Describer(run.store)
    specs = {}
    for name, value in zip(case.specimen.inputs(), values, strict=True):
        old = case.specs.get(name)
        specs[name] = old if old is not None else describer.spec(value)
        if old is not None and case.folder != run.store.folder:
            _adopt_storages(old, case.folder, run.store)
    random = case.header.get("random") or {}
    if "seed" not in random and case.folder != run.store.folder:
        loader = _inputs.Loader(case.folder)
        for digest in random.values():
            run.store.save(loader.read(digest, None))
    case = case.changed(specs=specs, folder=run.store.folder)
    return _scripts.write_case(case, run, convenient=False)


def _storage(spec):
    return getattr(spec, "storage", None)


def _adopt_storages(spec, folder, store):
    for part in getattr(spec, "parts", ()):
        _adopt_storages(part, folder, store)
    storage = _storage(spec)
    if isinstance(storage, SavedStorage) and not os.path.exists(store.path(storage.digest)):
        store.save(_inputs.Loader(folder).read(storage.digest, storage.nbytes))


def _loaded(script, known=None):
    """The case in a script, with what is known of its values."""
    case = _scripts.load(script)
    case.specimen.learn((known or {}) | {name: _spec_facts(spec) for name, spec in case.specs.items()})
    return case


def _spec_facts(spec):
    if isinstance(spec, _inputs.TensorSpec):
        return "t", _text.tensor_facts(spec.dtype, spec.shape, spec.storage.device)
    return "s" if isinstance(spec, _inputs.LiteralSpec) else "t", ""


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
    case = _loaded(script)
    run = _run_of(script, case)
    os.makedirs(run.folder, exist_ok=True)
    with open(script, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:12]
    memo_path = os.path.join(run.folder, f"minify_{digest}.jsonl")
    if fresh and os.path.exists(memo_path):
        os.unlink(memo_path)
    _preload(case)
    with Progress() as progress:
        minifier = Minifier(case, run, Limits(timeout, memory, total), progress, memo_path)
        before = case.specimen.call_count()
        best = minifier.memo.get("best")
        if isinstance(best, str) and os.path.exists(best):
            log.warning("going on from %s", best)
            minifier.case, minifier.checkpoint = _loaded(best), os.path.basename(best)
        progress.begin(before)
        minifier.first()
        try:
            minifier.all_passes()
        except OutOfTime:
            log.warning("the time is up: the smallest script so far is kept")
        seconds = time.monotonic() - minifier.start
        final = minifier.case.changed(failure=minifier.last)
        progress.update(final, minifier.tries, "confirm")
        path = _final(final, script, run, output)
        # No candidate is forked any more, so threads do no harm now.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            verdicts = list(pool.map(_worker.run_script, [path] * 2, [max(60.0, timeout)] * 2))
        confirmed = [verdict.matches(minifier.failure) for verdict in verdicts]
        for verdict, good in zip(verdicts, confirmed, strict=True):
            if not good:
                log.warning("run alone, the script showed: %s", verdict)
        progress.update(final, minifier.tries, "done")
    calls, inputs = final.specimen.call_count(), len(final.specs)
    return Report(path, minifier.last, before, calls, inputs, minifier.tries, seconds, sum(confirmed))


def _run_of(script, case):
    """The run that a script belongs to, so that values and checkpoints stay together; a new one where that cannot be
    written to."""
    own = os.path.dirname(case.folder)
    if os.path.basename(case.folder) == "storages" and os.access(own, os.W_OK):
        return _scripts.Run(folder=own)
    return _scripts.Run(folder=os.path.join(os.path.dirname(os.path.abspath(script)), "stator_debug", "minify"))


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
