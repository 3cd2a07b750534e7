"""Helpers of Tensor: shapes, numbers, host copies, how values are shown."""

from __future__ import annotations

import math
import operator
import sys
from typing import Any

import jax
import numpy as np

from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.mode import traced
from singax.storage import Deferred, Shape, Unfilled, copied_array


def checked_shape(shape: Any) -> Shape:
    """`shape` as a tuple of sizes; one size may stand for itself."""
    try:
        sizes = (shape,) if hasattr(shape, "__index__") and not np.ndim(shape) else tuple(shape)
        return tuple(None if size is None else _size(size) for size in sizes)
    except TypeError:
        raise ShapeError(f"a shape is made of sizes from 0 up, or None for unknown. Received: {shape!r}") from None


def _size(size: Any) -> int:
    found = operator.index(size)
    if not 0 <= found <= sys.maxsize or isinstance(size, bool):
        raise TypeError
    return found


def number(name: str, what: str, value: Any) -> float:
    """A Python number from a number, or from an array or Tensor of one element that has values."""
    try:
        if isinstance(value, bool | int | float):
            return value
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError, OverflowError, jax.errors.ConcretizationTypeError):
        pass
    raise ArgumentError(f"{name} expected a number as {what}. Received: {value!r}")


def real(name: str, what: str, value: Any) -> float:
    """Like `number`, as a float."""
    try:
        return float(number(name, what, value))
    except OverflowError:
        raise ArgumentError(f"{name} expected a number that a float can hold as {what}. Received: {value}") from None


def integers(name: str, what: str, value: Any) -> tuple[int, ...]:
    """Python integers from one integer or a sequence of them."""
    try:
        several = value if isinstance(value, list | tuple | range) or np.ndim(value) else [value]
        return tuple(operator.index(v) for v in several)
    except TypeError:
        raise ArgumentError(f"{name} expected integers as {what}. Received: {value!r}") from None


def host_copy(data: Any, dtype: np.dtype | None) -> Any:
    """`data` as an array that the Tensor owns: a JAX array as it is, anything else copied on the host."""
    if isinstance(data, jax.Array):
        return data if dtype is None or data.dtype == dtype else data.astype(dtype)
    array = host_array(data)
    with np.errstate(over="ignore"):
        return array.astype(dtype or jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


def host_array(data: Any) -> np.ndarray:
    """A new NumPy array of numbers with the values of `data`."""
    try:
        array = np.array(data, order="C", copy=True)
    except ValueError as error:
        raise ShapeError(f"a Tensor holds a full array. Received: {type(data).__name__} ({error})") from None
    if array.dtype.kind not in "biufcV":
        raise DTypeError(f"a Tensor holds numbers. Received: {type(data).__name__} of dtype {array.dtype}")
    return array


def copied(value: Any) -> Any:
    """A copy of what a cell holds, in memory of its own."""
    if traced(value):
        return value
    if isinstance(value, jax.Array):
        return copied_array(value)
    return value.copy() if isinstance(value, np.ndarray) else value


def shown_values(value: Any) -> str:
    """The end of a Tensor's repr: its values if they are few, or why there are none."""
    if isinstance(value, Unfilled):
        return " (no values yet)"
    if isinstance(value, Deferred):
        return " (not drawn yet)"
    if traced(value):
        return " (being compiled)"
    if math.prod(value.shape) > 12:
        return ""
    try:
        return " " + np.array2string(np.asarray(value), precision=4, separator=", ")
    except RuntimeError:
        return " (deleted)"
