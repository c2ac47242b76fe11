"""Texts for the user: breaks, limits and errors, with their place in the program first."""

import collections
import logging
import sys
import warnings

from stator import exc

log = logging.getLogger("stator")
FORBIDDEN = 26  # in src/breaks/reasons.def
breaks = collections.Counter()  # (reason name, place) -> how often


def count(kind, key, by=1):
    """TorchDynamo's counters, which tools and tests read, are kept where somebody has loaded them."""
    theirs = sys.modules.get("torch._dynamo.utils")
    if theirs is not None:
        theirs.counters[kind][key] += by


def raise_unsupported(place, sentence, number, hint, fullgraph):
    if number == FORBIDDEN:
        raise AssertionError(f"{place}: Attempt to trace forbidden callable: {sentence} [break reason {number}]")
    forbids = "fullgraph=True allows no graph break" if fullgraph else "error_on_graph_break makes that an error"
    text = f"{place}: {sentence}, and {forbids} [break reason {number}]"
    if hint:
        text += f"\n  What to do: {hint}."
    raise exc.Unsupported(text)


def graph_break(place, sentence, number, name, hint):
    breaks[name, place] += 1
    count("graph_break", sentence)
    log.debug("%s: graph break: %s [break reason %d]", place, sentence, number)


def recompile_limit(place, guard, limit, fullgraph):
    text = (
        f"{place}: captured {limit} times, and no entry fits this call (the last one fails at: {guard or 'unknown'}). "
        "It runs eagerly from now on where no entry fits. Make that value constant, mark it dynamic, or raise "
        "stator.config.recompile_limit."
    )
    if fullgraph:
        raise exc.FailOnRecompileLimitHit(text)
    warnings.warn(text, stacklevel=2)


def recompile(place, guard, by_stance):
    text = (
        f"{place}: a new capture is needed ("
        + (f"the last entry fails at: {guard}" if guard else "nothing is captured yet")
        + ")"
    )
    if by_stance:
        raise RuntimeError(f"{text}, and the stance is 'fail_on_recompile'")
    raise exc.RecompileError(f"{text}, and config.error_on_recompile is set")


_warned = set()


def internal_error(place, what, strict):
    if strict:
        raise exc.InternalError(f"{place}: {what}")
    if (place, what) not in _warned:
        _warned.add((place, what))
        warnings.warn(
            f"{place}: an internal error of stator; the call runs eagerly. Please report it: {what}", stacklevel=2
        )
