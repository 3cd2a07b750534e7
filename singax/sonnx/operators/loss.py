"""Losses."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax import ops
from singax.sonnx.operators.indices import within
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(call: Call, x: Array, t: Array, weights: Array = None) -> Array:
    """−w_t x_t for log-probabilities x (N, C, …) and class ids t (N, …)."""
    _check(call, x, t)
    return ops.negative_log_likelihood_loss(*_arrays(x, t, weights), **_options(call)).astype(x.dtype)


@onnx_operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(call: Call, x: Array, t: Array, weights: Array = None) -> tuple[Array, Array]:
    """The loss of the softmax of x (N, C, …), and its logarithm."""
    _check(call, x, t)
    loss = ops.softmax_cross_entropy_loss(*_arrays(x, t, weights), **_options(call)).astype(x.dtype)
    return loss, ops.log_softmax(jnp.asarray(x), axis=1) if call.wants(1) else None


def _check(call: Call, x: Array, t: Array) -> None:
    within(call, t, 0, np.shape(x)[1] - 1, "class ids", call.attribute("ignore_index"))


def _arrays(*arrays: Array) -> list[Array]:
    return [None if a is None else jnp.asarray(a) for a in arrays]


def _options(call: Call) -> dict[str, Any]:
    return {"ignore_index": call.attribute("ignore_index"), "reduction": call.attribute("reduction", "mean")}
