"""What torch's optimizers do in captured code: their scalars are tensors there, which some operations take in eager
code only."""

import inspect

import torch
from torch.optim import Optimizer

_zero_grad = inspect.unwrap(Optimizer.zero_grad)


def zero_grad(self, set_to_none=True):
    return _zero_grad(self, set_to_none)


def addcdiv_(self, tensor1, tensor2, *, value):
    return self.add_(tensor1.div(tensor2).mul(value))


def addcmul_(self, tensor1, tensor2, *, value):
    return self.add_(tensor1.mul(tensor2).mul(value))


def add_(self, other, *, alpha):
    return self.add_(other * alpha)


def sub_(self, other, *, alpha):
    return self.sub_(other * alpha)


def add(self, other, *, alpha):
    return self.add(other * alpha)


def sub(self, other, *, alpha):
    return self.sub(other * alpha)


def _one_by_one(scalars):
    return list(scalars.unbind()) if isinstance(scalars, torch.Tensor) else list(scalars)


def foreach_add_(tensors, others, *, alpha):
    for tensor, other in zip(tensors, others):
        tensor.add_(other * alpha)


def foreach_sub_(tensors, others, *, alpha):
    for tensor, other in zip(tensors, others):
        tensor.sub_(other * alpha)


def foreach_addcdiv_(tensors, first, second, scalars=None, *, value=None):
    if isinstance(scalars, float) or scalars is None:
        for tensor, one, two in zip(tensors, first, second):
            tensor.add_(one.div(two).mul(value if scalars is None else scalars))
        return
    torch._foreach_add_(tensors, torch._foreach_mul(torch._foreach_div(first, second), _one_by_one(scalars)))


def foreach_addcmul_(tensors, first, second, scalars=None, *, value=None):
    if isinstance(scalars, float) or scalars is None:
        for tensor, one, two in zip(tensors, first, second):
            tensor.add_(one.mul(two).mul(value if scalars is None else scalars))
        return
    torch._foreach_add_(tensors, torch._foreach_mul(torch._foreach_mul(first, second), _one_by_one(scalars)))


def group_tensors(tensorlists, with_indices=False):
    """Lists of tensors and None, split by device and dtype of the first list's entries, in the order of torch's own
    grouping."""
    groups = {}
    for index, tensor in enumerate(tensorlists[0]):
        key = tensor.device, tensor.dtype
        if key not in groups:
            groups[key] = [[] for _ in tensorlists], []
        lists, indices = groups[key]
        for own, given in zip(lists, tensorlists):
            if given:
                own.append(given[index])
        if with_indices:
            indices.append(index)
    return groups
