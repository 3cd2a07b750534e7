"""Activation functions with arguments or parameters, as layers."""

from __future__ import annotations

from typing import Any

import jax

from singax import ops
from singax.checked import integer, number
from singax.errors import ArgumentError, ShapeError
from singax.layer.base import Layer
from singax.ops.window import check_floating


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
        self.axis = integer("axis", axis)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.softmax(x, axis=self.axis)


class LogSoftmax(Layer):
    """log(softmax(x)) along `axis` (default 1, as `SoftMax`), without overflow. ONNX: LogSoftmax.

    >>> LogSoftmax().infer_shape((2, 3))
    (2, 3)
    """

    def __init__(self, axis: int = 1) -> None:
        super().__init__()
        self.axis = integer("axis", axis)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.log_softmax(x, axis=self.axis)


class LeakyReLU(Layer):
    """x, times `a` below 0, any shape (Maas et al. 2013). ONNX: LeakyRelu.

    **Args** a: the slope below 0 (default 0.01).

    >>> LeakyReLU(0.2).infer_shape((2, 3))
    (2, 3)
    """

    def __init__(self, a: float = 0.01) -> None:
        super().__init__()
        self.a = number("a", a)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.leakyrelu(x, a=self.a)


class ELU(Layer):
    """x above 0, else α (exp(x) − 1), any shape (Clevert et al. 2016). ONNX: Elu.

    **Args** alpha: α (default 1).

    >>> ELU().infer_shape((2, 3))
    (2, 3)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = number("alpha", alpha)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.elu(x, alpha=self.alpha)


class CELU(Layer):
    """max(x, 0) + min(0, α (exp(x / α) − 1)), any shape (Barron 2017). ONNX: Celu.

    **Args** alpha: α (default 1), other than 0.

    >>> CELU().infer_shape((2, 3))
    (2, 3)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = number("alpha", alpha)
        if not self.alpha:
            raise ArgumentError(f"alpha must not be 0. Received: {alpha!r}")

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.celu(x, alpha=self.alpha)


class HardSigmoid(Layer):
    """α x + γ limited to 0 … 1, any shape. ONNX: HardSigmoid.

    **Args** alpha, gamma: as in SINGA (default 0.2 and 0.5).

    >>> HardSigmoid().infer_shape((2, 3))
    (2, 3)
    """

    def __init__(self, alpha: float = 0.2, gamma: float = 0.5) -> None:
        super().__init__()
        self.alpha, self.gamma = number("alpha", alpha), number("gamma", gamma)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.hardsigmoid(x, alpha=self.alpha, gamma=self.gamma)


class Hardtanh(Layer):
    """x limited to min … max, any shape. ONNX: Clip.

    **Args** min, max: the limits (default −1 and 1), min below max.

    >>> Hardtanh().infer_shape((2, 3))
    (2, 3)
    """

    def __init__(self, min: float = -1.0, max: float = 1.0) -> None:
        super().__init__()
        self.min, self.max = number("min", min), number("max", max)
        if self.min >= self.max:
            raise ArgumentError(f"min must be below max. Received: {min!r} and {max!r}")

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.clip(x, min=self.min, max=self.max)


class ThresholdedReLU(Layer):
    """x above α, else 0, any shape. ONNX: ThresholdedRelu.

    **Args** alpha: α (default 1).

    >>> ThresholdedReLU().infer_shape((2, 3))
    (2, 3)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = number("alpha", alpha)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.thresholded_relu(x, alpha=self.alpha)


class GLU(Layer):
    """Gated linear unit: a · sigmoid(b) for the halves a, b of x along `axis` (Dauphin et al. 2017).

    **Shapes** (…, 2 D) → (…, D).

    **Args** axis: the axis that is halved (default −1).

    **Raises** `ShapeError` for an odd size. ONNX: Split, Sigmoid and Mul.

    >>> GLU().infer_shape((2, 6))
    (2, 3)
    """

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = integer("axis", axis)

    def forward(self, x: jax.Array) -> jax.Array:
        if not -x.ndim <= self.axis < x.ndim or x.shape[self.axis] % 2:
            raise ShapeError(f"expected an input with an even size of axis {self.axis}. Received shape {x.shape}")
        half = x.shape[self.axis] // 2
        a, b = ops.split(x, axis=self.axis, parts=(half, half))
        return ops.mul(a, ops.sigmoid(b))


class PReLU(Layer):
    """x, times `slope` below 0, which is learnt (He et al. 2015). ONNX: PRelu.

    **Shapes** any → the same; `slope` (1,), or (C, 1, …) with `per_channel`: as many axes as x has after N.

    **Args**
      per_channel: whether each channel of x (N, C, …) has a slope of its own (default False: one for all).
      slope_init: initializer name, number or function (default 0.25).

    **Raises** `ShapeError` for an input without channels or with others, `DTypeError` for one of integers.

    >>> PReLU(per_channel=True).infer_shape((None, 8, 7, 7))
    (None, 8, 7, 7)
    """

    def __init__(self, per_channel: bool = False, slope_init: Any = 0.25) -> None:
        super().__init__()
        self.per_channel, self.slope_init = per_channel, slope_init

    def initialize(self, x: jax.Array) -> None:
        check_floating("prelu", x)
        if x.ndim < 2 and self.per_channel:
            raise ShapeError(f"expected an input (N, C, …). Received shape {x.shape}")
        shape = (x.shape[1], *(1,) * (x.ndim - 2)) if self.per_channel else (1,)
        self.slope = self.param(shape, self.slope_init, x.dtype)

    def forward(self, x: jax.Array) -> jax.Array:
        check_floating("prelu", x)
        return ops.prelu(x, self.slope.data)
