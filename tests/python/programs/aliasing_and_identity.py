"""What is the same object as what: outputs, inputs, state; `is`, `id`, views and copies."""

import copy

import torch

from tests.python.programs import Case, mat, program, vec


@program()
def returns_its_argument():
    def f(x):
        return x

    return Case(f, vec())


@program(full=1)
def returns_argument_twice():
    def f(x):
        y = x + 1
        return x, y, x, y

    return Case(f, vec())


@program()
def same_tensor_passed_twice():
    def f(a, b):
        if a is b:
            return a + 1
        return a + b

    return Case(f, vec(), vec()).then(_alias_all)


def _alias_all(case):
    case.args = (case.args[0],) * len(case.args)


@program()
def list_arguments_become_aliases():
    def f(a, b):
        a.append(1)
        return len(b)

    return Case(f, [], []).then(_alias_all).then_call([], [])


@program()
def list_arguments_stop_being_aliases():
    def f(x, a, b):
        a.append(x + 1)
        b.append(x + 2)
        return len(a), len(b)

    shared = []
    return Case(f, vec(), shared, shared).then_call(vec(), [], [])


@program()
def dict_arguments_become_aliases():
    def f(x, a, b):
        a["k"] = x + 1
        return b.get("k")

    return Case(f, vec(), {}, {}).then(lambda case: setattr(case, "args", (case.args[0], case.args[1], case.args[1])))


@program()
def attribute_becomes_alias_of_argument():
    class Box:
        pass

    box = Box()
    box.items = [1]

    def f(x, items, box):
        items.append(2)
        return x + len(box.items)

    case = Case(f, vec(), [1], box)

    def alias(case):
        box.items = case.args[1]

    return case.then(alias)


@program()
def elements_become_aliases():
    def f(rows):
        rows[0].append(1)
        return [len(row) for row in rows]

    def alias(case):
        row = []
        case.args = ([row, row, []],)

    return Case(f, [[], [], []]).then(alias)


@program()
def tensor_inputs_become_aliases_under_mutation():
    def f(a, b):
        a.add_(1)
        return a * b

    return Case(f, vec(), vec()).then(_alias_all)


@program()
def tensor_inputs_become_views_of_each_other():
    def f(a, b):
        a.add_(1)
        return a.sum() + b.sum()

    def alias(case):
        base = mat()
        case.args = (base[0], base[0].view(4))

    return Case(f, vec(), vec()).then(alias)


@program(full=1)
def list_of_one_tensor_many_times():
    def f(x):
        y = x + 1
        return [y] * 3, (y, [y])

    return Case(f, vec())


@program(full=1)
def shared_list_in_output():
    def f(x):
        inner = [x + 1]
        outer = {"a": inner, "b": inner, "c": list(inner)}
        return outer, inner

    return Case(f, vec())


@program(full=1)
def cyclic_list():
    def f(x):
        items = [x + 1]
        items.append(items)
        return items

    return Case(f, vec())


@program(full=1)
def cyclic_objects():
    class Node:
        def __init__(self, value):
            self.value = value
            self.other = None

    def f(x):
        a, b = Node(x + 1), Node(2)
        a.other, b.other = b, a
        return a

    return Case(f, vec())


@program(full=1)
def output_inside_an_input():
    def f(x, box):
        y = x + 1
        box.append(y)
        return y, box

    return Case(f, vec(), [])


@program(max_breaks=0)
def is_none_and_is_not():
    def f(x, y):
        return (x is None, y is None, x is not y, x is x, (x + 1) is x)

    return Case(f, vec(), None).changing(vec(), vec())


@program(max_breaks=0)
def is_between_results():
    def f(x):
        a = x + 1
        b = a
        c = x + 1
        return a is b, a is c, [a] == [b], a in [b]

    return Case(f, vec())


@program(full=1)
def is_on_modules_and_classes():
    class A:
        pass

    def f(x, a):
        return x + (type(a) is A), a.__class__ is A, torch is torch, torch.relu is torch.relu

    return Case(f, vec(), A())


@program(full=1)
def is_on_rebuilt_bound_methods():
    class A:
        def m(self):
            return 1

    def f(x, a):
        return a.m is a.m, a.m == a.m, x + a.m()

    return Case(f, vec(), A())


@program()
def id_of_objects():
    def f(x, items):
        return id(items) == id(items), id(x) == id(items), x + (id(x) == id(x))

    return Case(f, vec(), [1])


