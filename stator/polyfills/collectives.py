"""torch.distributed's collectives that write into their tensors: the functional one, its wait, and a copy. What they
would do differently is refused, so that the call runs outside of the graph."""

import torch
from torch.distributed import ReduceOp

from .subgraphs import refuse


def group_facts(group):
    """(name, number of ranks) of a process group that this process is in; None is the default one. Refuses others."""
    raise RuntimeError("only for captured code")


def reduction(op):
    """The word that functional collectives know a ReduceOp by. Refuses what is more than a word."""
    raise RuntimeError("only for captured code")


def coalescing():
    """Whether collectives are being held back, to be started together."""
    raise RuntimeError("only for captured code")


def _expect(async_op, *tensors):
    if async_op:
        refuse("a collective with async_op=True")
    if coalescing():
        refuse("a collective inside of a coalescing manager")
    for tensor in tensors:
        if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
            refuse("a collective over what is no plain tensor")
        if tensor.is_complex() or not tensor.is_contiguous() or tensor.dtype != tensors[0].dtype:
            refuse("a collective over complex, not contiguous or mixed tensors")
        # Eager writes behind autograd's back; a copy would be differentiated.
        if tensor.requires_grad and torch.is_grad_enabled():
            refuse("an in-place collective over a tensor that requires a gradient")


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    _expect(async_op, tensor)
    name, _ = group_facts(group)
    result = torch.ops._c10d_functional.all_reduce(tensor, reduction(op), name)
    tensor.copy_(torch.ops._c10d_functional.wait_tensor(result))


def all_gather_single(output_tensor, input_tensor, group=None, async_op=False):
    _expect(async_op, output_tensor, input_tensor)
    name, size = group_facts(group)
    # Whether outputs may be stacked is the backend's business.
    if input_tensor.dim() == 0 or output_tensor.shape != (size * input_tensor.shape[0], *input_tensor.shape[1:]):
        refuse("an output that is no concatenation of the inputs")
    result = torch.ops._c10d_functional.all_gather_into_tensor(input_tensor, size, name)
    output_tensor.copy_(torch.ops._c10d_functional.wait_tensor(result))


def all_gather(tensor_list, tensor, group=None, async_op=False):
    _expect(async_op, tensor, *tensor_list)
    name, size = group_facts(group)
    if len(tensor_list) != size:
        refuse("a list that does not fit")
    for part in tensor_list:
        if part.shape != tensor.shape:
            refuse("tensors of different sizes")
    result = torch.ops._c10d_functional.all_gather_into_tensor(tensor, size, name)
    parts = torch.ops._c10d_functional.wait_tensor(result).view((size, *tensor.shape))
    for i, part in enumerate(tensor_list):
        part.copy_(parts[i])


def reduce_scatter_single(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    _expect(async_op, output, input)
    name, size = group_facts(group)
    if output.dim() == 0 or input.shape != (size * output.shape[0], *output.shape[1:]):
        refuse("an input that is no concatenation of the outputs")
    result = torch.ops._c10d_functional.reduce_scatter_tensor(input, reduction(op), size, name)
    output.copy_(torch.ops._c10d_functional.wait_tensor(result))


def _splits(sizes, tensor, size):
    if sizes is None or len(sizes) == 0:
        if tensor.dim() == 0 or tensor.shape[0] % size != 0:
            refuse("a tensor that cannot be split evenly")
        return [tensor.shape[0] // size] * size
    if len(sizes) != size or sum(sizes) != tensor.shape[0]:
        refuse("sizes that do not fit")
    return list(sizes)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    _expect(async_op, output, input)
    name, size = group_facts(group)
    received, sent = _splits(output_split_sizes, output, size), _splits(input_split_sizes, input, size)
    if output.shape[1:] != input.shape[1:]:
        refuse("an output that does not fit")
    result = torch.ops._c10d_functional.all_to_all_single(input, received, sent, name)
    output.copy_(torch.ops._c10d_functional.wait_tensor(result))
