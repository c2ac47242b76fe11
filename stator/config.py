"""Stator's settings: `stator.config.recompile_limit = 16`, or for a while `with
stator.config.patch(recompile_limit=16): ...`.

Every entry has a type, which assignments are checked against, a default, a text (`config.describe()`) and an
environment variable `STATOR_<NAME>` that is read at import; where TorchDynamo has a variable for the same thing, that
one is read too. Settings hold for the whole process and all of its threads.
"""

import contextlib
import difflib
import functools
import importlib
import os
import pickle
import sys
import types
import warnings
from typing import TYPE_CHECKING, Any

from stator.exc import nearest

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


class Entry:
    def __init__(self, name, default, doc, types, also=(), check=None):
        self.name, self.default, self.doc = name, default, doc
        self.types = types  # the classes that a value may have; a bool is no int, an int is a float
        self.also = also  # further environment variables
        self.check = check  # value -> the value to keep; raises ValueError

    def accept(self, value):
        kind = type(value)
        fits = kind in self.types or (kind is int and float in self.types)
        if not fits and kind is not bool:
            fits = isinstance(value, tuple(t for t in self.types if t is not bool))
        if not fits:
            wanted = " or ".join("None" if t is types.NoneType else t.__name__ for t in self.types)
            raise TypeError(f"stator.config.{self.name} takes {wanted}, not {kind.__name__} ({value!r})")
        if kind is int and int not in self.types:
            value = float(value)
        if self.check is not None:
            try:
                value = self.check(value)
            except ValueError as error:
                raise ValueError(f"stator.config.{self.name}: {error}") from None
        return value

    def parse(self, text, variable):
        """A value from an environment variable's text."""
        for kind in self.types:
            try:
                if kind is bool:
                    low = text.strip().lower()
                    if low in _TRUE or low in _FALSE:
                        return low in _TRUE
                elif kind is types.NoneType:
                    if text.strip().lower() in ("", "none"):
                        return None
                else:
                    return self.accept(kind(text))
            except ValueError:
                continue
        raise ValueError(f"{variable}={text!r} does not fit stator.config.{self.name} ({self.doc})")


def _at_least(least):
    def check(value):
        if value is not None and value < least:
            raise ValueError(f"{value} is less than {least}")
        return value

    return check


def _one_of(*allowed):
    def check(value):
        if value not in allowed:
            near = nearest(value, [a for a in allowed if a is not None])
            hint = f"; did you mean {near!r}?" if near else ""
            raise ValueError(f"{value!r} is none of {', '.join(map(repr, allowed))}{hint}")
        return value

    return check


def _break_every(value):
    text = str(value).strip()
    kind, _, seed = text.partition(":")
    if text.isdecimal() or (kind == "random" and seed.isdecimal()):
        return text
    raise ValueError(f'{value!r} is neither "0" nor "n" nor "random:seed"')


def _ddp(value):
    named = {"ddp_optimizer": True, "no_optimization": False}.get(value, value)
    if not isinstance(named, bool):
        raise ValueError(f"{value!r} needs TorchDynamo's compiled autograd, which is not here: True or False")
    return named


def _regions(value):
    if isinstance(value, str):
        return _one_of("auto", "always", "off")(value)
    classes = (value,) if isinstance(value, type) else tuple(value)
    for each in classes:
        if not isinstance(each, type):
            raise ValueError(f"{each!r} is no class")
    if not classes:
        raise ValueError("no class is named")
    return classes


if TYPE_CHECKING:  # the table's entries are attributes of this module

    def __getattr__(name: str) -> Any: ...


_ENTRIES: dict[str, Any] = {}


def _entry(name, default, doc, *kinds, also=(), check=None):
    _ENTRIES[name] = Entry(name, default, doc, kinds or (type(default),), also, check)


