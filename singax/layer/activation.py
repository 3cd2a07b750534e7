"""Activation functions as layers."""

from __future__ import annotations

import jax

from singax import ops
from singax.layer.base import Layer


class ReLU(Layer):
    """max(x, 0), any shape. ONNX: Relu.

    >>> ReLU().infer_shape((2, 3))
    (2, 3)
    """

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.relu(x)


class Sigmoid(Layer):
    """1 / (1 + exp(−x)), any shape. ONNX: Sigmoid.

    >>> Sigmoid().infer_shape((2, 3))
    (2, 3)
    """

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.sigmoid(x)


class Tanh(Layer):
    """Hyperbolic tangent, any shape. ONNX: Tanh.

    >>> Tanh().infer_shape((2, 3))
    (2, 3)
    """

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.tanh(x)


class GELU(Layer):
    """x · Φ(x), any shape (Hendrycks and Gimpel 2016). ONNX: Gelu.

    **Args** approximate: use the tanh formula (default False).

    >>> GELU().infer_shape((2, 3))
    (2, 3)
    """

    def __init__(self, approximate: bool = False) -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.gelu(x, approximate=self.approximate)


class SoftMax(Layer):
    """exp(x) normalised to sum 1 along `axis` (default 1, as in SINGA). ONNX: Softmax.

    >>> SoftMax().infer_shape((2, 3))
    (2, 3)
    """

    def __init__(self, axis: int = 1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.softmax(x, axis=self.axis)
