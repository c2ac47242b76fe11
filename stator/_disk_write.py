"""Artifacts from what inductor made: its generated code without what only inductor's own files have, and its compiled
kernels.

Whatever is not known to be simple is not kept: AOTAutograd's run-time wrappers have to have nothing to do, and the code
may name nothing but torch itself and what stator/_disk.py offers.
"""

import ast
import contextlib
import functools
import marshal

import torch
from torch._guards import TracingContext

from stator import _core, _cuda_kernels, _disk, _torch_versions, config


class NotKept(Exception):
    pass


def keep(key, compiled, guards, conditions, context, title=""):
    """Keeps what a backend returned, if it can be: now, or, where the backward is compiled at its first use, then."""
    facts = {
        "guards": guards,
        "conditions": conditions,
        "autocast": torch._C._is_any_autocast_enabled(),
        "title": title,
    }
    serialize = getattr(compiled, "serialize", None)
    if serialize is not None:
        _keep(key, serialize, facts)
    elif getattr(context, "fw_metadata", None) is not None:
        context.disk = (key, facts)
        _watch_backwards()
    else:
        _disk.not_kept("AOTAutograd keeps nothing of it", key)


def _keep(key, entry, facts):
    """Never raises: what fails here costs a later process its time, and no more."""
    with _refusals(key):
        made = _parts(entry(), facts)
        if made.untuned:
            _disk.not_kept("its kernels are timed at its first call", key)
            _cuda_kernels.when_settled(made.untuned, lambda: _write(key, made, facts))
        else:
            _write(key, made, facts)


@contextlib.contextmanager
def _refusals(key):
    try:
        yield
    except NotKept as why:
        _disk.not_kept(why, key)
    except Exception as error:  # torch's inside is not what we know: nothing is kept
        _disk.not_kept(f"{type(error).__name__}: {error}", key)


def _write(key, made, facts):
    with _refusals(key):
        made.add_cuda_kernels()
        facts["graphs"] = made.graphs
        _put(key, [marshal.dumps(facts), *made.parts])


def _put(key, parts):
    place = _disk.folder()
    problem = _core.disk_write(place, key, parts, config.cache_limit << 20)
    if problem is None:
        _disk.log.debug("kept: %s", key)
        _disk.reasons.pop(key, None)
        _disk.used[key] = place
    else:
        _disk.not_kept(f"{place}: {problem}", key)


@functools.cache
def _watch_backwards():
    """AOTAutograd compiles a backward at its first call, and keeps forward and backward together then; so do we."""
    from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache

    save = AOTAutogradCache.save

    def save_and_keep(key, entry, *args, **kwargs):
        save(key, entry, *args, **kwargs)
        ours = getattr(TracingContext.try_get(), "disk", None)
        if ours is not None:
            _keep(ours[0], lambda: entry, ours[1])

    AOTAutogradCache.save = staticmethod(save_and_keep)


def _parts(entry, facts):
    if entry is None:
        raise NotKept("AOTAutograd keeps nothing of it")
    _check_wrappers(entry)
    meta = entry.runtime_metadata
    made = _Parts()
    made.graph(_inductor_graph(entry.compiled_fw))
    facts["written"] = [*meta.mutated_graph_handled_indices_seen_by_autograd] if meta.keep_input_mutations else []
    facts["dynamic_outputs"] = [
        (i, sorted(info.dynamic_dims)) for i, info in enumerate(meta.output_info) if info.dynamic_dims is not None
    ]
    facts["views"] = [
        (i, info.base_idx, info.requires_grad if info.output_type.name == "alias_of_input" else None)
        for i, info in enumerate(meta.output_info)
        if info.output_type.name in _OF_INPUTS
    ]
    if entry.compiled_bw is not None:
        made.graph(_inductor_graph(entry.compiled_bw))
        facts.update(_backward_facts(entry, meta))
    return made


def _backward_facts(entry, meta):
    """What AOTAutograd's node does at a call, as stator/_disk.py's does it."""
    if (
        entry.compiled_bw.backward_state_indices
        or meta.num_tensors_saved_with_no_vc_check
        or meta.num_opaque_objects_saved_for_bw
    ):
        raise NotKept("what its backward is given besides tensors")
    if meta.indices_of_inputs_that_requires_grad_with_mutations_in_bw:
        raise NotKept("a backward that writes to inputs")
    if meta.num_forward != meta.num_forward_returns:
        raise NotKept("states of random generators")
    tangents = [
        i
        for i, info in enumerate(meta.output_info)
        if issubclass(info.raw_type, torch.Tensor)
        and _torch_versions.has_tangent(info)
        and info.output_type.name not in _OF_INPUTS
    ]
    formats = []
    for tangent in meta.subclass_tangent_meta:
        form = tangent.memory_format
        if form is None or len(tangents) != len(meta.subclass_tangent_meta):
            raise NotKept("gradients of an unknown form")
        if form.memory_format is not None:
            formats.append(str(form.memory_format).removeprefix("torch."))
        else:
            formats.append((tuple(map(_int, form.size)), tuple(map(_int, form.stride))))
    return {
        "returned": meta.num_forward_returns,
        "symbols": entry.compiled_bw.num_symints_saved_for_bw_,
        "tangents": tangents,
        "formats": formats,
        "unsafe_views": [*meta.unsafe_view_out_indices],
        "not_differentiable": [i for i, info in enumerate(meta.output_info) if not info.requires_grad],
        "donated": sorted(meta.bw_donated_idxs or ()),
        "detached": [*entry.indices_of_inps_to_detach],
        "deterministic": meta.deterministic,
    }