# One line each, so that the table can be read.
# fmt: off
_NONE: type = types.NoneType
_entry("recompile_limit", 8, "variants of one function and backend, then new cases run eagerly", check=_at_least(0))
_entry("accumulated_recompile_limit", 256, "variants of one function over all of its compiled objects", check=_at_least(0))
_entry("fail_on_recompile_limit_hit", False, "raise FailOnRecompileLimitHit at the limit")
_entry("error_on_recompile", False, "raise RecompileError whenever a function is captured again")
_entry("strict", False, "raise InternalError where Stator is wrong, and do not run the call eagerly")
_entry("suppress_errors", False, "a backend that fails: warn and run eagerly", also=("TORCHDYNAMO_SUPPRESS_ERRORS",))
_entry("verbose", False, "longer messages, full tracebacks", also=("TORCHDYNAMO_VERBOSE",))
_entry("disable", False, "stator.compile returns its argument", also=("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"))
_entry("break_every", "0", 'force an exit at every n-th legal offset: "0", "n" or "random:seed"', str, int, check=_break_every)
_entry("automatic_dynamic_shapes", True, "a size that changed at a recompile becomes dynamic", also=("TORCH_DYNAMO_AUTOMATIC_DYNAMIC_SHAPES",))
_entry("assume_static_by_default", True, "sizes are static until they change or are marked")
_entry("automatic_dynamic_shapes_mark_as", "dynamic", 'what a size that changed becomes: "dynamic" (0 and 1 apart), or "unbacked" (nothing is decided on it)', check=_one_of("dynamic", "unbacked"))
_entry("force_parameter_static_shapes", True, "sizes of parameters are constants; off: those of parameters that are no module's become dynamic like others")
_entry("specialize_int", False, "ints from outside are always constants")
_entry("specialize_float", False, "floats from outside are always constants")
_entry("capture_scalar_outputs", False, "item() gives a symbolic scalar, not a break", also=("TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS",))
_entry("capture_dynamic_output_shape_ops", False, "nonzero() and its like stay in the graph", also=("TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS",))
_entry("specialize_modules", False, "modules by identity, parameters as attributes of the graph: one graph for each instance")
_entry("guard_nn_modules", True, "guard what is read of modules")
_entry("skip_fsdp_guards", True, "no guards on the insides of modules that FSDP manages")
_entry("skip_nnmodule_hook_guards", False, "no guards on the absence of hooks: modules without hooks are taken to stay so (TorchDynamo's default)")
_entry("trace_numpy", True, "NumPy's functions and arrays are parts of graphs; off: they run in Python, and graphs end before them")
_entry("allow_rnn", False, "recurrent layers on a CPU are in the graphs that inductor and aot_eager get, which write out each step; fullgraph=True and other backends get them in any case")
_entry("only_allow_pt2_compliant_ops", False, "operators of torch.ops without torch's tag pt2_compliant_tag stay outside of graphs")
_entry("trace_limit_instructions", 5_000_000, "bytecode instructions of one capture", check=_at_least(1))
_entry("trace_limit_nodes", 100_000, "graph nodes of one capture", check=_at_least(1))
_entry("trace_limit_seconds", 60.0, "seconds of one capture", check=_at_least(0))
_entry("repro_after", None, "write a repro when this stage fails: dynamo (captured graphs), aot (behind AOTAutograd), auto (the innermost that fails)", str, _NONE, also=("TORCHDYNAMO_REPRO_AFTER",), check=_one_of(None, "dynamo", "aot", "auto"))
_entry("repro_level", 2, "1 on an exception, 2 the same and offer to minify, 3 always before running, 4 when results differ from eager", also=("TORCHDYNAMO_REPRO_LEVEL",), check=_one_of(1, 2, 3, 4))
_entry("repro_ignore_non_fp", False, "level 4 looks at floating outputs alone: rounding turns into whole numbers and truth values", also=("TORCHDYNAMO_REPRO_IGNORE_NON_FP",))
_entry("repro_accuracy_error", True, "level 4: a wrong result is an AccuracyError; off: a warning, and the program goes on")
_entry("same_two_models_use_fp64", True, "results are judged by a run in double precision; off: by eager's alone, which takes less memory")
_entry("replay_record_enabled", False, "a capture that raises leaves a record, which stator.replay(file) runs again", also=("TORCH_COMPILE_REPLAY_RECORD",))
_entry("dynamic_sources", "", "inputs whose sizes are dynamic from the start, by name or regular expression: L['x'], L\\['x.*'\\]:0 (dim 0 alone), ...", also=("TORCH_COMPILE_DYNAMIC_SOURCES",))
_entry("unbacked_sources", "", "the same for sizes on which nothing may be decided", also=("TORCH_COMPILE_UNBACKED_SOURCES",))
_entry("reorderable_logging_functions", frozenset(), "functions such as print that run behind the captured part, with the values of their own moment; no break", set, frozenset, check=frozenset)
_entry("ignore_logging_functions", frozenset(), "functions and methods of loggers that are left out of compiled code; no break", set, frozenset, check=frozenset)
_entry("verify_correctness", False, "the first run of each compiled graph is compared with the graph as it was captured; a difference is an error")
_entry("debug_backend_override", "", 'another backend for some graphs, by number: ">10:eager;0,3-5:aot_eager"', also=("TORCH_COMPILE_OVERRIDE_BACKENDS",))
_entry("enable_compiler_collectives", False, "ranks agree on each capture before it is compiled: one program on all, sizes that differ dynamic", also=("TORCH_COMPILER_COLLECTIVES",))
_entry("compiler_collectives_timeout", 300.0, "seconds that a rank waits for the others to come to the same capture", check=_at_least(0.1))
_entry("on_divergence", "error", 'ranks that capture different programs: "error", or "eager": the call runs eagerly on all', check=_one_of("error", "eager"))
_entry("log_captures", False, "log a digest of each capture by rank (logger stator.captures)")
_entry("trace_dir", None, "a folder where each rank writes its captures, rank<n>.jsonl; python -m stator ranks <folder> compares them", str, _NONE)
_entry("optimize_ddp", True, "inside of DistributedDataParallel graphs are split at the bounds of its buckets", bool, str, check=_ddp)
_entry("cache", True, "what backends make of graphs is kept on the disk, and found again by later processes (docs/CACHE.md)")
_entry("cache_dir", None, "the folder for it; None: stator in the user's cache folder", str, _NONE)
_entry("cache_limit", 4096, "MiB that the folder may take; what was used least lately is dropped first", check=_at_least(1))
_entry("automatic_dynamic_local_pgo", True, "which sizes and ints turned dynamic is kept there too, with inductor, or with any backend if job_id is set", also=("TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO",))
_entry("job_id", None, "runs of one job learn from each other, and from no others", str, _NONE, also=("TORCH_COMPILE_JOB_ID", "TORCH_COMPILE_STICKY_PGO_KEY"))
_entry("guard_collectives", False, "ranks agree on each look-up: a hit on all, or a capture on all (set_enable_guard_collectives)")
_entry("regions", "auto", 'parts of a graph that repeat are compiled once: "auto" where it pays, "always", "off", or module classes (docs/REGIONS.md)', str, type, list, tuple, check=_regions)
_entry("report", None, "a file that gets a report of what was captured when the process ends: a page, or JSON if the name ends so (docs/REPORT.md)", str, _NONE)
# fmt: on
del _entry

