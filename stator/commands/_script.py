"""Runs a user's script as `python SCRIPT` would, with torch.compile meaning Stator's, and records what happens."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import sys
import traceback
from typing import Any

from stator.commands import Failed


class Run:
    """What came of a script."""

    def __init__(self, data: dict[str, Any], status: int, stopped: str) -> None:
        self.data = data
        self.process = data["processes"][0]
        self.status = status  # the script's own
        self.stopped = stopped  # a dry run's end, where the program needed data


def add_arguments(parser: Any) -> None:
    """A command's arguments: the script last, with its own behind it."""
    parser.add_argument("--backend", help="a backend for all graphs in place of the script's; eager compiles nothing")
    parser.add_argument("--quiet", action="store_true", help="nothing of what the script prints")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module, as in python -m SCRIPT")
    parser.add_argument("script", metavar="SCRIPT", help="a Python program that calls torch.compile or stator.compile")
    parser.add_argument("arguments", nargs="...", metavar="...", help="its arguments")
    parser.set_defaults(own_options={option for action in parser._actions for option in action.option_strings})


@contextlib.contextmanager
def _as_program(script: str, arguments: list[str], module: bool):
    argv, path = list(sys.argv), list(sys.path)
    sys.argv[:] = [script, *arguments]
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.abspath(script))
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = argv, path


def _end(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    # The frames of this file and of runpy are of no interest.
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)
    return 1


def _check(script: str, module: bool, backend: str | None) -> None:
    """What cannot be is said before anything runs."""
    import stator

    if backend is not None:
        try:
            stator.lookup_backend(backend)
        except stator.exc.InvalidBackend as error:
            raise Failed(str(error)) from None
    # python runs folders with a __main__.py too
    if not module and not any(map(os.path.isfile, (script, os.path.join(script, "__main__.py")))):
        raise Failed(f"there is no file {script}")


def run(arguments: Any, dry: bool = False) -> Run:
    import torch

    import stator
    from stator import _explain

    script = arguments.script
    for given in arguments.arguments:
        if given.partition("=")[0] in arguments.own_options:
            print(f"stator: {given} behind {script} goes to the program; for Stator it comes before", file=sys.stderr)
    backend = "eager" if dry else arguments.backend
    _check(script, arguments.module, backend)
    stopped, status = "", 0
    with contextlib.ExitStack() as scope:
        if arguments.quiet:
            scope.enter_context(contextlib.redirect_stdout(io.StringIO()))
        scope.enter_context(_as_program(script, arguments.arguments, arguments.module))
        stator.install()
        scope.callback(stator.uninstall)
        if backend is not None:
            scope.enter_context(stator.set_stance("default", force_backend=backend))
        if dry:
            scope.enter_context(torch.device("meta"))
        with stator.report() as record:
            try:
                if arguments.module:
                    runpy.run_module(script, run_name="__main__", alter_sys=True)
                else:
                    runpy.run_path(script, run_name="__main__")
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                if dry and _explain.needs_data(error):
                    stopped = _place(error, script)
                else:
                    status = _end(error)
            data = record.data()
        data["processes"][0]["command"] = [script, *arguments.arguments]
    return Run(data, status, stopped)


def _place(error: BaseException, script: str) -> str:
    """The innermost line of the script's folder."""
    folder = os.path.dirname(os.path.abspath(script))
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame for frame in frames if os.path.abspath(frame.filename).startswith(folder)]
    if not lines:
        return str(error)
    last = lines[-1]
    return f"{last.filename}:{last.lineno} in {last.name}: {(last.line or '').strip()} needs the data of a tensor"
