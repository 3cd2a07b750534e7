"""Attention, positions and transformer layers, against loops in NumPy over samples, heads and queries."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from catalogue import Row, Spec, floats, integers

from singax import layer, ops

States = dict[str, Any]


def one_query(q: Any, k: Any, v: Any, bias: Any, scale: float, softcap: float) -> Any:
    """What one query q (D,) gets from keys (S, D) and values (S, E) with the bias (S,)."""
    scores = np.array([np.dot(q, key) for key in k], np.float64) * scale
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    seen = [s for s in range(len(k)) if bias[s] != -np.inf]
    powers = {s: np.exp(scores[s] + bias[s] - max(scores[s] + bias[s] for s in seen)) for s in seen}
    return sum((powers[s] / sum(powers.values()) * v[s] for s in seen), np.zeros(v.shape[-1]))


def attended(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    is_causal: int = 0,
    scale: Any = None,
    softcap: float = 0.0,
    past: int = 0,
) -> Any:
    """q (N, H, T, D), k (N, K, S, D), v (N, K, S, E) → (N, H, T, E)."""
    (N, H, T, D), (K, S) = q.shape, k.shape[1:3]
    bias = np.zeros((N, H, T, S))
    if mask is not None:
        bias = bias + (np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask)
    y = np.zeros((N, H, T, v.shape[-1]))
    for n, h, t in np.ndindex(N, H, T):
        row = [-np.inf if is_causal and s > t + past else bias[n, h, t, s] for s in range(S)]
        head = h // (H // K)
        y[n, h, t] = one_query(q[n, h, t], k[n, head], v[n, head], row, scale or D**-0.5, softcap)
    return y


def by_head(x: Any, heads: int) -> Any:
    """(N, T, heads · D) → (N, heads, T, D)."""
    return np.stack(np.split(x, heads, axis=-1), axis=1)


def flat(x: Any) -> Any:
    """(N, heads, T, D) → (N, T, heads · D)."""
    return np.concatenate(list(np.moveaxis(x, 1, 0)), axis=-1)


def with_past(q: Any, k: Any, v: Any, past_key: Any, past_value: Any) -> Any:
    """Causal attention behind a cache."""
    keys, values = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    return attended(q, keys, values, is_causal=1, past=past_key.shape[2]), keys, values


def turned(x: Any, positions: Any, size: int, interleaved: bool = False, base: float = 10000.0) -> Any:
    """x (N, H, T, D) with its first `size` features rotated, as complex numbers."""
    y = np.array(x, np.float64)
    pairs = [(2 * i, 2 * i + 1) if interleaved else (i, i + size // 2) for i in range(size // 2)]
    for i, (a, b) in enumerate(pairs):
        angle = np.asarray(positions, np.float64) * base ** (-2 * i / size)
        z = (x[..., a] + 1j * x[..., b]) * np.exp(1j * angle)
        y[..., a], y[..., b] = z.real, z.imag
    return y


def linear(states: States, name: str, x: Any) -> Any:
    """x · W + b."""
    return x @ states[f"{name}.W"] + states.get(f"{name}.b", 0)


def multi_head(
    states: States,
    query: Any,
    key: Any = None,
    value: Any = None,
    mask: Any = None,
    key_mask: Any = None,
    key_lengths: Any = None,
    *,
    heads: int,
    kv_heads: int | None = None,
    causal: bool = False,
    rotated: int = 0,
    prefix: str = "",
) -> Any:
    """MultiHeadAttention."""
    key = query if key is None else key
    value = key if value is None else value
    kv_heads = kv_heads or heads
    q = by_head(linear(states, f"{prefix}query", query), heads)
    k, v = (
        by_head(linear(states, f"{prefix}key", key), kv_heads),
        by_head(linear(states, f"{prefix}value", value), kv_heads),
    )
    if rotated:
        q, k = turned(q, np.arange(q.shape[2]), rotated), turned(k, np.arange(k.shape[2]), rotated)
    N, T, S = len(q), q.shape[2], k.shape[2]
    bias = np.zeros((N, heads, T, S))
    if mask is not None:
        bias = bias + (np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask)
    for n, s in np.ndindex(N, S):
        if (key_mask is not None and not key_mask[n, s]) or (key_lengths is not None and s >= key_lengths[n]):
            bias[n, :, :, s] = -np.inf
    return linear(states, f"{prefix}out", flat(attended(q, k, v, bias, is_causal=int(causal))))


def normalised(states: States, name: str, x: Any, eps: float = 1e-5) -> Any:
    """LayerNorm."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + eps) * states[f"{name}.scale"] + states[f"{name}.bias"]


