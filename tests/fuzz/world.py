"""What the programs of wild.py find around them: classes, functions, a log, two modules; and how all of it is set back before a run."""

# ruff: noqa: F401
from __future__ import annotations

import abc
import bisect
import collections
import collections.abc
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import heapq
import inspect
import itertools
import json
import math
import operator
import pickle
import random
import re
import struct
import sys
import threading
import types
import typing
import warnings
import weakref
from decimal import Decimal

import numpy as np
import torch
import torch.nn.utils.parametrizations
import torch.nn.utils.parametrize

from tests.python.programs import Case  # noqa: F401

LOG = []
TOTALS = []
TOTAL = 0
SHARED = {}
LIN = torch.nn.Linear(4, 4)
BUF = torch.zeros(4)
counter = itertools.count()
Point = collections.namedtuple("Point", "a b")
Generic = typing.Generic[typing.TypeVar("T")]


class Oops(Exception):
    pass


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Flags(enum.Flag):
    A = 1
    B = 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.seen.add_(1)
        return self.lin(x).relu()


NET = Net()


class Note:
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        LOG.append("enter " + self.name)
        return self

    def __exit__(self, kind, error, trace):
        LOG.append(("exit", self.name, kind.__name__ if kind else None))
        return self.swallow and kind is Oops


@contextlib.contextmanager
def noted(name):
    LOG.append("begin " + name)
    try:
        yield len(name)
    finally:
        LOG.append("end " + name)


class Meta(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return len(name)

    def __len__(cls):
        return 2


class Mixin:
    k = 5

    def run(self, v):
        return super().run(v) - 1


class Base:
    total = 0
    seen = []

    def __init__(self, t=None, n=1):
        self.t, self.n = t, n

    def run(self, v):
        return v * 2


class Slotted:
    __slots__ = ("t", "n", "__weakref__")

    def __init__(self, t, n):
        self.t, self.n = t, n

    def run(self, v):
        return v + self.n


class Dying:
    def __init__(self, n):
        self.n = n

    def __del__(self):
        LOG.append(("del", self.n))


class Mapping(dict):
    def __missing__(self, key):
        return key

    def __delitem__(self, key):
        LOG.append(("del", key))
        super().__delitem__(key)


class Callable:
    total = 0

    def __init__(self, n):
        self.n = n

    def __call__(self, t):
        self.n += 1
        return t + self.n


@dataclasses.dataclass
class Record:
    t: object
    n: int = 1

    def run(self, v):
        return v + self.n


def deco(f):
    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        LOG.append(f.__name__)
        return f(*args, **kwargs)

    return wrapped


@deco
def decorated(t):
    return t + 1


@functools.lru_cache(maxsize=None)
def table(n):
    return n + 1


def cached(t):
    return t + table(3)


def pos2(a, b=0, /, c=0):
    return (a, b, c)


def star(*args, k=1, **more):
    return sum(args) * k


def gen(n):
    try:
        for i in range(n):
            yield i
        return "end"
    finally:
        LOG.append("gen closed")


def tgen(t, n):
    for i in range(n):
        t = t + i
        yield t


def rec(t, n):
    return t if n <= 0 else rec(t + n, n - 1)


def await_free(n):
    async def co():
        return n

    c = co()
    try:
        c.send(None)
    except StopIteration as e:
        LOG.append(e.value)


def restore(namespace, kept):
    """Sets back what programs change: the world, and the namespace of a program with its classes."""
    namespace.update(TOTAL=0, BUF=torch.zeros(4), counter=itertools.count(), helper=namespace["kept_helper"])
    if LIN.bias is None:
        LIN.bias = torch.nn.Parameter(torch.ones(4))
    NET.train()
    NET.lin._forward_hooks.clear()
    with torch.no_grad():
        for lin in (LIN, NET.lin):
            lin.weight.copy_(torch.eye(4) * 0.5)
            lin.bias.fill_(0.25)
            lin.weight.grad = lin.bias.grad = None
        NET.seen.zero_()
    NET.calls = 0
    table.cache_clear()
    for cls, before in kept:
        for name in list(vars(cls)):
            if name not in before and not name.startswith("__"):
                type.__delattr__(cls, name)
        for name, value in before.items():
            if vars(cls).get(name) is not value and name not in ("__dict__", "__weakref__"):
                type.__setattr__(cls, name, value)
        if isinstance(vars(cls).get("seen"), list):
            cls.seen = before["seen"] = []
    SHARED.clear()
    TOTALS.clear()
    LOG.clear()


def keep(*classes):
    return [(cls, dict(vars(cls))) for cls in (*classes, Base, Callable, Record)]
