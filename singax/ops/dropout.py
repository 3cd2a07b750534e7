"""Dropout: of elements, of whole channels, and the one that keeps what SELU normalises."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from singax.errors import ArgumentError
from singax.ops.activation import SELU_ALPHA, SELU_GAMMA
from singax.ops.arithmetic import mul
from singax.ops.operation import operation
from singax.ops.window import check_channels, check_floating

Array = jax.Array


@operation("Dropout")
def dropout(x: Array, key: Array, *, ratio: float = 0.5) -> Array:
    """Each element is 0 with probability `ratio`, else divided by 1 − ratio (Srivastava et al. 2014).

    `key` is a typed JAX random key: the same key draws the same mask. ratio lies in [0, 1).
    """
    return jnp.where(_kept(key, ratio, jnp.shape(x)), x / (1 - ratio), jnp.zeros_like(x))


def channel_dropout(x: Array, key: Array, *, ratio: float = 0.5) -> Array:
    """Each channel of a sample of x (N, C, …) is 0 with probability `ratio`, else divided by 1 − ratio.

    See `dropout` (Tompson et al. 2015).
    """
    check_channels("channel_dropout", x, 2)
    ones = jnp.ones((*x.shape[:2], *(1,) * (x.ndim - 2)), x.dtype)
    return mul(x, dropout(ones, key, ratio=ratio))


@operation(None)
def alpha_dropout(x: Array, key: Array, *, ratio: float = 0.5) -> Array:
    """Each element becomes −γ α of `selu` with probability `ratio`; then all are scaled and shifted.

    Mean 0 and variance 1 are kept (Klambauer et al. 2017). `key` and ratio as in `dropout`.
    """
    check_floating("alpha_dropout", x)
    kept = _kept(key, ratio, jnp.shape(x))
    low = -SELU_ALPHA * SELU_GAMMA
    scale = 1 / math.sqrt((1 - ratio) * (1 + ratio * low**2))
    return scale * jnp.where(kept, x, jnp.asarray(low, x.dtype)) - scale * ratio * low


def _kept(key: Array, ratio: Any, shape: tuple[int, ...]) -> Array:
    if not 0 <= ratio < 1:
        raise ArgumentError(f"ratio must be at least 0 and below 1. Received: {ratio!r}")
    return jax.random.bernoulli(key, 1 - ratio, shape)
