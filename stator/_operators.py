"""Operators that may be in graphs (config.only_allow_pt2_compliant_ops)."""

from __future__ import annotations

from typing import Any

import torch


def refusal(operator: Any, args: tuple[Any, ...]) -> str | None:
    """Why a call stays outside of graphs; None: it need not. Tensors among the arguments are None here."""
    if isinstance(operator, torch._ops.OpOverloadPacket):
        given = [torch.empty(()) if value is None else value for value in args]
        try:
            overload = torch._C._jit_resolve_packet(operator._qualified_op_name, *given)
        except RuntimeError as error:
            return f"failed to find an overload of {operator} for these arguments: {error}"
        operator = getattr(operator, overload)
    if torch.Tag.pt2_compliant_tag in operator.tags:
        return None
    return f"{operator} is not PT2 compliant"
