"""Operators, functions and methods of tensors."""

import torch
import torch.nn.functional as F

from tests.python.programs import Case, mat, program, vec


@program(full=10)
def arithmetic():
    def f(x, y):
        return x + y, x - y, x * y, x / y, x // y, x % y, x**2, 2**x, -x, abs(x), 1 - x, 1 / x, +x, 5 // y, 5 % y

    return Case(f, vec(4, 1.0), vec(4, 2.0))


@program(full=6)
def comparisons():
    def f(x, y):
        return x < y, x <= y, x == y, x != y, x > y, x >= y, x == 1, 1 < x

    return Case(f, vec(), vec(4, 0.0))


@program(full=4)
def bitwise():
    def f(a, b):
        return a & b, a | b, a ^ b, ~a, a << 1, a >> 1

    return Case(f, torch.tensor([1, 2, 3]), torch.tensor([3, 2, 1]))


@program(full=3)
def matmuls():
    def f(a, b):
        return a @ b, torch.mm(a, b), a.matmul(b), torch.einsum("ij,jk->ik", a, b), torch.bmm(a[None], b[None])

    return Case(f, mat(2, 3), mat(3, 4))


@program(full=8)
def reductions():
    def f(x):
        return (
            x.sum(),
            x.mean(0),
            x.max(),
            x.min(dim=1),
            x.prod(),
            x.std(),
            x.argmax(1),
            x.all(),
            x.any(0),
            x.norm(),
            torch.logsumexp(x, 1),
        )

    return Case(f, mat())


@program(full=3)
def named_results():
    def f(x):
        values, indices = x.max(dim=1)
        top = x.topk(2)
        s = torch.sort(x, dim=0, descending=True)
        return values + 1, indices, top.values * 2, top[1], s, type(s).__name__, s.indices

    return Case(f, mat())


@program(full=8)
def pointwise_functions():
    def f(x):
        return (
            torch.exp(x),
            torch.sin(x).cos(),
            x.relu(),
            torch.sigmoid(x),
            x.tanh(),
            torch.sqrt(x.abs()),
            x.clamp(-1, 1),
            torch.erf(x),
            x.sign(),
            F.gelu(x),
        )

    return Case(f, vec())


@program(full=4)
def type_promotion():
    def f(i, x, d, b):
        return (
            i + 1.5,
            i + x,
            x + d,
            i * b,
            i / 2,
            b + b,
            x * 2,
            d * 3,
            i + True,
            torch.add(i, 2),
            b & True,
            x + torch.tensor(2.0, dtype=torch.float64),
        )

    return Case(f, torch.tensor([1, 2]), vec(2), vec(2).double(), torch.tensor([True, False]))


@program(full=5)
def shape_functions():
    def f(x):
        return (
            x.reshape(4, 3),
            x.view(-1),
            x.t(),
            x.unsqueeze(0),
            x[None].squeeze(),
            x.permute(1, 0),
            x.transpose(0, 1),
            x.flatten(),
            x.expand(2, 3, 4),
        )

    return Case(f, mat())


@program(full=5)
def joining_and_splitting():
    def f(x):
        a, b, c = x.unbind(0)
        p, q = x.chunk(2, dim=1)
        r = x.split([1, 3], dim=1)
        return torch.cat([x, x], 0), torch.stack([a, b, c], 1), p + q, r, torch.hstack([x, x]), torch.tensor_split(x, 2)

    return Case(f, mat())


@program(full=8)
def indexing():
    def f(x, i):
        return (
            x[0],
            x[-1, 1:],
            x[:, ::2],
            x[..., 0],
            x[None],
            x[i],
            x[:, i],
            x[[0, 2]],
            x[(0, 1)],
            x[1:1],
            x[torch.tensor(1)],
            x[i, i],
        )

    return Case(f, mat(), torch.tensor([0, 1]))


