"""Convolutions of quantised images."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.sonnx.operators.geometry import affordable, check_ranks, kernel_of, sliding
from singax.sonnx.operators.integer_products import centred, integer_conv, largest
from singax.sonnx.operators.quantized import requantized
from singax.sonnx.registry import Call, onnx_operator

Array = Any


def quantized_sums(call: Call, x: Array, W: Array, x_zero: Array, W_zero: Array) -> Array:
    """The convolution of x and W less their zero points, in int32; padding stands for 0, the zero point of x."""
    check_ranks(x, np.shape(W)[2:])
    found = sliding(call, kernel_of(call, np.shape(W)[2:]), np.shape(x))
    affordable("a result", (np.shape(x)[0], np.shape(W)[0], *found.output_size(np.shape(x)[2:])))
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
