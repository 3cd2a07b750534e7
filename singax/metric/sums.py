"""Exact running sums of float32 numbers, and how samples are counted.

A sum is a pair (high, low) of float32 numbers, stacked along a new first axis: what does not fit into `high` stays in
`low`. The pair holds about 48 binary digits, so that whole numbers are exact up to 2⁴⁸, with neither 64-bit arrays nor
a counter that stops at 2²⁴.

>>> import jax.numpy as jnp
>>> pair = jnp.stack([jnp.float32(2.0**24), jnp.float32(0)])
>>> float(pair[0] + 1), float(total(plus(pair, jnp.int32(1)), 64))
(16777216.0, 16777217.0)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import DTypeError, ShapeError

Array = jax.Array


def plus(pair: Array, amount: Array) -> Array:
    """The pair increased by `amount`, integers or floats."""
    amount = jnp.asarray(amount)
    coarse = amount.astype(jnp.float32)
    fine = (amount - coarse.astype(amount.dtype)).astype(jnp.float32)
    high, rest = _two_sum(pair[0], coarse)
    return jnp.stack(_two_sum(high, pair[1] + rest + fine))


def total(pair: Any, bits: int) -> Any:
    """The sum that a pair stands for: with 64 bits on the host, with 32 where the pair is."""
    if bits == 64:
        return np.asarray(pair, np.float64).sum(axis=0)
    return pair[0] + pair[1]


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b, rounded, and the rounding error (Knuth 1969)."""
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


def weights_for(weight: Any, shape: tuple[int, ...]) -> Array | None:
    """The weights of samples of `shape`, from weights for its first axes or one number; None: all count 1."""
    if weight is None:
        return None
    weight = jnp.asarray(weight)
    if jnp.issubdtype(weight.dtype, jnp.complexfloating):
        raise DTypeError(f"expected weights of real numbers. Received dtype {weight.dtype}")
    if weight.shape != shape[: weight.ndim]:
        raise ShapeError(f"expected weights for the first axes of {shape}. Received shape {weight.shape}")
    weight = weight.astype(jnp.promote_types(weight.dtype, jnp.float32))
    return jnp.broadcast_to(weight.reshape(weight.shape + (1,) * (len(shape) - weight.ndim)), shape)


def kept(weight: Array | None, ids: Array, ignore_index: int | None) -> Array | None:
    """The weights, 0 where the id is to be ignored."""
    if ignore_index is None:
        return weight
    one: Any = np.int32(1) if weight is None else weight
    return jnp.where(ids == ignore_index, jnp.zeros_like(one), one)


def counted(mask: Array, weight: Array | None) -> Array:
    """How many are true, or the weight of those that are."""
    if weight is None:
        return jnp.sum(mask, dtype=jnp.int32)
    return jnp.sum(jnp.where(mask, weight, jnp.zeros_like(weight)))


def tally(places: Array, weight: Array | None, size: int) -> Array:
    """How many samples, or which weight, fall on each of `size` places; what lies outside counts nowhere."""
    weight = jnp.ones(places.shape, jnp.int32) if weight is None else weight
    inside = jnp.where((places < 0) | (places >= size), size, places)
    return jnp.zeros(size, weight.dtype).at[inside.ravel()].add(weight.ravel(), mode="drop")


def ratio(part: Any, whole: Any, xp: Any, empty: float = float("nan")) -> Any:
    """part / whole, or `empty` where the whole is 0."""
    return xp.where(whole == 0, empty, part / xp.where(whole == 0, 1, whole))
