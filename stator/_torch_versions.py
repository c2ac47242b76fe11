"""What torch has under other names in some of its versions. Nothing else in this package depends on torch's version; in C++, `src/tensor/` alone does."""

from torch.fx.experimental import symbolic_shapes

# has_hint before torch 2.12
has_guarding_hint = getattr(symbolic_shapes, "has_guarding_hint", None) or symbolic_shapes.has_hint
