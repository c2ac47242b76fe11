"""Odd tensor programs: writes before errors, views of views, aliases among inputs, out=, meta tensors, modes, modules that change in forward; each in a changing world."""

import copy
import warnings

import torch
import torch.nn.functional as F

from tests.python.programs import Case, program

LOG = []


def around(case):
    """The first argument becomes another kind of tensor, again and again."""

    def becomes(make):
        def step(case):
            case.args = (make(case.args[0]), *case.args[1:])

        return step

    return case.then(
        becomes(lambda x: x.detach().double()),
        becomes(lambda x: x.detach().float().clone().requires_grad_()),
        becomes(lambda x: x.detach().repeat(2)[::2]),
        becomes(lambda x: x.detach()[:0]),
        becomes(lambda x: torch.ones(4, dtype=torch.int64)),
    )


def odd(fn):
    """A program of one tensor argument."""

    def make():
        del LOG[:]
        return around(Case(fn, torch.tensor([0.5, -1.0, 2.0, 0.25]))).watching(LOG)

    make.__name__ = fn.__name__
    make.__module__ = fn.__module__
    return program()(make)


@odd
def write_then_view_error(x):
    y = x.clone()
    try:
        y.add_(1)
        LOG.append("w")
        y.view(3)
    except RuntimeError:
        y.mul_(2)
        LOG.append("caught")
    return y


@odd
def write_input_then_index_error(x):
    i = torch.tensor([0, 9])
    try:
        x.mul_(2)
        LOG.append(1)
        z = x[i]
    except IndexError as e:
        LOG.append(str(e)[:30])
        z = x * 3
    return z + x


@odd
def draw_then_gather_error(x):
    try:
        r = torch.rand(4)
        LOG.append("drew")
        torch.gather(x, 0, torch.tensor([7]))
    except (RuntimeError, IndexError):
        r = torch.rand(4) + r
    return r


@odd
def views_of_views_written(x):
    y = x.clone()
    a = y[1:]
    b = a[::2]
    c = b.unsqueeze(0).expand(3, -1)
    b.add_(10)
    LOG.append(c.shape)
    return y, a, c


@odd
def view_written_under_no_grad(x):
    y = x * 1
    v = y[1:3]
    with torch.no_grad():
        v.zero_()
    return y, v, v._version, y._version


@odd
def out_argument(x):
    out = torch.empty(x.shape)
    r = torch.add(x, 1, out=out)
    LOG.append(r is out)
    torch.mul(out, 2, out=out)
    return out


@odd
def out_of_another_size(x):
    out = torch.empty(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.add(x, 1, out=out)
    return out, out.shape


@odd
def out_slice(x):
    big = torch.zeros(8)
    torch.mul(x, 3, out=big[2 : 2 + len(x)])
    return big


@odd
def out_tuple(x):
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.long)
    got = torch.sort(x, out=(values, indices))
    LOG.append(type(got).__name__)
    return got[0] is values, values, indices


@odd
def data_check(x):
    if not torch.isfinite(x).all():
        raise ValueError("not finite")
    y = x / 0
    try:
        if not torch.isfinite(y).all():
            raise ValueError("inf")
    except ValueError as e:
        LOG.append(str(e))
    return y


@odd
def meta_in_between(x):
    m = x.to("meta")
    n = (m + 1).relu()
    LOG.append((n.device.type, n.shape, n.dtype))
    try:
        return n + x
    except (RuntimeError, NotImplementedError) as e:
        LOG.append(type(e).__name__)
    return x.sum()


@odd
def meta_item(x):
    try:
        return torch.empty(2, device="meta").sum().item()
    except (RuntimeError, NotImplementedError) as e:
        return type(e).__name__, x + 1


@odd
def requires_grad_flips(x):
    y = x.detach().clone()
    if y.is_floating_point():
        y.requires_grad_(True)
        z = (y * 2).sum()
        z.backward()
        y.requires_grad_(False)
        y.add_(y.grad)
    return y, y.requires_grad, y.grad


@odd
def requires_grad_of_ints(x):
    try:
        torch.ones(2, dtype=torch.int32).requires_grad_()
    except RuntimeError as e:
        LOG.append(str(e))
    return x + 1


@odd
def requires_grad_of_nonleaf(x):
    y = torch.ones(4, requires_grad=True) * x
    try:
        y.requires_grad_(False)
    except RuntimeError as e:
        LOG.append(str(e)[:60])
    return y


@odd
def tensor_hooks(x):
    w = torch.ones(4, requires_grad=True)
    seen = []
    h = w.register_hook(lambda g: seen.append(g.sum()) or g * 2)
    y = (w * x).sum()
    y.backward()
    h.remove()
    (w * x).sum().backward()
    return w.grad, seen


@odd
def post_accumulate_hook(x):
    w = torch.ones(4, requires_grad=True)
    w.register_post_accumulate_grad_hook(lambda p: LOG.append(p.grad.clone()))
    (w * x).sum().backward()
    return w.grad


@odd
def grad_modes_nested(x):
    w = torch.ones(4, requires_grad=True)
    out = []
    with torch.no_grad():
        out.append((w * x).requires_grad)
        with torch.enable_grad():
            out.append((w * x).requires_grad)
            with torch.inference_mode():
                z = w * x
                out.append((z.requires_grad, z.is_inference()))
            out.append(torch.is_grad_enabled())
    return out, z + 0


@odd
def inference_tensor_in_autograd(x):
    with torch.inference_mode():
        z = x + 1
    w = torch.ones(4, requires_grad=True)
    try:
        (w * z).sum().backward()
    except RuntimeError as e:
        LOG.append(str(e)[:40])
    try:
        z.add_(1)
    except RuntimeError as e:
        LOG.append(str(e)[:40])
    return w.grad


