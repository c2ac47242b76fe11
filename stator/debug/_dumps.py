"""Scripts of graphs that the caller has in hand, under the names that TorchDynamo's documents give to these
functions."""

import operator
import os

import torch

from stator.debug import _scripts, _stage
from stator.debug._inputs import Store
from stator.debug._program import ScriptError
from stator.debug._verdict import Verdict


def minifier_dir():
    """The folder of this process's launcher of the minifier."""
    return os.path.join(_scripts.this_run().folder, "minifier")


def _stage_of(gm):
    """Graphs behind AOTAutograd call nothing but operators, and pick from what these give."""
    targets = [node.target for node in gm.graph.nodes if node.op.startswith("call")]
    operators = all(t is operator.getitem or isinstance(t, torch._ops.OpOverload) for t in targets)
    return "inference" if targets and operators else "dynamo"


def _case(gm, args, compiler_name, store, accuracy=None, tracing_mode=None, check_str=None):
    graph = _stage.Graph(gm)
    wrong = accuracy or compiler_name.endswith("_accuracy")
    failure = Verdict("accuracy" if wrong else "passes", message="written on request", contains=check_str or "")
    backend = _stage.BackendName(compiler_name.removesuffix("_accuracy"))
    shapes = graph.shapes if tracing_mode != "real" else None
    return _scripts.make_case(graph.specimen, graph.values(args), _stage_of(gm), backend, failure, store, shapes=shapes)


def save_graph_repro(
    fd,
    gm,
    args,
    compiler_name,
    *,
    stable_output=False,
    save_dir=None,
    command="run",
    accuracy=None,
    tracing_mode=None,
    check_str=None,
):
    """Writes a script that compiles `gm` with the named backend and runs it on `args`.

    stable_output: nothing of this machine and these versions is in it. save_dir: where the values go, which the script
    looks for there. command: what the script does if it is not told ("run", "minify"). accuracy: the results are wrong.
    tracing_mode: "real" makes symbolic sizes constants. check_str: what the message of a failure has to contain, for
    the minifier.
    """
    if any(type(arg).__name__ == "BackwardState" for arg in args):
        fd.write("Repro is not generated due to existence of BackwardState in graph input")
        return
    store = Store(save_dir or _scripts.this_run().store.folder)
    try:
        case = _case(gm, args, compiler_name, store, accuracy, tracing_mode, check_str)
    except ScriptError as error:
        fd.write(f"Repro is not generated: {error}")
        return
    if stable_output:
        case.header.update(ENVIRONMENT={}, VERSIONS={"format": _scripts.FORMAT})
    name = getattr(fd, "name", None)
    path = name if isinstance(name, str) else os.path.join(os.getcwd(), "repro.py")
    fd.write(_scripts.render(case, path, command))


def dump_compiler_graph_state(gm, args, compiler_name, *, accuracy=None):
    """Writes a checkpoint, checkpoints/<calls>.py in this process's folder, and its copy repro.py in the working
    folder; gives its path."""
    run = _scripts.this_run()
    return _scripts.write_case(_case(gm, args, compiler_name, run.store, accuracy), run)


def dump_to_minify(gm, args, compiler_name):
    """Writes minifier_launcher.py, which cuts the program down when it is run; gives its path."""
    run = _scripts.this_run()
    return _scripts.write_launcher(_case(gm, args, compiler_name, run.store), run)
