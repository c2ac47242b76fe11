"""The command line: `stator` or `python -m stator`. Each command is a module here with HELP, add_arguments(parser) and
main(arguments).

A command is added by its module and its line in COMMANDS. Those for scripts that stator.debug wrote are in
stator/debug/_command.py.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

COMMANDS = ("doctor", "explain", "check", "report", "ranks", "bisect", "cache")


class Failed(Exception):
    """What the user can do something about, in a sentence."""


def _version() -> str:
    import stator
    from stator import _build_info as built

    return f"stator {stator.__version__} for CPython {built.PYTHON} and torch {built.TORCH}"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="stator", description="What Stator does with a program, and tools for programs that fail when compiled."
    )
    made.add_argument("--version", action="version", version=_version())
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f"stator.commands.{name}")
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__ or module.HELP,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(main=module.main)
    from stator.debug import _command

    _command.add_arguments(commands)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        return arguments.main(arguments)
    except Failed as error:
        print(f"stator: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stator: stopped", file=sys.stderr)
        return 130
