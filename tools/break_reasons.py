#!/usr/bin/env python3
"""Writes docs/BREAKS.md, one entry for each reason in src/breaks/reasons.def; --check only says whether the page is up
to date."""

import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
import made_page

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/breaks/reasons.def"
PAGE = ROOT / "docs/BREAKS.md"
ROW = re.compile(r'^REASON\((k\w+),\s*(\d+),\s*"((?:[^"\\]|\\.)*)",\s*"((?:[^"\\]|\\.)*)"\)', re.M)

HEAD = """# Why a graph ends

A graph break ends the graph; the instruction that could not be captured runs as in plain Python, and capture goes on behind it. Each
break has one of the reasons below; its number stands in messages and in `stator.explain(f)(*args)`. With `fullgraph=True`, and inside of
`stator.error_on_graph_break(True)`, a break is an error. This page is made from `src/breaks/reasons.def` and
`stator/_advice.py` by `tools/break_reasons.py`; a test follows every piece of advice.
"""


def rows():
    found = ROW.findall(TABLE.read_text())
    numbers = [int(number) for _, number, _, _ in found]
    assert len(set(numbers)) == len(numbers), "a reason's number is used twice"
    assert len(found) == TABLE.read_text().count("\nREASON("), "a row of reasons.def is not understood"
    return sorted(found, key=lambda row: int(row[1]))


def page():
    parts = [HEAD]
    for name, number, sentence, hint in rows():
        text = (
            f"## {number}. {name[1:]}\nThe program {sentence}."
            if not _own_subject(sentence)
            else f"## {number}. {name[1:]}\n{_capital(sentence)}."
        )
        parts.append(text + (f"\n\n*What to do:* {hint}.\n" if hint else "\n"))
        cases = "\n".join(f"- {case}: {advice}." for case, advice in more(int(number)))
        parts += [cases + "\n"] if cases else []
    return "\n".join(parts)


def more(number):
    """Advice for some of a reason's cases (stator/_advice.py): (the case in words, advice)."""
    scope = {}
    exec((ROOT / "stator/_advice.py").read_text(), scope)  # without stator, which may not be built
    for reason, _, case, advice in scope["ROWS"]:
        if reason == number:
            yield _capital(case), advice.format("namespace" if "::" in advice else "print", "name")


def _own_subject(sentence):
    """Sentences that name their own subject, against those of which the program is the subject (`calls a function
    ...`)."""
    return sentence.split()[0] in ("a", "an", "the", "this", "stator.graph_break()")


def _capital(sentence):
    return (
        sentence if sentence.startswith(("stator.", "print", "int(", "range(")) else sentence[0].upper() + sentence[1:]
    )


if __name__ == "__main__":
    made_page.keep(PAGE, page())
