"""Backends: finding one by name, and calling it with a captured graph.

A backend is any callable `(graph_module, example_inputs) -> callable`. "eager" is known here, so that it needs no
import of torch._dynamo; "inductor" is looked up when the first graph arrives, since importing it takes a second; all
other names are those of torch's registry, entry points included.
"""

import contextlib
import os
import sys
import warnings

from stator import (
    _answers,
    _buckets,
    _compilations,
    _compile_ids,
    _core,
    _cuda_graphs,
    _logs,
    _observe,
    _torch_bisector,
    config,
    exc,
)
from stator._loaded import loaded
from stator.exc import nearest

_own = {}
_AUTO, _ALWAYS = (
    (4, 8, 1),
    (2, 1),
)  # regions: least repeats, least calls of each; 1: whole if it fails (docs/REGIONS.md)
_bisecting = "STATOR_BISECT" in os.environ  # see stator/debug/_bisect.py


_ALL_BACKENDS = ("guard_filter_fn", "use_aoti", "regions")  # options that are not the backend's


def _eager(graph_module, example_inputs, **options):
    """The captured graph as it is."""
    for option, value in options.items():
        given = f" {sorted(map(str, value))}" if isinstance(value, dict) else ""
        near = next(filter(None, (nearest(str(key), _ALL_BACKENDS) for key in value)), None) if given else None
        hint = f"; did you mean {near!r}?" if near else ""
        warnings.warn(f"backend eager ignores {option}{given}{hint}", stacklevel=2)
    return graph_module.forward


_eager.__name__ = _eager.__qualname__ = "eager"
_eager._tags = ("debug",)  # type: ignore[attr-defined]  # as in torch's registry
_own["eager"] = _eager


def _planted_fault(graph_module, example_inputs, **options):
    """Fails in a chosen way on a chosen operator (stator/debug/faults.py)."""
    from stator.debug.faults import planted_fault

    return planted_fault(graph_module, example_inputs, **options)


_planted_fault.__name__ = _planted_fault.__qualname__ = "planted_fault"
_planted_fault._tags = ("debug",)  # type: ignore[attr-defined]
_own["planted_fault"] = _planted_fault


def register_backend(compiler_fn=None, name=None, tags=()):
    """Makes a backend known under a name, its own by default. Usable as a decorator."""
    if compiler_fn is None:
        return lambda fn: register_backend(fn, name=name, tags=tags)
    if not callable(compiler_fn):
        raise TypeError(f"a backend is a callable, not {type(compiler_fn).__name__}")
    name = name or compiler_fn.__name__
    if name in _own and _own[name] is not compiler_fn:
        raise ValueError(f"there is a backend {name!r} already")
    _own[name] = compiler_fn
    with contextlib.suppress(AttributeError):  # a callable without attributes has no tags
        compiler_fn._tags = tuple(tags)
    return compiler_fn


def _torch_registry():
    # Its dicts and not its functions: torch's functions may have been routed here (stator.install), its data is never.
    from torch._dynamo.backends import registry

    registry._lazy_import()
    return registry


def _known_names():
    return sorted({*_own, *_torch_registry()._BACKENDS})


def list_backends(exclude_tags=("debug", "experimental")):
    """Names that stator.compile(..., backend=name) takes; without the debug and experimental ones unless exclude_tags
    is None."""
    registry = _torch_registry()
    excluded = set(exclude_tags or ())
    functions = {**registry._COMPILER_FNS, **_own}
    return [n for n in _known_names() if not excluded.intersection(getattr(functions.get(n), "_tags", ()))]


def lookup_backend(backend):
    """The function behind a backend's name; a callable is returned as it is."""
    if not isinstance(backend, str):
        return backend
    if backend in _own:
        return _own[backend]
    registry = _torch_registry()
    if backend == "inductor":
        from torch._dynamo.backends.inductor import inductor  # torch's registry may have been told of another function

        return inductor
    if backend not in registry._COMPILER_FNS and registry._BACKENDS.get(backend) is not None:
        registry._COMPILER_FNS[backend] = registry._BACKENDS[backend].load()  # an installed package's entry point
    try:
        return registry._COMPILER_FNS[backend]
    except KeyError:
        raise exc.InvalidBackend(backend, _known_names()) from None


_default = None  # set here; otherwise torch's


