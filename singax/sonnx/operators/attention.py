"""Attention in its forms, and what belongs to it: rotary embeddings, caches, SwiGLU.

`Attention` goes through our own operation where only its first result is asked for and keys are masked by a mask, the
past and causality alone; the form below has all the rest, which our own operation does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import normal_axis, one_of, same_shape
from singax.ops.window import wide_dtype
from singax.sonnx.operators.elementwise import dtype_of
from singax.sonnx.operators.geometry import affordable
from singax.sonnx.operators.indices import within
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("Attention")
def attention(
    call: Call,
    q: Array,
    k: Array,
    v: Array,
    mask: Array = None,
    past_key: Array = None,
    past_value: Array = None,
    lengths: Array = None,
) -> Any:
    """softmax(q · kᵀ · scale + mask) · v; then all keys, all values, and the products at the stage asked for."""
    if (past_key is None) != (past_value is None) or (past_key is not None and lengths is not None):
        raise ArgumentError("expected past_key with past_value, or nonpad_kv_seqlen alone. Received: another choice")
    q, *rest = (None if a is None else jnp.asarray(a) for a in (q, k, v, mask, past_key, past_value, lengths))
    k, v, mask, past_key, past_value, lengths = rest
    heads, kv_heads = call.attribute("q_num_heads"), call.attribute("kv_num_heads")
    within(call, lengths, 0, k.shape[-2], "nonpad_kv_seqlen")
    split, k, v = _by_head(q, heads), _by_head(k, kv_heads), _by_head(v, kv_heads)
    past = 0 if past_key is None else past_key.shape[2]
    mask = _filled(mask, past + k.shape[2])
    affordable("the products of queries and keys", (*split.shape[:3], past + k.shape[2]))
    if _is_usual(call, lengths):
        keywords = {"is_causal": call.attribute("is_causal", 0), "softcap": call.attribute("softcap", 0.0)}
        arrays = [_for_products(a) for a in (split, k, v)]
        found = ops.attention(*arrays, mask, past_key, past_value, scale=call.attribute("scale"), **keywords)
        y, keys, values = (found, k, v) if past_key is None else found
        keys, values, products = keys.astype(k.dtype), values.astype(v.dtype), None
    else:
        keys, values = _after(past_key, k), _after(past_value, v)
        y, products = _attend(call, split, keys, values, mask, past, lengths)
    y = y.astype(q.dtype)
    return (y if q.ndim == 4 else _side_by_side(y), keys, values, products)


def _is_usual(call: Call, lengths: Array) -> bool:
    windows = any(call.attribute(f"{side}_window_size", -1) >= 0 for side in ("left", "right"))
    return lengths is None and not windows and not call.wants(3) and call.attribute("softmax_precision", 1) == 1


def _for_products(x: Array) -> Array:
    """x in the dtype in which this backend multiplies matrices: CPUs have no products of 16-bit floats."""
    return x.astype(wide_dtype(x.dtype)) if jax.default_backend() == "cpu" else x


def _by_head(x: Array, heads: int | None) -> Array:
    """(N, T, H · D) → (N, H, T, D)."""
    if x.ndim == 4 and heads in (None, x.shape[1]):
        return x
    if x.ndim != 3 or not heads or heads < 1 or x.shape[2] % heads:
        raise ShapeError(f"expected (N, H, T, D), or (N, T, H · D) with a number of heads. Received: {x.shape}")
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


def _side_by_side(x: Array) -> Array:
    """(N, H, T, D) → (N, T, H · D)."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def _after(past: Array, x: Array) -> Array:
    return x if past is None else jnp.concatenate([past, x], axis=2)


def _filled(mask: Array, length: int) -> Array:
    """The mask for all keys: those that it does not reach are not attended to."""
    if mask is None or mask.ndim == 0 or mask.shape[-1] >= length:
        return mask
    fill = jnp.asarray(False if mask.dtype == jnp.bool_ else -jnp.inf, mask.dtype)
    return lax.pad(mask, fill, [(0, 0, 0)] * (mask.ndim - 1) + [(0, length - mask.shape[-1], 0)])


def _attend(call: Call, q: Array, k: Array, v: Array, mask: Array, past: int, lengths: Array) -> tuple[Array, Array]:
    """The result, and the products at the stage that `qk_matmul_output_mode` names."""
    stage, softcap = call.attribute("qk_matmul_output_mode", 0), call.attribute("softcap", 0.0)
    one_of("Attention", "qk_matmul_output_mode", stage, (0, 1, 2, 3))
    raw = _products(q, k, call.attribute("scale"))
    capped = softcap * jnp.tanh(raw / softcap) if softcap else raw
    allowed = _allowed(call, (*q.shape[:1], q.shape[2], k.shape[2]), past, lengths)
    bias: Array = jnp.zeros((), raw.dtype)
    if mask is not None and mask.dtype == jnp.bool_:
        allowed = allowed & mask
    elif mask is not None:
        allowed = allowed & (mask > -jnp.inf)
        bias = jnp.where(mask > -jnp.inf, mask, 0).astype(raw.dtype)
    biased, precision = capped + bias, call.attribute("softmax_precision")
    weights = _softmax(biased, allowed, raw.dtype if precision is None else dtype_of(precision)).astype(q.dtype)
    shown = (raw, capped, jnp.where(allowed, biased, -jnp.inf), weights)[stage]
    return _mixed(weights, v), shown.astype(q.dtype)


