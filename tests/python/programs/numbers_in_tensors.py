"""Numbers that a program reads from tensors that it is given: known where the captured part begins."""

import torch

from tests.python.programs import Case, program, vec


def number(value, **options):
    return torch.tensor(value, **options)


@program(full=2)
def an_int_as_a_size():
    def f(x, n):
        return x.new_zeros(n, 2) + x[:n].sum(), x.narrow(0, 0, n) * 2, x.view(n, -1)

    return Case(f, vec(6), number(3)).changing(vec(6), number(2)).then_call(vec(6), number(6))


@program(full=1)
def reads_by_all_ways():
    def f(x, t, i):
        numbers = t.item(), float(t), int(t), bool(t), t.tolist(), i.item(), int(i), i.__index__(), list(range(i))
        return x * t.item() + int(i), numbers, [type(one) for one in numbers], [10, 20, 30][i]

    case = Case(f, vec(), number(1.5), number(2)).changing(vec(), number(-2.5), number(1))
    return case.then_call(vec(), number(0.0), number(0)).then_call(vec(), number(float("nan")), number(2))


@program(full=1)
def a_branch_on_a_flag():
    def f(x, flag, n):
        if flag:
            x = x + 1
        return x * 2 if n > 3 else x * 3

    case = Case(f, vec(), number(True), number(4)).changing(vec(), number(False), number(4))
    return case.then_call(vec(), number(True), number(2)).then_call(vec(), number(False), number(5))


@program(full=1)
def a_list_of_few():
    def f(x, sizes):
        parts = []
        for height, width in sizes.tolist():
            parts.append(x[: height * width].view(height, width).sum(0))
        return parts

    return Case(f, vec(6), number([[2, 3], [1, 4]])).changing(vec(6), number([[1, 2], [3, 2]]))


@program(full=1)
def of_all_types():
    kinds = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16, torch.float64]

    def f(x, tensors):
        return x + 1, [one.item() for one in tensors]

    def tensors(value):
        return [torch.tensor(value, dtype=kind) for kind in kinds]

    return Case(f, vec(), tensors(7)).changing(vec(), tensors(9)).then_call(vec(), tensors(100))


@program(full=1)
def of_views():
    def f(x, t):
        return x * 2, t.tolist(), t[1:].reshape(1, 2).sum()

    grid = torch.arange(12).view(3, 4)
    return Case(f, vec(), grid[:, 2]).changing(vec(), grid.t()[3, :]).then_call(vec(), grid[:, 0])


@program()
def written_before_it_is_read():
    def f(x, t):
        t.add_(1)
        return x * t.item(), t.item()

    return Case(f, vec(), number(2)).then_call(vec(), number(3))


@program()
def written_behind_the_reading():
    def f(x, t):
        n = t.item()
        t.add_(1)
        return x * n, n, t.item()

    return Case(f, vec(), number(2)).changing(vec(), number(4)).then_call(vec(), number(3))


@program()
def another_tensor_in_its_memory():
    def f(x, t, same):
        same += 1
        n = t.item()
        same += 1
        return x * n, n

    shared = torch.tensor([2, 3])
    case = Case(f, vec(), number(2), number([5, 6]))
    return case.then_call(vec(), shared[0], shared).then_call(vec(), number(3), number([1, 1]))


@program(full=1)
def written_by_the_caller():
    def f(x, t):
        return x * t.item(), t.item()

    t = number(3)

    def count(case):
        t.add_(1)

    return Case(f, vec(), t).then(count).then_call(vec(), t)


@program(full=2)
def what_is_computed_of_some():
    def f(x, n):
        rest = x.shape[0] - n
        if rest == 4:
            x = x + 1
        return x.narrow(0, 0, rest) * 2

    return Case(f, vec(6), number(2)).changing(vec(6), number(3)).then_call(vec(6), number(4))


@program(full=1)
def with_a_gradient():
    def f(x, scale):
        return (x * scale.item()).sum() + scale

    scale = torch.tensor(2.0, requires_grad=True)
    return Case(f, vec(), scale).changing(vec(), torch.tensor(3.0, requires_grad=True))


@program()
def no_such_number():
    def f(x, n):
        try:
            return x[:n]
        except TypeError as error:
            return x + 1, str(error)

    return Case(f, vec(), number(2.5)).changing(vec(), number([1, 2]))


@program()
def another_one_at_each_call():
    def f(x, t):
        return x * 2 if t.item() > 0 else x * 3

    case = Case(f, vec(), number(0.5))
    for i in range(12):
        case = case.then_call(vec(), number(float(i - 5)))
    return case


@program()
def beside_a_tensor_that_is_written():
    def f(x, t, out):
        n = t.item()
        out.index_add_(0, torch.arange(2), x[:2] * n)
        return out if t == 9 else out + n, n

    shared = torch.tensor([3.0, 4.0])
    case = Case(f, vec(), number(2.0), torch.ones(2)).changing(vec(), number(5.0), torch.ones(2))
    return case.then_call(vec(), shared[0], shared).then_call(vec(), number(9.0), torch.ones(2))


@program(full=4)
def elements_of_one():
    def f(x, chosen):
        total = x * 0
        for one in chosen:
            one = one[0]
            if one == 3:
                continue
            total = total + x[one]
        return total

    return Case(f, vec(), torch.tensor([[0], [2], [3]])).changing(vec(), torch.tensor([[1], [3], [2]]))


@program()
def branches_on_many_flags():
    def f(x, one, two, three, four):
        if one:
            x = x + 1
        x = x * 2
        if two:
            x = x + 2
        x = x * 3
        if bool(three):
            x = x + 3
        if not four:
            x = x * 4
        return x

    case = Case(f, vec(), *[number(True)] * 4)
    for bits in range(16):
        case = case.then_call(vec(), *(number([float(bits >> at & 1)]) for at in range(4)))
    return case
