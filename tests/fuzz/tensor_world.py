"""What the programs of tensors.py find around them: a model, a state, context managers, odd classes, a log; and helpers that raise or write."""

# ruff: noqa: F401
import collections
import contextlib
import dataclasses
import functools
import itertools
import operator
import random

import torch
import torch.nn.functional as F
from torch import nn

from tests.python.programs import Case

LOG = []
CALLS = [0]
TABLE = {}


class Oops(Exception):
    pass


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.emb = nn.Embedding(3, 4)
        self.drop = nn.Dropout(0.5)
        self.bn = nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(4))
        self.steps = 0
        self.scale = 1.5
        self.last = None
        with torch.no_grad():
            self.lin.weight.copy_(torch.eye(4) * 0.5 + 0.25)
            self.lin.bias.fill_(0.25)
            self.emb.weight.copy_(torch.arange(12.0).view(3, 4) * 0.5)

    def forward(self, x):
        self.steps += 1
        self.seen.add_(1)
        y = self.lin(x)
        self.last = y
        self.seen.mul_(2)
        return y.relu()

    def risky(self, x, k):
        self.steps += k
        self.seen[0] += k
        try:
            return self.lin(x)
        finally:
            self.scale += 1
            self.seen[1] -= 1


@dataclasses.dataclass
class State:
    t: torch.Tensor
    n: int = 0
    tag: str = "s"
    hist: list = dataclasses.field(default_factory=list)

    def push(self, v):
        self.hist.append(v)
        self.n += 1
        return self


class Ctx:
    def __init__(self, name, eat=()):
        self.name, self.eat = name, eat

    def __enter__(self):
        LOG.append(("in", self.name))
        return self

    def __exit__(self, kind, error, trace):
        LOG.append(("out", self.name, kind.__name__ if kind else None))
        return kind is not None and issubclass(kind, self.eat) if self.eat else False


@contextlib.contextmanager
def scope(t, k):
    LOG.append(("enter", k))
    t.add_(k)
    try:
        yield t * 2
    except IndexError:
        LOG.append("eaten")
    finally:
        t.sub_(k)
        LOG.append(("leave", k))


class Vec:
    def __init__(self, t, n=1):
        self.t, self.n = t, n

    def __add__(self, o):
        LOG.append("add")
        return Vec(self.t + (o.t if isinstance(o, Vec) else o), self.n + 1)

    def __radd__(self, o):
        return Vec(o + self.t, self.n + 2)

    def __iadd__(self, o):
        self.t.add_(o.t if isinstance(o, Vec) else o)
        self.n += 1
        return self

    def __mul__(self, o):
        if isinstance(o, str):
            return NotImplemented
        return Vec(self.t * o, self.n)

    def __getitem__(self, i):
        return self.t[i]

    def __setitem__(self, i, v):
        LOG.append(("set", i))
        self.t[i] = v

    def __len__(self):
        return self.n

    def __call__(self, v):
        self.n += 1
        return self.t + v

    def __bool__(self):
        return self.n % 2 == 0

    def __iter__(self):
        for i in range(2):
            yield self.t[i]

    def __contains__(self, k):
        return k == self.n

    @property
    def total(self):
        LOG.append("total")
        return self.t.sum()

    @total.setter
    def total(self, v):
        self.t.fill_(v)


class Auto(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.k + x * 0, None


def noted(f):
    @functools.wraps(f)
    def inner(*args, **kw):
        CALLS[0] += 1
        try:
            return f(*args, **kw)
        except Exception as e:
            LOG.append(("failed", f.__name__, type(e).__name__))
            raise

    return inner


@noted
def guarded(t, k=1):
    t.mul_(k)
    return t.view(2, 2).sum(0).repeat(2)


@noted
def bad(t, *rest, k=0):
    t.add_(1)
    LOG.append(k)
    return t.view(3)


def tgen(t, n):
    try:
        for i in range(n):
            got = yield t * i
            if got is not None:
                t = t + got
        return t
    finally:
        LOG.append("closed")


def safe(f, *args, **kw):
    try:
        return f(*args, **kw)
    except (RuntimeError, IndexError, TypeError, ValueError) as e:
        LOG.append(type(e).__name__)
        return args[0] if args else None


def say(e):
    return (type(e).__name__, str(e).split("\n")[0])
