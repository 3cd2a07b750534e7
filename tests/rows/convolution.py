"""Rows of convolution, its transpose, and the layers made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import windows
from catalogue import Row, floats

from singax import layer, ops


def op(name: str, reference: Callable[..., Any], inputs: list[Any], note: str = "", **attributes: Any) -> Row:
    """A row of an operation, which must refuse inputs of other channels, of other rank, and of integers."""
    x, W, *_ = (spec.shape for spec in inputs)
    rest = inputs[1:]
    wrong = [[floats(x[0], x[1] + 1, *x[2:]), *rest], [floats(*x[1:]), *rest], [floats(*x), floats(*W[1:]), *rest[1:]]]
    return Row(
        f"ops.{name}",
        lambda: getattr(ops, name),
        inputs,
        lambda *arrays: reference(*arrays, **attributes),
        attributes,
        rejects=wrong,
        note=note,
        rtol=1e-4,
        atol=1e-4,
    )


def of(
    name: str,
    shape: tuple[int, ...],
    reference: Callable[..., Any],
    *arguments: Any,
    note: str = "",
    **keywords: Any,
) -> Row:
    """A row of a layer, which must refuse inputs of other channels and of other rank."""
    wrong = [[floats(shape[0], shape[1] + 1, *shape[2:])], [floats(*shape[1:])]]
    return Row(
        f"layer.{name}",
        lambda: getattr(layer, name)(*arguments, **keywords),
        [floats(*shape)],
        reference,
        rejects=wrong,
        note=note,
        rtol=1e-4,
        atol=1e-4,
    )


def conv(axes: int, groups: int = 1, stride: int = 1, padding: int = 0, dilation: int = 1) -> Callable[..., Any]:
    """The value of a convolution layer, the same along all axes."""
    window = {"stride": (stride,) * axes, "padding": ((padding, padding),) * axes, "dilation": (dilation,) * axes}
    return lambda s, x: windows.conv(x, s["W"], s.get("b"), groups=groups, **window)


def transposed(axes: int, groups: int = 1, stride: int = 1, padding: int = 0, more: int = 0) -> Callable[..., Any]:
    """The value of a transposed convolution layer, the same along all axes."""
    window = {"stride": (stride,) * axes, "padding": ((padding, padding),) * axes, "output_padding": (more,) * axes}
    return lambda s, x: windows.conv_transpose(x, s["W"], s.get("b"), groups=groups, **window)


def separable(s: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """Each channel by itself, then 1 × 1."""
    depth = windows.conv(x, s["depthwise_conv.W"], groups=x.shape[1], padding=((1, 1), (1, 1)))
    return windows.conv(depth, s["point_conv.W"])


ROWS = [
    op("conv", windows.conv, [floats(2, 2, 5), floats(3, 2, 2)], "one axis", stride=(2,), padding=((1, 0),)),
    op("conv", windows.conv, [floats(2, 3, 4, 5), floats(4, 3, 3, 2), floats(4)], padding=((1, 1), (0, 2))),
    op("conv", windows.conv, [floats(2, 4, 5, 5), floats(6, 2, 2, 2)], "groups", groups=2, dilation=(2, 1)),
    op("conv", windows.conv, [floats(2, 3, 4, 4), floats(6, 1, 2, 2)], "single channels", groups=3, stride=(1, 2)),
    op("conv", windows.conv, [floats(1, 18, 3, 3), floats(9, 2, 2, 2)], "many groups", groups=9),
    op("conv", windows.conv, [floats(1, 2, 3, 3, 4), floats(2, 2, 2, 2, 2)], "three axes", stride=(1, 2, 1)),
    op(
        "conv_transpose",
        windows.conv_transpose,
        [floats(2, 2, 4), floats(2, 3, 3)],
        "one axis",
        stride=(3,),
        padding=((1, 0),),
        output_padding=(2,),
    ),
    op(
        "conv_transpose",
        windows.conv_transpose,
        [floats(2, 3, 3, 2), floats(3, 4, 3, 2), floats(4)],
        stride=(2, 1),
        padding=((1, 0), (0, 1)),
        dilation=(1, 2),
    ),
    op("conv_transpose", windows.conv_transpose, [floats(2, 4, 2, 3), floats(4, 2, 2, 2)], "groups", groups=2),
    op(
        "conv_transpose",
        windows.conv_transpose,
        [floats(1, 2, 2, 2, 2), floats(2, 2, 2, 2, 2)],
        "three axes",
        stride=(2, 1, 2),
    ),
    of("Conv1d", (2, 2, 6), conv(1, 2, 2, 1, 2), 4, 3, stride=2, padding=1, dilation=2, group=2),
    of("Conv2d", (2, 3, 5, 5), conv(2, padding=1), 4, 3, padding=1),
    of(
        "Conv2d", (2, 3, 5, 5), lambda s, x: np.maximum(conv(2)(s, x), 0), 3, 4, 2, activation="RELU", note="older form"
    ),
    of("Conv3d", (1, 2, 3, 3, 3), conv(3, stride=2, padding=1), 2, 2, stride=2, padding=1, bias=False),
    of("ConvTranspose1d", (2, 2, 4), transposed(1, 1, 2, 1, 1), 3, 3, stride=2, padding=1, output_padding=1),
    of("ConvTranspose2d", (2, 4, 3, 3), transposed(2, 2, 2), 4, 2, stride=2, group=2),
    of("ConvTranspose3d", (1, 2, 2, 2, 2), transposed(3, padding=1), 2, 3, padding=1, bias=False),
    of("DepthwiseConv2d", (2, 3, 4, 4), conv(2, 3, 2), 2, multiplier=2, stride=2),
    of("SeparableConv2d", (2, 3, 4, 4), separable, 4, 3, padding=1),
]
