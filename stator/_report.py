"""Texts for the user: breaks, limits and errors, with their place in the program first."""

import collections
import logging
import warnings

from stator import exc

log = logging.getLogger("stator")
breaks = collections.Counter()  # (reason name, place) -> how often


def raise_unsupported(place, sentence, number, hint):
    text = f"{place}: {sentence}, and fullgraph=True allows no graph break [break reason {number}]"
    if hint:
        text += f"\n  What to do: {hint}."
    raise exc.Unsupported(text)


def graph_break(place, sentence, number, name, hint):
    breaks[name, place] += 1
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


_warned = set()


def internal_error(place, what, strict):
    if strict:
        raise exc.InternalError(f"{place}: {what}")
    if (place, what) not in _warned:
        _warned.add((place, what))
        warnings.warn(f"{place}: an internal error of stator; the call runs eagerly. Please report it: {what}", stacklevel=2)
