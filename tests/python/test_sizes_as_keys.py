"""Sizes that are symbols, where the program needs the number itself: in keys, elements and texts. They are fixed there, and nothing breaks."""

from __future__ import annotations

import pytest
import torch

import stator


def shape_as_key(x, seen, n):
    if x.shape not in seen:
        seen[x.shape] = x + 1
    return x + seen[x.shape]


def sizes_in_tuples(x, seen, n):
    seen[x.shape[0], "rows"] = n
    seen[(x.shape[1:], n)] = {x.shape[0]: x.shape}
    return x + 1, (3, "rows") in seen, seen.get((x.shape[0], "rows"))


def elements_of_sets(x, seen, n):
    found = {n}
    found.update(map(int, [n, n + 1]))
    found.add(n * 2)
    found.discard(n + 1)
    found.add(x.shape)
    found.remove(n)
    return x + n, found, frozenset([x.shape[1:], n]), dict.fromkeys([n, x.shape])


def hash_of_a_shape(x, seen, n):
    return x + 1, hash(x.shape) == hash(tuple(x.shape)), len({x.shape, x.size(), tuple(x.shape)})


def texts_of_shapes(x, seen, n):
    shown = (
        f"{x.shape} {x.shape[-1:]!r} {n}",
        str(x.shape),
        "%s" % (x.shape,),
        "{}".format(x.size()),
        repr([x.shape, n]),
    )  # noqa: UP031, UP032
    return x + 1, shown


@pytest.mark.parametrize("program", [shape_as_key, sizes_in_tuples, elements_of_sets, hash_of_a_shape, texts_of_shapes])
def test_numbers_are_fixed(program):
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    with stator.config.patch(assume_static_by_default=False, specialize_int=False):
        compiled = stator.compile(program, backend=backend, fullgraph=True, dynamic=True)
        for rows, n in [(3, 5), (4, 6), (3, 5)]:
            mine, eagers = {}, {}
            x = torch.arange(rows * 4.0).reshape(rows, 4)
            got, wanted = compiled(x, mine, n), program(x.clone(), eagers, n)
            assert repr(got) == repr(wanted)
            assert repr(mine) == repr(eagers)
    assert graphs
