"""What to do about a break: more than its reason's own hint (src/breaks/reasons.def) where what it was about is known.

Every piece of advice, here and there, is tried by tests/python/test_advice.py: the program that follows it has no such
break.
"""

from __future__ import annotations

import re

_FAKE = 'say what the operator returns, without computing it: @torch.library.register_fake("{0}::{1}")'
# (number of the reason, what its text has to match, the same in words, advice); groups of the match fill the braces
ROWS: tuple[tuple[int, str, str, str], ...] = (
    (
        3,
        r"\((print|warn)\)$",
        "print and warnings.warn",
        "add {0} to stator.config.reorderable_logging_functions, and it runs behind the captured part; or to ignore_logging_functions, and "
        "compiled code leaves it out",
    ),
    (
        4,
        r"known only when the graph runs",
        "on a number that is known only when the graph runs",
        "say what holds before the number is used: torch._check(n >= 0), torch._check(n < x.shape[0])",
    ),
    (
        5,
        r"\(int\(\) of a tensor\)$",
        "int() of a tensor",
        "make it a whole number in the graph: t.long().item(), with config.capture_scalar_outputs; or keep the value in a tensor",
    ),
    (
        5,
        r"\(getitem: ",
        "a tensor as index or in a slice",
        "index with x.index_select(0, t) or gather; for a slice x[:t] set config.capture_scalar_outputs",
    ),
    (
        5,
        r"\(formats a tensor\)$",
        "a tensor in a text",
        "return the tensor and format it outside of the compiled function",
    ),
    (
        5,
        r"\((?!item|getitem)\w+: aten\._local_scalar_dense",
        "a tensor in the place of a size or another number",
        "pass t.item() in place of the tensor, and set config.capture_scalar_outputs",
    ),
    (
        5,
        r"\(range\(\) of a tensor\)$",
        "range() of a tensor",
        "loop as often as a size or an int says, or use torch.while_loop",
    ),
    (13, r"UnsupportedOperatorException: (\w+)\.(\w+)\.", "an operator without a fake kernel", _FAKE),
    (
        33,
        r"no fake impl registered for <CustomOpDef\((\w+)::(\w+)\)>",
        "a custom operator without a fake kernel",
        _FAKE,
    ),
)
_compiled: list[tuple[int, re.Pattern[str], str]] = []


def of(number: int, sentence: str, hint: str) -> str:
    """Advice for a break of this reason, with this text; the reason's own hint where nothing better is known."""
    if not _compiled:
        _compiled.extend((number, re.compile(pattern), text) for number, pattern, _, text in ROWS)
    for row, pattern, text in _compiled:
        if row == number and (found := pattern.search(sentence)):
            return text.format(*found.groups())
    return hint
