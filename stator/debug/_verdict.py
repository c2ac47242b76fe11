"""Running a case and saying what happened, in a form that can be compared: the same failure, or another one."""

import contextlib
import dataclasses
import os
import re
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
        "default_dtype": torch.get_default_dtype(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "autocast": {d: torch.get_autocast_dtype(d) for d in ("cpu", "cuda") if torch.is_autocast_enabled(d)},
    }


def _set(state):
    torch.set_default_dtype(state["default_dtype"])
    torch.set_float32_matmul_precision(state["matmul_precision"])
    if state["deterministic"] != torch.are_deterministic_algorithms_enabled():  # the setter imports inductor: seconds
        torch.use_deterministic_algorithms(state["deterministic"])


@contextlib.contextmanager
def state(header):
    before = present_state()
    wanted = {**before, "grad": True, "autocast": {}, **(header.get("STATE") or {})}
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(wanted["grad"]))
        for device, dtype in wanted["autocast"].items():
            stack.enter_context(torch.autocast(device, dtype=dtype))
        stack.callback(_set, before)
        _set(wanted)
        exec("\n".join(header.get("configuration") or []), {})
        yield


# ---- one run


def synchronize(values):
    for device in {v.device for v in values if isinstance(v, torch.Tensor) and v.device.type == "cuda"}:
        torch.cuda.synchronize(device)


def examine(case, tell=lambda **message: None, want=None):
    """(verdict, the error behind it) of a case, run in this process: eager, then compiled, then compared. tell(phase=,
    facts=) hears where it is and what the values are. want: the failure that is looked for; more is not run for it."""
    with state(case.header):
        return _examined(case, tell, want.kind if want is not None else "accuracy")


def _examined(case, tell, wanted):
    specimen, only_fwd = case.specimen, case.stage != "dynamo"
    tell(phase="load")
    inputs = case.load_inputs()

    def run(phase, function, only_fwd):
        tell(phase=phase)
        case.seed()
        found = _models.run_forward_backward(function, _models.clone_inputs(inputs), only_fwd)
        synchronize(inputs)
        return found

    try:
        kind = "eager error"
        # For an error of the compiler it is enough that eager can run the program forward.
        ref = run("eager", specimen.runner(), only_fwd or wanted == "compile error")
        kind = "compile error"
        tell(phase="compile")
        backend = case.backend.resolve()
        prepared = _stage.Prepared(specimen, _models.clone_inputs(inputs), case.stage, case.shapes)
        tell(facts=prepared.facts())
        compiled = prepared.compiled(backend)
        if wanted == kind:
            return Verdict(PASSES), None
        kind = "run error"
        res = run("run", compiled, only_fwd)
    except Exception as error:
        return verdict_of(error, kind), error
    if wanted not in ("accuracy", PASSES):
        return Verdict(PASSES), None
    tell(phase="compare")
    found = _difference(case, inputs, ref, res, only_fwd)
    return Verdict(PASSES) if found is None else Verdict("accuracy", message=str(found)), None


def _difference(case, inputs, ref, res, only_fwd):
    names = case.specimen.outputs()

    def named(result):
        """Outputs by the names of the values."""
        out = result["out"]
        fits = isinstance(out, (tuple, list)) and len(out) == len(names)
        return {**result, "out": dict(zip(names, out, strict=True))} if fits else result

    ref, res = named(ref), named(res)
    if _models.first_difference(ref, res, None, False) is None:
        return None  # no need for a better reference
    case.seed()
    exact = _models.fp64_twin(case.specimen.to_fx(), inputs, only_fwd)
    return _models.first_difference(ref, res, None if exact is None else named(exact), case.ignore_non_fp)
