"""Checks that the recurrent operations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from singax.errors import DTypeError, ShapeError
from singax.ops.explain import described


def check_sequence(name: str, x: Any) -> None:
    """Raise unless x is an array (T, B, in) of real numbers with at least one step."""
    _check_real(name, "x", x)
    if x.ndim != 3 or x.shape[0] == 0:
        raise ShapeError(f"{name} expected x (T, B, in) of at least one step. Received: shape {x.shape}")


def expect_shape(name: str, what: str, array: Any, shape: tuple[int, ...], optional: bool = False) -> None:
    """Raise unless the array has this shape, or is absent where it may be."""
    if array is None and optional:
        return
    _check_real(name, what, array)
    if array.shape != shape:
        raise ShapeError(f"{name} expected {what} with shape {shape}. Received: shape {array.shape}")


def _check_real(name: str, what: str, array: Any) -> None:
    if not hasattr(array, "dtype") or jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise DTypeError(f"{name} expected an array of real numbers as {what}. Received: {described(array)}")


def check_lengths(name: str, seq_lengths: Any, batch: int) -> None:
    """Raise unless the lengths are absent or integers (B,)."""
    expect_shape(name, "seq_lengths", seq_lengths, (batch,), optional=True)
    if seq_lengths is not None and not jnp.issubdtype(seq_lengths.dtype, jnp.integer):
        raise DTypeError(f"{name} expected integers as seq_lengths. Received: {seq_lengths.dtype}")


def check_states(name: str, states: Sequence[Any], shape: tuple[int, ...]) -> None:
    """Raise unless each initial state is absent or has this shape."""
    for what, state in zip(("h0", "c0"), states, strict=False):
        expect_shape(name, what, state, shape, optional=True)
