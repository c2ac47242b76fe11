"""The launch of a Triton kernel. Loaded when a program launches one."""

from stator import _kernels, _switches

launch = _switches.allow_in_graph(_kernels.launch)


def run(kernel, *args, grid, warmup, **kwargs):
    # A grid that is a function gets the arguments by their names.
    if callable(grid):
        grid = grid({**dict(zip(kernel.arg_names, args)), **kwargs})
    if not isinstance(grid, tuple):
        grid = tuple(grid)
    launch(_kernels.number_of(kernel), grid, args, kwargs)
