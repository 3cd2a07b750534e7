"""Dropout layers: of elements, of whole channels, and the one that goes with SELU."""

from __future__ import annotations

from collections.abc import Callable

import jax

from singax import dispatch, mode, ops
from singax.checked import number
from singax.errors import ArgumentError
from singax.layer.base import Layer
from singax.ops.window import check_channels, check_floating


class Dropout(Layer):
    """Dropout (Srivastava et al. 2014).

    Training: x · m / (1 − ratio), each element of m being 0 with probability `ratio`, else 1. Evaluation: x.

    **Shapes** any → the same.

    **Args** ratio: the part of the elements that is dropped (default 0.5), from 0 to below 1.

    **Raises** `ArgumentError` for another ratio, `DTypeError` for an input of integers.

    *Differences from SINGA*: the scale is 1 / (1 − ratio), SINGA's is 1 − ratio; the ratio given here is the one used;
    every step draws a new mask. `device.SetRandSeed` makes the masks repeat. ONNX: Dropout.

    >>> Dropout(0.2).infer_shape((None, 4))
    (None, 4)
    """

    drop: Callable[..., jax.Array] = staticmethod(ops.dropout)

    def __init__(self, ratio: float = 0.5) -> None:
        super().__init__()
        self.ratio = number("ratio", ratio, 0, 1)
        if self.ratio == 1:
            raise ArgumentError(f"ratio must be below 1. Received: {ratio!r}")

    def check(self, x: jax.Array) -> None:
        """Raise `DTypeError` unless x holds floats."""
        check_floating("dropout", x)

    def forward(self, x: jax.Array) -> jax.Array:
        self.check(x)
        if not mode.training or self.ratio == 0:
            return x
        return self.drop(x, dispatch.next_key(), ratio=self.ratio)


class SpatialDropout(Dropout):
    """Dropout of whole channels (Tompson et al. 2015). Also called `Dropout1d`, `Dropout2d` and `Dropout3d`.

    Training: x · m / (1 − ratio), m (N, C) being 0 with probability `ratio`, else 1. Evaluation: x.

    **Shapes** x (N, C, …) → the same.

    **Args** ratio: the part of the channels that is dropped (default 0.5), from 0 to below 1.

    **Raises** `ArgumentError` for another ratio, `ShapeError` for an input without channels. ONNX: Dropout and Mul.

    >>> SpatialDropout(0.2).infer_shape((None, 4, 8, 8))
    (None, 4, 8, 8)
    """

    drop = staticmethod(ops.channel_dropout)

    def check(self, x: jax.Array) -> None:
        """Raise `DTypeError` or `ShapeError` unless x is (N, C, …) of floats."""
        check_channels("dropout", x, 2)


Dropout1d = Dropout2d = Dropout3d = SpatialDropout


class AlphaDropout(Dropout):
    """Dropout that keeps mean 0 and variance 1, for networks of SELU (Klambauer et al. 2017).

    Training: a · (x · m − 1.758 · (1 − m)) + b, each element of m being 0 with probability `ratio`, else 1; a and b
    restore mean and variance. Evaluation: x.

    **Shapes** any → the same.

    **Args** ratio: the part of the elements that is dropped (default 0.5), from 0 to below 1.

    **Raises** `ArgumentError` for another ratio. ONNX: none.

    >>> AlphaDropout(0.2).infer_shape((None, 4))
    (None, 4)
    """

    drop = staticmethod(ops.alpha_dropout)
