"""Gradients that are to be differentiated again, of graphs that a backend has compiled.

AOTAutograd makes one function of autograd's of a graph. Its backward is compiled code, which has no gradients of its
own: under create_graph=True the gradients are computed by the graph as it was captured, from the inputs of the run.
"""

import contextlib
import functools

import torch
from torch.autograd.graph import get_gradient_edge

from stator import _report


def look(outputs, place, backend, number):
    """At a graph's first run: how its function of autograd's is found again and what the outputs are of its results, as
    (position of an output, functions between that and it, the places). A place below zero is that of the tensor which
    the output is a view of: -1 for the first. None: it is no function of a compiled graph.

    From here on its backward looks for what src/runtime/differentiated.cpp leaves with the function, and an error that
    leaves it says which graph it is."""
    behind = [_function_behind(output) for output in outputs]
    functions = [function for function, _, _ in behind if function is not None]
    if not functions:
        return None
    made = type(functions[0])._forward_cls
    if not hasattr(made, "_stator_watched"):
        made._stator_watched = True
        made.backward = staticmethod(_watched(made.backward, _report.graph_name(place, backend, number)))
    first = next(i for i, (function, _, _) in enumerate(behind) if function is functions[0])
    places = []
    for function, result, between in behind:
        places.append(None if function is not functions[0] else -1 - result if between else result)
    return first, behind[first][2], tuple(places)


def _function_behind(output):
    """The function of a compiled graph that made a tensor, or made what it is a view of: (function or None, which
    result, functions between)."""
    if not _requires_grad(output) or output.grad_fn is None:
        return None, 0, 0
    function, result = output.grad_fn, output.output_nr
    for between in range(4):
        if hasattr(getattr(function, "_forward_cls", None), "compiled_bw"):
            return function, result, between
        if len(function.next_functions) != 1:
            break
        function, result = function.next_functions[0]
    return None, 0, 0


def _watched(compiled, graph):
    @functools.wraps(compiled)
    def backward(ctx, *gradients):
        run = getattr(ctx, "_stator_run", None)
        if run is not None and not torch._C._autograd._get_current_graph_task_keep_graph():
            ctx._stator_run = None
        if run is not None and torch.is_grad_enabled():
            boxed = len(gradients) == 1 and isinstance(gradients[0], list)
            found = _differentiable(ctx, run, gradients[0] if boxed else gradients)
            if found is not None:
                return found
        try:
            return compiled(ctx, *gradients)
        except Exception as error:
            if not getattr(error, "_stator_noted", False):
                with contextlib.suppress(AttributeError):
                    error._stator_noted = True
                error.add_note(f"raised by the backward of the compiled graph {graph}{_report.repro_advice(error)}")
            raise

    return backward


def _requires_grad(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def _differentiable(ctx, run, gradients):
    """What the backward gives, with a history; None: the compiled function's inputs are not the graph's, or memory of
    theirs is gone."""
    inputs = run.inputs()
    if inputs is None:
        return None
    places = {}
    for position, value in enumerate(inputs):
        if _requires_grad(value):
            edge = get_gradient_edge(value)
            places.setdefault((edge.node, edge.output_nr), position)
    wanted = [places.get(edge) for edge in ctx.next_functions if edge[0] is not None]
    if None in wanted or len(wanted) != sum(ctx.needs_input_grad):
        return None
    given = [value.view_as(value) if _requires_grad(value) else value for value in inputs]
    for position in run.written():
        given[position] = inputs[position].detach().clone()
    results = {}
    for output, place in zip(run.compute(given), run.places(), strict=True):
        if place is not None:
            results.setdefault(place if place >= 0 else -1 - place, output if place >= 0 else output._base)
    of, by = [], []
    for place, gradient in enumerate(gradients):
        if gradient is None:
            continue
        if getattr(results.get(place), "shape", None) != gradient.shape:
            return None
        of.append(results[place])
        by.append(gradient)
    found = torch.autograd.grad(of, [given[position] for position in wanted], by, create_graph=True, allow_unused=True)
    rest = iter(found)
    return tuple([next(rest) if needed else None for needed in ctx.needs_input_grad])
