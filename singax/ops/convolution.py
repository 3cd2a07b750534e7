"""Convolution and its transpose, along any number of spatial axes."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import one_per_axis
from singax.ops.grouped_convolution import grouped_conv, plain_conv, suits
from singax.ops.operation import operation
from singax.ops.window import Padding, Sizes, check_spatial, layout, onnx_window, window

Array = jax.Array


def _attributes(keywords: dict[str, Any]) -> dict[str, Any]:
    found = onnx_window(keywords) | {"group": keywords.get("groups", 1)}
    if keywords.get("output_padding") is not None:
        found["output_padding"] = list(keywords["output_padding"])
    return found


@operation("Conv", attributes=_attributes)
def conv(
    x: Array,
    W: Array,
    b: Array | None = None,
    *,
    stride: Sizes | None = None,
    padding: Padding | None = None,
    dilation: Sizes | None = None,
    groups: int = 1,
) -> Array:
    """Cross-correlation of x (N, C, …) with kernels W (O, C / groups, k, …), plus b (O,) per channel.

    Returns (N, O, …) with sizes floor((size + begin + end − dilation · (k − 1) − 1) / stride) + 1. Different dtypes of
    x and W are promoted as in a product. Stride and dilation are 1 by default, the padding 0.
    """
    _check("conv", x, W, groups)
    if W.shape[0] % groups:
        raise ShapeError(f"conv expected a number of kernels that {groups} groups divide. Received: {W.shape[0]}")
    if x.shape[1] != W.shape[1] * groups:
        expected = layout(W.ndim - 2, W.shape[1] * groups)
        raise ShapeError(f"conv expected an input {expected}. Received shape {x.shape}")
    found = window("conv", W.shape[2:], stride, padding, dilation)
    found.output_size(x.shape[2:])
    dtype = jnp.result_type(x, W)
    convolve = grouped_conv if suits(W, groups) else plain_conv
    y = convolve(x.astype(dtype), W.astype(dtype), found, groups)
    return _with_bias("conv", y, b)


@operation("ConvTranspose", attributes=_attributes)
def conv_transpose(
    x: Array,
    W: Array,
    b: Array | None = None,
    *,
    stride: Sizes | None = None,
    padding: Padding | None = None,
    output_padding: Sizes | None = None,
    dilation: Sizes | None = None,
    groups: int = 1,
) -> Array:
    """The transpose of `conv`: every value of x (N, C, …) adds a kernel of W (C, O / groups, k, …), `stride` apart.

    Returns (N, O, …) with sizes stride · (size − 1) + dilation · (k − 1) + 1 + output_padding − begin − end, plus b
    (O,) per channel. `padding` cuts off the border of the result; `output_padding` adds places at its end, fewer than
    the larger of stride and dilation.
    """
    _check("conv_transpose", x, W, groups)
    if x.shape[1] != W.shape[0] or W.shape[0] % groups:
        raise ShapeError(
            f"conv_transpose expected an input {layout(W.ndim - 2, W.shape[0])} whose channels {groups} groups divide. "
            f"Received shape {x.shape}"
        )
    found = window("conv_transpose", W.shape[2:], stride, padding, dilation)
    more = (0,) * len(found.kernel) if output_padding is None else tuple(output_padding)
    check_output_padding(more, found.stride, found.dilation)
    pads = tuple(
        (covered - 1 - begin, covered - 1 - end + extra)
        for covered, (begin, end), extra in zip(found.extent, found.padding, more, strict=True)
    )
    _check_some_left(x, found.stride, pads, found.extent)
    dtype = jnp.result_type(x, W)
    y = _transposed(x.astype(dtype), W.astype(dtype), found.stride, pads, found.dilation, groups)
    return _with_bias("conv_transpose", y, b)


# JAX's own gradient for W of a convolution whose input is dilated takes a path of XLA:CPU that is 15 to 30 times slower
# than the form below, in which W is convolved with x (two CPU cores; 4 × 4 kernels, stride 2, images of 14 and 28).
@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4, 5))
def _transposed(x: Array, W: Array, stride: Sizes, pads: Padding, dilation: Sizes, groups: int) -> Array:
    return lax.conv_general_dilated(
        x,
        _turned(W, groups),
        window_strides=(1,) * len(pads),
        padding=pads,
        lhs_dilation=stride,
        rhs_dilation=dilation,
        feature_group_count=groups,
    )


def _transposed_jvp(
    stride: Sizes, pads: Padding, dilation: Sizes, groups: int, values: tuple[Array, Array], tangents: tuple[Any, Any]
) -> tuple[Array, Any]:
    (x, W), (dx, dW), window = values, tangents, (stride, pads, dilation, groups)
    y = _transposed(x, W, *window)
    parts = []
    if type(dx) is not SymbolicZero:
        parts.append(_transposed(dx, W, *window))
    if type(dW) is not SymbolicZero:
        parts.append(_kernels_moved(x, dW, *window))
    return y, sum(parts[1:], parts[0]) if parts else jnp.zeros_like(y)


_transposed.defjvp(_transposed_jvp, symbolic_zeros=True)


def _kernels_moved(x: Array, W: Array, stride: Sizes, pads: Padding, dilation: Sizes, groups: int) -> Array:
    """`_transposed` as a convolution of W with x."""
    n, c, *size = x.shape
    o = W.shape[1]
    rows = zip(W.shape[2:], size, stride, pads, dilation, strict=True)
    padding = [
        (low - (k - 1) * d + (length - 1) * step, high - (k - 1) * d + (length - 1) * step)
        for k, length, step, (low, high), d in rows
    ]
    moved = jnp.moveaxis(x.reshape(n, groups, c // groups, *size), 1, 0).reshape(groups * n, c // groups, *size)
    y = lax.conv_general_dilated(
        jnp.swapaxes(W, 0, 1),
        jnp.flip(moved, range(2, x.ndim)),
        window_strides=(1,) * len(pads),
        padding=padding,
        lhs_dilation=dilation,
        rhs_dilation=stride,
        feature_group_count=groups,
    )
    y = y.reshape(o, groups, n, *y.shape[2:])
    return jnp.moveaxis(y, (2, 1, 0), (0, 1, 2)).reshape(n, groups * o, *y.shape[3:])


def _turned(W: Array, groups: int) -> Array:
    """(C, O / groups, k, …) → (O, C / groups, k, …), every kernel turned round."""
    c, o, *kernel = W.shape
    W = jnp.flip(W, range(2, W.ndim)).reshape(groups, c // groups, o, *kernel)
    return jnp.swapaxes(W, 1, 2).reshape(groups * o, c // groups, *kernel)


def _with_bias(name: str, y: Array, b: Array | None) -> Array:
    if b is None:
        return y
    if jnp.shape(b) != y.shape[1:2]:
        raise ShapeError(f"{name} expected a bias {y.shape[1:2]}. Received shape {jnp.shape(b)}")
    return y + b.reshape(1, -1, *(1,) * (y.ndim - 2))


def _check(name: str, x: Array, W: Array, groups: int) -> None:
    if jnp.ndim(W) < 3:
        kernels = "(O, C / groups, k, …)" if name == "conv" else "(C, O / groups, k, …)"
        raise ShapeError(f"{name} expected kernels {kernels}. Received shape {jnp.shape(W)}")
    check_spatial(name, x, W.ndim - 2)
    if groups < 1:
        raise ArgumentError(f"{name} expected groups of 1 or more. Received: {groups}")


def check_output_padding(found: Sizes, stride: Sizes, dilation: Sizes) -> None:
    """Raise `ShapeError` or `ArgumentError` unless each entry is below the larger of stride and dilation."""
    one_per_axis("conv_transpose", "an output_padding", found, len(stride))
    if not all(0 <= extra < max(pair) for extra, *pair in zip(found, stride, dilation, strict=True)):
        raise ArgumentError(
            "conv_transpose expected an output_padding from 0 to below the larger of stride and dilation. "
            f"Received: {found} for stride {stride} and dilation {dilation}"
        )


def _check_some_left(x: Array, stride: Sizes, pads: Padding, extent: Sizes) -> None:
    sizes = [
        (length - 1) * step + 2 + sum(pair) - covered
        for length, step, pair, covered in zip(x.shape[2:], stride, pads, extent, strict=True)
    ]
    if min(sizes) < 1 or 0 in x.shape[2:]:
        raise ShapeError(
            f"conv_transpose expected an input of which padding leaves something. Received shape {x.shape}, "
            f"with sizes {tuple(sizes)} after padding"
        )
