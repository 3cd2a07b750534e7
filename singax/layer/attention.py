"""Attention with several heads."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from singax import dispatch, mode, ops
from singax.checked import integer
from singax.errors import ArgumentError, ShapeError, UninitializedError
from singax.layer.attention_mask import Cache, causal_in_cache, checked_cache, extended, padding, restricted
from singax.layer.base import Layer
from singax.layer.dropout import Dropout
from singax.layer.linear import Linear
from singax.layer.position import position_numbers, positive_number
from singax.ops.position import position_angles
from singax.ops.window import check_floating, wide_dtype

Array = jax.Array


class MultiHeadAttention(Layer):
    """Attention with H heads (Vaswani et al. 2017).

    q = query · W_query + b_query, k and v likewise; in each head softmax(q · kᵀ / sqrt(d)) · v; the heads side by side
    go through W_out and b_out.

    **Shapes** query (N, T, D), key (N, S, …), value (N, S, …) → (N, T, out). Without a value the key is also the value,
    without a key the query is all three (self-attention). With d = head_dim and K = num_kv_heads the parameters are
    those of four Linear layers: `query.W` (D, H·d), `key.W`, `value.W` (…, K·d), `out.W` (H·d, out), and `b` of each.

    **Args**
      num_heads: H.
      head_dim: d (default D / H, which must be an integer).
      num_kv_heads: K, a divisor of H (default H): H / K neighbouring heads share a key and a value (Ainslie et al.
        2023); 1 is multi-query attention (Shazeer 2019).
      out_features: the size of the output (default D).
      causal: whether position i attends to positions 0 … i only (default False).
      bias: whether there are biases (default True).
      dropout: the part of the attention weights that is dropped in training (default 0).
      rotary: rotary positions (Su et al. 2021): True, or the part of each head's features that is rotated, such as 0.5
        (default False). Feature i is paired with feature i + r / 2 of the r rotated ones.
      rotary_base: the base of the rotary wavelengths (default 10000).
      kernel_init, bias_init: as for Linear.

    **Call** `(query, key=None, value=None, mask=None, key_mask=None, key_lengths=None, cache=None)`
      mask: booleans (True: attend) or numbers that are added to the scores (−inf: do not attend); its shape broadcasts
        to (N, H, T, S) by NumPy's rules.
      key_mask: booleans (N, S), False for keys that are padding.
      key_lengths: integers (N,): only the first so many keys are there.
      cache: what `empty_cache` or an earlier call returned: keys and values of the positions so far. The call then
        returns a pair, the output and the new cache; S in the shapes of masks is the size of the cache.
    What is excluded by any of them is excluded. A query that may attend to no key gives b_out, as zeros do.

    **Raises** `ArgumentError` for other arguments, `ShapeError` for inputs or masks that do not fit, `DTypeError` for
    inputs of integers or masks of integers.

    *Differences from SINGA*: SINGA has no such layer. ONNX: Attention and RotaryEmbedding (opset 23).

    >>> MultiHeadAttention(4).infer_shape((None, 10, 32))
    (None, 10, 32)
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int | None = None,
        num_kv_heads: int | None = None,
        *,
        out_features: int | None = None,
        causal: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: bool | float = False,
        rotary_base: float = 10000.0,
        kernel_init: Any = None,
        bias_init: Any = "zeros",
    ) -> None:
        super().__init__()
        self.num_heads = integer("num_heads", num_heads, 1)
        self.num_kv_heads = num_heads if num_kv_heads is None else integer("num_kv_heads", num_kv_heads, 1)
        if num_heads % self.num_kv_heads:
            raise ArgumentError(f"num_kv_heads must divide num_heads, {num_heads}. Received: {num_kv_heads!r}")
        self.head_dim = None if head_dim is None else integer("head_dim", head_dim, 1)
        self.out_features = None if out_features is None else integer("out_features", out_features, 1)
        self.causal, self.has_bias = bool(causal), bool(bias)
        self.dropout = Dropout(dropout)
        self.rotary, self.rotary_base = _rotary_part(rotary), positive_number("rotary_base", rotary_base)
        self.kernel_init, self.bias_init = kernel_init, bias_init
        if self.head_dim is not None:
            self._rotated_features(self.head_dim)

    def initialize(self, query: Array) -> None:
        _check_query(query)
        size = self._size_of_head(query.shape[-1])
        self.query = self._linear(self.num_heads * size)
        self.key = self._linear(self.num_kv_heads * size)
        self.value = self._linear(self.num_kv_heads * size)
        self.out = self._linear(self.out_features or query.shape[-1])

    def _linear(self, size: int) -> Linear:
        return Linear(size, bias=self.has_bias, kernel_init=self.kernel_init, bias_init=self.bias_init)

    def _size_of_head(self, features: int) -> int:
        if self.head_dim is None and features % self.num_heads:
            raise ShapeError(
                f"expected features that the {self.num_heads} heads divide, or a head_dim. Received: {features}"
            )
        size = self.head_dim or features // self.num_heads
        self._rotated_features(size)
        return size

    def _rotated_features(self, size: int) -> int:
        """How many of the `size` features of a head are rotated."""
        rotated = round(self.rotary * size)
        if self.rotary and (rotated % 2 or not rotated):
            raise ArgumentError(
                f"rotary must select an even number of a head's features, from 2 up. Received: {self.rotary} of {size}"
            )
        return rotated

    def empty_cache(self, batch: int, size: int, dtype: Any = jnp.float32) -> Cache:
        """A cache for `size` positions: zeros for keys and values (N, size, K·d), and how many positions it holds, 0.

        Calls that go beyond `size` cannot raise in a compiled program: their output is nan. Raises
        `UninitializedError` while the size of a head is unknown: before the first input, without `head_dim`.
        """
        if self.head_dim is None and not self._initialized:
            raise UninitializedError("the size of a head is unknown: give head_dim, or call the layer with an input")
        width = self.key.out_features if self._initialized else self.num_kv_heads * (self.head_dim or 0)
        zeros = jnp.zeros((integer("batch", batch, 1), integer("size", size, 1), width), dtype)
        return zeros, zeros, jnp.zeros((), jnp.int32)

    def forward(
        self,
        query: Array,
        key: Array | None = None,
        value: Array | None = None,
        mask: Array | None = None,
        key_mask: Array | None = None,
        key_lengths: Array | None = None,
        cache: Cache | None = None,
    ) -> Any:
        key = query if key is None else key
        value = key if value is None else value
        _check_inputs(query, key, value)
        q, k, v = self.query(query), self.key(key), self.value(value)
        start = None if cache is None else checked_cache(cache, k)[2]
        if self.rotary:
            q, k = self._rotated(q, self.num_heads, start), self._rotated(k, self.num_kv_heads, start)
        if cache is not None:
            k, v, cache = extended(cache, k, v)
        (N, T), S = q.shape[:2], k.shape[1]
        shape = (N, self.num_heads, T, S)
        allowed = padding(key_mask, key_lengths, N, S)
        if start is None:
            return self.out(self._attended(q, k, v, restricted(mask, allowed, shape), self.causal))
        allowed = [*allowed, causal_in_cache(start, T, S, self.causal)]
        y = self.out(self._attended(q, k, v, restricted(mask, allowed, shape), False))
        return jnp.where(start + T <= S, y, jnp.full_like(y, jnp.nan)), cache

    def _attended(self, q: Array, k: Array, v: Array, mask: Array | None, causal: bool) -> Array:
        heads = {"q_num_heads": self.num_heads, "kv_num_heads": self.num_kv_heads, "is_causal": int(causal)}
        if mode.training and self.dropout.ratio:
            key = dispatch.next_key()
            return ops.attention_with_dropout(q, k, v, key, mask, ratio=self.dropout.ratio, **heads)
        return ops.attention(q, k, v, mask, **heads)

    def _rotated(self, x: Array, heads: int, start: Array | None) -> Array:
        """x (N, T, heads · d) with its features rotated by its positions, which begin at `start`."""
        size = x.shape[-1] // heads
        rotated = self._rotated_features(size)
        angles = position_angles(
            position_numbers(x.shape[1], start, wide_dtype(x.dtype)), rotated, base=self.rotary_base
        )
        angles = jnp.broadcast_to(angles[None], (x.shape[0], *angles.shape))
        partial = 0 if rotated == size else rotated
        return ops.rotary_embedding(x, jnp.cos(angles), jnp.sin(angles), num_heads=heads, rotary_embedding_dim=partial)


def _rotary_part(rotary: Any) -> float:
    if not isinstance(rotary, bool | int | float) or not 0 <= rotary <= 1:
        raise ArgumentError(f"rotary must be a bool, or a part from 0 to 1. Received: {rotary!r}")
    return float(rotary)


def _check_query(query: Array) -> None:
    if query.ndim != 3:
        raise ShapeError(f"expected a query (N, T, D). Received shape {query.shape}")
    check_floating("attention", query)


def _check_inputs(query: Array, key: Array, value: Array) -> None:
    _check_query(query)
    if key.ndim != 3 or value.ndim != 3 or not query.shape[0] == key.shape[0] or key.shape[:2] != value.shape[:2]:
        raise ShapeError(
            "expected query (N, T, D), key (N, S, …) and value (N, S, …). "
            f"Received shapes {query.shape}, {key.shape} and {value.shape}"
        )
    check_floating("attention", key)
    check_floating("attention", value)
