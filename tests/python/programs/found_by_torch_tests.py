"""Small forms of what PyTorch's own unit tests found: each once gave another result than eager."""

import torch

from tests.python.programs import Case, program, vec


@program(full=2)
def buffers_that_a_trace_makes():
    def f(x):
        module = torch.nn.Module()
        module.kept = torch.nn.Buffer(x + 1)
        module.left = torch.nn.Buffer(x * 2, persistent=False)
        module.plain = x - 1
        return (
            isinstance(module.kept, torch.nn.Buffer),
            isinstance(module.plain, torch.nn.Buffer),
            sorted(module._buffers),
            sorted(module.state_dict()),
            module.kept + module.left,
        )

    return Case(f, vec())


_BUFFER = torch.nn.Buffer(torch.ones(3))


@program(full=1)
def a_buffer_from_outside():
    def f(x):
        kinds = isinstance(_BUFFER, torch.nn.Buffer), isinstance(x, torch.nn.Buffer)
        return x + _BUFFER, kinds, isinstance(x, torch.autograd.Variable)

    return Case(f, vec(3))


@program()
def a_mark_makes_a_parameter():
    def f(x):
        y = x + 1
        before = isinstance(x, torch.nn.Parameter), isinstance(y, torch.nn.Parameter)
        x._is_param = y._is_param = True
        after = isinstance(x, torch.nn.Parameter), isinstance(y, torch.nn.Parameter)
        return y, before, after

    return Case(f, vec(3))


class _Even(type):
    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance) or (isinstance(instance, int) and instance % 2 == 0)

    def __subclasscheck__(cls, other):
        return super().__subclasscheck__(other) or other is float


class _Number(metaclass=_Even):
    pass


@program(full=1)
def a_metaclass_that_asks_types_own_checks():
    def f(x):
        checks = [isinstance(one, _Number) for one in (_Number(), 2, 3, x, x + 1)]
        return x + 1, checks, issubclass(int, _Number), issubclass(float, _Number), issubclass(_Number, _Number)

    return Case(f, vec())
