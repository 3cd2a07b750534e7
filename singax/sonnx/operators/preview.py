"""ai.onnx.preview: attention whose scores and probabilities graphs may change."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ShapeError
from singax.sonnx.operators.elementwise import dtype_of
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("FlexAttention", domain="ai.onnx.preview")
def flex_attention(call: Call, q: Array, k: Array, v: Array) -> Array:
    """softmax(q kᵀ · scale) v for (N, H, T, D), with the graphs `score_mod` and `prob_mod` before and after softmax."""
    q, k, v = map(jnp.asarray, (q, k, v))
    _check(q, k, v)
    repeats = q.shape[1] // k.shape[1]
    k, v = jnp.repeat(k, repeats, 1), jnp.repeat(v, repeats, 1)
    scale = call.attribute("scale")
    root = jnp.asarray(np.sqrt(np.float32(1 / math.sqrt(q.shape[3]) if scale is None else scale)), q.dtype)
    code = call.attribute("softmax_precision")
    dtype = jnp.promote_types(q.dtype, np.float32) if code is None else dtype_of(code)
    scores = jnp.matmul(q * root, jnp.swapaxes(k * root, 2, 3)).astype(dtype)
    weights = jax.nn.softmax(_changed(call, "score_mod", scores), axis=-1)
    return jnp.matmul(_changed(call, "prob_mod", weights), v.astype(dtype)).astype(v.dtype)


def _changed(call: Call, name: str, x: Array) -> Array:
    graph = call.attribute(name)
    return x if graph is None else jnp.asarray(call.evaluator.graph(graph, [x], call.scope)[0]).astype(x.dtype)


def _check(q: Array, k: Array, v: Array) -> None:
    shapes = [x.shape for x in (q, k, v)]
    fits = all(len(shape) == 4 for shape in shapes) and k.shape[:3] == v.shape[:3] and q.shape[3] == k.shape[3]
    if not fits or q.shape[1] % max(k.shape[1], 1):
        raise ShapeError(f"expected q (N, H, T, D), k (N, G, S, D), v (N, G, S, E), G dividing H. Received: {shapes}")
