"""Writes stator/_core.pyi from the binary: what it has, with the first line of each docstring."""

import inspect
import pathlib
from typing import Any

from stator import _core

FILE = pathlib.Path(__file__).resolve().parent.parent / "stator" / "_core.pyi"
HEAD = '''"""The binary. Made by tools/core_stub.py; stubtest compares it with the module (make lint)."""

from typing import Any, final

from typing_extensions import disjoint_base
'''
ANYTHING = "*args: Any, **kwargs: Any"


def comment(value):
    text = value.__doc__ if isinstance(value.__doc__, str) else ""
    return f"  # {text.splitlines()[0]}" if text else ""


def signature(value, first=""):
    """Of a function that says what it takes; nothing is said of the types."""
    try:
        found = inspect.signature(value)
    except ValueError:
        return ", ".join(filter(None, [first, ANYTHING]))
    text = str(
        found.replace(
            parameters=[p.replace(annotation=Any if p.name != "self" else p.empty) for p in found.parameters.values()]
        )
    )
    return text[1:-1].replace("typing.", "")


# What every class has, and Python's own about it.
ORDINARY = {
    "__doc__",
    "__module__",
    "__class__",
    "__dict__",
    "__weakref__",
    "__getattribute__",
    "__setattr__",
    "__delattr__",
    "__repr__",
    "__hash__",
}


def members(kind):
    for name, member in sorted(vars(kind).items()):
        if name in ORDINARY:
            continue
        if name == "__new__":
            yield f"    def __new__(cls, {ANYTHING}) -> Any: ..."
        elif isinstance(member, staticmethod):
            yield "    @staticmethod"
            yield f"    def {name}({ANYTHING}) -> Any: ...{comment(member)}"
        elif inspect.isgetsetdescriptor(member) or inspect.ismemberdescriptor(member):
            yield "    @property"
            yield f"    def {name}(self) -> Any: ...{comment(member)}"
        elif callable(member):
            yield f"    def {name}({signature(member, 'self')}) -> Any: ...{comment(member)}"
        else:
            yield f"    {name}: Any"


def text():
    lines = []
    for name in sorted(dir(_core)):
        value = getattr(_core, name)
        if name.startswith("__"):
            continue
        if isinstance(value, type):
            base = value.__flags__ & (1 << 10)  # Py_TPFLAGS_BASETYPE
            lines += ["", "@disjoint_base" if base else "@final", f"class {name}:{comment(value)}", *members(value), ""]
        elif callable(value):
            lines.append(f"def {name}({signature(value)}) -> Any: ...{comment(value)}")
        else:
            lines.append(f"{name}: Any")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
