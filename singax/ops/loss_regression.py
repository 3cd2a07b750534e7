"""Losses of numbers against numbers. "mean" and "sum" give shape (1,), "none" one loss for each element."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from singax.errors import ShapeError
from singax.ops.loss_arguments import check_options, magnitude, reduced, wide, wide_pair
from singax.ops.operation import operation

Array = jax.Array


@operation(None)
def mse_loss(x: Array, t: Array, *, reduction: str = "mean") -> Array:
    """(x − t)² for x and t of equal shape. reduction: "mean" (over all elements, default), "sum" or "none"."""
    check_options(reduction=reduction)
    x, t = wide_pair("mse_loss", x, t)
    return reduced(jnp.square(x - t), reduction)


@operation(None)
def l1_loss(x: Array, t: Array, *, reduction: str = "mean") -> Array:
    """|x − t| for x and t of equal shape; the gradient at 0 is 0. reduction: "mean", "sum" or "none"."""
    check_options(reduction=reduction)
    x, t = wide_pair("l1_loss", x, t)
    return reduced(magnitude(x - t), reduction)


@operation(None)
def huber_loss(x: Array, t: Array, *, delta: float = 1.0, reduction: str = "mean") -> Array:
    """d² / 2 where |d| ≤ δ, else δ (|d| − δ / 2), for d = x − t of equal shapes.

    delta: δ > 0 (default 1). reduction: "mean", "sum" or "none". Huber 1964.
    """
    check_options(delta=delta, reduction=reduction)
    x, t = wide_pair("huber_loss", x, t)
    return reduced(_huber(x - t, delta), reduction)


@operation(None)
def smooth_l1_loss(x: Array, t: Array, *, beta: float = 1.0, reduction: str = "mean") -> Array:
    """d² / (2 β) where |d| < β, else |d| − β / 2, for d = x − t of equal shapes: Huber's loss divided by β.

    beta: β ≥ 0 (default 1); 0 is `l1_loss`. reduction: "mean", "sum" or "none". Girshick 2015.
    """
    check_options(beta=beta, reduction=reduction)
    x, t = wide_pair("smooth_l1_loss", x, t)
    return reduced(_huber(x - t, beta) / beta if beta else magnitude(x - t), reduction)


@operation(None)
def gaussian_nll_loss(
    x: Array, t: Array, var: Array, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Array:
    """(log v + (x − t)² / v) / 2 for means x and targets t of equal shape, v = max(var, eps).

    var: variances, of a shape that broadcasts to that of x. The gradient to `var` is that of v, so that a variance
    below eps can grow again. full: add log(2π) / 2. reduction: "mean", "sum" or "none". Nix and Weigend 1994.
    """
    check_options(full=full, eps=eps, reduction=reduction)
    x, t = wide_pair("gaussian_nll_loss", x, t)
    var = wide(var).astype(x.dtype)
    if jnp.broadcast_shapes(var.shape, x.shape) != x.shape:
        raise ShapeError(f"expected variances that broadcast to {x.shape}. Received shape {var.shape}")
    var = var + lax.stop_gradient(jnp.maximum(var, eps) - var)
    constant = math.log(2 * math.pi) if full else 0.0
    return reduced((jnp.log(var) + jnp.square(x - t) / var + constant) / 2, reduction)


@operation(None)
def poisson_nll_loss(
    x: Array, t: Array, *, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Array:
    """exp(x) − t x for logarithms x of rates and counts t of equal shape; x − t log(x + eps) for rates x.

    log_input: whether x holds logarithms (default True). full: add Stirling's approximation of log t! where t > 1.
    reduction: "mean", "sum" or "none".
    """
    check_options(log_input=log_input, full=full, eps=eps, reduction=reduction)
    x, t = wide_pair("poisson_nll_loss", x, t)
    terms = jnp.exp(x) - t * x if log_input else x - t * jnp.log(x + eps)
    if full:
        large = jnp.where(t > 1, t, 1)
        stirling = large * jnp.log(large) - large + jnp.log(2 * math.pi * large) / 2
        terms = terms + jnp.where(t > 1, stirling, 0)
    return reduced(terms, reduction)


def _huber(d: Array, delta: float) -> Array:
    size = magnitude(d)
    return jnp.where(size <= delta, jnp.square(d) / 2, delta * (size - delta / 2))
