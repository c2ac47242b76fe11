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


@program(full=1)
def list_extended_by_a_generator_that_looks_at_it():
    def numbers(items, x):
        yield x
        items.append(len(items))
        yield len(items)
        items.append("end")

    def f(x, items):
        items.extend(numbers(items, x))
        own = []
        own += numbers(own, x + 1)
        return own, items

    return Case(f, vec(), [1])


@program(full=1)
def containers_filled_by_iterables_that_raise_half_way():
    def some():
        yield 1
        yield 2
        raise ValueError("no more")

    def f(x, items, numbers, table):
        for fill in (items.extend, numbers.update, lambda it: table.update((n, x) for n in it)):
            try:
                fill(some())
            except ValueError:
                pass
        return x + len(items)

    return Case(f, vec(), [], set(), {})


@program(full=1)
def values_that_change_while_a_dict_is_iterated_over():
    def f(x, table):
        own = {"a": 1, "b": 2, "c": 3}
        seen = []
        for key, value in own.items():
            seen.append((key, value))
            own["c"] = value * 10
        for value in table.values():
            table["c"] = value + x
        return seen, own, table

    return Case(f, vec(), {"a": 1, "b": 2, "c": 3})


@program(min_ops=2)
def break_in_a_loop_over_a_dict_that_grew_before():
    def f(x, table, numbers):
        table.setdefault("c", x + 1)
        numbers.add(7)
        out = []
        for key, value in table.items():
            print(key)
            out.append(value + 1)
        for number in numbers:
            print(number)
            out.append(number)
        for key in list(table):
            print(key)
            table[key] = 0
        return out, table

    return Case(f, vec(), {"a": vec(), "b": vec()}, {1, 2})


class _Noted:
    def __init__(self, t, log):
        self.t = t
        self.log = log

    def __len__(self):
        return 2

    def __del__(self):
        self.log.append("del")


@program(min_ops=2)
def finalizer_of_what_a_loop_overwrites():
    def f(x, log):
        for i in range(3):
            held = _Noted(x + i, log)
            log.append(len(held))
        log.append("end")
        return x * 2

    return Case(f, vec(), [])


@program(min_ops=1)
def finalizer_of_a_local_of_a_frame_in_a_traceback():
    def f(x, log):
        try:
            held = _Noted(x + 1, log)
            int("z")
        except ValueError as error:
            log.append(type(error).__name__)
            print("break")
        return x + 1

    return Case(f, vec(), [])


@program()
def write_to_a_view_of_a_leaf():
    def f(x, log):
        log.append("before")
        with torch.no_grad():
            y = x * 2
        try:
            x[:2].neg_()
        except RuntimeError:
            log.append("error")
        x.detach().add_(1)
        return y

    return Case(f, vec().requires_grad_(), [])


@program(min_ops=3)
def writes_that_overlap():
    def f(x, log):
        x[0] = x[3]
        x[2:] = x[:2]
        log.append(1)
        for source in (x[1:], x.expand(2, 4)[0]):
            try:
                x[: len(source)] = source
            except RuntimeError:
                log.append("error")
        try:
            x[:1].expand(4).add_(1)
        except RuntimeError:
            log.append("itself")
        return x

    return Case(f, vec(), [])


@program(min_ops=1)
def error_in_a_generator_of_a_graph_that_wrote():
    def numbers(t):
        for i in range(3):
            t[1:3] = torch.where(t > 0, t, t)[:2]
            if i == 1:
                t[1:3] = t[:2]
            yield t + i

    def f(x):
        return [t for t in numbers(x)]

    return Case(f, vec())


@program(full=1)
def value_of_a_generator_is_told_once():
    def numbers(t):
        yield 1
        return t

    def f(x, log):
        generator = numbers(x + 1)
        next(generator)
        for _ in range(2):
            try:
                generator.send(None)
            except StopIteration as stop:
                log.append(stop.value)
        quiet = numbers(x)
        log.extend(quiet)
        try:
            next(quiet)
        except StopIteration as stop:
            log.append(stop.value)
        return x + 2

    return Case(f, vec(), [])


@program(max_breaks=0)
def sets_of_ints_that_became_symbolic():
    def f(x, items):
        literal = {items[0], items[1]}
        items[:] = sorted(set(items))
        return x + len(items), literal, {*items, 2}, {i + 1 for i in items}

    return Case(f, vec(), [4, 3, 1]).then_call(vec(), [5, 2, 7]).then_call(vec(), [4, 2, 2]).then_call(vec(), [0, 0, 0])
