"""Branches, loops, match, walrus; on values that are known and on tensor data."""

import torch

from tests.python.programs import Case, mat, program, vec


@program(full=1)
def if_on_a_flag():
    def f(x, flag):
        if flag:
            return x + 1
        elif flag is None:
            return x * 2
        else:
            return x - 3

    return Case(f, vec(), True).then_call(vec(), None).then_call(vec(), False).then_call(vec(), 0)


@program(full=1)
def if_on_shape():
    def f(x):
        if x.dim() == 2 and x.shape[0] > 2:
            return x.sum(0)
        return x * 2

    return Case(f, mat()).changing(vec())


@program()
def if_on_tensor_data():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            z = y + 1
        else:
            z = y - 1
        return z * 3

    return Case(f, vec()).changing(-vec(4, 5.0))


@program()
def while_on_tensor_data():
    def f(x):
        steps = 0
        while x.sum() < 20:
            x = x * 2 + 1
            steps += 1
        return x, steps

    return Case(f, vec()).changing(vec(4, 3.0))


@program()
def conditional_expression_on_tensor():
    def f(x):
        return (x + 1 if x.max() > 0.5 else x - 1) * 2

    return Case(f, vec()).changing(vec(1))


@program()
def boolean_operators_on_tensors():
    def f(x, y):
        return (x.sum() > 0 and y) or y + 1, not (x.sum() > 0)

    return Case(f, vec(), vec(1, 2.0))


@program()
def loop_with_tensor_break():
    def f(x):
        for i in range(10):
            x = x + i
            if x.sum() > 10:
                break
        else:
            x = x * 100
        return x, i

    return Case(f, vec()).changing(vec(4, -100.0))


@program(full=2)
def for_else():
    def f(x, wanted):
        for i in range(3):
            if i == wanted:
                x = x + 10
                break
            x = x + i
        else:
            x = x * 2
        return x

    return Case(f, vec(), 1).changing(vec(), 7)


@program(full=3)
def while_else():
    def f(x, n):
        while n > 0:
            n -= 1
            if n == 5:
                break
            x = x + n
        else:
            x = x * 2
        return x

    return Case(f, vec(), 3).changing(vec(), 8)


@program(full=3)
def nested_loops_with_continue():
    def f(x):
        for i in range(3):
            for j in range(3):
                if j == i:
                    continue
                if j > 1 and i > 1:
                    break
                x = x + i * j
        return x

    return Case(f, vec())


@program(full=2)
def walrus():
    def f(x, items):
        if (n := len(items)) > 1:
            x = x + n
        total = [y := x + n, y * 2]
        while (item := items.pop()) != 1:
            x = x * item
        return total, y, x, item

    return Case(f, vec(), [1, 2, 3])


@program(full=1)
def match_literals():
    def f(x, command):
        match command:
            case "add" | "plus":
                return x + 1
            case 3:
                return x * 3
            case None:
                return x - 1
            case True:
                return x * 0
            case _:
                return x

    return (
        Case(f, vec(), "plus").then_call(vec(), 3).then_call(vec(), None).then_call(vec(), True).then_call(vec(), "z")
    )


@program(full=1)
def match_sequences():
    def f(x, items):
        match items:
            case []:
                return x + 0
            case [one]:
                return x + one
            case [first, *rest, last] if first == last:
                return x * len(rest)
            case (a, b, *_):
                return x + a * b

    case = Case(f, vec(), [1, 2, 3])
    for items in ([], [4], [1, 9, 9, 1], (5, 6), "text"):
        case.then_call(vec(), items)
    return case


@program(full=1)
def match_mappings():
    def f(x, options):
        match options:
            case {"op": "scale", "by": n, **rest}:
                return x * n, rest
            case {"op": name}:
                return x + len(name), None
            case {}:
                return x, "empty"

    case = Case(f, vec(), {"op": "scale", "by": 3, "extra": 1})
    return case.then_call(vec(), {"op": "none"}).then_call(vec(), {}).then_call(vec(), [])


@program(full=1)
def match_classes():
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self, x, y):
            self.x = x
            self.y = y

    def f(t, value):
        match value:
            case Point(0, y):
                return t + y
            case Point(x=a, y=b) if a > b:
                return t * a
            case int(n) | float(n):
                return t - n
            case str():
                return t
            case Point():
                return t * 100

    case = Case(f, vec(), Point(0, 5))
    for value in (Point(4, 2), Point(1, 2), 7, 2.5, "s", []):
        case.then_call(vec(), value)
    return case


@program(full=1)
def match_tensor_in_list():
    def f(items):
        match items:
            case [torch.Tensor() as t, int(n)]:
                return t + n
            case [t, *_]:
                return t

    return Case(f, [vec(), 3]).changing([vec(), vec()])


