"""Running a case and saying what happened, in a form that can be compared: the same failure, or another one."""

import contextlib
import dataclasses
import json
import os
import re
import signal
import sys
import time
import traceback

import torch

from stator.debug import _models, _stage

PASSES = "passes"
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclasses.dataclass(frozen=True)
class Verdict:
    """kind: passes, eager error, compile error, run error, accuracy, signal, hang, unusable."""

    kind: str
    type: str = ""  # of an exception; name of a signal
    place: str = ""  # where it was raised; for signals and hangs the phase
    message: str = ""  # for people; not compared
    contains: str = ""  # of a failure that is looked for: what the message has to contain

    def matches(self, other):
        """The same failure: the same kind, the same exception type raised at the same place, the same signal in the
        same phase."""
        alike = (self.kind, self.type, self.place) == (other.kind, other.type, other.place)
        return alike and other.contains in self.message

    def wanting(self, text):
        return dataclasses.replace(self, contains=text)

    @property
    def fails(self):
        return self.kind in ("compile error", "run error", "accuracy", "signal", "hang")

    def __str__(self):
        if self.kind == "accuracy":
            return f"a wrong result: {self.message}"
        if self.kind in ("compile error", "run error", "eager error"):
            return f"{self.kind}: {self.type}: {self.message} ({self.place})"
        if self.kind == "signal":
            return f"killed by {self.type} while it was in phase {self.place!r}"
        if self.kind == "hang":
            return f"no end: still in phase {self.place!r} when the time was up"
        return self.kind + (f": {self.message}" if self.message else "")

    def data(self):
        return dataclasses.asdict(self)


def _is_generated(file):
    return file.startswith("<") or "torchinductor_" in file or file == ""


def place_of(error):
    """Where an exception was raised: `file.py:function` of the innermost frame that is not generated code, and what the
    message is about."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_generated(f.filename)]
    where = "?"
    if frames:
        parts = frames[-1].filename.replace(os.sep, "/").split("/")
        where = "/".join(parts[-2:]) + ":" + frames[-1].name
    # Errors of C++ all come from the same few frames: their first words tell them apart. Numbers, names and shapes
    # vary.
    words = re.findall(r"(?<![\w.'\"/\[(])[A-Za-z]{3,}(?![\w.'\"/\])(])", str(error).partition("\n")[0])
    return f"{where} {' '.join(words[:6])}".strip()


def verdict_of(error, kind):
    cls = type(error)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    message = str(error).strip().partition("\n")[0]
    return Verdict(kind, name, place_of(error), message[:300])


@contextlib.contextmanager
def state(header):
    """The global state that a script was written under."""
    from stator.debug import _scripts

    with _scripts.applied_state(header):
        yield


def devices_of(values):
    return {v.device for v in values if isinstance(v, torch.Tensor) and v.device.type == "cuda"}


def synchronize(values):
    for device in devices_of(values):
        torch.cuda.synchronize(device)


class Examination:
    """One run of a case: eager, then compiled, then compared. `phase` is told where it is, for those who watch from
    outside."""

    def __init__(self, case, inputs, phase=lambda name: None, want=None):
        self.case, self.inputs, self.phase, self.want = case, inputs, phase, want
        self.only_fwd = case.stage != "dynamo"
        self.facts = {}
        self.error = None
        self.seconds = {}

    def seeded(self):
        self.case.seed()

    def timed(self, name, function):
        self.phase(name)
        start = time.perf_counter()
        try:
            return function()
        finally:
            self.seconds[name] = time.perf_counter() - start

    def failed(self, error, kind):
        self.error = error
        return verdict_of(error, kind)

    def verdict(self):
        specimen = self.case.specimen
        eager = specimen.runner()
        try:
            # For an error of the compiler it is enough that eager can run the program forward.
            early = self.want is not None and self.want.kind == "compile error"
            ref = self.timed("eager", lambda: self.run(eager, self.only_fwd or early))
        except Exception as error:
            return self.failed(error, "eager error")
        try:
            backend = self.case.backend.resolve()
            made = self.timed(
                "compile",
                lambda: _stage.compile_specimen(
                    specimen,
                    _models.clone_inputs(self.inputs),
                    self.case.stage,
                    backend,
                    self.facts,
                    self.case.symbolic(),
                ),
            )
        except Exception as error:
            return self.failed(error, "compile error")
        if self.want is not None and self.want.kind == "compile error":
            return Verdict(PASSES)  # nobody asks for more
        try:
            res = self.timed("run", lambda: self.run(made, self.only_fwd))
        except Exception as error:
            return self.failed(error, "run error")
        if self.want is not None and self.want.kind not in ("accuracy", PASSES):
            return Verdict(PASSES)  # nobody asks for values
        return self.timed("compare", lambda: self.compare(ref, res))

    def run(self, function, only_fwd):
        self.seeded()
        inputs = _models.clone_inputs(self.inputs)
        found = _models.run_forward_backward(function, inputs, only_fwd)
        synchronize(self.inputs)
        return found

    def compare(self, ref, res):
        ref = {part: self.named(part, value) for part, value in ref.items()}
        res = {part: self.named(part, value) for part, value in res.items()}
        if _models.first_difference(ref, res, None, False) is None:
            return Verdict(PASSES)  # no need for a better reference
        self.seeded()
        exact = _models.fp64_twin(self.case.specimen.to_fx(), self.inputs, self.only_fwd)
        if exact is not None:
            exact = {part: self.named(part, value) for part, value in exact.items()}
        difference = _models.first_difference(ref, res, exact, self.case.ignore_non_fp)
        return Verdict(PASSES) if difference is None else Verdict("accuracy", message=difference)

    def named(self, part, value):
        """Outputs by the names of the values."""
        names = self.case.specimen.outputs()
        if part == "out" and isinstance(value, (tuple, list)) and len(value) == len(names):
            return dict(zip(names, value, strict=True))
        return value


def examine(case, inputs=None, phase=lambda name: None, want=None):
    """(verdict, examination) of a case, run in this process."""
    with state(case.header):
        phase("load")
        inputs = case.load_inputs() if inputs is None else inputs
        examination = Examination(case, inputs, phase, want)
        return examination.verdict(), examination


# ---- telling another process
# ---------------------------------------------------------------------------------------------------------


class Telegraph:
    """Phases and the verdict as JSON lines into a file descriptor, each written at once: what was sent survives a
    crash."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def send(self, **message):
        data = (json.dumps(message) + "\n").encode()
        while data:
            data = data[os.write(self.descriptor, data) :]

    def phase(self, name):
        self.send(phase=name)


def from_lines(lines, status, timed_out):
    """(verdict, last message) from what a process said, and how it ended (waitpid's status)."""
    phase, last = "start", {}
    for line in lines:
        with contextlib.suppress(ValueError):
            message = json.loads(line)
            phase = message.get("phase", phase)
            last = message if "verdict" in message else last
    if timed_out:
        return Verdict("hang", place=phase), last
    if "verdict" in last:
        return Verdict(**last["verdict"]), last
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return Verdict("signal", name, phase), last
    return Verdict(
        "unusable", message=f"the process ended with status {os.WEXITSTATUS(status)} in phase {phase!r}"
    ), last


def print_exception(error):
    traceback.print_exception(error, file=sys.stderr)
