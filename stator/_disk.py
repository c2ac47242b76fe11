"""What backends made of graphs, from the disk: the settings that a key is made of, and callables from files.

A start that finds everything here imports nothing of torch._dynamo, torch._inductor or sympy. Files are written by
stator/_disk_write.py, keys are made in C++ (runtime/disk_cache.cpp). docs/CACHE.md says what is kept, and whom a file
has to come from.
"""

import functools
import logging
import marshal
import os
import sys
import tempfile
import warnings

import torch

from stator import _build_info, _core, _cuda_kernels, _logs, _torch_versions, config
from stator._loaded import loaded

log = logging.getLogger("stator.cache")

# Variables that say where things are kept, what is logged or by how many workers, not what is made. inductor sets some
# itself.
_IRRELEVANT = ("TORCHINDUCTOR_CACHE_DIR", "TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_LOGS_FORMAT", "TORCH_TRACE", "TORCH_HOME",
               "TORCH_COMPILE_DEBUG_DIR", "TORCH_SHOW_CPP_STACKTRACES", "TRITON_CACHE_DIR",
               "TORCH_WARM_POOL", "TORCHINDUCTOR_COMPILE_THREADS", "TORCHINDUCTOR_WORKER_START", "KMP_DUPLICATE_LIB_OK")  # fmt: skip
