"""Convolutions on symbolic sizes, without the guards that only choose a kernel.

Which kernel a convolution gets depends on its sizes (on x86, among others, on whether the batch is larger than 16). A
compiled graph calls the operator, which chooses anew at each run; all that a backend has to know is the memory format
of the result. torch's own inference asks for the kernel first, and each question asked on the way is a guard. Here all
answers to these questions are tried: where they lead to one format, nothing was decided. Otherwise torch's inference
decides, with its guards.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from stator import _node_meta
from stator._torch_versions import has_guarding_hint

_FORWARD = (
    torch.ops.aten.convolution.default,
    torch.ops.aten._convolution.default,
)
_BACKWARD = torch.ops.aten.convolution_backward.default
_MOST_RUNS = 64


def symbolic_mode(shape_env: ShapeEnv) -> FakeTensorMode:
    """The mode of a graph with symbols. Not of a class of its own: higher-order operators find their rules by the
    class."""
    mode = FakeTensorMode(shape_env=shape_env)
    mode._dispatch_impl = types.MethodType(_dispatch, mode)  # type: ignore[method-assign]
    return mode


def _dispatch(mode: FakeTensorMode, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    if func in _FORWARD or func is _BACKWARD:
        answer = _infer(mode, func, args, kwargs)
        if answer is not None:
            return answer
    if func is torch.ops.aten.squeeze_.dim:
        # torch gives the tensor its own sizes, which are freed before they are read (squeeze_ of a size that is not 1).
        func, args = torch.ops.aten.squeeze_.dims, (args[0], [args[1]])
    return FakeTensorMode._dispatch_impl(mode, func, types, args, kwargs)


class _Open(Exception):
    """The question cannot be answered with yes or no, or there are too many."""


class _Answers:
    """One way through the questions that are asked of a ShapeEnv: `given` first, then no to each."""

    def __init__(self, shape_env: ShapeEnv, given: list[bool]) -> None:
        self.shape_env = shape_env
        self.given = given
        self.made: list[bool] = []
        self._known: dict[Any, bool] = {}

    def __call__(self, node: Any, size_oblivious: bool = False, fallback_value: bool | None = None) -> Any:
        expr = node.expr
        known = self.shape_env._maybe_evaluate_static(expr, size_oblivious=size_oblivious)
        if known is not None:
            return known
        if not node.is_bool():
            raise _Open
        if expr not in self._known:
            self.made.append(self.given[len(self.made)] if len(self.made) < len(self.given) else False)
            self._known[expr] = self.made[-1]
        return self._known[expr]


@contextlib.contextmanager
def _answered_by(answers: _Answers) -> Iterator[None]:
    own = answers.shape_env.__dict__
    own["evaluate_sym_node"] = answers
    try:
        yield
    finally:
        del own["evaluate_sym_node"]


def _all_ways(shape_env: ShapeEnv, ask: Any) -> Iterator[Any]:
    """What `ask` returns for each way in which its questions can be answered, impossible ones included."""
    given: list[bool] = []
    for _ in range(_MOST_RUNS):
        answers = _Answers(shape_env, given)
        with _answered_by(answers):
            result = ask()
        yield result
        # The next way: the last no becomes a yes, what came behind it is asked anew.
        made = answers.made
        while made and made[-1]:
            made.pop()
        if not made:
            return
        given = [*made[:-1], True]
    raise _Open


def _anew(mode: FakeTensorMode, tensor: FakeTensor, size: Any = None, stride: Any = None) -> FakeTensor:
    """An equal tensor. What is found out about one (whether it is contiguous, say) stays with it, so each way gets its
    own."""
    size = tensor.shape if size is None else size
    stride = tensor.stride() if stride is None else stride
    return _node_meta.bare_fake(mode, size, stride, tensor.dtype, tensor.fake_device, tensor.requires_grad)


def _ask_format(mode: FakeTensorMode, values: dict[str, Any]) -> Any:
    """The memory format of the kernel that torch would choose."""
    tensor, weight, bias = values["input"], values["weight"], values.get("bias")
    words = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    options = {word: values[word] for word in words}
    options["bias"] = bias
    if bias is None:
        options["bias_sizes"] = values.get("bias_sizes")
    kernel = torch._C._select_conv_backend(_anew(mode, tensor), _anew(mode, weight), **options)
    if weight.dim() == 3:
        # One spatial dim is computed as two, of which the first is 1; the input is made contiguous for that.
        batch, channels, length = tensor.shape
        tensor = _anew(mode, tensor, (batch, channels, 1, length), (channels * length, length, length, 1))
        (out, into, width), (a, b, c) = weight.shape, weight.stride()
        weight = _anew(mode, weight, (out, into, 1, width), (a, b, width * c, c))
    else:
        tensor, weight = _anew(mode, tensor), _anew(mode, weight)
    return torch._C._conv_determine_backend_memory_format(tensor, weight, kernel)


def _infer(mode: FakeTensorMode, func: Any, args: Any, kwargs: Any) -> Any:
    names = [argument.name for argument in func._schema.arguments]
    values = dict(zip(names, args, strict=False)) | dict(kwargs)
    tensor, weight = values["input"], values["weight"]
    plain = all(
        type(each) is FakeTensor and each.fake_mode is mode
        for each in values.values()
        if isinstance(each, torch.Tensor)
    )
    if (
        not plain
        or mode.propagate_real_tensors
        or tensor.dtype != weight.dtype
        or tensor.fake_device.type not in ("cpu", "cuda")
    ):
        return None
    if tensor.dim() != weight.dim() or not any(isinstance(size, torch.SymInt) for size in tensor.shape):
        return None
    if not all(has_guarding_hint(size) for size in (*tensor.shape, *weight.shape)):
        return None
    try:
        with mode:
            formats = set(_all_ways(cast(ShapeEnv, mode.shape_env), lambda: _ask_format(mode, values)))
    except (_Open, RuntimeError):
        return None
    if len(formats) != 1:
        return None
    device, memory_format = tensor.fake_device, formats.pop()

    def convert(made: Any) -> Any:
        if made is None:
            return None
        if made.dim() == 3 and memory_format is torch.channels_last:
            made = made.unsqueeze(2).to(memory_format=memory_format).squeeze(2)
        else:
            made = made.to(memory_format=memory_format)
        return FakeTensor(mode, made, device)

    with in_kernel_invocation_manager(mode):
        made = func(*args, **kwargs)
        if func is not _BACKWARD:
            return convert(made)
        return convert(made[0]), convert(made[1]), None if made[2] is None else FakeTensor(mode, made[2], device)