@program(full=1)
def identity_kept_in_dict():
    def f(x, registry):
        key = object()
        registry["key"] = key
        return x + 1, registry["key"] is key, key

    return Case(f, vec(), {})


@program(full=2)
def view_aliases_base():
    def f(x):
        y = x + 1
        view = y[1:]
        view.mul_(10)
        return y, view

    return Case(f, vec())


@program(full=2)
def view_of_input_is_returned():
    def f(x):
        return x[0], x.t(), x.view(-1), x

    return Case(f, mat())


@program(full=1)
def inplace_returns_self():
    def f(x):
        y = x.add_(1)
        return y is x, y, x

    return Case(f, vec())


@program(full=1)
def augmented_assignment_keeps_identity():
    def f(x):
        before = x
        x += 1
        return before is x, x

    return Case(f, vec())


@program(full=1)
def augmented_assignment_of_list_and_tuple():
    def f(x, items, pair):
        a, b = items, pair
        items += [x + 1]
        pair += (2,)
        return a is items, b is pair, items, pair

    return Case(f, vec(), [1], (1,))


@program(full=1)
def detach_and_alias():
    def f(x):
        y = x * 2
        return y, y.detach(), y.data

    return Case(f, vec().requires_grad_())


@program(max_breaks=0)
def contiguous_and_to_return_self():
    def f(x):
        return x.contiguous() is x, x.to(torch.float32) is x, x.float() is x, x.clone() is x, x.cpu() is x

    return Case(f, vec())


@program(full=1)
def shallow_and_deep_copies():
    def f(x, d):
        shallow = copy.copy(d)
        deep = copy.deepcopy({"n": [1, 2]})
        shallow["new"] = x + 1
        deep["n"].append(3)
        return shallow, deep, shallow["list"] is d["list"]

    return Case(f, vec(), {"list": [1]})


@program(full=1)
def tuple_identity_from_outside():
    def f(x, pair):
        return pair, (pair, pair), x + pair[0]

    return Case(f, vec(), (1, [2]))


@program(full=1)
def containers_of_outside_objects():
    class Thing:
        pass

    def f(x, thing):
        thing.value = x + 1
        return {"thing": thing}, [thing, thing], thing.__dict__

    return Case(f, vec(), Thing())


@program(full=1)
def dict_of_instance_is_live():
    class Thing:
        def __init__(self):
            self.a = 1

    def f(x, thing):
        d = thing.__dict__
        d["b"] = 2
        vars(thing)["c"] = 3
        thing.e = 4
        return x + thing.b + thing.c, sorted(d), d is thing.__dict__

    return Case(f, vec(), Thing())


@program(full=1)
def default_argument_identity():
    marker = object()

    def g(x, y=marker):
        return x + (y is marker)

    def f(x):
        return g(x), g(x, None)

    return Case(f, vec())


@program(full=1)
def sentinel_comparison():
    sentinel = object()

    def f(x, d):
        found = d.get("missing", sentinel)
        return x + (found is sentinel), d.get("here", sentinel) is sentinel

    return Case(f, vec(), {"here": 1})


@program()
def input_returned_after_break():
    def f(x, items):
        y = x + 1
        print("break")
        items.append(y)
        return x, y, items

    return Case(f, vec(), [])


@program()
def fresh_list_keeps_identity_over_break():
    def f(x):
        items = [x + 1]
        alias = items
        print("break")
        items.append(2)
        return items is alias, alias, {"same": items}

    return Case(f, vec())


@program()
def view_over_break():
    def f(x):
        y = x + 1
        view = y[:2]
        print("break")
        view.zero_()
        return y * 1, y, view

    return Case(f, vec())


@program(full=1)
def bool_singletons_and_small_ints():
    def f(x, flag):
        return flag is True, (1 == 1) is True, x + 1, None is None, not flag is False  # noqa: E714

    return Case(f, vec(), True)


@program(full=1)
def interned_strings():
    def f(x, name):
        return name is name, "a" + "b" == "ab", x + 1, name == "ab"

    return Case(f, vec(), "ab")


class Bag:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def _object_and_its_dict():
    bag = Bag(a=1)
    return bag, bag.__dict__


def _layer_and(table):
    layer = torch.nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.copy_(mat(2, 2))
        layer.bias.copy_(vec(2))
    return layer, getattr(layer, table)