def _default_backend():
    registry = loaded("torch._dynamo.backends.registry")
    if _default or registry is None:
        return _default or "inductor"
    from stator import _torch_versions

    return _torch_versions.default_backend(registry)


def set_default_backend(backend):
    """The backend of compile calls that name none; None: inductor again."""
    global _default
    if backend is not None and not callable(backend):
        lookup_backend(backend)
    _default = backend


def get_default_backend():
    return _default_backend()


def _check_inductor(mode, options, dynamic):
    """Raises for a mode or option that inductor does not have, with the nearest one that it has."""
    from torch._inductor import config, list_mode_options

    modes = list_mode_options(None, dynamic)
    if mode is not None and mode not in modes:
        near = exc.nearest(mode, modes)
        hint = f"; did you mean {near!r}?" if near else ""
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(modes)}{hint}")
    known = config.get_config_copy() if options else {}
    for name in options or ():
        if name.replace("-", "_") not in known:
            near = exc.nearest(name, known)
            hint = f"; did you mean {near!r}?" if near else "; torch._inductor.list_options() lists all"
            raise RuntimeError(f"Unexpected optimization option {name}{hint}")


class Backend:
    """A backend with its mode and options, as one compile call named them. Equal calls give equal keys."""

    def __init__(self, backend, mode, options, dynamic, name, file=None):
        if backend is None:
            backend = _default_backend()
        if not isinstance(backend, str) and not callable(backend):
            raise TypeError(f"backend is a name or a callable, not {type(backend).__name__}")
        if mode is not None and not isinstance(mode, str):
            raise TypeError(f"mode is a name, not {type(mode).__name__}")
        if options is not None and not isinstance(options, dict):
            raise TypeError(f"options is a dict, not {type(options).__name__}")
        options = dict(options or {})
        self.guard_filter_fn = options.pop("guard_filter_fn", None)
        if self.guard_filter_fn is not None and not callable(self.guard_filter_fn):
            raise TypeError(f"options['guard_filter_fn'] is a callable, not {self.guard_filter_fn!r}")
        self.use_aoti = options.pop("use_aoti", False)
        if self.use_aoti not in (True, False):
            raise TypeError(f"options['use_aoti'] is True or False, not {self.use_aoti!r}")
        if self.use_aoti and backend != "inductor":
            _answers.once("options={'use_aoti': True}", "the backend is not inductor", "leave it out")
        self._regions = options.pop("regions", None)
        if self._regions is not None:
            self._regions = config.accept("regions", self._regions)
        self.asked, self.mode, self.options = backend, mode, options
        self.dynamic, self.region = dynamic, name
        self.file = file  # of stator.load
        self.function = None
        if backend != "inductor":
            self.function = lookup_backend(backend)
        elif options or mode not in (None, "default"):
            _check_inductor(mode, options, dynamic)
            self._resolve()  # checks the options' types
        self.compiler_name = (
            backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
        )
        self.__name__ = self.compiler_name

    def key(self):
        mode = None if self.mode == "default" else self.mode
        return (_by_value(self.asked), mode, _by_value(self.options), self.region,
                _by_value(self.guard_filter_fn), self.use_aoti, _by_value(self._regions), id(self.file))  # fmt: skip

    def _inductor(self):
        """inductor with its configuration: torch's own object, which knows what each mode and option sets."""
        import torch

        from stator import _torch_versions

        kind = torch._TorchCompileAOTInductorWrapper if self.use_aoti else torch._TorchCompileInductorWrapper
        return _torch_versions.inductor_with(kind, self.mode, self.options, self.dynamic, self.region)

    def _resolve(self):
        self.function = self._inductor()

    def configuration(self):
        """What the backend's own configuration is, if it has one: of inductor all settings."""
        function = self._inductor() if self.asked == "inductor" else self.function
        ask = getattr(function, "get_compiler_config", None)
        return None if ask is None else ask()

    @property
    def is_eager(self):
        """The captured graph runs as it is: no backend has to be called, and nothing imported for one."""
        as_it_is = self.function is _eager and not self.options and self.mode is None
        return as_it_is and not config.debug_backend_override

    @property
    def takes_no_floats(self):
        """Floats are constants of the graph: CUDA graphs take nothing from the CPU."""
        return _cuda_graphs.are_used(self)

    @property
    def is_aot_autograd(self):
        """AOTAutograd traces the graph once more. A float that is an input of the graph is a tensor of one double,
        which the graph reads: a pass of AOTAutograd's computes with the tensor, as it does for TorchDynamo's graphs."""
        return isinstance(self.asked, str) and (self.asked == "inductor" or self.asked.startswith("aot_eager"))

    @property
    def differentiates(self):
        """It makes one function of autograd's of each graph."""
        return self.is_aot_autograd or type(self.function).__qualname__ == "AotAutograd"

    @property
    def exports(self):
        """Its graphs are to serve all sizes: comparisons of sizes, and sizes that are given out, are values of the
        graph."""
        return getattr(self.asked, "exports", False)

    @property
    def is_watched(self):
        """Somebody gets to see every graph."""
        return _observe.has_listeners() or _logs.wants_graphs() or _compile_ids.tracing()

    @property
    def runs_unseen(self):
        """The captured graph runs as it is, and nobody looks at it: no module has to be made of it."""
        return self.is_eager and not (self.is_watched or loaded("torch._dynamo.utils") is not None)

    def disk_settings(self):
        """All that what it makes depends on beside the graph, as bytes; None: what it makes is not kept on the disk."""
        if self.asked != "inductor" or self.use_aoti or config.repro_after is not None or _bisecting:
            return None
        if _buckets.at_bucket_bounds(None) is not None:
            return None
        if (not config.cache and self.file is None) or config.debug_backend_override or _torch_bisector.under_way():
            return None
        from stator import _disk

        return _disk.settings(self.mode, self.options, self.dynamic)

    def find_kept(self, key):
        """What an earlier process made, by its key: of the file that was loaded, or in the cache folder. None:
        nothing."""
        from stator import _disk

        found = self.file.find(key) if self.file is not None else None
        return _disk.load(key) if found is None and config.cache else found

    def learned_place(self):
        """Where which sizes turned dynamic is kept: (folder or None, job, what a loaded file has of it); None: nowhere.

        It is kept beside what inductor makes; with other backends a capture costs little, unless somebody says which
        runs are one job.
        """
        given = self.file.learned if self.file is not None else None
        theirs = sys.modules.get(
            "torch.compiler.config"
        )  # which is followed at compile calls, and may change between them
        job = getattr(theirs, "job_id", None) or config.job_id
        kept = config.cache and config.automatic_dynamic_local_pgo and (self.asked == "inductor" or job)
        if not kept:
            return None if given is None else (None, "", given)
        from stator import _disk

        return _disk.folder(), job or "", given

    @property
    def regions(self):
        """Which parts of a graph are compiled once for all their uses: None, the least (repeats, calls) of a part,
        classes of modules, or no more than what is marked (an empty tuple)."""
        asked = self._regions if self._regions is not None else config.regions
        if asked == "off" or self.is_eager:
            return None
        # Whoever looks for a fault wants the graph as it is, and the bounds of buckets are cuts already.
        if config.repro_after is not None or _bisecting or _torch_bisector.under_way() or _buckets.are_cut():
            return None
        if asked == "auto":
            plain = self.asked == "inductor" and self.mode in (None, "default") and not self.use_aoti
            return _AUTO if plain or self.shows_regions else ()
        return _ALWAYS if asked == "always" else asked

    @property
    def shows_regions(self):
        """Regions are looked for and reported, but the graph goes to the backend whole."""
        return getattr(self.asked, "shows_regions", False)

    @property
    def draws_seeds(self):
        """Draws the seeds of all random numbers of a graph when the graph begins."""
        return self.asked == "inductor"

    @property
    def writes_unseen(self):
        """Its code writes to inputs in place without counting up their versions. inductor's kernels do."""
        return self.asked == "inductor"

    def count(self, calls):
        """One more graph, in TorchDynamo's counters. No calls: a region that is no graph's first, which is counted with
        that."""
        if calls == 0:
            return
        _logs.count("stats", "unique_graphs")
        _logs.count("stats", "calls_captured", calls)

    def announce(self, graph_module):
        record = getattr(graph_module, "_stator_record", None)
        if record is not None:
            calls = graph_module._stator_calls
            self.count(record.calls if calls is None else calls)
            _compilations.note(
                graph_node_count=record.calls + len(record.inputs) + 1, graph_input_count=len(record.inputs)
            )
        if _logs.wants_graphs():
            from stator import _report

            _report.graph_made(graph_module)
        if _observe.has_listeners():
            _observe.graph_made(graph_module)

    def __call__(self, graph_module, example_inputs):
        """The graph, compiled. Whatever the backend raises comes out as BackendCompilerFailed, but for SkipFrame: then
        the graph runs as it was captured."""
        self.announce(graph_module)
        missed = self.file.missed(graph_module) if self.file is not None else None
        if missed is not None:
            return missed
        if self.function is None:
            self._resolve()
        arguments = {}
        if self.asked != "inductor":
            if self.mode not in (None, "default"):
                arguments["mode"] = self.mode
            if self.options:
                arguments["options"] = self.options
        function = self.function
        if config.debug_backend_override:
            from stator import _backend_checks

            function = _backend_checks.override(function, graph_module, arguments)
        function = _buckets.at_bucket_bounds(function)
        if self.is_aot_autograd:
            function = _with_own_lstm(function)
        state = _core.thread_state()
        try:
            if config.repro_after is None and not _bisecting:
                compiled = _traced(function, graph_module, example_inputs, arguments)
            else:
                from stator.debug import _wrap

                compiled = _wrap.compile_graph(
                    self, lambda gm, examples: _traced(function, gm, examples, arguments), graph_module, example_inputs
                )
            if not callable(compiled):
                raise TypeError(f"the backend returned {type(compiled).__name__}, which is not callable")
            if config.verify_correctness:
                from stator import _backend_checks

                compiled = _backend_checks.verifying(self, graph_module, compiled)
        except exc.RestartAnalysis:
            raise
        except Exception as error:
            from stator import _backend_failures

            return _backend_failures.answer(self, state, graph_module, example_inputs, error)
        return _cuda_graphs.by_steps(compiled) if _cuda_graphs.are_used(self) else compiled

    def reset(self):
        reset = getattr(self.function, "reset", None)
        if reset is not None:
            reset()


