"""What a query may attend to: padding, and the keys that a cache holds so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.ops.attention import checked_mask

Array = jax.Array
Cache = tuple[Array, Array, Array]  # keys and values (N, size, heads · d), how many positions are in use


def padding(key_mask: Array | None, key_lengths: Array | None, N: int, S: int) -> list[Array]:
    """Booleans (N, 1, 1, S): False for keys that are padding, by `key_mask` (N, S) and by `key_lengths` (N,)."""
    found = []
    if key_mask is not None:
        if key_mask.shape != (N, S) or key_mask.dtype != jnp.bool_:
            raise ShapeError(
                f"expected a key_mask of booleans (N, S), {(N, S)}. Received: {key_mask.dtype}{key_mask.shape}"
            )
        found.append(key_mask[:, None, None, :])
    if key_lengths is not None:
        if key_lengths.shape != (N,):
            raise ShapeError(f"expected key_lengths (N,), {(N,)}. Received shape {key_lengths.shape}")
        if not jnp.issubdtype(key_lengths.dtype, jnp.integer):
            raise DTypeError(f"expected key_lengths of integers. Received dtype {key_lengths.dtype}")
        found.append(jnp.arange(S)[None, None, None, :] < key_lengths[:, None, None, None])
    return found


def causal_in_cache(start: Array, T: int, S: int, causal: bool) -> Array:
    """Booleans (1, 1, T, S): which of a cache's S keys the queries at positions start … start + T − 1 may see."""
    last = jnp.arange(T) if causal else jnp.full(T, T - 1)
    return (jnp.arange(S)[None, :] <= start + last[:, None])[None, None]


def restricted(mask: Array | None, allowed: Sequence[Array], shape: tuple[int, ...]) -> Array | None:
    """The mask with everything excluded that one of `allowed`, booleans with four axes, excludes."""
    mask = None if mask is None else checked_mask(mask, shape)
    for each in allowed:
        if mask is None:
            mask = each
        elif mask.dtype == jnp.bool_:
            mask = mask & each
        else:
            mask = jnp.where(each, mask, jnp.full_like(mask, -jnp.inf))
    return mask


def extended(cache: Cache, k: Array, v: Array) -> tuple[Array, Array, Cache]:
    """All keys and values of the cache after k and v (N, T, heads · d) have joined it, and the new cache."""
    keys, values, length = cache
    start = (0, length, 0)
    keys = lax.dynamic_update_slice(keys, k.astype(keys.dtype), start)
    values = lax.dynamic_update_slice(values, v.astype(values.dtype), start)
    return keys, values, (keys, values, length + k.shape[1])


def checked_cache(cache: Any, k: Array) -> Cache:
    """The cache, once keys and values like k (N, T, heads · d) are found to fit it."""
    if not isinstance(cache, list | tuple) or len(cache) != 3:
        raise ArgumentError(f"expected a cache of keys, values and a length. Received: {len(cache)} parts")
    keys, values, length = cache
    N, T, features = k.shape
    if keys.shape != values.shape or keys.ndim != 3 or (keys.shape[0], keys.shape[2]) != (N, features):
        raise ShapeError(
            f"expected a cache of keys and values ({N}, size, {features}). Received shapes {keys.shape}, {values.shape}"
        )
    if length.shape or not jnp.issubdtype(length.dtype, jnp.integer):
        raise ShapeError(f"expected a cache whose length is one integer. Received: {length.dtype}{length.shape}")
    if keys.shape[1] < T:
        raise ShapeError(f"expected a cache of at least {T} positions. Received one of {keys.shape[1]}")
    return keys, values, length
