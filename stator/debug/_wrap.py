"""Watching a backend: config.repro_after says at which stage, config.repro_level what for. Called by stator._backends
for each graph.

    1  on an exception, write the state and a repro
    2  the same, with a launcher of the minifier (STATOR_MINIFY=1: run it at once, in a process of its own)
    3  always write before compiling and before running: the file is on the disk when the process dies
    4  compare each compiled graph with eager, and write what differs; that is an AccuracyError, if
    config.repro_accuracy_error is left on

Whatever was found is raised behind that. What watching itself cannot do (a full disk, an input that no script can hold)
is a warning; the program goes on. While a watched graph is compiled or run, config.repro_after is None: what is
compiled inside of it is not watched.
"""

import contextlib
import importlib
import logging
import os
import threading

import torch
from torch.utils._python_dispatch import _disable_current_modes

from stator import config, exc
from stator.debug import _bisect, _models, _scripts, _stage, _verdict, _worker
from stator.debug._program import ScriptError
from stator.debug._verdict import Verdict

log = logging.getLogger("stator.debug")

_UNKNOWN = Verdict("passes", message="written before it ran")
_local = threading.local()


def compile_graph(backend, compile, gm, example_inputs):
    """Compiles a captured graph with compile(gm, example_inputs), watched."""
    after, level = config.repro_after, config.repro_level
    if not _bisect.is_compiled():
        return gm.forward
    if after is None:
        return compile(gm, example_inputs)
    name = _stage.name_of(backend)

    def inner(graph_module, inputs):
        if after == "dynamo":
            return compile(graph_module, inputs)

        def replace(role, compiler):
            return lambda gm, e: Watched(role, name, level).compile(compiler, gm, e)

        with _stage.inner_compilers(backend, replace):
            return compile(graph_module, inputs)

    if after == "aot":
        return inner(gm, example_inputs)
    return Watched("dynamo", name, level, looks_inside=after == "auto").compile(inner, gm, example_inputs)


class Watched:
    """One graph at one stage."""

    def __init__(self, stage, backend, level, looks_inside=False):
        self.stage, self.backend, self.level, self.looks_inside = stage, backend, level, looks_inside
        self.wrong = None  # the text and the script of a wrong result

    def compile(self, compiler, gm, example_inputs):
        try:
            self.graph = _stage.Graph(gm)
        except Exception as error:
            log.warning("a graph is not watched: %s: %s", type(error).__name__, error)
            return compiler(gm, example_inputs)
        examples = list(example_inputs)
        if self.level == 3:
            self.write(examples, _UNKNOWN)
        try:
            with config.patch(repro_after=None):
                compiled = _stage.as_function(compiler(gm, example_inputs))
        except Exception as error:
            self.on_error(error, "compile error", examples)
            raise

        def watched(*inputs):
            if config.repro_after is None:
                return compiled(*inputs)  # inside of another watched graph, or the user wants no more
            with contextlib.nullcontext() if self.looks_inside else config.patch(repro_after=None):
                return self.call(compiled, inputs)

        if self.stage == "dynamo":
            return watched
        return importlib.import_module("torch._functorch.aot_autograd").make_boxed_func(watched)

    def call(self, compiled, inputs):
        writes = any(call[5] for call in self.graph.specimen.calls())
        before = _models.clone_inputs(list(inputs)) if writes and self.level != 3 else list(inputs)
        random = torch.get_rng_state()
        if self.level == 3:
            self.write(before, _UNKNOWN)
        if self.level == 4:
            self.check(compiled, before)
        try:
            out = compiled(*inputs)
            _verdict.synchronize(before)
        except Exception as error:
            with _models.kept_random_state():
                torch.set_rng_state(random)
                self.on_error(error, "run error", before)
            raise
        return out

    # ---- what is found

    def on_error(self, error, kind, inputs):
        if getattr(error, "_stator_repro", None) is not None:
            return  # a stage further in has written it
        verdict = _verdict.verdict_of(_stage.inner_error(error), kind)
        path = self.write(inputs, verdict)
        self.noted(error, path)
        if path is not None and self.level == 2:
            log.warning("to cut it down: python -m stator minify %s", path)
            if os.environ.get("STATOR_MINIFY", "0") not in ("", "0"):
                _worker.run_minifier(path)

    def check(self, compiled, inputs):
        if self.wrong is None:
            self.wrong = self.compared(compiled, inputs)
        if self.wrong is not None and config.repro_accuracy_error:
            error = exc.AccuracyError(*self.wrong)
            self.noted(error, self.wrong[1])
            raise error

    def compared(self, compiled, inputs):
        """The text and the script of a wrong result, or None."""
        # With `auto`, the graphs behind AOTAutograd are checked in this very run: if one is wrong, that says more.
        _local.found_inside = False
        try:
            with _models.kept_random_state():
                found = self.graph.difference(compiled, inputs, self.stage)
        except Exception as error:
            log.warning("the accuracy of a graph could not be checked: %s: %s", type(error).__name__, error)
            return None
        if found is None or (self.looks_inside and _local.found_inside):
            return None
        _local.found_inside = True
        path = self.write(inputs, Verdict("accuracy", message=str(found)), ignore_non_fp=found.floating)
        text = f"a compiled graph ({self.stage}) differs from eager: {found}"
        log.warning("%s", text)
        return text, path

    @staticmethod
    def noted(error, path):
        if path is not None:
            with contextlib.suppress(AttributeError):
                error._stator_repro = path
                error.add_note(f"a script that shows this: {path}")

    def write(self, inputs, failure, ignore_non_fp=True):
        """Writes the script; gives its path, or None with a warning."""
        run, graph = _scripts.this_run(), self.graph
        try:
            with _disable_current_modes():  # AOTAutograd compiles under a mode of fakes; values are real
                case = _scripts.make_case(
                    graph.specimen, graph.values(inputs), self.stage, self.backend, failure, run.store,
                    shapes=graph.shapes, ignore_non_fp=ignore_non_fp,
                )  # fmt: skip
                path = _scripts.write_case(case, run)
                if self.level >= 2:
                    _scripts.write_launcher(case, run)
        except (OSError, ScriptError) as error:
            log.warning("no repro was written: %s", error)
            return None
        except Exception:
            log.exception("no repro was written")
            return None
        if failure is not _UNKNOWN:
            log.warning("%s\nwritten: %s", failure, path)
        return path