@program(full=1)
def chained_comparisons():
    seen = []

    def note(n):
        seen.append(n)
        return n

    def f(x, n):
        if 0 < note(n) <= note(10) != note(5) < 20:
            return x + 1
        return x - 1

    return Case(f, vec(), 3).changing(vec(), -3).watching(seen)


@program(full=2)
def short_circuit():
    seen = []

    def note(value):
        seen.append(value)
        return value

    def f(x):
        a = note(0) or note("") or note(3)
        b = note(1) and note(2)
        c = note(None) and note(9)
        return x + a, x * b, c, not a

    return Case(f, vec()).watching(seen)


@program(full=1)
def truth_of_containers_and_objects():
    class Empty:
        def __len__(self):
            return 0

    class No:
        def __bool__(self):
            return False

    def f(x):
        return [bool(v) for v in ([], [0], {}, "", "a", 0, 0.0, None, (), Empty(), No(), object())], x + 1

    return Case(f, vec())


@program(full=4)
def loop_over_tensor_rows():
    def f(x):
        total = 0
        for row in x:
            total = total + row
        return total

    return Case(f, mat())


@program(full=3)
def loop_over_dict_and_zip():
    def f(x, d):
        for (name, value), i in zip(d.items(), range(10)):
            x = x + value * i + len(name)
        for key in d:
            x = x * d[key]
        for i, v in enumerate(d.values(), start=5):
            x = x - i * v
        return x

    return Case(f, vec(), {"a": 1, "bb": 2})


@program(full=2)
def unpacking():
    def f(x, data):
        a, (b, *c), d = data
        *e, g = c
        (h,) = [x + a]
        return h * b, c, d, e, g

    return Case(f, vec(), (1, [2, 3, 4], "d"))


@program(full=1)
def swap_and_rotate():
    def f(x, a, b, c):
        a, b, c = b, c, a
        a, b = b, a
        return x * a + b - c

    return Case(f, vec(), 1, 2, 3)


@program(full=3)
def int_loop_counts_down():
    def f(x, n):
        while n:
            x = x + n
            n -= 1
        return x

    return Case(f, vec(), 3).changing(vec(), 5)


@program(full=1)
def unbound_local():
    def f(x, flag):
        if flag:
            y = x + 1
        try:
            return y
        except UnboundLocalError as error:
            return str(error), x * 2

    return Case(f, vec(), True).changing(vec(), False)


@program()
def uncaught_unbound_local():
    def f(x, flag):
        if flag:
            y = x + 1
        return y

    return Case(f, vec(), False).then_call(vec(), True)


@program(full=1)
def delete_local():
    def f(x):
        y = x + 1
        z = y
        del y
        try:
            return y
        except UnboundLocalError:
            return z

    return Case(f, vec())


@program(full=1)
def global_shadows_builtin():
    def f(x):
        def len(items):
            return 100

        return x + len([])

    return Case(f, vec())


@program()
def data_dependent_index():
    def f(x, table):
        index = int(x.argmax())
        return x * table[index]

    return Case(f, vec(), [1, 2, 3, 4])


@program()
def item_in_arithmetic():
    def f(x):
        n = x.sum().item()
        y = x * n
        return y + x.max().item(), n

    return Case(f, vec())


@program()
def tolist_and_iteration():
    def f(x):
        total = 0
        for value in x.tolist():
            total += value
        return x + total, total

    return Case(f, vec())


@program()
def loop_with_break_inside_and_state():
    def f(x):
        seen = []
        for i in range(4):
            x = x + i
            if x.sum() > 3:
                seen.append(i)
                x = x * 0.5
        return x, seen

    return Case(f, vec()).changing(vec(4, 3.0))


@program()
def nonzero_and_masks():
    def f(x):
        indices = torch.nonzero(x > 0)
        picked = x[x > 0]
        return picked * 2, indices.shape[0], x + len(picked)

    return Case(f, vec()).changing(vec(9))


@program(full=2)
def where_instead_of_if():
    def f(x):
        return torch.where(x > 0, x * 2, x - 1)

    return Case(f, vec())


@program(full=1)
def long_chain_of_elifs():
    def f(x, n):
        if n == 0:
            return x
        elif n == 1:
            return x + 1
        elif n == 2:
            return x + 2
        elif n == 3:
            return x + 3
        return x - 1

    return Case(f, vec(), 3).changing(vec(), 2)


@program(full=1)
def type_dispatch():
    def f(x, value):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return x * value
        if isinstance(value, torch.Tensor):
            return x + value
        if value is Ellipsis:
            return x
        return x - len(value)

    case = Case(f, vec(), 2)
    for value in (2.5, vec(), ..., "four", [1]):
        case.then_call(vec(), value)
    return case