_ELSEWHERE = (
    "TORCHELASTIC_",
    "TORCH_NCCL_",
    "TORCH_FR_",
    "TORCH_DISTRIBUTED_",
    "TORCH_CPP_LOG_",
    "PYTORCH_CUDA_ALLOC",
    "PYTORCH_TEST",
)
_PREFIXES = (
    "TORCH",
    "PYTORCH",
    "ATEN_",
    "OMP_",
    "KMP_",
    "GOMP_",
    "MKL_",
    "DNNL_",
    "ONEDNN_",
    "INDUCTOR_",
    "AOT_",
    "TRITON_",
)
_NAMES = ("CXX", "CC", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CPATH", "LD_PRELOAD")
# Settings that inductor and AOTAutograd read, if they are there at all: without the module nobody has changed one.
_CONFIGS = (
    "torch._inductor.config",
    "torch._functorch.config",
    "torch._dynamo.config",
    "torch.fx.experimental._config",
)


def folder():
    """Where artifacts lie: as asked for, beside inductor's where the user has put those, or in the user's cache
    folder."""
    if config.cache_dir is not None:
        return os.path.abspath(os.path.expanduser(config.cache_dir))
    base = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")
    if not base or base.startswith(os.path.join(tempfile.gettempdir(), "torchinductor_")):  # set by inductor itself
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(base):  # no home
        return os.path.join(tempfile.gettempdir(), f"stator_{os.getuid()}")
    return os.path.join(base, "stator")


reasons: dict[str, str] = {}  # why what was made of a graph is not kept, by its key
used: dict[str, str] = {}  # the folders of artifacts that this process has read or written, by key


def not_kept(why, key=None):
    log.debug("not kept: %s", why)
    if key is not None:
        reasons[key] = str(why)


_told = False


def warn(text):
    """Once in a process: what is wrong with one file is often wrong with many."""
    global _told
    log.debug("%s", text)
    if not _told:
        _told = True
        warnings.warn(f"stator's cache: {text}; it is ignored, and the graph compiled anew", stacklevel=3)


# ---- what a key is made of


class _NoText(Exception):
    pass


def _text(value):
    """The same for equal values in every process, and for no others."""
    kind = type(value)
    if kind in (type(None), bool, int, str, bytes, float, complex):
        return repr(value)
    if kind in (list, tuple):
        return f"{kind.__name__}({', '.join(map(_text, value))})"
    if kind in (set, frozenset):
        return f"set({', '.join(sorted(map(_text, value)))})"
    if kind is dict:
        return f"dict({', '.join(sorted(f'{_text(key)}: {_text(held)}' for key, held in value.items()))})"
    if kind in (torch.dtype, torch.device):
        return str(value)
    raise _NoText(kind.__name__)


@functools.cache
def versions():
    """Of all that an artifact depends on, as text."""
    import stator

    build = [sys.version, str(torch.__version__), getattr(torch.version, "git_version", None), stator.__version__]
    try:
        facts = os.stat(_core.__file__)
        build += [facts.st_size, facts.st_mtime_ns]  # a build of the same version may make other graphs
    except OSError:
        pass
    return _text([*build, sorted((k, str(v)) for k, v in vars(_build_info).items() if not k.startswith("_"))])


def _changed(module):
    """The settings of a module of torch's that differ from its defaults."""
    changed = {}
    for name, entry in module._config.items():
        value = _torch_versions.user_setting(entry)()
        if value is not _unset() and not (type(value) is type(entry.default) and value == entry.default):
            changed[name] = value
    return changed


@functools.cache
def _unset():
    from torch.utils import _config_module

    return _config_module._UNSET_SENTINEL


def _matters(name, value):
    """Whether a variable may change what inductor makes. It sets some itself, to tools that torch came with."""
    if name in _NAMES:
        return True
    if not name.startswith(_PREFIXES) or name.startswith(_ELSEWHERE) or name in _IRRELEVANT:
        return False
    return not (name.startswith("TRITON_") and value.startswith(os.path.dirname(torch.__file__)))


def settings(mode, options, dynamic):
    """All that inductor's code depends on beside the graph, its inputs and the state of torch that guards know. None:
    it cannot be said."""
    environment = {name: value for name, value in os.environ.items() if _matters(name, value)}
    try:
        made = [mode if mode != "default" else None, options, dynamic, environment, torch.get_num_threads(),
                {name: _changed(sys.modules[name]) for name in _CONFIGS if name in sys.modules}]  # fmt: skip
        made[-1] = {name: changed for name, changed in made[-1].items() if changed}
        made.append(_cuda_kernels.devices())
        return (versions() + _text(made)).encode()
    except _NoText as what:
        not_kept(f"a setting is an object of class {what}")
    except Exception as error:  # another torch may keep its settings in another way
        not_kept(f"settings cannot be read ({type(error).__name__}: {error})")
    return None


# ---- callables from files


def load(key):
    """(callable, guards, conditions, number), as _fx.compile_graph gives it; None if there is nothing under the key, or
    nothing usable."""
    place = folder()
    try:
        found = _core.disk_read(place, key)
        if found is None:
            return None
    except Exception as error:  # a folder that is no text
        return warn(f"{place!r} cannot be read ({type(error).__name__}: {error})")
    if isinstance(found, str):
        return warn(f"{os.path.join(place, key)}.stator: {found}")
    used[key] = place
    return made_of(found, place, f"{os.path.join(place, key)}.stator", key)


def made_of(parts, place, title, key):
    """From an artifact's parts; None if they cannot be used."""
    try:
        facts = marshal.loads(parts[0])
        calls = [_call(parts, part, place) for part in facts["graphs"]]
        compiled = _inference(calls[0], facts) if len(calls) == 1 else _training(calls, facts)
        _count(facts["graphs"])
    except Exception as error:
        return warn(f"{title} cannot be used ({type(error).__name__}: {error})")
    log.debug("found: %s", key)
    return compiled, facts["guards"], facts["conditions"], next(_logs.compile_ids)


def _count(graphs):
    """What comes from a file is counted as if torch's own caches had had it: its counters, and inductor's metrics,
    which count that as what is made."""
    for key in ("total", "autograd_cache_hit", "ok"):
        _logs.count("aot_autograd", key)
    _logs.count("inductor", "fxgraph_cache_hit", len(graphs))
    for graph in graphs:
        for key, by in graph.get("counters", {}).items():
            _logs.count("inductor", key, by)
    metrics = loaded("torch._inductor.metrics")
    for name, count in (row for graph in graphs for row in graph.get("metrics", {}).items()):
        if hasattr(metrics, name):
            setattr(metrics, name, getattr(metrics, name) + count)


def _call(parts, graph, place):
    """The generated code of one graph: `call(inputs)`, which empties the list that it is given."""
    space = {"__name__": "stator.kept", "torch": torch, "extern_kernels": _Kernels(graph["extern"])}
    if graph["kernels"]:
        # inductor's way of telling its kernels where a tensor's data is
        data_pointer = torch._C._dynamo.guards._torchinductor_pyobject_tensor_data_ptr
        os.environ["_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"] = str(data_pointer)
    objects = {}
    for name, part in graph["kernels"]:
        if part not in objects:
            objects[part] = _core.disk_kernel(parts[part], place)
            if isinstance(objects[part], str):
                raise OSError(objects[part])
        space[name] = objects[part]
    for name, facts, part in graph["cuda"]:
        space[name] = _cuda_kernels.Kernel(facts, parts[part])
    exec(marshal.loads(parts[graph["code"]]), space)
    call = space["call"]
    return _cuda_kernels.aligned(call, *graph["aligned"]) if graph["aligned"][0] else call


class _Kernels:
    """In the place of inductor's table of kernels from outside: of torch's own functions, those that the code calls."""

    def __init__(self, names):
        for name, path in names:
            found = torch
            for part in path:
                found = getattr(found, part)
            setattr(self, name, found)


def _inference(call, facts):
    """Without gradients, as AOTAutograd calls it."""
    enabled, enable = torch.is_grad_enabled, torch._C._set_grad_enabled

    def run(*inputs):
        if not enabled():
            return call([*inputs])
        enable(False)
        try:
            return call([*inputs])
        finally:
            enable(True)

    return _around(run, facts)


def _around(run, facts):
    """What AOTAutograd does around a call, where there is anything to do."""
    if facts["autocast"]:
        run = _without_autocast(run)
    written, marks, views = facts["written"], facts["dynamic_outputs"], facts["views"]
    if not written and not marks and not views:
        return run

    def run_around(*inputs):
        if written:
            torch.autograd.graph.increment_version([inputs[i] for i in written])
        outputs = run(*inputs)
        if views:
            outputs = [*outputs]
        for position, base, requires_grad in views:
            base = inputs[base]
            outputs[position] = base if requires_grad is None else _view(base, outputs[position], requires_grad)
        for position, dims in marks:
            known = getattr(outputs[position], "_dynamo_propagated_dynamic_indices", ())
            outputs[position]._dynamo_propagated_dynamic_indices = {*known, *dims}
        return outputs

    return run_around


def _view(base, like, requires_grad):
    """A view of an input, where the graph returns one: a tensor that shares its memory without being known as one."""
    if base.element_size() != like.element_size():
        return like
    made = base if base.dtype == like.dtype else base.view(like.dtype)
    made = made.as_strided(like.size(), like.stride(), like.storage_offset())
    if made.requires_grad and not requires_grad:
        made = made.detach()
    elif requires_grad and not made.requires_grad:
        made.requires_grad_()
    return made


def _without_autocast(run):
    def plainly(*inputs):
        with torch._C._DisableAutocast():
            return run(*inputs)

    return plainly


def _training(calls, facts):
    """With gradients: one node of autograd's around the forward and the backward graph."""
    apply = _node(*calls, facts).apply
    detached, views = facts["detached"], [position for position, _, _ in facts["views"]]

    def run(*inputs):
        inputs = [*inputs]
        for i in detached:
            if isinstance(inputs[i], torch.Tensor):
                inputs[i] = inputs[i].detach()
        replays = torch._C._is_view_replay_enabled()
        torch._C._set_view_replay_enabled(True)
        try:
            unseen = []  # by autograd: what is no result of the graph's own
            with torch.enable_grad():
                outputs = apply(unseen, *inputs)
        finally:
            torch._C._set_view_replay_enabled(replays)
        if not views:
            return outputs
        outputs = [*outputs]
        for position, view in zip(views, unseen, strict=True):
            outputs[position] = view
        return outputs

    return _around(run, facts)


def _node(forward_call, backward_call, facts):
    returned, symbols, tangents = facts["returned"], facts["symbols"], facts["tangents"]
    safe, constant, donated = facts["unsafe_views"], facts["not_differentiable"], facts["donated"]
    views = [position for position, _, _ in facts["views"]]
    formats = [_format(one) for one in facts["formats"]]
    if facts["autocast"]:
        backward_call = _without_autocast(backward_call)

    class KeptGraph(torch.autograd.Function):
        compiled_bw = staticmethod(backward_call)  # as AOTAutograd's class has it

        @staticmethod
        def forward(ctx, unseen, *inputs):
            made = forward_call([*inputs])
            saved = made[returned : len(made) - symbols]
            ctx.save_for_backward(*(x.detach() if x._is_view() else x for x in saved))
            ctx.sizes = made[len(made) - symbols :]
            outputs = [*made[:returned]]
            for i in views:
                unseen.append(outputs[i])
                outputs[i] = None
            for i in safe:
                outputs[i] = torch.ops.aten._unsafe_view(outputs[i], outputs[i].shape)
            ctx.mark_non_differentiable(*(outputs[i] for i in constant if isinstance(outputs[i], torch.Tensor)))
            ctx._materialize_non_diff_grads = False
            return tuple(outputs)

        @staticmethod
        def backward(ctx, *gradients):
            _check_backward(facts)
            saved = ctx.saved_tensors
            if donated and torch._C._autograd._get_current_graph_task_keep_graph():
                # The code writes into them, and another backward is going to read them.
                saved = [x.clone() if i in donated else x for i, x in enumerate(saved)]
            inputs = [*ctx.sizes, *saved]
            inputs += [form(gradients[i]) for i, form in zip(tangents, formats, strict=True)]
            del saved
            if not torch.is_grad_enabled():
                ctx.maybe_clear_saved_tensors()
                return None, *backward_call(inputs)
            return None, *_OnceDifferentiable.apply(backward_call, torch.empty(0, requires_grad=True), *inputs)

    return KeptGraph


class _OnceDifferentiable(torch.autograd.Function):
    """A backward under create_graph: its results require grad, and say so when somebody asks for theirs."""

    @staticmethod
    def forward(ctx, call, _, *inputs):
        return tuple(call([*inputs]))

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")


def _check_backward(facts):
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise RuntimeError("a compiled backward cannot be called inside of vmap, grad or vjp")
    if facts["deterministic"] is False and torch.are_deterministic_algorithms_enabled():
        raise RuntimeError(
            "This compiled backward function is being run with torch.use_deterministic_algorithms(True), but it was previously "
            "generated during the forward function while torch.use_deterministic_algorithms(False) was set."
        )


def _format(expected):
    """Brings a gradient into the form that the backward was compiled for."""
    if isinstance(expected, str):
        memory_format = getattr(torch, expected)

        def by_format(x):
            if not isinstance(x, torch.Tensor) or x.is_contiguous(memory_format=memory_format):
                return _plain(x)
            return _plain(x).contiguous(memory_format=memory_format)

        return by_format
    size, stride = expected

    def by_stride(x):
        if not isinstance(_plain(x), torch.Tensor) or (x.shape == size and x.stride() == stride):
            return x
        made = torch.empty_strided(size, stride, dtype=x.dtype, device=x.device, layout=x.layout)
        return made.copy_(x)

    return by_stride


def _plain(x):
    if isinstance(x, torch.Tensor) and type(x) not in (torch.Tensor, torch.nn.Parameter):
        raise RuntimeError(f"a gradient is a {type(x).__name__}, and the graph was compiled for plain tensors")
    return x
