"""Dropout as a layer."""

from __future__ import annotations

from typing import Any

import jax

from singax import dispatch, mode, ops
from singax.errors import ArgumentError
from singax.layer.base import Layer


class Dropout(Layer):
    """Dropout (Srivastava et al. 2014).

    Training: x · m / (1 − ratio), each element of m being 0 with probability `ratio`, else 1. Evaluation: x.

    **Shapes** any → the same.

    **Args** ratio: the part of the elements that is dropped (default 0.5), from 0 to below 1.

    **Raises** `ArgumentError` for another ratio.

    *Differences from SINGA*: the scale is 1 / (1 − ratio), SINGA's is 1 − ratio; the ratio given here is the one used;
    every step draws a new mask. `device.SetRandSeed` makes the masks repeat. ONNX: Dropout.

    >>> Dropout(0.2).infer_shape((None, 4))
    (None, 4)
    """

    def __init__(self, ratio: float = 0.5) -> None:
        super().__init__()
        if not _is_ratio(ratio):
            raise ArgumentError(f"ratio must be a number from 0 to below 1. Received: {ratio!r}")
        self.ratio = ratio

    def forward(self, x: jax.Array) -> jax.Array:
        if not mode.training or self.ratio == 0:
            return x
        return ops.dropout(x, dispatch.next_key(), ratio=self.ratio)


def _is_ratio(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1
