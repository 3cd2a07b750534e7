"""Pooling: the largest or the mean value of each window, or of each channel."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.errors import ArgumentError, ShapeError
from singax.ops.operation import operation
from singax.ops.window import (
    NO_PADDING,
    Padding,
    Pair,
    check_floating,
    check_images,
    image_size,
    onnx_pads,
    output_size,
    wide_dtype,
)

Array = jax.Array


def _attributes(keywords: dict[str, Any]) -> dict[str, Any]:
    kernel = keywords["kernel"]
    return {
        "kernel_shape": list(kernel),
        "strides": list(keywords.get("stride") or kernel),
        "pads": onnx_pads(keywords.get("padding", NO_PADDING)),
    }


@operation("MaxPool", attributes=_attributes)
def max_pool2d(x: Array, *, kernel: Pair, stride: Pair | None = None, padding: Padding = NO_PADDING) -> Array:
    """The largest value of each window of images x (N, C, H, W); padding never wins. `stride` is `kernel` by default.

    Of equal largest values the first one gets the gradient (tiles larger than 3: they share it).
    """
    # Gradient of conv, relu and pooling at (64, 32, 28, 28), two CPU cores, ratios to reduce_window (whose gradient is
    # select-and-scatter): compared slices 0.3 for kernel 2, stride 2 (reshape + max: 0.65 to 0.85), 0.4 for 3, 3
    # (reshape: 0.46), 0.6 to 0.75 for 3, 2 and 3, 1, no clear gain for larger ones; reshape + max 0.7 for 4, 4 and 0.5
    # for 7, 7.
    stride = stride or kernel
    _check(x, kernel, stride, padding)
    if max(kernel) <= 3:
        return _largest_of_slices(x, kernel, stride, padding)
    if _tiles(kernel, stride, padding):
        return jnp.max(_tiled(x, kernel), axis=(3, 5))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, *kernel), (1, 1, *stride), ((0, 0), (0, 0), *padding))


@operation("AveragePool", attributes=_attributes)
def avg_pool2d(x: Array, *, kernel: Pair, stride: Pair | None = None, padding: Padding = NO_PADDING) -> Array:
    """The mean of each window of images x (N, C, H, W), padding not counted. `stride` is `kernel` by default."""
    stride = stride or kernel
    _check(x, kernel, stride, padding)
    if _tiles(kernel, stride, padding):
        return jnp.mean(_tiled(x, kernel), axis=(3, 5))
    wide = x.astype(wide_dtype(x.dtype))
    sums = lax.reduce_window(wide, 0.0, lax.add, (1, 1, *kernel), (1, 1, *stride), ((0, 0), (0, 0), *padding))
    weights = _weights(image_size(x), kernel, stride, padding).astype(wide.dtype)
    return (sums * weights).astype(x.dtype)


@operation("GlobalAveragePool")
def global_average_pool(x: Array) -> Array:
    """The mean of each channel: (N, C, …) → (N, C, 1, …)."""
    return jnp.mean(x, axis=_spatial(x), keepdims=True)


@operation("GlobalMaxPool")
def global_max_pool(x: Array) -> Array:
    """The largest value of each channel: (N, C, …) → (N, C, 1, …); equal largest values share the gradient."""
    return jnp.max(x, axis=_spatial(x), keepdims=True)


def _largest_of_slices(x: Array, kernel: Pair, stride: Pair, padding: Padding) -> Array:
    """Max pooling as comparisons of strided slices, first along the rows, then along the columns."""
    if padding != NO_PADDING:
        x = lax.pad(x, jnp.array(-jnp.inf, x.dtype), ((0, 0, 0), (0, 0, 0), (*padding[0], 0), (*padding[1], 0)))
    for axis in (3, 2):
        size, step = kernel[axis - 2], stride[axis - 2]
        last = (x.shape[axis] - size) // step * step
        slices = [lax.slice_in_dim(x, start, start + last + 1, step, axis) for start in range(size)]
        x = functools.reduce(_first_larger, slices)
    return x


def _first_larger(a: Array, b: Array) -> Array:
    """The larger of a and b, and a if they are equal; nan if one is nan."""
    return jnp.where((b > a) | (b != b), b, a)


def _spatial(x: Array) -> tuple[int, ...]:
    if x.ndim < 3 or math.prod(x.shape[2:]) == 0:
        raise ShapeError(f"expected an input (N, C, …) with at least one value per channel. Received shape {x.shape}")
    check_floating(x)
    return tuple(range(2, x.ndim))


def _tiles(kernel: Pair, stride: Pair, padding: Padding) -> bool:
    """Whether the windows are tiles: neither overlapping nor padded."""
    return kernel == stride and padding == NO_PADDING


def _tiled(x: Array, kernel: Pair) -> Array:
    """(N, C, H, W) → (N, C, H', kh, W', kw), rows and columns that fill no window cut off."""
    rows, columns = x.shape[2] // kernel[0], x.shape[3] // kernel[1]
    x = x[:, :, : rows * kernel[0], : columns * kernel[1]]
    return x.reshape(*x.shape[:2], rows, kernel[0], columns, kernel[1])


def _weights(size: Pair, kernel: Pair, stride: Pair, padding: Padding) -> np.ndarray:
    """1 / (how many values each window covers), padding not counted: (1, 1, H', W')."""
    counts = []
    for axis, windows in enumerate(output_size(size, kernel, stride, padding)):
        begins = np.arange(windows) * stride[axis] - padding[axis][0]
        counts.append(np.minimum(begins + kernel[axis], size[axis]) - np.maximum(begins, 0))
    return 1.0 / np.outer(*counts)[None, None]


def _check(x: Array, kernel: Pair, stride: Pair, padding: Padding) -> None:
    check_images(x)
    if max(padding[0]) >= kernel[0] or max(padding[1]) >= kernel[1]:
        raise ArgumentError(f"padding must be smaller than the kernel {kernel}. Received: {padding}")
    output_size(image_size(x), kernel, stride, padding)
