"""The losses under the names of their operations.

SINGA's five come with its operator classes; no gradient goes to their targets, and options that SINGA lacks are given
by name. The others take arrays first, then the options of the operation, by position or by name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from singax import dispatch, ops
from singax.autograd.derived import operator_class
from singax.autograd.functional_elementwise import constant, number
from singax.errors import ArgumentError
from singax.tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity_loss",
    "cross_entropy", "ctc_loss", "gaussian_nll_loss", "hinge_loss", "huber_loss", "kl_divergence", "l1_loss",
    "margin_ranking_loss", "mse_loss", "negative_log_likelihood_loss", "poisson_nll_loss", "ranking_loss",
    "sigmoid_focal_loss", "smooth_l1_loss", "softmax_cross_entropy", "softmax_cross_entropy_loss",
    "triplet_margin_loss",
]  # fmt: skip


def _functional(operation: ops.Operation) -> Callable[..., Any]:
    """`operation` as a function whose options may be given by position too."""
    signature = inspect.signature(operation.function)
    options = operation.function.__kwdefaults__ or {}
    either = [p.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in signature.parameters.values()]
    signature = signature.replace(parameters=either)

    @functools.wraps(operation.function)
    def loss(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        arrays = [given.get(name) for name in signature.parameters if name not in options]
        return _apply(operation, arrays, {name: given[name] for name in options if name in given})

    loss.__signature__ = signature  # type: ignore[attr-defined]
    return loss


def _apply(operation: ops.Operation, arrays: Iterable[Any], options: dict[str, Any]) -> Any:
    defaults = operation.function.__kwdefaults__ or {}
    static = {key: _static(operation.name, key, value, defaults[key]) for key, value in options.items()}
    return dispatch.apply(operation, *arrays, **static)


def _static(name: str, option: str, value: Any, default: Any) -> Any:
    """An option as part of the key of a program: equal numbers are of one type, Tensors of one element are numbers."""
    if not isinstance(value, Hashable) and not isinstance(value, Tensor):
        raise ArgumentError(f"{name} expected {option} to be no {type(value).__name__}. Received: {value!r}")
    is_number = isinstance(default, float) and not isinstance(value, bool)
    return number(name, option, value) if is_number or isinstance(value, Tensor) else value


@operator_class("SoftMaxCrossEntropy")
def softmax_cross_entropy(
    x: Any,
    t: Any,
    *,
    weights: Any = None,
    axis: int = -1,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Any:
    """The mean over the batch of −Σ p log softmax(x).

    x: logits (N, C). t: class ids (N,) or (N, 1); or one row of weights per sample, (N, C), divided by its sum.
    Other ranks and the options: `ops.softmax_cross_entropy`.

    *Differences from SINGA*: `dy` counts in backward; ids may be of any numeric dtype, soft labels are right.
    """
    options = {"axis": axis, "label_smoothing": label_smoothing, "ignore_index": ignore_index, "reduction": reduction}
    return _apply(ops.softmax_cross_entropy, (x, constant(t), weights), options)


@operator_class("MeanSquareError")
def mse_loss(x: Any, t: Any, *, reduction: str = "mean") -> Any:
    """The mean over all elements of (x − t)²; x and t have equal shapes."""
    return _apply(ops.mse_loss, (x, constant(t)), {"reduction": reduction})


@operator_class("CrossEntropy")
def cross_entropy(x: Any, t: Any, *, reduction: str = "mean") -> Any:
    """−Σ t log x / N for probabilities x and targets t of equal shape (N, C)."""
    return _apply(ops.cross_entropy, (x, constant(t)), {"reduction": reduction})


@operator_class("BinaryCrossEntropy")
def binary_cross_entropy(x: Any, t: Any, *, reduction: str = "mean") -> Any:
    """−Σ (t log(x + 1e-4) + (1 − t) log(1 − x + 1e-4)) / N for probabilities x and targets t of equal shape (N, …)."""
    return _apply(ops.binary_cross_entropy, (x, constant(t)), {"reduction": reduction})


@operator_class("RankingLoss", "pos neg")
def ranking_loss(pos: Any, neg: Any, M: float = 0.2, *, reduction: str = "mean") -> Any:
    """The mean of max(0, M − pos + neg) for scores of equal shapes.

    *Differences from SINGA*: `dy` counts in backward.
    """
    return _apply(ops.ranking_loss, (pos, neg), {"M": M, "reduction": reduction})


softmax_cross_entropy_loss = _functional(ops.softmax_cross_entropy_loss)
negative_log_likelihood_loss = _functional(ops.negative_log_likelihood_loss)
binary_cross_entropy_with_logits = _functional(ops.binary_cross_entropy_with_logits)
sigmoid_focal_loss = _functional(ops.sigmoid_focal_loss)
kl_divergence = _functional(ops.kl_divergence)
ctc_loss = _functional(ops.ctc_loss)

l1_loss = _functional(ops.l1_loss)
huber_loss = _functional(ops.huber_loss)
smooth_l1_loss = _functional(ops.smooth_l1_loss)
gaussian_nll_loss = _functional(ops.gaussian_nll_loss)
poisson_nll_loss = _functional(ops.poisson_nll_loss)

margin_ranking_loss = _functional(ops.margin_ranking_loss)
hinge_loss = _functional(ops.hinge_loss)
cosine_similarity_loss = _functional(ops.cosine_similarity_loss)
cosine_embedding_loss = _functional(ops.cosine_embedding_loss)
triplet_margin_loss = _functional(ops.triplet_margin_loss)
