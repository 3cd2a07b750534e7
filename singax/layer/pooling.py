"""Pooling layers whose window slides: the largest value, the mean, or the p-norm of each window."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax

from singax import ops
from singax.errors import ArgumentError
from singax.layer.base import Layer
from singax.layer.window import fitted, window
from singax.ops.window import Window


class Pooling(Layer):
    """What all layers with a sliding window have in common. `attributes` are handed on to the operation."""

    axes: ClassVar[int]
    operation: ops.Operation

    def __init__(
        self,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        pad_mode: str,
        dilation: Any,
        **attributes: Any,
    ) -> None:
        super().__init__()
        self.pad_mode, self.attributes = pad_mode, attributes
        self.window = window(self.operation.name, self.axes, kernel_size, stride, padding, pad_mode, dilation)

    def forward(self, x: jax.Array) -> jax.Array:
        rows = self.axes == 1 and x.ndim == 4
        found = fitted(_along_rows(self.window) if rows else self.window, self.pad_mode, x)
        return self.operation(
            x,
            kernel=found.kernel,
            stride=found.stride,
            padding=found.padding,
            dilation=found.dilation,
            **self.attributes,
        )


class Pooling2d(Pooling):
    """The largest value or the mean of each window.

    **Shapes** x (N, C, H, W) → (N, C, H', W') with H' = floor((H + top + bottom − d · (kh − 1) − 1) / s) + 1, W' alike.

    **Args**
      kernel_size: an integer, or two (height, width).
      stride: likewise; default: the kernel size.
      padding: an integer, two (height, width) or four (top, bottom, left, right), smaller than the kernel; None goes
        only with SAME. Padding is never the largest value and does not count in a mean.
      is_max: the largest value (default) or the mean.
      pad_mode: "NOTSET" (as `padding` says), "VALID" (none), "SAME_UPPER" or "SAME_LOWER" (H' = ceil(H / s); an odd row
        or column goes to the end or to the beginning).
      dilation: the distance d of the values in a window: an integer (default 1), or two.
      ceil_mode: whether a last window that fits only in part counts too, if it starts before the end padding.
      count_include_pad: whether padding counts as zeros in a mean.

    **Raises** `ArgumentError` for arguments outside of these, `ShapeError` for an input that is not (N, C, H, W) or is
    smaller than the kernel, `DTypeError` for one of integers.

    *Differences from SINGA*: padding with an odd row or column is like any other (SINGA repeats the border there);
    batch and image size are free, and SAME follows the size of each input. ONNX: MaxPool or AveragePool.

    >>> Pooling2d(3, 2, padding=1).infer_shape((None, 8, 28, 28))
    (None, 8, 14, 14)
    """

    axes = 2

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        is_max: bool = True,
        pad_mode: str = "NOTSET",
        *,
        dilation: Any = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> None:
        attributes: dict[str, Any] = {"ceil_mode": bool(ceil_mode)}
        if not is_max:
            attributes["count_include_pad"] = bool(count_include_pad)
        elif count_include_pad:
            raise ArgumentError("count_include_pad goes only with a mean (is_max=False). Received: True")
        self.is_max = is_max
        super().__init__(kernel_size, stride, padding, pad_mode, dilation, **attributes)

    @property
    def operation(self) -> ops.Operation:  # type: ignore[override]
        return ops.max_pool if self.is_max else ops.avg_pool


class MaxPool2d(Pooling2d):
    """The largest value of each window: `Pooling2d` with `is_max=True`. ONNX: MaxPool.

    >>> MaxPool2d(2).infer_shape((None, 8, 28, 28))
    (None, 8, 14, 14)
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        pad_mode: str = "NOTSET",
        *,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, True, pad_mode, dilation=dilation, ceil_mode=ceil_mode)


