"""Settings that a program or a library makes in torch._dynamo.config hold for Stator too.

Only changes are taken over, so that what is set in stator.config itself stays until torch's entry of the same name changes. Called
before each capture, and only where torch._dynamo.config has been loaded by somebody.
"""

from stator import config

_seen = None  # name -> the value that torch's entry had the last time


def _shared(theirs):
    known = {}
    defaults = getattr(theirs, "_config", {})
    for name in config.get_config_copy():
        if name in defaults:
            known[name] = defaults[name].default
    return known


def follow(theirs):
    global _seen
    if _seen is None:
        _seen = _shared(theirs)
    for name, before in _seen.items():
        now = getattr(theirs, name)
        if now is before or now == before:
            continue
        _seen[name] = now
        try:
            setattr(config, name, now)
        except (TypeError, ValueError):
            pass  # a value that means nothing here
