"""What ai.onnx.ml does with scores: transforms of them, and the labels of classes.

Where the standard is silent, this follows onnxruntime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, ShapeError
from singax.mode import traced
from singax.sonnx.registry import Call, NeedsHost

Array = Any

DOMAIN = "ai.onnx.ml"


def rows(x: Array) -> Array:
    """x as a matrix of floats (N, F); a vector is one row."""
    x = jnp.asarray(x)
    x = x.reshape(1, -1) if x.ndim == 1 else x
    if x.ndim != 2:
        raise ShapeError(f"expected a matrix (N, F). Received shape {x.shape}")
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(np.float32)


def matrix(x: Array) -> Array:
    """x as a matrix of float32."""
    return rows(x).astype(np.float32)


def _softmax_zero(scores: Array) -> Array:
    """Softmax where scores near 0 stay near 0."""
    high = jnp.max(scores, axis=1, keepdims=True)
    raised = jnp.where(jnp.abs(scores) > 1e-7, jnp.exp(scores - high), scores * jnp.exp(-high))
    total = jnp.sum(raised, axis=1, keepdims=True)
    return jnp.where(total == 0, 0.5, raised / total)


def _probit(scores: Array) -> Array:
    """The quantile function of N(0, 1), by Winitzki's approximation of the inverse of erf."""
    x = 2 * scores - 1
    log = jnp.log((1 - x) * (1 + x))
    half = 2 / (math.pi * 0.147) + log / 2
    return math.sqrt(2) * jnp.sign(x) * jnp.sqrt(jnp.sqrt(half * half - log / 0.147) - half)


_TRANSFORMS: dict[str, Callable[[Array], Array]] = {
    "NONE": lambda scores: scores,
    "SOFTMAX": lambda scores: jax.nn.softmax(scores, axis=1),
    "LOGISTIC": jax.nn.sigmoid,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}
TRANSFORMS = tuple(_TRANSFORMS)


def transform_of(call: Call) -> str:
    """The name of the node's transform."""
    given = call.attribute("post_transform", "NONE")
    name = TRANSFORMS[given] if isinstance(given, int) and 0 <= given < len(TRANSFORMS) else given
    if name not in _TRANSFORMS:
        raise ArgumentError(f"expected a post_transform among {', '.join(TRANSFORMS)}. Received: {given!r}")
    return name


def transformed(scores: Array, name: str) -> Array:
    """Scores (N, K) after a transform; a single column is only changed by PROBIT."""
    return scores if scores.shape[1] == 1 and name != "PROBIT" else _TRANSFORMS[name](scores)


def two_sided(score: Array, name: str, complement: bool) -> Array:
    """The scores (N, 2) of two classes from that of one (N,): 1 − s and s if `complement`, else −s and s."""
    if name == "LOGISTIC":
        return jax.nn.sigmoid(jnp.stack([-score, score], axis=1))
    return jnp.stack([1 - score if complement else -score, score], axis=1)


def labels_of(call: Call, numbers: str) -> tuple[list[Any], bool]:
    """The labels of the node's classes, and whether they are strings."""
    strings = call.attribute("classlabels_strings")
    return (list(strings), True) if strings else (list(call.attribute(numbers) or []), False)


def computed_on_host(x: Array, why: str) -> None:
    """Raises `NeedsHost` while x is being traced."""
    if traced(x):
        raise NeedsHost(why)


def labelled(x: Array, places: Array, labels: Sequence[Any], strings: bool) -> Array:
    """The labels at these places; strings only where x and the places have numbers."""
    if not strings:
        return jnp.asarray(np.asarray(labels, np.int64))[places]
    computed_on_host(x, "the labels are strings")
    computed_on_host(places, "the labels are strings")
    return np.asarray(labels, object)[np.asarray(places)]
