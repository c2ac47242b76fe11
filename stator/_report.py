"""Texts for the user: breaks, limits and errors, with their place in the program first."""

import collections
import functools
import logging
import sys
import warnings

from stator import exc

log = logging.getLogger("stator")
FORBIDDEN = 26  # in src/breaks/reasons.def
breaks = (
    collections.Counter()
)  # "reason name, place" -> how often; texts, which the collector does not count among its objects


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


# ---- TORCH_LOGS: the words of TorchDynamo's, under the names of its loggers, which users and tools know


@functools.cache
def _artifact(module, word):
    import torch._logging

    return torch._logging.getArtifactLogger(module, word)


def _recompiles():
    return _artifact("torch._dynamo.guards", "recompiles")


def _guards():
    return _artifact("torch._dynamo.guards", "guards")


_dynamic = logging.getLogger("torch.fx.experimental.symbolic_shapes")  # the word `dynamic`


def wanted_logs():
    """A mask: see LogWord in src/runtime/reports.h."""
    return (
        (1 if _recompiles().isEnabledFor(logging.DEBUG) else 0)
        | (2 if _guards().isEnabledFor(logging.DEBUG) else 0)
        | (4 if _dynamic.isEnabledFor(logging.INFO) else 0)
    )


def graph_made(graph_module):
    code = _artifact("torch._dynamo.output_graph", "graph_code")
    if code.isEnabledFor(logging.DEBUG):
        code.debug("TRACED GRAPH\n%s", graph_module.print_readable(print_output=False))


def recompiled(place, failed_guards, symbols, seconds, entries, limit):
    """One place has one entry more. failed_guards: of each older entry, most recent first."""
    reasons = []
    for line in failed_guards.splitlines():
        now_dynamic = any(name and name in line for name in symbols.splitlines())
        reasons.append(f"{line} -> now dynamic" if now_dynamic else line)
    _recompiles().debug(
        "%s: captured once more (entry %d of at most %d, %.1f ms):\n%s",
        place, entries, limit, seconds * 1e3, "\n".join(f"    - {reason}" for reason in reasons),
    )  # fmt: skip
    if entries == limit:
        log.info(
            "%s: the last of %d entries is taken; further cases run eagerly. What differed:\n%s\n  Make these values constant, mark them "
            "dynamic (stator.mark_dynamic), or raise stator.config.recompile_limit.",
            place, limit, "\n".join(f"    - {reason}" for reason in reasons),
        )  # fmt: skip


def guards_made(place, guards, symbols):
    _guards().debug("%s: guards\n%s", place, guards)
    for name in symbols.splitlines():
        _dynamic.info("%s: %s is a symbol", place, name)


def graph_break(place, sentence, number, name, hint):
    breaks[f"{name}, {place}"] += 1
    count("graph_break", sentence)
    _artifact("torch._dynamo.symbolic_convert", "graph_breaks").debug(
        "%s: graph break: %s [break reason %d]", place, sentence, number
    )
    log.debug("%s: graph break: %s [break reason %d]", place, sentence, number)


def recompile_limit(place, guard, limit, fullgraph):
    text = (
        f"{place}: captured {limit} times, and no entry fits this call (the last one fails at: {guard.splitlines()[0] if guard else 'unknown'}). "
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
