"""torch's operator for checkpoints, where a graph is run as it was captured."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.checkpoint import checkpoint


def run(module: Any, *args: Any, **options: Any) -> Any:
    """What is computed again for the backward draws the same random numbers; torch's operator leaves that to who traces it."""
    if torch._C._len_torch_dispatch_stack() > 0:
        return torch.ops.higher_order.tag_activation_checkpoint(module, *args, **options)
    options["use_reentrant"] = False
    context_fn = module.meta.get("_checkpoint_context_fn")
    if context_fn is not None:
        options["context_fn"] = context_fn
    return checkpoint(module, *args, **options)
