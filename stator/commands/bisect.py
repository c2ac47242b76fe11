"""Which graph of a program is the wrong one (docs/DEBUG.md)."""

from stator.debug import _bisect, _command

HELP = "which graph of a program is the wrong one"
__doc__ = _bisect.__doc__
add_arguments = _bisect.add_arguments


def main(arguments):
    with _command.clear_messages():
        return _bisect.main(arguments)
