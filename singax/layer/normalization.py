"""Normalisation layers."""

from __future__ import annotations

from typing import Any

import jax

from singax import mode, ops
from singax.errors import ArgumentError, ShapeError
from singax.layer.base import Layer
from singax.ops.window import check_floating, wide_dtype


class BatchNorm2d(Layer):
    """Batch normalisation per channel: y = (x − mean) / sqrt(var + eps) · scale + bias (Ioffe and Szegedy 2015).

    In training mode mean and var are those of the batch (var biased), and
    running ← (1 − momentum) · running + momentum · batch, with the unbiased variance: `momentum` weighs the *new*
    batch, as in SINGA and PyTorch, not as in ONNX and Keras. Otherwise mean and var are `running_mean` and
    `running_var`.

    **Shapes** x (N, C, H, W) or (N, C) → the same; `scale`, `bias`, `running_mean` and `running_var` (C,). C is
    inferred from the first input.

    **Args**
      momentum: the weight of the new batch, 0 to 1 (default 0.9).
      eps: added to the variance (default 1e-5).
      scale_init, bias_init: initializer names or functions; default ones and zeros.
      SINGA's older form `BatchNorm2d(channels[, momentum])` is understood, and both values are ignored as there:
      channels are inferred, and the keyword `momentum`, given or not, replaces the positional one.

    **Raises** `ArgumentError` for values outside of these, `ShapeError` for an input of other rank or other channels,
    `DTypeError` for one of integers.

    *Differences from SINGA*: batch and image size are free; for float16 and bfloat16 inputs the statistics are float32.
    ONNX: BatchNormalization.

    >>> BatchNorm2d().infer_shape((None, 8, 28, 28))
    (None, 8, 28, 28)
    """

    _computes_wide = True

    def __init__(
        self,
        *args: Any,
        momentum: float = 0.9,
        eps: float = 1e-5,
        scale_init: Any = "ones",
        bias_init: Any = "zeros",
    ) -> None:
        super().__init__()
        if len(args) > 2:
            raise ArgumentError(
                f"BatchNorm2d takes ([channels[, momentum]]). Received {len(args)} positional arguments"
            )
        self.momentum, self.eps = _number("momentum", momentum, 1.0), _number("eps", eps)
        self.scale_init, self.bias_init = scale_init, bias_init

    def initialize(self, x: jax.Array) -> None:
        _check_rank(x)
        shape, wide = x.shape[1:2], wide_dtype(x.dtype)
        self.scale = self.param(shape, self.scale_init, x.dtype)
        self.bias = self.param(shape, self.bias_init, x.dtype)
        self.running_mean = self.state(shape, "zeros", wide)
        self.running_var = self.state(shape, "ones", wide)

    def forward(self, x: jax.Array) -> jax.Array:
        _check_rank(x)
        scale, bias = self.scale.data, self.bias.data
        if not mode.training:
            return ops.batch_norm_inference(x, scale, bias, self.running_mean.data, self.running_var.data, eps=self.eps)
        y, mean, var = ops.batch_norm(x, scale, bias, eps=self.eps)
        count = x.size // x.shape[1]
        self.running_mean.data = self._moved(self.running_mean.data, mean)
        self.running_var.data = self._moved(self.running_var.data, var * (count / max(count - 1, 1)))
        return y

    def _moved(self, running: jax.Array, batch: jax.Array) -> jax.Array:
        return (1 - self.momentum) * running + self.momentum * jax.lax.stop_gradient(batch).astype(running.dtype)


class LayerNorm(Layer):
    """Layer normalisation: y = (x − mean) / sqrt(var + eps) · scale + bias per sample (Ba, Kiros and Hinton 2016).

    Mean and (biased) variance are taken over `axis` and all axes after it.

    **Shapes** x (…, D) → the same; `scale` and `bias` (D,), or the sizes from `axis` on. They are inferred from the
    first input.

    **Args**
      axis: the first axis that is normalised (default −1: the last axis alone).
      eps: added to the variance (default 1e-5).
      bias: whether there is a `bias` (default True).
      scale_init, bias_init: initializer names or functions; default ones and zeros.

    **Raises** `ArgumentError` for values outside of these, `ShapeError` for an input without that axis or with other
    sizes, `DTypeError` for one of integers.

    *Differences from SINGA*: SINGA has no such layer. ONNX: LayerNormalization.

    >>> LayerNorm().infer_shape((None, 16, 64))
    (None, 16, 64)
    """

    _computes_wide = True

    def __init__(
        self,
        axis: int = -1,
        eps: float = 1e-5,
        bias: bool = True,
        scale_init: Any = "ones",
        bias_init: Any = "zeros",
    ) -> None:
        super().__init__()
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise ArgumentError(f"axis must be an integer. Received: {axis!r}")
        self.axis, self.eps, self.has_bias = axis, _number("eps", eps), bias
        self.scale_init, self.bias_init = scale_init, bias_init

    def initialize(self, x: jax.Array) -> None:
        check_floating(x)
        if not -x.ndim <= self.axis < x.ndim:
            raise ShapeError(f"expected an input with an axis {self.axis}. Received shape {x.shape}")
        self.scale = self.param(x.shape[self.axis :], self.scale_init, x.dtype)
        if self.has_bias:
            self.bias = self.param(x.shape[self.axis :], self.bias_init, x.dtype)

    def forward(self, x: jax.Array) -> jax.Array:
        bias = self.bias.data if self.has_bias else None
        return ops.layer_norm(x, self.scale.data, bias, axis=self.axis, eps=self.eps)


def _check_rank(x: jax.Array) -> None:
    if x.ndim not in (2, 4):
        raise ShapeError(f"expected an input (N, C, H, W) or (N, C). Received shape {x.shape}")
    check_floating(x)


def _number(name: str, value: Any, largest: float = float("inf")) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= largest:
        raise ArgumentError(f"{name} must be a number from 0 to {largest}. Received: {value!r}")
    return float(value)