_ALIASES = {
    "ignore_logger_methods": "ignore_logging_functions",
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
    "fail_on_cache_limit_hit": "fail_on_recompile_limit_hit",
}
_OTHER_NAMES: dict[str, list[str]] = {}
for _alias, _name in _ALIASES.items():
    _OTHER_NAMES.setdefault(_name, []).append(_alias)


def _from_environment(entry):
    for variable in ("STATOR_" + entry.name.upper(), *entry.also):
        # One that is set to nothing is taken for not set, as shells mean it.
        if os.environ.get(variable):
            return entry.parse(os.environ[variable], variable)
    return entry.default


_ASKED = ("dynamic_sources", "unbacked_sources", "reorderable_logging_functions", "ignore_logging_functions")


def _push(name, value):
    """C++ keeps its own copy of what it reads. It takes every entry and keeps those it knows."""
    if _native is None:
        return
    _native(name, value)
    if name == "report" and value:
        importlib.import_module("stator.recording").begin_at_start(value)
    if name in _ASKED and (value or "stator._asked" in sys.modules):
        importlib.import_module("stator._asked").changed(name)


_native = None


def _connect(set_config):
    """Called once the binary is loaded: gives it all values, now and whenever one changes."""
    global _native
    _native = set_config
    for name, value in _values.items():
        _push(name, value)


class _Patch:
    """Settings for a while: a context manager, re-entrant, and a decorator of functions and unittest classes."""

    def __init__(self, changes):
        self.changes = {_config._known(name).name: value for name, value in changes.items()}
        for name, value in self.changes.items():
            _ENTRIES[name].accept(value)
        self.saved = []

    def __enter__(self):
        self.saved.append({name: _values[name] for name in self.changes})
        for name, value in self.changes.items():
            setattr(_config, name, value)

    def __exit__(self, *_):
        for name, value in self.saved.pop().items():
            setattr(_config, name, value)

    def __call__(self, target):
        if isinstance(target, type):
            import unittest

            if not issubclass(target, unittest.TestCase):
                raise TypeError("config.patch decorates functions and unittest.TestCase classes")
            return self._decorate_tests(target)

        @functools.wraps(target)
        def patched(*args, **kwargs):
            with self:
                return target(*args, **kwargs)

        return patched

    def _decorate_tests(self, cls):
        patch, set_up = self, cls.setUpClass.__func__

        @classmethod
        def setUpClass(cls):
            with contextlib.ExitStack() as undo:
                undo.enter_context(patch)
                set_up(cls)
                cls.addClassCleanup(undo.pop_all().close)

        cls.setUpClass = setUpClass
        return cls


