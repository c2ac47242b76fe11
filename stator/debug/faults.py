"""Planted faults: a backend that fails in a known way on a chosen operator, to try and to test the debugging tools
with.

    stator.compile(f, backend="planted_fault", options={"fault": "wrong", "op": "relu", "stage": "forward"})

fault: compile (an error while compiling), runtime (an error while running), wrong (values off by a half), nan, crash (a
real SIGSEGV), hang. op: an operator's short name, whatever its spelling (torch.relu, Tensor.relu, aten.relu). stage:
dynamo (the captured graph; the default), forward or backward (behind AOTAutograd). when: "symbolic" for faults that
only graphs have whose inputs have symbolic sizes. Everything else runs as in eager.
"""

import ctypes
import time

import torch
from torch.utils import _pytree as pytree

from stator.debug import _text

FAULTS = ("compile", "runtime", "wrong", "nan", "crash", "hang")
STAGES = ("dynamo", "forward", "backward")


class PlantedCompileError(RuntimeError):
    """What a planted fault raises while compiling."""


class PlantedRuntimeError(RuntimeError):
    """What a planted fault raises while running."""


def _changed(change):
    """A function that changes the first tensor of a value."""

    def changed(value):
        leaves, structure = pytree.tree_flatten(value)
        at = next(i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor))
        return pytree.tree_unflatten([*leaves[:at], change(leaves[at]), *leaves[at + 1 :]], structure)

    return changed


def _runtime(value):
    raise PlantedRuntimeError("planted: an operator failed")


def _crash(value):
    ctypes.string_at(0)  # reads address 0: the kernel sends SIGSEGV


def _hang(value):
    while True:
        time.sleep(0.05)


_AT_RUN = {
    "runtime": _runtime,
    "wrong": _changed(lambda t: t * 1.5 + 0.1 if t.is_floating_point() else t + 1),
    "nan": _changed(lambda t: t * float("nan") if t.is_floating_point() else t),
    "crash": _crash,
    "hang": _hang,
}


def plant(gm, fault, op):
    """A module like gm, with the fault behind each call of the operator, also in functions that the graph calls."""
    hits = [n for n in gm.graph.nodes if n.op in ("call_function", "call_method") and _text.short_name(n.target) == op]
    if hits and fault == "compile":
        raise PlantedCompileError(f"planted: cannot compile {op}")
    functions = {name: m for name, m in gm.named_children() if isinstance(m, torch.fx.GraphModule)}
    changed = {name: plant(m, fault, op) for name, m in functions.items()}
    if not hits and all(changed[name] is functions[name] for name in functions):
        return gm
    nodes = {}
    graph = _text.copied(gm.graph, nodes)
    for hit in hits:
        node = nodes[hit]
        with graph.inserting_after(node):
            made = graph.call_function(_AT_RUN[fault], ())
        node.replace_all_uses_with(made)
        made.args = (node,)
    made = torch.fx.GraphModule(gm, graph)
    for name, function in changed.items():
        setattr(made, name, function)
    return made


def planted_fault(gm, example_inputs, *, options=None):
    options = {"fault": "wrong", "op": "relu", "stage": "dynamo", "when": "always", **(options or {})}
    fault, op, stage, when = (options.pop(name) for name in ("fault", "op", "stage", "when"))
    if fault not in FAULTS or stage not in STAGES or when not in ("always", "symbolic") or options:
        raise ValueError(
            f"planted_fault takes fault ({', '.join(FAULTS)}), stage ({', '.join(STAGES)}), op and when (always, symbolic)"
        )

    def planted(graph_module, inputs):
        hit = when == "always" or _text.symbolic_shapes(graph_module)
        return plant(graph_module, fault, op).forward if hit else graph_module.forward

    def plain(graph_module, inputs):
        return graph_module.forward

    if stage == "dynamo":
        return planted(gm, example_inputs)
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_compiler

    forward, backward = map(make_boxed_compiler, (planted, plain) if stage == "forward" else (plain, planted))
    return aot_autograd(fw_compiler=forward, bw_compiler=backward, inference_compiler=forward)(gm, example_inputs)
