"""Positions as features: sinusoids and learned vectors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import ops
from singax.checked import integer
from singax.errors import ArgumentError, ShapeError
from singax.layer.base import Layer
from singax.layer.dropout import Dropout
from singax.ops.position import position_angles
from singax.ops.window import check_floating, wide_dtype
from singax.recipes import Normal

Array = jax.Array


class PositionalEncoding(Layer):
    """Adds sinusoids (Vaswani et al. 2017).

    y[t, 2i] = x[t, 2i] + sin(t / base^(2i / D)) and y[t, 2i + 1] = x[t, 2i + 1] + cos(t / base^(2i / D)).

    **Shapes** x (…, T, D) → the same.

    **Args**
      dropout: the part of the sums that is dropped in training (default 0).
      base: the base of the wavelengths (default 10000).

    **Call** `(x, start=None)`: `start` is the position of the first element, an integer or a scalar array (default 0).

    **Raises** `ArgumentError` for other arguments, `ShapeError` for an input without the two axes or a `start` that is
    no scalar, `DTypeError` for an input of integers.

    *Differences from SINGA*: SINGA has no such layer.

    >>> PositionalEncoding().infer_shape((None, 10, 32))
    (None, 10, 32)
    """

    def __init__(self, dropout: float = 0.0, base: float = 10000.0) -> None:
        super().__init__()
        self.dropout, self.base = Dropout(dropout), positive_number("base", base)

    def forward(self, x: Array, start: Any = None) -> Array:
        _check(x)
        D = x.shape[-1]
        numbers = position_numbers(x.shape[-2], start, wide_dtype(x.dtype))
        angles = position_angles(numbers, D, base=self.base)
        pairs = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1).reshape(x.shape[-2], -1)
        return self.dropout(ops.add(x, _like(pairs[:, :D], x)))


class PositionalEmbedding(Layer):
    """Adds a learned vector for each position: y[t] = x[t] + W[start + t] (Gehring et al. 2017).

    **Shapes** x (…, T, D) → the same; `W` (max_length, D).

    **Args**
      max_length: how many positions there are.
      dropout: the part of the sums that is dropped in training (default 0).
      initializer: an initializer name or function (default N(0, 0.02²)).

    **Call** `(x, start=None)`: `start` is the position of the first element, an integer or a scalar array (default 0).
    A position beyond the table that comes from an array cannot raise in a compiled program: its output is nan.

    **Raises** `ArgumentError` for other arguments, `ShapeError` for an input without the two axes, with other features
    or longer than `max_length`, `DTypeError` for an input of integers.

    *Differences from SINGA*: SINGA has no such layer. ONNX: Gather and Add.

    >>> PositionalEmbedding(64).infer_shape((None, 10, 32))
    (None, 10, 32)
    """

    def __init__(self, max_length: int, dropout: float = 0.0, initializer: Any = None) -> None:
        super().__init__()
        self.max_length, self.dropout = integer("max_length", max_length, 1), Dropout(dropout)
        self.initializer = Normal(0.0, 0.02) if initializer is None else initializer

    def initialize(self, x: Array) -> None:
        _check(x)
        self.W = self.param((self.max_length, x.shape[-1]), self.initializer, x.dtype)

    def forward(self, x: Array, start: Any = None) -> Array:
        _check(x)
        T, W = x.shape[-2], self.W.data
        if self.max_length < T or x.shape[-1] != W.shape[1]:
            raise ShapeError(f"expected (…, T, {W.shape[1]}) with T up to {self.max_length}. Received shape {x.shape}")
        rows = ops.embedding(position_numbers(T, start, np.dtype("int32")), W)
        return self.dropout(ops.add(x, _like(rows, x)))


def position_numbers(T: int, start: Any, dtype: Any) -> Array:
    """start … start + T − 1 (0 … for None); start is an integer or a scalar array of integers."""
    numbers = jnp.arange(T)
    if start is None:
        return numbers.astype(dtype)
    start = jnp.asarray(start)
    if start.shape or not jnp.issubdtype(start.dtype, jnp.integer):
        raise ShapeError(f"expected a start that is one integer. Received: {start.dtype}{start.shape}")
    return (numbers + start).astype(dtype)


def positive_number(name: str, value: Any) -> float:
    """`value` as a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ArgumentError(f"{name} must be a number above 0. Received: {value!r}")
    return float(value)


def _check(x: Array) -> None:
    if x.ndim < 2:
        raise ShapeError(f"expected an input (…, T, D). Received shape {x.shape}")
    check_floating("a positional encoding", x)


def _like(rows: Array, x: Array) -> Array:
    """`rows` (T, D) in the dtype and with the number of axes of x."""
    return rows.astype(x.dtype).reshape((1,) * (x.ndim - 2) + rows.shape)
