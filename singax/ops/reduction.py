"""Reductions over axes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from singax.ops.checks import int64s, normal_axes
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


def _axes(name: str, x: Array, axes: Axes | None) -> Axes | None:
    return None if axes is None else normal_axes(name, axes, jnp.ndim(x))
