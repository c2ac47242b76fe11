#!/usr/bin/env python3
"""Writes docs/NAMES.md: what becomes of torch's names and settings under Stator; --check only says whether the page is
up to date."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
import made_page

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/NAMES.md"

HEAD = """# torch's names under Stator

What becomes of the arguments of `torch.compile`, of the public names of `torch.compiler` and `torch._dynamo`, and of the settings in
`torch._dynamo.config`, after `stator.install()`. *works*: as there. *differs*: it does its work in another way, which is said. *not here*:
a use is answered by one warning, which names it and says what to do instead. Nothing is ignored in silence. The page is made by
`tools/names_table.py`, and `tests/python/test_names.py` tries every row. Before `install()` and without it torch's own switches and
marks hold for `stator.compile` too: `set_stance`, `error_on_graph_break`, `reset`, `disable`, `allow_in_graph`, `disallow_in_graph`,
`nonstrict_trace`, `assume_constant_result`, `forbid_in_graph`, `mark_dynamic` and its relatives, and the settings.
"""


def table(title, rows):
    lines = [f"## {title}\n", "| name | verdict | |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {verdict} | {text.replace('|', chr(92) + '|')} |"
        for name, (verdict, text) in sorted(rows.items())
    ]
    return "\n".join(lines) + "\n"


def page():
    sys.path.append(str(ROOT))  # after the build for this CPython and torch, if it is another
    import torch._dynamo

    from stator import _dynamo_settings, _torch_names, config

    known = {*config.get_config_copy(), *config._ALIASES}
    settings = {name: _dynamo_settings.verdict(name, name in known) for name in torch._dynamo.config._config}
    parts = [
        HEAD,
        table("Arguments of torch.compile", _torch_names.COMPILE),
        table("torch.compiler", _torch_names.COMPILER),
        table("torch._dynamo", _torch_names.DYNAMO),
        table("torch._dynamo.config", settings),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    made_page.keep(PAGE, page())
