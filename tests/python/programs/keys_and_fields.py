"""Keys by identity, fields of named tuples, mappings after **, and classes' own fromkeys."""

import collections
import math
import operator
import types
import typing

import torch

from tests.python.programs import Case, program, vec


@program(full=2)
def tensors_as_keys_of_an_outside_dict():
    weight, bias = vec(), vec(4, 1.0)
    state = {weight: {"step": 1}, bias: {"step": 2}, "lr": 0.5}

    def f(x):
        state[weight]["step"] += 1
        state[x] = 7
        return x * state[weight]["step"] + state[bias]["step"] * state["lr"]

    return Case(f, vec())


@program(full=2)
def defaultdict_with_a_tensor_key():
    parameter = torch.nn.Parameter(torch.ones(2))
    table = collections.defaultdict(list)

    def f(x):
        table["a"] = x + 1
        table[parameter] = 123
        table["c"] = x * 2
        return table["b"], table["a"] + table["c"], len(table)

    return Case(f, vec())


@program(full=1)
def objects_in_an_outside_set():
    class Token:
        pass

    first, second = Token(), Token()
    chosen = {first}  # of several, the order would depend on their addresses

    def f(x, one):
        return x + len(chosen), one in chosen, second in chosen

    return Case(f, vec(), first)


@program(full=2)
def fields_of_named_tuples():
    class Pair(typing.NamedTuple):
        left: torch.Tensor
        right: float = 2.0

        def scaled(self):
            return self.left * self.right

        @property
        def doubled(self):
            return self.left * 2

    def f(x, given):
        point = collections.namedtuple("Point", ["x", "y"], defaults=[3])(x)
        made = Pair(x)
        return made.scaled() + made.doubled + given.scaled(), made._replace(right=1.0).right, point.y, point.x + 1

    return Case(f, vec(), Pair(vec(4, 1.0), 4.0))


@program(full=2)
def fromkeys_of_classes():
    class Table(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key + "!", value)

    def f(x):
        plain = dict.fromkeys("ab", x + 1)
        ordered = collections.OrderedDict.fromkeys(("c", "d"), value=x)
        default = collections.defaultdict.fromkeys(iter(plain), 2)
        own = Table.fromkeys("e", 5)
        return plain["a"] + ordered["d"] * default["b"], list(own), type(own).__name__, type(default).__name__

    return Case(f, vec())


@program(full=1)
def mapping_after_two_stars():
    class Settings:
        def __init__(self, **values):
            self.values = values

        def keys(self):
            return self.values.keys()

        def __getitem__(self, key):
            return self.values[key]

    def scale(x, by=1, shift=0):
        return x * by + shift

    def f(x, settings):
        return scale(x, **settings), scale(x, shift=2, **Settings(by=3)), {**settings}

    return Case(f, vec(), Settings(by=2, shift=1))


@program(full=1)
def callers_with_keywords():
    def f(x, y):
        add = operator.methodcaller("add", 3, alpha=2)
        return add(x) + y, operator.length_hint([x, y]), operator.length_hint((1,))

    return Case(f, vec(), vec(4, 1.0))


@program(min_ops=1)
def class_with_wrapped_methods_made_inside():
    def f(x):
        class Scale:
            by = 3

            @classmethod
            def whole(cls, x):
                return x * cls.by

            @staticmethod
            def less(x):
                return x - 1

            @property
            def half(self):
                return self.by / 2

        return Scale.whole(x) + Scale().less(x) * Scale().half

    return Case(f, vec())


@program(full=2)
def bound_method_made_by_its_type():
    class Shift:
        by = 2

    def shifted(self, x):
        return x + self.by

    def f(x):
        return types.MethodType(shifted, Shift())(x) * 2

    return Case(f, vec())


@program(full=1)
def kinds_of_tensor_classes():
    def f(x):
        return (
            x + 1,
            isinstance(x, torch.FloatTensor),
            isinstance(x, torch.DoubleTensor),
            isinstance(x.int(), torch.IntTensor),
        )

    return Case(f, vec())


@program(full=1)
def dict_of_a_module():
    def f(x):
        return x + 1, "sqrt" in math.__dict__, math.__dict__["floor"](2.5), math.__name__

    return Case(f, vec())


@program(min_ops=3)
def attention_kernels_chosen_for_a_while():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def f(x):
        with sdpa_kernel([SDPBackend.MATH]):
            first = torch.nn.functional.scaled_dot_product_attention(x, x, x)
            print("break", torch.backends.cuda.flash_sdp_enabled())
            second = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return first + second, torch.backends.cuda.flash_sdp_enabled()

    return Case(f, torch.ones(1, 2, 3, 4))
