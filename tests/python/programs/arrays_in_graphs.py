"""NumPy arrays in captured code: from outside, from tensors, made inside; results have NumPy's own types and values."""

import math
import operator

import numpy as np
import torch

from tests.python.programs import Case, mat, program, vec


def grid():
    return np.arange(6.0).reshape(2, 3)


@program(full=1)
def arithmetic_on_an_argument():
    def f(a):
        return a + 1

    return Case(f, grid()).changing(grid() * 2)


@program(full=3)
def single_numbers():
    def f(a):
        total = a.sum()
        return total, total + 1, np.mean(a), type(total), isinstance(total, np.floating)

    return Case(f, grid())


@program(full=5)
def functions_and_methods():
    def f(a):
        b = np.sin(a).astype(np.float32)
        return b.T @ b, np.concatenate([a, a], axis=1), np.where(a > 2, a, 0), np.linalg.norm(a), a.cumsum()

    return Case(f, grid())


@program(max_breaks=0)
def facts():
    def f(a):
        return a.shape, a.ndim, a.size, a.dtype, a.dtype == np.float64, len(a), type(a), isinstance(a, np.ndarray)

    return Case(f, grid())


@program(full=3)
def from_a_tensor_and_back():
    def f(x):
        doubled = x.numpy() * 2
        return torch.from_numpy(doubled) + x

    return Case(f, mat())


@program(full=2)
def indices():
    def f(a):
        return a[0], a[0, 1], a[..., 0], a[:, 1:], [row.max() for row in a]

    return Case(f, grid())


@program(full=2)
def written_in_place():
    def f(a):
        a[0] = 5
        a += 1
        return a

    return Case(f, grid())


@program(full=2)
def memory_shared_with_a_tensor():
    def f(x):
        x.numpy()[0] = 7
        return x + 1

    return Case(f, mat())


@program(full=3)
def made_inside():
    def f():
        return np.ones(4) + np.arange(4), np.linspace(0, 1, 3)

    return Case(f)


@program(min_ops=2)
def broken_in_between():
    def f(a, log):
        b = a * 2
        log.append(str(b))
        if b.sum() > 3:
            b = b + 1
        return b, float(b[0, 0])

    return Case(f, grid(), [])


@program()
def left_to_numpy():
    def f(a):
        return np.unique(a), a[a > 2], a[::-1], a.tolist(), np.add.reduce(a), np.asarray(a) is a

    return Case(f, grid())


@program()
def errors():
    def f(a, kinds):
        for attempt in (lambda: a.reshape(5, 5), lambda: a @ a, lambda: a[7], lambda: np.sum(a, axis=9)):
            try:
                attempt()
            except Exception as error:
                kinds.append((type(error).__name__, str(error)))
        return kinds

    return Case(f, grid(), [])


@program(full=1)
def other_sizes_and_types():
    def f(a):
        return a * 2

    return (
        Case(f, grid())
        .then_call(np.arange(4))
        .then_call(np.ones((2, 2), dtype=np.float32))
        .then_call(np.asarray(grid()[:, ::2]))
    )


@program(min_ops=3)
def promotions():
    def f(a, b):
        return a * b, a.astype(np.int32) / 2, a.astype(np.int8) + 100

    return Case(f, np.arange(3, dtype=np.float32), np.arange(3))


@program()
def unusual_arrays():
    def f(names, frozen, backwards):
        return names[0], frozen + 1, backwards * 2

    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    return Case(f, np.array(["a", "b"]), frozen, np.arange(3.0)[::-1])


@program(full=3)
def random_numbers():
    def f(x):
        noise = np.random.uniform(-1, 1, size=(2, 3))
        return torch.from_numpy(noise).sum() + x.sum(), np.random.randint(0, 100), np.random.rand(2)

    np.random.seed(5)
    return Case(f, mat())


@program(min_ops=1)
def random_number_by_number():
    def f(x):
        return x * np.random.rand(), np.random.permutation(4), np.random.normal(size=2)

    np.random.seed(5)
    return Case(f, mat())


@program(full=1)
def single_numbers_from_outside():
    def f(x, n, flag):
        return x + 1, n / 2, n, type(n), flag

    return Case(f, mat(), np.int64(3), np.bool_(True)).then_call(mat(), np.int64(7), np.bool_(False))


SCALE, COUNT, FLAG = np.sqrt(np.float64(2)), np.int64(2), np.bool_(True)


@program(full=8)
def single_numbers_with_tensors():
    def f(x):
        n = int(np.prod(x.shape)) // COUNT
        rows = [x * i for i in range(COUNT)] if FLAG and COUNT > 1 else []
        scaled = x * SCALE + SCALE * x - np.float32(0.5) ** 2
        return (
            n,
            scaled,
            x.reshape(COUNT * 2, -1)[COUNT],
            rows,
            x.sum() / np.mean([1, 2, 4]),
            math.sqrt(SCALE),
            f"{COUNT}",
        )

    return Case(f, mat())


@program(full=2)
def single_numbers_keep_sign_and_kind():
    def f(x, n):
        return torch.full_like(x, n) if n == 0 else x * n, np.copysign(1, n), type(n), x + np.isnan(n)

    case = Case(f, vec(), np.float64(0.0))
    case.then_call(vec(), np.float64(-0.0)).then_call(vec(), np.float64("nan")).then_call(vec(), np.float64("nan"))
    return case.then_call(vec(), np.float32(0.5)).then_call(vec(), np.int8(3)).then_call(vec(), 0.0)


