"""Runs a program and writes a page of what was captured, when and why (docs/REPORT.md); or makes one page of several
ranks' data.

stator report -o page.html train.py
stator report -o page.html run.rank0.json run.rank1.json
"""

import argparse
import json

from stator.commands import Failed, _script

HELP = "run a program and write a page of what was captured"


def add_arguments(parser):
    parser.add_argument(
        "-o", "--output", default="stator-report.html", help="the page; data if it ends in .json (%(default)s)"
    )
    _script.add_arguments(parser)


def _merged(paths):
    from stator import recording

    parts = []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                parts.append(json.load(file))
        except (OSError, ValueError) as error:
            raise Failed(f"{path}: {error}") from None
    try:
        return recording.merge(parts)
    except ValueError as error:
        raise Failed(str(error)) from None


def _check(path):
    from stator import recording

    try:
        recording.check_place(path)
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}; name another with -o") from None


def main(arguments):
    from stator import recording

    if arguments.script.endswith(".json"):
        # Files of data take no arguments of their own: the page may be named behind them.
        behind = argparse.ArgumentParser(prog="stator report")
        behind.add_argument("-o", "--output", default=arguments.output)
        behind.add_argument("files", nargs="*")
        files = behind.parse_args(arguments.arguments, arguments).files
        data, status = _merged([arguments.script, *files]), 0
    else:
        _check(arguments.output)
        run = _script.run(arguments)
        data, status = run.data, run.status
    _check(arguments.output)
    print(f"stator: wrote {recording.write(data, arguments.output)}")
    return status
