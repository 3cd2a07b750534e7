"""Convolution, its transpose, and the one whose places are data."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import one_of
from singax.ops.window import Padding, Sizes, Window, halves, wide_dtype, window
from singax.sonnx.operators.geometry import affordable, auto_pad, check_ranks, kernel_of, pads_of, sliding, spatial
from singax.sonnx.operators.sampling import sampled_linearly
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("Conv")
def conv(call: Call, x: Array, W: Array, b: Array = None) -> Array:
    """Cross-correlation with kernels (O, C / group, k, …)."""
    x, W = jnp.asarray(x), jnp.asarray(W)
    check_ranks(x, W.shape[2:])
    found = sliding(call, kernel_of(call, W.shape[2:]), x.shape)
    affordable("a result", (x.shape[0], W.shape[0], *found.output_size(x.shape[2:])))
    return _summed_wide(x, W, b, call.attribute("group", 1), found)


def _summed_wide(x: Array, W: Array, b: Array, groups: int, found: Window) -> Array:
    """`ops.conv`; groups of 16-bit floats, which are summed place by place, in float32."""
    parts = [a if a is None or groups == 1 else a.astype(wide_dtype(x.dtype)) for a in (x, W, b)]
    y = ops.conv(*parts, stride=found.stride, padding=found.padding, dilation=found.dilation, groups=groups)
    return y.astype(x.dtype)


@onnx_operator("ConvTranspose")
def conv_transpose(call: Call, x: Array, W: Array, b: Array = None) -> Array:
    """The transpose of `Conv`; `output_shape` and `auto_pad` say how much of the border is cut off.

    Where more is asked for than the kernels reach, there is only the bias.
    """
    x, W = jnp.asarray(x), jnp.asarray(W)
    check_ranks(x, W.shape[2:])
    kernel = kernel_of(call, W.shape[2:])
    count, groups = len(kernel), call.attribute("group", 1)
    stride, dilation = spatial(call, "strides", count), spatial(call, "dilations", count)
    reach = [s * (n - 1) + (k - 1) * d + 1 for s, n, k, d in zip(stride, x.shape[2:], kernel, dilation, strict=True)]
    affordable("a result", (x.shape[0], W.shape[1] * groups, *reach))
    cut = _cut(call, x.shape[2:], stride, reach)
    sizes = [n - begin - end for n, (begin, end) in zip(reach, cut, strict=True)]
    affordable("a result", (x.shape[0], W.shape[1] * groups, *sizes))
    return _cut_transpose(x, W, b, stride, dilation, groups, cut)


def _cut(call: Call, sizes: Sizes, stride: Sizes, reach: list[int]) -> Padding:
    """How much of the reach of all kernels is cut off at the begin and the end; negative: added."""
    count, mode, wanted = len(sizes), auto_pad(call), call.attribute("output_shape")
    more = spatial(call, "output_padding", count, 0)
    if wanted:
        wanted = spatial(call, "output_shape", len(wanted))[-count:]
    elif mode.startswith("SAME"):
        wanted = tuple(n * s for n, s in zip(sizes, stride, strict=True))
    else:
        pads = pads_of(call, count) if mode == "NOTSET" else ((0, 0),) * count
        return tuple((begin, end - extra) for (begin, end), extra in zip(pads, more, strict=True))
    totals = [n + extra - size for n, extra, size in zip(reach, more, wanted, strict=True)]
    pairs = [halves(max(total, 0), upper=mode == "SAME_UPPER") for total in totals]
    return tuple(
        (begin, end - extra + min(total, 0)) for (begin, end), extra, total in zip(pairs, more, totals, strict=True)
    )


def _cut_transpose(x: Array, W: Array, b: Array, stride: Sizes, dilation: Sizes, groups: int, cut: Padding) -> Array:
    inner = tuple((max(begin, 0), max(end, 0)) for begin, end in cut)
    most = tuple(max(pair) - 1 for pair in zip(stride, dilation, strict=True))
    more = tuple(min(max(-end, 0), limit) for (_, end), limit in zip(cut, most, strict=True))
    outer = [(max(-begin, 0), max(-end, 0) - extra) for (begin, end), extra in zip(cut, more, strict=True)]
    beyond = any(begin or end for begin, end in outer)
    y = ops.conv_transpose(
        x,
        W,
        None if beyond else b,
        stride=stride,
        padding=inner,
        output_padding=more,
        dilation=dilation,
        groups=groups,
    ).astype(x.dtype)
    if not beyond:
        return y
    y = lax.pad(y, jnp.zeros((), y.dtype), [(0, 0, 0), (0, 0, 0), *((*pair, 0) for pair in outer)])
    return y if b is None else y + b.reshape(-1, *(1,) * (y.ndim - 2))


@onnx_operator("CausalConvWithState")
def causal_conv(call: Call, x: Array, W: Array, b: Array = None, past: Array = None) -> tuple[Array, Array]:
    """Each channel convolved in time with what came before, and the last values for the next call."""
    activation = call.attribute("activation", "none")
    one_of("CausalConvWithState", "activation", activation, ("none", "silu", "swish"))
    x, W = jnp.asarray(x), jnp.asarray(W)
    if x.ndim != 3 or W.ndim != 3 or W.shape[:2] != (x.shape[1], 1):
        raise ShapeError(f"expected x (N, C, T) and kernels (C, 1, k). Received: {x.shape} and {W.shape}")
    kept = W.shape[2] - 1
    before = jnp.zeros((*x.shape[:2], kept), x.dtype) if past is None else past
    padded = jnp.concatenate([before, x], axis=2)
    y = _summed_wide(padded, W, b, x.shape[1], window("CausalConvWithState", W.shape[2:]))
    if activation != "none":
        y = jax.nn.silu(y.astype(jnp.promote_types(y.dtype, jnp.float32)))
    return y.astype(x.dtype), padded[:, :, padded.shape[2] - kept :]


@onnx_operator("DeformConv")
def deform_conv(call: Call, x: Array, W: Array, offset: Array, b: Array = None, mask: Array = None) -> Array:
    """A convolution whose kernels look at places moved by `offset`, between values linearly, each times `mask`.

    offset: (N, group · k … · axes, …), mask: (N, group · k …, …) (Dai et al. 2017; Zhu et al. 2019).
    """
    x, W, offset = jnp.asarray(x), jnp.asarray(W), jnp.asarray(offset)
    check_ranks(x, W.shape[2:])
    found = sliding(call, kernel_of(call, W.shape[2:]), x.shape)
    sizes, groups, parts = found.output_size(x.shape[2:]), call.attribute("group", 1), call.attribute("offset_group", 1)
    n, axes, places = x.shape[0], len(sizes), W[0, 0].size
    if offset.shape != (n, parts * places * axes, *sizes) or x.shape[1] % parts or groups < 1:
        raise ShapeError(f"expected offset {(n, parts * places * axes, *sizes)}. Received shape {offset.shape}")
    affordable("what the kernels see", (n, x.shape[1], places, *sizes))
    moved = offset.reshape(n * parts, places, axes, *sizes)
    seen = _seen(x.reshape(n * parts, x.shape[1] // parts, *x.shape[2:]), moved, found)
    if mask is not None:
        seen = seen * mask.reshape(n * parts, 1, places, *sizes)
    return _weighted(seen.reshape(n, groups, -1, places, *sizes), W, groups, b).astype(x.dtype)


def _seen(x: Array, moved: Array, found: Window) -> Array:
    """x (M, C, …) at the moved places (M, K, axes, …): (M, C, K, …)."""
    starts = [
        jnp.arange(size) * step - begin
        for size, step, (begin, _) in zip(moved.shape[3:], found.stride, found.padding, strict=True)
    ]
    kernel = list(itertools.product(*map(range, found.kernel)))
    fixed = [
        jnp.stack([place[axis] * found.dilation[axis] + _along(starts[axis], axis, len(starts)) for place in kernel])
        for axis in range(len(starts))
    ]
    points = [moved[:, :, axis] + fixed[axis].astype(moved.dtype) for axis in range(len(starts))]
    return sampled_linearly(x, points)


def _along(values: Array, axis: int, count: int) -> Array:
    return values.reshape([-1 if k == axis else 1 for k in range(count)])


def _weighted(seen: Array, W: Array, groups: int, b: Array) -> Array:
    """What the kernels see (N, G, C / G, K, …) times their values, summed: (N, O, …)."""
    if W.shape[0] % groups or seen.shape[2] != W.shape[1]:
        raise ArgumentError(f"expected kernels for {groups} groups of {seen.shape[2]} channels. Received: {W.shape}")
    kernels = W.reshape(groups, W.shape[0] // groups, W.shape[1], -1)
    y = jnp.einsum("ngck...,gock->ngo...", seen, kernels)
    y = y.reshape(y.shape[0], -1, *y.shape[3:])
    return y if b is None else y + b.reshape(-1, *(1,) * (y.ndim - 2))
