"""Operations that take a number, given a tensor of one element in its place: eager reads it, a graph calculates with
the tensor."""

import torch

from .subgraphs import refuse


def old_tensor(*args):
    """torch.Tensor(...), torch's old constructor: of data, or of sizes."""
    return old_tensor_of(torch.get_default_dtype(), args)


def old_tensor_of(dtype, args):
    """The same of torch.LongTensor and its relatives."""
    first = args[0] if args else 0
    if len(args) == 1 and isinstance(first, (list, tuple)) and not isinstance(first, torch.Size):
        return torch.tensor(first, dtype=dtype, device="cpu")
    for size in first if len(args) == 1 and isinstance(first, torch.Size) else args:
        if not isinstance(size, int):
            refuse("torch.Tensor() of other values than numbers")
    return torch.empty(*(args or (0,)), dtype=dtype, device="cpu")


def float_tensor(*args):
    return old_tensor_of(torch.float32, args)


def double_tensor(*args):
    return old_tensor_of(torch.float64, args)


def half_tensor(*args):
    return old_tensor_of(torch.float16, args)


def bfloat16_tensor(*args):
    return old_tensor_of(torch.bfloat16, args)


def byte_tensor(*args):
    return old_tensor_of(torch.uint8, args)


def char_tensor(*args):
    return old_tensor_of(torch.int8, args)


def short_tensor(*args):
    return old_tensor_of(torch.int16, args)


def int_tensor(*args):
    return old_tensor_of(torch.int32, args)


def long_tensor(*args):
    return old_tensor_of(torch.int64, args)


def bool_tensor(*args):
    return old_tensor_of(torch.bool, args)


def sym_size(self, dim):
    return self.size(dim)


def sym_stride(self, dim):
    return self.stride(dim)


def sym_numel(self):
    return self.numel()


def sym_storage_offset(self):
    return self.storage_offset()


def shape_as_tensor(tensor):
    return torch.tensor(list(tensor.shape))


def foreach_lerp_(self, end, weight):
    for tensor, to in zip(self, end):
        tensor.lerp_(to, weight.to(tensor.dtype))
    return self


def foreach_pow(base, exponents):
    return tuple([torch.pow(base.to(exponent.dtype), exponent) for exponent in exponents])


def _told(message):
    """What torch says where a check fails."""
    try:
        torch._check_with(RuntimeError, False, message)
    except RuntimeError as error:
        return str(error)


def check_tensor_all_with(error_type, cond, message=None):
    """A check that the graph makes where it can (on CPUs), and that reads the number elsewhere."""
    if not torch.is_tensor(cond):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if not cond.dtype == torch.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    if cond.device.type != "cpu" or torch.compiler.is_exporting():
        torch._check_with(error_type, cond._is_all_true().item(), message)
    elif not cond._is_all_true():
        raise error_type(_told(message))
