"""What torch has under other names in some of its versions. Nothing else in this package depends on torch's version; in C++, `src/tensor/` alone does."""

from typing import Any

from torch.fx.experimental import symbolic_shapes

# has_hint before torch 2.12
has_guarding_hint = getattr(symbolic_shapes, "has_guarding_hint", None) or symbolic_shapes.has_hint


def inductor_with(kind: Any, mode: Any, options: Any, dynamic: Any, region: Any) -> Any:
    """torch's object for inductor with its configuration. Regions have no names before torch 2.13."""
    arguments = (mode, options, dynamic, region)
    return kind(*arguments[: kind.__init__.__code__.co_argcount - 1])
