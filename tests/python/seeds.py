"""What the documents that Stator was asked to follow describe, item by item, and how each is tested.

Each item has one test: a function under @item, which takes a front end and returns what it saw. It is run eagerly, by
Stator, by Stator with breaks forced at every instruction, at every seventh and at random, and all have to see the same.
Where the behaviour is TorchDynamo's own it runs there too, in a process of its own, and has to see the same (or, where
Stator is better on purpose, something else). tools/seed_items.py makes docs/SEEDS.md of it.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import dataclasses
import functools
import importlib
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

# The documents, by their titles. All are about TorchDynamo.
DOCUMENTS = {
    "000": "Optimizing Attribute Tracing in nn.Module",
    "001": "Tracing Supported Methods Flow",
    "002": "Handling Real Inputs with Deferred Execution",
    "003": "Debugging Graph Compilation",
    "004": "pytorch/torch/_dynamo/variables/nn_module.py",
}

ITEMS: dict[str, list[str]] = {
    "000": [
        "getattr order params/modules/buffers",
        "AttributeError for missing, message",
        "getattr default / hasattr",
        "name in two dicts",
        "getattr_helper on __dict__ shadow",
        "var_getattr: class attr shadows _modules",
        "__dict__ read",
        "property",
        "property with setter",
        "property raising -> __getattr__",
        "classmethod, staticmethod",
        "custom __getattr__",
        "custom __getattribute__",
        "non-function __getattr__ break",
        "deep hierarchy",
        "call_function Sequential unrolled",
        "Sequential with hooks",
        "lazy module in call",
        "register_attr: tied params one node",
        "register_attr: higher-order body params lifted",
        "wrap_name: static address guard",
        "wrap_fx_proxy: fakes as example_value",
        "TensorWithTFOverride input",
        "inline user function",
        "varargs/kwonly/defaults bind",
        "ArgsMismatch text with func/args",
        "functions in skip files",
        "run: recursion",
        "BackendCompilerFailed",
        "exec_recorder record on exception",
        "cleanup frees tensors",
        "step: break with stack empty/non-empty",
        "trace_bytecode log",
        "step_graph_break continue",
        "compile_subgraph: live variables",
        "aliases restored",
        "blocks with/try restored",
        "GraphCompileReason on gm",
        '__compiled_fn name, debug "COMPILING GRAPH" log',
        "compiler collective: agree equal",
        "collective: sizes become dynamic",
        "collective: ints",
        "collective: break on ranks",
        "collective on CPU/gloo",
        "collective: log.info + trace artifact",
        "divergence",
        "all_gather_object in program",
    ],
    "001": [
        "parameters()",
        "parameters(recurse) kw + positional",
        "dedup of tied",
        "None parameters dropped",
        "named_parameters prefix/recurse/remove_duplicate",
        "get_kwargs: wrong kwarg error",
        "list iterator result (next, partial)",
        "get_current_parameters after mutation",
        "collect recursion through containers",
        "inline counters",
    ],
    "002": [
        "repro_after config + validation",
        "deferred: repro_after None while running",
        "repro of real inputs before mutation",
        "level 3 always dump",
        "dump_to_minify: minifier_launcher.py",
        "dump_compiler_graph_state N.py + repro.py copy",
        "save_graph_repro script runs",
        "repro of fn defined in program with sys.argv",
        "same_two_models equal/different",
        "require_fp64",
        "ignore_non_fp argument",
        "same: containers",
        "same: positional args of the seed",
        "same: log_error",
        "same: cosine",
        "same: sparse, bool",
        "same: type/len/keys mismatch",
        "same: shape broadcast",
        "run_fwd_maybe_bwd (boxed, grads, zero_grad)",
        "run_fwd_maybe_bwd as function",
        "reduce_to_scalar_loss special outputs",
        "reduce_to_scalar_loss as function",
        "Size.numel const",
        "Size.numel symbolic",
        "list call_method getitem/contains/index",
        "list[const tensor]",
        "list[tensor] break",
        "callable object call",
        "random calls",
    ],
    "003": [
        "debug_wrapper compile error dump",
        "original graph kept though backend mutates",
        "level 1 runtime: dump then raise",
        "level 2 runtime: dump then raise",
        "backward runtime raise",
        "level 4 accuracy detect+dump",
        "level 4 raise AccuracyError",
        "level 4 int/bool outputs",
        "level 4 non-inductor backends",
        "config.repro_ignore_non_fp",
        "config.same_two_models_use_fp64",
        "exception in optimised run -> True",
        "fp64 reference multiplier",
        "fake tensors refused",
        "minifier to one call (accuracy)",
        "minifier (runtime)",
        "boxed inputs cleared",
    ],
    "004": [
        "NNModuleVariable: get_attr/call_module, one graph per instance",
        "Unspecialized: one graph per class, params inputs",
        "hooks on torch layer -> inlined",
        "explicit forward(): call_method node",
        "_call_impl/_wrapped_call_impl explicit",
        "user __call__",
        "class _call_impl override honoured",
        "instance _call_impl override honoured",
        "nn.Module.__call__/_call_impl patched globally",
        "instance forward patch guard, closure",
        "class forward patched",
        "empty hook dict guards; added/removed later",
        "same hook on other instance no recompile",
        "global hooks",
        "backward hooks full/pre",
        "hook registered in forward",
        "skip_nnmodule_hook_guards",
        "with_kwargs/always_call/prepend hooks",
        "lazy: convert namedtuple/dict args",
        "lazy: cls_to_become",
        "lazy: AttributeError observed",
        "record_nn_module_stack, @n",
        "stack key id(mod), root left out",
        "GraphModule call",
        "ScriptModule unsupported",
        "parametrize",
        "keys/values/items/len/contains",
        "__getitem__ five containers",
        "slices of containers",
        "symbolic/const/non-const key",
        "custom __getitem__/__iter__",
        "_conv_forward/_output_padding/_check_input_dim",
        "_get_item_by_idx/_get_abs_string_index",
        "named_children/modules/buffers",
        "key order guards",
        "hasattr guard",
        "__setattr__ param/buffer/module",
        "__delattr__",
        "module built inside",
        "constant=True method: stored attribute",
        "export slice",
        "FSDP guards skipped",
        "FSDP skip off",
        "non-const method args break",
    ],
}

MODULES = ("test_seeds_attributes", "test_seeds_graphs", "test_seeds_debug", "test_seeds_modules")
BREAKS = ("1", "7", "random:1")
VERDICTS = ("works", "better")


@dataclasses.dataclass
class Item:
    document: str
    text: str
    verdict: str
    why: str  # where Stator is better on purpose
    test: str = ""  # module::function
    program: Callable[..., Any] | None = None  # None: the test does all by itself
    pending: str = ""  # what is not there yet: the test fails, and has to


found: dict[tuple[str, str], Item] = {}


class Front:
    """A way to run programs: "eager", "stator", "breaks" (Stator with forced breaks) or "dynamo"."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.graphs: list[torch.fx.GraphModule] = []

    @property
    def is_stator(self) -> bool:
        """Stator, and nothing else in the way: how many graphs there are and what is in them is known."""
        return self.name == "stator"

    def backend(self, module: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        self.graphs.append(module)
        return module.forward

    def compile(self, function: Any, fullgraph: bool = True, **arguments: Any) -> Any:
        if self.name == "eager":
            return function
        arguments = {"backend": self.backend, **arguments}
        if self.name == "dynamo":
            return torch.compile(function, fullgraph=fullgraph, **arguments)
        import stator

        return stator.compile(function, fullgraph=fullgraph and self.name == "stator", **arguments)

    def nodes(self, *ops: str) -> list[torch.fx.Node]:
        return [node for module in self.graphs for node in module.graph.nodes if not ops or node.op in ops]

    def calls(self) -> list[str]:
        """What the graphs call, by name."""
        called = self.nodes("call_function", "call_method", "call_module")
        return [node.target if isinstance(node.target, str) else node.target.__name__ for node in called]


def plain(value: Any) -> Any:
    """Something that == compares and that another process understands."""
    if isinstance(value, nn.parameter.UninitializedTensorMixin):
        return type(value).__name__
    if isinstance(value, torch.Tensor):
        facts = type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad
        grad = plain(value.grad) if value.is_leaf and value.grad is not None else None
        dense = value.detach().to_dense() if value.layout is not torch.strided else value.detach()
        return facts, dense.clone().double().nan_to_num().tolist(), grad
    if isinstance(value, dict):
        return type(value).__name__, [(plain(key), plain(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(repr(plain(item)) for item in value)
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    if isinstance(value, (int, float, str, bool, type(None))):
        return type(value).__name__, value
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    return type(value).__name__


def observe(program: Callable[[Front], Any], front: Front) -> Any:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(program(front))


def differs(got: Any, wanted: Any, path: str = "") -> str:
    """Where two observations differ first, for people."""
    if isinstance(got, (list, tuple)) and type(got) is type(wanted) and len(got) == len(wanted):
        for index, (one, other) in enumerate(zip(got, wanted, strict=True)):
            if one != other:
                return differs(one, other, f"{path}[{index}]")
    return f"{path}: {got!r:.500}\nand not: {wanted!r:.500}"


def raised(call: Callable[[], Any]) -> Any:
    """What a call gives: its value, or its exception."""
    try:
        return call()
    except Exception as error:
        return error


def numbers(*shape: int) -> torch.Tensor:
    size = torch.Size(shape or (3, 4))
    return torch.arange(float(size.numel())).reshape(size) / size.numel() - 0.3


# ---- TorchDynamo beside


def _in_dynamo(module: str, name: str) -> Any:
    """In the other process."""
    import torch._dynamo

    torch._dynamo.reset()
    importlib.import_module(module)
    program = next(i.program for i in found.values() if i.test == f"{module}::{name}")
    assert program is not None
    return observe(program, Front("dynamo"))


@functools.cache
def _neighbour() -> concurrent.futures.ProcessPoolExecutor:
    pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    atexit.register(pool.shutdown, wait=False, cancel_futures=True)
    return pool


def _call_in_dynamo(module: str, name: str) -> Any:
    """In the other process: any function of a test file that takes a front end."""
    import torch._dynamo

    torch._dynamo.reset()
    return getattr(importlib.import_module(module), name)(Front("dynamo"))


def beside_call(module: str, name: str) -> Any:
    """What a function of a test file returns under TorchDynamo."""
    return _neighbour().submit(_call_in_dynamo, module, name).result(timeout=120)


def beside(module: str, name: str) -> Any:
    """What the program sees under TorchDynamo; an exception that leaves it there is its outcome."""
    try:
        return _neighbour().submit(_in_dynamo, module, name).result(timeout=120)
    except concurrent.futures.process.BrokenProcessPool:
        _neighbour.cache_clear()
        raise
    except Exception as error:
        return "raised", type(error).__name__


# ---- items


def item(
    document: str,
    text: str,
    verdict: str = "works",
    why: str = "",
    *,
    dynamo: str = "",
    breaks: bool = True,
    graphs: int | None = None,
    whole: bool = False,
    pending: str = "",
) -> Callable[[Any], Any]:
    """Registers the test of an item.

    dynamo: "same" or "differs": what TorchDynamo sees, in the torch that docs/SEEDS.md is about. breaks: also with
    forced breaks. graphs: how many Stator makes (None: some). whole: the decorated function is the test itself, with
    pytest's fixtures.
    """
    assert text in ITEMS[document], f"there is no item {text!r} in document {document}"
    assert verdict in VERDICTS and (verdict != "better" or why), text

    def register(program: Any) -> Any:
        assert (document, text) not in found, f"{text!r} has two tests"
        module = program.__module__
        name = program.__name__
        program_alone = None if whole else program
        made = Item(document, text, verdict, why, f"{module}::{name}", program_alone, pending)
        found[document, text] = made
        marked = pytest.mark.xfail(strict=True, reason=pending) if pending else lambda test: test
        if whole:
            return marked(program)

        def test() -> None:
            run(made, module, name, dynamo, breaks, graphs)

        test.__name__ = test.__qualname__ = name
        test.__module__ = module
        test.__doc__ = f"{document}: {text}"
        return marked(test)

    return register


def run(made: Item, module: str, name: str, dynamo: str, breaks: bool, graphs: int | None) -> None:
    import stator
    from stator import _torch_versions

    program = made.program
    assert program is not None
    expected = observe(program, Front("eager"))
    stator.reset()
    front = Front("stator")
    got = observe(program, front)
    assert got == expected, differs(got, expected)
    assert front.graphs, "nothing was captured"
    if graphs is not None:
        assert len(front.graphs) == graphs
    if breaks:
        for every in BREAKS:
            stator.reset()
            with stator.config.patch(break_every=every):
                got = observe(program, Front("breaks"))
            assert got == expected, f"breaks forced: {every}: {differs(got, expected)}"
    if dynamo and _torch_versions.VERSION == _torch_versions.DESCRIBED:
        theirs = beside(module, name)
        assert (theirs == expected) == (dynamo == "same"), f"TorchDynamo: {differs(theirs, expected)}"


def load() -> dict[tuple[str, str], Item]:
    """All items that have a test."""
    here = os.path.dirname(os.path.abspath(__file__))
    if here not in sys.path:
        sys.path.insert(0, here)
    for name in MODULES:
        importlib.import_module(name)
    return found
