#!/usr/bin/env python3
"""Writes docs/SEEDS.md from the tests of the documents' items (tests/python/seeds.py); --check only says whether the
page is up to date."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
import made_page

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/SEEDS.md"

HEAD = """# What was asked for, item by item

Stator was asked for by documents about TorchDynamo. This page has one line for each thing that they describe, with its test in
`tests/python/` and a verdict: *works* as described, or *better* on purpose, with the reason{open}. Each test compares with eager, plain and
with forced breaks, and with TorchDynamo where the behaviour is its own. The page is made from these tests by `tools/seed_items.py`.
"""


def page():
    sys.path += [str(ROOT), str(ROOT / "tests/python")]  # after the build for this CPython and torch, if it is another
    import seeds

    found = seeds.load()
    verdicts = [(made.pending and "open") or made.verdict for made in found.values()]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in (*seeds.VERDICTS, "open") if name in verdicts)
    explained = "; *open* is what is not there yet" if "open" in verdicts else ""
    parts = [HEAD.format(open=explained), f"{len(found)} items: {counts}.\n"]
    for document, title in seeds.DOCUMENTS.items():
        parts.append(f"## {document}. {title}\n\n| item | test | verdict |\n|---|---|---|")
        for text in seeds.ITEMS[document]:
            made = found[document, text]
            verdict = f"open: {made.pending}" if made.pending else made.verdict
            why = f": {made.why}" if made.why and not made.pending else ""
            parts.append(f"| {text.replace('|', chr(92) + '|')} | `{made.test}` | {verdict}{why} |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    made_page.keep(PAGE, page())
