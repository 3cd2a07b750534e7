"""Pooling to a given size: window i of n along an axis of length L goes from floor(i L / n) to ceil((i + 1) L / n).

Where n divides L along every axis this is ordinary pooling, which has an ONNX operator.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError
from singax.ops.checks import one_per_axis
from singax.ops.operation import Operation, operation
from singax.ops.pooling import avg_pool, global_average_pool, global_max_pool, max_pool
from singax.ops.window import Sizes, check_channels, widened

Array = jax.Array


def adaptive_avg_pool(x: Array, *, output_size: tuple[int | None, ...]) -> Array:
    """The means of as many windows along each spatial axis of x (N, C, …) as `output_size` says; None: all values."""
    sizes = _sizes("adaptive_avg_pool", x, output_size)
    found = _regular(x, sizes, avg_pool, global_average_pool)
    return uneven_avg_pool(x, output_size=sizes) if found is None else found


def adaptive_max_pool(x: Array, *, output_size: tuple[int | None, ...]) -> Array:
    """The largest values of as many windows along each spatial axis of x (N, C, …) as `output_size` says.

    None stands for all values of an axis.
    """
    sizes = _sizes("adaptive_max_pool", x, output_size)
    found = _regular(x, sizes, max_pool, global_max_pool)
    return uneven_max_pool(x, output_size=sizes) if found is None else found


@operation(None)
def uneven_avg_pool(x: Array, *, output_size: Sizes) -> Array:
    """`adaptive_avg_pool` where the windows differ in size or overlap."""
    wide = widened(x)
    for axis, count in enumerate(output_size, start=2):
        places, inside = _places(wide.shape[axis], count)
        weights = (inside / inside.sum(1, keepdims=True)).astype(wide.dtype)
        columns = weights.reshape(*(1,) * axis, *weights.shape, *(1,) * (wide.ndim - axis - 1))
        wide = jnp.sum(jnp.take(wide, places, axis) * columns, axis + 1)
    return wide.astype(x.dtype)


@operation(None)
def uneven_max_pool(x: Array, *, output_size: Sizes) -> Array:
    """`adaptive_max_pool` where the windows differ in size or overlap."""
    for axis, count in enumerate(output_size, start=2):
        x = jnp.max(jnp.take(x, _places(x.shape[axis], count)[0], axis), axis + 1)
    return x


def _places(length: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of each window, the last one repeated where a window is shorter, and whether they are inside."""
    starts = np.arange(count) * length // count
    ends = -(-np.arange(1, count + 1) * length // count)
    places = starts[:, None] + np.arange((ends - starts).max())
    return np.minimum(places, ends[:, None] - 1), places < ends[:, None]


def _regular(x: Array, sizes: Sizes, pool: Operation, whole: Operation) -> Array | None:
    """The result by ordinary pooling, if all windows are tiles of one size."""
    if set(sizes) == {1}:
        return whole(x)
    if any(length % count for length, count in zip(x.shape[2:], sizes, strict=True)):
        return None
    return pool(x, kernel=tuple(length // count for length, count in zip(x.shape[2:], sizes, strict=True)))


def _sizes(name: str, x: Array, output_size: tuple[int | None, ...]) -> Sizes:
    check_channels(name, x)
    one_per_axis(name, "an output size", output_size, x.ndim - 2)
    found = tuple(size if given is None else given for size, given in zip(x.shape[2:], output_size, strict=True))
    if min(found) < 1:
        raise ArgumentError(f"{name} expected an output_size of 1 or more. Received: {output_size}")
    return found
