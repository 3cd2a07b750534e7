"""Pooling layers."""

from __future__ import annotations

from typing import Any

import jax

from singax import ops
from singax.layer.base import Layer
from singax.layer.window import window


class Pooling2d(Layer):
    """The largest value or the mean of each window.

    **Shapes** x (N, C, H, W) → (N, C, H', W') with H' = floor((H + top + bottom − kh) / s) + 1, W' alike.

    **Args**
      kernel_size: an integer, or two (height, width).
      stride: likewise; default: the kernel size.
      padding: an integer, two (height, width) or four (top, bottom, left, right), smaller than the kernel; None goes
        only with SAME. Padding is never the largest value and does not count in a mean.
      is_max: the largest value (default) or the mean.
      pad_mode: "NOTSET" (as `padding` says), "VALID" (none), "SAME_UPPER" or "SAME_LOWER" (H' = ceil(H / s); an odd row
        or column goes to the end or to the beginning).

    **Raises** `ArgumentError` for arguments outside of these, `ShapeError` for an input that is not (N, C, H, W) or is
    smaller than the kernel, `DTypeError` for one of integers.

    *Differences from SINGA*: padding with an odd row or column is like any other (SINGA repeats the border there);
    batch and image size are free, and SAME follows the size of each input. ONNX: MaxPool or AveragePool.

    >>> Pooling2d(3, 2, padding=1).infer_shape((None, 8, 28, 28))
    (None, 8, 14, 14)
    """

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, is_max: bool = True, pad_mode: str = "NOTSET"
    ) -> None:
        super().__init__()
        self.window = window(kernel_size, stride, padding, pad_mode)
        self.is_max = is_max

    def forward(self, x: jax.Array) -> jax.Array:
        pool = ops.max_pool2d if self.is_max else ops.avg_pool2d
        found = self.window
        return pool(x, kernel=found.kernel, stride=found.stride, padding=found.padding_for(x))


class MaxPool2d(Pooling2d):
    """The largest value of each window: `Pooling2d` with `is_max=True`. ONNX: MaxPool.

    >>> MaxPool2d(2).infer_shape((None, 8, 28, 28))
    (None, 8, 14, 14)
    """

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, pad_mode: str = "NOTSET") -> None:
        super().__init__(kernel_size, stride, padding, True, pad_mode)


class AvgPool2d(Pooling2d):
    """The mean of each window, padding not counted: `Pooling2d` with `is_max=False`. ONNX: AveragePool.

    >>> AvgPool2d(2, pad_mode="SAME_UPPER").infer_shape((None, 8, 7, 7))
    (None, 8, 4, 4)
    """

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, pad_mode: str = "NOTSET") -> None:
        super().__init__(kernel_size, stride, padding, False, pad_mode)


class GlobalAvgPool2d(Layer):
    """The mean of each channel. Also called `GlobalAveragePool`. ONNX: GlobalAveragePool.

    **Shapes** x (N, C, H, W) → (N, C, 1, 1); other numbers of axes after C are taken too.

    >>> GlobalAvgPool2d().infer_shape((None, 8, 7, 7))
    (None, 8, 1, 1)
    """

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.global_average_pool(x)


GlobalAveragePool = GlobalAvgPool2d


class GlobalMaxPool2d(Layer):
    """The largest value of each channel. ONNX: GlobalMaxPool.

    **Shapes** x (N, C, H, W) → (N, C, 1, 1); other numbers of axes after C are taken too.

    >>> GlobalMaxPool2d().infer_shape((None, 8, 7, 7))
    (None, 8, 1, 1)
    """

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.global_max_pool(x)
