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
import signal
import subprocess
import sys
import tempfile
import time

import torch

from stator.debug import _inputs, _models, _program, _scripts, _stage, _text, _verdict, _worker
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


def snapshot(value):
    """What a value is now: a copy of its own that keeps strides and gradness."""
    if not isinstance(value, torch.Tensor):
        return value
    made = _models.clone_inputs(value.detach())
    if value.requires_grad and (value.is_floating_point() or value.is_complex()):
        made.requires_grad_()
    return made


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

    def examine(self, job, quiet=True):
        left = self.limits.total - (time.monotonic() - self.start) if self.limits.total else float("inf")
        if left <= 0:
            raise OutOfTime
        self.tries += 1
        timeout = min(self.limits.timeout, left + 5)
        verdict, message, seconds = _worker.check(job, timeout, self.limits.memory, quiet, self.phase_limit)
        for phase, taken in (message.get("seconds") or {}).items():
            self.slowest[phase] = max(self.slowest.get(phase, 0.0), taken)
        log.debug("try %d: %s (%.2f s)", self.tries, verdict, seconds)
        return verdict, message

    def first(self):
        """What the script shows: that is the failure that has to stay."""
        case = self.case

        def job(phase):
            verdict, examination = _verdict.examine(case, phase=phase)
            return verdict, {"facts": examination.facts, "seconds": examination.seconds}

        verdict, message = self.examine(job)
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
        facts = message.get("facts") or self.facts()
        case.specimen.learn({name: tuple(f) for name, f in facts.items()})
        return verdict

    def facts(self):
        """Kinds of the values where the compiled run told nothing: from an eager run."""
        case = self.case

        def job(phase):
            return Verdict("passes"), {"facts": _eager_facts(case, case.load_inputs())}

        _, message = self.examine(job)
        return message.get("facts") or {}

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
            verdict, examination = _verdict.examine(case, values, phase, self.failure)
            said = {"facts": examination.facts, "seconds": examination.seconds}
            if verdict.matches(self.failure):
                phase("write")
                case.specimen.learn(examination.facts)
                failure = verdict.wanting(self.failure.contains)
                said["script"] = _save(case.changed(failure=failure), values, self.run)
            return verdict, said

        crashes = self.failure.kind in ("signal", "hang")
        verdict, message = self.examine(job)
        if verdict.kind == "hang" and not verdict.matches(self.failure):
            verdict, message = self.examine(job)  # a machine that was busy, perhaps
        script = message.get("script")
        if crashes and verdict.matches(self.failure):
            # The process could not write any more: another one makes the same candidate and writes it without running
            # it.
            message = self.write_only(make, verdict)
            script = message.get("script")
        good = verdict.matches(self.failure) and script is not None
        self.remember(key, good)
        if good:
            self.last = verdict.wanting(self.failure.contains)
            self.adopt(script, message.get("facts") or {})
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
        known = {c[0]: (c[2], c[3]) for c in self.case.specimen.calls()}
        known |= {name: tuple(fact) for name, fact in facts.items()}
        self.case = _scripts.load(script)
        self.case.specimen.learn(known | _spec_facts(self.case))
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
            header = dict(case.header)

            def make():
                values = dict(zip(case.specimen.inputs(), case.load_inputs(), strict=True))
                specs = dict(case.specs)
                if cut:
                    values.update(_cut_values(case, base, cut, values))
                    if any(call[5] for call in case.specimen.calls()):
                        fresh = dict(zip(case.specimen.inputs(), case.load_inputs(), strict=True))
                        values.update(fresh)
                names = candidate.inputs()
                shapes = {**{c[0]: _text.symbolic_shape(c[2:4]) for c in base.calls() if c[0] in cut}, **case.shapes}
                made = dataclasses.replace(
                    case,
                    specimen=candidate,
                    specs={n: specs.get(n) for n in names},
                    header=header,
                    shapes={n: shapes[n] for n in names if shapes.get(n) is not None},
                )
                return made.changed(), [values[n] for n in names]

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
            values = [
                now if type(v) is int and v == was and n in case.shapes else _narrowed(v, was, now)
                for n, v in zip(case.specimen.inputs(), case.load_inputs(), strict=True)
            ]
            return case.changed(specimen=candidate, specs=dict.fromkeys(case.specimen.inputs())), values

        return self.still_fails(make, candidate, f"size {was} {now}", "shrink shapes")

    def simplify_values(self):
        """Values that come from a seed need no file."""
        names = [
            n
            for n, s in self.case.specs.items()
            if isinstance(s, _inputs.TensorSpec) and isinstance(s.storage, _inputs.SavedStorage)
        ]
        if names and not self.try_random(names) and len(names) > 1:
            for name in names:
                self.try_random([name])

    def try_random(self, names):
        case = self.case

        def make():
            values = dict(zip(case.specimen.inputs(), case.load_inputs(), strict=True))
            specs = dict(case.specs)
            for seed, name in enumerate(names):
                specs[name] = _inputs.like(specs[name], values[name], seed) or specs[name]
            made = case.changed(specs=specs)
            return made, made.build(_inputs.Loader(case.folder))

        return self.still_fails(make, case.specimen, f"random {names}", "values from a seed")

    def fix_sizes(self, one_by_one):
        """Sizes that are symbols become constants, if the failure does not need them."""
        names = list(self.case.shapes)
        if names and not self.try_constant(names) and one_by_one and len(names) > 1:
            for name in names:
                self.try_constant([name])

    def try_constant(self, names):
        case = self.case

        def make():
            shapes = {name: shape for name, shape in case.shapes.items() if name not in names}
            return case.changed(shapes=shapes), case.load_inputs()

        return self.still_fails(make, case.specimen, f"constant sizes {names}", "constant sizes")

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
    made.learn({c[0]: (c[2], c[3]) for c in case.specimen.calls()})
    return made