@program(full=4)
def index_functions():
    def f(x, i):
        return (
            x.gather(1, i),
            x.index_select(0, i[:, 0]),
            torch.take(x, i),
            x.scatter(1, i, 9.0),
            x.masked_fill(x > 0, 5),
            torch.where(x > 0, x, 0.0),
            x.narrow(1, 0, 2),
        )

    return Case(f, mat(), torch.tensor([[0, 1], [1, 0], [2, 2]]))


@program(full=4)
def cumulative_and_sorting():
    def f(x):
        return (
            x.cumsum(0),
            x.cumprod(1),
            x.sort(1)[0],
            x.argsort(0),
            x.flip(0),
            x.roll(1, 1),
            torch.diff(x),
            x.tril(),
            x.triu(1),
        )

    return Case(f, mat())


@program(full=6)
def functional_layers():
    def f(x, w, b):
        y = F.linear(x, w, b)
        return (
            F.relu(y),
            F.softmax(y, dim=-1),
            F.layer_norm(y, (2,)),
            F.log_softmax(y, -1),
            F.mse_loss(y, y * 2),
            F.pad(y, (1, 1)),
            F.normalize(y),
            F.silu(y),
        )

    return Case(f, mat(), mat(2, 4), vec(2))


@program(full=2)
def embedding_and_cross_entropy():
    def f(i, w, t):
        e = F.embedding(i, w)
        return e, F.cross_entropy(e, t), F.one_hot(i, 5), F.nll_loss(F.log_softmax(e, -1), t)

    return Case(f, torch.tensor([0, 2, 1]), mat(3, 4), torch.tensor([1, 0, 3]))


@program(full=3)
def convolutions():
    def f(x, w):
        return (
            F.conv1d(x, w),
            F.conv1d(x, w, padding=1, stride=2),
            F.max_pool1d(x, 2),
            F.avg_pool1d(x, 2),
            F.interpolate(x, scale_factor=2.0),
        )

    return Case(f, mat(2, 8).reshape(1, 2, 8), mat(3, 6).reshape(3, 2, 3))


@program(full=1)
def attention():
    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True), F.scaled_dot_product_attention(q, k, v)

    x = mat(6, 4).reshape(1, 2, 3, 4)
    return Case(f, x, x * 2, x + 1)


@program(full=3)
def linear_algebra():
    def f(a):
        s = a @ a.t() + torch.eye(3)
        return (
            torch.linalg.inv(s),
            torch.linalg.norm(s),
            torch.det(s),
            torch.linalg.solve(s, a),
            torch.trace(s),
            torch.outer(a[0], a[1]),
        )

    return Case(f, mat())


@program(full=2)
def fft_and_complex():
    def f(x):
        z = torch.fft.fft(x)
        return z, z.real, z.abs(), torch.view_as_real(z), z.conj(), torch.fft.ifft(z).real

    return Case(f, vec())


@program(full=4)
def special_and_misc():
    def f(x):
        return (
            torch.special.expit(x),
            torch.lerp(x, x * 2, 0.5),
            torch.addcmul(x, x, x, value=2),
            torch.isfinite(x),
            torch.nan_to_num(x / 0),
            torch.meshgrid(x, x, indexing="ij"),
            torch.cdist(x[None], x[None]),
        )

    return Case(f, vec())


@program(full=3)
def operators_with_python_numbers():
    def f(x, n, v, flag):
        return x + n, x * v, x + flag, n - x, v / x, x**n, n * 2 + x, complex(1, 2) * x

    return Case(f, vec(4, 1.0), 3, 0.5, True).changing(vec(4, 1.0), 4, 0.25, False)


@program(full=2)
def scalar_tensors():
    def f(x):
        s = x.sum()
        return s + x, s * 2, s.dim(), s.shape, x / s, s.unsqueeze(0)

    return Case(f, vec())


@program(full=2)
def empty_tensors():
    def f(x):
        e = x[:0]
        return e, e.sum(), torch.cat([e, x]), e.shape, e.numel() == 0, e + 1

    return Case(f, mat())


