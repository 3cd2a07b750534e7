"""Helpers of Tensor: shapes, host copies, how values are shown."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from singax.errors import DTypeError, ShapeError
from singax.mode import traced
from singax.storage import Deferred, Shape, Unfilled, copied_array


def checked_shape(shape: Any) -> Shape:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        if size is not None and (isinstance(size, bool) or not hasattr(size, "__index__") or size < 0):
            raise ShapeError(f"a shape is made of sizes from 0 up, or None for unknown. Received: {shape!r}")
    return tuple(None if size is None else int(size) for size in sizes)


def host_copy(data: Any, dtype: np.dtype | None) -> Any:
    """`data` as an array that the Tensor owns: a JAX array as it is, anything else copied on the host."""
    if isinstance(data, jax.Array):
        return data if dtype is None or data.dtype == dtype else data.astype(dtype)
    array = np.array(data, order="C", copy=True)
    if array.dtype.kind not in "biufcV":
        raise DTypeError(f"a Tensor holds numbers. Received: {type(data).__name__} of dtype {array.dtype}")
    return array.astype(dtype or jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


def copied(value: Any) -> Any:
    if isinstance(value, jax.Array):
        return copied_array(value)
    return value.copy() if isinstance(value, np.ndarray) else value


def shown_values(value: Any) -> str:
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
