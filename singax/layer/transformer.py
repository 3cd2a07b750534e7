"""Transformer layers, and stacks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

import jax
import jax.numpy as jnp

from singax import ops
from singax.checked import integer
from singax.errors import ArgumentError
from singax.layer.attention import MultiHeadAttention
from singax.layer.attention_mask import Cache
from singax.layer.base import Layer
from singax.layer.dropout import Dropout
from singax.layer.feed_forward import Activation, FeedForward
from singax.layer.sample_normalization import LayerNorm

Array = jax.Array


class AttentionOptions(TypedDict, total=False):
    """Keyword arguments of MultiHeadAttention that the transformer layers hand on."""

    head_dim: int | None
    num_kv_heads: int | None
    bias: bool
    rotary: bool | float
    rotary_base: float
    kernel_init: Any
    bias_init: Any


class _Block(Layer):
    """What the transformer layers share: self-attention, the feed-forward network, and how residuals are added."""

    def __init__(
        self,
        num_heads: int,
        hidden_features: int | None = None,
        activation: Activation = "relu",
        dropout: float = 0.1,
        norm_first: bool = False,
        eps: float = 1e-5,
        *,
        causal: bool = False,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__()
        unknown = sorted(set(options) - set(AttentionOptions.__annotations__))
        if unknown:
            raise ArgumentError(
                f"expected keywords among {', '.join(AttentionOptions.__annotations__)}. Received: {unknown[0]}"
            )
        shared: Any = {name: value for name, value in options.items() if name in ("bias", "kernel_init", "bias_init")}
        self.attention = MultiHeadAttention(num_heads, causal=causal, dropout=dropout, **options)
        self.feed_forward = FeedForward(hidden_features, activation, dropout, **shared)
        self.norm1, self.norm2 = LayerNorm(eps=eps), LayerNorm(eps=eps)
        self.dropout, self.norm_first = Dropout(dropout), bool(norm_first)

    def empty_cache(self, batch: int, size: int, dtype: Any = jnp.float32) -> Cache:
        """A cache for the self-attention; see `MultiHeadAttention.empty_cache`."""
        return self.attention.empty_cache(batch, size, dtype)

    def _residual(self, x: Array, norm: LayerNorm, function: Callable[[Array], Any]) -> tuple[Array, Cache | None]:
        """x and the function of it, added and normalised; and the cache if the function returns one."""
        out = function(norm(x) if self.norm_first else x)
        y, cache = out if isinstance(out, tuple) else (out, None)
        y = ops.add(x, self.dropout(y))
        return (y if self.norm_first else norm(y)), cache


class TransformerEncoderLayer(_Block):
    """Self-attention and a feed-forward network, each with a residual connection (Vaswani et al. 2017).

    y = norm1(x + attention(x)), z = norm2(y + feed_forward(y)); with `norm_first` y = x + attention(norm1(x)),
    z = y + feed_forward(norm2(y)) (Xiong et al. 2020). With `causal` and `norm_first` it is a block of GPT.

    **Shapes** x (N, T, D) → the same. Parameters: those of `attention` (MultiHeadAttention), `feed_forward`
    (FeedForward), `norm1` and `norm2` (LayerNorm).

    **Args**
      num_heads: the number of attention heads.
      hidden_features: the width of the feed-forward network (default 4 · D).
      activation: "relu" (default), "gelu", "tanh", or a function of an array.
      dropout: the part that is dropped, in training, of the attention weights, inside the feed-forward network, and of
        what is added to the residual stream (default 0.1).
      norm_first: see above (default False).
      eps: of the LayerNorms (default 1e-5).
      causal: whether position i attends to positions 0 … i only (default False).
      head_dim, num_kv_heads, bias, rotary, rotary_base, kernel_init, bias_init: as for MultiHeadAttention; `bias` and
        the initializers also go to the feed-forward network.

    **Call** `(x, mask=None, key_mask=None, key_lengths=None, cache=None)`, as for MultiHeadAttention: with a cache the
    result is a pair, the output and the new cache.

    **Raises** as MultiHeadAttention.

    *Differences from SINGA*: SINGA has no such layer.

    >>> TransformerEncoderLayer(4).infer_shape((None, 10, 32))
    (None, 10, 32)
    """

    def forward(
        self,
        x: Array,
        mask: Array | None = None,
        key_mask: Array | None = None,
        key_lengths: Array | None = None,
        cache: Cache | None = None,
    ) -> Any:
        x, cache = self._residual(
            x,
            self.norm1,
            lambda y: self.attention(y, mask=mask, key_mask=key_mask, key_lengths=key_lengths, cache=cache),
        )
        x, _ = self._residual(x, self.norm2, self.feed_forward)
        return x if cache is None else (x, cache)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to a memory, and a feed-forward network (Vaswani et al. 2017).

    x ← norm1(x + attention(x)), x ← norm2(x + cross_attention(x, memory)), x ← norm3(x + feed_forward(x)); with
    `norm_first` x ← x + attention(norm1(x)) and so on.

    **Shapes** x (N, T, D), memory (N, S, …) → (N, T, D). Parameters: those of `attention`, `cross_attention`,
    `feed_forward`, `norm1`, `norm2` and `norm3`.

    **Args** as for TransformerEncoderLayer, but `causal` is True unless told otherwise; it and the rotary positions
    concern the self-attention only.

    **Call** `(x, memory, mask=None, memory_mask=None, key_mask=None, key_lengths=None, memory_key_mask=None,
    memory_lengths=None, cache=None)`: the masks of the self-attention and, with `memory` in their names, those of the
    attention to the memory, as for MultiHeadAttention. The cache is that of the self-attention; with it the result is
    a pair, the output and the new cache.

    **Raises** as MultiHeadAttention.

    *Differences from SINGA*: SINGA has no such layer.

    >>> TransformerDecoderLayer(4).infer_shape((None, 10, 32), (None, 7, 16))
    (None, 10, 32)
    """

    def __init__(
        self,
        num_heads: int,
        hidden_features: int | None = None,
        activation: Activation = "relu",
        dropout: float = 0.1,
        norm_first: bool = False,
        eps: float = 1e-5,
        *,
        causal: bool = True,
        **options: Unpack[AttentionOptions],
    ) -> None:
        super().__init__(num_heads, hidden_features, activation, dropout, norm_first, eps, causal=causal, **options)
        options["rotary"] = False
        self.cross_attention = MultiHeadAttention(num_heads, dropout=dropout, **options)
        self.norm3 = LayerNorm(eps=eps)

    def forward(
        self,
        x: Array,
        memory: Array,
        mask: Array | None = None,
        memory_mask: Array | None = None,
        key_mask: Array | None = None,
        key_lengths: Array | None = None,
        memory_key_mask: Array | None = None,
        memory_lengths: Array | None = None,
        cache: Cache | None = None,
    ) -> Any:
        x, cache = self._residual(
            x,
            self.norm1,
            lambda y: self.attention(y, mask=mask, key_mask=key_mask, key_lengths=key_lengths, cache=cache),
        )
        x, _ = self._residual(
            x,
            self.norm2,
            lambda y: self.cross_attention(
                y, memory, mask=memory_mask, key_mask=memory_key_mask, key_lengths=memory_lengths
            ),
        )
        x, _ = self._residual(x, self.norm3, self.feed_forward)
        return x if cache is None else (x, cache)


