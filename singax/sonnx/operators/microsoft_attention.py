"""The attention operators of com.microsoft: their layouts, caches and masks, around `ops.attention`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.ops.window import wide_dtype
from singax.sonnx.operators.integer_products import integer_matmul, largest
from singax.sonnx.operators.microsoft import plus
from singax.sonnx.operators.quantized import MICROSOFT, exact_stretch
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("Attention", domain=MICROSOFT)
def attention(
    call: Call,
    x: Array,
    W: Array,
    bias: Array = None,
    mask: Array = None,
    past: Array = None,
    added: Array = None,
    past_length: Array = None,
) -> tuple[Array, Array]:
    """Attention of x (N, T, C) to itself: queries, keys and values are parts of x W + bias."""
    return _of_projected(call, plus(jnp.asarray(x) @ W, bias), mask, past, added)


@onnx_operator("QAttention", domain=MICROSOFT)
def quantized_attention(
    call: Call,
    x: Array,
    W: Array,
    bias: Array,
    x_scale: Array,
    W_scale: Array,
    mask: Array = None,
    x_zero: Array = None,
    W_zero: Array = None,
    past: Array = None,
) -> tuple[Array, Array]:
    """Attention with x and W quantised."""
    sums = integer_matmul(x, W, x_zero, W_zero, exact_stretch(call, largest(x, x_zero), 1, 7))
    scale = jnp.asarray(x_scale) * jnp.asarray(W_scale)
    return _of_projected(call, sums.astype(scale.dtype) * scale + bias, mask, past, None)


def _of_projected(call: Call, joined: Array, mask: Array, past: Array, added: Array) -> tuple[Array, Array]:
    for name in ("do_rotary", "past_present_share_buffer"):
        if call.attribute(name, 0):
            raise ArgumentError(f"expected no {name}. Received: {call.attribute(name)}")
    heads = call.attribute("num_heads")
    sizes = call.attribute("qkv_hidden_sizes") or [joined.shape[-1] // 3] * 3
    if sum(sizes) != joined.shape[-1]:
        raise ShapeError(f"expected weights for {sizes} columns. Received: {joined.shape[-1]} columns")
    q, k, v = (by_head(part, heads) for part in jnp.split(joined, np.cumsum(sizes)[:2].tolist(), axis=-1))
    if past is not None:
        k, v = (jnp.concatenate([old, new], axis=2) for old, new in zip(jnp.asarray(past), (k, v), strict=True))
    y = attended(call, q, k, v, mask, added)
    return y, jnp.stack([k, v]) if k.shape == v.shape else None


def by_head(x: Array, heads: int) -> Array:
    """(N, T, heads · D) as (N, heads, T, D)."""
    if x.ndim != 3 or x.shape[2] % heads:
        raise ShapeError(f"expected (N, T, {heads} · D). Received shape {x.shape}")
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def attended(call: Call, q: Array, k: Array, v: Array, mask: Array, added: Array) -> Array:
    """softmax(q kᵀ · scale + masks) v for (N, heads, T, D), as (N, T, heads · D).

    A query sees the keys before it, counted from the end, where the node is unidirectional.
    """
    length, total, wide = q.shape[2], k.shape[2], wide_dtype(q.dtype)
    bias = None if added is None else jnp.asarray(added).astype(wide)
    if mask is not None:
        kept = allowed(jnp.asarray(mask), q.shape[0], length, total)
        low = jnp.asarray(call.attribute("mask_filter_value", -10000.0), wide)
        bias = plus(jnp.where(kept, jnp.zeros_like(low), low), bias)
    if call.attribute("unidirectional", 0):
        before = jnp.tri(length, total, total - length, dtype=bool)[None, None]
        bias = jnp.where(before, 0 if bias is None else bias, jnp.finfo(wide).min)
    y = ops.attention(q, k, v, bias, scale=call.attribute("scale", 0.0) or None)
    return y.swapaxes(1, 2).reshape(y.shape[0], length, -1)


def allowed(mask: Array, batch: int, length: int, total: int) -> Array:
    """Which keys may be seen, (N or 1, 1, T or 1, S), from any form of mask_index.

    (N,): how many keys; (2 N,): their ends, then their starts; (N, S), (N, T, S) or (N, 1, M, M): 0 for none.
    """
    if mask.ndim == 1 and mask.shape[0] in (batch, 2 * batch):
        place = np.arange(total)
        inside = place < mask[:batch, None]
        inside = inside & (place >= mask[batch:, None]) if mask.shape[0] == 2 * batch else inside
        return inside[:, None, None]
    if mask.ndim == 2 and mask.shape == (batch, total):
        return (mask != 0)[:, None, None]
    if mask.ndim == 3 and mask.shape == (batch, length, total):
        return (mask != 0)[:, None]
    if mask.ndim == 4 and mask.shape[2] >= total and mask.shape[3] >= total:
        return mask[:, :, total - length : total, :total] != 0
    raise ShapeError(
        f"expected a mask ({batch},), ({2 * batch},), ({batch}, {total}), ({batch}, {length}, {total}) or "
        f"({batch}, 1, M, M). Received shape {mask.shape}"
    )


@onnx_operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    call: Call,
    query: Array,
    key: Array = None,
    value: Array = None,
    bias: Array = None,
    padding: Array = None,
    added: Array = None,
    past_key: Array = None,
    past_value: Array = None,
    past_length: Array = None,
    indirection: Array = None,
) -> tuple[Array, Array, Array]:
    """Attention of queries to keys and values that are projected before; and these, with what was cached of them."""
    if past_length is not None or indirection is not None or call.wants(3):
        raise ArgumentError("expected no past_sequence_length, cache_indirection or output qk. Received: one of them")
    q, k, v = _heads(call, query, key, value, bias)
    if past_key is not None:
        k, v = (jnp.concatenate([old, new], 2) for old, new in ((past_key, k), (past_value, v)))
    return attended(call, q, k, v, padding, added), k, v


def _heads(call: Call, query: Array, key: Array, value: Array, bias: Array) -> tuple[Array, Array, Array]:
    """Queries, keys and values (N, heads, T, D) from all layouts: apart, or packed by head."""
    heads, query = call.attribute("num_heads"), jnp.asarray(query)
    if query.ndim == 5:
        parts = _unpacked(query, 3)
    elif value is None:
        if np.ndim(key) != 5:
            raise ShapeError(f"expected keys and values (N, S, {heads}, 2, D). Received shape {np.shape(key)}")
        parts = [query, *_unpacked(jnp.asarray(key), 2)]
    else:
        parts = [query, jnp.asarray(key), jnp.asarray(value)]
    shifts = [None] * 3 if bias is None else _shifts(jnp.asarray(bias), parts, heads)
    return tuple(_one(part, shift, heads) for part, shift in zip(parts, shifts, strict=True))


def _shifts(bias: Array, parts: list[Array], heads: int) -> list[Array]:
    sizes = [x.shape[-1] if x.ndim == 3 else heads * x.shape[-1] for x in parts]
    if bias.shape != (sum(sizes),):
        raise ShapeError(f"expected a bias of {sum(sizes)} values. Received shape {bias.shape}")
    return jnp.split(bias, np.cumsum(sizes)[:2].tolist())


def _unpacked(x: Array, count: int) -> list[Array]:
    """(N, T, heads, count, D) as `count` arrays (N, T, heads · D)."""
    return [x[:, :, :, at].reshape(*x.shape[:2], -1) for at in range(count)]


def _one(x: Array, shift: Array | None, heads: int) -> Array:
    """One of queries, keys and values as (N, heads, T, D): (N, T, heads · D), or so already."""
    if x.ndim == 4:
        return x if shift is None else x + shift.reshape(heads, 1, -1)
    return by_head(plus(x, shift), heads)
