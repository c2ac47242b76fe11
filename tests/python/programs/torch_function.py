"""__torch_function__: tensor subclasses, objects that are no tensors, modes, and the switches that turn it off."""

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from tests.python.programs import Case, leaf, mat, program, vec


class Plain(torch.Tensor):
    pass


class WithMethods(torch.Tensor):
    factor = 3

    def scaled(self):
        return self * self.factor

    @property
    def doubled(self):
        return self * 2

    def add(self, other):
        return super().add(other) - 1

    def __mul__(self, other):
        return torch.sub(self, other)


class Swapping(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.add, torch.Tensor.add):
            return super().__torch_function__(torch.sub, types, args, kwargs or {})
        return super().__torch_function__(func, types, args, kwargs or {})


_called = []


class Counting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        _called.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Unwrapping(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class Refusing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Holder:
    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [arg.tensor if isinstance(arg, Holder) else arg for arg in args]
        return Holder(func(*plain, **(kwargs or {})))


class AddsHundred(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result + 100 if func is torch.add else result


class Logs(TorchFunctionMode):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


@program(full=1)
def plain_subclass():
    def f(x, y):
        z = x + 1
        return z, type(z) is Plain, isinstance(z, Plain), y + x, torch.cat([x, y]), x.shape, x.sum(), x.max(0)

    return Case(f, vec().as_subclass(Plain), vec()).changing(vec(7).as_subclass(Plain), vec(7))


@program(full=1)
def subclasses_in_lists_from_outside():
    def f(both, again):
        return torch.cat(both), torch.stack(again), torch.cat(again[:1])

    def both():
        return [vec(), vec().as_subclass(Plain)]

    return Case(f, both(), tuple(both()))


@program(full=1)
def made_inside():
    def f(x):
        y = x.as_subclass(Plain)
        z = Plain(x)
        return y * 2, type(y) is Plain, y.as_subclass(torch.Tensor), z, x

    return Case(f, vec())


@program(full=1)
def methods_of_a_subclass():
    def f(x):
        return x.scaled(), x.doubled, x.add(2), x * 2, x.factor

    return Case(f, vec().as_subclass(WithMethods))


@program(full=1)
def attributes_of_a_subclass():
    def f(x):
        y = x + x.weight
        y.note = "new"
        return y, y.note, hasattr(y, "weight")

    x = vec().as_subclass(Plain)
    x.weight = 2.0
    other = vec().as_subclass(Plain)
    other.weight = 3.0
    return Case(f, x).changing(other)


@program(full=3)
def handler_replaces_a_function():
    def f(x):
        return torch.add(x, 1), x + 1, 1 + x, x.add(2), x.sin(), F.relu(x), x.shape[0] + x.dim()

    return Case(f, vec().as_subclass(Swapping))


@program(full=1)
def handler_with_effects():
    def f(x):
        y = torch.sin(x + 1)
        return y[0], len(_called), list(_called)

    _called.clear()
    return Case(f, vec().as_subclass(Counting)).watching(_called)


@program(full=1)
def handler_unwraps():
    def f(x):
        return x + 1, type(x.sin()), x.requires_grad

    return Case(f, leaf(vec()).as_subclass(Unwrapping))


@program()
def handler_refuses():
    def f(x):
        try:
            return x.as_subclass(Refusing) + 1
        except TypeError as error:
            return str(error)[:30]

    return Case(f, vec())


@program(full=1)
def handler_replaced_later():
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    def other(cls, func, types, args=(), kwargs=None):
        return 7

    def f(x):
        return torch.sin(x)

    def replace(case):
        Own.__torch_function__ = classmethod(other)

    return Case(f, vec().as_subclass(Own)).then(replace)


@program(full=1)
def object_with_handler():
    def f(x, held):
        return torch.sin(Holder(x)).tensor + 1, torch.add(held, 1).tensor

    return Case(f, vec(), Holder(vec()))


@program(full=2)
def subclass_in_layers():
    weight = leaf(mat())

    def f(x):
        return F.relu(F.linear(x, weight)), F.layer_norm(x, (4,)), torch.softmax(x, dim=-1)

    return Case(f, mat().as_subclass(Plain))


@program(full=1)
def in_place_on_a_subclass():
    def f(x):
        x.add_(1)
        x[0] = 5
        return x, x.mul_(2) is x

    return Case(f, vec().as_subclass(Plain))


@program(full=3)
def mode_in_the_trace():
    def f(x):
        with AddsHundred():
            y = torch.add(x, 1)
            z = y * 2
        return torch.add(y, 1), z

    return Case(f, vec())


@program(full=2)
def modes_nested():
    seen = []

    def f(x):
        with Logs(seen), AddsHundred():
            y = torch.add(x, 1)
        return y

    return Case(f, vec()).watching(seen)


@program(min_ops=2)
def mode_around_a_break():
    def f(x):
        with AddsHundred():
            y = torch.add(x, 1)
            print("between")
            z = torch.add(y, 1)
        return torch.add(z, 1)

    return Case(f, vec())


@program(full=1)
def device_as_context():
    def f(x):
        with torch.device("cpu"):
            y = torch.ones(4) + torch.arange(4)
            d = torch.get_default_device()
        return x + y, d, torch.get_default_device()

    return Case(f, vec(4))


@program(full=1)
def device_meta_as_context():
    def f(x):
        with torch.device("meta"):
            y = torch.ones(4)
            z = torch.zeros(2, device="cpu")
        return x + 1, y.device, z.device

    return Case(f, vec(4))


@program(full=1)
def switched_off():
    def f(x):
        with torch._C.DisableTorchFunctionSubclass():
            y = x + 1
        return y, type(y), x + 1, torch.overrides.has_torch_function((x,))

    return Case(f, vec().as_subclass(Plain))


@program(min_ops=1)
def break_in_a_handler():
    class Talking(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            print(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    def f(x, y):
        return y * 2 + 1, x.sin()

    return Case(f, vec().as_subclass(Talking), vec())


@program(full=1)
def parameter_of_a_subclass():
    weight = torch.nn.Parameter(vec().as_subclass(Swapping))

    def f(x):
        return torch.add(weight, x), type(weight * 2)

    return Case(f, vec())


@program(full=2)
def parameter_without_grad():
    def f(x):
        p = torch.nn.Parameter(x * 2, requires_grad=False)
        return p, isinstance(p, torch.nn.Parameter), p + 1

    return Case(f, vec())
