"""What tells positions apart: sinusoids, and rotary embeddings with the inputs and attributes of ONNX's operator."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from singax.errors import ShapeError
from singax.ops.operation import operation
from singax.ops.window import check_floating, wide_dtype

Array = jax.Array


def position_angles(positions: Array, features: int, *, base: float = 10000.0) -> Array:
    """positions (T,) of floats → (T, ⌈features / 2⌉): position · base^(−2i / features)."""
    exponents = jnp.arange(0, features, 2).astype(positions.dtype) / -features
    return positions[:, None] * jnp.power(jnp.asarray(base, positions.dtype), exponents)[None, :]


@operation("RotaryEmbedding", attributes=lambda k: {name: int(value) for name, value in k.items() if value})
def rotary_embedding(
    x: Array,
    cos: Array,
    sin: Array,
    position_ids: Array | None = None,
    *,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    interleaved: int = 0,
) -> Array:
    """Pairs of features (a, b) are rotated: (a cos − b sin, a sin + b cos) (Su et al. 2021).

    x (N, H, T, D), or (N, T, H·D) with `num_heads` H → the same. Of the D features of a head the first R =
    `rotary_embedding_dim` are rotated (0: all); pair i is (i, i + R / 2), or (2i, 2i + 1) if `interleaved`.
    cos, sin: (N, T, R / 2), or tables (P, R / 2) from which `position_ids` (N, T) choose.
    """
    check_floating("rotary_embedding", x)
    heads = _by_head(x, num_heads)
    rotated = rotary_embedding_dim or heads.shape[-1]
    if rotated % 2 or not 0 < rotated <= heads.shape[-1]:
        raise ShapeError(
            f"rotary_embedding expected an even number of rotated features, up to the {heads.shape[-1]} of a head. "
            f"Received: {rotated}"
        )
    if position_ids is not None:
        cos, sin = _looked_up(cos, position_ids), _looked_up(sin, position_ids)
    expected = (*heads.shape[:2], rotated // 2)
    if cos.shape != expected or sin.shape != expected:
        raise ShapeError(
            f"rotary_embedding expected cos and sin {expected}, or tables (P, {rotated // 2}) and position_ids. "
            f"Received: {cos.shape} and {sin.shape} for an input {x.shape}"
        )
    y = _rotated(heads, cos, sin, rotated, bool(interleaved)).astype(x.dtype)
    return y.reshape(x.shape) if x.ndim == 3 else y.swapaxes(1, 2)


def _by_head(x: Array, num_heads: int) -> Array:
    """x as (N, T, H, D)."""
    if x.ndim == 4:
        return x.swapaxes(1, 2)
    if x.ndim != 3 or num_heads < 1 or x.shape[2] % num_heads:
        raise ShapeError(
            f"rotary_embedding expected (N, H, T, D), or (N, T, H · D) with num_heads H. Received shape {x.shape} for "
            f"{num_heads} heads"
        )
    return x.reshape(*x.shape[:2], num_heads, -1 if x.size else x.shape[2] // num_heads)


def _looked_up(table: Array, ids: Array) -> Array:
    if table.ndim != 2 or ids.ndim != 2 or not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ShapeError(
            "rotary_embedding expected tables (P, R / 2) and integer position_ids (N, T). "
            f"Received: {table.shape} and {ids.dtype}{ids.shape}"
        )
    return jnp.take(table, ids, axis=0)


def _rotated(x: Array, cos: Array, sin: Array, size: int, interleaved: bool) -> Array:
    """x (N, T, H, D) with its first `size` features rotated, in float32 or wider."""
    wide = wide_dtype(x.dtype)
    head, rest = x[..., :size].astype(wide), x[..., size:].astype(wide)
    cos, sin = cos[:, :, None].astype(wide), sin[:, :, None].astype(wide)
    a, b = (head[..., ::2], head[..., 1::2]) if interleaved else jnp.split(head, 2, axis=-1)
    pair = a * cos - b * sin, a * sin + b * cos
    turned = jnp.stack(pair, axis=-1).reshape(head.shape) if interleaved else jnp.concatenate(pair, axis=-1)
    return jnp.concatenate([turned, rest], axis=-1) if size < x.shape[-1] else turned