def _products(q: Array, k: Array, scale: float | None) -> Array:
    """q (N, H, T, D), k (N, K, S, D) → (N, H, T, S), in float32 or wider; H / K heads share a key."""
    (N, H, T, D), (_, K, S, _) = q.shape, k.shape
    if k.shape[0] != N or k.shape[3] != D or K == 0 or H % K:
        raise ShapeError(f"expected keys (N, K, S, {D}), K dividing {H}. Received: {k.shape} for queries {q.shape}")
    grouped = q.reshape(N, K, H // K, T, D)
    found = jnp.einsum("nkgtd,nksd->nkgts", grouped, k, preferred_element_type=wide_dtype(q.dtype))
    return found.reshape(N, H, T, S) * (D**-0.5 if scale is None else scale)


def _mixed(weights: Array, v: Array) -> Array:
    """weights (N, H, T, S), v (N, K, S, E) → (N, H, T, E)."""
    (N, H, T, S), K = weights.shape, v.shape[1]
    if v.shape[0] != N or v.shape[2] != S:
        raise ShapeError(f"expected values for {S} keys. Received shape {v.shape}")
    y = jnp.einsum("nkgts,nkse->nkgte", weights.reshape(N, K, H // K, T, S), v)
    return y.reshape(N, H, T, v.shape[3])


def _allowed(call: Call, sizes: tuple[int, int, int], past: int, lengths: Array) -> Array:
    """Which keys each query may see by causality, windows and lengths: broadcasts to (N, H, T, S)."""
    _, T, S = sizes
    keys = jnp.arange(S)
    before = past if lengths is None else (lengths.reshape(-1) - T)[:, None, None, None]
    ahead = keys - (jnp.arange(T)[:, None] + before)
    found = jnp.ones((T, S), bool) if lengths is None else keys < lengths.reshape(-1)[:, None, None, None]
    if call.attribute("is_causal", 0):
        found = found & (ahead <= 0)
    left, right = (call.attribute(f"{side}_window_size", -1) for side in ("left", "right"))
    if min(left, right) < -1:
        raise ArgumentError(f"expected window sizes of −1 or more. Received: {left} and {right}")
    found = found & (-ahead <= left) if left >= 0 else found
    return found & (ahead <= right) if right >= 0 else found


def _softmax(scores: Array, allowed: Array, dtype: Any) -> Array:
    """Over the keys that are allowed; zeros where none is."""
    scores = jnp.where(allowed, scores, jnp.finfo(scores.dtype).min).astype(dtype)
    weights = jax.nn.softmax(scores, axis=-1)
    return jnp.where(jnp.any(jnp.broadcast_to(allowed, scores.shape), axis=-1, keepdims=True), weights, 0)


@onnx_operator("FlexAttention", domain="ai.onnx.preview")
def flex_attention(call: Call, q: Array, k: Array, v: Array) -> Array:
    """Attention whose products and weights go through graphs of the file."""
    q, k, v = jnp.asarray(q), jnp.asarray(k), jnp.asarray(v)
    affordable("the products of queries and keys", (*q.shape[:3], k.shape[2]))
    code = call.attribute("softmax_precision")
    dtype = wide_dtype(q.dtype) if code is None else dtype_of(code)
    scores = _products(q, k, call.attribute("scale")).astype(dtype)
    weights = jax.nn.softmax(_modified(call, "score_mod", scores), axis=-1)
    return _mixed(_modified(call, "prob_mod", weights), v.astype(dtype)).astype(v.dtype)


def _modified(call: Call, name: str, values: Array) -> Array:
    graph = call.attribute(name)
    if graph is None:
        return values
    (made,) = call.evaluator.graph(graph, [values], call.scope)
    same_shape("FlexAttention", made, values)
    return jnp.asarray(made, values.dtype)


@onnx_operator("RotaryEmbedding")
def rotary_embedding(call: Call, x: Array, cos: Array, sin: Array, positions: Array = None) -> Array:
    """Pairs of features rotated by angles that depend on the position."""
    if positions is not None:
        within(call, positions, 0, jnp.shape(cos)[0] - 1, "position_ids")
    names = ("interleaved", "num_heads", "rotary_embedding_dim")
    return ops.rotary_embedding(
        *(None if a is None else jnp.asarray(a) for a in (x, cos, sin, positions)),
        **{name: call.attribute(name, 0) for name in names},
    )


@onnx_operator("LinearAttention")
def linear_attention(
    call: Call, q: Array, k: Array, v: Array, past: Array = None, decay: Array = None, beta: Array = None
) -> tuple[Array, Array]:
    """A state S (N, K, D, E) instead of keys and values: S ← e^decay S + k ⊗ (v, or β (v − Sᵀ k)), y = scale qᵀ S."""
    rule, H, K = call.attribute("update_rule", "gated_delta"), call.attribute("q_num_heads"), _kv_heads(call)
    one_of("LinearAttention", "update_rule", rule, ("linear", "gated", "delta", "gated_delta"))
    if ("gated" in rule) != (decay is not None) or ("delta" in rule) != (beta is not None):
        raise ArgumentError(f"expected decay and beta as the rule {rule!r} has them. Received: others")
    q, k, v = jnp.asarray(q), jnp.asarray(k), jnp.asarray(v)
    steps = [_by_step(a, n) for a, n in ((q, H), (k, K), (v, K))]
    N, D, E = q.shape[0], steps[1].shape[-1], steps[2].shape[-1]
    steps.append(None if decay is None else jnp.exp(_by_step(decay, K)))
    steps.append(None if beta is None else _by_step(beta, beta.shape[-1]))
    affordable("a state", (N, K, D, E))
    state = jnp.zeros((N, K, D, E), steps[0].dtype) if past is None else past.astype(steps[0].dtype)
    last, every = lax.scan(_linear_step, state, tuple(steps))
    scale = call.attribute("scale", 0.0) or D**-0.5
    y = jnp.moveaxis(every * scale, 0, 1).reshape(*q.shape[:2], H * E)
    return y.astype(q.dtype), last.astype(q.dtype if past is None else past.dtype)


def _kv_heads(call: Call) -> int:
    H, K = call.attribute("q_num_heads"), call.attribute("kv_num_heads")
    if not H or not K or H < 1 or K < 1 or H % K:
        raise ArgumentError(f"expected q_num_heads that kv_num_heads divides. Received: {H} and {K}")
    return int(K)


def _by_step(x: Array, heads: int) -> Array:
    """(N, T, H · D) → (T, N, H, D), in float32 or wider."""
    if x.ndim != 3 or x.shape[2] % heads:
        raise ShapeError(f"expected (N, T, heads · D) for {heads} heads. Received shape {x.shape}")
    split = x.reshape(*x.shape[:2], heads, x.shape[2] // heads)
    return jnp.swapaxes(split, 0, 1).astype(wide_dtype(x.dtype))


def _linear_step(state: Array, given: tuple[Array, ...]) -> tuple[Array, Array]:
    q, k, v, factor, beta = given
    state = state if factor is None else state * factor[..., None]
    v = v if beta is None else beta * (v - jnp.einsum("nkde,nkd->nke", state, k))
    state = state + k[..., :, None] * v[..., None, :]
    grouped = q.reshape(*k.shape[:2], -1, k.shape[-1])
    y = jnp.einsum("nkgd,nkde->nkge", grouped, state)
    return state, y.reshape(y.shape[0], -1, y.shape[-1])


@onnx_operator("TensorScatter")
def tensor_scatter(call: Call, cache: Array, update: Array, starts: Array = None) -> Array:
    """A cache in which each sample's new entries stand from its start on along `axis`, or go round."""
    cache, update, mode = jnp.asarray(cache), jnp.asarray(update), call.attribute("mode", "linear")
    one_of("TensorScatter", "mode", mode, ("linear", "circular"))
    axis = normal_axis("TensorScatter", call.attribute("axis", -2), cache.ndim)
    length = cache.shape[axis]
    fits = [m == n or (d == axis and m < n) for d, (m, n) in enumerate(zip(update.shape, cache.shape, strict=True))]
    if axis == 0 or not all(fits):
        raise ShapeError(f"expected an update like the cache {cache.shape}. Received: {update.shape}, axis {axis}")
    if mode == "linear":
        within(call, starts, 0, length - update.shape[axis], "write_indices")
    first = jnp.zeros(cache.shape[0], int) if starts is None else jnp.asarray(starts)
    places = first[:, None] + jnp.arange(update.shape[axis])
    places = places % length if mode == "circular" else jnp.where(places < 0, length, places)
    moved, new = jnp.moveaxis(cache, axis, 1), jnp.moveaxis(update, axis, 1)
    write: Callable[..., Array] = jax.vmap(lambda old, place, values: old.at[place].set(values, mode="drop"))
    return jnp.moveaxis(write(moved, places, new), 1, axis)


@onnx_operator("SwiGLU")
def swiglu(call: Call, a: Array, b: Array) -> Array:
    """a σ(α a) · b."""
    same_shape("SwiGLU", a, b)
    wide = jnp.asarray(a, wide_dtype(a.dtype))
    return (wide * jax.nn.sigmoid(call.attribute("alpha", 1.0) * wide) * b).astype(a.dtype)
