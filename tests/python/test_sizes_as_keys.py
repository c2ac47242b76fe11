"""Sizes that are symbols, where the program needs the number itself: in keys, elements and texts. They are fixed there,
and nothing breaks."""

from __future__ import annotations

import functools

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


class _Recipe:
    def __init__(self, factor):
        self.factor = factor


@functools.lru_cache(maxsize=256)
def _new_shape(recipe, shape, extra):
    rows, columns = shape
    return [columns // recipe.factor, rows * recipe.factor, *extra]


@functools.lru_cache(maxsize=256)
def _recipe(factor):
    return _Recipe(factor)


_asked = []


@functools.lru_cache(maxsize=256)
def _noted(n):
    _asked.append(int(n))
    return n + 1


def cached_shapes(x):
    return x.reshape(_new_shape(_recipe(2), tuple(x.shape), ())) + 1


def of_a_new_object(x):
    return x.reshape(_new_shape(_Recipe(2), x.shape, ())) + 1


def cached_effects(x):
    return x * _noted(x.size(0)) + 1


@pytest.mark.skipif(stator.config.break_every != "0", reason="forced breaks change what is captured")
@pytest.mark.parametrize("program", [cached_shapes, of_a_new_object])
@pytest.mark.parametrize("warm", [False, True])
def test_behind_a_cache_sizes_stay_symbols(program, warm):
    """One graph, then one for all sizes: what a cache holds for a number is no fact about a symbol."""
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    _new_shape.cache_clear(), _recipe.cache_clear()
    stator.reset()
    compiled = stator.compile(program, backend=backend)
    counts = []
    for rows in (2, 3, 5, 7, 4):
        x = torch.randn(rows, 4)
        wanted = program(x) if warm else None
        got = compiled(x)
        torch.testing.assert_close(got, program(x) if wanted is None else wanted)
        counts.append(len(graphs))
    assert counts == [1, 2, 2, 2, 2]


def test_cached_effects_happen_once():
    stator.reset()
    results = []
    for run in (cached_effects, stator.compile(cached_effects, backend="eager")):
        _noted.cache_clear()
        _asked.clear()
        outputs = [run(torch.ones(rows, 2)) for rows in (2, 3, 5, 3, 2)]
        results.append((outputs, list(_asked)))
    (wanted, asked), (got, asked_too) = results
    torch.testing.assert_close(got, wanted)
    assert asked_too == asked == [2, 3, 5]
