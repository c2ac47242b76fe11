"""When a backend fails or is wrong: repros, the minifier, accuracy. See docs/DEBUG.md.

Set config.repro_after and config.repro_level (or STATOR_REPRO_AFTER, STATOR_REPRO_LEVEL) to have failing graphs written
as scripts, or use check(model, *inputs) to find the first wrong value of a program.
"""

from stator.debug._check import CheckReport, check
from stator.debug._dumps import dump_compiler_graph_state, dump_to_minify, minifier_dir, save_graph_repro
from stator.debug._inputs import InputsError
from stator.debug._models import cast_to_fp64, same_two_models
from stator.debug._program import NotWritable, ScriptError, definitions
from stator.debug._runs import (
    clone_inputs_retaining_gradness,
    collect_results,
    reduce_to_scalar_loss,
    requires_bwd_pass,
    run_fwd_maybe_bwd,
)
from stator.debug._same import compare, same
from stator.exc import AccuracyError

__all__ = [
    "AccuracyError",
    "CheckReport",
    "InputsError",
    "NotWritable",
    "ScriptError",
    "cast_to_fp64",
    "check",
    "clone_inputs_retaining_gradness",
    "collect_results",
    "compare",
    "definitions",
    "dump_compiler_graph_state",
    "dump_to_minify",
    "main",
    "minifier_dir",
    "minify",
    "reduce_to_scalar_loss",
    "requires_bwd_pass",
    "run_fwd_maybe_bwd",
    "same",
    "same_two_models",
    "save_graph_repro",
]


def main(scope, command="run"):
    """What a script of stator.debug does when it is run; `command` if it is not told."""
    from stator.debug._command import script_main

    script_main(scope, command)


def minify(script, *, timeout=120.0, memory=0, total=0.0, output=None, fresh=False):
    """Cuts the program in a script down, as `python -m stator minify` does; gives a report with script, calls_after,
    tries, seconds, confirmed.

    Runs in a process of its own: candidates are forks of it, which a process that has run tensor operations must not
    make.
    """
    import os
    import pickle
    import tempfile

    from stator.debug._worker import run_minifier

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report")
        options = [f"--timeout={timeout}", f"--memory={memory}", f"--total={total}", f"--report={path}"]
        options += [f"--output={output}"] if output else []
        options += ["--fresh"] if fresh else []
        done = run_minifier(script, *options, capture_output=True, text=True)
        if not os.path.exists(path):
            raise ScriptError(done.stderr.strip().removeprefix("stator: "))
        with open(path, "rb") as file:
            report = pickle.load(file)
    if isinstance(report, Exception):
        raise report
    return report
