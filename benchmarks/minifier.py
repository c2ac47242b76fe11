"""The minifier beside TorchDynamo's, on the same planted faults and graphs.

    python -m benchmarks.minifier [--faults compile,wrong,...] [--stages dynamo,forward,backward] [--limit 600]
    [--layers N]

A program with a planted fault (docs/DEBUG.md) runs until it fails and leaves a script; both minifiers then get the
graph and inputs of that script. Theirs is torch._functorch.fx_minifier with its usual settings: candidates run in its
own process, so a crash or a hang ends it. Printed are the calls that are left, the tries, the seconds of the reduction
and, in parentheses, of the whole process: imports, and here also two runs of the result alone.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from tests.python import children

FAULTS = ("compile", "runtime", "wrong", "nan", "crash", "hang")
STAGES = {"dynamo": ("tanh", 11, "dynamo"), "forward": ("tanh", 5, "aot"), "backward": ("tanh_backward", 3, "aot")}


def run(command, folder, limit, **variables):
    """(status or "no end", output, seconds)"""
    environment = children.environment(children.TESTS, **{"OMP_NUM_THREADS": "1", **variables})
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *map(str, command)], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = "no end"
    return status, output, time.monotonic() - start


def make_script(folder, fault, stage, layers):
    op, usual, after = STAGES[stage]
    level = {"crash": 3, "hang": 3, "wrong": 4, "nan": 4}.get(fault, 2)
    program = os.path.join(children.TESTS, "debug_programs.py")
    limit = 60 if fault == "hang" else 300
    run(
        [program, fault, op, stage, layers or usual],
        folder,
        limit,
        STATOR_REPRO_AFTER=after,
        STATOR_REPRO_LEVEL=str(level),
    )
    return os.path.join(folder, "repro.py")


def ours(script, folder, limit):
    status, output, seconds = run(["-m", "stator", "minify", "--fresh", "--total", limit, script], folder, limit + 200)
    found = re.search(r"(\d+) calls? of (\d+) left, .* after (\d+) tries in ([\d.]+) s", output)
    confirmed = re.search(r"(\d) of 2 times", output)
    if found is None:
        return {"text": f"status {status}", "seconds": seconds}
    return {
        "calls": int(found[1]),
        "of": int(found[2]),
        "tries": int(found[3]),
        "seconds": float(found[4]),
        "whole": seconds,
        "confirmed": int(confirmed[1]),
    }


def theirs(script, folder, limit):
    status, output, seconds = run(["-m", "benchmarks.minifier", "--theirs", script], folder, limit)
    tries = output.count("\nTRY ")
    lines = [line for line in output.splitlines() if line.startswith("RESULT ")]
    if lines:
        return {**json.loads(lines[-1][7:]), "tries": tries, "whole": seconds}
    if status == "no end":
        text = f"no end in {limit:.0f} s"
    elif isinstance(status, int) and status < 0:
        text = f"killed by {signal.Signals(-status).name}"
    else:
        text = output.strip().splitlines()[-1][:60] if output.strip() else f"status {status}"
    return {"text": f"{text}, {tries} tries", "seconds": seconds}


def run_theirs(script):
    """Their minifier on a script's graph, in this process."""
    import torch
    from torch._functorch.fx_minifier import minifier

    from stator.debug import _models, _scripts, _stage, _text, _verdict

    case = _scripts.load(script)
    backend = case.backend.resolve()
    only_fwd = case.stage != "dynamo"

    def fails(gm, inputs):
        print("\nTRY ", flush=True)
        inputs = list(inputs)
        try:
            ref = _models.run_forward_backward(gm, _models.clone_inputs(inputs), only_fwd)
        except Exception:
            return False
        try:
            specimen, _ = _text.from_module(gm)
            compiled = _stage.Prepared(specimen, _models.clone_inputs(inputs), case.stage, {}).compiled(backend)
            res = _models.run_forward_backward(compiled, _models.clone_inputs(inputs), only_fwd)
        except Exception:
            return case.failure.kind != "accuracy"
        if case.failure.kind != "accuracy":
            return False
        picked = _text.picked_outputs(gm, specimen)
        ref["out"] = [ref["out"][i] for i in picked] if isinstance(ref["out"], (tuple, list)) else [ref["out"]]
        return _models.first_difference({"out": ref["out"]}, {"out": list(res["out"])}, None, False) is not None

    with _verdict.state(case.header):
        inputs = case.load_inputs()
        graph = torch.fx.Graph()
        graph.output(graph.graph_copy(case.specimen.to_fx().graph, {}))
        module = torch.fx.GraphModule(torch.nn.Module(), graph)
        start = time.monotonic()
        small, _ = minifier(module, inputs, fails, dump_state=lambda gm, inputs: None, skip_offload=True)
        seconds = time.monotonic() - start
    calls = sum(node.op.startswith("call") for node in small.graph.nodes)
    print("RESULT " + json.dumps({"calls": calls, "of": case.specimen.call_count(), "seconds": seconds}), flush=True)


def show(result):
    if "text" in result:
        return f"{result['text']} ({result['seconds']:.0f} s)"
    return f"{result['calls']} of {result['of']} calls, {result['tries']} tries, {result['seconds']:.1f} s ({result['whole']:.0f} s)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one reduction")
    parser.add_argument("--layers", type=int, help="layers of the transformer (as many as give 300 calls)")
    parser.add_argument("--json", help="write the figures there")
    parser.add_argument("--theirs", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.theirs:
        run_theirs(arguments.theirs)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table

    cases = [(fault, stage) for stage in arguments.stages.split(",") for fault in arguments.faults.split(",")]
    table = Table("fault", "stage", "stator", "TorchDynamo's")
    figures = []
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    ) as progress:
        task = progress.add_task("", total=2 * len(cases))
        for fault, stage in cases:
            with tempfile.TemporaryDirectory() as folder:
                progress.update(task, description=f"{fault}, {stage}: the program")
                script = make_script(folder, fault, stage, arguments.layers)
                row = {"fault": fault, "stage": stage}
                for name, side in (("stator", ours), ("torchdynamo", theirs)):
                    progress.update(task, description=f"{fault}, {stage}: {name}")
                    row[name] = side(script, folder, arguments.limit)
                    progress.advance(task)
            figures.append(row)
            table.add_row(fault, stage, show(row["stator"]), show(row["torchdynamo"]))
            progress.console.print(
                f"{fault}, {stage}: stator {show(row['stator'])}; TorchDynamo's {show(row['torchdynamo'])}"
            )
    Console(width=140).print(table)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
