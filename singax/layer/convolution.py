"""Conv2d: two-dimensional convolution."""

from __future__ import annotations

import math
from typing import Any

import jax

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.layer.base import Layer
from singax.layer.window import integer_pair, window
from singax.ops.window import check_images
from singax.recipes import Normal

_WITHOUT_EFFECT = frozenset({"cudnn_prefer", "workspace_MB_limit"})


class Conv2d(Layer):
    """Two-dimensional convolution: y[n, o, i, j] = Σ x[n, c, i·s + u·d, j·s + v·d] · W[o, c, u, v] + b[o].

    **Shapes** x (N, C, H, W) → (N, O, H', W') with H' = floor((H + top + bottom − d · (kh − 1) − 1) / s) + 1, W' alike;
    `W` (O, C / group, kh, kw), `b` (O,). C is inferred from the first input; N, H and W may change from call to call.

    **Args**
      nb_kernels: the number O of kernels. SINGA's older form `Conv2d(in, out, kernel_size[, stride[, padding]])` is
        understood wherever there is a third positional argument; `in` is inferred anyway.
      kernel_size, stride, dilation: an integer, or two (height, width).
      padding: an integer, two (height, width) or four (top, bottom, left, right) rows and columns of zeros; None
        goes only with SAME.
      pad_mode: "NOTSET" (as `padding` says), "VALID" (none), "SAME_UPPER" or "SAME_LOWER" (H' = ceil(H / s); an odd row
        or column goes to the end or to the beginning).
      group: how many groups the channels fall into, each with its own kernels; it divides C and O.
      bias: whether there is a `b` (default True).
      activation: "RELU" or "NOTSET".
      kernel_init, bias_init: initializer names or functions; default N(0, 2 / (C / group · kh · kw + O)) and zeros.
      cudnn_prefer, workspace_MB_limit: SINGA's, accepted without effect.

    **Raises** `ArgumentError` for arguments outside of these, `ShapeError` for an input that is not (N, C, H, W), has
    other channels than the first one or is smaller than the kernel, `DTypeError` for one of integers.

    *Differences from SINGA*: groups and dilation work everywhere; lists are taken like tuples; batch and image size
    are free, and SAME follows the size of each input. ONNX: Conv (and Relu).

    >>> Conv2d(32, 3, padding=1).infer_shape((None, 3, 28, 28))
    (None, 32, 28, 28)
    """

    def __init__(
        self,
        nb_kernels: int,
        kernel_size: Any,
        *args: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        group: int = 1,
        bias: bool = True,
        pad_mode: str = "NOTSET",
        activation: str = "NOTSET",
        kernel_init: Any = None,
        bias_init: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__()
        _refuse_unknown(args, kwargs)
        if args:
            nb_kernels, kernel_size = kernel_size, args[0]
            stride, padding = (*args[1:], *(stride, padding)[len(args) - 1 :])
        self.nb_kernels, self.group = _counts(nb_kernels, group)
        self.window = window(kernel_size, stride, padding, pad_mode, dilation)
        if activation not in ("NOTSET", "RELU"):
            raise ArgumentError(
                f'activation must be "RELU" or "NOTSET"; call another as a layer. Received: {activation!r}'
            )
        self.bias, self.activation = bias, activation
        self.kernel_init, self.bias_init = kernel_init, bias_init

    def initialize(self, x: jax.Array) -> None:
        check_images(x)
        if x.shape[1] % self.group:
            raise ShapeError(f"expected channels that {self.group} groups divide. Received shape {x.shape}")
        shape = (self.nb_kernels, x.shape[1] // self.group, *self.window.kernel)
        spread = Normal(0.0, math.sqrt(2.0 / (math.prod(shape[1:]) + shape[0])))
        self.W = self.param(shape, spread if self.kernel_init is None else self.kernel_init, x.dtype)
        if self.bias:
            self.b = self.param(shape[:1], self.bias_init, x.dtype)

    def forward(self, x: jax.Array) -> jax.Array:
        y = ops.conv2d(
            x,
            self.W.data,
            self.b.data if self.bias else None,
            stride=self.window.stride,
            padding=self.window.padding_for(x),
            dilation=self.window.dilation,
            groups=self.group,
        )
        return ops.relu(y) if self.activation == "RELU" else y


def _counts(nb_kernels: Any, group: Any) -> tuple[int, int]:
    kernels, groups = integer_pair("nb_kernels and group", (nb_kernels, group))
    if kernels % groups:
        raise ArgumentError(f"group must divide nb_kernels. Received: {groups} groups for {kernels} kernels")
    return kernels, groups


def _refuse_unknown(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    unknown = sorted(set(kwargs) - _WITHOUT_EFFECT)
    if unknown:
        raise ArgumentError(f"Conv2d has no argument {', '.join(unknown)}")
    if len(args) > 3:
        raise ArgumentError(
            "Conv2d takes (out, kernel_size) or (in, out, kernel_size[, stride[, padding]]). "
            f"Received {len(args) + 2} positional arguments"
        )
