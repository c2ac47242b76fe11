"""Warnings of captured code: given as of the line that warns, as often as in eager, in one graph with what is around."""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from torch import nn

from tests.python.programs import Case, program


@program(graphs=1)
def in_the_middle() -> Case:
    def f(x):
        y = x + 1
        warnings.warn("old", stacklevel=1)
        return y * 2

    return Case(f, torch.ones(3))


@program(graphs=1)
def of_the_caller() -> Case:
    def old(x):
        warnings.warn("use another", DeprecationWarning, stacklevel=2)
        return x * 2

    def f(x):
        return old(x) + old(x + 1)

    return Case(f, torch.ones(3))


@program(graphs=1)
def of_a_caller_that_reads_no_global() -> Case:
    class Old:
        def warn(self):
            warnings.warn("old", stacklevel=2)

        def run(self, x):
            self.warn()
            return x * 2

    old = Old()

    def f(x):
        return old.run(x) + old.run(x + 1)

    return Case(f, torch.ones(3))


@program()
def of_who_called_the_compiled_function() -> Case:
    def f(x):
        warnings.warn("use another", FutureWarning, stacklevel=2)
        return x * 2

    return Case(f, torch.ones(3))


@program()
def in_a_module() -> Case:
    class Layer(nn.Module):
        def forward(self, x, number):
            warnings.warn(f"number {number}", stacklevel=1)
            return x * 2

    layer = Layer()

    def f(x):
        return layer(x, 1) + layer(x, 4)

    return Case(f, torch.ones(3))


@program(graphs=1)
def functions_that_warn_of_arguments() -> Case:
    def f(x, y):
        loss = F.mse_loss(x, y) + F.l1_loss(x, y)
        return loss, F.kl_div(x.log_softmax(-1), x.softmax(-1)), F.softmax(x)

    return Case(f, torch.ones(4), torch.ones(1))


@program(graphs=1)
def a_layer_that_warns() -> Case:
    loss = nn.KLDivLoss()

    def f(x):
        return loss(x.log_softmax(-1), x.softmax(-1)) * 2

    return Case(f, torch.arange(6.0).view(2, 3))


@program()
def that_are_errors() -> Case:
    def old(x):
        warnings.warn("use another", DeprecationWarning, stacklevel=2)
        return x * 2

    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            try:
                return old(x)
            except DeprecationWarning as e:
                return x + len(str(e))

    return Case(f, torch.ones(3))


@program()
def that_are_caught_inside() -> Case:
    def f(x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            warnings.warn("one")
            y = F.mse_loss(x, x[:1])
        return y, [str(one.message) for one in seen]

    return Case(f, torch.ones(3))


@program()
def of_classes_and_objects() -> Case:
    class Mine(UserWarning):
        def __init__(self, text):
            said.append(text)
            super().__init__(text)

    class Plain(UserWarning):
        pass

    said: list[str] = []

    def f(x):
        warnings.warn("a", Mine)
        warnings.warn("b", Plain)
        warnings.warn(Plain("c"))
        warnings.warn(message="d", category=Plain, stacklevel=1)
        return x * 2

    return Case(f, torch.ones(3)).watching(said)


@program()
def of_things_that_are_none() -> Case:
    def f(x):
        try:
            warnings.warn("a", int)
        except TypeError as e:
            return x + 1, str(e)

    return Case(f, torch.ones(3))


@program()
def before_an_error() -> Case:
    def f(x):
        y = x + 1
        warnings.warn(f"size {x.shape[0]}")
        raise ValueError(y.dim())

    return Case(f, torch.ones(3)).then_call(torch.ones(4)).then_call(torch.ones(5))
