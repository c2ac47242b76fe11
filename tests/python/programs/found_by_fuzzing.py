"""Programs that the fuzzer found and that were made small by hand. Each stands for a difference that was once real."""

import torch

from tests.python.programs import Case, program, vec


@program(min_ops=2)
def break_in_a_loop_over_reversed_slice():
    def f(x, items):
        total = x
        for item in reversed(items[:2]):
            print("item")
            total = total + item
        return total

    return Case(f, vec(), [vec(), vec(4, 1.0), vec(4, 2.0)])


@program(min_ops=1)
def key_moves_to_the_end_of_a_dict_argument():
    def f(x, table):
        table["a"] = table.pop("a", x)
        return x + len(table)

    return Case(f, vec(), {"a": vec(), "b": vec()})


@program()
def error_of_an_operation_under_a_grad_mode():
    def f(x):
        with torch.set_grad_enabled(False):
            x[1:3] = x[:2]  # overlaps itself: an error when it runs
        return x

    return Case(f, vec())


@program()
def error_of_an_operation_under_a_grad_mode_after_a_break():
    def f(x, items):
        print("break")
        items.append(x + 1)
        with torch.set_grad_enabled(len(items) > 9):
            x[1:3] = x[:2]
        return x

    return Case(f, vec(), [])


@program()
def nested_loops_over_reversed_slices():
    log = []

    def g(t, n):
        print("n", n)
        return t + n

    def f(x, y, tensors, items):
        for i, t in enumerate([g(y, 1), x]):
            for u in reversed(tensors[:2]):

                def h(v, p=1, *rest):
                    log.append(i)
                    return g(y, n=5)

                t = h(y.clone())
            for i in items:
                pass
        return t

    return Case(f, vec(), vec(), [vec()] * 2, [0, 3]).watching(log)


@program(min_ops=3)
def error_of_a_graph_that_wrote_is_caught():
    def f(x, log):
        before = x * 2
        x.add_(1)
        try:
            log.append("in")
            unused = x + 5
            x[1:3] = x[:2]  # overlaps itself: an error when it runs
            log.append("not here")
        except RuntimeError as error:
            log.append(type(error).__name__)
            return before, unused, x
        return before

    return Case(f, vec(), [])


@program(min_ops=2)
def error_in_a_callee_of_a_graph_that_drew_numbers():
    def inner(x, log):
        with torch.no_grad():
            log.append(1)
            x[1:3] = x[:2]

    def f(x, log):
        y = x + torch.rand(4)
        try:
            inner(x, log)
        finally:
            log.append(torch.is_grad_enabled())
        return y

    return Case(f, vec(), [])


@program(min_ops=1)
def error_under_autocast_leaves_it():
    def f(x):
        try:
            with torch.autocast("cpu"):
                y = x * 2
                x[1:3] = x[:2]
        except RuntimeError:
            return x + 1, torch.is_autocast_enabled("cpu")
        return y

    return Case(f, vec())


@program(full=1)
def attributes_and_keys_of_a_dict_argument():
    class Table(dict):
        pass

    def f(x, table):
        table.a = x + 1
        table["a"] = 2
        table.b = table.get("b", 5)
        del table["c"]
        return table.a + table["a"], table.c

    def make():
        table = Table(c=1)
        table.c = 3
        return table

    return Case(f, vec(), make())


@program()
def list_iterator_made_before_the_list_grows():
    def f(x, items):
        iterator = iter(items)
        next(iterator)
        items.append(3)
        next(iterator)
        items.append(4)
        next(iterator)
        print("break")
        return x + sum(iterator), items, list(iterator)

    return Case(f, vec(), [1, 2])
