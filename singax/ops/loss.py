"""Losses of probabilities, of log-probabilities and of binary logits.

As in SINGA a loss has shape (1,), so that `to_numpy(loss)[0]` works. float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from singax.errors import ShapeError
from singax.ops.loss_arguments import check_options, magnitude, reduced, wide, wide_pair
from singax.ops.operation import operation

Array = jax.Array


@operation(None)
def cross_entropy(x: Array, t: Array, *, reduction: str = "mean") -> Array:
    """−Σ t log x / N for probabilities x and targets t of equal shape (N, C); where t is 0, x does not matter.

    reduction: "mean" (over the N samples, default), "sum", or "none": one loss for each sample.
    """
    check_options(reduction=reduction)
    x, t = wide_pair("cross_entropy", x, t)
    _check_batch(x)
    terms = -t * jnp.log(jnp.where(t == 0, 1, x))
    return reduced(jnp.sum(terms, axis=tuple(range(1, x.ndim))), reduction)


@operation(None)
def binary_cross_entropy(x: Array, t: Array, *, reduction: str = "mean") -> Array:
    """−Σ (t log(x + 1e-4) + (1 − t) log(1 − x + 1e-4)) / N for probabilities x and targets t of equal shape (N, …).

    The 1e-4 inside the logarithms is SINGA's, and so is the division by N, not by the number of elements.
    reduction: "mean" (as above, default), "sum", or "none": one loss for each element.
    """
    check_options(reduction=reduction)
    x, t = wide_pair("binary_cross_entropy", x, t)
    _check_batch(x)
    return reduced(-(t * jnp.log(x + 1e-4) + (1 - t) * jnp.log(1 - x + 1e-4)), reduction, x.shape[0])


@operation(None)
def binary_cross_entropy_with_logits(
    x: Array, t: Array, pos_weight: Array | None = None, *, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Array:
    """−w t log σ(x) − (1 − t) log(1 − σ(x)) for logits x and targets t of equal shape, then the mean of all elements.

    It is finite for all finite logits. pos_weight: w, of a shape that broadcasts to that of x (default 1).
    label_smoothing: ε; t becomes (1 − ε) t + ε / 2. reduction: "mean", "sum" or "none".
    """
    check_options(label_smoothing=label_smoothing, reduction=reduction)
    x, t = wide_pair("binary_cross_entropy_with_logits", x, t)
    t = (1 - label_smoothing) * t + label_smoothing / 2 if label_smoothing else t
    weight = _broadcastable(pos_weight, x, "pos_weight")
    return reduced(weight * t * _softplus(-x) + (1 - t) * _softplus(x), reduction)


@operation(None)
def sigmoid_focal_loss(
    x: Array, t: Array, *, alpha: float | None = 0.25, gamma: float = 2.0, reduction: str = "mean"
) -> Array:
    """−α_t (1 − p_t)^γ log p_t for logits x and targets t (0 or 1) of equal shape, p_t the probability given to t.

    alpha: the weight of t = 1, that of t = 0 is 1 − alpha; None: 1 for both. gamma: 0 is plain cross entropy.
    reduction: "mean", "sum" or "none". Lin et al. 2017.
    """
    check_options(alpha=alpha, gamma=gamma, reduction=reduction)
    x, t = wide_pair("sigmoid_focal_loss", x, t)
    entropy = t * _softplus(-x) + (1 - t) * _softplus(x)
    missed = jnp.maximum(t * jax.nn.sigmoid(-x) + (1 - t) * jax.nn.sigmoid(x), jnp.finfo(x.dtype).tiny)
    terms = entropy * (missed**gamma if gamma else 1)
    return reduced(terms if alpha is None else terms * (alpha * t + (1 - alpha) * (1 - t)), reduction)


@operation(None)
def kl_divergence(x: Array, t: Array, *, log_target: bool = False, reduction: str = "batchmean") -> Array:
    """Σ t (log t − x) / N: the divergence of exp(x) from t, for log-probabilities x and probabilities t (N, …).

    log_target: whether t holds log-probabilities too. Where t is 0 the term is 0. reduction: "batchmean" (divided by N,
    default: the true divergence), "mean" (divided by the number of elements), "sum" or "none" (one for each element).
    Kullback and Leibler 1951.
    """
    check_options(log_target=log_target, reduction_of_divergence=reduction)
    x, t = wide_pair("kl_divergence", x, t)
    _check_batch(x)
    weights = jnp.exp(t) if log_target else t
    logs = t if log_target else jnp.log(jnp.where(t == 0, 1, t))
    empty = weights == 0
    terms = weights * (jnp.where(empty & jnp.isinf(logs), 0, logs) - jnp.where(empty & jnp.isinf(x), 0, x))
    return reduced(terms, "mean", x.shape[0]) if reduction == "batchmean" else reduced(terms, reduction)


def _softplus(x: Array) -> Array:
    """log(1 + exp(x)) with all digits on both sides; for x and −x the exponential is the same."""
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-magnitude(x)))


def _check_batch(x: Array) -> None:
    if x.ndim < 1:
        raise ShapeError(f"expected a batch (N, …). Received shape {x.shape}")


def _broadcastable(factor: Array | None, x: Array, what: str) -> Array:
    if factor is None:
        return jnp.ones((), x.dtype)
    factor = wide(factor).astype(x.dtype)
    if jnp.broadcast_shapes(factor.shape, x.shape) != x.shape:
        raise ShapeError(f"expected a {what} that broadcasts to {x.shape}. Received shape {factor.shape}")
    return factor
