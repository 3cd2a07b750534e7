"""DepthwiseConv2d and SeparableConv2d: convolution of each channel by itself."""

from __future__ import annotations

from typing import Any

import jax

from singax.checked import integer
from singax.layer.base import Layer
from singax.layer.convolution import Conv2d, positional
from singax.ops.window import check_spatial


class DepthwiseConv2d(Conv2d):
    """Convolution of each channel with kernels of its own: `Conv2d` with as many groups as channels.

    **Shapes** x (N, C, H, W) → (N, C · multiplier, H', W') with sizes as in `Conv2d`; `W` (C · multiplier, 1, kh, kw),
    `b` (C · multiplier,). C is inferred from the first input.

    **Args**
      kernel_size, stride, padding, dilation, bias, pad_mode, activation, kernel_init, bias_init: as in `Conv2d`.
      multiplier: how many kernels each channel has (default 1).

    **Raises** as `Conv2d`. *Differences from SINGA*: SINGA has no such layer. ONNX: Conv.

    >>> DepthwiseConv2d(3, padding=1, multiplier=2).infer_shape((None, 4, 8, 8))
    (None, 8, 8, 8)
    """

    def __init__(self, kernel_size: Any, *, multiplier: int = 1, **kwargs: Any) -> None:
        super().__init__(1, kernel_size, **kwargs)
        self.multiplier = integer("multiplier", multiplier, 1)

    def initialize(self, x: jax.Array) -> None:
        check_spatial(self.operation.name, x, self.axes)
        self.nb_kernels, self.group = x.shape[1] * self.multiplier, max(x.shape[1], 1)
        super().initialize(x)


class SeparableConv2d(Layer):
    """A convolution of each channel by itself, then one of 1 × 1 over all channels (Chollet 2017).

    **Shapes** x (N, C, H, W) → (N, O, H', W') with sizes as in `Conv2d`; `depthwise_conv.W` (C, 1, kh, kw),
    `point_conv.W` (O, C, 1, 1); with `bias`, `depthwise_conv.b` (C,) and `point_conv.b` (O,).

    **Args**
      nb_kernels: the number O of output channels; SINGA's older form
        `SeparableConv2d(in, out, kernel_size[, stride[, padding]])` is understood as in `Conv2d`.
      kernel_size, stride, padding, dilation, pad_mode: of the first convolution, as in `Conv2d`.
      bias: whether both convolutions have a `b` (default False).
      kernel_init: initializer of both kernels, as in `Conv2d`.

    **Raises** as `Conv2d`. *Differences from SINGA*: any number of channels on every device; `depthwise_conv` and
    `point_conv` exist before the first input. ONNX: Conv, twice.

    >>> SeparableConv2d(16, 3, padding=1).infer_shape((None, 4, 8, 8))
    (None, 16, 8, 8)
    """

    def __init__(
        self,
        nb_kernels: int,
        kernel_size: Any,
        *args: Any,
        stride: Any = 1,
        padding: Any = 0,
        bias: bool = False,
        dilation: Any = 1,
        pad_mode: str = "NOTSET",
        kernel_init: Any = None,
    ) -> None:
        super().__init__()
        nb_kernels, kernel_size, stride, padding = positional(self, nb_kernels, kernel_size, args, stride, padding)
        self.depthwise_conv = DepthwiseConv2d(
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            pad_mode=pad_mode,
            bias=bias,
            kernel_init=kernel_init,
        )
        self.point_conv = Conv2d(nb_kernels, 1, bias=bias, kernel_init=kernel_init)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.point_conv(self.depthwise_conv(x))
