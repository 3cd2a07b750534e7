"""`tensor[keys]`: ints and slices, or one array of integers or booleans."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.mode import traced
from singax.tensor.rules import call
from singax.tensor.values import host_array


def indexed(tensor: Any, keys: Any) -> Any:
    """The elements of `tensor` that `keys` picks."""
    if isinstance(keys, list):
        keys = host_array(keys)
    if not hasattr(keys, "dtype") or isinstance(keys, np.generic):
        return call(ops.getitem, tensor, key=_kept_axes(keys, tensor.shape))
    if keys.dtype.kind not in "iub":
        raise ArgumentError(f"a Tensor is indexed with integers or booleans. Received: an array of {keys.dtype}")
    if _has_numbers(keys):
        keys = np.asarray(keys)
        if keys.dtype == bool:
            return _where(tensor, keys)
        _check_range(keys, tensor.shape)
    return call(ops.take, tensor, keys)


def _has_numbers(keys: Any) -> bool:
    return isinstance(keys, np.ndarray) or not traced(keys if isinstance(keys, jax.Array) else keys._cell.array())


def _where(tensor: Any, mask: np.ndarray) -> Any:
    """The elements, or parts along the leading axes, for which a mask is true."""
    if not mask.ndim or mask.shape != tensor.shape[: mask.ndim]:
        raise ShapeError(f"a mask has the leading sizes of {tensor.shape}. Received: a mask of shape {mask.shape}")
    parts = call(ops.reshape, tensor, shape=(mask.size, *tensor.shape[mask.ndim :]))
    return call(ops.take, parts, np.flatnonzero(mask))


def _check_range(indices: np.ndarray, shape: tuple[int, ...]) -> None:
    size = shape[0] if shape else 0
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        raise IndexError(
            f"indices from {indices.min()} to {indices.max()} are out of range for axis 0 of shape {shape}"
        )


def _kept_axes(keys: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    keys = keys if isinstance(keys, tuple) else (keys,)
    explicit = sum(k is not None and k is not Ellipsis for k in keys)
    made: list[Any] = []
    axis = 0
    for key in keys:
        if key is Ellipsis:
            axis += len(shape) - explicit
            made.append(key)
        elif hasattr(key, "__index__") and not isinstance(key, bool) and not np.ndim(key):
            made.append(_one(int(key), axis, shape))
            axis += 1
        elif key is None or isinstance(key, slice):
            made.append(None if key is None else _bounds(key))
            axis += key is not None
        else:
            raise ArgumentError(f"a Tensor is indexed with ints, slices, None, ... or one array. Received: {key!r}")
    if explicit > len(shape):
        raise IndexError(f"{explicit} indices are too many for shape {shape}")
    return tuple(made)


def _bounds(key: slice) -> tuple[Any, ...]:
    bounds = (key.start, key.stop, key.step)
    if key.step == 0 or not all(b is None or (hasattr(b, "__index__") and not np.ndim(b)) for b in bounds):
        raise ArgumentError(f"a slice is made of integers, with a step other than 0. Received: {key}")
    return ("slice", *(None if b is None else int(b) for b in bounds))


def _one(index: int, axis: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    if axis >= len(shape) or not -shape[axis] <= index < shape[axis]:
        raise IndexError(f"index {index} is out of range for axis {axis} of shape {shape}")
    index %= shape[axis]
    return ("slice", index, index + 1, None)
