"""Exact products of small integers.

XLA multiplies integers several times more slowly than floats. A float32 holds every integer up to 2²⁴, so the sum of
a few products of such integers is exact in it, in any order: the sum is divided into stretches that short, which are
added as int32. Two CPU cores, (32, 512) × (512, 2048): int32 4.7 ms, float64 2.6 ms, this 1.1 ms.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax import ops
from singax.ops.window import Window

Array = Any

_EXACT = 1 << 24


def centred(x: Array, zero_point: Array = None) -> Array:
    """x less its zero point, in int32."""
    x = jnp.asarray(x).astype(np.int32)
    return x if zero_point is None else x - jnp.asarray(zero_point).astype(np.int32)


def largest(x: Array, zero_point: Array = None) -> int:
    """A bound of |x − zero point| that the dtype gives."""
    limits = jnp.iinfo(x.dtype)
    return int(limits.max) - int(limits.min) if zero_point is not None else max(int(limits.max), -int(limits.min))


def stretch(*bounds: int) -> int:
    """How many products of integers within these bounds float32 can add exactly; 0 for none."""
    return _EXACT // max(math.prod(bounds), 1)


def stretch_for(bound: int, b: np.ndarray | None, b_zero: np.ndarray | None) -> int | None:
    """How many rows of this very matrix b (…, K, N) float32 can multiply and add exactly with integers up to `bound`.

    What counts is the largest sum of a column's magnitudes, in every stretch of that many rows: for the weights of a
    network a few times less than what their dtype allows. None where b or its zero point are not known.
    """
    if b is None or b.ndim < 2 or not b.size:
        return None
    sums = np.abs(b.astype(np.int32) - (0 if b_zero is None else b_zero.astype(np.int32)))
    length = b.shape[-2]
    for parts in range(1, length + 1):
        most = -(-length // parts)
        starts = np.arange(0, length, most)
        if int(np.add.reduceat(sums, starts, axis=-2, dtype=np.int64).max()) * bound <= _EXACT:
            return most
    return None


def integer_matmul(a: Array, b: Array, a_zero: Array = None, b_zero: Array = None, most: int | None = None) -> Array:
    """(a − its zero point) · (b − its zero point) in int32, as `jnp.matmul` has it; `most`: see `stretch_for`."""
    most = stretch(largest(a, a_zero), largest(b, b_zero)) if most is None else most
    left, right = centred(a, a_zero), centred(b, b_zero)
    if not most:
        return jnp.matmul(left, right)
    length, rows = left.shape[-1], max(right.ndim - 2, 0)
    left, right = left.astype(np.float32), right.astype(np.float32)
    parts = [
        _exact_matmul(
            lax.slice_in_dim(left, start, min(start + most, length), axis=left.ndim - 1),
            lax.slice_in_dim(right, start, min(start + most, length), axis=rows),
        )
        for start in range(0, max(length, 1), most)
    ]
    return sum(parts[1:], parts[0])


def _exact_matmul(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST).astype(np.int32)


def integer_conv(x: Array, W: Array, found: Window, groups: int, bounds: tuple[int, int]) -> Array:
    """The convolution of int32 arrays within these bounds, in int32; groups and channels as `ops.conv` has them."""
    most = stretch(*bounds) // math.prod(found.kernel)
    options: dict[str, Any] = {"stride": found.stride, "padding": found.padding, "dilation": found.dilation}
    if not most:
        return _plain(x, W, found, groups)
    return lax.platform_dependent(
        x,
        W,
        cpu=lambda x, W: _conv_in_stretches(x, W, groups, most, options),
        default=lambda x, W: ops.conv(x.astype(float), W.astype(float), groups=groups, **options).astype(np.int32),
    )


def _plain(x: Array, W: Array, found: Window, groups: int) -> Array:
    return lax.conv_general_dilated(
        x, W, found.stride, found.padding, rhs_dilation=found.dilation, feature_group_count=groups
    )


def _conv_in_stretches(x: Array, W: Array, groups: int, most: int, options: dict[str, Any]) -> Array:
    channels = W.shape[1]
    x, W = x.astype(np.float32), W.astype(np.float32)
    split = x.reshape(x.shape[0], groups, channels, *x.shape[2:])
    parts = []
    with jax.default_matmul_precision("highest"):
        for start in range(0, channels, most):
            some = split[:, :, start : start + most]
            joined = some.reshape(x.shape[0], -1, *x.shape[2:])
            parts.append(ops.conv(joined, W[:, start : start + most], groups=groups, **options).astype(np.int32))
    return sum(parts[1:], parts[0])
