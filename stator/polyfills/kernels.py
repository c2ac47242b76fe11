"""The launch of a Triton kernel. Loaded when a program launches one."""

from stator import _kernels, _switches

launch = _switches.allow_in_graph(_kernels.launch)


def size_of(grid, named):
    # A grid that is a function gets the arguments by their names.
    if callable(grid):
        grid = grid(named)
    return grid if isinstance(grid, tuple) else tuple(grid)


def run(kernel, *args, grid, warmup, **kwargs):
    named = {**dict(zip(kernel.arg_names, args)), **kwargs}
    chosen = _kernels.configurations(kernel)
    if callable(grid) and chosen:
        # Which configuration is the fastest is found out later.
        sizes = [size_of(grid, {**named, **dict(given)}) for given in chosen]
    else:
        sizes = size_of(grid, named)
    launch(_kernels.number_of(kernel), sizes, args, kwargs)
