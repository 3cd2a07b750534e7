"""com.microsoft: what exporters and optimizers of graphs fuse into one node.

Known from the documentation of ONNX Runtime's contributed operators, and checked against its results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import ops
from singax.errors import ArgumentError
from singax.ops.window import wide_dtype
from singax.sonnx.operators import shapes
from singax.sonnx.operators.convolution import conv
from singax.sonnx.operators.geometry import affordable
from singax.sonnx.operators.indices import fill_mode, in_range, within
from singax.sonnx.operators.quantized import MICROSOFT
from singax.sonnx.operators.vision import grid_sample
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("Gelu", "BiasGelu", domain=MICROSOFT)
def bias_gelu(call: Call, x: Array, bias: Array = None) -> Array:
    """y Φ(y) of y = x + bias."""
    return jax.nn.gelu(plus(x, bias), approximate=False)


@onnx_operator("FastGelu", domain=MICROSOFT)
def fast_gelu(call: Call, x: Array, bias: Array = None) -> Array:
    """y Φ(y) of y = x + bias, by tanh."""
    return jax.nn.gelu(plus(x, bias), approximate=True)


@onnx_operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(call: Call, x: Array) -> Array:
    """x σ(α x)."""
    x = jnp.asarray(x)
    return x * jax.nn.sigmoid(jnp.asarray(call.attribute("alpha", 1.702), x.dtype) * x)


def plus(x: Array, bias: Array) -> Array:
    """x, plus a bias that may be absent."""
    return jnp.asarray(x) if bias is None else jnp.asarray(x) + bias


@onnx_operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(call: Call, a: Array, b: Array) -> Array:
    """α A B; each may have its last two axes exchanged, or its first axis moved before its last one."""
    a, b = (_turned(call, x, side) for x, side in ((a, "A"), (b, "B")))
    return (jnp.asarray(call.attribute("alpha", 1.0), a.dtype) * jnp.matmul(a, b)).astype(a.dtype)


def _turned(call: Call, x: Array, side: str) -> Array:
    x = jnp.asarray(x)
    if call.attribute(f"transBatch{side}", 0) and x.ndim > 2:
        x = jnp.moveaxis(x, 0, -2)
    return jnp.swapaxes(x, -1, -2) if call.attribute(f"trans{side}", 0) and x.ndim > 1 else x


_ACTIVATIONS: dict[str, Callable[..., Array]] = {
    "Relu": lambda x, *_: jnp.maximum(x, 0),
    "Tanh": lambda x, *_: jnp.tanh(x),
    "Sigmoid": lambda x, *_: jax.nn.sigmoid(x),
    "LeakyRelu": lambda x, alpha=0.01, *_: jnp.where(x >= 0, x, alpha * x),
    "Clip": lambda x, low, high, *_: jnp.clip(x, low, high),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5, *_: jnp.clip(alpha * x + beta, 0, 1),
    "Elu": lambda x, alpha=1.0, *_: jax.nn.elu(x, alpha),
    "Softplus": lambda x, *_: jax.nn.softplus(x),
    "Softsign": lambda x, *_: jax.nn.soft_sign(x),
}


def _activated(call: Call, x: Array, parameters: Sequence[float]) -> Array:
    name = call.attribute("activation")
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise ArgumentError(f"expected an activation among {', '.join(_ACTIVATIONS)}. Received: {name!r}")
    return _ACTIVATIONS[name](x, *parameters).astype(x.dtype)


@onnx_operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(call: Call, a: Array, b: Array, c: Array = None) -> Array:
    """An activation of α A B + β C, A and B transposed on request."""
    a, b = (_turned(call, x, side) for x, side in ((a, "A"), (b, "B")))
    product = call.attribute("alpha", 1.0) * (a @ b)
    total = (product if c is None else product + call.attribute("beta", 1.0) * jnp.asarray(c)).astype(a.dtype)
    given = [call.attribute(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return _activated(call, total, [value for value in given if value is not None])


@onnx_operator("FusedConv", domain=MICROSOFT)
def fused_conv(call: Call, x: Array, W: Array, bias: Array = None, z: Array = None) -> Array:
    """An activation of the convolution of x, plus z."""
    y = conv(call, x, W, bias)
    return _activated(call, plus(y, z), call.attribute("activation_params") or [])


@onnx_operator("SimplifiedLayerNormalization")
@onnx_operator("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_norm(call: Call, x: Array, scale: Array) -> tuple[Array, Array]:
    """x / √(mean of x² + ε) · scale; and the factor."""
    x, axis, eps = jnp.asarray(x), call.attribute("axis", -1), call.attribute("epsilon", 1e-5)
    axes = tuple(range(axis % x.ndim, x.ndim))
    factor = jax.lax.rsqrt(jnp.mean(jnp.square(x.astype(wide_dtype(x.dtype))), axes, keepdims=True) + eps)
    return ops.rms_norm(x, jnp.asarray(scale), axis=axis, eps=eps), factor


@onnx_operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(
    call: Call, x: Array, skip: Array, scale: Array, shift: Array = None, bias: Array = None
) -> tuple[Array, ...]:
    """Layer normalisation of x + skip + bias; its mean, its factor, and the sum."""
    total = plus(plus(x, skip), bias)
    return (*_normalized(call, total, scale, shift), total)


def _normalized(call: Call, x: Array, scale: Array, shift: Array) -> tuple[Array, Array, Array]:
    eps, wide = call.attribute("epsilon", 1e-12), x.astype(wide_dtype(x.dtype))
    mean = jnp.mean(wide, -1, keepdims=True)
    factor = jax.lax.rsqrt(jnp.mean(jnp.square(wide - mean), -1, keepdims=True) + eps)
    y = ops.layer_norm(x, jnp.asarray(scale), None if shift is None else jnp.asarray(shift), eps=eps)
    return y, mean, factor


@onnx_operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_norm(
    call: Call, x: Array, skip: Array, scale: Array, bias: Array = None
) -> tuple[Array, ...]:
    """x + skip + bias over the root of its mean square, scaled; nothing for the mean; the factor; and the sum."""
    total, eps = plus(plus(x, skip), bias), call.attribute("epsilon", 1e-12)
    square = jnp.mean(jnp.square(total.astype(wide_dtype(total.dtype))), -1, keepdims=True)
    y = ops.rms_norm(total, jnp.asarray(scale), eps=eps)
    return y, jnp.zeros_like(square), jax.lax.rsqrt(square + eps), total


@onnx_operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(
    call: Call,
    ids: Array,
    segments: Array,
    words: Array,
    places: Array,
    kinds: Array,
    scale: Array,
    shift: Array,
    mask: Array = None,
    positions: Array = None,
) -> tuple[Array, Array, Array]:
    """The normalised sum of the embeddings of words, places and segments; how many tokens each mask has; the sum."""
    length = np.shape(ids)[1]
    total = _embedded(call, words, ids, "input_ids")
    total = total + _embedded(call, places, np.arange(length)[None] if positions is None else positions, "position_ids")
    if segments is not None:
        total = total + _embedded(call, kinds, segments, "segment_ids")
    count = jnp.zeros(np.shape(ids)[0], np.int32) if mask is None else jnp.sum(jnp.asarray(mask), 1, dtype=np.int32)
    return _normalized(call, total, scale, shift)[0], count, total


def _embedded(call: Call, rows: Array, ids: Array, what: str) -> Array:
    """A row for each id."""
    return jnp.take(jnp.asarray(rows), in_range(call, ids, np.shape(rows)[0], what), 0, mode=fill_mode(call))


@onnx_operator("Inverse", domain=MICROSOFT)
def inverse(call: Call, x: Array) -> Array:
    """The inverse of each matrix."""
    x = jnp.asarray(x)
    return jnp.linalg.inv(x.astype(wide_dtype(x.dtype))).astype(x.dtype)


for _name, _handler in (
    ("Trilu", shapes.trilu),
    ("GatherND", shapes.gather_nd),
    ("Pad", shapes.pad),
    ("GridSample", grid_sample),
):
    onnx_operator(_name, domain=MICROSOFT)(_handler)


@onnx_operator("Range", domain=MICROSOFT)
def arange(call: Call, start: Array, _: Array, __: Array = None) -> np.ndarray:
    """Numbers from a start to before a limit, 1 apart by default."""
    first, limit, step = (call.static(at, np.ones((), start.dtype)).reshape(()).item() for at in range(3))
    if step == 0:
        raise ArgumentError("expected a delta that is not 0. Received: 0")
    affordable("a range", [max(math.ceil((limit - first) / step), 0)])
    return np.arange(first, limit, step, dtype=start.dtype)


@onnx_operator("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(call: Call, x: Array, positions: Array, cos: Array, sin: Array) -> Array:
    """Pairs of features rotated by the angles of their positions, which may be given by the first of them."""
    if call.attribute("is_packed_batching", 0) or call.attribute("scale", 1.0) not in (0.0, 1.0):
        raise ArgumentError("expected no packed batches and no scale. Received: one of them")
    length = np.shape(x)[-2]
    first = np.size(positions) == 1 and np.ndim(positions) == 1
    within(call, positions, 0, np.shape(cos)[0] - (length if first else 1), "position_ids")
    x, positions = jnp.asarray(x), jnp.asarray(positions)
    if first:
        positions = jnp.broadcast_to(positions + np.arange(length), (x.shape[0], length))
    rotated = call.attribute("rotary_embedding_dim", 0)
    heads = call.attribute("num_heads", 0) or (x.shape[-1] // (2 * cos.shape[1]) if x.ndim == 3 else 0)
    options = {"interleaved": call.attribute("interleaved", 0), "num_heads": heads, "rotary_embedding_dim": rotated}
    return ops.rotary_embedding(x, jnp.asarray(cos), jnp.asarray(sin), positions, **options)


@onnx_operator("ExpandDims", domain=MICROSOFT)
def expand_dims(call: Call, x: Array, _: Array) -> Array:
    """x with a new axis."""
    return jnp.expand_dims(x, int(call.static(1).reshape(())))


@onnx_operator("BiasAdd", domain=MICROSOFT)
def bias_add(call: Call, x: Array, bias: Array, skip: Array) -> Array:
    """x + bias + skip."""
    return plus(plus(x, bias), skip)


@onnx_operator("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(call: Call, x: Array, bias: Array) -> Array:
    """The first half of x + bias times the Gelu of the second."""
    left, right = jnp.split(plus(x, bias), 2, axis=-1)
    return left * jax.nn.gelu(right, approximate=False)
