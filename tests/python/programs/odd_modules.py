"""Odd programs with modules and optimizers: modules that grow in forward, parametrizations, shared parameters, optimizers made inside."""

import copy
import warnings

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from tests.python.programs import Case, program
from tests.python.programs.odd_tensors import LOG, around, odd


@odd
def deepcopy_of_module(x):
    m = nn.Linear(4, 2)
    with torch.no_grad():
        m.weight.fill_(0.5)
        m.bias.zero_()
    n = copy.deepcopy(m)
    with torch.no_grad():
        n.weight.add_(1)
    try:
        return m(x), n(x)
    except RuntimeError:
        return m.weight, n.weight


@odd
def load_state_dict_inside(x):
    m, n = nn.Linear(4, 4), nn.Linear(4, 4)
    with torch.no_grad():
        for p in m.parameters():
            p.fill_(0.25)
    LOG.append(str(n.load_state_dict(m.state_dict())))
    try:
        n.load_state_dict({"weight": torch.ones(2, 2)})
    except RuntimeError as e:
        LOG.append(str(e)[:50])
    return [p.sum() for p in n.parameters()], x + 1


class Grows(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 0

    def forward(self, x):
        self.k += 1
        if not hasattr(self, "buf"):
            self.register_buffer("buf", torch.zeros(4))
        self.buf += x.sum()
        if self.k == 2:
            self.extra = nn.Linear(4, 4)
            nn.init.constant_(self.extra.weight, 0.5)
            nn.init.zeros_(self.extra.bias)
        if hasattr(self, "extra"):
            x = self.extra(x.float())
        return x + self.buf


@odd
def module_grows_in_forward(x):
    m = Grows()
    out = [m(x.detach()) for _ in range(3)]
    return out, sorted(m.state_dict())


@program()
def module_from_outside_grows():
    m = Grows()
    return around(Case(m, torch.ones(4))).watching(m)


@program()
def parametrized():
    m = nn.Linear(4, 4)
    nn.init.constant_(m.weight, 0.5)
    nn.init.zeros_(m.bias)

    class Sym(nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).t()

    parametrize.register_parametrization(m, "weight", Sym())

    def f(x):
        y = m(x)
        y.sum().backward()
        with parametrize.cached():
            z = m(x) + m(x)
        return y, z, m.parametrizations.weight.original.grad

    return (
        around(Case(f, torch.ones(4)))
        .watching(m)
        .then(lambda case: parametrize.remove_parametrizations(m, "weight", leave_parametrized=False))
    )


@program()
def weight_norm():
    torch.manual_seed(0)
    m = parametrizations.weight_norm(nn.Linear(4, 3))

    def f(x):
        m.zero_grad()
        y = m(x.float())
        y.sum().backward()
        return y, m.parametrizations.weight.original0.grad

    return around(Case(f, torch.ones(4))).watching(m).then(lambda case: m.requires_grad_(False))


@program()
def spectral_norm():
    torch.manual_seed(0)
    m = parametrizations.spectral_norm(nn.Linear(4, 3))

    def f(x):
        y = m(x.float())
        return y * 2

    return around(Case(f, torch.ones(4))).watching(m).then(lambda case: m.eval())


@program()
def old_spectral_norm():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = nn.utils.spectral_norm(nn.Linear(4, 3))

    def f(x):
        y = m(x.float())
        y.sum().backward()
        return y * 2

    return around(Case(f, torch.ones(4))).watching(m).then(lambda case: m.eval())


@program()
def lstm():
    torch.manual_seed(0)
    m = nn.LSTM(4, 3, 2)

    def f(x, h):
        y, (a, b) = m(x.view(1, 1, -1), h)
        try:
            m(x.view(1, -1, 1))
        except RuntimeError as e:
            LOG.append(str(e)[:60])
        return y, a, b

    del LOG[:]
    return around(Case(f, torch.ones(4), None)).watching(m, LOG)


@program()
def packed_sequence():
    torch.manual_seed(0)
    m = nn.GRU(1, 2, batch_first=True)

    def f(x):
        p = nn.utils.rnn.pack_padded_sequence(x.float().view(2, -1, 1), torch.tensor([2, 1]), batch_first=True)
        y, h = m(p)
        z, n = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
        LOG.append(type(y).__name__)
        return z, n, h

    del LOG[:]
    return around(Case(f, torch.ones(4))).watching(m, LOG)


@odd
def optimizer_made_inside(x):
    w = nn.Parameter(torch.ones(4))
    opt = torch.optim.SGD([w], lr=0.5, momentum=0.9)
    for _ in range(3):
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
    return w.detach(), opt.state_dict()["param_groups"][0]["lr"], w.grad


@odd
def adam_inside_with_closure(x):
    w = nn.Parameter(torch.ones(4, dtype=torch.float64))
    opt = torch.optim.LBFGS([w], max_iter=2)

    def closure():
        opt.zero_grad()
        loss = ((w - x) ** 2).sum()
        loss.backward()
        return loss

    return opt.step(closure), w.detach()


@program()
def optimizer_with_a_schedule():
    w = nn.Parameter(torch.ones(4))
    opt = torch.optim.SGD([w], lr=0.5)
    sched = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)

    def f(x):
        opt.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        opt.step()
        sched.step()
        return loss.detach(), opt.param_groups[0]["lr"]

    return around(Case(f, torch.ones(4))).watching(w)


