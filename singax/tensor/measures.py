"""Pure functions behind methods and module functions of Tensor that are no public operations.

Narrow floats are summed in float32.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from singax import dtypes
from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.ops.checks import floating, normal_axes, normal_axis
from singax.tensor.rules import unregistered

Array = jax.Array
Axes = tuple[int, ...]


@unregistered
def l1(x: Array) -> Array:
    """The mean of |x|."""
    return jnp.mean(jnp.abs(_accumulated(x)))


@unregistered
def l2(x: Array) -> Array:
    """The root of the sum of squares, divided by the number of elements."""
    return jnp.sqrt(jnp.sum(jnp.square(_accumulated(x)))) / jnp.size(x)


def _accumulated(x: Array) -> Array:
    x = floating(x)
    return x.astype(dtypes.float32) if x.dtype.itemsize < 4 else x


def _array(name: str, x: Any) -> Array:
    if isinstance(x, str | bytes) or x is None:
        raise DTypeError(f"{name} expected numbers. Received: {x!r}")
    return jnp.asarray(x)


@unregistered
def square(x: Array) -> Array:
    """x · x."""
    return jnp.square(x)


@unregistered
def sum(x: Array, *, axes: Axes | None) -> Array:
    """The sum over `axes`, over all if None; (1, 1) where no axis is left."""
    x = _array("sum", x)
    total = jnp.sum(x, axis=None if axes is None else normal_axes("sum", axes, x.ndim))
    return total if total.ndim else total.reshape(1, 1)


@unregistered
def average(x: Array, *, axes: Axes | None) -> Array:
    """The mean over `axes`, over all if None."""
    x = _array("average", x)
    return jnp.mean(x, axis=None if axes is None else normal_axes("average", axes, x.ndim))


@unregistered
def repeat(x: Array, *, repeats: Axes, axis: int | None) -> Array:
    """Each element, or part along `axis`, as often as `repeats` says: one number for all, or one for each."""
    x = jnp.ravel(x) if axis is None else jnp.asarray(x)
    along = normal_axis("repeat", 0 if axis is None else axis, x.ndim)
    if len(repeats) not in (1, x.shape[along]):
        raise ShapeError(f"repeat expected one number or {x.shape[along]} numbers as repeats. Received: {repeats}")
    if min(repeats, default=0) < 0:
        raise ArgumentError(f"repeat expected repeats of 0 or more. Received: {repeats}")
    counts = repeats * x.shape[along] if len(repeats) == 1 else repeats
    return jnp.repeat(x, jnp.asarray(counts, jnp.int32), axis=along, total_repeat_length=_total(counts))


def _total(counts: Axes) -> int:
    total = 0
    for count in counts:
        total += count
    return total


@unregistered
def tensordot(a: Array, b: Array, *, axes: int | tuple[Axes, Axes]) -> Array:
    """NumPy's tensordot; (1, 1) where no axis is left."""
    product = jnp.tensordot(a, b, axes=axes)
    return product if product.ndim else product.reshape(1, 1)


@unregistered
def softmax(x: Array) -> Array:
    """exp(x) normalised to sum 1 along the last axis."""
    x = floating(_array("softmax", x))
    if not x.ndim:
        raise ShapeError("softmax expected at least one axis. Received: a number")
    return jax.nn.softmax(x, axis=-1)


@unregistered
def copied_part(to: Array, source: Array, to_start: Any, source_start: Any, *, size: int) -> Array:
    """`to` with `size` elements from `source_start` of the source at `to_start`, both in row-major order."""
    part = jax.lax.dynamic_slice(jnp.ravel(source), (source_start,), (size,))
    flat = jax.lax.dynamic_update_slice(jnp.ravel(to), part.astype(to.dtype), (to_start,))
    return flat.reshape(to.shape)
