"""More odd tensor programs: memory that overlaps, empty tensors, checkpoints, optimizers, aliased inputs, errors in the middle of several effects."""

import contextlib
import functools
import gc
import random
import warnings

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from tests.python.programs import Case, program
from tests.python.programs.odd_tensors import LOG, odd


@odd
def expanded_written(x):
    e = torch.ones(1).expand(4)
    try:
        e.add_(x)
    except RuntimeError as err:
        LOG.append(str(err)[:40])
    return e


@odd
def overlapping_memory(x):
    y = torch.arange(6.0)
    o = y.as_strided((3, 3), (1, 1))
    try:
        o.mul_(2)
    except RuntimeError as err:
        LOG.append(str(err)[:30])
    y.unfold(0, 2, 1)
    return o, y, x + 1


@odd
def copy_onto_itself(x):
    y = x.detach().clone()
    try:
        y[1:].copy_(y[:-1])
    except RuntimeError as err:
        LOG.append(str(err)[:30])
    y[:] = y.flip(0)
    return y


@odd
def empty_tensors(x):
    e = x[:0]
    out = [e.sum(), e.prod(), torch.cat([e, x])]
    for op in (torch.max, torch.min, torch.argmax, torch.median, torch.mode):
        try:
            out.append(op(e))
        except (RuntimeError, IndexError) as err:
            LOG.append((op.__name__, type(err).__name__))
    return out


@odd
def zero_dim(x):
    s = x.sum()
    out = [s.shape, s.view(1), s[None], s.expand(2)]
    for attempt in (lambda: s[0], lambda: len(s), lambda: list(s), lambda: s.size(0), lambda: s.t()):
        try:
            out.append(attempt())
        except (IndexError, TypeError) as err:
            LOG.append(str(err)[:40])
    return out


@odd
def checkpointed(x):
    w = torch.ones(4, requires_grad=True)

    def inner(a, b):
        LOG.append("inner")
        return (a * b).sin()

    y = checkpoint(inner, w, x, use_reentrant=False)
    y.sum().backward()
    return w.grad


@odd
def checkpointed_with_dropout(x):
    w = torch.ones(4, requires_grad=True)
    y = checkpoint(lambda a: F.dropout(a * x, 0.5), w, use_reentrant=False)
    y.sum().backward()
    return w.grad, torch.rand(1)


@odd
def checkpoint_that_raises(x):
    w = torch.ones(4, requires_grad=True)
    with contextlib.suppress(RuntimeError):
        checkpoint(lambda a: (a * x).view(3), w, use_reentrant=False)
    return (w * x).sum()


@odd
def reentrant_checkpoint(x):
    w = torch.ones(4, requires_grad=True)
    y = checkpoint(lambda a: a * x, w, use_reentrant=True)
    y.sum().backward()
    return w.grad


@program()
def aliased_inputs():
    base = torch.arange(4.0)

    def f(x, y):
        x.add_(1)
        y.mul_(2)
        return x + y

    return (
        Case(f, base, base)
        .then(lambda case: setattr(case, "args", (base, base[:])))
        .then(lambda case: setattr(case, "args", (base[:2], base[1:3])))
        .then(lambda case: setattr(case, "args", (base, base.clone())))
        .then(lambda case: setattr(case, "args", (base.view(2, 2), base.view(2, 2).t())))
        .watching(base)
    )


@odd
def error_between_three_effects(x):
    state = {"a": x.clone(), "n": 0}
    try:
        state["a"].add_(1)
        state["n"] += 1
        LOG.append(torch.rand(1))
        state["a"][torch.tensor([5])] = 1
        state["n"] += 10
    except (IndexError, RuntimeError):
        state["n"] += 100
        state["a"].mul_(2)
    finally:
        state["a"].sub_(0.5)
    return state


@odd
def error_in_a_loop(x):
    y = x.clone()
    table = torch.arange(3.0)
    for i in range(5):
        try:
            y.add_(table[torch.tensor([i])].sum())
            LOG.append(i)
        except IndexError:
            y.neg_()
            break
    else:
        y = None
    return y


@odd
def error_in_nested_calls(x):
    def inner(t, i):
        t.add_(i)
        return F.embedding(torch.tensor([i]), torch.eye(3))

    def outer(t):
        try:
            for i in (0, 2, 4):
                inner(t, i)
                LOG.append(i)
        finally:
            t.mul_(3)

    y = x.clone()
    try:
        outer(y)
    except IndexError as err:
        LOG.append(type(err).__name__)
    return y


@odd
def error_through_a_with(x):
    @contextlib.contextmanager
    def scaled(t):
        t.mul_(2)
        try:
            yield t
        finally:
            t.div_(2)

    y = x.detach().clone().float()
    try:
        with scaled(y) as z, torch.no_grad():
            z.add_(1)
            torch.linalg.inv(torch.zeros(2, 2))
    except RuntimeError:
        LOG.append(torch.is_grad_enabled())
    return y


