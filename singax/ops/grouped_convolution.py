"""Convolution in groups of channels, as XLA:CPU computes it well.

XLA:CPU has no quick path for the gradient of a grouped convolution, nor for convolution of single channels. Forward
and gradient on two CPU cores, ratios to `lax.conv_general_dilated` with groups: single channels by places of the kernel
0.04 to 0.55 (forward alone 0.02 to 0.22); 2 to 8 groups one by one 0.01 to 0.07, 32 groups by places 0.01.
More than 27 places compile too slowly (7 × 7: 8.0 s against 1.4 s).
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.ops.window import Sizes, Window

Array = jax.Array

_FEW_GROUPS = 8
_MANY_PLACES = 27


def suits(W: Array, groups: int) -> bool:
    """Whether `grouped_conv` is quicker here than XLA's own convolution."""
    few_places = math.prod(W.shape[2:]) <= _MANY_PLACES
    return jax.default_backend() == "cpu" and (1 < groups <= _FEW_GROUPS or (groups > 1 and few_places))


def grouped_conv(x: Array, W: Array, found: Window, groups: int) -> Array:
    """x (N, C, …) and W (O, C / groups, k, …), which fit, convolved group by group."""
    if math.prod(W.shape[2:]) <= _MANY_PLACES and (W.shape[1] == 1 or groups > _FEW_GROUPS):
        return _by_places(x, W, found, groups)
    parts = zip(jnp.split(x, groups, axis=1), jnp.split(W, groups), strict=True)
    return jnp.concatenate([plain_conv(part, kernels, found) for part, kernels in parts], axis=1)


def plain_conv(x: Array, W: Array, found: Window, groups: int = 1) -> Array:
    """XLA's own convolution."""
    return lax.conv_general_dilated(
        x,
        W,
        window_strides=found.stride,
        padding=found.padding,
        rhs_dilation=found.dilation,
        feature_group_count=groups,
    )


@functools.partial(jax.checkpoint, prevent_cse=False, static_argnums=(2, 3))  # the gradient slices x again
def _by_places(x: Array, W: Array, found: Window, groups: int) -> Array:
    """The sum, over the places of the kernel, of a strided slice of x times one value for each pair of channels."""
    if W.shape[0] == groups == x.shape[1]:
        return _by_places_of_one(x, W, found)
    sizes = found.output_size(x.shape[2:])
    x = jnp.pad(x, ((0, 0), (0, 0), *found.padding))
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    W = W.reshape(groups, -1, *W.shape[1:])
    places = np.ndindex(*found.kernel)
    y = functools.reduce(jnp.add, [_product(_slice(x, place, sizes, found), W[..., *place]) for place in places])
    return y.reshape(x.shape[0], -1, *sizes)


def _by_places_of_one(x: Array, W: Array, found: Window) -> Array:
    """`_by_places` with one kernel for each channel."""
    sizes, ones = found.output_size(x.shape[2:]), (1,) * len(found.kernel)
    x = jnp.pad(x, ((0, 0), (0, 0), *found.padding))
    places = np.ndindex(*found.kernel)
    parts = [_slice(x, place, sizes, found) * W[:, 0, *place].reshape(1, -1, *ones) for place in places]
    return functools.reduce(jnp.add, parts)


def _product(x: Array, W: Array) -> Array:
    """x (N, G, C, …) and W (G, O, C) → (N, G, O, …)."""
    if W.shape[2] == 1:
        return x * W.reshape(1, *W.shape[:2], *(1,) * (x.ndim - 3))
    return jnp.einsum("ngc...,goc->ngo...", x, W)


def _slice(x: Array, place: Sizes, sizes: Sizes, found: Window) -> Array:
    """What the kernel's place sees of x (N, G, C, …) or (N, C, …), one value for each window."""
    rest = x.shape[: x.ndim - len(sizes)]
    first = [u * hole for u, hole in zip(place, found.dilation, strict=True)]
    last = [start + (n - 1) * step + 1 for start, n, step in zip(first, sizes, found.stride, strict=True)]
    return lax.slice(x, (*(0 for _ in rest), *first), (*rest, *last), (*(1 for _ in rest), *found.stride))
