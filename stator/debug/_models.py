"""Two programs side by side: run on copies of the same inputs, forward and backward, and compared.

Nothing that the user sees changes: inputs are copied with their aliasing, the modules are copied, random state is put
back, and gradients go to the copies.
"""

import copy
import logging

import torch
from torch.utils import _pytree as pytree

from stator import config
from stator.debug import _text
from stator.debug._same import compare

log = logging.getLogger("stator.debug")


class Fp64Failed(RuntimeError):
    """The fp64 twin could not be run, and require_fp64 asked for it."""


# ---- copies


def clone_inputs(values, wide=False):
    """Copies of inputs: views of one storage stay views of one storage, gradness and .grad stay. wide: floats get
    double precision."""
    storages, made = {}, {}

    def clone(value):
        if isinstance(value, torch.Tensor) and id(value) not in made:
            made[id(value)] = _clone_tensor(value, storages, _wide_dtype(value) if wide else value.dtype)
        return made.get(id(value), value)

    return pytree.tree_map(clone, values)


def is_plain(tensor):
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_nested
        and tensor.device.type != "meta"
    )


def _wide_dtype(tensor):
    if tensor.is_complex():
        return torch.complex128
    return torch.float64 if tensor.is_floating_point() and tensor.dtype.itemsize > 1 else tensor.dtype


def _clone_tensor(tensor, storages, dtype):
    with torch.no_grad():
        copied = _clone_plain(tensor, storages, dtype) if is_plain(tensor) else tensor.detach().clone().to(dtype)
    if type(tensor) is torch.nn.Parameter:
        copied = torch.nn.Parameter(copied, tensor.requires_grad)
    elif tensor.requires_grad:
        copied.requires_grad_()
    if tensor.requires_grad and not tensor.is_leaf:
        copied = copied.view_as(copied)  # not a leaf either, and the same memory
        copied.retain_grad()
    elif tensor.requires_grad and tensor.grad is not None:
        copied.grad = tensor.grad.detach().clone().to(copied.dtype)
    return copied


def _clone_plain(tensor, storages, dtype):
    storage = tensor.untyped_storage()
    key = storage._cdata if dtype is tensor.dtype else (storage._cdata, tensor.dtype)
    if key not in storages:
        same = dtype is tensor.dtype
        storages[key] = storage.clone() if same else whole_storage(tensor, tensor.dtype).to(dtype).untyped_storage()
    flags = tensor.is_conj(), tensor.is_neg()
    return over(storages[key], dtype, tensor.storage_offset(), tensor.size(), tensor.stride(), *flags)


def over(storage, dtype, offset, size, stride, conj=False, neg=False):
    """A tensor over a storage."""
    made = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)
    made = made.conj() if conj else made
    return made._neg_view() if neg else made