@program(full=4)
def dtypes_and_casts():
    def f(x):
        return (
            x.double(),
            x.half().float(),
            x.to(torch.int64),
            x.type(torch.float64),
            x.bool(),
            x.to(x[0]),
            x.long() + 1,
            x.bfloat16(),
            x.to(dtype=torch.float16),
        )

    return Case(f, mat())


@program()
def type_of_a_tensor_as_string():
    def f(x):
        return x.type(), x.double().type(), x + 1

    return Case(f, vec())


@program(full=3)
def out_arguments():
    def f(x, out):
        same = torch.add(x, 1, out=out)
        fresh = torch.empty(4)
        torch.mul(x, 2, out=fresh)
        return same is out, fresh, out * 2

    return Case(f, vec(), torch.zeros(4))


@program(min_ops=1)
def out_arguments_that_backends_cannot_keep():
    """The memory of an input grows, and what a result is written into has strides of its own."""

    def f(x, empty, transposed):
        grown = torch.sin(x, out=empty)
        strided = torch.mul(x, 2, out=transposed)
        return grown is empty, strided is transposed, empty.shape, strided.stride(), grown + strided

    return Case(f, mat(), torch.empty(0), torch.zeros(4, 3).t())


@program(full=2)
def iteration_and_unpacking_of_tensor():
    def f(x):
        a, b, c = x
        first, *rest = x
        return a + b * c, first, len(rest), [r.sum() for r in rest]

    return Case(f, mat())


@program(full=1)
def tensor_len_and_contains():
    def f(x):
        return len(x), x.ndim, x + len(x), x.size(-1)

    return Case(f, mat())


@program()
def contains_by_value():
    def f(x):
        return 0.25 in x, 77 in x, x + 1

    return Case(f, vec())


@program(full=3)
def chained_method_calls():
    def f(x):
        return x.add(1).mul(2).sub(3).div(4).sum(dim=0, keepdim=True).squeeze(0)

    return Case(f, mat())


@program(full=2)
def unbound_tensor_methods():
    def f(x):
        return torch.Tensor.add(x, 1), torch.Tensor.sum(x, dim=0), x.__add__(2), x.__radd__(3), torch.Tensor.relu(x)

    return Case(f, mat())


@program(full=2)
def function_chosen_by_name():
    def f(x, name):
        return getattr(torch, name)(x) + getattr(x, name)() + getattr(F, "relu")(x)

    return Case(f, vec(), "sin").changing(vec(), "cos")


@program(full=2)
def torch_ops_namespace():
    def f(x):
        return torch.ops.aten.add.Tensor(x, x), torch.ops.aten.relu(x), torch._C._nn.gelu(x)

    return Case(f, vec())


@program(full=20)
def long_chain():
    def f(x):
        for i in range(20):
            x = x * 0.5 + i
        return x

    return Case(f, vec())


@program(full=1)
def unused_results():
    def f(x):
        x + 1
        y = x * 2
        y.sum()
        return x - 1

    return Case(f, vec())


@program(full=1)
def inputs_not_used():
    def f(x, y, z):
        return y + 1

    return Case(f, vec(), vec(), vec())


@program()
def no_tensor_at_all():
    def f(a, b):
        return a * b + 1

    return Case(f, 2, 3).changing(2.5, 4)


@program()
def returns_constant():
    def f(x):
        return 42

    return Case(f, vec())


@program(max_breaks=0)
def returns_nothing():
    def f(x):
        x + 1

    return Case(f, vec())


@program(full=3)
def sizes_that_are_tensors_of_known_numbers():
    """torch.div of two ints is a tensor, which view() and its relatives read as a size."""

    def f(x):
        count = torch.div(x.size(0), 2, rounding_mode="trunc")
        rows = x.view(count, 2, -1)
        more = x.new_zeros((count - 1, 2)) + rows.sum()
        return rows * 2, more, x.reshape(-1, count), x.expand(count, x.size(0)).as_strided((count, 1), (1, 1))

    return Case(f, torch.arange(4.0)).changing(torch.arange(6.0))