@odd
def error_from_cholesky(x):
    a = torch.eye(2) * x.sum().float()
    LOG.append("before")
    a.sub_(10)
    try:
        return torch.linalg.cholesky(a)
    except RuntimeError:
        return a


@program()
def error_comes_later():
    """The same call first works and then does not."""
    seen = torch.zeros(4)

    def f(x, i):
        seen.add_(x)
        LOG.append("seen")
        y = x[i]
        seen.mul_(2)
        return y

    del LOG[:]
    return (
        Case(f, torch.ones(4), torch.tensor([1]))
        .watching(seen, LOG)
        .then(lambda case: setattr(case, "args", (case.args[0], torch.tensor([9]))))
        .then(lambda case: setattr(case, "args", (case.args[0], torch.tensor([-4]))))
        .then(lambda case: setattr(case, "args", (case.args[0], torch.tensor([-5]))))
    )


@program()
def large_write_then_error():
    """More than is copied."""
    big = torch.zeros(600_000)

    def f(i):
        big.add_(1)
        LOG.append("one")
        try:
            y = torch.arange(3.0)[i]
        except IndexError:
            LOG.append("caught")
            y = big[:3] * 2
        big.mul_(2)
        return y

    del LOG[:]
    return (
        Case(f, torch.tensor([1]))
        .watching(LOG, big[:4])
        .then(lambda case: setattr(case, "args", (torch.tensor([9]),)))
        .then(lambda case: setattr(case, "args", (torch.tensor([2]),)))
        .then(lambda case: setattr(case, "args", (torch.tensor([-9]),)))
    )


@odd
def grad_of_grad(x):
    w = torch.arange(4.0, requires_grad=True)
    (g,) = torch.autograd.grad((w**3 * x).sum(), w, create_graph=True)
    g.sum().backward()
    return w.grad, g


@odd
def grad_with_unused(x):
    w, u = torch.ones(4, requires_grad=True), torch.ones(2, requires_grad=True)
    try:
        torch.autograd.grad((w * x).sum(), (w, u))
    except RuntimeError as err:
        LOG.append(str(err)[:40])
    return torch.autograd.grad((w * x).sum(), (w, u), allow_unused=True)


@odd
def backward_twice(x):
    w = torch.ones(4, requires_grad=True)
    y = (w * w * x).sum()
    y.backward()
    try:
        y.backward()
    except RuntimeError as err:
        LOG.append(str(err)[:40])
    return w.grad


@odd
def saved_then_written(x):
    w = torch.ones(4, requires_grad=True)
    y = w * x
    z = y * y
    y.add_(1)
    try:
        z.sum().backward()
    except RuntimeError as err:
        LOG.append(str(err)[:40])
    return w.grad


@odd
def leaf_written(x):
    w = torch.ones(4, requires_grad=True)
    try:
        w.add_(1)
    except RuntimeError as err:
        LOG.append(str(err)[:40])
    try:
        w[1:].zero_()
    except RuntimeError as err:
        LOG.append(str(err)[:40])
    return w * x


@odd
def view_of_leaf_under_no_grad(x):
    w = torch.ones(4, requires_grad=True)
    with torch.no_grad():
        v = w[1:]
    try:
        v.add_(1)
    except RuntimeError as err:
        LOG.append(str(err)[:40])
    return (w * x).sum(), v.requires_grad


@odd
def unbound_views_written(x):
    w = torch.ones(4, requires_grad=True)
    y = w * x
    a, b, *_ = y.unbind()
    try:
        a.add_(1)
    except RuntimeError as err:
        LOG.append(str(err)[:40])
    return y


@odd
def detached_shares(x):
    w = torch.ones(4, requires_grad=True)
    y = w * x
    d = y.detach()
    d.mul_(5)
    return y, d, y._version, d._version


@odd
def data_written(x):
    w = torch.ones(4, requires_grad=True)
    y = w * 2
    w.data.add_(3)
    w.data = w.data * 2
    y.sum().backward()
    return w, w.grad, y, x + w


@odd
def set_and_resize(x):
    y = torch.ones(4)
    y.resize_(2, 3)
    y.fill_(1)
    z = torch.zeros(2)
    z.set_(y)
    return y.shape, z.shape, z.data_ptr() == y.data_ptr(), x + 1


@odd
def storage_looked_at(x):
    y = x.detach().clone()
    s = y.untyped_storage()
    LOG.append((s.nbytes(), y.storage_offset(), y[2:].storage_offset()))
    return y.is_contiguous(), y.t().stride()


