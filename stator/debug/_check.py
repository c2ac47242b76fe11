"""Finding the wrong value: of a whole program (check), and of one graph (analyze, first_difference).

A program is run eagerly and compiled; each compiled graph is compared with eager on the inputs that it got, the first
one that differs is bisected: which is the shortest front part of it whose last value is wrong when that part is
compiled.
"""

import bisect
import dataclasses
import itertools
from typing import Any

import torch

from stator import _backends, config
from stator.debug import _models, _stage, _text, _verdict


@dataclasses.dataclass
class CheckReport:
    """What check() found. True if all is well."""

    ok: bool
    graphs: int = 0
    graph: int | None = None  # number of the first wrong graph; None although it is not ok: wrong as captured
    node: str | None = None  # name of the first wrong value in it
    target: str | None = None  # what was called
    line: str | None = None  # the user's line
    difference: str | None = None
    tries: int = 0
    specimen: Any = dataclasses.field(default=None, repr=False)

    def __bool__(self):
        return self.ok

    def __str__(self):
        if self.ok:
            return f"all {self.graphs} graphs agree with eager"
        if self.graph is None:
            return f"the program differs from eager as it was captured, without a backend: {self.difference}"
        where = f", at {self.line}" if self.line else ""
        node = f", value {self.node} = {self.target}(...){where}" if self.node else ""
        return f"graph {self.graph} of {self.graphs}{node}: {self.difference}"


def check(model, *inputs, backend=None, mode=None, options=None, stage="dynamo", **kwargs):
    """Runs a model eagerly and compiled and reports the first graph, value and user's line whose result differs, as a
    CheckReport.

    The model, its inputs, gradients and random state stay as they are.
    """
    import stator

    asked = _backends.Backend(backend, mode, options, None, None)
    wrong = []  # (number, graph, the values of its inputs, difference) of the first graph that is
    count = 0  # of the graphs that a run has

    def watched(gm, example_inputs):
        """Compares its graphs with eager's until one differs."""
        nonlocal count
        graph, number, compiled = _stage.Graph(gm), count, asked(gm, example_inputs)
        count += 1

        def call(*given):
            if not wrong:
                with _models.kept_random_state():
                    found = graph.difference(compiled, given)
                if found is not None:
                    wrong.append((number, graph, _models.clone_inputs(graph.values(given)), found))
            return compiled(*given)

        return call

    def only_first(bound):
        """Compiles so many graphs; the others run as captured."""
        numbers = itertools.count()
        return lambda gm, examples: asked(gm, examples) if next(numbers) < bound else gm.forward

    def run(backend):
        called = _models.clone_model(model)
        with config.patch(repro_after=None), _models.kept_random_state():
            called = called if backend is None else stator.compile(called, backend=backend)
            return called(*_models.clone_inputs(list(inputs)), **_models.clone_inputs(kwargs))

    ref = run(None)
    exact = _models.fp64_twin(model, list(inputs), True) if config.same_two_models_use_fp64 and not kwargs else None

    def difference(backend):
        return _models.first_difference({"out": ref}, {"out": run(backend)}, exact, config.repro_ignore_non_fp)

    whole = difference(watched)
    if wrong:
        return _wrong_graph(asked, stage, count, *wrong[0])
    if whole is None:
        return CheckReport(True, count)
    # Each graph is right by itself: small errors have added up, or a graph is wrong at a later call. Which one has to
    # be compiled for that?
    found = {count: whole}

    def fails(bound):
        found[bound] = difference(only_first(bound))
        return found[bound] is not None

    bad = bisect.bisect_left(range(count), True, key=fails)
    return CheckReport(False, count, bad - 1 if bad > 0 else None, difference=str(found[bad]))


def _wrong_graph(backend, stage, count, number, graph, values, difference):
    specimen = graph.specimen
    with _models.kept_random_state():
        name, found, tries = first_difference(specimen, values, backend, stage, graph.shapes, difference.floating)
    report = CheckReport(False, count, number, difference=str(found or difference), tries=tries, specimen=specimen)
    for call in specimen.calls():
        if call[0] == name:
            report.node, report.target, report.line = name, _text.short_name(call[1]), call[4] or None
    return report


def first_difference(specimen, inputs, backend, stage, shapes, ignore_non_fp=True):
    """(name of the first value that is wrong when the graph up to it is compiled, the difference, compilations), by
    bisection."""
    calls = specimen.calls()
    by_name = dict(zip(specimen.inputs(), inputs, strict=True))
    found = {}

    def fails(count):
        """Whether there is a difference in the front part of so many calls."""
        made = specimen.keep([call[0] for call in calls[:count]])
        if made is None:
            return False
        part, _ = made
        values = [by_name[n] for n in part.inputs()]
        with _stage.grad(stage):
            compiled = _stage.Prepared(part, _models.clone_inputs(values), stage, shapes).compiled(backend)
            found[count] = _models.compare_two_models(part.to_fx(), compiled, values, ignore_non_fp=ignore_non_fp)
        return found[count] is not None

    if not fails(len(calls)):
        return None, None, len(found)
    bad = 1 + bisect.bisect_left(range(1, len(calls)), True, key=fails)
    return calls[bad - 1][0], found[bad], len(found)


def _statistics(value):
    if not isinstance(value, torch.Tensor) or value.numel() == 0 or value.layout is not torch.strided:
        return ""
    real = value.detach().to(torch.float64) if not value.dtype.is_complex else value.detach().abs().to(torch.float64)
    finite = real[torch.isfinite(real)]
    odd = value.numel() - finite.numel()
    text = f"min {finite.min():.4g} max {finite.max():.4g} mean {finite.mean():.4g}" if finite.numel() else ""
    return text + (f" ({odd} NaN or inf)" if odd else "")


def analyze(case):
    """Prints every value of a script's program, and the first one that differs from eager's."""
    with _verdict.state(case.header):
        inputs = case.load_inputs()
        names = [call[0] for call in case.specimen.calls()]
        case.seed()
        with _stage.grad(case.stage):
            values = case.specimen.snapshots(names, _models.snapshot).runner()(*_models.clone_inputs(inputs))
        print(f"{len(names)} calls, stage {case.stage}, backend {case.backend.text}")
        for name, value in [*zip(case.specimen.inputs(), inputs, strict=True), *zip(names, values, strict=True)]:
            print(f"  {name:40} {_text.facts_of(value)[1]:24} {_statistics(value)}")
        try:
            case.seed()
            name, found, tries = first_difference(
                case.specimen, inputs, case.backend.resolve(), case.stage, case.shapes, case.ignore_non_fp
            )
        except Exception as error:
            print(f"cannot be compiled or run: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
            return 1
    if name is None:
        print("compiled, every value agrees with eager")
        return 0
    _, target, _, _, line, _ = next(call for call in case.specimen.calls() if call[0] == name)
    where = f" ({line})" if line else ""
    made = f"{name} = {_text.short_name(target)}(...)"
    print(f"the first value that differs is {made}{where}: {found} ({tries} compilations)")
    return 1