def _with_own_lstm(function):
    """AOTAutograd takes oneDNN's LSTM where the input needs no gradient, which has no gradients for the weights then.
    Without oneDNN it writes the layer out."""
    import torch

    if not (torch.is_grad_enabled() and torch._C._get_mkldnn_enabled()):
        return function

    def compile_graph(graph_module, example_inputs, **arguments):
        torch._C._set_mkldnn_enabled(
            not any(getattr(node.target, "__name__", "") == "lstm" for node in graph_module.graph.nodes)
        )
        try:
            return function(graph_module, example_inputs, **arguments)
        finally:
            torch._C._set_mkldnn_enabled(True)

    return compile_graph


def _traced(function, graph_module, example_inputs, arguments):
    """The backend's answer. AOTAutograd asks for a second run where it gave the value of an input (a double of one
    element) a symbol, and needs none then.

    Floats among the inputs are another matter: the graph is captured again without those that the error names.
    """
    try:
        return function(graph_module, example_inputs, **arguments)
    except Exception as error:
        if type(error).__name__ != "TensorifyScalarRestartAnalysis":
            raise
        import torch

        noted = sys.modules["torch._dynamo.symbolic_convert"].TensorifyState
        try:
            if any(isinstance(example, (float, torch.SymFloat)) for example in example_inputs):
                raise
            record = graph_module._stator_record
            if record.floats:
                symbols = record.fake_mode._stator_symbols.floats.items()
                error.stator_floats = [  # type: ignore[attr-defined]
                    record.examples[position] for symbol, position in symbols if noted.should_specialize(str(symbol))
                ]
                raise
            return function(graph_module, example_inputs, **arguments)
        finally:
            noted.clear()


class _ByIdentity:
    """A key for what has no hash of its own; keeps it alive, so that the identity stays taken."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _ByIdentity) and self.value is other.value

    def __hash__(self):
        return id(self.value)


def _by_value(value):
    """A hashable form of an argument, equal exactly for equal arguments of equal types (1, 1.0 and True are three)."""
    if isinstance(value, dict):
        return ("dict", frozenset((_by_value(k), _by_value(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(_by_value(v) for v in value))
    try:
        hash(value)
    except TypeError:
        return _ByIdentity(value)
    return (type(value), value)