class _Config(types.ModuleType):
    def _known(self, name):
        entry = _ENTRIES.get(_ALIASES.get(name, name))
        if entry is None:
            near = nearest(name, [*_ENTRIES, *_ALIASES])
            hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join(_ENTRIES)}"
            raise AttributeError(f"stator.config has no entry {name!r}{hint}")
        return entry

    def __getattr__(self, name):
        # Entries are attributes of the module, so that compiled code may read them like those of any other: this is for
        # what is none.
        if name.startswith("__"):
            raise AttributeError(name)
        return _values[self._known(name).name]

    def __setattr__(self, name, value):
        if name.startswith("__") or (name in self.__dict__ and name not in _ENTRIES and name not in _ALIASES):
            return super().__setattr__(name, value)
        entry = self._known(name)
        value = entry.accept(value)
        caches = sys.modules.get("stator._caches")
        if caches is not None and _values[entry.name] != value:
            caches.forget_kept()
        _values[entry.name] = value
        self._show(entry.name, value)
        _push(entry.name, value)

    def _show(self, name, value):
        self.__dict__[name] = value
        for alias in _OTHER_NAMES.get(name, ()):
            self.__dict__[alias] = value

    def __delattr__(self, name):
        entry = self._known(name)
        setattr(self, entry.name, entry.default)

    def __dir__(self):
        return sorted([*_ENTRIES, "patch", "describe", "get_config_copy", "load_config", "save_config"])

    def patch(self, arg1=None, arg2=None, **changes):
        """patch(name=value, ...), patch({name: value, ...}) or patch("name", value)."""
        if isinstance(arg1, str):
            changes[arg1] = arg2
        elif isinstance(arg1, dict) and arg2 is None:
            changes = {**arg1, **changes}
        elif arg1 is not None or arg2 is not None:
            raise TypeError("config.patch takes keywords, a dict, or a name and a value")
        if not changes:
            raise TypeError("config.patch without changes")
        return _Patch(changes)

    def get_config_copy(self):
        """All entries with their present values, as a dict."""
        return dict(_values)

    shallow_copy_dict = to_dict = get_config_copy

    def save_config(self):
        """All values as bytes, for load_config."""
        return pickle.dumps(_values, protocol=2)

    def load_config(self, saved):
        """Sets what get_config_copy or save_config gave. Nothing is set if anything in it does not fit."""
        if isinstance(saved, bytes):
            saved = pickle.loads(saved)
        checked = {self._known(name): value for name, value in saved.items()}
        for entry, value in checked.items():
            entry.accept(value)
        for entry, value in checked.items():
            setattr(self, entry.name, value)

    def get_type(self, name):
        """The class of an entry's values; a tuple where there are several."""
        kinds = self._known(name).types
        return kinds[0] if len(kinds) == 1 else kinds

    def default(self, name):
        """What an entry is as long as nobody sets it."""
        return self._known(name).default

    def accept(self, name, value):
        """The value as the entry would keep it; raises where an assignment would."""
        return self._known(name).accept(value)

    def describe(self, name=None):
        """What an entry means, its value, default and variable, as text; of all entries without a name."""
        lines = []
        for entry in [self._known(name)] if name else _ENTRIES.values():
            variables = ", ".join(("STATOR_" + entry.name.upper(), *entry.also))
            lines.append(f"{entry.name} = {_values[entry.name]!r}  (default {entry.default!r}; {variables})")
            lines.append(f"    {entry.doc}")
        return "\n".join(lines)


_values = {entry.name: _from_environment(entry) for entry in _ENTRIES.values()}
_config = sys.modules[__name__]
_config.__class__ = _Config
for _name in _values:
    _config._show(_name, _values[_name])


def _answer_variables():
    """A variable that is named like one of Stator's and is none is a slip, which would pass in silence."""
    others = ("STATOR_BISECT", "STATOR_DEBUG_DIR", "STATOR_FAIL_AT", "STATOR_MINIFY")
    for name in os.environ:
        if not name.startswith("STATOR_") or name.startswith("STATOR_TEST_"):
            continue
        if name in others or name[7:].lower() in _ENTRIES:
            continue
        near = nearest(name, [*("STATOR_" + entry.upper() for entry in _ENTRIES), *others])
        hint = f"did you mean {near}?" if near else "stator.config.describe() names all there are"
        warnings.warn(f"the environment variable {name} is none of Stator's; {hint}", stacklevel=2)
    # Torch's own variables are many, and nearly all are none of ours: only a letter or two may differ.
    followed = [also for entry in _ENTRIES.values() for also in entry.also]
    for name in os.environ:
        if name.startswith(("TORCHDYNAMO_", "TORCH_COMPILE_")) and name not in followed:
            for near in difflib.get_close_matches(name, followed, n=1, cutoff=0.95):
                warnings.warn(f"the environment variable {name} is unknown; did you mean {near}?", stacklevel=2)


_answer_variables()
