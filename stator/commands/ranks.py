"""Where the captures of several ranks differ first (config.trace_dir, docs/RANKS.md)."""

import os

from stator.commands import Failed

HELP = "where the captures of several ranks differ first (config.trace_dir)"


def add_arguments(parser):
    parser.add_argument("folder", help="the folder that config.trace_dir named")


def main(arguments):
    from stator._rank_log import report

    if not os.path.isdir(arguments.folder):
        raise Failed(f"there is no folder {arguments.folder}")
    text, status = report(arguments.folder)
    print(text)
    return status
