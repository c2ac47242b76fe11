"""Runs a program and holds what was captured against limits, for continuous integration.

Exit status: 0 all limits hold, 1 one does not (or the program itself failed), 2 the command could not run.
"""

import argparse
import json
import sys

from stator.commands import Failed, _print, _script

HELP = "run a program and fail if it breaks or recompiles more than allowed"
_LIMITS = {
    "graphs": ("--max-graphs", int, "graphs"),
    "breaks": ("--max-breaks", int, "places where a graph breaks"),
    "recompiles": ("--max-recompiles", int, "captures of a place beyond its first"),
    "guard_us": ("--max-guard-us", float, "microseconds of one entry's guards"),
}


def _add_limits(parser):
    for name, (option, kind, text) in _LIMITS.items():
        parser.add_argument(option, type=kind, dest=f"max_{name}", metavar="N", help=f"at most so many {text}")


def add_arguments(parser):
    _add_limits(parser)
    parser.add_argument("--json", action="store_true", help="figures, limits and verdict as JSON on the last line")
    _script.add_arguments(parser)


def _take_limits_behind(arguments):
    """`check SCRIPT --max-breaks 0`: no program has such options of its own. Those behind `--` are the program's all
    the same."""
    parser = argparse.ArgumentParser(prog="stator check", add_help=False, allow_abbrev=False)
    _add_limits(parser)
    given = arguments.arguments
    end = given.index("--") if "--" in given else len(given)
    found, rest = parser.parse_known_args(given[:end])
    for name, limit in vars(found).items():
        if limit is not None:
            setattr(arguments, name, limit)
    arguments.arguments = rest + given[end:]


def main(arguments):
    _take_limits_behind(arguments)
    limits = {name: getattr(arguments, f"max_{name}") for name in _LIMITS}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    if not limits:
        raise Failed("check needs a limit: " + ", ".join(option for option, _, _ in _LIMITS.values()))
    run = _script.run(arguments)
    found = _print.figures(run.process)
    over = [name for name, limit in limits.items() if found[name] > limit]
    nothing = not run.process["captures"]
    holds = not over and not nothing and run.status == 0
    if arguments.json:
        verdict = {
            "holds": holds,
            "figures": found,
            "limits": limits,
            "over": over,
            "status": run.status,
            "captured": not nothing,
        }
        json.dump(verdict, sys.stdout)
        print()
        return 0 if holds else 1
    out = _print.Out()
    for name, limit in limits.items():
        bad = name in over
        out.line(
            ("FAIL " if bad else "ok   ", "bold red" if bad else "green"),
            f"{_LIMITS[name][2]}: {found[name]:,} (at most {limit:,})",
        )
    if nothing:
        out.line(("FAIL ", "bold red"), "nothing was captured: the program calls no compiled function")
    if "breaks" in over or "graphs" in over:
        _print.breaks(run.process, out)
    if "recompiles" in over or "graphs" in over:
        _print.recompiles(run.process, out)
    if run.status:
        out.line(("FAIL ", "bold red"), f"the program itself ended with status {run.status}")
    return 0 if holds else 1
