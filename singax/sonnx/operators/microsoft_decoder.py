"""com.microsoft: what exports of text decoders and of quantised networks with channels last add."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import one_of
from singax.sonnx.operators.microsoft_attention import by_head
from singax.sonnx.operators.pooling import max_pool
from singax.sonnx.operators.quantized import MICROSOFT
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(
    call: Call,
    query: Array,
    key: Array = None,
    value: Array = None,
    past_key: Array = None,
    past_value: Array = None,
    lengths: Array = None,
    total: Array = None,
    cos: Array = None,
    sin: Array = None,
    *more: Array,
) -> tuple[Array, Array, Array]:
    """Causal attention of T new queries to what is cached and to the new keys; and all keys and values.

    query (N, T, heads · D), or all three packed in it, key and value (N, T, kv_heads · D), cache (N, kv_heads, P, D),
    `lengths` (N,): how many keys a sample has, less one, `total`: the largest number of keys.
    """
    _check(call, more)
    q, k, v = _parts(call, query, key, value)
    size, first = q.shape[2], jnp.zeros(q.shape[0], np.int32)
    count = int(call.static(6).reshape(-1)[0])
    if count != size:
        first = jnp.asarray(lengths).reshape(-1).astype(np.int32) + 1 - size
    places = first[:, None] + np.arange(size, dtype=np.int32)
    if call.attribute("do_rotary", 0):
        q, k = (_rotated(call, x, cos, sin, places) for x in (q, k))
    keys, values = (_with_past(new, old, first, count) for new, old in ((k, past_key), (v, past_value)))
    options = {"scale": call.attribute("scale", 0.0) or None, "softcap": call.attribute("softcap", 0.0)}
    y = ops.attention(q, keys, values, _seen(call, places, keys.shape[2]), **options)
    return y.swapaxes(1, 2).reshape(y.shape[0], size, -1), keys, values


def _check(call: Call, more: tuple[Array, ...]) -> None:
    unknown = ("smooth_softmax", "k_quant_type", "v_quant_type")
    given = [name for name in unknown if call.attribute(name, 0) not in (0, "NONE")]
    if given or any(value is not None for value in more) or call.wants(3):
        found = ", ".join(given) or "an input or output after these"
        raise ArgumentError(f"expected at most 9 inputs and 3 outputs, and no {', '.join(unknown)}. Received: {found}")


def _parts(call: Call, query: Array, key: Array, value: Array) -> tuple[Array, Array, Array]:
    """Queries (N, heads, T, D), keys and values (N, kv_heads, T, D)."""
    heads, groups = call.attribute("num_heads"), call.attribute("kv_num_heads")
    if key is None:
        each = query.shape[-1] // (heads + 2 * groups)
        query, key, value = jnp.split(jnp.asarray(query), [heads * each, (heads + groups) * each], -1)
    return by_head(jnp.asarray(query), heads), by_head(jnp.asarray(key), groups), by_head(jnp.asarray(value), groups)


def _rotated(call: Call, x: Array, cos: Array, sin: Array, places: Array) -> Array:
    if cos is None or sin is None:
        raise ArgumentError("expected cos_cache and sin_cache, since do_rotary is 1. Received: none")
    options = {"interleaved": call.attribute("rotary_interleaved", 0), "rotary_embedding_dim": 2 * cos.shape[1]}
    return ops.rotary_embedding(x, jnp.asarray(cos), jnp.asarray(sin), places, **options)


def _with_past(new: Array, old: Array, first: Array, total: int) -> Array:
    """The cache, at least `total` long, with what is new from `first` on, for each sample."""
    if old is None:
        old = jnp.zeros((*new.shape[:2], 0, new.shape[3]), new.dtype)
    more = max(total - old.shape[2], 0)
    if new.shape[2] > old.shape[2] + more:
        raise ShapeError(f"expected at most {old.shape[2] + more} new keys. Received: {new.shape[2]}")
    wide = jnp.pad(jnp.asarray(old), ((0, 0), (0, 0), (0, more), (0, 0)))
    return jax.vmap(lambda cache, x, start: jax.lax.dynamic_update_slice_in_dim(cache, x, start, 1))(wide, new, first)


def _seen(call: Call, places: Array, count: int) -> Array:
    """Which keys each query may see, (N, 1, T, count): those up to its own place, the last few of them on request."""
    own, keys, window = places[:, None, :, None], np.arange(count), call.attribute("local_window_size", -1)
    seen = keys <= own
    return seen & (keys > own - window) if window > 0 else seen


@onnx_operator("NhwcMaxPool", domain=MICROSOFT)
def max_pool_channels_last(call: Call, x: Array) -> Array:
    """MaxPool of x (N, …, C)."""
    return jnp.moveaxis(max_pool(call, jnp.moveaxis(jnp.asarray(x), -1, 1)), 1, -1)


@onnx_operator("CDist", domain=MICROSOFT)
def distances(call: Call, a: Array, b: Array) -> Array:
    """The distance of each row of a (M, D) to each of b (N, D), or its square."""
    metric = call.attribute("metric", "sqeuclidean")
    one_of("CDist", "metric", metric, ("euclidean", "sqeuclidean"))
    square = jnp.sum(jnp.square(jnp.asarray(a)[:, None] - jnp.asarray(b)), -1)
    return jnp.sqrt(square) if metric == "euclidean" else square
