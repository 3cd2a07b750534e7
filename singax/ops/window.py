"""Geometry of windows that slide along the spatial axes, and checks of what convolution, pooling and norms take.

There may be any number of spatial axes. A padding is a pair (begin, end) for each of them.

>>> found = window("conv", (2, 2), stride=(1, 1))
>>> found.same((5, 5), upper=True).padding
((0, 1), (0, 1))
>>> found.output_size((5, 5))
(4, 4)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.dtypes import float32
from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.ops.checks import one_per_axis

Sizes = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Window:
    """A window with an entry for each spatial axis in every field; `name` is the operation, for messages."""

    kernel: Sizes
    stride: Sizes
    padding: Padding
    dilation: Sizes
    name: str = dataclasses.field(compare=False)

    @property
    def extent(self) -> Sizes:
        """The sizes that the dilated kernel covers."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def is_padded(self) -> bool:
        """Whether there is padding anywhere."""
        return any(begin or end for begin, end in self.padding)

    @property
    def is_dilated(self) -> bool:
        """Whether the kernel has holes."""
        return any(d != 1 and k != 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def is_tiling(self) -> bool:
        """Whether the windows are tiles: neither overlapping nor padded."""
        return self.kernel == self.stride and not self.is_padded and not self.is_dilated

    def output_size(self, size: Sizes) -> Sizes:
        """How many windows fit: floor((size + padding − extent) / stride) + 1 along each axis.

        Raises `ShapeError` if not even one does.
        """
        padded = tuple(length + sum(pads) for length, pads in zip(size, self.padding, strict=True))
        if any(length < covered for length, covered in zip(padded, self.extent, strict=True)):
            raise ShapeError(
                f"{self.name} expected an input of at least {self.extent} after padding, the extent of the kernel "
                f"{self.kernel}. Received: {size} with padding {self.padding}"
            )
        rows = zip(padded, self.extent, self.stride, strict=True)
        return tuple((length - covered) // step + 1 for length, covered, step in rows)

    def same(self, size: Sizes, upper: bool) -> Window:
        """Padded for ceil(size / stride) windows; of an odd total the larger half goes to the end if `upper`."""
        rows = zip(size, self.extent, self.stride, strict=True)
        totals = [max((-(-length // step) - 1) * step + covered - length, 0) for length, covered, step in rows]
        return self.padded_by(tuple(halves(total, upper) for total in totals))

    def rounded_up(self, size: Sizes) -> Window:
        """Padded at the ends so that a last window that fits in part counts, if it starts before the end padding."""
        rows = zip(size, self.extent, self.stride, self.padding, strict=True)
        return self.padded_by(tuple(_rounded_up(*row) for row in rows))

    def padded_by(self, padding: Padding) -> Window:
        """The same window with another padding."""
        return dataclasses.replace(self, padding=padding)

    def counts(self, size: Sizes, limits: Padding) -> np.ndarray:
        """How many places of each window lie from −begin to size + end − 1, for (begin, end) in `limits`."""
        found: Any = 1
        for axis, windows in enumerate(self.output_size(size)):
            starts = np.arange(windows)[:, None] * self.stride[axis] - self.padding[axis][0]
            places = starts + np.arange(self.kernel[axis]) * self.dilation[axis]
            inside = (places >= -limits[axis][0]) & (places < size[axis] + limits[axis][1])
            found = np.multiply.outer(found, inside.sum(1))
        return np.asarray(found)


def window(
    name: str,
    kernel: Sequence[int],
    stride: Sequence[int] | None = None,
    padding: Sequence[Sequence[int]] | None = None,
    dilation: Sequence[int] | None = None,
) -> Window:
    """Check and complete what the operation `name` received: stride and dilation 1, no padding.

    Raises `ArgumentError` or `ShapeError`.
    """
    axes = len(kernel)
    found = Window(
        tuple(kernel),
        (1,) * axes if stride is None else tuple(stride),
        no_padding(axes) if padding is None else tuple((begin, end) for begin, end in padding),
        (1,) * axes if dilation is None else tuple(dilation),
        name,
    )
    for what in ("stride", "dilation", "padding"):
        one_per_axis(name, f"a {what}", getattr(found, what), axes)
    if min((*found.kernel, *found.stride, *found.dilation)) < 1 or min(map(min, found.padding)) < 0:
        raise ArgumentError(
            f"{name} expected a kernel, stride and dilation of 1 or more and a padding of 0 or more. "
            f"Received: {found.kernel}, {found.stride}, {found.dilation} and {found.padding}"
        )
    return found


def _rounded_up(length: int, covered: int, step: int, pads: tuple[int, int]) -> tuple[int, int]:
    begin, end = pads
    start = -(-(length + begin + end - covered) // step) * step
    if start >= length + begin:
        start -= step
    return begin, max(end, start + covered - length - begin) if start >= 0 else end


def no_padding(axes: int) -> Padding:
    """The padding (0, 0) for each axis."""
    return ((0, 0),) * axes


def halves(total: int, upper: bool) -> tuple[int, int]:
    """`total` as begin and end; of an odd total the larger half goes to the end if `upper`."""
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


def onnx_window(keywords: dict[str, Any]) -> dict[str, Any]:
    """ONNX attributes for what is given of stride, padding and dilation: `pads` has all begins, then all ends."""
    found: dict[str, Any] = {}
    if keywords.get("stride") is not None:
        found["strides"] = list(keywords["stride"])
    if keywords.get("padding") is not None:
        found["pads"] = [pads[side] for side in (0, 1) for pads in keywords["padding"]]
    if any(step != 1 for step in keywords.get("dilation") or ()):
        found["dilations"] = list(keywords["dilation"])
    return found


def layout(axes: int, channels: Any = "C") -> str:
    """How messages write the shape of an input with `axes` spatial axes: (N, C, H, W) for two."""
    return f"(N, {', '.join([str(channels), *('D', 'H', 'W')[-axes:]])})" if axes <= 3 else f"(N, {channels}, …)"


def wide_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype to accumulate in: float32 for float16 and bfloat16, else `dtype` itself."""
    return float32 if dtype.itemsize < float32.itemsize else dtype


def widened(x: jax.Array) -> jax.Array:
    """x in the dtype to accumulate in."""
    return x.astype(wide_dtype(x.dtype))


def check_spatial(name: str, x: jax.Array, axes: int) -> None:
    """Raise `ShapeError` or `DTypeError` unless x is (N, C, …) of floats with `axes` axes after C."""
    shape = _shape(name, x)
    if len(shape) != axes + 2:
        raise ShapeError(f"{name} expected an input {layout(axes)}. Received shape {shape}")
    check_floating(name, x)


def check_channels(name: str, x: jax.Array, least: int = 3) -> None:
    """Raise `ShapeError` or `DTypeError` unless x is (N, C, …) of floats with at least one value per channel.

    It has at least `least` axes.
    """
    shape = _shape(name, x)
    if len(shape) < least or 0 in shape[2:]:
        raise ShapeError(
            f"{name} expected an input (N, C, …) with at least one value per channel. Received shape {shape}"
        )
    check_floating(name, x)


def check_floating(name: str, x: Any) -> None:
    """Raise `DTypeError` unless x holds floats."""
    _shape(name, x)
    if not jnp.issubdtype(jnp.result_type(x), jnp.floating):
        raise DTypeError(f"{name} expected an input of floats, such as float32. Received dtype {jnp.result_type(x)}")


def _shape(name: str, x: Any) -> Sizes:
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise DTypeError(f"{name} expected an array. Received: {x!r}")
    return tuple(x.shape)
