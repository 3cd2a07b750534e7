"""Operations that move elements around without changing them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from singax.errors import ShapeError
from singax.ops.operation import operation

Array = jax.Array


@operation("Reshape")
def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    """The same elements in row-major order with another shape; one size may be −1, 0 copies the input's size."""
    sizes = tuple(x.shape[i] if size == 0 and i < x.ndim else size for i, size in enumerate(shape))
    return jnp.reshape(x, sizes)


@operation("Transpose", attributes={"perm": "perm"})
def transpose(x: Array, *, perm: tuple[int, ...]) -> Array:
    """Axes permuted: axis i of the result is axis perm[i] of x."""
    if sorted(perm) != list(range(x.ndim)):
        raise ShapeError(f"perm must be a permutation of 0 … {x.ndim - 1}. Received: {perm} for shape {x.shape}")
    return jnp.transpose(x, perm)


@operation("Flatten", attributes={"axis": "axis"})
def flatten(x: Array, *, axis: int = 1) -> Array:
    """A matrix: the axes before `axis` become rows, the others columns."""
    if not -x.ndim <= axis <= x.ndim:
        raise ShapeError(f"axis must lie between {-x.ndim} and {x.ndim}. Received: {axis} for shape {x.shape}")
    split = axis if axis >= 0 else axis + x.ndim
    return jnp.reshape(x, (math.prod(x.shape[:split]), math.prod(x.shape[split:])))


@operation("Concat", attributes={"axis": "axis"})
def cat(xs: Sequence[Array], *, axis: int = 0) -> Array:
    """The arrays `xs` joined along an existing axis."""
    return jnp.concatenate(list(xs), axis=axis)


@operation("Gather")
def embedding(ids: Array, table: Array) -> Array:
    """Rows of `table` (V, D) for integer `ids` of any shape: (…) → (…, D)."""
    return jnp.take(table, ids.astype(jnp.int32), axis=0)
