"""When a backend fails or is wrong: repros, the minifier, accuracy. See docs/DEBUG.md.

Set config.repro_after and config.repro_level (or STATOR_REPRO_AFTER, STATOR_REPRO_LEVEL) to have failing graphs written as scripts, or use
check(model, *inputs) to find the first wrong value of a program.
"""

from stator.debug._check import CheckReport, check
from stator.debug._inputs import InputsError
from stator.debug._models import same_two_models
from stator.debug._same import compare, same
from stator.debug._text import NotWritable, ScriptError

__all__ = ["CheckReport", "InputsError", "NotWritable", "ScriptError", "check", "compare", "main", "minify", "same", "same_two_models"]


def main(scope):
    """What a script of stator.debug does when it is run."""
    from stator.debug._command import script_main

    script_main(scope)


def minify(script, **options):
    """Cuts the program in a script down; gives the report. `python -m stator minify` runs this."""
    from stator.debug._minify import minify

    return minify(script, **options)
