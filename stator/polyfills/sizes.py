"""Functions of torch's over sizes, which need no place in a graph."""

from collections.abc import Sequence

import torch


def broadcast_shapes(*shapes):
    shapes = [(shape,) if isinstance(shape, int) else shape for shape in shapes if shape is not None]
    for shape in shapes:
        if not isinstance(shape, (tuple, list, Sequence)):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}")
    common = [1] * max([len(shape) for shape in shapes], default=0)
    for number, shape in enumerate(shapes):
        for place in range(-1, -1 - len(shape), -1):
            size = shape[place]
            if size == common[place]:
                continue
            if common[place] == 1:
                if size < 0:
                    raise ValueError("Attempting to broadcast a dimension with negative length!")
                common[place] = size
            elif size != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {size} at {place}! Mismatching argument at index "
                    f"{number} had {shape}; but expected shape should be broadcastable to {common}"
                )
    return torch.Size(common)
