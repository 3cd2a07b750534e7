"""Declared inputs and outputs: names, kinds, dtypes, shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from singax.sonnx.importer.graph import ValueInfo
from singax.sonnx.loader.elements import element_of
from singax.sonnx.loader.refusal import refuse, shown

_KINDS = ("tensor", "sequence", "map", "optional", "sparse_tensor", "opaque")

Shape = tuple[int | str | None, ...] | None


def value_info(raw: Any, where: str) -> ValueInfo:
    """An input or output. Its kind nests as its type does, as in "optional(sequence(tensor))"; dtype and shape are
    those of the tensors inside; a value without a type is a tensor about which nothing is known.
    """
    if not raw.name:
        refuse(where, "name", "a name", "none")
    if raw.type is None:
        return ValueInfo(raw.name, None, None)
    kind, dtype, shape = described_type(raw.type, f"{where} {shown(raw.name)}")
    return ValueInfo(raw.name, dtype, shape, kind)


def described_type(raw: Any, where: str) -> tuple[str, np.dtype | None, Shape]:
    """Kind, dtype and shape of a type."""
    given = [kind for kind in _KINDS if getattr(raw, kind) is not None]
    if len(given) > 1:
        refuse(where, "type", "one type", f"{' and '.join(given)}")
    if not given:
        return "tensor", None, None
    kind, value = given[0], getattr(raw, given[0])
    if kind in ("tensor", "sparse_tensor"):
        return kind, element_of(value.elem_type, where).dtype, _shape(value.shape, where)
    if kind == "opaque":
        return kind, None, None
    if kind == "map":
        element_of(value.key_type, where, "key type")
    inner = value.value_type if kind == "map" else value.elem_type
    if inner is None:
        refuse(where, "type", f"the type of what the {kind} holds", "none")
    held, dtype, shape = described_type(inner, where)
    return f"{kind}({held})", dtype, shape


def _shape(raw: Any, where: str) -> Shape:
    return None if raw is None else tuple(_size(dim, where) for dim in raw.dim)


def _size(dim: Any, where: str) -> int | str | None:
    """A size, the name of a free one, or None; −1 is what some writers say for a free one."""
    if dim.dim_value is not None and dim.dim_param is not None:
        refuse(where, "shape", "a size or a name", f"{dim.dim_value} and {shown(dim.dim_param)}")
    if dim.dim_value is not None and dim.dim_value < -1:
        refuse(where, "shape", "no negative size", str(dim.dim_value))
    if dim.dim_value is not None:
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None
