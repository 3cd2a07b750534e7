"""Reductions over axes, and running sums along one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.ops.checks import int64s, normal_axes, normal_axis
from singax.ops.operation import operation

Array = jax.Array
Axes = tuple[int, ...]


def _attributes(keywords: dict[str, Any]) -> dict[str, Any]:
    made = {"keepdims": int(keywords.get("keepdims", True))}
    return made | {"noop_with_empty_axes": 1} if keywords.get("axes") == () else made


def _constants(keywords: dict[str, Any]) -> list[Any]:
    return [int64s(keywords.get("axes"))]


@operation("ReduceSum", attributes=_attributes, constants=_constants)
def reduce_sum(x: Array, *, axes: Axes | None = None, keepdims: bool = True) -> Array:
    """The sum over `axes`, over all axes if None; they stay with size 1 if `keepdims`."""
    return jnp.sum(x, axis=_axes("reduce_sum", x, axes), keepdims=bool(keepdims))


@operation("ReduceMean", attributes=_attributes, constants=_constants)
def reduce_mean(x: Array, *, axes: Axes | None = None, keepdims: bool = True) -> Array:
    """The mean over `axes`, over all axes if None; they stay with size 1 if `keepdims`."""
    return jnp.mean(x, axis=_axes("reduce_mean", x, axes), keepdims=bool(keepdims))


@operation("ReduceMax", attributes=_attributes, constants=_constants)
def reduce_max(x: Array, *, axes: Axes | None = None, keepdims: bool = True) -> Array:
    """The largest element over `axes`, over all axes if None; equal ones share the gradient."""
    return jnp.max(x, axis=_axes("reduce_max", x, axes), keepdims=bool(keepdims))


@operation("ReduceMin", attributes=_attributes, constants=_constants)
def reduce_min(x: Array, *, axes: Axes | None = None, keepdims: bool = True) -> Array:
    """The smallest element over `axes`, over all axes if None; equal ones share the gradient."""
    return jnp.min(x, axis=_axes("reduce_min", x, axes), keepdims=bool(keepdims))


@operation("ReduceProd", attributes=_attributes, constants=_constants)
def reduce_prod(x: Array, *, axes: Axes | None = None, keepdims: bool = True) -> Array:
    """The product over `axes`, over all axes if None; they stay with size 1 if `keepdims`."""
    return jnp.prod(x, axis=_axes("reduce_prod", x, axes), keepdims=bool(keepdims))


@operation(
    "CumSum",
    attributes=lambda k: {"exclusive": int(k.get("exclusive", False)), "reverse": int(k.get("reverse", False))},
    constants=lambda k: [np.asarray(k.get("axis", -1), np.int64)],
)
def cumsum(x: Array, *, axis: int = -1, exclusive: bool = False, reverse: bool = False) -> Array:
    """Running sums along `axis`, from the end if `reverse`; `exclusive` ones leave out the element at their place."""
    along = normal_axis("cumsum", axis, jnp.ndim(x))
    x = jnp.flip(x, along) if reverse else jnp.asarray(x)
    if exclusive and x.shape[along]:
        first = jnp.zeros_like(lax.slice_in_dim(x, 0, 1, axis=along))
        x = jnp.concatenate([first, lax.slice_in_dim(x, 0, x.shape[along] - 1, axis=along)], axis=along)
    sums = jnp.cumsum(x, axis=along)
    return jnp.flip(sums, along) if reverse else sums


def _axes(name: str, x: Array, axes: Axes | None) -> Axes | None:
    return None if axes is None else normal_axes(name, axes, jnp.ndim(x))
