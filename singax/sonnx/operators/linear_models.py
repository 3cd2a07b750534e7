"""Linear models and support vector machines of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.errors import ArgumentError, ShapeError
from singax.sonnx.operators.scores import DOMAIN, labelled, labels_of, matrix, transform_of, transformed, two_sided
from singax.sonnx.registry import Call, onnx_operator

Array = Any

_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_MOST_STEPS = 100


def _floats(call: Call, name: str) -> np.ndarray:
    return np.asarray(call.attribute(name) or [], np.float32)


def _table(values: np.ndarray, height: int, name: str) -> np.ndarray:
    if not values.size or values.size % max(height, 1):
        raise ArgumentError(f"expected a multiple of {height} entries in {name}. Received: {values.size}")
    return values.reshape(height, -1)


def _product(x: Array, weights: np.ndarray) -> Array:
    if x.shape[1] != weights.shape[1]:
        raise ShapeError(f"expected {weights.shape[1]} features. Received shape {x.shape}")
    return x @ weights.T


@onnx_operator("LinearRegressor", domain=DOMAIN)
def linear_regressor(call: Call, x: Array) -> Array:
    """x Wᵀ + intercepts."""
    targets, bias = call.attribute("targets", 1), _floats(call, "intercepts")
    scores = _product(matrix(x), _table(_floats(call, "coefficients"), targets, "coefficients"))
    return transformed(scores + bias if bias.size else scores, transform_of(call))


@onnx_operator("LinearClassifier", domain=DOMAIN)
def linear_classifier(call: Call, x: Array) -> tuple[Array, Array]:
    """The label of the largest of the scores x Wᵀ + intercepts, and these, transformed."""
    (labels, strings), bias = labels_of(call, "classlabels_ints"), _floats(call, "intercepts")
    name, x = transform_of(call), matrix(x)
    weights = _floats(call, "coefficients")
    count = bias.size or max(weights.size // max(x.shape[1], 1), 1)
    scores = _product(x, _table(weights, count, "coefficients")) + (bias if bias.size else 0)
    if count > 1:
        return labelled(x, jnp.argmax(scores, axis=1), labels, strings), transformed(scores, name)
    pair = labels if len(labels) == 2 else ["0", "1"] if strings else [0, 1]
    places = (scores[:, 0] > 0).astype(np.int64)
    both = two_sided(scores[:, 0], name, True) if len(labels) == 2 else transformed(scores, name)
    return labelled(x, places, pair, strings), both


def _kernel(call: Call, x: Array, vectors: np.ndarray) -> Array:
    """The kernel, not a linear one, between the rows of x and the vectors: (N, vectors)."""
    kind = call.attribute("kernel_type", "LINEAR")
    gamma, coef, degree = (*(call.attribute("kernel_params") or []), 0.0, 0.0, 0.0)[:3]
    if kind not in _KERNELS:
        raise ArgumentError(f"expected a kernel_type among {', '.join(_KERNELS)}. Received: {kind!r}")
    products = _product(x, vectors)
    if kind == "RBF":
        return jnp.exp(-gamma * jnp.sum(jnp.square(x[:, None] - vectors), axis=2))
    bent = gamma * products + coef
    return jnp.tanh(bent) if kind == "SIGMOID" else bent**degree


def _weighted(call: Call, x: Array, vectors: np.ndarray, weights: np.ndarray) -> Array:
    """Σ weight · kernel(x, vector) over the vectors: (N, columns of the weights).

    For a linear kernel the vectors are added up beforehand, in float64: the sum over thousands of them cancels.
    """
    if len(vectors) != len(weights):
        raise ArgumentError(f"expected {len(vectors)} coefficients. Received: {len(weights)}")
    if call.attribute("kernel_type", "LINEAR") != "LINEAR":
        return _kernel(call, x, vectors) @ weights
    return _product(x, (weights.astype(np.float64).T @ vectors.astype(np.float64)).astype(np.float32))


@onnx_operator("SVMRegressor", domain=DOMAIN)
def svm_regressor(call: Call, x: Array) -> Array:
    """Σ coefficient · kernel(x, support vector) + rho; as ±1 for a model of one class."""
    supports, weights, rho = call.attribute("n_supports", 0), _floats(call, "coefficients"), _floats(call, "rho")
    x = matrix(x)
    if supports:
        vectors = _table(_floats(call, "support_vectors"), supports, "support_vectors")
        scores = _weighted(call, x, vectors, weights.reshape(-1, 1)) + rho[0]
    else:
        scores = _product(x, weights.reshape(1, -1)) + rho[0]
    if call.attribute("one_class", 0):
        return jnp.where(scores > 0, 1, -1).astype(np.float32)
    return transformed(scores, transform_of(call))


@onnx_operator("SVMClassifier", domain=DOMAIN)
def svm_classifier(call: Call, x: Array) -> tuple[Array, Array]:
    """The label with the most votes of the pairs of classes, and probabilities or the scores of the pairs."""
    labels, strings = labels_of(call, "classlabels_ints")
    x, name, sizes = matrix(x), transform_of(call), np.asarray(call.attribute("vectors_per_class") or [], np.int64)
    if not sizes.sum():
        weights = _table(_floats(call, "coefficients"), len(labels), "coefficients")
        scores = _product(x, weights) + _floats(call, "rho")[0]
        return labelled(x, jnp.argmax(scores, axis=1), labels, strings), transformed(scores, name)
    scores = _pairs(call, x, sizes)
    places = jnp.argmax(_votes(scores, len(sizes)), axis=1)
    first, second = _floats(call, "prob_a"), _floats(call, "prob_b")
    if first.size:
        sure = jnp.clip(jax.nn.sigmoid(-(scores * first + second)), 1e-7, 1 - 1e-7)
        return labelled(x, places, labels, strings), transformed(_coupled(sure, len(sizes)), name)
    if len(sizes) == 2:
        positive = bool((_floats(call, "coefficients") >= 0).all())
        return labelled(x, places, labels, strings), _of_a_pair(scores[:, 0], name, positive)
    return labelled(x, places, labels, strings), transformed(scores, name)


def _of_a_pair(score: Array, name: str, positive: bool) -> Array:
    return two_sided(score, name, name != "NONE") if name != "LOGISTIC" else two_sided(score, name, positive)


def _pairs(call: Call, x: Array, sizes: np.ndarray) -> Array:
    """The scores of all pairs of classes: (N, pairs). Each pair uses the support vectors of its two classes."""
    count, total = len(sizes), int(sizes.sum())
    vectors = _table(_floats(call, "support_vectors"), total, "support_vectors")
    weights = _table(_floats(call, "coefficients"), count - 1, "coefficients")
    if weights.shape[1] != total:
        raise ArgumentError(f"expected {count - 1} × {total} coefficients. Received: {weights.size}")
    owner, columns = np.repeat(np.arange(count), sizes), []
    for i in range(count):
        for j in range(i + 1, count):
            columns.append(np.where(owner == i, weights[j - 1], np.where(owner == j, weights[i], 0)))
    return _weighted(call, x, vectors, np.stack(columns, axis=1)) + _floats(call, "rho")[: len(columns)]


def _votes(scores: Array, count: int) -> Array:
    """How many pairs each class wins: (N, classes)."""
    winner, loser = np.triu_indices(count, 1)
    won = (scores > 0).astype(np.int64)
    return won @ np.eye(count, dtype=np.int64)[winner] + (1 - won) @ np.eye(count, dtype=np.int64)[loser]


def _coupled(sure: Array, count: int) -> Array:
    """Probabilities of classes from those of pairs (Wu, Lin and Weng 2004, the second method): (N, classes)."""
    i, j = np.triu_indices(count, 1)
    r = jnp.zeros((sure.shape[0], count, count), sure.dtype).at[:, i, j].set(sure).at[:, j, i].set(1 - sure)
    q = -jnp.swapaxes(r, 1, 2) * r
    diagonal = np.arange(count)
    q = q.at[:, diagonal, diagonal].set(jnp.sum(r * r, axis=1))

    def improved(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        step, p, _ = state
        qp = jnp.einsum("nij,nj->ni", q, p)
        total = jnp.sum(p * qp, axis=1)
        done = jnp.max(jnp.abs(qp - total[:, None]), axis=1) < 0.005 / count
        better = p
        for t in range(count):
            change = (total - qp[:, t]) / q[:, t, t]
            total = (total + change * (change * q[:, t, t] + 2 * qp[:, t])) / (1 + change) ** 2
            qp = (qp + change[:, None] * q[:, t]) / (1 + change)[:, None]
            better = better.at[:, t].add(change) / (1 + change)[:, None]
        return step + 1, jnp.where(done[:, None], p, better), done.all()

    start = jnp.zeros((), np.int32), jnp.full((sure.shape[0], count), 1 / count, sure.dtype), jnp.zeros((), bool)
    most = max(_MOST_STEPS, count)
    return lax.while_loop(lambda state: (state[0] < most) & ~state[2], improved, start)[1]
