"""What gradients go through on their way to other ranks: float16, clipping, sparsification, fused buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from singax.errors import ArgumentError

Sum = Callable[[Any], Any]


def half(value: Any, add: Sum) -> Any:
    """The sum of float16 numbers, in the dtype of `value`."""
    return add(value.astype(jnp.float16)).astype(value.dtype)


def sparse(value: Any, residual: Any, add: Sum, spars: float, top_k: bool) -> tuple[Any, Any]:
    """(sum of the entries that are kept, what is left): value ← value + residual, of which

    the `ceil(spars · n)` entries of largest size are kept if `top_k`, else those with |value| ≥ spars.
    """
    value = value if residual is None else value + residual
    size = jnp.abs(value).ravel()
    if top_k:
        _, places = jax.lax.top_k(size, max(1, math.ceil(spars * size.size)))
        keep = jnp.zeros(size.shape, bool).at[places].set(True).reshape(value.shape)
    else:
        keep = jnp.abs(value) >= spars
    kept = jnp.where(keep, value, 0)
    return add(kept), value - kept


def check_sparsity(spars: float, top_k: bool) -> None:
    """`ArgumentError` for a fraction outside (0, 1], or a negative threshold."""
    if (top_k and not 0 < spars <= 1) or not spars >= 0:
        what = "a fraction above 0, up to 1, of the entries" if top_k else "a threshold, 0 or more"
        raise ArgumentError(f"spars is {what}. Received: {spars!r}")


def groups(sizes: Sequence[int], threshold: int) -> list[list[int]]:
    """What shares a buffer, as lists of positions: larger than `threshold` elements alone, the rest in turn together,
    until a buffer holds more than `threshold`.
    """
    found: list[list[int]] = []
    waiting: list[int] = []
    for position, size in enumerate(sizes):
        if size > threshold:
            found.append([position])
            continue
        waiting.append(position)
        if sum(sizes[i] for i in waiting) > threshold:
            found.append(waiting)
            waiting = []
    return [*found, waiting] if waiting else found


def fused(values: Sequence[Any]) -> Any:
    """All elements in one vector."""
    dtype = jnp.result_type(*values)
    return jnp.concatenate([value.ravel().astype(dtype) for value in values])


def split(vector: Any, like: Sequence[Any]) -> list[Any]:
    """The inverse of `fused`."""
    found, start = [], 0
    for value in like:
        found.append(vector[start : start + value.size].reshape(value.shape).astype(value.dtype))
        start += value.size
    return found
