"""Pooling along any number of spatial axes: the largest or the mean value, or the p-norm, of windows and channels."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.errors import ArgumentError
from singax.ops.operation import operation
from singax.ops.window import (
    Padding,
    Sizes,
    Window,
    check_channels,
    check_spatial,
    no_padding,
    onnx_window,
    widened,
    window,
)

Array = jax.Array


def _attributes(keywords: dict[str, Any]) -> dict[str, Any]:
    kernel = keywords["kernel"]
    found = {"kernel_shape": list(kernel)} | onnx_window({**keywords, "stride": keywords.get("stride") or kernel})
    flags = {flag: 1 for flag in ("ceil_mode", "count_include_pad") if keywords.get(flag)}
    return found | flags | ({"p": keywords["p"]} if "p" in keywords else {})


@operation("MaxPool", attributes=_attributes)
def max_pool(
    x: Array,
    *,
    kernel: Sizes,
    stride: Sizes | None = None,
    padding: Padding | None = None,
    dilation: Sizes | None = None,
    ceil_mode: bool = False,
) -> Array:
    """The largest value of each window of x (N, C, …); padding never wins. `stride` is `kernel` by default.

    With `ceil_mode` a last window that fits only in part counts too. Of equal largest values the first one gets the
    gradient (tiles larger than 3: they share it).
    """
    # Gradient of conv, relu and pooling at (64, 32, 28, 28), two CPU cores, ratios to reduce_window (whose gradient is
    # select-and-scatter): compared slices 0.3 for kernel 2, stride 2 (reshape + max: 0.65 to 0.85), 0.4 for 3, 3
    # (reshape: 0.46), 0.6 to 0.75 for 3, 2 and 3, 1, no clear gain for larger ones; reshape + max 0.7 for 4, 4 and 0.5
    # for 7, 7. reduce_window has no gradient for dilated windows.
    found = _window("max_pool", x, kernel, stride, padding, dilation, ceil_mode)
    if max(found.kernel) <= 3 or found.is_dilated:
        return _largest_of_slices(x, found)
    if found.is_tiling:
        return jnp.max(_tiled(x, found.kernel), axis=_inside_tiles(x))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, *found.kernel), (1, 1, *found.stride), _pads(found))


@operation("AveragePool", attributes=_attributes)
def avg_pool(
    x: Array,
    *,
    kernel: Sizes,
    stride: Sizes | None = None,
    padding: Padding | None = None,
    dilation: Sizes | None = None,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Array:
    """The mean of each window of x (N, C, …), padding counted only with `count_include_pad`.

    `stride` is `kernel` by default. With `ceil_mode` a last window that fits only in part counts too; what it covers
    beyond the padding is never counted.
    """
    found = _window("avg_pool", x, kernel, stride, padding, dilation, ceil_mode)
    limits = padding if count_include_pad and padding is not None else no_padding(len(kernel))
    wide = widened(x)
    weights = (1 / found.counts(x.shape[2:], limits)).astype(wide.dtype)
    return (_sums(wide, found) * weights[None, None]).astype(x.dtype)


@operation("LpPool", attributes=_attributes)
def lp_pool(
    x: Array,
    *,
    p: int = 2,
    kernel: Sizes,
    stride: Sizes | None = None,
    padding: Padding | None = None,
    dilation: Sizes | None = None,
    ceil_mode: bool = False,
) -> Array:
    """The p-norm (Σ |x|^p)^(1 / p) of each window of x (N, C, …). `stride` is `kernel` by default.

    With `ceil_mode` a last window that fits only in part counts too. Where a norm is 0 its gradient is 0.
    """
    found = _window("lp_pool", x, kernel, stride, padding, dilation, ceil_mode)
    return _root(_sums(_power("lp_pool", x, p), found), p).astype(x.dtype)


@operation("GlobalAveragePool")
def global_average_pool(x: Array) -> Array:
    """The mean of each channel: (N, C, …) → (N, C, 1, …)."""
    check_channels("global_average_pool", x)
    return jnp.mean(x, axis=_spatial(x), keepdims=True)


@operation("GlobalMaxPool")
def global_max_pool(x: Array) -> Array:
    """The largest value of each channel: (N, C, …) → (N, C, 1, …); equal largest values share the gradient."""
    check_channels("global_max_pool", x)
    return jnp.max(x, axis=_spatial(x), keepdims=True)


@operation("GlobalLpPool", attributes={"p": "p"})
def global_lp_pool(x: Array, *, p: int = 2) -> Array:
    """The p-norm (Σ |x|^p)^(1 / p) of each channel: (N, C, …) → (N, C, 1, …). Where it is 0 its gradient is 0."""
    check_channels("global_lp_pool", x)
    return _root(jnp.sum(_power("global_lp_pool", x, p), axis=_spatial(x), keepdims=True), p).astype(x.dtype)


def _largest_of_slices(x: Array, found: Window) -> Array:
    """Max pooling as comparisons of strided slices, along the last axis first."""
    if found.is_padded:
        widths = ((0, 0, 0), (0, 0, 0), *((begin, end, 0) for begin, end in found.padding))
        x = lax.pad(x, jnp.array(-jnp.inf, x.dtype), widths)
    for axis in reversed(range(len(found.kernel))):
        step, hole, covered = found.stride[axis], found.dilation[axis], found.extent[axis]
        last = (x.shape[axis + 2] - covered) // step * step
        starts = range(0, covered, hole)
        slices = [lax.slice_in_dim(x, start, start + last + 1, step, axis + 2) for start in starts]
        x = functools.reduce(_first_larger, slices)
    return x


def _first_larger(a: Array, b: Array) -> Array:
    """The larger of a and b, and a if they are equal; nan if one is nan."""
    return jnp.where((b > a) | (b != b), b, a)


def _sums(x: Array, found: Window) -> Array:
    """The sum of each window."""
    if found.is_tiling:
        return jnp.sum(_tiled(x, found.kernel), axis=_inside_tiles(x))
    kernel, stride, dilation = (1, 1, *found.kernel), (1, 1, *found.stride), (1, 1, *found.dilation)
    return lax.reduce_window(x, 0.0, lax.add, kernel, stride, _pads(found), window_dilation=dilation)


def _power(name: str, x: Array, p: int) -> Array:
    """|x|^p in the dtype to accumulate in."""
    if isinstance(p, bool) or not isinstance(p, int | np.integer) or p < 1:
        raise ArgumentError(f"{name} expected an integer p of 1 or more. Received: {p!r}")
    wide = widened(x)
    return lax.integer_pow(wide if p % 2 == 0 else jnp.abs(wide), int(p))


def _root(sums: Array, p: int) -> Array:
    """sums^(1 / p), with gradient 0 at 0."""
    zero = sums == 0
    some = jnp.where(zero, 1, sums)
    return jnp.where(zero, 0, jnp.sqrt(some) if p == 2 else some ** (1 / p))


def _tiled(x: Array, kernel: Sizes) -> Array:
    """(N, C, H, W) → (N, C, H', kh, W', kw), and likewise for other axes; what fills no window is cut off."""
    counts = [length // size for length, size in zip(x.shape[2:], kernel, strict=True)]
    cut = tuple(slice(count * size) for count, size in zip(counts, kernel, strict=True))
    pairs = [part for pair in zip(counts, kernel, strict=True) for part in pair]
    return x[:, :, *cut].reshape(*x.shape[:2], *pairs)


def _inside_tiles(x: Array) -> Sizes:
    """The axes of `_tiled` that lie inside the tiles."""
    return tuple(range(3, 2 * x.ndim - 2, 2))


def _spatial(x: Array) -> Sizes:
    return tuple(range(2, x.ndim))


def _pads(found: Window) -> Padding:
    return ((0, 0), (0, 0), *found.padding)


def _window(
    name: str,
    x: Array,
    kernel: Sizes,
    stride: Sizes | None,
    padding: Padding | None,
    dilation: Sizes | None,
    ceil_mode: bool,
) -> Window:
    """The window of the pooling `name`, once it is found that each place covers a value of x."""
    check_spatial(name, x, len(kernel))
    given = window(name, kernel, stride or kernel, padding, dilation)
    found = given.rounded_up(x.shape[2:]) if ceil_mode else given
    found.output_size(x.shape[2:])
    if _is_too_wide(given) or found.counts(x.shape[2:], no_padding(len(kernel))).min(initial=1) < 1:
        raise ArgumentError(
            f"{name} expected a padding smaller than the kernel {given.kernel}, so that each window covers a value. "
            f"Received: {given.padding} for shape {x.shape}"
        )
    return found


def _is_too_wide(found: Window) -> bool:
    return any(max(pads) >= covered for pads, covered in zip(found.padding, found.extent, strict=True))
