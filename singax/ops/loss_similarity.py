"""Losses that compare: scores with scores, vectors with vectors. "mean" and "sum" give shape (1,)."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from singax.errors import ShapeError
from singax.ops.checks import normal_axis
from singax.ops.loss_arguments import check_options, magnitude, reduced, wide_pair
from singax.ops.operation import operation

Array = jax.Array


@operation(None)
def ranking_loss(pos: Array, neg: Array, *, M: float = 0.2, reduction: str = "mean") -> Array:
    """max(0, M − pos + neg) for scores of equal shapes. reduction: "mean" (default), "sum" or "none"."""
    check_options(M=M, reduction=reduction)
    pos, neg = wide_pair("ranking_loss", pos, neg)
    return reduced(jax.nn.relu(M - pos + neg), reduction)


@operation(None)
def margin_ranking_loss(a: Array, b: Array, t: Array, *, margin: float = 0.0, reduction: str = "mean") -> Array:
    """max(0, margin − t (a − b)) for scores a and b and signs t of equal shapes: 1 where a is to be larger, else −1.

    margin: default 0. reduction: "mean", "sum" or "none".
    """
    check_options(margin=margin, reduction=reduction)
    a, b = wide_pair("margin_ranking_loss", a, b)
    _, t = wide_pair("margin_ranking_loss", a, t)
    return reduced(jax.nn.relu(margin - t * (a - b)), reduction)


@operation(None)
def hinge_loss(x: Array, t: Array, *, squared: bool = False, reduction: str = "mean") -> Array:
    """max(0, 1 − t x), or its square, for scores x and signs t (1 or −1) of equal shape.

    squared: default False. reduction: "mean", "sum" or "none".
    """
    check_options(squared=squared, reduction=reduction)
    x, t = wide_pair("hinge_loss", x, t)
    terms = jax.nn.relu(1 - t * x)
    return reduced(jnp.square(terms) if squared else terms, reduction)


@operation(None)
def cosine_similarity_loss(a: Array, b: Array, *, axis: int = -1, reduction: str = "mean") -> Array:
    """1 − cos(a, b) for vectors along `axis` of a and b of equal shape; the cosine with a vector of zeros is 0.

    axis: default −1. reduction: "mean", "sum" or "none": a loss for each pair of vectors.
    """
    check_options(axis=axis, reduction=reduction)
    return reduced(1 - _cosine(*wide_pair("cosine_similarity_loss", a, b), axis), reduction)


@operation(None)
def cosine_embedding_loss(a: Array, b: Array, t: Array, *, margin: float = 0.0, reduction: str = "mean") -> Array:
    """1 − cos(a, b) where t is 1, max(0, cos(a, b) − margin) where t is −1: vectors (…, D), signs (…).

    margin: from −1 to 1 (default 0). reduction: "mean", "sum" or "none".
    """
    check_options(margin=margin, reduction=reduction)
    cosine = _cosine(*wide_pair("cosine_embedding_loss", a, b), -1)
    _, t = wide_pair("cosine_embedding_loss", cosine, t)
    return reduced(jnp.where(t > 0, 1 - cosine, jax.nn.relu(cosine - margin)), reduction)


@operation(None)
def triplet_margin_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    swap: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Array:
    """max(0, margin + d(anchor, positive) − d(anchor, negative)) for vectors (…, D), d(a, b) = ‖a − b + eps‖_p.

    margin: default 1. p: the norm, at least 1 (default 2; infinity is the largest difference). swap: use the smaller of
    d(anchor, negative) and d(positive, negative) (default False). eps keeps gradients finite. reduction: "mean", "sum"
    or "none". Schroff et al. 2015; swap: Balntas et al. 2016.
    """
    check_options(margin=margin, p=p, swap=swap, eps=eps, reduction=reduction)
    anchor, positive = wide_pair("triplet_margin_loss", anchor, positive)
    _, negative = wide_pair("triplet_margin_loss", anchor, negative)
    if anchor.ndim < 1:
        raise ShapeError(f"expected vectors (…, D). Received shape {anchor.shape}")
    far = _norm(anchor - negative + eps, p)
    far = jnp.minimum(far, _norm(positive - negative + eps, p)) if swap else far
    return reduced(jax.nn.relu(margin + _norm(anchor - positive + eps, p) - far), reduction)


def _norm(d: Array, p: float) -> Array:
    if math.isinf(p):
        return jnp.max(magnitude(d), axis=-1)
    if p == 2:
        return jnp.sqrt(jnp.sum(jnp.square(d), axis=-1))
    return jnp.sum(magnitude(d) ** p, axis=-1) ** (1 / p)


def _cosine(a: Array, b: Array, axis: int) -> Array:
    axis = normal_axis("cosine", axis, a.ndim)
    return jnp.sum(_unit(a, axis) * _unit(b, axis), axis=axis)


def _unit(x: Array, axis: int) -> Array:
    """Vectors divided by their lengths, zeros left as they are; no square overflows or vanishes."""
    largest = lax.stop_gradient(jnp.max(jnp.abs(x), axis=axis, keepdims=True, initial=0))
    x = x / jnp.where(largest == 0, 1, largest)
    square = jnp.sum(jnp.square(x), axis=axis, keepdims=True)
    return x * lax.rsqrt(jnp.where(square == 0, 1, square))
