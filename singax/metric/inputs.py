"""From outputs and targets to class ids."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from singax.errors import DTypeError, ShapeError
from singax.ops.checks import normal_axis

Array = jax.Array


def as_ids(values: Array) -> Array:
    """Class ids as integers; what is negative or no id stays outside of 0 … C − 1."""
    if jnp.issubdtype(values.dtype, jnp.complexfloating):
        raise DTypeError(f"expected real numbers. Received dtype {values.dtype}")
    return values if values.dtype == jnp.int64 else values.astype(jnp.int32)


def target_ids(out: Array, y: Array, axis: int) -> Array:
    """Ids of the right classes: y without the class axis of `out`, with 1 there, or one-hot like `out`."""
    axis = normal_axis("a metric", axis, out.ndim)
    without = (*out.shape[:axis], *out.shape[axis + 1 :])
    if y.shape == without:
        return as_ids(y)
    if y.shape == (*out.shape[:axis], 1, *out.shape[axis + 1 :]):
        return as_ids(jnp.squeeze(y, axis))
    if y.shape == out.shape and out.ndim > 1:
        return jnp.argmax(_real(y), axis=axis)
    raise ShapeError(
        f"expected outputs with classes along axis {axis} and targets without that axis, with 1 there, or one-hot. "
        f"Received: {out.shape} and {y.shape}"
    )


def predicted_and_right(out: Array, y: Array, axis: int, threshold: float | None) -> tuple[Array, Array]:
    """(predicted ids, right ids): of ids, of binary scores if there is a threshold, or of scores for each class."""
    if threshold is not None:
        score, right = binary(out, y)
        return (score > threshold).astype(jnp.int32), right
    if out.shape == y.shape and not jnp.issubdtype(out.dtype, jnp.inexact):
        return as_ids(out), as_ids(y)
    right = target_ids(out, y, axis)
    if out.shape[axis] == 1:
        raise ShapeError(f"expected a score for each of several classes, or a threshold. Received: {out.shape}")
    return jnp.argmax(_real(out), axis=axis), right


def binary(out: Array, y: Array) -> tuple[Array, Array]:
    """(scores of class 1, ids) of equal shape; a last axis of size 1 may be missing on either side."""
    if out.ndim == y.ndim + 1 and out.shape[-1] == 1:
        out = out[..., 0]
    elif y.ndim == out.ndim + 1 and y.shape[-1] == 1:
        y = y[..., 0]
    if out.shape != y.shape:
        raise ShapeError(f"expected binary scores and targets of equal shape. Received: {out.shape} and {y.shape}")
    return _real(out), as_ids(y)


def _real(x: Array) -> Array:
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise DTypeError(f"expected real numbers. Received dtype {x.dtype}")
    return x
