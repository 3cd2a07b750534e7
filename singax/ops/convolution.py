"""Convolution."""

from __future__ import annotations

from typing import Any

import jax
from jax import lax

from singax.errors import ShapeError
from singax.ops.operation import operation
from singax.ops.window import NO_PADDING, Padding, Pair, check_images, image_size, onnx_pads, output_size

Array = jax.Array


def _attributes(keywords: dict[str, Any]) -> dict[str, Any]:
    return {
        "strides": list(keywords.get("stride", (1, 1))),
        "pads": onnx_pads(keywords.get("padding", NO_PADDING)),
        "dilations": list(keywords.get("dilation", (1, 1))),
        "group": keywords.get("groups", 1),
    }


@operation("Conv", attributes=_attributes)
def conv2d(
    x: Array,
    W: Array,
    b: Array | None = None,
    *,
    stride: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> Array:
    """Cross-correlation of images x (N, C, H, W) with kernels W (O, C / groups, kh, kw), plus b (O,) per channel.

    Returns (N, O, H', W') with H' = floor((H + top + bottom − dilation · (kh − 1) − 1) / stride) + 1, and W' alike.
    Different dtypes of x and W are promoted as in a product.
    """
    _check(x, W, b, groups)
    output_size(image_size(x), image_size(W), stride, padding, dilation)
    dtype = jax.numpy.result_type(x, W)
    y = lax.conv_general_dilated(
        x.astype(dtype),
        W.astype(dtype),
        window_strides=stride,
        padding=padding,
        rhs_dilation=dilation,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
        feature_group_count=groups,
    )
    return y if b is None else y + b.reshape(1, -1, 1, 1)


def _check(x: Array, W: Array, b: Array | None, groups: int) -> None:
    check_images(x)
    if W.ndim != 4:
        raise ShapeError(f"expected kernels (O, C / groups, kh, kw). Received shape {W.shape}")
    if x.shape[1] != W.shape[1] * groups:
        raise ShapeError(f"expected an input (N, {W.shape[1] * groups}, H, W). Received shape {x.shape}")
    if W.shape[0] % groups:
        raise ShapeError(f"expected a number of kernels that {groups} groups divide. Received: {W.shape[0]}")
    if b is not None and b.shape != W.shape[:1]:
        raise ShapeError(f"expected a bias {W.shape[:1]}. Received shape {b.shape}")
