"""Operations that take a number, given a tensor of one element in its place: eager reads it, a graph calculates with the tensor."""

import torch


def shape_as_tensor(tensor):
    return torch.tensor(list(tensor.shape))


def foreach_lerp_(self, end, weight):
    for tensor, to in zip(self, end):
        tensor.lerp_(to, weight.to(tensor.dtype))
    return self


def foreach_pow(base, exponents):
    return tuple([torch.pow(base.to(exponent.dtype), exponent) for exponent in exponents])


def addcmul_(self, first, second, *, value):
    return self.add_(first * value.to(self.dtype) * second)
