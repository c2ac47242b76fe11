#!/usr/bin/env python3
"""Writes docs/API.md from the docstrings of all public names; --check only says whether the page is up to date."""

import inspect
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
import made_page

import stator

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/API.md"
HEAD = """# Every public function

Made from the docstrings by `tools/api_page.py`. Arguments and meaning of `stator.compile` are `torch.compile`'s.
"""
PARTS = {
    "Compile": "compile compile_module_inplace reset CompiledModule OptimizedModule",
    "Look": "explain dry_run guards report stats reset_stats on_graph replay comptime",
    "Say how functions are treated": "allow_in_graph assume_constant_result disable disallow_in_graph dont_skip_tracing error_on_graph_break "
    "forbid_in_graph graph_break nonstrict_trace run skip skip_frame substitute_in_graph set_stance is_compiling",
    "Sizes": "mark_dynamic maybe_mark_dynamic mark_static mark_static_address mark_unbacked",
    "Files": "save load load_compiled_function",
    "Backends": "list_backends lookup_backend register_backend",
    "In place of TorchDynamo": "install uninstall installed optimize optimize_assert export",
    "Ranks": "set_compile_group set_enable_guard_collectives",
    "Settings and errors": "config exc",
}


def _signature(value):
    # Before 3.13 inspect leaves out the first argument of an object's __call__ that is a static method.
    if not inspect.isroutine(value) and not inspect.isclass(value):
        value = getattr(value, "__call__", value)  # noqa: B004
    try:
        return re.sub(r"<.*? at 0x\w+>", "...", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(...)"


def _entry(name):
    value = getattr(stator, name)
    text = inspect.cleandoc(inspect.getdoc(value) or "")
    head = f"stator.{name}" + ("" if inspect.ismodule(value) else _signature(value))
    return f"### `{name}`\n```\n{head}\n```\n{_paragraphs(text)}\n"


def _paragraphs(text):
    """Indented blocks of docstrings are code."""
    lines, inside = [], False
    for line in text.splitlines():
        code = line.startswith("    ") and (inside or not lines or not lines[-1].strip())
        if code != inside:
            lines.append("```")
            inside = code
        lines.append(line[4:] if code else line)
    return "\n".join([*lines, *(["```"] if inside else [])])


def page():
    listed = [name for names in PARTS.values() for name in names.split()]
    missing = set(stator.__all__) - set(listed)
    assert not missing, f"no part of the page has {', '.join(sorted(missing))}"
    parts = [HEAD]
    for title, names in PARTS.items():
        parts.append(f"## {title}\n")
        parts += [_entry(name) for name in names.split()]
    return "\n".join(parts)


if __name__ == "__main__":
    made_page.keep(PAGE, page())
