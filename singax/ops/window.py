"""Geometry of two-dimensional windows, and the checks that convolution, pooling and normalisation share.

A padding is ((top, bottom), (left, right)).

>>> same_padding((5, 5), (2, 2), (1, 1), upper=True)
((0, 1), (0, 1))
>>> output_size((5, 5), (2, 2), (1, 1), ((0, 1), (0, 1)))
(5, 5)
"""

from __future__ import annotations

import jax
import numpy as np

from singax.dtypes import float32, is_floating
from singax.errors import DTypeError, ShapeError

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]

NO_PADDING: Padding = ((0, 0), (0, 0))


def extent(kernel: Pair, dilation: Pair) -> Pair:
    """The sizes that a dilated kernel covers."""
    return (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1


def output_size(size: Pair, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair = (1, 1)) -> Pair:
    """How many windows fit: floor((size + padding − extent) / stride) + 1 along each axis.

    Raises `ShapeError` if not even one does.
    """
    covered = extent(kernel, dilation)
    padded = size[0] + sum(padding[0]), size[1] + sum(padding[1])
    if padded[0] < covered[0] or padded[1] < covered[1]:
        raise ShapeError(
            f"expected an input of at least {covered} after padding, the extent of the kernel {kernel}. "
            f"Received: {size} with padding {padding}"
        )
    return (padded[0] - covered[0]) // stride[0] + 1, (padded[1] - covered[1]) // stride[1] + 1


def same_padding(size: Pair, kernel: Pair, stride: Pair, upper: bool, dilation: Pair = (1, 1)) -> Padding:
    """The padding that gives ceil(size / stride) windows; an odd row or column goes to the end if `upper`."""
    pads = []
    for length, covered, step in zip(size, extent(kernel, dilation), stride, strict=True):
        total = max((-(-length // step) - 1) * step + covered - length, 0)
        small, large = total // 2, total - total // 2
        pads.append((small, large) if upper else (large, small))
    return pads[0], pads[1]


def onnx_pads(padding: Padding) -> list[int]:
    """The padding as the ONNX attribute `pads`: all begins, then all ends."""
    return [padding[0][0], padding[1][0], padding[0][1], padding[1][1]]


def image_size(x: jax.Array) -> Pair:
    """(H, W) of images or kernels (…, H, W)."""
    return x.shape[-2], x.shape[-1]


def wide_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype to accumulate in: float32 for float16 and bfloat16, else `dtype` itself."""
    return float32 if dtype.itemsize < float32.itemsize else dtype


def check_images(x: jax.Array) -> None:
    """Raise `ShapeError` or `DTypeError` unless x is (N, C, H, W) of floats."""
    if x.ndim != 4:
        raise ShapeError(f"expected an input (N, C, H, W). Received shape {x.shape}")
    check_floating(x)


def check_floating(x: jax.Array) -> None:
    """Raise `DTypeError` unless x holds floats."""
    if not is_floating(x.dtype):
        raise DTypeError(f"expected an input of floats, such as float32. Received dtype {x.dtype}")
