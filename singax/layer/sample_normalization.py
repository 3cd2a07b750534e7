"""Normalisation of each sample by itself: LayerNorm, RMSNorm, GroupNorm, InstanceNorm."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from singax import ops
from singax.checked import integer, number
from singax.errors import ShapeError
from singax.layer.base import Layer
from singax.ops.window import check_floating


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
        self.axis, self.eps, self.has_bias = integer("axis", axis), number("eps", eps, 0), bias
        self.scale_init, self.bias_init = scale_init, bias_init

    def initialize(self, x: jax.Array) -> None:
        shape = _sizes_from(x, self.axis)
        self.scale = self.param(shape, self.scale_init, x.dtype)
        if self.has_bias:
            self.bias = self.param(shape, self.bias_init, x.dtype)

    def forward(self, x: jax.Array) -> jax.Array:
        bias = self.bias.data if self.has_bias else None
        return ops.layer_norm(x, self.scale.data, bias, axis=self.axis, eps=self.eps)


class RMSNorm(Layer):
    """Normalisation by the root mean square: y = x / sqrt(mean of x² + eps) · scale (Zhang and Sennrich 2019).

    The mean is taken over `axis` and all axes after it.

    **Shapes** x (…, D) → the same; `scale` (D,), or the sizes from `axis` on. They are inferred from the first input.

    **Args**
      axis: the first axis that is normalised (default −1: the last axis alone).
      eps: added to the mean of the squares (default 1e-5).
      scale_init: initializer name or function; default ones.

    **Raises** `ArgumentError` for values outside of these, `ShapeError` for an input without that axis or with other
    sizes, `DTypeError` for one of integers.

    *Differences from SINGA*: SINGA has no such layer. ONNX: RMSNormalization (opset 23).

    >>> RMSNorm().infer_shape((None, 16, 64))
    (None, 16, 64)
    """

    _computes_wide = True

    def __init__(self, axis: int = -1, eps: float = 1e-5, scale_init: Any = "ones") -> None:
        super().__init__()
        self.axis, self.eps, self.scale_init = integer("axis", axis), number("eps", eps, 0), scale_init

    def initialize(self, x: jax.Array) -> None:
        self.scale = self.param(_sizes_from(x, self.axis), self.scale_init, x.dtype)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.rms_norm(x, self.scale.data, axis=self.axis, eps=self.eps)


class _ChannelNorm(Layer):
    """A `scale` and a `bias` for each channel, where `affine`."""

    _computes_wide = True

    def __init__(self, eps: float, affine: bool, scale_init: Any, bias_init: Any) -> None:
        super().__init__()
        self.eps, self.affine = number("eps", eps, 0), affine
        self.scale_init, self.bias_init = scale_init, bias_init

    def initialize(self, x: jax.Array) -> None:
        if x.ndim < 2:
            raise ShapeError(f"expected an input (N, C, …). Received shape {x.shape}")
        check_floating(type(self).__name__, x)
        if self.affine:
            self.scale = self.param(x.shape[1:2], self.scale_init, x.dtype)
            self.bias = self.param(x.shape[1:2], self.bias_init, x.dtype)

    def _factors(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        if self.affine:
            return self.scale.data, self.bias.data
        return jnp.ones(x.shape[1:2], x.dtype), jnp.zeros(x.shape[1:2], x.dtype)


class GroupNorm(_ChannelNorm):
    """Group normalisation: y = (x − mean) / sqrt(var + eps) · scale + bias (Wu and He 2018).

    Mean and (biased) variance are those of each sample's groups of neighbouring channels.

    **Shapes** x (N, C, …) → the same; `scale` and `bias` (C,). C is inferred from the first input.

    **Args**
      groups: how many groups the channels fall into; it divides C. 1 takes all channels together.
      eps: added to the variance (default 1e-5).
      affine: whether there are `scale` and `bias` (default True).
      scale_init, bias_init: initializer names or functions; default ones and zeros.

    **Raises** `ArgumentError` for values outside of these or groups that do not divide C, `ShapeError` for an input
    of other channels, `DTypeError` for one of integers.

    *Differences from SINGA*: SINGA has no such layer. ONNX: GroupNormalization (opset 21).

    >>> GroupNorm(4).infer_shape((None, 8, 28, 28))
    (None, 8, 28, 28)
    """

    def __init__(
        self,
        groups: int,
        eps: float = 1e-5,
        affine: bool = True,
        scale_init: Any = "ones",
        bias_init: Any = "zeros",
    ) -> None:
        super().__init__(eps, affine, scale_init, bias_init)
        self.groups = integer("groups", groups, 1)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.group_norm(x, *self._factors(x), groups=self.groups, eps=self.eps)


class InstanceNorm(_ChannelNorm):
    """Instance normalisation: y = (x − mean) / sqrt(var + eps) · scale + bias (Ulyanov, Vedaldi and Lempitsky 2016).

    Mean and (biased) variance are those of each channel of each sample, in training and in evaluation.

    **Shapes** x (N, C, …) → the same, at least one axis after C; `scale` and `bias` (C,). C is inferred.

    **Args** eps, affine, scale_init, bias_init: as in `GroupNorm`.

    **Raises** as `GroupNorm`. *Differences from SINGA*: SINGA has no such layer. ONNX: InstanceNormalization.

    >>> InstanceNorm().infer_shape((None, 8, 28, 28))
    (None, 8, 28, 28)
    """

    def __init__(
        self, eps: float = 1e-5, affine: bool = True, scale_init: Any = "ones", bias_init: Any = "zeros"
    ) -> None:
        super().__init__(eps, affine, scale_init, bias_init)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.instance_norm(x, *self._factors(x), eps=self.eps)


def _sizes_from(x: jax.Array, axis: int) -> tuple[int, ...]:
    """The sizes of x from `axis` on."""
    check_floating("a normalisation", x)
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"expected an input with an axis {axis}. Received shape {x.shape}")
    return x.shape[axis:]
