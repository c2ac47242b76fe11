"""Iterators that existed before the program, half consumed or not, and results that nobody looks at."""

import torch

from tests.python.programs import Case, program, vec


@program(full=2)
def two_iterators_from_outside():
    def f(x, a, b):
        y = x + next(a)
        z = y * next(b)
        rest = list(b)
        return z, rest, next(a, "none"), next(b, "ended")

    numbers = iter((5, 6))
    next(numbers)
    return Case(f, vec(), iter([1, 2]), numbers).changing(vec(), iter([1]), iter((6,)))


@program(full=1)
def the_same_iterator_twice():
    def f(x, a, b):
        return x + next(a), next(b), next(a)

    it = iter(range(9))
    return Case(f, vec(), it, it)


@program(full=1)
def iterator_of_a_list_that_grows():
    def f(x, items, it):
        first = next(it)
        items.append(first)
        return x + first

    items = [1, 2]
    return Case(f, vec(), items, iter(items))


@program(full=2)
def iterator_of_tensors():
    def f(x, it):
        a = next(it)
        b = next(it)
        return x + a * b, [v for v in zip(it, (1, 2))]

    return Case(f, vec(), iter([vec(), vec() + 1, vec() + 2]))


@program(full=1)
def iterator_kept_after_its_end():
    def f(x, holder):
        taken = [v for v in map(abs, holder["it"])]
        return x + sum(taken), next(holder["it"], None)

    return Case(f, vec(), {"it": iter([-1, 2])})


@program(full=1)
def result_nobody_looks_at():
    def f(x):
        x + 1
        return x.dim(), "done"

    return Case(f, vec())


@program()
def error_nobody_looks_at():
    def f(x, index):
        x[index]
        return x.dim()

    return Case(f, vec(), torch.tensor([1])).changing(vec(), torch.tensor([1000]))


@program(full=1)
def number_in_a_tensor():
    def f(x):
        a = x.clone()
        a.addcmul_(x, x, value=torch.tensor(0.5))
        b = [x.clone()]
        same = torch._foreach_lerp_(b, [a], torch.tensor(0.25)) is b
        return a, b, same, torch._foreach_pow(torch.tensor(2.0), [a]), [1, 2, 3][torch.as_tensor(2)]

    return Case(f, vec())


@program(full=1)
def default_text_of_an_object():
    class Plain:
        pass

    def f(x):
        return x + 1, str(Plain()).split(" at ")[0], repr(Plain())[:5]

    return Case(f, vec())


@program()
def default_text_and_the_object():
    class Plain:
        pass

    def f(x):
        made = Plain()
        return x + 1, hex(id(made)) in str(made), f"{made!r}" == repr(made), made

    return Case(f, vec())


@program()
def sum_of_an_outside_generator_that_raises():
    def numbers(x):
        yield x + 1
        yield x + 2
        raise KeyError("in the generator")

    def f(x, items):
        try:
            sum(items)
        except KeyError as error:
            lines, at = [], error.__traceback__
            while at is not None:
                lines.append(at.tb_frame.f_code.co_name)
                at = at.tb_next
        return x * 2, lines

    x = vec()
    return Case(f, x, numbers(x))


@program(min_ops=3)
def sum_of_outside_generators():
    def numbers(x):
        for i in range(3):
            yield x + i

    def f(x, tensors, ints, started):
        total = sum(tensors, started)
        return total * 2, sum(ints), list(tensors)

    x = vec()
    return Case(f, x, numbers(x), (i for i in range(5)), x).changing(x, numbers(x), (i for i in range(4)), x * 2)


@program()
def sum_of_an_outside_generator_of_strings():
    def f(x, items, other):
        words = []
        for source, start in ((items, "a"), (other, 0)):
            try:
                sum(source, start)
            except TypeError as error:
                words.append(str(error))
        return x + 1, words, list(items)

    return Case(f, vec(), (c for c in "bc"), (c for c in "de"))
