"""Pooling layers whose output has a given size: one value for each channel, or as many as asked for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax

from singax import ops
from singax.errors import ArgumentError
from singax.layer.base import Layer


class GlobalAvgPool2d(Layer):
    """The mean of each channel. Also called `GlobalAvgPool` and `GlobalAveragePool`. ONNX: GlobalAveragePool.

    **Shapes** x (N, C, H, W) → (N, C, 1, 1); other numbers of axes after C are taken too.

    >>> GlobalAvgPool2d().infer_shape((None, 8, 7, 7))
    (None, 8, 1, 1)
    """

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.global_average_pool(x)


class GlobalMaxPool2d(Layer):
    """The largest value of each channel. Also called `GlobalMaxPool`. ONNX: GlobalMaxPool.

    **Shapes** x (N, C, H, W) → (N, C, 1, 1); other numbers of axes after C are taken too.

    >>> GlobalMaxPool2d().infer_shape((None, 8, 7, 7))
    (None, 8, 1, 1)
    """

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.global_max_pool(x)


GlobalAveragePool = GlobalAvgPool = GlobalAvgPool2d
GlobalMaxPool = GlobalMaxPool2d


class GlobalLpPool(Layer):
    """The p-norm (Σ |x|^p)^(1 / p) of each channel. ONNX: GlobalLpPool.

    **Shapes** x (N, C, …) → (N, C, 1, …), any number of axes after C.

    **Args** p: an integer from 1 up (default 2).

    >>> GlobalLpPool().infer_shape((None, 8, 7, 7))
    (None, 8, 1, 1)
    """

    def __init__(self, p: int = 2) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.global_lp_pool(x, p=self.p)


class AdaptivePool(Layer):
    """What `AdaptiveAvgPool` and `AdaptiveMaxPool` have in common."""

    pool: Callable[..., jax.Array]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        several = isinstance(output_size, Sequence) and not isinstance(output_size, str)
        sizes = [_size(size, output_size) for size in (output_size if several else [output_size])]
        self.output_size = tuple(sizes) if several else sizes[0]

    def forward(self, x: jax.Array) -> jax.Array:
        given = self.output_size
        sizes = given if isinstance(given, tuple) else (given,) * max(x.ndim - 2, 1)
        return self.pool(x, output_size=sizes)


class AdaptiveAvgPool(AdaptivePool):
    """The mean of as many windows as asked for: window i of n goes from floor(i H / n) to ceil((i + 1) H / n).

    Also called `AdaptiveAvgPool1d`, `AdaptiveAvgPool2d` and `AdaptiveAvgPool3d`.

    **Shapes** x (N, C, H, W) → (N, C, *output_size); other numbers of axes after C are taken too.

    **Args** output_size: an integer for all axes, or a sequence of one for each; None leaves an axis as it is.

    **Raises** `ArgumentError` for sizes below 1, `ShapeError` for an input with another number of axes.

    *Differences from SINGA*: SINGA has no such layer. ONNX: AveragePool where n divides H along all axes, else none.

    >>> AdaptiveAvgPool((3, 2)).infer_shape((None, 8, 7, 7))
    (None, 8, 3, 2)
    """

    pool = staticmethod(ops.adaptive_avg_pool)


class AdaptiveMaxPool(AdaptivePool):
    """The largest value of as many windows as asked for. Windows, shapes and arguments as in `AdaptiveAvgPool`.

    Also called `AdaptiveMaxPool1d`, `AdaptiveMaxPool2d` and `AdaptiveMaxPool3d`. ONNX: MaxPool where the windows are
    tiles, else none.

    >>> AdaptiveMaxPool(1).infer_shape((None, 8, 7))
    (None, 8, 1)
    """

    pool = staticmethod(ops.adaptive_max_pool)


AdaptiveAvgPool1d = AdaptiveAvgPool2d = AdaptiveAvgPool3d = AdaptiveAvgPool
AdaptiveMaxPool1d = AdaptiveMaxPool2d = AdaptiveMaxPool3d = AdaptiveMaxPool


def _size(value: Any, given: Any) -> int | None:
    try:
        found = None if value is None else operator.index(value)
    except TypeError:
        found = 0
    if isinstance(value, bool) or (found is not None and found < 1):
        raise ArgumentError(
            f"output_size must be an integer from 1 up, None, or a sequence of those. Received: {given!r}"
        )
    return found
