"""Layers that make images larger or smaller without parameters: padding, repeated and exchanged places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from singax import ops
from singax.checked import integer, number
from singax.errors import ShapeError
from singax.layer.base import Layer
from singax.layer.window import paddings
from singax.ops.checks import one_of


class Pad(Layer):
    """Places added before and behind along the axes after C.

    **Shapes** x (N, C, H, W) → (N, C, top + H + bottom, left + W + right); one or three axes after C are taken too.

    **Args**
      padding: an integer for all sides, a sequence of one for each axis, or of two for each axis (top, bottom, left,
        right).
      mode: "constant" (default) adds `constant`, "reflect" mirrors at the border element, "edge" repeats it.
      constant: what "constant" adds (default 0).

    **Raises** `ArgumentError` for a padding that does not fit the number of axes or an unknown mode, `ShapeError` for
    an input of other rank. *Differences from SINGA*: SINGA has no such layer. ONNX: Pad.

    >>> Pad((1, 2), mode="reflect").infer_shape((None, 3, 8, 8))
    (None, 3, 10, 12)
    """

    def __init__(self, padding: Any, mode: str = "constant", constant: float = 0.0) -> None:
        super().__init__()
        one_of("Pad", "mode", mode, ("constant", "reflect", "edge"))
        self.padding = tuple(padding) if isinstance(padding, list) else padding
        self.mode, self.constant = mode, number("constant", constant)

    def forward(self, x: jax.Array) -> jax.Array:
        _check_spatial(x)
        found = ((0, 0), (0, 0), *paddings(self.padding, x.ndim - 2))
        pads = tuple(pair[side] for side in (0, 1) for pair in found)
        return ops.pad(x, mode=self.mode, pads=pads, constant=self.constant)


class ZeroPad(Pad):
    """Zeros added before and behind along the axes after C: `Pad` with mode "constant". Also called `ZeroPad2d`.

    >>> ZeroPad((0, 1, 2, 0)).infer_shape((None, 3, 8, 8))
    (None, 3, 9, 10)
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding)


ZeroPad2d = ZeroPad


class UpSample(Layer):
    """Every element repeated: the nearest element at the place divided by the scale, rounded down.

    **Shapes** x (N, C, H, W) → (N, C, floor(H · s), floor(W · s)); one or three axes after C are taken too.

    **Args**
      scales: a number above 0 for all axes after C, or a sequence of one for each.
      mode: "nearest".

    **Raises** `ArgumentError` for other arguments, `ShapeError` for an input of other rank. ONNX: Resize.

    >>> UpSample(2).infer_shape((None, 3, 8, 8))
    (None, 3, 16, 16)
    """

    def __init__(self, scales: Any = 2, mode: str = "nearest") -> None:
        super().__init__()
        one_of("UpSample", "mode", mode, ("nearest",))
        several = isinstance(scales, list | tuple)
        self.scales = tuple(number("scales", scale, 0) for scale in scales) if several else number("scales", scales, 0)
        self.mode = mode

    def forward(self, x: jax.Array) -> jax.Array:
        _check_spatial(x)
        given = self.scales if isinstance(self.scales, Sequence) else (self.scales,) * (x.ndim - 2)
        return ops.upsample(x, mode=self.mode, scales=(1.0, 1.0, *given))


class PixelShuffle(Layer):
    """Channels become places: y[n, c, i·s + u, j·s + v] = x[n, (c·s + u)·s + v, i, j] (Shi et al. 2016).

    **Shapes** x (N, C · s², H, W) → (N, C, H · s, W · s).

    **Args** factor: s, an integer from 1 up.

    **Raises** `ShapeError` for channels that s² does not divide. ONNX: DepthToSpace (mode CRD).

    >>> PixelShuffle(2).infer_shape((None, 12, 4, 4))
    (None, 3, 8, 8)
    """

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = integer("factor", factor, 1)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.depth_to_space(x, blocksize=self.factor, mode="CRD")


class PixelUnshuffle(Layer):
    """Places become channels: undoes `PixelShuffle`.

    **Shapes** x (N, C, H · s, W · s) → (N, C · s², H, W).

    **Args** factor: s, an integer from 1 up.

    **Raises** `ShapeError` for rows or columns that s does not divide. ONNX: Reshape and Transpose.

    >>> PixelUnshuffle(2).infer_shape((None, 3, 8, 8))
    (None, 12, 4, 4)
    """

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = integer("factor", factor, 1)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.space_to_depth_crd(x, blocksize=self.factor)


def _check_spatial(x: jax.Array) -> None:
    if not 3 <= x.ndim <= 5:
        raise ShapeError(f"expected an input (N, C, …) with one to three axes after C. Received shape {x.shape}")
