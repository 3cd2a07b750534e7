"""Losses. Each returns shape (1,), as in SINGA, so that `to_numpy(loss)[0]` works."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from singax.errors import ShapeError
from singax.ops.checks import same_shape
from singax.ops.operation import operation

Array = jax.Array


@operation(None)
def softmax_cross_entropy(x: Array, t: Array) -> Array:
    """The mean over the batch of −Σ p log softmax(x).

    x: logits (N, C). t: class ids, any numeric dtype, (N,) or (N, 1); or one row of weights per sample, (N, C), which
    is divided by its sum. Returns shape (1,). When C = 1 a target of N elements is read as class ids.
    """
    if x.ndim != 2 or t.ndim > 2 or t.size not in (x.shape[0], x.size) or (t.ndim and t.shape[0] != x.shape[0]):
        raise ShapeError(
            f"expected logits (N, C) with targets (N,), (N, 1) or (N, C). Received: {x.shape} and {t.shape}"
        )
    logs = jax.nn.log_softmax(x.astype(jnp.promote_types(x.dtype, jnp.float32)), axis=-1)
    if t.size == x.shape[0]:
        picked = jnp.take_along_axis(logs, t.reshape(-1, 1).astype(jnp.int32), axis=-1)
        return -jnp.mean(picked).reshape(1)
    weights = t.astype(logs.dtype)
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
    return -jnp.mean(jnp.sum(weights * logs, axis=-1)).reshape(1)


@operation(None)
def mse_loss(x: Array, t: Array) -> Array:
    """The mean over all elements of (x − t)². x and t have equal shapes; returns shape (1,)."""
    if x.shape != t.shape:
        raise ShapeError(f"expected equal shapes. Received: {x.shape} and {t.shape}")
    return jnp.mean(jnp.square(x - t.astype(x.dtype))).reshape(1)


@operation(None)
def binary_cross_entropy(x: Array, t: Array) -> Array:
    """−Σ (t log(x + 1e-4) + (1 − t) log(1 − x + 1e-4)) / N for probabilities x and targets t of equal shape (N, …).

    Returns shape (1,). The 1e-4 inside the logarithms is SINGA's.
    """
    if x.shape != t.shape:
        raise ShapeError(f"expected equal shapes. Received: {x.shape} and {t.shape}")
    targets = t.astype(x.dtype)
    terms = targets * jnp.log(x + 1e-4) + (1 - targets) * jnp.log(1 - x + 1e-4)
    return (-jnp.sum(terms) / x.shape[0]).reshape(1)


@operation(None)
def cross_entropy(x: Array, t: Array) -> Array:
    """−Σ t log x / N for probabilities x and targets t of equal shape (N, C); where t is 0, x does not matter.

    Returns shape (1,).
    """
    same_shape("cross_entropy", x, t)
    if x.ndim < 1:
        raise ShapeError(f"cross_entropy expected probabilities (N, C). Received shape {x.shape}")
    targets = t.astype(x.dtype)
    logs = jnp.log(jnp.where(targets == 0, 1, x))
    return (-jnp.sum(targets * logs) / x.shape[0]).reshape(1)


@operation(None)
def ranking_loss(pos: Array, neg: Array, *, M: float = 0.2) -> Array:
    """The mean of max(0, M − pos + neg) for scores of equal shapes; returns shape (1,)."""
    same_shape("ranking_loss", pos, neg)
    return jnp.mean(jax.nn.relu(M - pos + neg)).reshape(1)
