"""Runs a program unchanged, with torch.compile meaning Stator's, and prints where graphs break, most costly first, and
what was captured more than once. --dry runs it on tensors without data (device meta): nothing is computed and no
backend is called.
"""

import json
import sys

from stator.commands import _print, _script

HELP = "run a program and show its breaks and recompiles, ranked"


def add_arguments(parser):
    parser.add_argument(
        "--dry", action="store_true", help="tensors on the device meta, which have no data, and no backend"
    )
    parser.add_argument("--json", action="store_true", help="the data of the report in place of text")
    _script.add_arguments(parser)


def main(arguments):
    run = _script.run(arguments, dry=arguments.dry)
    if arguments.json:
        json.dump(run.data, sys.stdout)
        print()
        return run.status
    out = _print.Out()
    if not arguments.quiet:
        out.line(("─" * 40, "dim"))
    _print.everything(run.process, out)
    if run.stopped:
        out.heading("The dry run ends before the program does")
        out.line(f"  {run.stopped}")
    return run.status
