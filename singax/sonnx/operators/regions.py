"""Regions of images, each pooled to one size."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.errors import ShapeError
from singax.ops.checks import one_of
from singax.ops.window import wide_dtype
from singax.sonnx.operators.geometry import affordable
from singax.sonnx.operators.indices import within
from singax.sonnx.registry import Call, NeedsHost, onnx_operator

Array = Any

_MOST_SAMPLES = 1 << 12


@onnx_operator("MaxRoiPool")
def max_roi_pool(call: Call, x: Array, rois: Array) -> Array:
    """The largest value of each part of each region (number of the image, x1, y1, x2, y2); 0 for an empty part."""
    x, rois = jnp.asarray(x), jnp.asarray(rois)
    height, width = call.attribute("pooled_shape")
    if x.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 5:
        raise ShapeError(f"expected images (N, C, H, W) and rois (R, 5). Received: {x.shape} and {rois.shape}")
    affordable("a result", (rois.shape[0], x.shape[1], height, width))
    affordable("a region", (x.shape[1], height, *x.shape[2:]))
    within(call, rois[:, 0], 0, x.shape[0] - 1, "numbers of images")
    wide = rois.astype(wide_dtype(rois.dtype))
    corners = jnp.trunc(wide[:, 1:] * call.attribute("spatial_scale", 1.0) + jnp.where(wide[:, 1:] < 0, -0.5, 0.5))

    def one(region: tuple[Array, Array]) -> Array:
        number, (x1, y1, x2, y2) = region
        rows, columns = _parts(y1, y2, height, x.shape[2]), _parts(x1, x2, width, x.shape[3])
        return _largest(_largest(x[number], columns, 2), rows, 1)

    return lax.map(one, (wide[:, 0].astype(jnp.int32), corners))


def _parts(first: Array, last: Array, count: int, size: int) -> Array:
    """Which of `size` places belong to each of `count` parts of a region: (count, size)."""
    part, step = jnp.arange(count), jnp.maximum(last - first + 1, 1) / count
    low = jnp.clip(jnp.floor(part * step) + first, 0, size)[:, None]
    high = jnp.clip(jnp.ceil((part + 1) * step) + first, 0, size)[:, None]
    places = jnp.arange(size)
    return (places >= low) & (places < high)


def _largest(x: Array, parts: Array, axis: int) -> Array:
    """The largest value of each part along an axis of x (C, H, W); 0 for parts without places."""
    moved = jnp.moveaxis(x, axis, -1)[..., None, :]
    found = jnp.max(jnp.where(parts, moved, -jnp.inf), axis=-1)
    return jnp.moveaxis(jnp.where(jnp.any(parts, axis=-1), found, 0), -1, axis).astype(x.dtype)


@onnx_operator("RoiAlign", since=10)
def roi_align_unshifted(call: Call, x: Array, rois: Array, numbers: Array) -> Array:
    """As of opset 16 with `output_half_pixel`."""
    return _roi_align(call, x, rois, numbers, "output_half_pixel")


@onnx_operator("RoiAlign", since=16)
def roi_align(call: Call, x: Array, rois: Array, numbers: Array) -> Array:
    """The mean, or the largest, of samples between the values of each part of each region (x1, y1, x2, y2).

    With `half_pixel` the centre of the first value is at 0.5 (He et al. 2017).
    """
    return _roi_align(call, x, rois, numbers, call.attribute("coordinate_transformation_mode", "half_pixel"))


def _roi_align(call: Call, x: Array, rois: Array, numbers: Array, transform: str) -> Array:
    one_of("RoiAlign", "coordinate_transformation_mode", transform, ("half_pixel", "output_half_pixel"))
    mode = str(call.attribute("mode", "avg"))
    one_of("RoiAlign", "mode", mode, ("avg", "max"))
    x = jnp.asarray(x)
    if x.ndim != 4 or np.ndim(rois) != 2 or np.shape(rois)[1] != 4:
        raise ShapeError(f"expected images (N, C, H, W) and rois (R, 4). Received: {x.shape} and {np.shape(rois)}")
    sizes = (call.attribute("output_height", 1), call.attribute("output_width", 1))
    affordable("a result", (np.shape(rois)[0], x.shape[1], *sizes))
    within(call, numbers, 0, x.shape[0] - 1, "batch_indices")
    most = _most_samples(call, x.shape[2:], sizes, mode)
    wide, half = jnp.asarray(rois, wide_dtype(rois.dtype)), transform == "half_pixel"
    corners = wide * call.attribute("spatial_scale", 1.0) - (0.5 if half else 0.0)
    pool = _mean_of_samples if mode == "avg" else _largest_of_samples

    def one(region: tuple[Array, Array]) -> Array:
        number, (x1, y1, x2, y2) = region
        bounds = zip(((y1, y2), (x1, x2)), sizes, x.shape[2:], most, strict=True)
        rows, columns = (_samples(call, a, b, half, *rest) for (a, b), *rest in bounds)
        return pool(x[number].astype(wide.dtype), rows, columns)

    return lax.map(one, (jnp.asarray(numbers), corners)).astype(x.dtype)


def _most_samples(call: Call, images: tuple[int, ...], sizes: tuple[int, int], mode: str) -> list[int]:
    """How many samples of a part, along each axis, there are at most: those far outside count as nothing."""
    ratio = call.attribute("sampling_ratio", 0)
    most = [min(ratio, _MOST_SAMPLES + 1) if ratio > 0 else 2 * n + 4 for n in images]
    rois = call.inputs[1]
    if ratio <= 0 and isinstance(rois, np.ndarray) and rois.size:
        extents = (np.abs(rois[:, 3:1:-1] - rois[:, 1::-1]) * abs(call.attribute("spatial_scale", 1.0))).max(0)
        most = [min(n, math.ceil(max(e, 1) / size) + 1) for n, e, size in zip(most, extents, sizes, strict=True)]
    samples = math.prod(n * size for n, size in zip(most, sizes, strict=True))
    if mode == "max" and ratio <= 0 and not isinstance(rois, np.ndarray) and samples > 1 << 16:
        raise NeedsHost("how many samples there are depends on data", call.node.inputs[1:2])
    if ratio > _MOST_SAMPLES:
        raise ShapeError(f"expected a sampling_ratio of at most {_MOST_SAMPLES}. Received: {ratio}")
    return most


def _samples(
    call: Call, first: Array, last: Array, half: bool, count: int, size: int, most: int
) -> tuple[Array, Array, Array]:
    """Weights (count, most, size) of the values at each sample, which samples there are, and how many for the mean."""
    extent = last - first if half else jnp.maximum(last - first, 1)
    step, ratio = extent / count, call.attribute("sampling_ratio", 0)
    number = jnp.asarray(float(ratio), step.dtype) if ratio > 0 else jnp.ceil(step)
    each = step / jnp.where(number == 0, 1, number)
    starts = first + jnp.arange(count) * step
    skipped = jnp.zeros_like(starts) if ratio > 0 else jnp.floor(jnp.clip((-1 - starts) / each, 0, number) - 0.5)
    order = jnp.maximum(skipped, 0)[:, None] + jnp.arange(most)
    points = starts[:, None] + (order + 0.5) * each
    inside = (points >= -1) & (points <= size)
    near = jnp.clip(points, 0, size - 1)[..., None]
    weights = jnp.maximum(1 - jnp.abs(near - jnp.arange(size)), 0)
    there = order < number
    return jnp.where((inside & there)[..., None], weights, 0), there, jnp.maximum(number, 0)


def _mean_of_samples(x: Array, rows: Any, columns: Any) -> Array:
    """Samples lie on a grid, so that their mean is a product with a matrix along each axis."""
    (down, _, n), (across, _, m) = rows, columns
    total = jnp.einsum("chw,ph,qw->cpq", x, down.sum(1), across.sum(1))
    return total / jnp.maximum(n * m, 1)


def _largest_of_samples(x: Array, rows: Any, columns: Any) -> Array:
    """The largest of the weighted values around all samples."""
    (down, has_row, _), (across, has_column, _) = rows, columns
    products = [jnp.einsum("chw,pih,qjw->cpiqj", x, one, other) for one in _corners(down) for other in _corners(across)]
    values = jnp.max(jnp.stack(products), axis=0)
    there = has_row[:, :, None, None] & has_column[None, None]
    largest = jnp.max(jnp.where(there, values, -jnp.inf), axis=(2, 4))
    return jnp.where(jnp.any(there, axis=(1, 3)), largest, 0)


def _corners(weights: Array) -> tuple[Array, Array]:
    """Weights of two neighbours as those of the lower and those of the upper one."""
    lower = jax.nn.one_hot(jnp.argmax(weights > 0, axis=-1), weights.shape[-1], dtype=weights.dtype)
    return weights * lower, weights * (1 - lower)