def whole_storage(tensor, dtype):
    """All that a tensor's storage holds, as a flat tensor."""
    storage = tensor.untyped_storage()
    return over(storage, dtype, 0, (storage.nbytes() // dtype.itemsize,), (1,))


def snapshot(value):
    """What a value is now: a copy of its own that keeps strides and gradness."""
    if not isinstance(value, torch.Tensor):
        return value
    made = clone_inputs(value.detach())
    if value.requires_grad and (value.is_floating_point() or value.is_complex()):
        made.requires_grad_()
    return made


def clone_model(model):
    """A copy of a module; anything else as it is."""
    if isinstance(model, torch.nn.Module):
        try:
            return copy.deepcopy(model)
        except Exception as error:
            log.warning("the model cannot be copied (%s): it is run as it is", error)
    return model


def kept_random_state():
    """Random numbers drawn inside are not missed outside; each body starts from the same state."""
    return torch.random.fork_rng(range(torch.cuda.device_count()) if torch.cuda.is_initialized() else [])


# ---- one run


def scalar_loss(out):
    """One number that depends on every differentiable output: the mean of each, summed. None if there is none."""
    loss = None
    for tensor in pytree.tree_leaves(out):
        if not isinstance(tensor, torch.Tensor) or not tensor.requires_grad:
            continue
        part = tensor.to_dense() if tensor.layout is not torch.strided else tensor
        part = torch.view_as_real(part) if part.is_complex() else part
        part = part.sum() / max(part.numel(), 1)
        part = part.to(torch.float64) if part.dtype.itemsize < 4 else part
        loss = part if loss is None else loss + part.to(loss.device)
    return loss


def run_forward_backward(model, inputs, only_fwd=False):
    """{"out": outputs, "inputs": inputs after the run, "input_grads": ..., "parameter_grads": ...} on the given inputs,
    which are used up."""
    if hasattr(model, "zero_grad"):
        model.zero_grad(True)
    leaves = [t for t in pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor)]
    out = model(list(inputs)) if getattr(model, "_boxed_call", False) else model(*inputs)
    found = {"out": out}
    if only_fwd:
        return found
    loss = scalar_loss(out)
    if loss is not None:
        loss.backward()
    found["input_grads"] = [t.grad for t in leaves if t.requires_grad and (t.is_leaf or t.retains_grad)]
    if isinstance(model, torch.nn.Module):
        found["parameter_grads"] = {name: p.grad for name, p in model.named_parameters()}
        found["buffers"] = dict(model.named_buffers())
    found["inputs"] = [t.detach() for t in leaves]
    return found


def cast_to_fp64(model, inputs):
    """(the model in double precision, the inputs in double precision): a module is changed in place, inputs are
    copied."""
    if isinstance(model, torch.nn.Module):
        model = model.to(torch.float64)
    return _widened(model), clone_inputs(inputs, wide=True)


def fp64_twin(model, inputs, only_fwd):
    """The reference in double precision, or None where it cannot be computed."""
    try:
        with kept_random_state(), torch._C._DisableAutocast():
            return run_forward_backward(*cast_to_fp64(clone_model(model), inputs), only_fwd)
    except Exception as error:
        log.warning("no fp64 reference: %s: %s", type(error).__name__, str(error).partition("\n")[0])
        return None


def _widened(model):
    """Graphs name dtypes (`x.to(torch.float16)`): their twin has to name float64 there."""
    if not isinstance(model, torch.fx.GraphModule):
        return model
    narrow = (torch.float16, torch.bfloat16, torch.float32)

    def widen(value):
        return torch.float64 if isinstance(value, torch.dtype) and value in narrow else value

    wide = _text.copied(model.graph)
    for node in wide.nodes:
        if node.op.startswith("call"):
            node.args, node.kwargs = torch.fx.node.map_aggregate((node.args, node.kwargs), widen)
    return torch.fx.GraphModule(model, wide)


# ---- two runs


class Difference(str):
    """A difference as text. floating: it is one between floating values, which a search may look at alone."""

    floating = True


def compare_two_models(gm, opt_gm, inputs, only_fwd=None, *, require_fp64=False, ignore_non_fp=False):
    """The first difference between two programs on these inputs, as a Difference, or None. Gradients count where there
    are some, unless only_fwd is given."""
    only_fwd = not torch.is_grad_enabled() if only_fwd is None else only_fwd
    with kept_random_state():
        ref = run_forward_backward(clone_model(gm), clone_inputs(inputs), only_fwd)
    wanted = config.same_two_models_use_fp64
    exact = fp64_twin(gm, inputs, only_fwd) if wanted else None
    if exact is None and require_fp64 and wanted:
        raise Fp64Failed("the fp64 reference could not be computed")
    try:
        with kept_random_state():
            res = run_forward_backward(clone_model(opt_gm), clone_inputs(inputs), only_fwd)
    except Exception as error:
        # Not a difference: taken for one, a reduction of a wrong result would drift to this error.
        log.exception("the compiled program failed in the accuracy run (%s); counted as the same", type(error).__name__)
        return None
    return first_difference(ref, res, exact, ignore_non_fp)


def first_difference(ref, res, exact, ignore_non_fp):
    """The first difference between two results of run_forward_backward, floating values first: what went wrong there
    may have made whole numbers and truth values wrong. Without an fp64 reference eager's own values are the judge.

    A compiled graph is a function: it has no parameters of its own to compare.
    """
    for floating in (True,) if ignore_non_fp else (True, False):
        for part in [part for part in ref if part in res]:
            judge = exact[part] if exact is not None else widened_values(ref[part])
            found = compare(ref[part], res[part], judge, part, equal_nan=True, ignore_non_fp=floating)
            if found is not None:
                found = Difference(found)
                found.floating = floating
                return found
    return None


def widened_values(value):
    def widen(leaf):
        if not isinstance(leaf, torch.Tensor) or not is_plain(leaf):
            return leaf
        number = leaf.is_floating_point() or leaf.is_complex()
        return leaf.detach().to(torch.complex128 if leaf.is_complex() else torch.float64) if number else leaf

    return pytree.tree_map(widen, value)


def same_two_models(gm, opt_gm, example_inputs, only_fwd=False, *, require_fp64=False, ignore_non_fp=False):
    """Whether two programs give the same outputs and gradients. Inputs, parameters, gradients and random state stay as
    they are."""
    found = compare_two_models(
        gm, opt_gm, example_inputs, only_fwd, require_fp64=require_fp64, ignore_non_fp=ignore_non_fp
    )
    if found is not None:
        log.error("%s", found)
    return found is None
