"""Settings that a program or a library makes in torch._dynamo.config and torch.compiler.config hold for Stator too, or
are answered.

Only changes are taken over, so that what is set in stator.config itself stays until torch's entry of the same name
changes. Called at each compile call, and before each capture where torch._dynamo.config has been loaded by somebody.
"""

import functools
import os

from torch.utils._config_module import _UNSET_SENTINEL

from stator import _answers, _dynamo_settings, _torch_versions, config
from stator._loaded import loaded

_followed: dict[str, "_Followed"] = {}  # by the name of a config module


class _Followed:
    """One of torch's config modules, with what its entries were set to the last time: an entry that nobody has set
    costs one look."""

    def __init__(self, theirs):
        self.title = theirs.__name__
        entries = {name: entry for name, entry in theirs._config.items() if entry.alias is None}
        self.names = list(entries)
        self.asks = [_torch_versions.user_setting(entry) for entry in entries.values()]
        self.before = [_UNSET_SENTINEL] * len(self.names)
        self.values = [_without(entry) for entry in entries.values()]
        self.defaults = list(self.values)
        self.ours = {}  # what Stator's entry was before theirs was set
        # What can be changed in place is compared by its contents.
        self.mutable = [i for i, value in enumerate(self.values) if isinstance(value, (set, dict, list))]

    def follow(self):
        now = [ask() for ask in self.asks]
        for i, value in enumerate(now):
            if value is not self.before[i]:
                self.before[i] = value
                self._look(i, value)
        for i in self.mutable:
            if now[i] is not _UNSET_SENTINEL:
                self._look(i, now[i])

    def _look(self, i, value):
        if value is _UNSET_SENTINEL:
            value = self.defaults[i]
        if value == self.values[i]:
            return
        self.values[i] = value.copy() if isinstance(value, (set, dict, list)) else value
        name = self.names[i]
        if value == self.defaults[i] and name in self.ours:
            setattr(config, name, self.ours.pop(name))  # Stator's own, which need not be theirs
        elif value != self.defaults[i]:
            self._take_over(name, value)

    def _take_over(self, name, value):
        title = f"{self.title}.{name} = {value!r}"
        if name in config.get_config_copy():
            try:
                self.ours.setdefault(name, getattr(config, name))
                setattr(config, name, value)
            except (TypeError, ValueError) as error:
                _answers.once(title, str(error), stacklevel=6)
        elif (answered := _dynamo_settings.answer(name, value)) is not None:
            _answers.once(title, *answered, stacklevel=6)


def _without(entry):
    """What an entry is where nobody has set it in this process: by its environment variable, or its default."""
    for value in (entry.env_value_force, entry.env_value_default):
        if value is not _UNSET_SENTINEL:
            return value
    return entry.default


def follow(theirs):
    if loaded(theirs.__name__) is None:
        return
    found = _followed.get(theirs.__name__)
    if found is None:
        found = _followed[theirs.__name__] = _Followed(theirs)
    found.follow()


@functools.cache
def answer_variables():
    """What the environment asks of TorchDynamo and is not done here: a setting that is made there is nobody's
    change."""
    for variable, name in _dynamo_settings.VARIABLES.items():
        text = os.environ.get(variable, "")
        if text not in ("", "0") and (answered := _dynamo_settings.answer(name, True)) is not None:
            _answers.once(f"{variable}={text}", *answered, stacklevel=6)


def follow_all():
    answer_variables()
    for name in ("torch._dynamo.config", "torch.compiler.config"):
        theirs = loaded(name)
        if theirs is not None:
            follow(theirs)