@program()
def aliased_parameters():
    m = nn.Linear(2, 2)
    n = nn.Linear(2, 2)
    nn.init.constant_(m.weight, 0.5)
    nn.init.constant_(n.weight, 0.25)
    for one in (m, n):
        nn.init.zeros_(one.bias)

    def f(x):
        with torch.no_grad():
            m.weight.add_(1)
        return n(x) + m(x)

    def tie(case):
        n.weight = m.weight

    def share(case):
        n.weight = nn.Parameter(m.weight.data)

    return Case(f, torch.ones(2)).then(tie, share, lambda case: m.double(), lambda case: n.double()).watching(m, n)


@program()
def dtype_meets_module():
    m = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    count = torch.zeros(())

    def f(x):
        count.add_(1)
        try:
            return m(x).shape
        except RuntimeError as err:
            LOG.append(str(err)[:30])
            return x.to(m[0].weight.dtype).shape

    del LOG[:]
    return (
        around(Case(f, torch.ones(4))).watching(count, LOG).then(lambda case: m.half()).then(lambda case: m.to("meta"))
    )


@odd
def functional_calls(x):
    m = nn.Linear(4, 1)
    w = {"weight": torch.ones(1, 4), "bias": torch.zeros(1)}
    try:
        return torch.func.functional_call(m, w, (x,))
    except RuntimeError as err:
        LOG.append(str(err)[:40])
        return torch.func.functional_call(m, w, (x.float().sum().expand(4),))


@odd
def batch_norm_counts(x):
    bn = nn.BatchNorm1d(2)
    y = x.detach().float().view(-1, 2)
    try:
        bn(y)
    except ValueError as err:
        LOG.append(str(err)[:30])
    return bn.num_batches_tracked, bn.running_mean


@odd
def clip_and_norm(x):
    w = nn.Parameter(torch.ones(4))
    (w * x.detach().float()).sum().backward()
    n = nn.utils.clip_grad_norm_([w], 0.5)
    try:
        nn.utils.clip_grad_norm_([w], 0.5, error_if_nonfinite=True)
        w.grad.fill_(float("nan"))
        nn.utils.clip_grad_norm_([w], 0.5, error_if_nonfinite=True)
    except RuntimeError as err:
        LOG.append(str(err)[:30])
    return n, w.grad


@odd
def parameters_to_vector(x):
    m = nn.Linear(2, 2)
    nn.init.constant_(m.weight, 0.5)
    nn.init.zeros_(m.bias)
    v = nn.utils.parameters_to_vector(m.parameters())
    nn.utils.vector_to_parameters(v.detach() * 2, m.parameters())
    return v, m.weight, x * 2
