"""Something that an earlier capture relied on changes between calls; the next call has to see it."""

import collections

import torch

from tests.python.programs import Case, leaf, mat, program, vec

FACTOR = 2
OPTIONS = {"scale": 2, "nested": {"k": [1]}}


def helper(x):
    return x + 1


def set_global(name, value):
    def step(case):
        globals()[name] = value

    return step


@program(full=1)
def int_argument():
    def f(x, n):
        return x + n

    case = Case(f, vec(), 1)
    for n in (2, 3, 0, -1, 10**20 % 97, True, 1.0):
        case.then_call(vec(), n)
    return case


@program(full=1)
def float_argument():
    def f(x, v):
        return x * v

    case = Case(f, vec(), 0.5)
    for v in (0.25, -0.0, 0.0, float("nan"), float("inf"), 1):
        case.then_call(vec(), v)
    return case


@program(full=1)
def one_true_and_one_point_zero():
    def f(i, n):
        return i * n, type(n).__name__

    case = Case(f, torch.tensor([1, 2]), 1)
    for n in (True, 1.0, 1, 1.0, True):
        case.then_call(torch.tensor([1, 2]), n)
    return case


@program(full=1)
def negative_zero():
    def f(x, v):
        return x / v

    return Case(f, vec(4, 1.0), 0.0).then_call(vec(4, 1.0), -0.0).then_call(vec(4, 1.0), 0.0)


@program(full=1)
def string_argument():
    def f(x, mode):
        return x + 1 if mode == "add" else x * 2

    return Case(f, vec(), "add").then_call(vec(), "mul").then_call(vec(), "add")


@program(full=1)
def none_and_tensor():
    def f(x, y=None):
        return x if y is None else x + y

    return Case(f, vec(), vec()).then_call(vec()).then_call(vec(), None).then_call(vec(), vec())


@program(full=1)
def dtype_changes():
    def f(x):
        return x + 1, x.dtype

    case = Case(f, vec())
    for dtype in (torch.float64, torch.int64, torch.bool, torch.complex64, torch.bfloat16):
        case.then_call(vec().to(dtype))
    return case


@program(full=1)
def shape_changes():
    def f(x):
        return x.sum(-1) * x.shape[0], x.shape

    case = Case(f, mat())
    for shape in ((3, 5), (3, 6), (1, 4), (0, 4), (3, 1), (2, 2), (7, 7)):
        case.then_call(mat(*shape))
    return case


@program(full=1)
def rank_changes():
    def f(x):
        return x.sum(0) + x.dim()

    return Case(f, mat()).then_call(vec()).then_call(mat()[None]).then_call(mat())


@program(full=1)
def strides_change():
    def f(x):
        return x.reshape(-1), x.is_contiguous(), x + 1

    return Case(f, mat()).then_call(mat(4, 3).t()).then_call(mat(6, 4)[::2]).then_call(mat(3, 1).expand(3, 4))


@program(full=1)
def requires_grad_changes():
    def f(x):
        y = x * 2
        return y, y.requires_grad

    return Case(f, vec()).then_call(leaf(vec())).then_call(vec())


@program(full=1)
def tensor_becomes_parameter():
    def f(x):
        return x * 2, isinstance(x, torch.nn.Parameter)

    return Case(f, vec()).then_call(torch.nn.Parameter(vec())).then_call(leaf(vec()))


@program(full=1)
def tensor_becomes_number():
    def f(x, y):
        return x + y

    return Case(f, vec(), vec()).then_call(vec(), 3).then_call(vec(), 2.5).then_call(vec(), vec())


@program(full=1)
def list_length_changes():
    def f(items):
        total = 0
        for item in items:
            total = total + item
        return total

    return (
        Case(f, [vec(), vec()])
        .then_call([vec()])
        .then_call([vec()] * 3)
        .then_call([vec(), 2])
        .then_call((vec(), vec()))
    )


