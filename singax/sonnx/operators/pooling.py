"""Pooling: the largest, the mean or the norm of windows; and what undoes it."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from singax import ops
from singax.errors import ShapeError
from singax.ops.window import Sizes, Window
from singax.sonnx.operators.geometry import affordable, check_ranks, integral, pads_of, sliding, spatial
from singax.sonnx.operators.indices import within
from singax.sonnx.registry import Call, onnx_operator

Array = Any
Pair = tuple[Any, Any]

_MANY_PLACES = 32


def pooled_window(call: Call, x: Array) -> tuple[Window, dict[str, Any]]:
    """The window, and the arguments of our own pooling that say the same."""
    kernel = tuple(int(k) for k in call.attribute("kernel_shape") or ())
    check_ranks(x, kernel)
    found = sliding(call, kernel, x.shape)
    ceil = bool(call.attribute("ceil_mode", 0)) and call.attribute("auto_pad", "NOTSET") == "NOTSET"
    keywords = {"kernel": kernel, "stride": found.stride, "padding": found.padding, "dilation": found.dilation}
    return found, {**keywords, "ceil_mode": ceil}


@onnx_operator("MaxPool")
def max_pool(call: Call, x: Array) -> Any:
    """The largest value of each window, and where it stands."""
    x = jnp.asarray(x)
    found, keywords = pooled_window(call, x)
    floats = jnp.issubdtype(x.dtype, jnp.floating)
    if floats and not call.wants(1) and not (found.is_dilated and max(found.kernel) > _MANY_PLACES):
        return ops.max_pool(x, **keywords)
    found = found.rounded_up(x.shape[2:]) if keywords["ceil_mode"] else found
    largest, places = _largest_and_place(x, found)
    return (largest, _flat_places(places, x.shape, call.attribute("storage_order", 0))) if call.wants(1) else largest


def _largest_and_place(x: Array, found: Window) -> Pair:
    """The largest value of each window, and its place among the spatial axes in row-major order; the first of equals.

    The windows' rows are compared along the last axis first. Places in the padding are −1 and never win.
    """
    lowest = -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
    sizes = found.output_size(x.shape[2:])
    widths = ((0, 0, 0), (0, 0, 0), *((begin, end, 0) for begin, end in found.padding))
    places = jnp.arange(math.prod(x.shape[2:]), dtype=np.int64).reshape(1, 1, *x.shape[2:])
    pair = lax.pad(x, jnp.asarray(lowest, x.dtype), widths), lax.pad(places, jnp.asarray(-1, np.int64), widths)
    for axis in reversed(range(len(sizes))):
        pair = _largest_along(pair, axis + 2, sizes[axis], found.kernel[axis], found.stride[axis], found.dilation[axis])
    return pair


def _largest_along(pair: Pair, axis: int, count: int, kernel: int, step: int, hole: int) -> Pair:
    if kernel <= _MANY_PLACES:
        ends = [(start, start + (count - 1) * step + 1) for start in range(0, kernel * hole, hole)]
        slices: list[Pair] = [(_cut(pair[0], *each, step, axis), _cut(pair[1], *each, step, axis)) for each in ends]
        return functools.reduce(_first_larger, slices)
    affordable("all windows", (*pair[0].shape[:axis], count, kernel, *pair[0].shape[axis + 1 :]))
    index = np.arange(count)[:, None] * step + np.arange(kernel) * hole
    values, places = (jnp.take(a, index, axis) for a in pair)
    places = jnp.broadcast_to(places, values.shape)
    best = jnp.argmax(values, axis + 1, keepdims=True)
    return tuple(jnp.take_along_axis(a, best, axis + 1).squeeze(axis + 1) for a in (values, places))  # type: ignore[return-value]


def _cut(x: Array, start: int, stop: int, step: int, axis: int) -> Array:
    return lax.slice_in_dim(x, start, stop, step, axis)


def _first_larger(a: Pair, b: Pair) -> Pair:
    """The pair with the larger value, a if they are equal; NaN counts as the largest, padding as nothing."""
    second = (b[0] > a[0]) | (b[0] != b[0]) | (a[1] < 0)
    return jnp.where(second & (b[1] >= 0), b[0], a[0]), jnp.where(second & (b[1] >= 0), b[1], a[1])


def _flat_places(places: Array, shape: Sizes, column_major: int) -> Array:
    """Places as indices into the whole input; column-major: the first spatial axis moves fastest."""
    if column_major:
        parts = jnp.unravel_index(places, shape[2:])
        strides = np.cumprod([1, *shape[2:-1]])
        places = functools.reduce(jnp.add, [part * int(n) for part, n in zip(parts, strides, strict=True)])
    channels = np.arange(shape[0] * shape[1], dtype=np.int64) * math.prod(shape[2:])
    return places + channels.reshape(*shape[:2], *(1,) * (len(shape) - 2))


@onnx_operator("AveragePool")
def average_pool(call: Call, x: Array) -> Array:
    """The mean of each window."""
    x = jnp.asarray(x)
    return ops.avg_pool(x, **pooled_window(call, x)[1], count_include_pad=bool(call.attribute("count_include_pad", 0)))


@onnx_operator("LpPool")
def lp_pool(call: Call, x: Array) -> Array:
    """The p-norm of each window."""
    x = jnp.asarray(x)
    return ops.lp_pool(x, **pooled_window(call, x)[1], p=integral("p", call.attribute("p", 2)))


@onnx_operator("GlobalLpPool")
def global_lp_pool(call: Call, x: Array) -> Array:
    """The p-norm of each channel."""
    return ops.global_lp_pool(jnp.asarray(x), p=integral("p", call.attribute("p", 2)))


@onnx_operator("MaxUnpool")
def max_unpool(call: Call, x: Array, indices: Array, _: Array = None) -> Array:
    """Values at the places where a MaxPool found them, 0 elsewhere; `output_shape` adds zeros at the ends."""
    x = jnp.asarray(x)
    kernel = tuple(call.attribute("kernel_shape") or ())
    check_ranks(x, kernel)
    rows = zip(x.shape[2:], kernel, spatial(call, "strides", len(kernel)), pads_of(call, len(kernel)), strict=True)
    inferred = affordable("a result", (*x.shape[:2], *((n - 1) * s + k - sum(pads) for n, k, s, pads in rows)))
    flat = jnp.zeros(math.prod(inferred), x.dtype)
    within(call, indices, 0, flat.size - 1, "indices")
    y = flat.at[jnp.asarray(indices).reshape(-1)].set(x.reshape(-1), mode="drop").reshape(inferred)
    wanted = affordable("a result", call.ints(2, "", list(inferred)))
    if len(wanted) != y.ndim or wanted[:2] != y.shape[:2]:
        raise ShapeError(f"expected an output_shape {y.shape}, or larger. Received: {wanted}")
    return lax.pad(y, jnp.zeros((), y.dtype), [(0, more - n, 0) for n, more in zip(y.shape, wanted, strict=True)])
