"""Convolution and pooling in NumPy, along any number of axes: independent of the code under test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Pads = Sequence[Sequence[int]]


def starts(length: int, covered: int, step: int, pads: Sequence[int], ceil: bool) -> list[int]:
    """Where windows begin, counted from the first value of the axis."""
    begin, end = pads
    if not ceil:
        return [t for t in range(-begin, length + end, step) if t + covered <= length + end]
    return [t for t in range(-begin, length, step) if t == -begin or t - step + covered < length + end]


def views(
    x: np.ndarray,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Pads,
    dilation: Sequence[int],
    fill: float,
    ceil: bool = False,
) -> np.ndarray:
    """(N, C, …) → (N, C, windows, …, kernel, …); what lies outside of x is `fill`."""
    axes = len(kernel)
    margin = [(pads[0], pads[1] + k * d + s) for pads, k, d, s in zip(padding, kernel, dilation, stride, strict=True)]
    found = np.pad(x, ((0, 0), (0, 0), *margin), constant_values=fill)
    for axis in range(axes):
        covered = (kernel[axis] - 1) * dilation[axis] + 1
        begin = padding[axis][0]
        first = np.array(starts(x.shape[axis + 2], covered, stride[axis], padding[axis], ceil)) + begin
        places = first[:, None] + np.arange(kernel[axis]) * dilation[axis]
        found = np.take(found, places, axis=2 + 2 * axis)
    order = [0, 1, *range(2, 2 + 2 * axes, 2), *range(3, 3 + 2 * axes, 2)]
    return found.transpose(order)


def filled(
    axes: int, stride: Any = None, padding: Any = None, dilation: Any = None, default: Any = None
) -> tuple[Any, Any, Any]:
    """Stride, padding and dilation, where absent as ONNX has them."""
    ones = (1,) * axes
    return stride or default or ones, padding or ((0, 0),) * axes, dilation or ones


def conv(x: Any, W: Any, b: Any = None, *, groups: int = 1, **window: Any) -> np.ndarray:
    """Cross-correlation, one group of channels after the other."""
    x, W = np.asarray(x), np.asarray(W)
    axes = W.ndim - 2
    stride, padding, dilation = filled(axes, **window)
    seen = views(x, W.shape[2:], stride, padding, dilation, 0.0)
    parts = []
    for inputs, kernels in zip(np.split(seen, groups, axis=1), np.split(W, groups), strict=True):
        inside = list(range(2 + axes, 2 + 2 * axes))
        parts.append(np.moveaxis(np.tensordot(inputs, kernels, ([1, *inside], [1, *range(2, 2 + axes)])), -1, 1))
    y = np.concatenate(parts, axis=1)
    return y if b is None else y + np.asarray(b).reshape(-1, *(1,) * axes)


def conv_transpose(
    x: Any, W: Any, b: Any = None, *, groups: int = 1, output_padding: Any = None, **window: Any
) -> np.ndarray:
    """Every value adds a kernel; then the padding is cut off."""
    x, W = np.asarray(x), np.asarray(W)
    axes, channels = W.ndim - 2, W.shape[0] // groups
    stride, padding, dilation = filled(axes, **window)
    more = output_padding or (0,) * axes
    sizes = [
        s * (n - 1) + (k - 1) * d + 1 + extra
        for n, k, s, d, extra in zip(x.shape[2:], W.shape[2:], stride, dilation, more, strict=True)
    ]
    y = np.zeros((x.shape[0], W.shape[1] * groups, *sizes), x.dtype)
    for place in np.ndindex(*x.shape[2:]):
        for u in np.ndindex(*W.shape[2:]):
            at = tuple(i * s + j * d for i, j, s, d in zip(place, u, stride, dilation, strict=True))
            for g in range(groups):
                inputs = slice(g * channels, (g + 1) * channels)
                outputs = slice(g * W.shape[1], (g + 1) * W.shape[1])
                y[(slice(None), outputs, *at)] += x[(slice(None), inputs, *place)] @ W[(inputs, slice(None), *u)]
    cut = tuple(slice(begin, size - end) for (begin, end), size in zip(padding, sizes, strict=True))
    y = y[(slice(None), slice(None), *cut)]
    return y if b is None else y + np.asarray(b).reshape(-1, *(1,) * axes)


def pool(reduce: Callable[..., Any], x: Any, *, kernel: Any, ceil_mode: bool = False, **window: Any) -> np.ndarray:
    """`reduce` over each window; what lies outside of x is nan."""
    x = np.asarray(x)
    axes = len(kernel)
    stride, padding, dilation = filled(axes, default=kernel, **window)
    seen = views(x, kernel, stride, padding, dilation, np.nan, ceil_mode)
    return np.asarray(reduce(seen, axis=tuple(range(2 + axes, 2 + 2 * axes))), x.dtype)


def mean_with_padding(x: Any, *, kernel: Any, padding: Any, **window: Any) -> np.ndarray:
    """Means in which the declared padding counts as zeros."""
    padded = np.pad(np.asarray(x), ((0, 0), (0, 0), *padding))
    windows = pool(np.nanmean, x, kernel=kernel, padding=padding, **window).shape
    return pool(np.nanmean, padded, kernel=kernel, **window)[tuple(slice(count) for count in windows)]


def p_norm(p: int) -> Callable[..., Any]:
    """The p-norm, nan left out."""
    return lambda x, axis: np.nansum(np.abs(x) ** p, axis=axis) ** (1 / p)


def adaptive(reduce: Callable[..., Any], x: Any, output_size: Sequence[int]) -> np.ndarray:
    """`reduce` over windows that go from floor(i L / n) to ceil((i + 1) L / n)."""
    x = np.asarray(x)
    y = np.zeros((*x.shape[:2], *output_size), x.dtype)
    for place in np.ndindex(*output_size):
        window = tuple(
            slice(i * length // n, -(-(i + 1) * length // n))
            for i, length, n in zip(place, x.shape[2:], output_size, strict=True)
        )
        part = x[(slice(None), slice(None), *window)]
        y[(slice(None), slice(None), *place)] = reduce(part, axis=tuple(range(2, x.ndim)))
    return y
