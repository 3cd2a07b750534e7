"""Operations that pick, place or make elements by index."""

from __future__ import annotations

import builtins
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.ops.checks import int64s, normal_axes, normal_axis
from singax.ops.operation import operation

Array = jax.Array
Ints = tuple[int, ...]


def _bounds(keywords: dict[str, Any]) -> list[Any]:
    starts = keywords["starts"]
    axes = keywords.get("axes")
    axes = range(len(starts)) if axes is None else axes
    steps = keywords.get("steps") or [1] * len(starts)
    return [int64s(starts), int64s(keywords["ends"]), int64s(axes), int64s(steps)]


@operation("Slice", constants=_bounds)
def slice(x: Array, *, starts: Ints, ends: Ints, axes: Ints | None = None, steps: Ints | None = None) -> Array:
    """x[start:end:step] along each of `axes` (the first ones if None), by Python's rules."""
    along = normal_axes("slice", range(len(starts)) if axes is None else axes, jnp.ndim(x))
    strides = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(along) == len(strides) or 0 in strides:
        raise ArgumentError(
            "slice expected starts, ends, axes and steps of one length, steps other than 0. "
            f"Received: {starts}, {ends}, {axes} and {steps}"
        )
    key = [builtins.slice(None)] * jnp.ndim(x)
    for axis, *bounds in zip(along, starts, ends, strides, strict=True):
        key[axis] = builtins.slice(*bounds)
    return jnp.asarray(x)[tuple(key)]


@operation("Gather", attributes={"axis": "axis"})
def gather(x: Array, indices: Array, *, axis: int = 0) -> Array:
    """Entries of x along `axis` at integer indices of any shape, which wrap around at the end of the axis."""
    along = normal_axis("gather", axis, jnp.ndim(x))
    if jnp.shape(x)[along] == 0 and jnp.size(indices):
        raise ShapeError(f"gather expected an axis with elements. Received: axis {axis} of shape {jnp.shape(x)}")
    return jnp.take(x, _integers("gather", indices), axis=along, mode="wrap")


@operation("ScatterElements", attributes={"axis": "axis"})
def scatter_elements(x: Array, indices: Array, updates: Array, *, axis: int = 0) -> Array:
    """x with `updates` put where `indices`, of equal shape, say: x[i][indices[i][j]] ← updates[i][j] for axis 1.

    Indices count from the end if negative; updates outside x are dropped. If several updates have one place, which
    one stays is not defined.
    """
    along = normal_axis("scatter_elements", axis, jnp.ndim(x))
    shape = jnp.shape(indices)
    if shape != jnp.shape(updates) or len(shape) != jnp.ndim(x):
        raise ShapeError(
            f"scatter_elements expected indices and updates of one shape with {jnp.ndim(x)} axes. "
            f"Received: {shape} and {jnp.shape(updates)}"
        )
    if any(n > m for axis, (n, m) in enumerate(zip(shape, jnp.shape(x), strict=True)) if axis != along):
        raise ShapeError(f"scatter_elements expected indices within shape {jnp.shape(x)}. Received shape {shape}")
    places: list[Any] = list(np.ogrid[tuple(builtins.slice(n) for n in shape)])
    places[along] = _integers("scatter_elements", indices)
    return jnp.asarray(x).at[tuple(places)].set(jnp.asarray(updates).astype(jnp.result_type(x)))


@operation(
    "OneHot",
    attributes=lambda k: {"axis": k.get("axis", -1)},
    constants=lambda k: [np.asarray(k["depth"], np.int64), np.asarray(k.get("values", (0.0, 1.0)), np.float32)],
)
def onehot(indices: Array, *, axis: int = -1, depth: int, values: tuple[float, float] = (0.0, 1.0)) -> Array:
    """A new axis of size `depth`: float32, values[1] at the place that the index says, values[0] elsewhere.

    Indices count from the end if negative; those outside −depth … depth − 1 are on nowhere.
    """
    if len(values) != 2:
        raise ArgumentError(f"onehot expected values (off, on). Received: {values}")
    along = normal_axis("onehot", axis, jnp.ndim(indices) + 1)
    ids = jnp.asarray(indices).astype(jnp.int32)
    on = jax.nn.one_hot(jnp.where(ids < 0, ids + depth, ids), depth, axis=along, dtype=jnp.bool_)
    return jnp.where(on, jnp.float32(values[1]), jnp.float32(values[0]))


@operation("NonZero")
def nonzero(x: Array) -> Array:
    """Where x is not 0: int32 (ndim, n), in row-major order. The shape depends on values: not in compiled programs."""
    found = np.nonzero(np.atleast_1d(_values("nonzero", x)))
    return jnp.asarray(np.stack(found), jnp.int32)


@operation("ConstantOfShape", attributes=lambda k: {"value": np.asarray([k.get("value", 0.0)], np.float32)})
def constant_of_shape(x: Array, *, value: float = 0.0) -> Array:
    """An array of `value`, float32, whose sizes are the integers x. Not in compiled programs, unless x is constant."""
    sizes = _values("constant_of_shape", x)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        raise ArgumentError(f"constant_of_shape expected integers (n,) of 0 or more. Received: {sizes.tolist()}")
    return jnp.full(tuple(sizes.tolist()), value, jnp.float32)


def _integers(name: str, indices: Array) -> Array:
    """Indices as integers; floats are converted, since SINGA's users have them in float Tensors."""
    if jnp.result_type(indices) == jnp.bool_:
        raise DTypeError(f"{name} expected indices of integers. Received dtype bool")
    found = jnp.asarray(indices)
    return found if jnp.issubdtype(found.dtype, jnp.integer) else found.astype(jnp.int32)


def _values(name: str, x: Array) -> np.ndarray:
    try:
        return np.asarray(x)
    except jax.errors.TracerArrayConversionError:
        raise ShapeError(
            f"{name} expected an array whose values are known, since the shape of its result depends on them. "
            f"Received: an array of shape {jnp.shape(x)} in a program that is being compiled"
        ) from None
