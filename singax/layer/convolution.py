"""Conv1d, Conv2d, Conv3d: convolution along one, two or three axes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax

from singax import ops
from singax.checked import integer
from singax.errors import ArgumentError, ShapeError
from singax.layer.base import Layer
from singax.layer.window import fitted, window
from singax.ops.window import check_spatial
from singax.recipes import Normal

_WITHOUT_EFFECT = frozenset({"cudnn_prefer", "workspace_MB_limit"})


class Convolution(Layer):
    """What `Conv2d`, `ConvTranspose2d` and their like have in common: arguments and parameters."""

    axes: ClassVar[int]
    operation: ClassVar[ops.Operation]

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
        unknown = sorted(set(kwargs) - _WITHOUT_EFFECT)
        if unknown:
            raise ArgumentError(f"{type(self).__name__} has no argument {', '.join(unknown)}. Received: {kwargs}")
        nb_kernels, kernel_size, stride, padding = positional(self, nb_kernels, kernel_size, args, stride, padding)
        self.nb_kernels, self.group = _counts(nb_kernels, group)
        self.pad_mode = pad_mode
        self.window = window(self.operation.name, self.axes, kernel_size, stride, padding, pad_mode, dilation)
        if activation not in ("NOTSET", "RELU"):
            raise ArgumentError(
                f'activation must be "RELU" or "NOTSET"; call another as a layer. Received: {activation!r}'
            )
        self.bias, self.activation = bias, activation
        self.kernel_init, self.bias_init = kernel_init, bias_init

    def initialize(self, x: jax.Array) -> None:
        check_spatial(self.operation.name, x, self.axes)
        channels = x.shape[1]
        if channels % self.group or not channels:
            raise ShapeError(f"expected channels that {self.group} groups divide. Received shape {x.shape}")
        fan = channels // self.group * math.prod(self.window.kernel) + self.nb_kernels
        kernel = Normal(0.0, math.sqrt(2.0 / fan)) if self.kernel_init is None else self.kernel_init
        self.W = self.param((*self.kernel_channels(channels), *self.window.kernel), kernel, x.dtype)
        if self.bias:
            self.b = self.param((self.nb_kernels,), self.bias_init, x.dtype)

    def kernel_channels(self, channels: int) -> tuple[int, int]:
        """The first two sizes of `W` for an input with so many channels."""
        return self.nb_kernels, channels // self.group

    def forward(self, x: jax.Array) -> jax.Array:
        b = self.b.data if self.bias else None
        y = self.operation(x, self.W.data, b, groups=self.group, **self.attributes(x))
        return ops.relu(y) if self.activation == "RELU" else y

    def attributes(self, x: jax.Array) -> dict[str, Any]:
        """Keyword arguments of the operation for the input x."""
        found = fitted(self.window, self.pad_mode, x)
        return {"stride": found.stride, "padding": found.padding, "dilation": found.dilation}


class Conv2d(Convolution):
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

    axes, operation = 2, ops.conv


class Conv1d(Convolution):
    """Convolution along one axis: y[n, o, i] = Σ x[n, c, i·s + u·d] · W[o, c, u] + b[o].

    **Shapes** x (N, C, W) → (N, O, W') with W' = floor((W + left + right − d · (k − 1) − 1) / s) + 1;
    `W` (O, C / group, k), `b` (O,).

    **Args** those of `Conv2d`; a padding is one integer or two (left, right).

    **Raises** as `Conv2d`. *Differences from SINGA*: SINGA has no such layer. ONNX: Conv.

    >>> Conv1d(8, 3, stride=2).infer_shape((None, 4, 9))
    (None, 8, 4)
    """

    axes, operation = 1, ops.conv


class Conv3d(Convolution):
    """Convolution along three axes, as `Conv2d` along two.

    **Shapes** x (N, C, D, H, W) → (N, O, D', H', W') with sizes as in `Conv2d`;
    `W` (O, C / group, kd, kh, kw), `b` (O,).

    **Args** those of `Conv2d`; a window has three sizes (depth, height, width), a padding one, three or six integers
    (front, back, top, bottom, left, right).

    **Raises** as `Conv2d`. *Differences from SINGA*: SINGA has no such layer. ONNX: Conv.

    >>> Conv3d(8, 3, padding=1).infer_shape((None, 1, 4, 6, 6))
    (None, 8, 4, 6, 6)
    """

    axes, operation = 3, ops.conv


def positional(
    layer: Layer, nb_kernels: Any, kernel_size: Any, args: tuple[Any, ...], stride: Any, padding: Any
) -> tuple[Any, Any, Any, Any]:
    """(nb_kernels, kernel_size, stride, padding); args are what follows kernel_size in SINGA's older form."""
    if len(args) > 3:
        raise ArgumentError(
            f"{type(layer).__name__} takes (out, kernel_size) or (in, out, kernel_size[, stride[, padding]]). "
            f"Received {len(args) + 2} positional arguments"
        )
    if not args:
        return nb_kernels, kernel_size, stride, padding
    stride, padding = (*args[1:], *(stride, padding)[len(args) - 1 :])
    return kernel_size, args[0], stride, padding


def _counts(nb_kernels: Any, group: Any) -> tuple[int, int]:
    kernels, groups = integer("nb_kernels", nb_kernels, 1), integer("group", group, 1)
    if kernels % groups:
        raise ArgumentError(f"group must divide nb_kernels. Received: {groups} groups for {kernels} kernels")
    return kernels, groups