def _cut_values(case, base, cut, values):
    """Values of calls that became inputs, from an eager run of what they were cut from."""
    with _verdict.state(case.header), torch.no_grad() if case.stage != "dynamo" else contextlib.nullcontext():
        case.seed()
        found = base.snapshots(cut, snapshot).runner()(*[values[n] for n in base.inputs()])
    # Snapshots come in the order in which the values were made, as `cut` is.
    return dict(zip(cut, found, strict=True))


def _eager_facts(case, inputs):
    """What each value is, from an eager run."""
    names = [call[0] for call in case.specimen.calls()]
    with _verdict.state(case.header), torch.no_grad() if case.stage != "dynamo" else contextlib.nullcontext():
        case.seed()
        values = case.specimen.snapshots(names, snapshot).runner()(*_models.clone_inputs(inputs))
    together = [*zip(case.specimen.inputs(), inputs, strict=True), *zip(names, values, strict=True)]
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


def _adopt_storages(spec, folder, store):
    parts = spec.parts if isinstance(spec, _inputs.PartsSpec) else [spec]
    for part in parts:
        storage = getattr(part, "storage", None)
        if isinstance(part, _inputs.PartsSpec):
            _adopt_storages(part, folder, store)
        elif isinstance(storage, _inputs.SavedStorage) and not os.path.exists(store.path(storage.digest)):
            store.save(_inputs.Loader(folder).read(storage.digest, storage.nbytes))


def _spec_facts(case):
    """Facts of the inputs, from their descriptions."""
    found = {}
    for name, spec in case.specs.items():
        if isinstance(spec, _inputs.TensorSpec):
            dtype = _text._DTYPE_SHORT.get(spec.dtype, str(spec.dtype).removeprefix("torch."))
            device = "" if spec.storage.device == "cpu" else f" {spec.storage.device}"
            found[name] = ("t", f"{dtype}[{', '.join(map(str, spec.shape))}]{device}")
        else:
            found[name] = ("s" if isinstance(spec, _inputs.LiteralSpec) else "t", "")
    return found


def _read_memo(path):
    memo = {}
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    key, value = json.loads(line)
                except ValueError:
                    continue  # the last line of a process that was killed
                memo[key] = value
    except OSError:
        pass
    return memo


def confirm(script, failure, timeout):
    """Runs a script alone, in a new process: (whether it shows the failure, what it showed)."""
    with tempfile.TemporaryDirectory() as folder:
        told = os.path.join(folder, "verdict")
        command = [sys.executable, script, "run", "--verdict", told]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        lines, timed_out = _follow(process, told, timeout)
        if process.poll() is None:  # no end, or said its verdict and does not end
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    verdict, _ = _verdict.from_lines(lines, -code if code < 0 else code << 8, timed_out)
    return verdict.matches(failure), verdict


