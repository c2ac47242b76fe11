"""Views, strides and in-place operations: on inputs, on intermediates, through aliases."""

import torch

from tests.python.programs import Case, leaf, mat, program, vec


@program(full=6)
def inplace_arithmetic():
    def f(x, y):
        x.add_(1).mul_(2)
        x -= y
        x /= 2
        x **= 2
        x.neg_()
        return x

    return Case(f, vec(), vec(4, 1.0))


@program(full=4)
def item_assignment():
    def f(x):
        x[0] = 5
        x[:, 1] = x[:, 0]
        x[1:, 2:] += 10
        x[x > 8] = 0
        x[..., -1] = torch.tensor(3.0)
        return x * 2

    return Case(f, mat())


@program(full=3)
def assignment_to_intermediate():
    def f(x):
        y = x.clone()
        y[0] = x[1]
        y[1][2] = 100
        return y, x

    return Case(f, mat())


@program(full=3)
def inplace_on_view_of_input():
    def f(x):
        row = x[1]
        row.zero_()
        x.t()[0].fill_(7)
        return x.sum(), row

    return Case(f, mat())


@program(full=4)
def view_chain():
    def f(x):
        a = x.view(2, 6)
        b = a.t()
        c = b[1:3]
        d = c.reshape(-1)
        e = c.contiguous()
        d.add_(1)
        e.add_(2)
        return a, b, c, d, e, x

    return Case(f, mat())


@program(full=2)
def expanded_and_strided():
    def f(x):
        e = x[:1].expand(3, 4)
        s = x.as_strided((2, 2), (1, 4))
        return e.stride(), s.stride(), e + 1, s * 2, e.is_contiguous(), s.storage_offset()

    return Case(f, mat())


@program(full=2)
def memory_formats():
    def f(x):
        y = x.to(memory_format=torch.channels_last)
        z = y * 2
        return y.stride(), z.stride(), z.is_contiguous(memory_format=torch.channels_last), z

    return Case(f, torch.arange(48.0).reshape(2, 3, 2, 4))


@program(full=2)
def non_contiguous_input():
    def f(x):
        return x + 1, x.contiguous(), x.is_contiguous(), x.reshape(-1)

    return Case(f, mat().t()).changing(mat(4, 3))


@program(full=2)
def diagonal_and_unfold():
    def f(x):
        x.diagonal().add_(1)
        u = x.unfold(1, 2, 1)
        return x, u, u.shape, torch.diagonal(x)

    return Case(f, mat())


@program(full=2)
def split_views_mutated():
    def f(x):
        a, b = x.split(2, dim=1)
        a.mul_(2)
        b.zero_()
        return x

    return Case(f, mat())


@program(full=2)
def copy_and_set():
    def f(x, y):
        x.copy_(y)
        y.fill_(3)
        x[0].copy_(y[1])
        return x

    return Case(f, mat(), mat() * 2)


@program(full=3)
def masked_and_index_inplace():
    def f(x, i):
        x.masked_fill_(x < 0, 0)
        x.index_add_(0, i, torch.ones(2, 4))
        x.scatter_(1, i[:, None], 9.0)
        x.index_fill_(1, torch.tensor([3]), -1)
        return x

    return Case(f, mat(), torch.tensor([0, 2]))


@program(full=1)
def inplace_type_stays():
    def f(i):
        i += 2
        try:
            i += 0.5
        except RuntimeError as error:
            return i, str(error)

    return Case(f, torch.tensor([1, 2]))


@program()
def inplace_broadcast_error():
    def f(x):
        y = x + 1
        y.add_(torch.ones(3, 4, 4))
        return y

    return Case(f, mat())


@program()
def inplace_on_leaf_is_an_error():
    def f(x):
        y = x * 2
        x.add_(1)
        return y

    return Case(f, leaf(vec()))


# AOTAutograd differentiates one graph of both with the value written twice.
@program(min_ops=2, max_breaks=1)
def inplace_on_leaf_without_grad():
    def f(x):
        with torch.no_grad():
            x.add_(1)
        return x * 2

    return Case(f, leaf(vec()))


@program(full=2)
def inplace_then_gradient():
    def f(x):
        y = x * 2
        y.add_(1)
        y[0] = 0
        return y.sum()

    return Case(lambda x: f(x), leaf(vec()))


@program(full=1)
def swap_rows():
    def f(x):
        x[0], x[1] = x[1].clone(), x[0].clone()
        return x

    return Case(f, mat())


@program(full=2)
def overlapping_inputs():
    base = vec(6)

    def f(a, b):
        a.add_(1)
        return b * 2

    return Case(f, base[:4], base[2:])


@program()
def overlap_appears_later():
    base = vec(8)

    def f(a, b):
        a.mul_(2)
        return a + b

    return Case(f, vec(4), vec(4)).then_call(base[:4], base[2:6]).then_call(base[:4], base[4:])


@program(full=2)
def detached_alias_is_mutated():
    def f(x):
        y = x.detach()
        y.add_(1)
        return x * 2

    return Case(f, leaf(vec()))


@program(full=1)
def data_attribute():
    def f(x):
        x.data.add_(1)
        return x.data * 2

    return Case(f, leaf(vec()))


@program()
def data_is_replaced():
    def f(x):
        x.data = torch.ones(4) * 3
        return x + 1

    return Case(f, vec())


@program()
def set_and_resize():
    def f(x):
        y = torch.zeros(2)
        y.resize_(4).copy_(x)
        return y * 2

    return Case(f, vec())


@program(full=1)
def version_counter_moves():
    def f(x):
        x.add_(1)
        x[0] = 3
        return x

    return Case(f, vec())


@program()
def version_counter_read():
    def f(x):
        before = x._version
        x.add_(1)
        return x._version - before

    return Case(f, vec())


@program(full=2)
def conj_and_neg_views():
    def f(z):
        c = z.conj()
        return c, c.is_conj(), c.imag, c + 1, c.resolve_conj()

    return Case(f, torch.complex(vec(), vec(4, 1.0)))


@program()
def inplace_inside_loop_with_break():
    def f(x):
        for i in range(3):
            x[i].add_(i)
            print("row", i)
            x[:, i].mul_(2)
        return x

    return Case(f, mat())


@program(full=2)
def chunks_written_back():
    def f(x):
        parts = x.chunk(2, dim=1)
        for i, part in enumerate(parts):
            part += i + 1
        return torch.cat(parts, 1)

    return Case(f, mat())


@program(full=1)
def zero_dim_inplace():
    def f(total, x):
        total += x.sum()
        return total

    return Case(f, torch.tensor(0.0), vec())


@program(full=1)
def squeeze_and_transpose_inplace():
    def f(x):
        x.t_()
        x.unsqueeze_(0)
        return x.shape, x.stride(), x + 1

    return Case(f, mat())


@program(min_ops=1)
def data_replaced():
    def f(x, y):
        x.data = y * 2
        return x + 1, x.shape

    return Case(f, mat(), mat())


@program(min_ops=1)
def data_of_other_sizes():
    def f(x, y):
        x.data = y
        return x * 2, x.shape

    return Case(f, mat(), vec())


@program(min_ops=1)
def data_of_a_parameter():
    def f(x):
        weight.data = weight.data - 0.5
        return x * weight

    weight = torch.nn.Parameter(vec())
    return Case(f, vec()).watching(weight)
