"""Small programs that visit every corner of the language a frame can be in. Each is a function without arguments, or with one input object
whose reference count the runner watches; what it returns, prints and raises has to be the same whoever executes its frames."""

import importlib

from tests.python.driver_programs.common import PROGRAMS, Thing

for _name in ("flow", "scopes", "calls", "values", "exceptions", "generators", "classes", "frames", "library", "newer"):
    importlib.import_module(f"tests.python.driver_programs.{_name}")

__all__ = ["PROGRAMS", "Thing"]
