"""What torch has under other names in some of its versions. Nothing else in this package depends on torch's version; in C++, `src/tensor/` alone does."""

import contextvars
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "has_guarding_hint":  # has_hint before torch 2.12
        from torch.fx.experimental import symbolic_shapes

        return getattr(symbolic_shapes, name, None) or symbolic_shapes.has_hint  # type: ignore[attr-defined]
    raise AttributeError(name)


def user_setting(entry: Any) -> Any:
    """A function that gives what the user has set an entry of torch's configurations to, or torch's mark for nothing.
    A context variable from torch 2.12 on, an attribute before."""
    given = entry.user_override
    return given.get if isinstance(given, contextvars.ContextVar) else lambda: entry.user_override


def inductor_with(kind: Any, mode: Any, options: Any, dynamic: Any, region: Any) -> Any:
    """torch's object for inductor with its configuration. Regions have no names before torch 2.13."""
    arguments = (mode, options, dynamic, region)
    return kind(*arguments[: kind.__init__.__code__.co_argcount - 1])


def default_backend(registry: Any) -> Any:
    """The backend that torch.compiler.set_default_backend named, from torch's registry; inductor before there was that function (2.13)."""
    return getattr(registry, "_default_backend", "inductor")


def subclass_context(parts: dict[str, Any], inner: dict[str, Any], tracks_outer: bool) -> Any:
    """What is known of the sizes of a tensor and of those that it is made of. Before torch 2.13 the outer sizes are always symbols."""
    from torch.fx.experimental import symbolic_shapes

    kind = symbolic_shapes.SubclassSymbolicContext
    if "track_outer_size_stride" in kind.__dataclass_fields__:
        return kind(**parts, inner_contexts=inner, track_outer_size_stride=tracks_outer)
    return kind(**parts, inner_contexts=inner)
