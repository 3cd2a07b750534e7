"""Random values: from the node's seed where it has one, else from the key of the run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ShapeError
from singax.sonnx.operators.elementwise import dtype_of
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("RandomNormal", "RandomNormalLike")
def normal(call: Call, like: Array = None) -> Array:
    """mean + scale · N(0, 1)."""
    shape, dtype = _asked(call, like)
    drawn = jax.random.normal(call.key(), shape, _at_least_float32(dtype))
    return (call.attribute("mean", 0.0) + call.attribute("scale", 1.0) * drawn).astype(dtype)


@onnx_operator("RandomUniform", "RandomUniformLike")
def uniform(call: Call, like: Array = None) -> Array:
    """From `low` to `high`."""
    shape, dtype = _asked(call, like)
    low, high = call.attribute("low", 0.0), call.attribute("high", 1.0)
    return (low + (high - low) * jax.random.uniform(call.key(), shape, _at_least_float32(dtype))).astype(dtype)


@onnx_operator("Bernoulli")
def bernoulli(call: Call, p: Array) -> Array:
    """1 with probability p, else 0."""
    code, p = call.attribute("dtype"), jnp.asarray(p)
    drawn = jax.random.uniform(call.key(), p.shape, _at_least_float32(p.dtype)) < p
    return drawn.astype(p.dtype if code is None else dtype_of(code))


@onnx_operator("Multinomial")
def multinomial(call: Call, logits: Array) -> Array:
    """Classes drawn by their logarithmic probabilities, which need not be normalised: (N, C) → (N, samples)."""
    if np.ndim(logits) != 2:
        raise ShapeError(f"expected logarithms of probabilities (N, C). Received shape {np.shape(logits)}")
    logits = jnp.asarray(logits)
    shape = (logits.shape[0], call.attribute("sample_size", 1))
    wide = logits.astype(_at_least_float32(logits.dtype))[:, None]
    return jax.random.categorical(call.key(), wide, shape=shape).astype(dtype_of(call.attribute("dtype", 6)))


def _asked(call: Call, like: Array) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype: those of `like` where the attributes do not say."""
    code = call.attribute("dtype")
    if like is None:
        return tuple(call.attribute("shape")), dtype_of(1 if code is None else code)
    return np.shape(like), np.dtype(like.dtype) if code is None else dtype_of(code)


def _at_least_float32(dtype: Any) -> Any:
    return np.float64 if dtype == np.float64 else np.float32
