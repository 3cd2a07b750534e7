"""Dropout."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from singax.errors import ArgumentError
from singax.ops.operation import operation

Array = jax.Array


@operation("Dropout")
def dropout(x: Array, key: Array, *, ratio: float = 0.5) -> Array:
    """Each element is 0 with probability `ratio`, else divided by 1 − ratio (Srivastava et al. 2014).

    `key` is a typed JAX random key: the same key draws the same mask. ratio lies in [0, 1).
    """
    if not 0 <= ratio < 1:
        raise ArgumentError(f"ratio must be at least 0 and below 1. Received: {ratio!r}")
    kept = jax.random.bernoulli(key, 1 - ratio, x.shape)
    return jnp.where(kept, x / (1 - ratio), jnp.zeros_like(x))
