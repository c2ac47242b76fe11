"""The commands for scripts that stator.debug wrote: `stator run|minify|analyze`, and `python repro.py
run|minify|analyze` for such a script."""

import argparse
import contextlib
import logging
import multiprocessing.connection
import pickle
import sys
import traceback

from stator.debug import _scripts, _verdict
from stator.debug._program import ScriptError

log = logging.getLogger("stator.debug")


def _memory(text):
    number = text.strip().lower().removesuffix("b")
    units = {"k": 2**10, "m": 2**20, "g": 2**30}
    try:
        return int(float(number.rstrip("kmg")) * units.get(number[-1:], 1))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of memory, such as 8G") from None


def _run(arguments):
    case = _scripts.load(arguments.script)
    tell = lambda **message: None  # noqa: E731
    if arguments.verdict is not None:
        connection = multiprocessing.connection.Connection(arguments.verdict, readable=False)
        tell = lambda **message: connection.send(message)  # noqa: E731
    verdict, error = _verdict.examine(case, tell)
    tell(verdict=verdict)
    if error is not None:
        traceback.print_exception(error)
    print(verdict if verdict.fails else f"no failure: {verdict}", file=sys.stderr)
    if case.failure.fails and verdict.fails and not verdict.matches(case.failure):
        print(f"the script was written for another failure: {case.failure}", file=sys.stderr)
    return 1 if verdict.fails or verdict.kind == "eager error" else 0


def _minify(arguments):
    from stator.debug._minify import DoesNotFail, minify

    options = ("script", "timeout", "memory", "total", "output", "fresh")
    try:
        report = minify(**{name: getattr(arguments, name) for name in options})
    except DoesNotFail as error:
        report = error
    if arguments.report:
        with open(arguments.report, "wb") as file:
            pickle.dump(report, file)
    if isinstance(report, DoesNotFail):
        print(report, file=sys.stderr)
        return 3
    print(report)
    return 0 if report.confirmed else 4


def _analyze(arguments):
    from stator.debug._check import analyze

    return analyze(_scripts.load(arguments.script))


COMMANDS = {"run": _run, "minify": _minify, "analyze": _analyze}


def add_arguments(commands):
    def command(name, text):
        made = commands.add_parser(name, help=text, description=text)
        made.add_argument("script", help="a script that stator.debug wrote")
        made.set_defaults(main=main)
        return made

    run = command("run", "show the failure again")
    run.add_argument("--verdict", type=int, help=argparse.SUPPRESS)
    minify = command("minify", "cut the program down until little but the fault is left")
    minify.add_argument("--timeout", type=float, default=120.0, help="seconds for one candidate (%(default)s)")
    minify.add_argument("--total", type=float, default=0.0, help="seconds for the whole reduction; 0: no limit")
    minify.add_argument("--memory", type=_memory, default=0, help="memory for one candidate, such as 8G")
    minify.add_argument("--output", help="where the smallest script goes (minified.py beside the script)")
    minify.add_argument("--fresh", action="store_true", help="do not go on from an earlier run")
    minify.add_argument("--report", help=argparse.SUPPRESS)
    command("analyze", "show every value, and the first one that differs from eager's")


def main(arguments):
    with clear_messages():
        return COMMANDS[arguments.command](arguments)


@contextlib.contextmanager
def clear_messages():
    """What a user can do something about is said in one sentence."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        yield
    except ScriptError as error:
        sys.exit(f"stator: {error}")
    except KeyboardInterrupt:
        sys.exit("stator: stopped; the same command goes on from here")


def script_main(scope, command="run"):
    """What a script does when it is run; `command` if it is not told what."""
    from stator import commands

    name, *given = sys.argv[1:] if sys.argv[1:2] and sys.argv[1] in COMMANDS else [command, *sys.argv[1:]]
    sys.exit(commands.main([name, scope["__file__"], *given]))