def relu(x: Any) -> Any:
    """max(x, 0)."""
    return np.maximum(x, 0)


def fed_forward(states: States, x: Any, function: Callable[[Any], Any] = relu, prefix: str = "") -> Any:
    """FeedForward."""
    return linear(states, f"{prefix}outer", function(linear(states, f"{prefix}inner", x)))


def encoder_layer(
    states: States,
    x: Any,
    *masks: Any,
    heads: int,
    first: bool = False,
    prefix: str = "",
    function: Any = relu,
    **options: Any,
) -> Any:
    """TransformerEncoderLayer, without dropout."""

    def attention(x: Any) -> Any:
        mask, key_mask, key_lengths = (*masks, None, None, None)[:3]
        return multi_head(
            states, x, None, None, mask, key_mask, key_lengths, heads=heads, prefix=f"{prefix}attention.", **options
        )

    functions = [attention, lambda x: fed_forward(states, x, function, f"{prefix}feed_forward.")]
    return residuals(states, x, functions, first, prefix)


def decoder_layer(
    states: States, x: Any, memory: Any, mask: Any = None, memory_mask: Any = None, *, heads: int, first: bool
) -> Any:
    """TransformerDecoderLayer, causal, without dropout."""
    functions = [
        lambda x: multi_head(states, x, mask=mask, heads=heads, causal=True, prefix="attention."),
        lambda x: multi_head(states, x, memory, mask=memory_mask, heads=heads, prefix="cross_attention."),
        lambda x: fed_forward(states, x, prefix="feed_forward."),
    ]
    return residuals(states, x, functions, first)


def residuals(states: States, x: Any, functions: list[Any], first: bool, prefix: str = "") -> Any:
    """Each function with its residual connection and its LayerNorm."""
    for number, function in enumerate(functions, start=1):
        norm = f"{prefix}norm{number}"
        x = x + function(normalised(states, norm, x)) if first else normalised(states, norm, x + function(x))
    return x


def encoder(states: States, x: Any) -> Any:
    """Two layers that normalise first, and the norm at the end."""
    for number in range(2):
        x = encoder_layer(states, x, heads=2, first=True, prefix=f"layers.{number}.", function=np.tanh)
    return normalised(states, "norm", x)


