"""torch.autograd.Function: forward and backward as functions of the graph, under torch's operator for them."""

import warnings

import torch
from torch.autograd.function import _SingleLevelFunction
from torch.nn.modules._functions import BackwardHookFunction

from stator import _torch_versions

from .nonstrict import run_allowed
from .subgraphs import call, capture_pair, look, refuse, under_transforms
from .switches import run_later

_apply = torch.ops.higher_order.autograd_function_apply
_FUNCTIONS_MAY_WRITE = _torch_versions.functions_may_write()


class Context:
    """What forward and backward get as `ctx`."""

    def __init__(self, needs_input_grad):
        self.needs_input_grad = needs_input_grad
        self._saved = ()
        self._dirty = ()
        self._non_differentiable = ()

    def save_for_backward(self, *tensors):
        self._saved = tensors

    def save_for_forward(self, *tensors):
        pass

    @property
    def saved_tensors(self):
        return self._saved

    def mark_dirty(self, *tensors):
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        self._non_differentiable = tensors

    def set_materialize_grads(self, value):
        pass  # a graph's backward has a gradient of every output: zeros for those that nothing came back to


def _is_among(tensor, tensors):
    for other in tensors:
        if tensor is other:
            return True
    return False


def _run_forward(cls, ctx, args):
    with torch.no_grad():
        if cls.setup_context is _SingleLevelFunction.setup_context:
            outputs = cls.forward(ctx, *args)
        else:
            outputs = cls.forward(*args)
            cls.setup_context(ctx, args, outputs)
    # An input that comes back as it is becomes a view of itself, so that it can have another history.
    if not isinstance(outputs, tuple):
        return _own(outputs, ctx, args)
    return tuple([_own(output, ctx, args) for output in outputs])


def _own(output, ctx, args):
    if isinstance(output, torch.Tensor) and _is_among(output, args) and not _is_among(output, ctx._dirty):
        return output.view_as(output)
    return output


def hooked(tensor, hooks):
    """The tensor with hooks on its gradient, for graphs that a backend differentiates itself: the hooks are a part of
    the backward graph."""

    def forward(same):
        with torch.no_grad():
            return (same.view_as(same),), ()

    def backward(gradient):
        for hook in hooks:
            changed = hook(gradient)
            if changed is not None:
                gradient = changed
        return (gradient,)

    forward_body, backward_body, extras, saved = capture_pair(forward, backward, (tensor,))
    options = {"non_differentiable_idx": [], "saved_for_backward_idx": list(saved)}
    return call(_apply, forward_body, backward_body, tensor, *extras, **options)[0]


def is_allowed(cls):
    """Whether the class is under allow_in_graph. Done by the tracer."""
    raise RuntimeError("only for captured code")


def init_instance(self, *args, **kwargs):
    """Function.__init__, which only warns."""
    text = (
        f"{self.__class__} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the class "
        "itself. Instantiating an autograd function will raise an error in a future version of PyTorch."
    )
    run_later(warnings.warn, (text, DeprecationWarning), {"stacklevel": 2})


def _apply_transformed(cls, ctx, args):
    """A transform of torch.func has its own rules for autograd functions (backward, jvp, vmap, what to do without
    them), one for each level: the graph calls the function itself. Its forward is only looked at."""
    if cls.setup_context is _SingleLevelFunction.setup_context:
        refuse("an autograd function without setup_context() under a transform, which torch refuses")
    places = [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    operands = tuple([args[place] for place in places])

    def forward(*tensors):
        given = list(args)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        outputs = _run_forward(cls, ctx, tuple(given))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return tuple([output for output in outputs if isinstance(output, torch.Tensor)])

    look("forward", forward, operands)
    return run_allowed(cls.apply, args, {})


def apply(cls, *args, **kwargs):
    if is_allowed(cls):
        return run_allowed(cls.apply, args, kwargs)
    if kwargs:
        refuse("keyword arguments of an autograd function")
    if cls is BackwardHookFunction:
        refuse("backward hooks of a module, which look for their own node in autograd's graph")
    needs = tuple([isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args])
    ctx = Context(needs)
    if under_transforms():
        return _apply_transformed(cls, ctx, args)
    if not torch.is_grad_enabled() or True not in needs:
        return _run_forward(cls, ctx, args)
    places = [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    seen, wrong = [], []

    def forward(*tensors):
        given = list(args)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        outputs = _run_forward(cls, ctx, tuple(given))
        seen.append(outputs)
        if not isinstance(outputs, tuple):
            outputs = (outputs,)
        return tuple([output for output in outputs if isinstance(output, torch.Tensor)]), ctx._saved

    def backward(*grads):
        outputs = seen[0]
        if isinstance(outputs, tuple):
            rest = iter(grads)
            grads = [next(rest) if isinstance(output, torch.Tensor) else None for output in outputs]
        gradients = cls.backward(ctx, *grads)
        if not isinstance(gradients, tuple):
            gradients = (gradients,)
        if len(gradients) < len(args):
            wrong.append(True)  # autograd says so when it gets them
            gradients = gradients + (None,) * (len(args) - len(gradients))
        for gradient in gradients[len(args) :]:
            if gradient is not None:
                refuse("backward() gives too many gradients")
        for place in places:
            if isinstance(gradients[place], torch.Tensor) and gradients[place].shape != args[place].shape:
                refuse("backward() gives a gradient of another shape than its input")
        return tuple([gradients[place] for place in places])

    operands = tuple([args[place] for place in places])
    forward_body, backward_body, extras, saved = capture_pair(forward, backward, operands)
    if wrong:
        return run_allowed(cls.apply, args, kwargs)
    outputs = seen[0] if isinstance(seen[0], tuple) else (seen[0],)
    tensors = [output for output in outputs if isinstance(output, torch.Tensor)]
    fixed = [i for i, output in enumerate(tensors) if _is_among(output, ctx._non_differentiable)]
    dirty = [i for i, output in enumerate(tensors) if _is_among(output, ctx._dirty)]
    if len(dirty) != len(ctx._dirty):
        refuse("an autograd function that does not return what it changed")
    if dirty and not _FUNCTIONS_MAY_WRITE:
        refuse("an autograd function that writes to its input, which this torch's operator takes no notice of")
    options = {"non_differentiable_idx": fixed, "saved_for_backward_idx": list(saved)}
    if dirty:
        options["dirty_idx"] = dirty
    results = call(_apply, forward_body, backward_body, *operands, *extras, **options)
    if not isinstance(seen[0], tuple):
        return results[0]
    rest = iter(results)
    return tuple([next(rest) if isinstance(output, torch.Tensor) else output for output in outputs])
