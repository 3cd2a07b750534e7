"""Convolutions of quantised images."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, ShapeError
from singax.ops.window import Window, window
from singax.sonnx.operators.integer_products import centred, integer_conv, largest
from singax.sonnx.operators.quantized import requantized
from singax.sonnx.registry import Call, onnx_operator

Array = Any

_AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def window_of(call: Call, size: tuple[int, ...], kernel: tuple[int, ...]) -> Window:
    """The window of a convolution or pooling node over an image of this size."""
    mode, pads = call.attribute("auto_pad", "NOTSET"), call.attribute("pads")
    if mode not in _AUTO_PADS:
        raise ArgumentError(f"expected an auto_pad among {', '.join(_AUTO_PADS)}. Received: {mode!r}")
    given = tuple(call.attribute("kernel_shape") or kernel)
    if given != tuple(kernel):
        raise ShapeError(f"expected kernels {given}, the kernel_shape. Received: {tuple(kernel)}")
    half = len(kernel)
    padding = None if not pads or mode != "NOTSET" else tuple(zip(pads[:half], pads[half:], strict=True))
    found = window(call.node.op_type, kernel, call.attribute("strides"), padding, call.attribute("dilations"))
    return found.same(size, mode == "SAME_UPPER") if mode.startswith("SAME") else found


def quantized_sums(call: Call, x: Array, W: Array, x_zero: Array, W_zero: Array) -> Array:
    """The convolution of x and W less their zero points, in int32; padding stands for 0, the zero point of x."""
    if np.ndim(x) < 3 or np.ndim(W) != np.ndim(x):
        raise ShapeError(f"expected images (N, C, …) and kernels (O, C, …). Received: {np.shape(x)} and {np.shape(W)}")
    found = window_of(call, np.shape(x)[2:], np.shape(W)[2:])
    bounds = largest(x, x_zero), largest(W, W_zero)
    centred_W = centred(W, per_kernel(W_zero, np.ndim(W)))
    return integer_conv(centred(x, x_zero), centred_W, found, call.attribute("group", 1), bounds)


def per_kernel(value: Array, ndim: int) -> Array:
    """A scale or zero point of kernels (O, …): one for each if it is a vector."""
    if value is None or np.size(value) == 1:
        return value if value is None else jnp.asarray(value).reshape(())
    return jnp.asarray(value).reshape(-1, *[1] * (ndim - 1))


@onnx_operator("ConvInteger")
def conv_integer(call: Call, x: Array, W: Array, x_zero: Array = None, W_zero: Array = None) -> Array:
    """The convolution of integers less their zero points, in int32."""
    return quantized_sums(call, x, W, x_zero, W_zero)


@onnx_operator("QLinearConv")
def qlinear_conv(
    call: Call,
    x: Array,
    x_scale: Array,
    x_zero: Array,
    W: Array,
    W_scale: Array,
    W_zero: Array,
    y_scale: Array,
    y_zero: Array,
    bias: Array = None,
) -> Array:
    """The convolution of quantised images, quantised; the bias is in int32, in units of the scales of x and W."""
    sums = quantized_sums(call, x, W, x_zero, W_zero)
    channels = (1, -1, *[1] * (sums.ndim - 2))
    if bias is not None:
        sums = sums + jnp.asarray(bias).reshape(channels)
    scale = jnp.asarray(W_scale)
    scale = scale.reshape(()) if scale.size == 1 else scale.reshape(channels)
    return requantized(sums, jnp.asarray(x_scale) * scale / jnp.asarray(y_scale), y_zero)