@program(full=1)
def dict_keys_change():
    def f(d):
        out = 0
        for k, v in d.items():
            out = out * len(k) + v
        return out, list(d)

    case = Case(f, {"a": vec(), "bb": 2})
    for d in ({"bb": 2, "a": vec()}, {"a": vec()}, {"a": vec(), "bb": 3}, {"a": vec(), "ccc": 2}):
        case.then_call(d)
    return case


@program()
def global_changes():
    global FACTOR
    FACTOR = 2

    def f(x):
        return x * FACTOR

    return Case(f, vec()).then(set_global("FACTOR", 3), set_global("FACTOR", 3), set_global("FACTOR", 2.0))


@program()
def global_function_replaced():
    globals()["helper"] = lambda x: x + 1

    def f(x):
        return helper(x) * 2

    return Case(f, vec()).then(set_global("helper", lambda x: x - 1))


@program()
def global_deleted():
    globals()["TEMPORARY"] = 3

    def f(x):
        try:
            return x + TEMPORARY
        except NameError as error:
            return str(error)

    return Case(f, vec()).then(lambda case: globals().pop("TEMPORARY"), set_global("TEMPORARY", 4))


@program()
def builtin_shadowed_by_global():
    globals().pop("len", None)

    def f(x):
        return x + len([1, 2])

    return Case(f, vec()).then(set_global("len", lambda items: 100), lambda case: globals().pop("len"))


@program()
def global_dict_changes_deep_inside():
    OPTIONS.clear()
    OPTIONS.update(scale=2, nested={"k": [1]})

    def f(x):
        return x * OPTIONS["scale"] + OPTIONS["nested"]["k"][0]

    def deep(case):
        OPTIONS["nested"]["k"][0] = 50

    def shallow(case):
        OPTIONS["scale"] = 7

    return Case(f, vec()).then(deep, shallow, lambda case: OPTIONS.update(nested={"k": [9]}))


@program()
def attribute_changes():
    class Box:
        pass

    box = Box()
    box.n = 2

    def f(x):
        return x * box.n

    return Case(f, vec()).then(lambda case: setattr(box, "n", 3), lambda case: setattr(box, "n", vec()))


@program()
def attribute_appears_and_goes():
    class Box:
        n = 1

    box = Box()

    def f(x):
        return x * box.n, hasattr(box, "extra")

    def drop(case):
        del box.n
        del box.extra

    return Case(f, vec()).then(lambda case: setattr(box, "n", 3), lambda case: setattr(box, "extra", 3), drop)


@program()
def class_attribute_replaced():
    class A:
        n = 2

    a = A()

    def f(x):
        return x * a.n

    return Case(f, vec()).then(lambda case: setattr(A, "n", 5))


@program()
def class_attribute_added_lower_in_the_mro():
    class Base:
        n = 1

    class Middle(Base):
        pass

    class Leaf(Middle):
        pass

    thing = Leaf()

    def f(x):
        return x + thing.n

    return Case(f, vec()).then(
        lambda case: setattr(Middle, "n", 100), lambda case: setattr(Leaf, "n", 1000), lambda case: delattr(Leaf, "n")
    )


@program()
def method_replaced_on_the_class():
    class A:
        def m(self, x):
            return x + 1

    a = A()

    def f(x):
        return a.m(x)

    return Case(f, vec()).then(lambda case: setattr(A, "m", lambda self, x: x + 100))


@program()
def method_replaced_on_a_base_class():
    class A:
        def m(self, x):
            return x + 1

    class B(A):
        def m(self, x):
            return super().m(x) * 2

    b = B()

    def f(x):
        return b.m(x)

    return Case(f, vec()).then(lambda case: setattr(A, "m", lambda self, x: x + 100))


@program()
def dunder_getattr_replaced():
    class A:
        def __getattr__(self, name):
            return 1

    a = A()

    def f(x):
        return x + a.anything

    return Case(f, vec()).then(lambda case: setattr(A, "__getattr__", lambda self, name: 100))


@program()
def dunder_getattr_added():
    class A:
        pass

    a = A()

    def f(x):
        return x + getattr(a, "anything", 5)

    return Case(f, vec()).then(lambda case: setattr(A, "__getattr__", lambda self, name: 100))


