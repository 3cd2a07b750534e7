"""Operations that move elements around without changing them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import int64s, normal_axes, normal_axis, one_per_axis
from singax.ops.explain import named_in_errors
from singax.ops.operation import operation

Array = jax.Array


@operation(
    "Reshape",
    attributes=lambda k: {"allowzero": 1} if k.get("allowzero") else {},
    constants=lambda k: [int64s(k["shape"])],
)
def reshape(x: Array, *, shape: tuple[int, ...], allowzero: bool = False) -> Array:
    """The same elements in row-major order with another shape; one size may be −1, 0 copies the input's size.

    With `allowzero` 0 is a size of 0.
    """
    copies = [size == 0 and i < x.ndim and not allowzero for i, size in enumerate(shape)]
    sizes = tuple(x.shape[i] if copied else shape[i] for i, copied in enumerate(copies))
    known = math.prod(size for size in sizes if size != -1)
    fits = known > 0 and x.size % known == 0 if -1 in sizes else known == x.size
    if sizes.count(-1) > 1 or min(sizes, default=0) < -1 or not fits:
        raise ShapeError(f"reshape expected a shape of {x.size} elements, like {x.shape}. Received: {shape}")
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
    if not len(xs):
        raise ArgumentError("cat expected at least one array. Received none")
    shapes = [jnp.shape(x) for x in xs]
    along = normal_axis("cat", axis, len(shapes[0]))
    if len({(*s[:along], *s[along + 1 :]) for s in shapes}) > 1 or len({len(s) for s in shapes}) > 1:
        received = ", ".join(map(str, shapes))
        raise ShapeError(f"cat expected shapes that are equal but for axis {axis}. Received: {received}")
    return jnp.concatenate(list(xs), axis=axis)


@operation("Gather")
def lookup(table: Array, ids: Array) -> Array:
    """Rows of `table` (V, D) for `ids` of any shape: see `embedding`, which has the arguments in SINGA's order."""
    if jnp.ndim(table) != 2 or jnp.result_type(ids) == jnp.bool_:
        raise ShapeError(
            "lookup expected ids of integers and a table (V, D). "
            f"Received: ids {jnp.result_type(ids)}{list(jnp.shape(ids))} and a table of shape {jnp.shape(table)}"
        )
    return jnp.take(table, jnp.asarray(ids).astype(jnp.int32), axis=0)


@named_in_errors
def embedding(ids: Array, table: Array) -> Array:
    """Rows of `table` (V, D) for `ids` of any shape: (…) → (…, D).

    Ids of floats are cut off to integers. Negative ids count from the end; those outside the table give nan.
    """
    return lookup(table, ids)


@operation("Squeeze", constants=lambda k: [int64s(k.get("axes"))])
def squeeze(x: Array, *, axes: tuple[int, ...] | None = None) -> Array:
    """Axes of size 1 removed: `axes`, or all there are if None."""
    if axes is None:
        return jnp.squeeze(x)
    found = normal_axes("squeeze", axes, jnp.ndim(x))
    if any(jnp.shape(x)[axis] != 1 for axis in found):
        raise ShapeError(f"squeeze expected axes of size 1. Received: axes {axes} of shape {jnp.shape(x)}")
    return jnp.squeeze(x, found)


@operation("Unsqueeze", constants=lambda k: [int64s(k["axes"])])
def unsqueeze(x: Array, *, axes: tuple[int, ...]) -> Array:
    """New axes of size 1; `axes` says where they are in the result."""
    return jnp.expand_dims(x, normal_axes("unsqueeze", axes, jnp.ndim(x) + len(axes)))


@operation("Split", attributes={"axis": "axis"}, constants=lambda k: [int64s(k["parts"])])
def split(x: Array, *, axis: int = 0, parts: tuple[int, ...]) -> tuple[Array, ...]:
    """Pieces of sizes `parts` along `axis`."""
    size = jnp.shape(x)[normal_axis("split", axis, jnp.ndim(x))]
    if not parts or min(parts) < 0 or sum(parts) != size:
        raise ShapeError(f"split expected parts that add up to {size}, the size of axis {axis}. Received: {parts}")
    return tuple(jnp.split(x, np.cumsum(parts[:-1]), axis=axis))


@operation("Tile", constants=lambda k: [int64s(k["repeats"])])
def tile(x: Array, *, repeats: tuple[int, ...]) -> Array:
    """x repeated along each axis."""
    one_per_axis("tile", "a number of repeats", repeats, jnp.ndim(x))
    if any(count < 0 for count in repeats):
        raise ArgumentError(f"tile expected repeats of 0 or more. Received: {repeats}")
    return jnp.tile(x, repeats)


@operation("Expand", constants=lambda k: [int64s(k["shape"])])
def expand(x: Array, *, shape: tuple[int, ...]) -> Array:
    """x broadcast together with an array of this shape."""
    try:
        return jnp.broadcast_to(x, np.broadcast_shapes(jnp.shape(x), shape))
    except ValueError:
        raise ShapeError(f"expand expected a shape that {jnp.shape(x)} broadcasts with. Received: {shape}") from None


@operation("Shape")
def shape(x: Array) -> Array:
    """The sizes of x as int32 (ndim,)."""
    return jnp.asarray(jnp.shape(x), jnp.int32)
