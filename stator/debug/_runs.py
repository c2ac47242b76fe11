"""One run of a model, forward and backward, under the names that TorchDynamo's documents give to its parts.

stator.debug.same_two_models does the same with _models.run_forward_backward, which knows more kinds of outputs.
"""

import copy

import torch

from stator.debug import _models


def clone_inputs_retaining_gradness(example_inputs):
    """Copies of inputs: leaves that require gradients where the inputs did. Views of one storage stay views of one
    storage."""
    with torch.no_grad():
        copied = _models.clone_inputs([x.detach() if isinstance(x, torch.Tensor) else x for x in example_inputs])
    for made, given in zip(copied, example_inputs, strict=True):
        if isinstance(given, torch.Tensor):
            made.requires_grad_(given.requires_grad)
    return copied


def _items(out):
    """What an output is made of that is no tensor. Some versions of the classes with logits are dicts."""
    if _has_logits(out):
        return [out.logits]
    if isinstance(out, dict):
        return list(out.values())
    if isinstance(out, (list, tuple)):
        return out
    raise NotImplementedError("Don't know how to reduce", type(out))


def _has_logits(out):
    return type(out).__name__ in ("MaskedLMOutput", "Seq2SeqLMOutput", "CausalLMOutputWithCrossAttentions")


def _is_normal(out):
    return type(out).__name__ == "SquashedNormal"


def requires_bwd_pass(out):
    """Whether anything in an output has gradients."""
    if isinstance(out, torch.Tensor):
        return out.requires_grad
    if out is None or isinstance(out, (int, float, str)):
        return False
    return _has_logits(out) or _is_normal(out) or any(map(requires_bwd_pass, _items(out)))


def reduce_to_scalar_loss(out):
    """One number from a model's output: the mean of a tensor, the mean over the items of a container."""
    if isinstance(out, torch.Tensor):
        return out.sum() / out.numel()  # mean() takes no integers
    if _is_normal(out):
        return out.mean.sum()
    items = _items(out)
    return sum(map(reduce_to_scalar_loss, items)) / len(items)


def collect_results(model, prediction, loss, example_inputs):
    """[prediction, loss, gradients and values of parameters, buffers, gradients of inputs ...], as same() compares
    them.

    A parameter without a gradient counts as one whose gradient is zero. A function has no parameters.
    """
    parameters = dict(model.named_parameters()) if isinstance(model, torch.nn.Module) else {}
    buffers = dict(model.named_buffers()) if isinstance(model, torch.nn.Module) else {}
    gradients = {
        f"{name}.grad": p.grad if p.grad is not None else torch.zeros_like(p) for name, p in parameters.items()
    }
    results = [prediction, loss, gradients, parameters, buffers]
    for example in example_inputs:
        for value in example if isinstance(example, (tuple, list)) else [example]:
            if isinstance(value, torch.Tensor):
                results.append(value.grad if value.is_leaf or value.retains_grad else None)
    return results


def run_fwd_maybe_bwd(gm, args, only_fwd=False, disable_clone=False):
    """Runs a model forward, and backward where its output has gradients; its output (only_fwd) or collect_results.

    Model and args are copied; with disable_clone args are used as they are, and may be used up.
    """
    gm = copy.deepcopy(gm)
    if not disable_clone:
        args = clone_inputs_retaining_gradness(args)
    if hasattr(gm, "zero_grad"):
        gm.zero_grad(True)
    kept = list(args)  # a boxed call empties the list that it gets
    out = gm(args) if getattr(gm, "_boxed_call", False) else gm(*args)
    if only_fwd:
        return out
    if requires_bwd_pass(out):
        reduce_to_scalar_loss(out).backward()
    return collect_results(gm, out, None, kept)