def _follow(process, path, timeout):
    """(lines, whether the time was up) of a process that notes its phases in a file."""
    start = time.monotonic()
    running, lines, ended = None, [], False
    while True:
        ended = process.poll() is not None  # before the file is read: what it wrote last is in it
        try:
            with open(path, "rb") as file:
                lines = file.read().split(b"\n")
        except OSError:
            lines = []
        if ended:
            return lines, False
        now = time.monotonic()
        if running is None and any(line.startswith(b'{"phase": "run"') for line in lines):
            running = now
        if now - start > timeout or (running is not None and now - running > max(5.0, timeout / 10)):
            return lines, not any(line.startswith(b'{"verdict"') for line in lines)
        time.sleep(0.05)


def minify(
    script, *, timeout=120.0, memory=0, total=0.0, output=None, folder=None, progress=None, fresh=False, confirmations=2
):
    """Cuts the program in a script down, in this process, which must not have run tensor operations
    (stator.debug.minify starts one).

    Raises ScriptError, InputsError or DoesNotFail; gives a Report.
    """
    from stator.debug._progress import Progress

    # This process must not run tensor operations: it is forked for each candidate. Half of the cores: on a busy machine
    # threads that wait for each other cost more than they give.
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))
    case = _scripts.load(script)
    case.specimen.learn(_spec_facts(case))
    run = _folder_of(script, folder, case)
    os.makedirs(run.folder, exist_ok=True)
    with open(script, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:12]
    memo_path = os.path.join(run.folder, f"minify_{digest}.jsonl")
    if fresh and os.path.exists(memo_path):
        os.unlink(memo_path)
    _preload(case)
    progress = progress or Progress()
    with progress:
        minifier = Minifier(case, run, Limits(timeout, memory, total), progress, memo_path)
        before = case.specimen.call_count()
        best = minifier.memo.get("best")
        if isinstance(best, str) and os.path.exists(best):
            log.warning("going on from %s", best)
            minifier.case = _scripts.load(best)
            minifier.case.specimen.learn(_spec_facts(minifier.case))
            minifier.checkpoint = os.path.basename(best)
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
        with concurrent.futures.ThreadPoolExecutor(max(1, confirmations)) as pool:
            limit = max(60.0, minifier.limits.timeout)
            answers = list(pool.map(lambda _: confirm(path, minifier.failure, limit), range(confirmations)))
        for good, verdict in answers:
            if not good:
                log.warning("run alone, the script showed: %s", verdict)
        confirmed = sum(good for good, _ in answers)
        progress.update(final, minifier.tries, "done")
    return Report(
        path,
        minifier.last,
        before,
        final.specimen.call_count(),
        len(final.specs),
        minifier.tries,
        seconds,
        confirmed,
    )


def _folder_of(script, folder, case):
    """The run that a script belongs to, so that values and checkpoints stay together; a new one where that cannot be
    written to."""
    run = _scripts.Run(folder)
    own = os.path.dirname(case.folder)
    if folder is None and os.path.basename(case.folder) == "storages" and os.access(own, os.W_OK):
        run.folder, run.store = own, _inputs.Store(case.folder)
    elif folder is None:
        run.folder = os.path.join(os.path.dirname(os.path.abspath(script)), "stator_debug", "minify")
        run.store = _inputs.Store(os.path.join(run.folder, "storages"))
    return run


def _final(case, script, run, output):
    if not case.specs or all(s is not None for s in case.specs.values()):
        path = output
        if path is None:
            place = os.path.dirname(os.path.abspath(script))
            path = (
                os.path.join(place, "minified.py")
                if os.path.basename(place) != "checkpoints"
                else os.path.join(run.folder, "minified.py")
            )
        if os.path.exists(path) and not _scripts.is_ours(path):
            raise _scripts.ScriptError(f"{path} is not a script of stator.debug: name another file with --output")
        return _scripts.write(case, path)
    raise AssertionError("an input without a description")


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
