"""Operations that ask which elements are the largest or smallest."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.errors import ShapeError
from singax.ops.checks import normal_axis
from singax.ops.operation import operation

Array = jax.Array


def _attributes(keywords: dict[str, Any]) -> dict[str, Any]:
    return {
        "axis": keywords.get("axis", -1),
        "keepdims": int(keywords.get("keepdims", False)),
        "select_last_index": int(keywords.get("last", False)),
    }


@operation("ArgMax", attributes=_attributes)
def argmax(x: Array, *, axis: int = -1, keepdims: bool = False, last: bool = False) -> Array:
    """Where the largest element along `axis` is, int32: of equal ones the first, or the last one if `last`."""
    return _extreme("argmax", jnp.argmax, x, axis, keepdims, last)


@operation("ArgMin", attributes=_attributes)
def argmin(x: Array, *, axis: int = -1, keepdims: bool = False, last: bool = False) -> Array:
    """Where the smallest element along `axis` is, int32: of equal ones the first, or the last one if `last`."""
    return _extreme("argmin", jnp.argmin, x, axis, keepdims, last)


def _extreme(name: str, find: Any, x: Array, axis: int, keepdims: bool, last: bool) -> Array:
    along = normal_axis(name, axis, jnp.ndim(x))
    places = find(jnp.flip(x, along) if last else x, axis=along, keepdims=bool(keepdims))
    return (jnp.shape(x)[along] - 1 - places if last else places).astype(jnp.int32)


@operation(
    "TopK",
    attributes=lambda k: {"axis": k.get("axis", -1), "largest": int(k.get("largest", True))},
    constants=lambda k: [np.asarray([k["k"]], np.int64)],
)
def topk(x: Array, *, k: int, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """The k largest (or smallest) elements along `axis`, in order, and where they are, int32; of equal ones the first.

    Gradients reach the chosen elements.
    """
    along = normal_axis("topk", axis, jnp.ndim(x))
    if not 0 <= k <= jnp.shape(x)[along]:
        raise ShapeError(f"topk expected a k from 0 to {jnp.shape(x)[along]}, the size of axis {axis}. Received: {k}")
    x = jnp.asarray(x)
    keys = lax.stop_gradient(jnp.moveaxis(x.astype(jnp.uint8) if x.dtype == jnp.bool_ else x, along, -1))
    places = jnp.moveaxis(lax.top_k(keys if largest else _reversed(keys), k)[1], -1, along)
    return jnp.take_along_axis(x, places, axis=along), places


def _reversed(x: Array) -> Array:
    """Values in the opposite order: −x for floats; ~x for integers, where −x may overflow."""
    return -x if jnp.issubdtype(x.dtype, jnp.floating) else ~x
