"""Small programs with a graph break in each place where one hurts, for break_table.py.

The break is `opaque()`, a C function that no front end may run during capture; it gives no tensor
and changes nothing, so results do not depend on where graphs end.
"""

from __future__ import annotations

import contextlib
import os

opaque = os.getpid


@contextlib.contextmanager
def _managed():
    yield


def plain(x):
    y = x + 1
    opaque()
    return y * 2


def inside_with(x):
    x = x + 1
    with _managed():
        x = x * 2
        opaque()
        x = x + 3
    return x * 4


def inside_try_finally(x):
    x = x + 1
    try:
        x = x * 2
        opaque()
        x = x + 3
    finally:
        x = x - 1
    return x * 4


def inside_except(x):
    x = x + 1
    try:
        raise ValueError("wanted")
    except ValueError:
        x = x * 2
        opaque()
        x = x + 3
    return x * 4


def inside_for(x):
    for _ in range(4):
        x = x + 1
        opaque()
        x = x * 2
    return x


def inside_while(x):
    turns = 0
    while turns < 4:
        x = x + 1
        opaque()
        x = x * 2
        turns += 1
    return x


def _shifted(x):
    for shift in range(3):
        y = x + shift
        opaque()
        yield y * 2


def inside_generator(x):
    return sum_of(_shifted(x))


def sum_of(parts):
    total = None
    for part in parts:
        total = part if total is None else total + part
    return total


def _scaled(x, factor):
    y = x * factor
    opaque()
    return y + 1


def inside_comprehension(x):
    x = x + 1
    parts = [_scaled(x, factor) for factor in (1, 2, 3)]
    return parts[0] + parts[1]


def inside_comprehension_body(x):
    x = x + 1
    parts = [x * min(opaque(), factor) + 1 for factor in (1, 2, 3)]
    return parts[0] + parts[1]


def _inner(x):
    y = x + 1
    opaque()
    return y * 2


def _outer(x):
    y = x - 1
    return _inner(y) + 3


def two_calls_deep(x):
    y = x * 5
    return _outer(y) - 2


def data_dependent_if(x):
    y = x + 1
    if y.sum() > 0:
        y = y * 2
    else:
        y = y - 2
    return y + 3


def in_sort_key(x):
    def key(number):
        opaque()
        return -number

    order = sorted((1, 2, 3), key=key)
    return x * order[0] + 1


def in_print(x):
    y = x + 1
    print(end="")
    return y * 2


PROGRAMS = {
    "between two statements": plain,
    "body of with": inside_with,
    "try/finally": inside_try_finally,
    "except handler": inside_except,
    "for loop": inside_for,
    "while loop": inside_while,
    "generator": inside_generator,
    "comprehension": inside_comprehension_body,
    "callee in a comprehension": inside_comprehension,
    "two calls deep": two_calls_deep,
    "if on tensor data": data_dependent_if,
    "sorted(key=...)": in_sort_key,
    "print": in_print,
}