@program()
def operator_replaced():
    class A:
        def __add__(self, other):
            return other + 1

        def __call__(self, x):
            return x * 2

        def __len__(self):
            return 3

        def __eq__(self, other):
            return True

    a = A()

    def f(x):
        return a + x, a(x), len(a), a == 5

    def replace(case):
        A.__add__ = lambda self, other: other + 100
        A.__call__ = lambda self, x: x * 200
        A.__len__ = lambda self: 300
        A.__eq__ = lambda self, other: False

    return Case(f, vec()).then(replace)


@program()
def property_replaced():
    class A:
        @property
        def n(self):
            return 2

    a = A()

    def f(x):
        return x * a.n

    return Case(f, vec()).then(lambda case: setattr(A, "n", property(lambda self: 50)), lambda case: setattr(A, "n", 7))


@program()
def descriptor_becomes_data_descriptor():
    class D:
        def __get__(self, obj, owner=None):
            return 1

    class A:
        v = D()

    a = A()
    a.__dict__["v"] = 10

    def f(x):
        return x * a.v

    return Case(f, vec()).then(lambda case: setattr(D, "__set__", lambda self, obj, value: None))


@program()
def bases_replaced():
    class P:
        n = 1

    class Q:
        n = 50

    class A(P):
        pass

    a = A()

    def f(x):
        return x * a.n

    return Case(f, vec()).then(lambda case: setattr(A, "__bases__", (Q,)))


@program()
def class_of_an_instance_changes():
    class A:
        def m(self, x):
            return x + 1

    class B:
        def m(self, x):
            return x * 50

    a = A()

    def f(x):
        return a.m(x)

    return Case(f, vec()).then(lambda case: setattr(a, "__class__", B))


@program()
def default_changes():
    def g(x, n=2, *, k=1):
        return x * n + k

    def f(x):
        return g(x)

    def keyword(case):
        g.__kwdefaults__ = {"k": 30}

    return Case(f, vec()).then(lambda case: setattr(g, "__defaults__", (7,)), keyword)


@program()
def code_changes():
    def g(x):
        return x + 1

    def other(x):
        return x * 100

    def f(x):
        return g(x)

    return Case(f, vec()).then(lambda case: setattr(g, "__code__", other.__code__))


@program()
def closure_variable_changes():
    n = 2

    def put(value):
        nonlocal n
        n = value

    def f(x):
        return x * n

    return Case(f, vec()).then(lambda case: put(3), lambda case: put(vec()), lambda case: put(None))


@program()
def list_in_closure_changes():
    items = [1, 2]

    def f(x):
        return x * len(items) + items[-1]

    return Case(f, vec()).then(
        lambda case: items.append(5), lambda case: items.__setitem__(0, 9), lambda case: items.pop()
    )


@program()
def dict_in_closure_changes():
    table = {"a": 1}

    def f(x):
        return x * table["a"] + table.get("b", 0), "c" in table, len(table)

    def reorder(case):
        table["a"] = table.pop("a")

    return Case(f, vec()).then(
        lambda case: table.update(b=4),
        lambda case: table.update(c=1),
        reorder,
        lambda case: table.clear() or table.update(a=5),
    )


@program()
def set_in_closure_changes():
    names = {"a"}

    def f(x):
        return x + len(names) if "a" in names else x

    return Case(f, vec()).then(lambda case: names.add("b"), lambda case: names.discard("a"))


@program()
def deque_in_closure_changes():
    window = collections.deque([1, 2], maxlen=3)

    def f(x):
        return x + sum(window)

    return Case(f, vec()).then(lambda case: window.append(3), lambda case: window.append(4))


@program()
def tensor_in_closure_replaced():
    box = [vec()]

    def f(x):
        return x + box[0]

    return Case(f, vec()).then(
        lambda case: box.__setitem__(0, vec(4, 9.0)),
        lambda case: box.__setitem__(0, vec(1, 9.0)),
        lambda case: box.__setitem__(0, 3),
    )


@program()
def tensor_in_closure_mutated():
    state = vec()

    def f(x):
        return x + state

    return Case(f, vec()).then(lambda case: state.add_(10), lambda case: state.zero_())


