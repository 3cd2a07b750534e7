"""Resize and Upsample: along one axis after another, each new value a weighted sum of a few old ones.

Coordinates and output sizes are computed in float32, as exporters and other runtimes do: the difference decides where
a coordinate falls exactly between two values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import normal_axes, one_of
from singax.ops.window import wide_dtype
from singax.sonnx.operators.geometry import affordable
from singax.sonnx.operators.sampling import cubic_weights
from singax.sonnx.registry import Call, onnx_operator

Array = Any

_FEW_TAPS = 4
_TRANSFORMS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)
_ROUNDINGS = {
    "round_prefer_floor": lambda places, scale: np.ceil(places - np.float32(0.5)),
    "round_prefer_ceil": lambda places, scale: np.floor(places + np.float32(0.5)),
    "floor": lambda places, scale: np.floor(places),
    "ceil": lambda places, scale: np.ceil(places),
    "of opset 10": lambda places, scale: np.ceil(places) if scale < 1 else np.floor(places),
}


@dataclass(frozen=True)
class Way:
    """How to resize: the attributes of the operator."""

    mode: str
    transform: str
    rounding: str
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    extrapolation: float = 0.0


@dataclass(frozen=True)
class Axis:
    """One axis to resize: its number, sizes, scale, and the part of it that is looked at."""

    number: int
    old: int
    new: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@onnx_operator("Upsample", since=1)
def upsample_of_images(call: Call, x: Array) -> Array:
    """The last two axes by `height_scale` and `width_scale`, or before opset 9 all axes by `scales`."""
    pair = [call.attribute("height_scale"), call.attribute("width_scale")]
    scales = call.attribute("scales") or [1.0, 1.0, *(1.0 if s is None else s for s in pair)]
    return _by_scales(call, x, scales)


@onnx_operator("Upsample", since=9)
def upsample(call: Call, x: Array, _: Array) -> Array:
    """All axes by scales."""
    return _by_scales(call, x, call.static(1).reshape(-1))


@onnx_operator("Resize", since=10)
def resize_by_scales(call: Call, x: Array, _: Array) -> Array:
    """All axes by scales."""
    return _by_scales(call, x, call.static(1).reshape(-1))


def _by_scales(call: Call, x: Array, scales: Sequence[float]) -> Array:
    """As before opset 11: coordinates are divided by the scale."""
    mode = str(call.attribute("mode", "nearest")).removeprefix("bi")
    one_of(call.node.op_type, "mode", mode, ("nearest", "linear"))
    x = jnp.asarray(x)
    _check_count(scales, x.ndim, "scales")
    return _resized(x, _axes_by_scale(x, range(x.ndim), scales), Way(mode, "asymmetric", "of opset 10"))


@onnx_operator("Resize", since=11)
def resize(call: Call, x: Array, *_: Array) -> Array:
    """Axes by scales, or to sizes."""
    x = jnp.asarray(x)
    axes = normal_axes("Resize", call.attribute("axes") or range(x.ndim), x.ndim)
    scales, sizes = _given(call, 2), _given(call, 3)
    if (scales is None) == (sizes is None):
        raise ArgumentError("expected either scales or sizes. Received: both, or none")
    if scales is not None:
        _check_count(scales, len(axes), "scales")
        found = _axes_by_scale(x, axes, scales)
    else:
        _check_count(sizes, len(axes), "sizes")
        policy = call.attribute("keep_aspect_ratio_policy", "stretch")
        found = _axes_by_size(x, axes, [int(n) for n in sizes], policy)
    way = _way(call)
    return _resized(x, _with_roi(call, found) if way.transform == "tf_crop_and_resize" else found, way)


def _given(call: Call, position: int) -> Any:
    """An input that is absent if it has no elements."""
    value = call.static(position)
    return None if value is None or value.size == 0 else value.reshape(-1)


def _way(call: Call) -> Way:
    way = Way(
        call.attribute("mode", "nearest"),
        call.attribute("coordinate_transformation_mode", "half_pixel"),
        call.attribute("nearest_mode", "round_prefer_floor"),
        call.attribute("cubic_coeff_a", -0.75),
        bool(call.attribute("antialias", 0)),
        bool(call.attribute("exclude_outside", 0)),
        call.attribute("extrapolation_value", 0.0),
    )
    one_of("Resize", "mode", way.mode, ("nearest", "linear", "cubic"))
    one_of("Resize", "coordinate_transformation_mode", way.transform, _TRANSFORMS)
    one_of("Resize", "nearest_mode", way.rounding, list(_ROUNDINGS)[:4])
    return way


def _check_count(values: Sequence[Any], count: int, what: str) -> None:
    if len(values) != count or not all(math.isfinite(v) and v >= 0 for v in values):
        raise ShapeError(f"expected {what} of 0 or more for {count} axes. Received: {[float(v) for v in values][:8]}")


def _axes_by_scale(x: Array, axes: Sequence[int], scales: Sequence[float]) -> list[Axis]:
    sizes = [(axis, x.shape[axis], np.float32(scale)) for axis, scale in zip(axes, scales, strict=True)]
    return [Axis(axis, old, math.floor(np.float32(old) * scale), float(scale)) for axis, old, scale in sizes]


def _axes_by_size(x: Array, axes: Sequence[int], sizes: Sequence[int], policy: str) -> list[Axis]:
    one_of("Resize", "keep_aspect_ratio_policy", policy, ("stretch", "not_larger", "not_smaller"))
    affordable("a result", sizes)
    if 0 in x.shape:
        raise ShapeError(f"expected an input with elements. Received shape {x.shape}")
    scales = [size / x.shape[axis] for axis, size in zip(axes, sizes, strict=True)]
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        scales, sizes = [scale] * len(axes), [math.floor(scale * x.shape[axis] + 0.5) for axis in axes]
    return [
        Axis(axis, x.shape[axis], size, float(np.float32(scale)))
        for axis, size, scale in zip(axes, sizes, scales, strict=True)
    ]


def _with_roi(call: Call, axes: list[Axis]) -> list[Axis]:
    """The axes with the part of each that the input `roi` says: all starts, then all ends."""
    roi = _given(call, 1)
    if roi is None or len(roi) != 2 * len(axes):
        raise ShapeError(f"expected a roi of {2 * len(axes)} values. Received: {None if roi is None else len(roi)}")
    bounds = zip(axes, roi[: len(axes)], roi[len(axes) :], strict=True)
    return [Axis(a.number, a.old, a.new, a.scale, float(start), float(end)) for a, start, end in bounds]


def _resized(x: Array, axes: list[Axis], way: Way) -> Array:
    sizes = list(x.shape)
    for axis in axes:
        sizes[axis.number] = axis.new
    affordable("a result", sizes)
    affordable("a result on the way", [max(pair) for pair in zip(x.shape, sizes, strict=True)])
    if 0 in sizes or 0 in x.shape:
        return jnp.zeros(sizes, x.dtype)
    y = x if way.mode == "nearest" else x.astype(_work_dtype(x.dtype))
    for axis in sorted(axes, key=lambda a: a.new / a.old):
        y = _along_axis(y, axis, way)
    return y if y.dtype == x.dtype else _narrowed(y, x.dtype)


def _work_dtype(dtype: Any) -> Any:
    floats = jnp.issubdtype(dtype, jnp.floating)
    return wide_dtype(dtype) if floats else np.float32 if np.dtype(dtype).itemsize < 4 else np.float64


def _narrowed(y: Array, dtype: Any) -> Array:
    """Floats in the dtype of the input: integers are rounded, and stay within what it holds."""
    if jnp.issubdtype(dtype, jnp.floating):
        return y.astype(dtype)
    limits = jnp.iinfo(dtype)
    return jnp.clip(jnp.round(y), float(limits.min), float(limits.max)).astype(dtype)


def _along_axis(x: Array, axis: Axis, way: Way) -> Array:
    """One axis resized."""
    if axis.new == axis.old and math.isclose(axis.scale, 1) and (axis.start, axis.end) == (0, 1):
        return x
    places = _places(axis, way.transform)
    y = _nearest(x, axis, way, places) if way.mode == "nearest" else _interpolated(x, axis, way, places)
    if way.transform != "tf_crop_and_resize":
        return y
    beyond = (places < 0) | (places > axis.old - 1)
    return jnp.where(_aligned(beyond, axis, x.ndim), jnp.asarray(way.extrapolation, y.dtype), y) if beyond.any() else y


def _places(axis: Axis, transform: str) -> np.ndarray:
    """Where each new value stands among the old ones."""
    k, half = np.arange(axis.new, dtype=np.float32), np.float32(0.5)
    scale, last = np.float32(axis.scale), np.float32(axis.old - 1)
    width = scale * np.float32(axis.old)
    if transform == "align_corners":
        return k * np.float32(0) if width == 1 else k * last / (width - 1)
    if transform == "asymmetric":
        return k / scale
    if transform == "tf_half_pixel_for_nn":
        return (k + half) / scale
    if transform == "tf_crop_and_resize":
        extent = np.float32(axis.end) - np.float32(axis.start)
        steps = k * 0 + extent * last / 2 if width == 1 else k * extent * last / (width - 1)
        return np.float32(axis.start) * last + steps
    if transform == "pytorch_half_pixel" and axis.new == 1:
        return k * np.float32(0)
    shift = np.float32(axis.old) / 2 * (1 - np.float32(axis.new) / width) if transform.endswith("symmetric") else 0
    return np.asarray(shift + ((k + half) / scale - half), np.float32)


def _nearest(x: Array, axis: Axis, way: Way, places: np.ndarray) -> Array:
    rounded = _ROUNDINGS[way.rounding](places, axis.scale)
    index = np.clip(rounded, 0, axis.old - 1).astype(np.int64)
    times = axis.new // axis.old
    if axis.new == times * axis.old and np.array_equal(index, np.arange(axis.new) // times):
        return jnp.repeat(x, times, axis.number)
    return jnp.take(x, index, axis.number)


def _interpolated(x: Array, axis: Axis, way: Way, places: np.ndarray) -> Array:
    index, weights = _taps(axis, way, places)
    if weights.shape[1] > _FEW_TAPS:
        matrix = np.zeros((axis.new, axis.old))
        np.add.at(matrix, (np.arange(axis.new)[:, None], index), weights)
        y = jnp.tensordot(x, jnp.asarray(matrix, x.dtype), ((axis.number,), (1,)))
        return jnp.moveaxis(y, -1, axis.number)
    total: Array = 0
    for tap in range(weights.shape[1]):
        taken = jnp.take(x, index[:, tap], axis.number)
        total = total + taken * _aligned(weights[:, tap], axis, x.ndim).astype(x.dtype)
    return total


def _taps(axis: Axis, way: Way, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The old values that each new one looks at, and their weights: (new, taps) each."""
    below = np.floor(places)
    rest = (places - below).astype(np.float64)[:, None]
    shrink = min(axis.scale, 1.0) if way.antialias else 1.0
    reach = 1 if way.mode == "linear" else 2
    affordable("the weights of a resize", (axis.new, 2 * math.ceil(min(reach / shrink, 2 * axis.old))))
    each = min(math.ceil(reach / shrink), 2 * axis.old)
    steps = np.arange(1 - each, each + 1)
    weights = _weights(way, rest, steps, shrink)
    index = below.astype(np.int64)[:, None] + steps
    if way.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    if way.exclude_outside:
        weights = np.where((index < 0) | (index >= axis.old), 0, weights)
        total = weights.sum(1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
    return np.clip(index, 0, axis.old - 1), weights


def _weights(way: Way, rest: np.ndarray, steps: np.ndarray, shrink: float) -> np.ndarray:
    distance = np.abs(steps - rest) * shrink
    if way.mode == "linear":
        return np.maximum(1 - distance, 0)
    near, far = (cubic_weights(d, way.cubic) for d in (np.minimum(distance, 1), np.clip(distance, 1, 2) - 1))
    return np.where(distance <= 1, near[1], np.where(distance < 2, far[0], 0))


def _aligned(values: np.ndarray, axis: Axis, ndim: int) -> np.ndarray:
    return values.reshape([-1 if k == axis.number else 1 for k in range(ndim)])
