"""Functions under nonstrict_trace: in a graph a call of one is a `Site`, which takes and gives the tensors and
constants that the function's arguments and results consist of. Backends that trace see through it."""

from __future__ import annotations

import enum
from contextlib import ExitStack

import torch
import torch._guards
from torch.utils._pytree import tree_flatten, tree_unflatten

from stator import exc

ATOMS = (
    torch.Tensor, type(None), bool, int, float, complex, str, bytes, enum.Enum, torch.dtype, torch.device, torch.layout,
    torch.memory_format, torch.SymInt, torch.SymFloat, torch.SymBool,
)  # fmt: skip


class Site:
    """One captured call. `owners` has an entry for each leaf of the arguments: None, or a module and the names of its
    tensors, which are given in its place."""

    def __init__(self, function, spec, owners):
        self.function = function
        self.spec = spec
        self.owners = owners
        self.out_spec = None
        self.__name__ = self.__qualname__ = getattr(function, "__name__", "nonstrict")
        # In a graph's source a name of torch's stands for what torch has under it, and this is not that.
        module = getattr(function, "__module__", None) or __name__
        self.__module__ = __name__ if module.partition(".")[0] == "torch" else module

    def arguments(self, leaves):
        return tree_unflatten(leaves, self.spec)

    def __call__(self, *given):
        rest = iter(given)
        leaves = []
        with ExitStack() as stack:
            for owner in self.owners:
                if owner is None:
                    leaves.append(next(rest))
                    continue
                module, names = owner
                tensors = {name: next(rest) for name in names}
                stack.enter_context(torch.nn.utils.stateless._reparametrize_module(module, tensors, tie_weights=True))
                leaves.append(module)
            # Tensors that the function has from elsewhere are constants to what traces it, and to what a backend does
            # with the result.
            if (mode := torch._guards.detect_fake_mode(given)) is not None:
                from stator import _fake

                if mode is _fake.mode():  # of all captures
                    stack.callback(setattr, mode, "allow_non_fake_inputs", mode.allow_non_fake_inputs)
                mode.allow_non_fake_inputs = True
            args, kwargs = self.arguments(leaves)
            results, self.out_spec = tree_flatten(self.function(*args, **kwargs))
        for leaf in results:
            if not isinstance(leaf, ATOMS):
                raise exc.UserError(
                    exc.UserErrorType.INVALID_OUTPUT,
                    f"{self.__name__}, which is under nonstrict_trace, gives a {type(leaf).__name__}",
                )
        return tuple(results)


def rebuilt(shape, leaves):
    """What `polyfills.nonstrict.take_apart` took apart, of other leaves."""
    if shape is None:
        return next(leaves)
    kind, names, parts = shape
    made = [rebuilt(part, leaves) for part in parts]
    if kind is dict:
        return dict(zip(names, made, strict=True))
    if kind in (list, tuple):
        return kind(made)
    instance = object.__new__(kind)
    for name, value in zip(names, made, strict=True):
        object.__setattr__(instance, name, value)
    return instance


class AllowedSite(Site):
    """A call of a function under allow_in_graph with objects that the captured part made. `spec`: the shapes of args
    and kwargs."""

    def __init__(self, function, spec, count):
        super().__init__(function, spec, [None] * count)

    def arguments(self, leaves):
        rest = iter(leaves)
        return [rebuilt(shape, rest) for shape in self.spec]