def _int(value):
    if type(value) is not int:
        raise NotKept("gradients whose sizes vary")
    return value


_OF_INPUTS = ("alias_of_input", "is_input")


def _check_wrappers(entry):
    """AOTAutograd's wrappers have nothing to do at a call beyond what stator/_disk.py does."""
    meta = entry.runtime_metadata
    refused = {
        "tensors of classes of their own": entry.maybe_subclass_meta is not None,
        "inputs that share memory": any(getattr(w, "needs_post_compile", True) for w in entry.dispatch_wrappers),
        "inputs that are written behind the graph": meta.num_mutated_inp_runtime_indices > 0,
        "outputs that share memory with others": meta.num_intermediate_bases > 0,
        "effects in order": bool(meta.tokens) or meta.num_backward_tokens > 0,
        "states of random generators": meta.is_rng_op_functionalized or meta.num_graphsafe_rng_states > 0,
        "a grad mode that changes": meta.grad_enabled_mutation is not None,
        "collectives among inputs": bool(getattr(meta, "act_input_indices", ())),
    }
    for what, there in refused.items():
        if there:
            raise NotKept(what)
    known = {"non_alias", "unsafe_view_alias", "custom_function_view", *_OF_INPUTS}
    if any(info.output_type.name not in known for info in meta.output_info):
        raise NotKept("outputs that share memory with others")


def _inductor_graph(compiled):
    """inductor's own record of a compiled graph."""
    from torch._inductor.codecache import FxGraphCache

    if hasattr(compiled, "result"):  # bundled
        return compiled.result
    key = compiled.fx_graph_cache_info[0]
    wanted = getattr(compiled, "fx_graph_guard_expr", None)
    found = [
        item[0] if isinstance(item, tuple) else item for item in FxGraphCache.iterate_over_candidates(True, None, key)
    ]
    found = [graph for graph in found if graph.guards_expr == wanted]
    if len({graph.source_code for graph in found}) != 1:
        raise NotKept("inductor does not have it in its cache")
    return found[0]


class _Parts:
    """The artifact's parts behind the first, and the graphs that are made of them."""

    def __init__(self):
        self.parts, self.graphs, self.known = [], [], {}
        self.cuda, self.untuned = [], []  # kernels of each graph, by name; those that have several configurations yet

    def add(self, data):
        """The position of the part in the file; equal ones are one."""
        if data not in self.known:
            self.parts.append(data)
            self.known[data] = len(self.parts)
        return self.known[data]

    def graph(self, graph):
        refused = {
            "a device other than CPU and CUDA": set(graph.device_types) - _devices(),
            "CUDA graphs": bool(getattr(graph, "fx_kwargs", {}).get("cudagraphs")),
            "constants": graph.constants or graph.frozen_param_names or graph.torchbind_constants,
            "objects of classes of their own": graph.opaque_value_type_classes,
            "parts of a graph": graph.partition_maps,
            "code that is wrapped": getattr(graph, "_wrap_compiled_regions", False),
        }
        for what, there in refused.items():
            if there:
                raise NotKept(what)
        source = _Source(graph.source_code)
        kernels = _kernel_files(graph)
        tuners = _cuda_kernels.tuners(graph) if source.cuda else {}
        self.cuda.append([(name, tuners[name]) for name in source.cuda])
        self.untuned += [tuners[name] for name in source.cuda if not _cuda_kernels.is_settled(tuners[name])]
        if any(tuner.inductor_meta.get("coordinate_descent_tuning") for tuner in tuners.values()):
            raise NotKept("kernels that are tuned step by step")
        checked = [*graph.inputs_to_check]
        self.graphs.append(
            {
                "code": self.add(marshal.dumps(source.code)),
                "kernels": [(name, self.add(kernels[name])) for name in source.kernels],
                "extern": source.extern,
                "aligned": (checked, [i for i in checked if i in graph.mutated_input_idxs]),
                "metrics": {name: count for name, count in vars(graph.metrics_deltas).items() if type(count) is int},
                "counters": {name: count for name, count in graph.counter_deltas.items() if type(count) is int},
            }
        )

    def add_cuda_kernels(self):
        """Each has one configuration now."""
        for graph, kernels in zip(self.graphs, self.cuda, strict=True):
            graph["cuda"] = []
            for name, tuner in kernels:
                found = _cuda_kernels.facts_of(tuner)
                if found is None:
                    raise NotKept(f"torch does not launch {name} by itself")
                graph["cuda"].append((name, found[0], self.add(found[1])))