@odd
def mixed_dtypes(x):
    out = []
    for dt in (torch.float16, torch.bfloat16, torch.int8, torch.complex64, torch.bool):
        y = x.detach().to(dt)
        try:
            out.append((y + x, torch.result_type(y, x)))
            y.add_(x.detach())
            out.append(y)
        except RuntimeError as err:
            LOG.append(str(err)[:50])
    return out


@odd
def scalar_types(x):
    out = []
    for s in (1, 1.5, True, 1j):
        try:
            y = x.detach().clone()
            y.mul_(s)
            out.append(y)
        except RuntimeError as err:
            LOG.append(str(err)[:50])
        out.append((x * s).dtype)
    return out


@odd
def in_place_dunders(x):
    y = x.detach().clone()
    z = y
    y += 1
    y -= x.detach()
    y *= 2
    try:
        y /= 3
    except RuntimeError as err:
        LOG.append(str(err)[:30])
    y **= 2
    try:
        y @= y
    except (RuntimeError, TypeError) as err:
        LOG.append(type(err).__name__)
    return y, z, y is z


@odd
def index_put_odd(x):
    y = torch.zeros(3, 4)
    y[:, 1] = 5
    y[torch.tensor([0, 2])] += x.detach().float().sum()
    y[y > 4] = -1
    y[None, ..., -1] = 7
    y[[True, False, True]] *= 2
    try:
        y[3] = 1
    except IndexError as err:
        LOG.append(str(err)[:30])
    try:
        y[torch.tensor([True, False])] = 1
    except IndexError as err:
        LOG.append(str(err)[:30])
    return y


@odd
def warns_and_raises(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.ones(3, requires_grad=True).grad_fn
        y = torch.ones(4, requires_grad=True) * x
        y.grad
    LOG.append(len(caught))
    return y.sum()


@odd
def numpy_shares(x):
    y = x.detach().clone()
    a = y.numpy()
    a += 1
    y.mul_(2)
    z = torch.from_numpy(a)
    z.add_(1)
    return y, a, z


@odd
def random_generators(x):
    g = torch.Generator().manual_seed(5)
    a = torch.rand(2, generator=g)
    try:
        torch.randint(5, 2, (2,), generator=g)
    except RuntimeError as err:
        LOG.append(str(err)[:30])
    b = torch.rand(2, generator=g)
    random.seed(2)
    return a, b, random.random(), x + 1


@odd
def vmap_with_error(x):
    try:
        torch.vmap(lambda t: t.view(3))(x.view(2, -1))
    except RuntimeError as err:
        LOG.append(type(err).__name__)
    return torch.vmap(lambda t: t * 2)(x)


@odd
def partial_and_reduce(x):
    add = functools.partial(torch.add, alpha=2)
    return functools.reduce(add, [x, x, 1])


@odd
def tensor_attributes_set(x):
    y = x.detach().clone()
    y.tag = [1]
    y.tag.append(y.shape)
    z = y.clone()
    LOG.append(hasattr(z, "tag"))
    del y.tag
    return y, z


@odd
def garbage_between(x):
    y = [x + i for i in range(3)]
    y.append(y)
    del y
    gc.collect()
    return x * 2


@odd
def quantized(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        q = torch.quantize_per_tensor(x.detach().float(), 0.1, 3, torch.quint8)
        LOG.append((q.q_scale(), q.q_zero_point(), q.is_quantized))
        return q.dequantize(), q.int_repr()


@odd
def anomaly_mode(x):
    w = torch.ones(4, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.set_detect_anomaly(True):
            try:
                torch.sqrt((w * x) * 0 - 0.0).sum().backward()
            except RuntimeError as err:
                LOG.append(str(err)[:40])
    return w.grad


@odd
def multi_output_alias(x):
    y = x.detach().clone()
    a = y[:2]
    return y, a, y, a.view(-1), [a, (y,)]


@odd
def returned_input(x):
    x2 = x.detach()
    return x, x2, x.view(-1), x is x.view(-1)


@odd
def assert_in_middle(x):
    y = x.detach().clone()
    y.add_(1)
    try:
        assert y.sum() > 100, f"sum {y.dim()}"
    except AssertionError as err:
        LOG.append(str(err))
        y.zero_()
    return y


@odd
def item_as_index(x):
    y = x.detach().clone()
    k = int(y.float().sum().item())
    try:
        y[k] = 9
        LOG.append(k)
        return y[: k + 1]
    except IndexError:
        return y.neg()


@odd
def torch_check(x):
    y = x.clone()
    try:
        torch._check(y.numel() > 4, lambda: f"few: {y.numel()}")
    except RuntimeError as err:
        LOG.append(str(err))
    torch._assert(y.numel() >= 0, "no")
    return y