@program(min_ops=2)
def single_number_that_changes_with_every_call():
    def f(x, n):
        return x * n + 1, n * 2, type(n)

    case = Case(f, vec(), np.float64(0.5))
    for step in range(12):
        case.then_call(vec(), np.float64(step))
    return case


@program(min_ops=1)
def single_numbers_made_tensors():
    """They keep their dtype then, which no number of Python's has."""

    def f(x, n):
        return torch.tensor(n), torch.as_tensor(n), x.new_tensor([n, 1]), torch.full((2,), n), x + n

    return Case(f, vec(), np.float64(1.5)).changing(vec(), np.int16(2))


@program(full=1)
def tensor_of_tensors():
    def f(a, b):
        return torch.tensor([a, b, 2])

    return Case(f, torch.tensor(1.5), torch.tensor([[2]]))


@program(full=2)
def limits_of_types():
    def f(x):
        return (
            x + np.iinfo(np.int16).max,
            x * np.finfo(np.float32).bits,
            np.finfo(np.float32).eps,
            np.finfo(np.float64).max,
        )

    return Case(f, mat())


@program(full=3)
def numbers_beside_tensors():
    def f(x):
        scale = np.sqrt(x.shape[-1])
        y = x / scale + np.log(2.0) * x
        z = y
        y *= np.float32(3)
        return z is y, y ** np.float64(2), np.int64(2) - x, x > scale - 1, torch.full((2,), np.cos(0))

    return Case(f, vec())


@program(full=2)
def numbers_known_at_capture():
    def f(x):
        size = np.prod(x.shape)
        picked = x[: np.int64(2)] if np.sqrt(size) > 1 else x
        return (
            picked + int(size),
            x.reshape(size // 2, 2),
            float(np.mean([1, 2])),
            size,
            np.float32(0.5),
            bool(np.any([0])),
        )

    return Case(f, vec())


@program(full=2)
def numbers_from_outside():
    scale, shift, count = np.float64(0.5), np.float32(2.0), np.int64(3)

    def f(x, factor):
        return x * scale + shift, x**count, factor * x

    return Case(f, vec(), np.float32(1.5)).changing(vec(), np.float32(2.5)).then_call(vec(), np.float64(2.5))


@program(full=1)
def tensors_of_numbers_of_arrays():
    def f(a, x):
        old = torch.LongTensor([a[0], a[2], a[1]])
        new = torch.tensor([a[0], a[1]], dtype=torch.float32)
        return old, new, torch.tensor(a[1]), torch.tensor((a.max(), a.min())), x + 1

    return Case(f, np.arange(1, 5), vec())


@program(min_ops=1)
def tensors_of_numbers_that_do_not_fit():
    def f(a, x):
        y = x + 1
        try:
            return torch.LongTensor([a[0], a[1]]), y
        except TypeError:
            return "TypeError", y

    return Case(f, np.arange(4, dtype=np.float32), vec())


@program(full=4)
def functions_that_get_tensors():
    def f(x):
        ones = np.ones_like(x, dtype=np.float64)
        full = np.full_like(x, 2.4, dtype=np.dtype("float32"))
        return ones, full, np.concatenate([x, full]), np.asarray(x) * 2

    return Case(f, mat())


@program()
def functions_that_give_tensors():
    """NumPy asks a tensor for its own method, or gives what it computed back as a tensor."""

    def f(x):
        return np.transpose(x, (1, 0)), np.sum(x), x + 1

    return Case(f, mat())


@program()
def operators_beside_tensors():
    """A tensor's operators come before an array's, those in place too. Some raise."""

    def f(a, x):
        b = a
        b /= x
        try:
            return b, b is a, a * x
        except TypeError:
            return b, b is a, x + 1

    return Case(f, grid(), mat(2, 3).double())


@program(full=3)
def parts_of_real_arrays():
    """The imaginary part of real numbers is read-only."""

    def f(x):
        a = x.numpy()
        part = a.imag
        return part, part + 1, part[0], a.real * 2

    return Case(f, mat())


@program(min_ops=1)
def read_only_parts_written():
    def f(x):
        part = x.numpy().imag
        try:
            part[0] = 1
        except ValueError as error:
            return str(error), x + 1
        return part

    return Case(f, mat())


@program(full=3)
def places_in_arrays():
    def f(a, places):
        return np.take_along_axis(a, places, 1), np.take(a, [0, 2], axis=1), a[places[:, 0] * 0]

    return Case(f, grid(), np.array([[2, 0], [1, 1]]))


@program(full=1)
def arrays_of_arrays():
    def f(a, b):
        return np.array([a, b]), np.array([a.max(), b.max()])

    return Case(f, grid(), grid() + 1)


@program(full=7)
def operators_in_place_as_functions():
    def f(x, n):
        made = [operator.ipow(x + 1, 2), operator.ifloordiv(x * 3, 2), operator.imod(x * 5, 3), operator.imul(x - 1, 2)]
        return (
            made,
            operator.ior(n + 0, 1),
            operator.ixor(n + 0, 5),
            operator.iand(n + 0, 6),
            operator.ilshift(n + 0, 1),
        )

    return Case(f, vec(), torch.arange(4))