class _Stack(Layer):
    """What the stacks share: the layers in turn, and a normalisation at the end."""

    layer_class: type[_Block]

    def __init__(self, num_layers: int, *arguments: Any, final_norm: bool | None = None, **options: Any) -> None:
        super().__init__()
        self.layers = [self.layer_class(*arguments, **options) for _ in range(integer("num_layers", num_layers, 1))]
        first = self.layers[0]
        self.norm = LayerNorm(eps=first.norm1.eps) if (first.norm_first if final_norm is None else final_norm) else None

    def empty_cache(self, batch: int, size: int, dtype: Any = jnp.float32) -> list[Cache]:
        """A cache for each layer; see `MultiHeadAttention.empty_cache`."""
        return [layer.empty_cache(batch, size, dtype) for layer in self.layers]

    def _in_turn(self, x: Array, caches: Sequence[Cache] | None, call: Callable[..., Any]) -> Any:
        if caches is not None and len(caches) != len(self.layers):
            raise ArgumentError(f"expected a cache for each of {len(self.layers)} layers. Received: {len(caches)}")
        kept = []
        for index, layer in enumerate(self.layers):
            out = call(layer, x, None if caches is None else caches[index])
            x = out if caches is None else out[0]
            kept += [] if caches is None else [out[1]]
        x = x if self.norm is None else self.norm(x)
        return x if caches is None else (x, kept)


class TransformerEncoder(_Stack):
    """Several TransformerEncoderLayers in turn.

    **Shapes** x (N, T, D) → the same. Parameters: those of `layers.0`, `layers.1` …, and of `norm`.

    **Args** num_layers; then all of TransformerEncoderLayer's; final_norm: whether a LayerNorm follows the last layer
    (default: whether `norm_first`).

    **Call** as for TransformerEncoderLayer; with `caches`, one for each layer, the result is the output and a list of
    the new caches.

    **Raises** as TransformerEncoderLayer.

    *Differences from SINGA*: SINGA has no such layer.

    >>> TransformerEncoder(2, num_heads=4, norm_first=True).infer_shape((None, 10, 32))
    (None, 10, 32)
    """

    layer_class = TransformerEncoderLayer

    def forward(
        self,
        x: Array,
        mask: Array | None = None,
        key_mask: Array | None = None,
        key_lengths: Array | None = None,
        caches: Sequence[Cache] | None = None,
    ) -> Any:
        return self._in_turn(x, caches, lambda layer, x, cache: layer(x, mask, key_mask, key_lengths, cache))


class TransformerDecoder(_Stack):
    """Several TransformerDecoderLayers in turn, all of which attend to one memory.

    **Shapes** x (N, T, D), memory (N, S, …) → (N, T, D). Parameters: those of `layers.0`, `layers.1` …, and of `norm`.

    **Args** num_layers; then all of TransformerDecoderLayer's; final_norm: whether a LayerNorm follows the last layer
    (default: whether `norm_first`).

    **Call** as for TransformerDecoderLayer; with `caches`, one for each layer, the result is the output and a list of
    the new caches.

    **Raises** as TransformerDecoderLayer.

    *Differences from SINGA*: SINGA has no such layer.

    >>> TransformerDecoder(2, num_heads=4).infer_shape((None, 10, 32), (None, 7, 16))
    (None, 10, 32)
    """

    layer_class = TransformerDecoderLayer

    def forward(
        self,
        x: Array,
        memory: Array,
        mask: Array | None = None,
        memory_mask: Array | None = None,
        key_mask: Array | None = None,
        key_lengths: Array | None = None,
        memory_key_mask: Array | None = None,
        memory_lengths: Array | None = None,
        caches: Sequence[Cache] | None = None,
    ) -> Any:
        masks = (mask, memory_mask, key_mask, key_lengths, memory_key_mask, memory_lengths)
        return self._in_turn(x, caches, lambda layer, x, cache: layer(x, memory, *masks, cache))
