"""Checks that operations share; every message names the operation, what it expected and what it received."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, ShapeError

Array = jax.Array


def floating(x: Any) -> Array:
    """x itself if it holds floats, else its values as floats."""
    return jnp.asarray(x, jnp.result_type(x, float))


def broadcast(name: str, *arrays: Any) -> tuple[int, ...]:
    """The shape that the arrays broadcast to, by NumPy's rules."""
    shapes = [jnp.shape(a) for a in arrays]
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        received = ", ".join(map(str, shapes))
        raise ShapeError(f"{name} expected shapes that broadcast together. Received: {received}") from None


def same_shape(name: str, a: Any, b: Any) -> None:
    """Raise `ShapeError` unless a and b have one shape."""
    if jnp.shape(a) != jnp.shape(b):
        raise ShapeError(f"{name} expected equal shapes. Received: {jnp.shape(a)} and {jnp.shape(b)}")


def normal_axis(name: str, axis: int, ndim: int) -> int:
    """`axis` counted from the front."""
    if not -ndim <= axis < ndim:
        raise ShapeError(f"{name} expected an axis from {-ndim} to {ndim - 1}. Received: {axis}")
    return axis % ndim


def normal_axes(name: str, axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Different axes, counted from the front."""
    found = tuple(normal_axis(name, axis, ndim) for axis in axes)
    if len(set(found)) != len(found):
        raise ShapeError(f"{name} expected different axes. Received: {tuple(axes)} for {ndim} axes")
    return found


def one_per_axis(name: str, what: str, values: Sequence[Any], ndim: int) -> None:
    """Raise `ShapeError` unless there is one value for each axis."""
    if len(values) != ndim:
        raise ShapeError(f"{name} expected {what} for each of {ndim} axes. Received: {tuple(values)}")


def one_of(name: str, what: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise `ArgumentError` unless `value` is among the choices."""
    if value not in choices:
        raise ArgumentError(f"{name} expected {what} among {', '.join(map(repr, choices))}. Received: {value!r}")


def int64s(values: Sequence[int] | None) -> np.ndarray | None:
    """Static integers as the array that ONNX takes them in."""
    return None if values is None else np.asarray(values, np.int64)
