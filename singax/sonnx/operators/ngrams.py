"""TfIdfVectorizer: how often each of a list of n-grams stands in a sequence of integers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError
from singax.sonnx.operators.geometry import affordable
from singax.sonnx.registry import Call, NeedsHost, onnx_operator

Array = Any


@onnx_operator("TfIdfVectorizer")
def tf_idf(call: Call, x: Array) -> Array:
    """Counts of n-grams, of each row of x if it has two axes; as they are, cut to 1 and weighted, or weighted.

    The entries of an n-gram may stand apart, with up to `max_skip_count` others between each two.
    """
    if call.attribute("pool_strings") is not None:
        raise NeedsHost("strings are counted on the host")
    places = np.asarray(call.attribute("ngram_indexes"), np.int64)
    counts = jnp.concatenate([_found(call, x, n, grams) for n, grams in _pool(call)], -1)
    scaled = _weighted(call, counts.astype(np.float32))
    empty = jnp.zeros((*np.shape(x)[:-1], int(places.max(initial=-1)) + 1), np.float32)
    return empty.at[..., places].add(scaled)


def _weighted(call: Call, counts: Array) -> Array:
    mode, weights = call.attribute("mode"), call.attribute("weights")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ArgumentError(f"expected a mode among TF, IDF, TFIDF. Received: {mode!r}")
    counts = jnp.minimum(counts, 1) if mode == "IDF" else counts
    if mode == "TF" or not weights:
        return counts
    if len(weights) != counts.shape[-1]:
        raise ArgumentError(f"expected {counts.shape[-1]} weights. Received: {len(weights)}")
    return counts * np.asarray(weights, np.float32)


def _pool(call: Call) -> list[tuple[int, np.ndarray]]:
    """(n, n-grams (count, n)) for n = 1, 2 …: the pool has all of one length after another."""
    values, starts = np.asarray(call.attribute("pool_int64s"), np.int64), list(call.attribute("ngram_counts"))
    parts = zip(starts, [*starts[1:], len(values)], strict=True)
    return [(n, values[first:last].reshape(-1, n)) for n, (first, last) in enumerate(parts, 1)]


def _found(call: Call, x: Array, n: int, grams: np.ndarray) -> Array:
    """How often each of these n-grams is found: (…, count)."""
    x, length = jnp.asarray(x).astype(np.int64), np.shape(x)[-1]
    total = jnp.zeros((*np.shape(x)[:-1], len(grams)), np.int64)
    if not call.attribute("min_gram_length") <= n <= call.attribute("max_gram_length"):
        return total
    for step in range(1, 2 if n == 1 else call.attribute("max_skip_count") + 2):
        starts = np.arange(max(length - (n - 1) * step, 0))
        affordable("all comparisons", (*total.shape, len(starts), n))
        windows = x[..., starts[:, None] + np.arange(n) * step]
        total += jnp.all(windows[..., None, :] == grams, -1).sum(-2)
    return total
