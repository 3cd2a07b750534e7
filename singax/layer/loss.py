"""Losses as layers: call them with outputs and targets."""

from __future__ import annotations

import jax

from singax import ops
from singax.layer.base import Layer


class SoftMaxCrossEntropy(Layer):
    """Mean cross entropy of softmax(x) against class ids or rows of weights.

    **Shapes** logits (N, C) with targets (N,), (N, 1) or (N, C) → (1,). See `ops.softmax_cross_entropy`.

    >>> SoftMaxCrossEntropy().infer_shape((8, 10), (8,))
    (1,)
    """

    _computes_wide = True

    def forward(self, x: jax.Array, t: jax.Array) -> jax.Array:
        return ops.softmax_cross_entropy(x, t)


class MeanSquareError(Layer):
    """Mean of (x − t)² over all elements.

    **Shapes** x and t of equal shape → (1,).

    >>> MeanSquareError().infer_shape((8, 3), (8, 3))
    (1,)
    """

    _computes_wide = True

    def forward(self, x: jax.Array, t: jax.Array) -> jax.Array:
        return ops.mse_loss(x, t)


class BinaryCrossEntropy(Layer):
    """Cross entropy of probabilities x against targets t, summed and divided by the batch size.

    **Shapes** x and t of equal shape (N, …) → (1,).

    >>> BinaryCrossEntropy().infer_shape((8, 1), (8, 1))
    (1,)
    """

    _computes_wide = True

    def forward(self, x: jax.Array, t: jax.Array) -> jax.Array:
        return ops.binary_cross_entropy(x, t)
