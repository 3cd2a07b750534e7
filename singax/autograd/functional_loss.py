"""SINGA's functional names of losses. Each has shape (1,); no gradient goes to the targets."""

from __future__ import annotations

from typing import Any

from singax import dispatch, ops
from singax.autograd.derived import operator_class
from singax.autograd.functional_elementwise import constant, number

__all__ = ["binary_cross_entropy", "cross_entropy", "mse_loss", "ranking_loss", "softmax_cross_entropy"]


@operator_class("SoftMaxCrossEntropy")
def softmax_cross_entropy(x: Any, t: Any) -> Any:
    """The mean over the batch of −Σ p log softmax(x).

    x: logits (N, C). t: class ids (N,) or (N, 1); or one row of weights per sample, (N, C), divided by its sum.

    *Differences from SINGA*: `dy` counts in backward; ids may be of any numeric dtype, soft labels are right.
    """
    return dispatch.apply(ops.softmax_cross_entropy, x, constant(t))


@operator_class("MeanSquareError")
def mse_loss(x: Any, t: Any) -> Any:
    """The mean over all elements of (x − t)²; x and t have equal shapes."""
    return dispatch.apply(ops.mse_loss, x, constant(t))


@operator_class("CrossEntropy")
def cross_entropy(x: Any, t: Any) -> Any:
    """−Σ t log x / N for probabilities x and targets t of equal shape (N, C)."""
    return dispatch.apply(ops.cross_entropy, x, constant(t))


@operator_class("BinaryCrossEntropy")
def binary_cross_entropy(x: Any, t: Any) -> Any:
    """−Σ (t log(x + 1e-4) + (1 − t) log(1 − x + 1e-4)) / N for probabilities x and targets t of equal shape (N, …)."""
    return dispatch.apply(ops.binary_cross_entropy, x, constant(t))


@operator_class("RankingLoss", "pos neg")
def ranking_loss(pos: Any, neg: Any, M: float = 0.2) -> Any:
    """The mean of max(0, M − pos + neg) for scores of equal shapes.

    *Differences from SINGA*: `dy` counts in backward.
    """
    return dispatch.apply(ops.ranking_loss, pos, neg, M=number("ranking_loss", "M", M))
