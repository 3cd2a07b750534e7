"""Normalisation with statistics of the batch: BatchNorm."""

from __future__ import annotations

from typing import Any, ClassVar

import jax

from singax import mode, ops
from singax.checked import number
from singax.errors import ArgumentError, ShapeError
from singax.layer.base import Layer
from singax.ops.window import check_floating, layout, wide_dtype


class BatchNorm(Layer):
    """Batch normalisation per channel: y = (x − mean) / sqrt(var + eps) · scale + bias (Ioffe and Szegedy 2015).

    In training mode mean and var are those of the batch (var biased), and
    running ← (1 − momentum) · running + momentum · batch, with the unbiased variance: `momentum` weighs the *new*
    batch, as in SINGA and PyTorch, not as in ONNX and Keras. Otherwise mean and var are `running_mean` and
    `running_var`.

    **Shapes** x (N, C) or (N, C, …) → the same; `scale`, `bias`, `running_mean` and `running_var` (C,). C is
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

    >>> BatchNorm().infer_shape((None, 8, 28))
    (None, 8, 28)
    """

    _computes_wide = True
    axes: ClassVar[int | None] = None

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
                f"{type(self).__name__} takes ([channels[, momentum]]). Received {len(args)} positional arguments"
            )
        self.momentum, self.eps = number("momentum", momentum, 0, 1), number("eps", eps, 0)
        self.scale_init, self.bias_init = scale_init, bias_init

    def initialize(self, x: jax.Array) -> None:
        self._check_rank(x)
        shape, wide = x.shape[1:2], wide_dtype(x.dtype)
        self.scale = self.param(shape, self.scale_init, x.dtype)
        self.bias = self.param(shape, self.bias_init, x.dtype)
        self.running_mean = self.state(shape, "zeros", wide)
        self.running_var = self.state(shape, "ones", wide)

    def forward(self, x: jax.Array) -> jax.Array:
        self._check_rank(x)
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

    def _check_rank(self, x: jax.Array) -> None:
        if x.ndim < 2 or (self.axes is not None and x.ndim not in (2, self.axes + 2)):
            spatial = "(N, C, …)" if self.axes is None else layout(self.axes)
            raise ShapeError(f"expected an input {spatial} or (N, C). Received shape {x.shape}")
        check_floating("batch_norm", x)


class BatchNorm2d(BatchNorm):
    """`BatchNorm` of images (N, C, H, W), or of features (N, C). ONNX: BatchNormalization.

    >>> BatchNorm2d().infer_shape((None, 8, 28, 28))
    (None, 8, 28, 28)
    """

    axes = 2


class BatchNorm1d(BatchNorm):
    """`BatchNorm` of sequences (N, C, W), or of features (N, C). ONNX: BatchNormalization.

    >>> BatchNorm1d().infer_shape((None, 8, 28))
    (None, 8, 28)
    """

    axes = 1


class BatchNorm3d(BatchNorm):
    """`BatchNorm` of volumes (N, C, D, H, W), or of features (N, C). ONNX: BatchNormalization.

    >>> BatchNorm3d().infer_shape((None, 8, 4, 6, 6))
    (None, 8, 4, 6, 6)
    """

    axes = 3