def sinusoids(x: Any) -> Any:
    """PositionalEncoding."""
    y = np.array(x, np.float64)
    T, D = x.shape[-2:]
    for t, d in np.ndindex(T, D):
        y[..., t, d] += (np.sin if d % 2 == 0 else np.cos)(t / 10000 ** (2 * (d // 2) / D))
    return y


def booleans(*shape: int) -> Spec:
    """True and False."""
    return Spec(shape, "bool")


HEADS = [floats(2, 4, 3, 4), floats(2, 2, 5, 4), floats(2, 2, 5, 3)]
FLAT = [floats(2, 3, 8), floats(2, 5, 4), floats(2, 5, 6)]
SEQUENCE = [floats(2, 3, 8)]


def flat_attended(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """Causal attention of 4 heads with 2 keys and values, heads side by side."""
    return flat(attended(by_head(q, 4), by_head(k, 2), by_head(v, 2), mask, is_causal=1))


ROWS = [
    Row(
        "ops.attention",
        lambda: ops.attention,
        HEADS,
        attended,
        rejects=[
            [floats(2, 3, 3, 4), *HEADS[1:]],
            [floats(2, 4, 3, 5), *HEADS[1:]],
            [floats(3, 4, 3, 4), *HEADS[1:]],
            [HEADS[0], floats(2, 2, 4, 4), HEADS[2]],
            [HEADS[0], floats(2, 2, 0, 4), floats(2, 2, 0, 3)],
            [*HEADS, booleans(2, 3, 3, 5)],
            [*HEADS, integers(3, 5)],
            [*HEADS, None, floats(2, 2, 2, 4)],
            [*HEADS, None, floats(2, 2, 2, 3), floats(2, 2, 2, 3)],
            FLAT,
            [integers(2, 4, 3, 4), *HEADS[1:]],
        ],
    ),
    Row("ops.attention", lambda: ops.attention, [*HEADS, booleans(2, 1, 3, 5)], attended, note="mask"),
    Row(
        "ops.attention",
        lambda: ops.attention,
        [*HEADS, floats(4, 1, 5)],
        functools.partial(attended, softcap=2.0, scale=0.3),
        {"softcap": 2.0, "scale": 0.3},
        note="bias",
    ),
    Row(
        "ops.attention",
        lambda: ops.attention,
        [*FLAT, booleans(3, 5)],
        flat_attended,
        {"is_causal": 1, "q_num_heads": 4, "kv_num_heads": 2},
        rejects=[[floats(2, 3, 9), *FLAT[1:]], [floats(3, 8), *FLAT[1:]]],
        note="flat",
    ),
    Row(
        "ops.attention",
        lambda: ops.attention,
        [*HEADS, None, floats(2, 2, 2, 4), floats(2, 2, 2, 3)],
        lambda q, k, v, mask, past_key, past_value: with_past(q, k, v, past_key, past_value),
        {"is_causal": 1},
        note="past",
    ),
    Row(
        "ops.attention_with_dropout",
        lambda: lambda *inputs: ops.attention_with_dropout(*inputs, jax.random.key(3), ratio=0.5),
        HEADS,
    ),
    Row(
        "ops.rotary_embedding",
        lambda: ops.rotary_embedding,
        [floats(2, 3, 4, 6), floats(2, 4, 3), floats(2, 4, 3)],
        lambda x, cos, sin: np.concatenate(_pairs(x[..., :3], x[..., 3:], cos[:, None], sin[:, None]), -1),
        rejects=[
            [floats(2, 3, 4, 5), floats(2, 4, 2), floats(2, 4, 2)],
            [floats(2, 3, 4, 6), floats(2, 4, 2), floats(2, 4, 2)],
            [floats(2, 4, 18), floats(2, 4, 3), floats(2, 4, 3)],
            [floats(2, 3, 4, 6), floats(9, 3), floats(9, 3), floats(2, 4)],
        ],
    ),
    Row(
        "ops.rotary_embedding",
        lambda: ops.rotary_embedding,
        [floats(2, 4, 12), floats(9, 2), floats(9, 2), integers(2, 4, high=9)],
        lambda x, cos, sin, ids: flat(_looked_up(by_head(x, 2), cos[ids], sin[ids])),
        {"num_heads": 2, "rotary_embedding_dim": 4, "interleaved": 1},
        note="interleaved",
    ),
    Row(
        "layer.MultiHeadAttention",
        lambda: layer.MultiHeadAttention(2),
        SEQUENCE,
        lambda s, x: multi_head(s, x, heads=2),
        rejects=[
            [floats(2, 8)],
            [floats(2, 3, 6)],
            [integers(2, 3, 8)],
            [*SEQUENCE, floats(3, 5, 8)],
            [*SEQUENCE, floats(2, 5, 8), floats(2, 4, 8)],
            [*SEQUENCE, None, None, booleans(3, 4)],
            [*SEQUENCE, None, None, integers(3, 3)],
            [*SEQUENCE, None, None, None, booleans(2, 4)],
            [*SEQUENCE, None, None, None, floats(2, 3)],
            [*SEQUENCE, None, None, None, None, integers(3)],
            [*SEQUENCE, None, None, None, None, floats(2)],
        ],
    ),
    Row(
        "layer.MultiHeadAttention",
        lambda: layer.MultiHeadAttention(4, 3, 2, out_features=5, bias=False),
        [*SEQUENCE, floats(2, 5, 6), floats(2, 5, 7), floats(3, 5), booleans(2, 5), integers(2, high=5)],
        lambda s, *inputs: multi_head(s, *inputs, heads=4, kv_heads=2),
        note="cross",
    ),
    Row(
        "layer.MultiHeadAttention",
        lambda: layer.MultiHeadAttention(2, 6, 1, causal=True, rotary=2 / 3),
        [*SEQUENCE, floats(2, 3, 8), floats(2, 3, 8), booleans(2, 1, 3, 3)],
        lambda s, *inputs: multi_head(s, *inputs, heads=2, kv_heads=1, causal=True, rotated=4),
        note="rotary",
    ),
    Row(
        "layer.MultiHeadAttention",
        lambda: layer.MultiHeadAttention(2, dropout=0.5),
        SEQUENCE,
        training=True,
        random=True,
        note="dropout",
    ),
    Row("layer.FeedForward", lambda: layer.FeedForward(5, "tanh"), SEQUENCE, lambda s, x: fed_forward(s, x, np.tanh)),
    Row(
        "layer.PositionalEncoding",
        lambda: layer.PositionalEncoding(),
        [floats(2, 3, 5)],
        lambda s, x: sinusoids(x),
        rejects=[[floats(5)], [integers(3, 5)]],
    ),
    Row(
        "layer.PositionalEmbedding",
        lambda: layer.PositionalEmbedding(4),
        [floats(2, 3, 5)],
        lambda s, x: x + s["W"][:3],
        rejects=[[floats(2, 3, 6)], [floats(2, 5, 5)], [floats(5)]],
    ),
    Row(
        "layer.TransformerEncoderLayer",
        lambda: layer.TransformerEncoderLayer(2),
        [*SEQUENCE, booleans(2, 1, 3, 3), booleans(2, 3), integers(2, low=1, high=4)],
        lambda s, *inputs: encoder_layer(s, *inputs, heads=2),
        rejects=[[floats(2, 8)], [*SEQUENCE, booleans(2, 3)]],
    ),
    Row(
        "layer.TransformerEncoderLayer",
        lambda: layer.TransformerEncoderLayer(2, 5, norm_first=True, causal=True, num_kv_heads=1, rotary=True),
        SEQUENCE,
        lambda s, x: encoder_layer(s, x, heads=2, first=True, causal=True, kv_heads=1, rotated=4),
        note="gpt",
    ),
    Row(
        "layer.TransformerEncoderLayer",
        lambda: layer.TransformerEncoderLayer(2, dropout=0.3),
        SEQUENCE,
        training=True,
        random=True,
        note="dropout",
    ),
    Row(
        "layer.TransformerDecoderLayer",
        lambda: layer.TransformerDecoderLayer(2),
        [*SEQUENCE, floats(2, 5, 6)],
        lambda s, x, memory: decoder_layer(s, x, memory, heads=2, first=False),
        rejects=[[floats(2, 8), floats(2, 5, 6)], [*SEQUENCE, floats(3, 5, 6)], [*SEQUENCE, floats(2, 5, 7)]],
    ),
    Row(
        "layer.TransformerDecoderLayer",
        lambda: layer.TransformerDecoderLayer(2, norm_first=True),
        [*SEQUENCE, floats(2, 5, 6), floats(3, 3), booleans(2, 1, 1, 5)],
        lambda s, *inputs: decoder_layer(s, *inputs, heads=2, first=True),
        note="masks",
    ),
    Row(
        "layer.TransformerEncoder",
        lambda: layer.TransformerEncoder(2, 2, activation="tanh", norm_first=True),
        SEQUENCE,
        encoder,
    ),
    Row("layer.TransformerDecoder", lambda: layer.TransformerDecoder(2, 2), [*SEQUENCE, floats(2, 5, 6)]),
]


def _pairs(a: Any, b: Any, cos: Any, sin: Any) -> list[Any]:
    return [a * cos - b * sin, a * sin + b * cos]


def _looked_up(x: Any, cos: Any, sin: Any) -> Any:
    y = np.array(x)
    y[..., 0:4:2], y[..., 1:4:2] = _pairs(x[..., 0:4:2], x[..., 1:4:2], cos[:, None], sin[:, None])
    return y