@odd
def set_grad_enabled_as_call(x):
    w = torch.ones(4, requires_grad=True)
    torch.set_grad_enabled(False)
    try:
        y = w * x
        y.view(3)
    except RuntimeError:
        LOG.append(torch.is_grad_enabled())
    finally:
        torch.set_grad_enabled(True)
    return y.requires_grad, (w * x).requires_grad


@odd
def autocast_cpu(x):
    a = x.float().repeat(4).view(4, -1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = a @ a.t()
        LOG.append(y.dtype)
        with torch.autocast("cpu", enabled=False):
            z = a @ a.t()
            LOG.append(z.dtype)
    return y, z


@odd
def autocast_left_by_error(x):
    a = x.float().repeat(4).view(4, -1)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = a @ a.t()
            y.view(3)
    except RuntimeError:
        pass
    LOG.append(torch.is_autocast_enabled("cpu"))
    return a @ a.t()


class Several(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b=None, *rest, scale=2):
        ctx.save_for_backward(a, b)
        ctx.n = len(rest)
        return a * scale, (b if b is not None else a) + 1

    @staticmethod
    def backward(ctx, ga, gb):
        LOG.append(ctx.needs_input_grad)
        return (ga * 2, gb) + (None,) * ctx.n


@odd
def function_with_odd_signature(x):
    w = torch.ones(4, requires_grad=True)
    u, v = Several.apply(w * x, x * w, 3, "k")
    (u.sum() + v.sum()).backward()
    return w.grad


class MarksDirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        a.add_(1)
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx, g):
        return g * 3


@odd
def function_marks_dirty(x):
    w = torch.ones(4, requires_grad=True)
    y = w * x
    z = MarksDirty.apply(y)
    LOG.append(z is y)
    z.sum().backward()
    return w.grad, y


class NoDiff(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        i = a.argsort()
        ctx.mark_non_differentiable(i)
        ctx.set_materialize_grads(False)
        return a * 2, i

    @staticmethod
    def backward(ctx, g, gi):
        LOG.append((g is None, gi is None))
        return g


@odd
def function_non_differentiable(x):
    w = torch.ones(4, requires_grad=True)
    y, i = NoDiff.apply(w * x)
    y.sum().backward()
    return w.grad, i, i.requires_grad


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        LOG.append("forward")
        return a.clone()

    @staticmethod
    def backward(ctx, g):
        LOG.append("backward")
        raise ValueError("no gradient")


@odd
def function_that_raises_in_backward(x):
    w = torch.ones(4, requires_grad=True)
    try:
        Raises.apply(w * x).sum().backward()
    except ValueError as e:
        LOG.append(str(e))
    return w.grad


class SetupContext(torch.autograd.Function):
    @staticmethod
    def forward(a, k):
        return a.sin() * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, ctx.k = inputs
        ctx.save_for_backward(a)

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return g * a.cos() * ctx.k, None


@odd
def function_setup_context(x):
    w = torch.ones(4, requires_grad=True)
    SetupContext.apply(w * x, len(LOG) + 2).sum().backward()
    return w.grad


@odd
def draw_in_try(x):
    try:
        a = torch.randn(4)
        b = F.dropout(x.float(), 0.5)
        torch.bernoulli(a + 50)
    except RuntimeError:
        LOG.append("bad p")
    return b, torch.rand(2)


@odd
def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    try:
        y = torch.ones(4) * x
        LOG.append(y.dtype)
        y.view(3)
    except RuntimeError:
        pass
    finally:
        torch.set_default_dtype(torch.float32)
    return y, torch.ones(1).dtype


@odd
def seeds_and_states(x):
    torch.manual_seed(3)
    a = torch.rand(2)
    state = torch.get_rng_state()
    b = torch.rand(2)
    torch.set_rng_state(state)
    c = torch.rand(2)
    return a, torch.equal(b, c), x + 1


@odd
def fork_rng(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        a = torch.rand(2)
    return a, torch.rand(2), x * 2


@odd
def deepcopy_of_tensors(x):
    y = x.detach().clone()
    pair = [y, y[1:]]
    other = copy.deepcopy(pair)
    other[0].add_(1)
    return other, pair, copy.copy(y) is y


@odd
def sparse(x):
    s = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), (2, 2))
    y = torch.sparse.mm(s, x.float().view(2, -1))
    LOG.append(s.is_sparse)
    return y, s.coalesce().values(), s.to_dense()


@odd
def to_sparse(x):
    s = x.to_sparse()
    LOG.append(s._nnz())
    return (s * 2).to_dense(), s.shape


@odd
def complex_numbers(x):
    z = torch.complex(x.float(), x.float() * 2)
    w = torch.view_as_real(z)
    w[..., 0] += 1
    LOG.append(z.is_conj())
    c = z.conj()
    LOG.append(c.is_conj())
    try:
        z.real.add_(1j)
    except RuntimeError as e:
        LOG.append(type(e).__name__)
    return z, c.resolve_conj(), z.abs(), c.imag.is_neg()


@odd
def named_tensors(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        t = x.detach().float().view(1, -1).refine_names("a", "b")
        try:
            return t.sum("b").rename(None), t.names
        except RuntimeError as e:
            return str(e)


@odd
def unsigned_and_bools(x):
    u = x.detach().abs().to(torch.uint8)
    b = u > 0
    u.sub_(3)
    try:
        -b
    except RuntimeError as e:
        LOG.append(str(e)[:20])
    try:
        b - b
    except RuntimeError as e:
        LOG.append(str(e)[:20])
    b ^= True
    return u, b, b + b, u // 2, ~u
