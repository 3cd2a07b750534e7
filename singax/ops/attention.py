"""Scaled dot-product attention, with the inputs and attributes of ONNX's Attention.

The weights are computed in float32 or wider. `jax.nn.dot_product_attention` is not used: it takes the softmax of
float64 in float32, gives fully masked rows the mean of all values, and has no dropout.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.ops.dropout import dropout
from singax.ops.operation import Attributes, operation
from singax.ops.window import check_floating, wide_dtype

Array = jax.Array


def _onnx_attributes(k: Attributes) -> Attributes:
    given = {name: k.get(name) for name in ("is_causal", "q_num_heads", "kv_num_heads", "scale", "softcap")}
    whole = {"is_causal", "q_num_heads", "kv_num_heads"}
    return {name: int(value) if name in whole else value for name, value in given.items() if value}


@operation("Attention", attributes=_onnx_attributes)
def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    *,
    is_causal: int = 0,
    q_num_heads: int | None = None,
    kv_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Any:
    """softmax(q · kᵀ · scale + mask) · v for each head (Vaswani et al. 2017).

    q (N, H, T, D), k (N, K, S, D), v (N, K, S, E) → (N, H, T, E); or with `q_num_heads` H and `kv_num_heads` K:
    q (N, T, H·D), k (N, S, K·D), v (N, S, K·E) → (N, T, H·E). K divides H: H / K neighbouring heads share one key and
    value (Ainslie et al. 2023).
    mask: booleans (True: attend) or numbers that are added, of a shape that broadcasts to (N, H, T, S).
    past_key (N, K, P, D) and past_value (N, K, P, E) stand before k and v; the result is then a tuple with all keys
    (N, K, P + S, D) and all values (N, K, P + S, E), and S in the mask's shape is P + S.
    is_causal: query i attends to keys 0 … P + i. scale: 1 / sqrt(D) when not given. softcap c > 0: the products x
    become c · tanh(x / c). A query that may attend to no key (all False or −inf) gives zeros and gets no gradient.
    """
    options = _Options(is_causal, q_num_heads, kv_num_heads, scale, softcap)
    if past_key is None and past_value is None:
        return _attend(q, k, v, mask, options)
    if past_key is None or past_value is None:
        raise ArgumentError("attention takes past_key and past_value together. Received: one of them")
    keys = _joined("past_key", past_key, _by_head("k", k, kv_num_heads))
    values = _joined("past_value", past_value, _by_head("v", v, kv_num_heads))
    return _attend(q, keys, values, mask, options, past_key.shape[2]), keys, values


@operation(None)
def attention_with_dropout(
    q: Array,
    k: Array,
    v: Array,
    key: Array,
    mask: Array | None = None,
    *,
    ratio: float,
    is_causal: int = 0,
    q_num_heads: int | None = None,
    kv_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Any:
    """`attention` whose weights are dropped with probability `ratio`, those kept divided by 1 − ratio."""
    options = _Options(is_causal, q_num_heads, kv_num_heads, scale, softcap)
    return _attend(q, k, v, mask, options, drop=lambda weights: dropout.function(weights, key, ratio=ratio))


class _Options(NamedTuple):
    """The attributes of an attention."""

    is_causal: int
    q_num_heads: int | None
    kv_num_heads: int | None
    scale: float | None
    softcap: float


def _attend(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    options: _Options,
    past: int = 0,
    drop: Any = lambda weights: weights,
) -> Array:
    heads = _by_head("q", q, options.q_num_heads)
    k, v = (_by_head(name, x, options.kv_num_heads) for name, x in (("k", k), ("v", v)))
    _check_fit(heads, k, v)
    dtype = jnp.result_type(heads, k, v)
    (N, H, T, D), K = heads.shape, k.shape[1]
    grouped = heads.astype(dtype).reshape(N, K, H // K, T, D)
    weights = drop(_weights(grouped, k.astype(dtype), mask, options, past)).astype(dtype)
    y = jnp.einsum("nkgts,nkse->nkgte", weights, v.astype(dtype)).reshape(N, H, T, v.shape[3])
    return y if q.ndim == 4 else y.swapaxes(1, 2).reshape(N, T, -1 if y.size else H * v.shape[3])


def _weights(q: Array, k: Array, mask: Array | None, options: _Options, past: int) -> Array:
    """q (N, K, G, T, D), k (N, K, S, D) → the softmax over the keys (N, K, G, T, S), in float32 or wider.

    Zeros where a query may attend to no key.
    """
    N, K, G, T, D = q.shape
    S, wide = k.shape[2], wide_dtype(q.dtype)
    scores = jnp.einsum("nkgtd,nksd->nkgts", q, k, preferred_element_type=wide)
    scores = scores * (options.scale or D**-0.5)
    if options.softcap:
        scores = options.softcap * jnp.tanh(scores / options.softcap)
    allowed, bias = _mask_parts(mask, (N, K * G, T, S), K, wide)
    if bias is not None:
        scores = scores + bias
    if options.is_causal:
        causal = jnp.tri(T, S, past, dtype=bool)[None, None, None]
        allowed = causal if allowed is None else allowed & causal
    if allowed is None:
        return jax.nn.softmax(scores, axis=-1)
    weights = jax.nn.softmax(jnp.where(allowed, scores, jnp.finfo(wide).min), axis=-1)
    if mask is None:  # a causal query always has a key
        return weights
    return jnp.where(jnp.any(allowed, axis=-1, keepdims=True), weights, jnp.zeros_like(weights))


def _by_head(name: str, x: Array, heads: int | None) -> Array:
    """x (N, heads, T, D), or (N, T, heads · D), as (N, heads, T, D)."""
    check_floating("attention", x)
    if x.ndim == 4 and heads in (None, 0, x.shape[1]):
        return x
    if x.ndim != 3 or not heads or heads < 1 or x.shape[2] % heads:
        raise ShapeError(
            f"attention expected {name} (N, heads, T, D), or (N, T, heads · D) with q_num_heads and kv_num_heads. "
            f"Received shape {x.shape} for {heads} heads"
        )
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


def _joined(name: str, past: Array, x: Array) -> Array:
    """The cached `past` (N, K, P, D), then x (N, K, S, D)."""
    if past.ndim != 4 or (*past.shape[:2], past.shape[3]) != (*x.shape[:2], x.shape[3]):
        raise ShapeError(
            f"attention expected {name} ({x.shape[0]}, {x.shape[1]}, P, {x.shape[3]}). Received shape {past.shape}"
        )
    return jnp.concatenate([past.astype(x.dtype), x], axis=2)


def _check_fit(q: Array, k: Array, v: Array) -> None:
    fits = q.shape[0] == k.shape[0] == v.shape[0] and k.shape[1:3] == v.shape[1:3] and q.shape[3] == k.shape[3] > 0
    if not fits or 0 in k.shape[1:3] or q.shape[1] % k.shape[1]:
        raise ShapeError(
            "attention expected q (N, H, T, D), k (N, K, S, D) and v (N, K, S, E), K dividing H and S from 1 up. "
            f"Received: {q.shape}, {k.shape} and {v.shape}"
        )


def _mask_parts(
    mask: Array | None, shape: tuple[int, ...], K: int, dtype: np.dtype
) -> tuple[Array | None, Array | None]:
    """What may be attended to, and what is added, each None or broadcasting to (N, K, H / K, T, S)."""
    if mask is None:
        return None, None
    mask = checked_mask(mask, shape)
    heads = mask.shape[1]
    split = (K, heads // K) if heads > 1 else (1, 1)
    mask = mask.reshape(mask.shape[0], *split, *mask.shape[2:])
    if mask.dtype == jnp.bool_:
        return mask, None
    bias = mask.astype(dtype)
    allowed = bias != -jnp.inf
    return allowed, jnp.where(allowed, bias, jnp.zeros_like(bias))


def checked_mask(mask: Array, shape: tuple[int, ...]) -> Array:
    """The mask with four axes, once it is found to broadcast to `shape` (N, H, T, S) and to hold booleans or floats."""
    sizes = (1,) * (4 - mask.ndim) + mask.shape
    if len(sizes) > 4 or any(size not in (1, full) for size, full in zip(sizes, shape, strict=True)):
        raise ShapeError(f"expected a mask that broadcasts to (N, H, T, S), {shape}. Received shape {mask.shape}")
    if mask.dtype != jnp.bool_ and not jnp.issubdtype(mask.dtype, jnp.floating):
        raise DTypeError(f"expected a mask of booleans or floats. Received dtype {mask.dtype}")
    return mask.reshape(sizes)