def _devices():
    return {"cpu"} if torch.version.hip else {"cpu", "cuda"}


def _kernel_files(graph):
    """The shared objects behind the functions of generated code that runs in this process, by name."""
    from torch._inductor.codecache import PyCodeCache

    files = {}
    for module in PyCodeCache.modules:
        if graph.cache_key in module.__file__:
            for name, value in vars(module).items():
                home = getattr(getattr(value, "__self__", None), "__file__", None)
                if callable(value) and isinstance(home, str) and home.endswith(".so"):
                    with open(home, "rb") as file:
                        files[name] = file.read()
    return files


# What generated code imports from inductor, and never calls as long as nobody asks for it in its settings.
_UNNEEDED = {"run_intermediate_hooks", "maybe_profile", "align", "AsyncCompile", "extern_kernels", "async_compile", "start_graph",
             "end_graph", "triton", "tl"}  # fmt: skip
_IMPORTED = ("torch", "torch._C", "math", "cmath", "random", "os", "tempfile", "ctypes")
_DROPPED = {"get_args", "benchmark_compiled_module"}


class _Source:
    """Generated code, cut down to what a call needs."""

    def __init__(self, text):
        tree = ast.parse(text)
        self.kernels, self.cuda, self.extern = [], [], []
        kept = [statement for statement in tree.body if self._keeps(statement)]
        kept = self._used(kept)
        for node in (node for statement in kept for node in ast.walk(statement)):
            self._check(node)
        self.extern.sort()
        names = {node.id for statement in kept for node in ast.walk(statement) if isinstance(node, ast.Name)}
        unknown = names & _UNNEEDED - {"extern_kernels"}
        if unknown:
            raise NotKept(f"its code calls {sorted(unknown)[0]}")
        self.kernels = [name for name in self.kernels if name in names]
        self.cuda = [name for name in self.cuda if name in names]
        self.code = compile(ast.Module(kept, []), "<kept by stator>", "exec", dont_inherit=True, optimize=0)

    def _keeps(self, statement):
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("torch._inductor"):
            if any((name.asname or name.name) not in _UNNEEDED for name in statement.names):
                raise NotKept(f"its code imports {statement.names[0].name}")
            return False
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            modules = [statement.module] if isinstance(statement, ast.ImportFrom) else [a.name for a in statement.names]
            if all(module in ("triton", "triton.language") for module in modules):
                return False
            if any(module not in _IMPORTED for module in modules):
                raise NotKept(f"its code imports {modules[0]}")
            return True
        if isinstance(statement, ast.FunctionDef) and statement.name in _DROPPED:
            return False
        if isinstance(statement, ast.If):  # __name__ == "__main__"
            return False
        if isinstance(statement, (ast.Expr, ast.Delete)):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                return False
            if ast.unparse(statement) in ("async_compile.wait(globals())", "del async_compile"):
                return False
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            called = ast.unparse(statement.value.func)
            if called == "AsyncCompile":
                return False
            compiled = {"async_compile.cpp_pybinding": self.kernels, "async_compile.triton": self.cuda}.get(called)
            if compiled is not None:
                compiled.append(statement.targets[0].id)
                return False
        if isinstance(statement, (ast.Assign, ast.FunctionDef, ast.ClassDef)):
            return True
        raise NotKept(f"its code has a statement that is not known: {ast.unparse(statement)[:60]}")

    @staticmethod
    def _used(statements):
        """Without imports and assignments whose names nothing uses: looking up an operator costs time."""
        while True:
            used = {"call"}
            for statement in statements:
                used |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            kept = []
            for statement in statements:
                if isinstance(statement, (ast.Import, ast.ImportFrom)):
                    statement.names = [a for a in statement.names if (a.asname or a.name).split(".")[0] in used]
                    if not statement.names:
                        continue
                elif isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "call") not in used:
                    continue
                kept.append(statement)
            if len(kept) == len(statements):
                return kept
            statements = kept

    def _check(self, node):
        if not isinstance(node, ast.Attribute):
            return
        path = ast.unparse(node)
        if path.startswith(
            ("torch._inductor", "torch._dynamo", "torch._higher_order_ops", "torch._functorch", "torch._prims")
        ):
            raise NotKept(f"its code needs {path}")
        if isinstance(node.value, ast.Name) and node.value.id == "extern_kernels":
            found = (node.attr, _path_of(node.attr))
            if found not in self.extern:
                self.extern.append(found)


def _path_of(name):
    """Where torch has the function that inductor calls by this name: attributes from torch on."""
    from torch._inductor.select_algorithm import extern_kernels

    function = getattr(extern_kernels, name)
    paths = [(name,), ("_C", "_nn", name), ("ops", "aten", name)]
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        paths = [("ops", *str(function).split("."))]
    for path in paths:
        found = torch
        for part in path:
            found = getattr(found, part, None)
        if found is function:
            return path
    raise NotKept(f"its code calls {name}, which torch does not have by itself")
