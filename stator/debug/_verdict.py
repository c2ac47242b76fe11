"""Running a case and saying what happened, in a form that can be compared: the same failure, or another one."""

import contextlib
import dataclasses
import os
import re
import time
import traceback

import torch

from stator.debug import _models, _stage

PASSES = "passes"


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


# ---- the global state that a script was written under


def present_state():
    return {
        "grad": torch.is_grad_enabled(),
        "default_dtype": str(torch.get_default_dtype()),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "autocast": {d: str(torch.get_autocast_dtype(d)) for d in ("cpu", "cuda") if torch.is_autocast_enabled(d)},
    }


def _dtype(text):
    return getattr(torch, text.removeprefix("torch."))


def _set(state):
    torch.set_default_dtype(_dtype(state["default_dtype"]))
    torch.set_float32_matmul_precision(state["matmul_precision"])
    if state["deterministic"] != torch.are_deterministic_algorithms_enabled():  # the setter imports inductor: seconds
        torch.use_deterministic_algorithms(state["deterministic"])


@contextlib.contextmanager
def state(header):
    before = present_state()
    wanted = {**before, "grad": True, "autocast": {}, **(header.get("state") or {})}
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(wanted["grad"]))
        for device, dtype in wanted["autocast"].items():
            stack.enter_context(torch.autocast(device, dtype=_dtype(dtype)))
        stack.callback(_set, before)
        _set(wanted)
        if header.get("configure") is not None:
            header["configure"]()
        yield


# ---- one run


def synchronize(values):
    for device in {v.device for v in values if isinstance(v, torch.Tensor) and v.device.type == "cuda"}:
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
            backend, shapes = self.case.backend.resolve(), self.case.symbolic()
            inputs = _models.clone_inputs(self.inputs)
            made = self.timed(
                "compile",
                lambda: _stage.compile_specimen(specimen, inputs, self.case.stage, backend, self.facts, shapes),
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
        self.case.seed()
        inputs = _models.clone_inputs(self.inputs)
        found = _models.run_forward_backward(function, inputs, only_fwd)
        synchronize(self.inputs)
        return found

    def compare(self, ref, res):
        ref, res = self.named(ref), self.named(res)
        if _models.first_difference(ref, res, None, False) is None:
            return Verdict(PASSES)  # no need for a better reference
        self.case.seed()
        exact = _models.fp64_twin(self.case.specimen.to_fx(), self.inputs, self.only_fwd)
        exact = None if exact is None else self.named(exact)
        difference = _models.first_difference(ref, res, exact, self.case.ignore_non_fp)
        return Verdict(PASSES) if difference is None else Verdict("accuracy", message=difference)

    def named(self, result):
        """Outputs by the names of the values."""
        names, out = self.case.specimen.outputs(), result["out"]
        if isinstance(out, (tuple, list)) and len(out) == len(names):
            return {**result, "out": dict(zip(names, out, strict=True))}
        return result


def examine(case, inputs=None, phase=lambda name: None, want=None):
    """(verdict, examination) of a case, run in this process."""
    with state(case.header):
        phase("load")
        inputs = case.load_inputs() if inputs is None else inputs
        examination = Examination(case, inputs, phase, want)
        return examination.verdict(), examination