# What is written and what is read; arguments that have nothing to do with each other, and such that are one thing.
_LATER_ALIASES = {
    "attribute_and_dict": ("p.a = 7", "q['a'], len(q)", lambda: (Bag(a=1), {"a": 1}), _object_and_its_dict),
    "new_attribute_and_dict": ("p.z = 7", "q.get('z'), list(q)", lambda: (Bag(a=1), {"a": 1}), _object_and_its_dict),
    "deleted_attribute_and_dict": ("del p.a", "'a' in q", lambda: (Bag(a=1), {"a": 1}), _object_and_its_dict),
    "dict_and_attribute": ("q['a'] = 7", "p.a", lambda: (Bag(a=1), {"a": 1}), _object_and_its_dict),
    "cleared_dict_and_attribute": ("q.clear()", "hasattr(p, 'a')", lambda: (Bag(a=1), {"a": 1}), _object_and_its_dict),
    "dict_and_vars": ("q['a'] = 7", "vars(p)['a']", lambda: (Bag(a=1), {"a": 1}), _object_and_its_dict),
    "module_and_dict": (
        "p.tag = 9",
        "q.get('tag')",
        lambda: (torch.nn.ReLU(), {}),
        lambda: (lambda m: (m, m.__dict__))(torch.nn.ReLU()),
    ),
    "dict_and_module": (
        "q['training'] = False",
        "p.training",
        lambda: (torch.nn.ReLU(), {}),
        lambda: (lambda m: (m, m.__dict__))(torch.nn.ReLU()),
    ),
    "dict_and_parameters": (
        "q['weight'] = None",
        "p.weight is None",
        lambda: (_layer_and("_parameters")[0], {"weight": 1}),
        lambda: _layer_and("_parameters"),
    ),
    "new_key_and_parameters": (
        "q['bias'] = None",
        "p.bias is None",
        lambda: (_layer_and("_parameters")[0], {}),
        lambda: _layer_and("_parameters"),
    ),
    "list_in_attribute": (
        "p.items.append(3)",
        "len(q)",
        lambda: (Bag(items=[]), []),
        lambda: (lambda b: (b, b.items))(Bag(items=[])),
    ),
    "list_in_dict": (
        "p['items'][0] = 3",
        "q[0]",
        lambda: ({"items": [1]}, [1]),
        lambda: (lambda v: ({"items": v}, v))([1]),
    ),
    "list_and_its_iterator": ("p.append(4)", "list(q)", lambda: ([], iter([])), lambda: (lambda v: (v, iter(v)))([])),
    "tensor_attribute_and_dict": (
        "p.tag = 1",
        "q.get('tag')",
        lambda: (vec(), {}),
        lambda: (lambda t: (t, t.__dict__))(vec()),
    ),
    "tensor_in_attribute": (
        "p.t.add_(1)",
        "q * 2",
        lambda: (Bag(t=vec()), vec()),
        lambda: (lambda b: (b, b.t))(Bag(t=vec())),
    ),
    "bytearrays": (
        "p.append(1)",
        "q[0], len(q), 1 in q",
        lambda: (bytearray(b"ab"), bytearray(b"ab")),
        lambda: (lambda b: (b, b))(bytearray(b"ab")),
    ),
}


def _later_alias(write, read, apart, one):
    def make():
        scope = {}
        exec(f"def f(x, p, q):\n    before = {read}\n    {write}\n    return x + 1, before, {read}\n", {}, scope)
        return Case(scope["f"], vec(), *apart()).then_call(vec(), *one()).then_call(vec(), *apart())

    return make


for _name, _parts in _LATER_ALIASES.items():
    _make = _later_alias(*_parts)
    _make.__name__ = f"later_{_name}"
    program()(_make)


@program()
def contents_of_bytearray():
    def f(x, b):
        return x + b[0], len(b), 97 in b, [n for n in b]

    return Case(f, vec(), bytearray(b"abc")).then_call(vec(), bytearray(b"xyz")).then_call(vec(), bytearray(b"ab"))


@program(full=1)
def class_and_a_view_of_its_dict():
    class A:
        pass

    def f(x, cls, view):
        cls.tag = 1
        return x + 1, view.get("tag")

    other = type("Other", (), {})
    return Case(f, vec(), A, other.__dict__)
