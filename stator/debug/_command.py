"""Command lines of a script (`python repro.py run|minify|analyze`) and of the package for such a script (`stator
run|minify|analyze`)."""

import argparse
import contextlib
import dataclasses
import json
import logging
import os
import sys
import traceback

from stator.debug import _scripts, _verdict, _worker
from stator.debug._inputs import InputsError
from stator.debug._text import NotWritable, ScriptError

log = logging.getLogger("stator.debug")


def _memory(text):
    units = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
    text = text.strip().lower().removesuffix("b")
    unit = text[-1:] if text[-1:] in "kmg" else ""
    try:
        return int(float(text.removesuffix(unit)) * units[unit])
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of memory, such as 8G") from None


def _add_commands(commands, takes_script):
    def command(name, text):
        made = commands.add_parser(name, help=text, description=text)
        if takes_script:
            made.add_argument("script", help="a script that stator.debug wrote")
        return made

    run = command("run", "show the failure again")
    run.add_argument("--verdict", help=argparse.SUPPRESS)
    minify = command("minify", "cut the program down until little but the fault is left")
    minify.add_argument("--timeout", type=float, default=120.0, help="seconds for one candidate (%(default)s)")
    minify.add_argument("--total", type=float, default=0.0, help="seconds for the whole reduction; 0: no limit")
    minify.add_argument("--memory", type=_memory, default=0, help="memory for one candidate, such as 8G")
    minify.add_argument("--output", help="where the smallest script goes (minified.py beside the script)")
    minify.add_argument("--fresh", action="store_true", help="do not go on from an earlier run")
    minify.add_argument("--report", help=argparse.SUPPRESS)
    command("analyze", "show every value, and the first one that differs from eager's")


def _run(case, arguments):
    telegraph = None
    if arguments.verdict:
        telegraph = _worker.Telegraph(os.open(arguments.verdict, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    verdict, examination = _verdict.examine(case, phase=telegraph.phase if telegraph else lambda name: None)
    if telegraph is not None:
        telegraph.send(verdict=verdict.data())
    if examination.error is not None:
        traceback.print_exception(examination.error)
    print(verdict if verdict.fails else f"no failure: {verdict}", file=sys.stderr)
    if case.failure.fails and verdict.fails and not verdict.matches(case.failure):
        print(f"the script was written for another failure: {case.failure}", file=sys.stderr)
    return 1 if verdict.fails or verdict.kind == "eager error" else 0


def _minify(script, arguments):
    from stator.debug._minify import DoesNotFail, minify

    try:
        options = ("timeout", "memory", "total", "output", "fresh")
        report = minify(script, **{name: getattr(arguments, name) for name in options})
    except DoesNotFail as error:
        print(error, file=sys.stderr)
        return 3
    if arguments.report:
        with open(arguments.report, "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(report), file)
    print(report)
    return 0 if report.confirmed else 4


def _dispatch(arguments, script, load):
    from stator.debug._check import analyze

    if arguments.command == "minify":
        return _minify(script, arguments)
    return analyze(load()) if arguments.command == "analyze" else _run(load(), arguments)


@contextlib.contextmanager
def clear_messages():
    """What a user can do something about is said in one sentence."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        yield
    except (ScriptError, InputsError, NotWritable) as error:
        sys.exit(f"stator: {error}")
    except KeyboardInterrupt:
        sys.exit("stator: stopped; the same command goes on from here")


def script_main(scope, command="run"):
    """The command line of a script, which does `command` if it is not told what to do."""
    path = scope["__file__"]
    parser = argparse.ArgumentParser(
        prog=f"python {os.path.basename(path)}", description="A failing graph, written by stator.debug."
    )
    _add_commands(parser.add_subparsers(dest="command"), takes_script=False)
    given = sys.argv[1:]
    arguments = parser.parse_args(
        given if given and given[0] in ("run", "minify", "analyze", "-h", "--help") else [command, *given]
    )

    def case():
        with open(path, encoding="utf-8") as file:
            return _scripts.from_scope(scope, path, file.read())

    with clear_messages():
        sys.exit(_dispatch(arguments, path, case))


def add_arguments(commands):
    """The commands of the package that take such a script."""
    _add_commands(commands, takes_script=True)


def main(arguments):
    with clear_messages():
        return _dispatch(arguments, arguments.script, lambda: _scripts.load(arguments.script))