@program()
def function_argument_changes():
    def f(x, fn):
        return fn(x)

    return (
        Case(f, vec(), torch.sin)
        .then_call(vec(), torch.cos)
        .then_call(vec(), lambda v: v + 1)
        .then_call(vec(), torch.nn.ReLU())
    )


@program()
def lambda_with_same_code_and_other_closure():
    def adder(n):
        return lambda v: v + n

    def f(x, fn):
        return fn(x)

    return Case(f, vec(), adder(1)).then_call(vec(), adder(2)).then_call(vec(), adder(vec()))


@program()
def object_of_another_class():
    class A:
        def run(self, x):
            return x + 1

    class B:
        def run(self, x):
            return x * 2

    class C(A):
        pass

    def f(x, thing):
        return thing.run(x), isinstance(thing, A)

    return Case(f, vec(), A()).then_call(vec(), B()).then_call(vec(), C()).then_call(vec(), A())


@program()
def type_argument():
    def f(x, cls):
        return cls(x.shape[0]), isinstance(3, cls), x + 1

    return Case(f, vec(), int).then_call(vec(), float).then_call(vec(), str)


@program()
def aliasing_of_arguments_changes():
    def f(a, b):
        a.append(1)
        return len(b)

    def alias(case):
        items = []
        case.args = (items, items)

    return Case(f, [], []).then(alias).then_call([], [])


@program()
def aliasing_of_tensor_arguments_changes():
    def f(a, b):
        a.add_(1)
        return b * 1

    def alias(case):
        case.args = (case.args[0],) * 2

    return Case(f, vec(), vec()).then(alias).then_call(vec(), vec())


@program()
def argument_becomes_alias_of_a_global():
    OPTIONS.clear()
    OPTIONS.update(shared=[1])

    def f(x, items):
        items.append(2)
        return x + len(OPTIONS["shared"])

    def alias(case):
        case.args = (vec(), OPTIONS["shared"])

    return Case(f, vec(), [1]).then(alias)


@program()
def grad_mode_changes_outside():
    def inner(x):
        return x * 2

    def f(x, enabled):
        with torch.set_grad_enabled(enabled):
            return inner(x)

    return Case(f, leaf(vec()), True).then_call(leaf(vec()), False).then_call(leaf(vec()), True)


@program()
def module_mode_changes():
    model = torch.nn.Dropout(0.5)

    def f(x):
        return model(x)

    return Case(f, mat()).then(
        lambda case: model.eval(), lambda case: setattr(model, "p", 0.9), lambda case: model.train()
    )


@program()
def many_int_values():
    def f(x, n):
        return x * n + n

    case = Case(f, vec(), 2)
    for n in range(3, 16):
        case.then_call(vec(), n)
    return case


@program()
def many_shapes():
    def f(x):
        return (x * 2).sum(0)

    case = Case(f, mat(2, 4))
    for rows in range(3, 16):
        case.then_call(mat(rows, 4))
    return case


@program()
def many_strings_over_the_limit():
    def f(x, name):
        return x + len(name), name.upper()

    case = Case(f, vec(), "a")
    for n in range(12):
        case.then_call(vec(), "b" * n)
    return case


@program()
def size_zero_and_one():
    def f(x):
        return x.sum() + x.shape[0], (x + 1).shape

    case = Case(f, vec(3))
    for n in (4, 1, 0, 2, 5):
        case.then_call(vec(n))
    return case


@program()
def type_with_same_name_replaces_another():
    def build(n):
        class Local:
            def run(self, x):
                return x * n

        return Local()

    def f(x, thing):
        return thing.run(x)

    return Case(f, vec(), build(2)).then_call(vec(), build(3)).then_call(vec(), build(2))


@program()
def numbers_beyond_sixty_four_bits():
    def f(x, n):
        return x + (n % 7), n + 1

    return Case(f, vec(), 2**70).then_call(vec(), 2**70 + 1).then_call(vec(), -(2**70))