class AvgPool2d(Pooling2d):
    """The mean of each window: `Pooling2d` with `is_max=False`. ONNX: AveragePool.

    >>> AvgPool2d(2, pad_mode="SAME_UPPER").infer_shape((None, 8, 7, 7))
    (None, 8, 4, 4)
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        pad_mode: str = "NOTSET",
        *,
        dilation: Any = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> None:
        more = {"dilation": dilation, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
        super().__init__(kernel_size, stride, padding, False, pad_mode, **more)


class MaxPool1d(MaxPool2d):
    """The largest value of each window along one axis.

    **Shapes** x (N, C, W) → (N, C, W'), or SINGA's (N, C, H, W) → (N, C, H, W'), every row by itself; W' as in
    `Pooling2d`.

    **Args** those of `MaxPool2d`; a padding is one integer or two (left, right).

    **Raises** as `Pooling2d`. *Differences from SINGA*: three axes are taken too. ONNX: MaxPool.

    >>> MaxPool1d(2).infer_shape((None, 8, 1, 28)), MaxPool1d(2).infer_shape((None, 8, 28))
    ((None, 8, 1, 14), (None, 8, 14))
    """

    axes = 1


class MaxPool3d(MaxPool2d):
    """The largest value of each window along three axes.

    **Shapes** x (N, C, D, H, W) → (N, C, D', H', W').

    **Args** those of `MaxPool2d`; a window has three sizes (depth, height, width), a padding one, three or six
    integers (front, back, top, bottom, left, right).

    **Raises** as `Pooling2d`. ONNX: MaxPool.

    >>> MaxPool3d(2).infer_shape((None, 8, 4, 6, 6))
    (None, 8, 2, 3, 3)
    """

    axes = 3


class AvgPool1d(AvgPool2d):
    """The mean of each window along one axis.

    **Shapes** x (N, C, W) → (N, C, W'), or SINGA's (N, C, H, W) → (N, C, H, W'), every row by itself; W' as in
    `Pooling2d`.

    **Args** those of `AvgPool2d`; a padding is one integer or two (left, right).

    **Raises** as `Pooling2d`. *Differences from SINGA*: three axes are taken too. ONNX: AveragePool.

    >>> AvgPool1d(2).infer_shape((None, 8, 1, 28)), AvgPool1d(2).infer_shape((None, 8, 28))
    ((None, 8, 1, 14), (None, 8, 14))
    """

    axes = 1


class AvgPool3d(AvgPool2d):
    """The mean of each window along three axes.

    **Shapes** x (N, C, D, H, W) → (N, C, D', H', W').

    **Args** those of `AvgPool2d`; a window has three sizes (depth, height, width), a padding one, three or six
    integers (front, back, top, bottom, left, right).

    **Raises** as `Pooling2d`. ONNX: AveragePool.

    >>> AvgPool3d(2).infer_shape((None, 8, 4, 6, 6))
    (None, 8, 2, 3, 3)
    """

    axes = 3


class LpPool2d(Pooling):
    """The p-norm of each window: (Σ |x|^p)^(1 / p). Where a norm is 0 its gradient is 0.

    **Shapes** x (N, C, H, W) → (N, C, H', W') with sizes as in `Pooling2d`.

    **Args**
      kernel_size: an integer, or two (height, width).
      p: an integer from 1 up (default 2).
      stride, padding, pad_mode, dilation, ceil_mode: as in `Pooling2d`.

    **Raises** as `Pooling2d`. *Differences from SINGA*: SINGA has no such layer. ONNX: LpPool.

    >>> LpPool2d(2).infer_shape((None, 8, 28, 28))
    (None, 8, 14, 14)
    """

    axes, operation = 2, ops.lp_pool

    def __init__(
        self,
        kernel_size: Any,
        p: int = 2,
        stride: Any = None,
        padding: Any = 0,
        pad_mode: str = "NOTSET",
        *,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> None:
        attributes = {"p": p, "ceil_mode": bool(ceil_mode)}
        super().__init__(kernel_size, stride, padding, pad_mode, dilation, **attributes)


class LpPool1d(LpPool2d):
    """The p-norm of each window along one axis, as `LpPool2d` along two.

    **Shapes** x (N, C, W) → (N, C, W'), or (N, C, H, W) → (N, C, H, W'), every row by itself. ONNX: LpPool.

    >>> LpPool1d(2).infer_shape((None, 8, 28))
    (None, 8, 14)
    """

    axes = 1


class LpPool3d(LpPool2d):
    """The p-norm of each window along three axes, as `LpPool2d` along two.

    **Shapes** x (N, C, D, H, W) → (N, C, D', H', W'). ONNX: LpPool.

    >>> LpPool3d(2).infer_shape((None, 8, 4, 6, 6))
    (None, 8, 2, 3, 3)
    """

    axes = 3


def _along_rows(given: Window) -> Window:
    """The window along one axis as one along the last of two."""
    return dataclasses.replace(
        given,
        kernel=(1, *given.kernel),
        stride=(1, *given.stride),
        padding=((0, 0), *given.padding),
        dilation=(1, *given.dilation),
    )
