"""The losses under the names of their operations: arrays first, then the options, by position or by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable
from typing import Any

from singax import dispatch, ops
from singax.autograd.functional_elementwise import number
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
    """`operation` as a function whose options may be given by position too, as SINGA's are."""
    signature = inspect.signature(operation.function)
    options = operation.function.__kwdefaults__ or {}
    either = [p.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in signature.parameters.values()]
    signature = signature.replace(parameters=either)

    @functools.wraps(operation.function)
    def loss(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        arrays = [given.get(name) for name in signature.parameters if name not in options]
        static = {name: _static(operation.name, name, given[name], options[name]) for name in options if name in given}
        return dispatch.apply(operation, *arrays, **static)

    loss.__signature__ = signature  # type: ignore[attr-defined]
    return loss


def _static(name: str, option: str, value: Any, default: Any) -> Any:
    """An option as part of the key of a program: equal numbers are of one type, Tensors of one element are numbers."""
    if not isinstance(value, Hashable) and not isinstance(value, Tensor):
        raise ArgumentError(f"{name} expected {option} to be no {type(value).__name__}. Received: {value!r}")
    is_number = isinstance(default, float) and not isinstance(value, bool)
    return number(name, option, value) if is_number or isinstance(value, Tensor) else value


softmax_cross_entropy = _functional(ops.softmax_cross_entropy)
softmax_cross_entropy_loss = _functional(ops.softmax_cross_entropy_loss)
negative_log_likelihood_loss = _functional(ops.negative_log_likelihood_loss)
cross_entropy = _functional(ops.cross_entropy)
binary_cross_entropy = _functional(ops.binary_cross_entropy)
binary_cross_entropy_with_logits = _functional(ops.binary_cross_entropy_with_logits)
sigmoid_focal_loss = _functional(ops.sigmoid_focal_loss)
kl_divergence = _functional(ops.kl_divergence)
ctc_loss = _functional(ops.ctc_loss)

mse_loss = _functional(ops.mse_loss)
l1_loss = _functional(ops.l1_loss)
huber_loss = _functional(ops.huber_loss)
smooth_l1_loss = _functional(ops.smooth_l1_loss)
gaussian_nll_loss = _functional(ops.gaussian_nll_loss)
poisson_nll_loss = _functional(ops.poisson_nll_loss)

ranking_loss = _functional(ops.ranking_loss)
margin_ranking_loss = _functional(ops.margin_ranking_loss)
hinge_loss = _functional(ops.hinge_loss)
cosine_similarity_loss = _functional(ops.cosine_similarity_loss)
cosine_embedding_loss = _functional(ops.cosine_embedding_loss)
triplet_margin_loss = _functional(ops.triplet_margin_loss)