@program()
def bool_subclass_of_int_in_list():
    def f(x, flags):
        return [x + 1 if flag is True else x - 1 for flag in flags]

    return Case(f, vec(), [True, False]).then_call(vec(), [1, 0]).then_call(vec(), [True, True])


@program()
def abc_registration_changes():
    import abc

    class Shape(abc.ABC):
        pass

    class Square:
        pass

    thing = Square()

    def f(x):
        return x + 1 if isinstance(thing, Shape) else x - 1

    return Case(f, vec()).then(lambda case: Shape.register(Square))


@program()
def instance_attribute_shadows_method():
    class A:
        def m(self, x):
            return x + 1

    a = A()

    def f(x):
        return a.m(x)

    return Case(f, vec()).then(lambda case: setattr(a, "m", lambda x: x * 100), lambda case: delattr(a, "m"))


@program()
def metaclass_attribute_changes():
    class Meta(type):
        n = 2

    class A(metaclass=Meta):
        pass

    def f(x):
        return x * A.n

    return Case(f, vec()).then(lambda case: setattr(Meta, "n", 5), lambda case: setattr(A, "n", 9))


@program()
def slots_descriptor_replaced():
    class A:
        __slots__ = ("v",)

    a = A()
    a.v = 3

    def f(x):
        return x * a.v

    return Case(f, vec()).then(lambda case: setattr(a, "v", 4), lambda case: setattr(A, "v", 10))


@program()
def function_attribute_changes():
    def g(x):
        return x * g.scale

    g.scale = 2

    def f(x):
        return g(x)

    return Case(f, vec()).then(lambda case: setattr(g, "scale", 5))


@program()
def enum_and_class_arguments():
    import enum

    class Mode(enum.Enum):
        A = 1
        B = 2

    def f(x, mode):
        return x + 1 if mode is Mode.A else x * mode.value

    return Case(f, vec(), Mode.A).then_call(vec(), Mode.B).then_call(vec(), Mode.A)


@program()
def module_attribute_of_a_module_changes():
    import types

    settings = types.ModuleType("settings")
    settings.scale = 2

    def f(x):
        return x * settings.scale

    return Case(f, vec()).then(lambda case: setattr(settings, "scale", 9))


@program()
def signature_of_a_function_that_changes():
    import functools
    import inspect

    def plain(a: int, b=2, *, c=3):
        return a

    @functools.wraps(plain)
    def around(*args):
        return plain(*args)

    def f(x):
        try:
            return x + 1, str(inspect.signature(plain)), str(inspect.signature(around))
        except TypeError as error:
            return x + 1, str(error)

    return Case(f, vec()).then(
        lambda case: setattr(plain, "__defaults__", (7,)),
        lambda case: plain.__kwdefaults__.update(c=11),
        lambda case: plain.__annotations__.update(a=str),
        lambda case: setattr(plain, "__signature__", inspect.signature(lambda q: q)),
        lambda case: setattr(plain, "__signature__", 34),
        lambda case: delattr(around, "__wrapped__"),
    )


@program(full=4)
def sizes_that_several_tensors_agree_on():
    def f(x, y):
        common = torch.broadcast_shapes(x.shape[:-1], y.shape[:1], 1)
        wide = torch.broadcast_to(y, common + y.shape[-1:]), torch.zeros(common), x.sum_to_size(common + (1,))
        return wide, torch.empty_strided(common, (2,)).shape, common

    def given(n):
        return torch.ones(n, 3), torch.ones(n, 2)

    return Case(f, *given(2)).changing(*given(3)).then_call(*given(5)).then_call(*given(7))


@program(full=1)
def sizes_that_do_not_agree():
    def f(x, y):
        try:
            return x + 1, torch.broadcast_shapes(x.shape, y.shape)
        except (RuntimeError, ValueError) as error:
            return x + 1, str(error)

    case = Case(f, torch.ones(4, 3), torch.ones(4, 2)).changing(torch.ones(5, 3), torch.ones(5, 2))
    return case.then_call(torch.ones(2, 2), torch.ones(1, 2)).then_call(torch.ones(5, 5), torch.ones(1, 5))
