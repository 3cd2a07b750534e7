"""Rows of the losses, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from catalogue import TWIN, Row, floats, integers

from singax import layer, ops

Array = np.ndarray


def mean(terms: Array) -> Array:
    """A loss of shape (1,)."""
    return np.asarray([np.mean(terms)])


def log_softmax(x: Array) -> Array:
    """Over the last axis."""
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def softmax_terms(x: Array, t: Array) -> Array:
    """−log softmax(x)_t for ids, −Σ p log softmax(x) for rows of weights."""
    logs = log_softmax(x.astype(np.float64))
    if t.shape == x.shape:
        return -(t / t.sum(-1, keepdims=True) * logs).sum(-1)
    return -np.take_along_axis(logs, t.reshape(*x.shape[:-1], 1).astype(int), -1)[..., 0]


def smoothed(x: Array, t: Array, weights: Array, epsilon: float, ignored: int) -> Array:
    """PyTorch's definition: class weights in the terms, and in what the mean is divided by."""
    logs = log_softmax(x.astype(np.float64))
    total = count = 0.0
    for row, label in zip(logs.reshape(-1, x.shape[-1]), t.ravel(), strict=True):
        if label != ignored:
            total -= (1 - epsilon) * weights[label] * row[label] + epsilon / len(row) * (weights * row).sum()
            count += weights[label]
    return np.asarray([total / count])


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(−x))."""
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def binary_terms(x: Array, t: Array, weight: Any = 1.0, smoothing: float = 0.0) -> Array:
    """Binary cross entropy of logits."""
    t, p = (1 - smoothing) * t + smoothing / 2, sigmoid(x)
    return -(weight * t * np.log(p) + (1 - t) * np.log(1 - p))


def focal(x: Array, t: Array) -> Array:
    """Focal loss with γ = 2 and α = 0.25, for targets of 0 and 1."""
    right = np.where(t == 1, sigmoid(x), 1 - sigmoid(x))
    return mean(-np.where(t == 1, 0.25, 0.75) * (1 - right) ** 2 * np.log(right))


def divergence(x: Array, t: Array) -> Array:
    """Kullback–Leibler, divided by the batch size."""
    return np.asarray([(t * (np.log(t) - x)).sum() / len(x)])


def huber(x: Array, t: Array, delta: float = 1.0) -> Array:
    """Huber's loss of each element."""
    d = np.abs(x - t)
    return np.where(d <= delta, d**2 / 2, delta * (d - delta / 2))


def gaussian(x: Array, t: Array, var: Array) -> Array:
    """Gaussian negative log-likelihood without the constant."""
    return mean((np.log(var) + (x - t) ** 2 / var) / 2)


def cosine(a: Array, b: Array) -> Array:
    """Of the vectors along the last axis."""
    return (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def cosine_embedding(a: Array, b: Array, t: Array) -> Array:
    """With margin 0.1."""
    return mean(np.where(t > 0, 1 - cosine(a, b), np.maximum(0, cosine(a, b) - 0.1)))


def triplet(a: Array, p: Array, n: Array, order: float = 2.0) -> Array:
    """Triplet margin loss with margin 1."""
    near, far = (np.linalg.norm(a - other + 1e-6, ord=order, axis=-1) for other in (p, n))
    return mean(np.maximum(0, 1 + near - far))


def ctc(x: Array, labels: Array) -> Array:
    """By going through all alignments; the mean is that of the losses divided by the number of labels."""
    probabilities = np.exp(log_softmax(x.astype(np.float64)))
    terms = []
    for sample, wanted in zip(probabilities, labels, strict=True):
        total = 0.0
        for path in np.ndindex(*[x.shape[2]] * x.shape[1]):
            merged = [c for k, c in enumerate(path) if c != 0 and (k == 0 or c != path[k - 1])]
            if merged == list(wanted):
                total += np.prod(sample[range(len(path)), path])
        terms.append(-np.log(total) / len(wanted))
    return mean(np.asarray(terms))


def of_layer(reference: Any) -> Any:
    """A reference of a layer without states."""
    return lambda states, *inputs: reference(*inputs)


WEIGHTS = np.asarray([0.5, 1.0, 2.0], np.float32)
SIGNS = integers(4, low=-1, high=2)
X, T = floats(4, 3), floats(4, 3)
IDS, BITS = integers(4), integers(4, 3, high=2)
P, Q = floats(4, 3, low=0.1, high=0.9), floats(4, 3, low=0.2, high=0.8)
SMOOTHED = {"label_smoothing": 0.1, "ignore_index": 1}
PAIR = [[floats(4, 3), floats(4, 2)], [floats(4, 3), floats(3)]]

OPERATIONS = [
    Row("ops.softmax_cross_entropy", lambda: ops.softmax_cross_entropy, [X, IDS],
        lambda x, t: mean(softmax_terms(x, t)),
        rejects=[[X, integers(3)], [X, floats(4, 2)], [floats(3), floats(3)], [floats(), integers()]]),
    Row("ops.softmax_cross_entropy", lambda: ops.softmax_cross_entropy, [floats(2, 4, 3), integers(2, 4, 1)],
        lambda x, t: mean(softmax_terms(x, t)), note="sequence"),
    Row("ops.softmax_cross_entropy", lambda: ops.softmax_cross_entropy, [X, P],
        lambda x, t: mean(softmax_terms(x, t)), note="rows"),
    Row("ops.softmax_cross_entropy", lambda: ops.softmax_cross_entropy, [X, P],
        lambda x, t: softmax_terms(x, 0.8 * t / t.sum(-1, keepdims=True) + 0.2 / 3),
        {"label_smoothing": 0.2, "reduction": "none"}, note="smoothed rows"),
    Row("ops.softmax_cross_entropy", lambda: ops.softmax_cross_entropy, [X, IDS, floats(3, low=0.5)],
        lambda x, t, w: smoothed(x, t, w, 0.1, 1), SMOOTHED, note="all options",
        rejects=[[X, X, floats(3)], [X, IDS, floats(4)]]),
    Row("ops.softmax_cross_entropy", lambda: ops.softmax_cross_entropy, [floats(2, 3, 2, 2), integers(2, 2, 2)],
        lambda x, t: softmax_terms(np.moveaxis(x, 1, -1), t), {"axis": 1, "reduction": "none"}, note="images"),
    Row("ops.softmax_cross_entropy_loss", lambda: ops.softmax_cross_entropy_loss, [X, IDS], TWIN,
        rejects=[[X, P], [floats(4), integers(4)]]),
    Row("ops.softmax_cross_entropy_loss", lambda: ops.softmax_cross_entropy_loss,
        [floats(2, 3, 2), integers(2, 2), floats(3, low=0.5)], TWIN, {"ignore_index": 2}, note="weights"),
    Row("ops.negative_log_likelihood_loss", lambda: ops.negative_log_likelihood_loss, [X, IDS], TWIN,
        {"reduction": "sum"}, rejects=[[X, P]]),
    Row("ops.negative_log_likelihood_loss", lambda: ops.negative_log_likelihood_loss,
        [floats(2, 3, 2), integers(2, 2), floats(3, low=0.5)], TWIN, {"ignore_index": 2}, note="weights"),
    Row("ops.cross_entropy", lambda: ops.cross_entropy, [P, Q],
        lambda x, t: np.asarray([-(t * np.log(x)).sum() / 4]), rejects=PAIR),
    Row("ops.binary_cross_entropy", lambda: ops.binary_cross_entropy, [P, Q],
        lambda x, t: np.asarray([-(t * np.log(x + 1e-4) + (1 - t) * np.log(1 - x + 1e-4)).sum() / 4]), rejects=PAIR),
    Row("ops.binary_cross_entropy_with_logits", lambda: ops.binary_cross_entropy_with_logits, [X, Q],
        lambda x, t: mean(binary_terms(x, t)), rejects=PAIR),
    Row("ops.binary_cross_entropy_with_logits", lambda: ops.binary_cross_entropy_with_logits,
        [X, BITS, floats(3, low=0.5)], lambda x, t, w: binary_terms(x, t, w, 0.1),
        {"label_smoothing": 0.1, "reduction": "none"}, note="weighted", rejects=[[X, BITS, floats(4)]]),
    Row("ops.sigmoid_focal_loss", lambda: ops.sigmoid_focal_loss, [X, BITS], focal, rejects=PAIR),
    Row("ops.kl_divergence", lambda: ops.kl_divergence, [X, P], divergence, rejects=PAIR),
    Row("ops.kl_divergence", lambda: ops.kl_divergence, [X, T], lambda x, t: mean(np.exp(t) * (t - x)),
        {"log_target": True, "reduction": "mean"}, note="logarithms"),
    Row("ops.ctc_loss", lambda: ops.ctc_loss, [floats(2, 4, 3), integers(2, 2, low=1)], ctc,
        rejects=[[floats(2, 4), integers(2, 2)], [floats(2, 4, 3), integers(3, 2)],
                 [floats(2, 4, 3), integers(2, 2, low=1), integers(3)]]),
    Row("ops.mse_loss", lambda: ops.mse_loss, [X, T], lambda x, t: mean((x - t) ** 2), rejects=PAIR),
    Row("ops.l1_loss", lambda: ops.l1_loss, [X, T], lambda x, t: mean(np.abs(x - t)), rejects=PAIR),
    Row("ops.huber_loss", lambda: ops.huber_loss, [X, T], lambda x, t: mean(huber(x, t, 0.7)), {"delta": 0.7},
        rejects=PAIR),
    Row("ops.smooth_l1_loss", lambda: ops.smooth_l1_loss, [X, T], lambda x, t: huber(x, t, 0.7) / 0.7,
        {"beta": 0.7, "reduction": "none"}, rejects=PAIR),
    Row("ops.gaussian_nll_loss", lambda: ops.gaussian_nll_loss, [X, T, floats(4, 1, low=0.5)], gaussian,
        rejects=[[X, T, floats(2)]]),
    Row("ops.poisson_nll_loss", lambda: ops.poisson_nll_loss, [X, BITS], lambda x, t: mean(np.exp(x) - t * x),
        rejects=PAIR),
    Row("ops.ranking_loss", lambda: ops.ranking_loss, [X, T], lambda a, b: mean(np.maximum(0, 0.2 - a + b)),
        rejects=PAIR),
    Row("ops.margin_ranking_loss", lambda: ops.margin_ranking_loss, [floats(4), floats(4), SIGNS],
        lambda a, b, t: mean(np.maximum(0, 0.5 - t * (a - b))), {"margin": 0.5},
        rejects=[[floats(4), floats(4), floats(3)]]),
    Row("ops.hinge_loss", lambda: ops.hinge_loss, [floats(4), SIGNS], lambda x, t: mean(np.maximum(0, 1 - t * x) ** 2),
        {"squared": True}, rejects=PAIR),
    Row("ops.cosine_similarity_loss", lambda: ops.cosine_similarity_loss, [X, T], lambda a, b: 1 - cosine(a.T, b.T),
        {"axis": 0, "reduction": "none"}, rejects=PAIR),
    Row("ops.cosine_embedding_loss", lambda: ops.cosine_embedding_loss, [X, T, SIGNS], cosine_embedding,
        {"margin": 0.1}, rejects=[[X, T, floats(4, 3)]]),
    Row("ops.triplet_margin_loss", lambda: ops.triplet_margin_loss, [X, T, P], triplet, rejects=[[X, T, floats(4, 2)]]),
    Row("ops.triplet_margin_loss", lambda: ops.triplet_margin_loss, [X, T, P], lambda a, p, n: triplet(a, p, n, 3.0),
        {"p": 3.0}, note="p=3"),
]  # fmt: skip

LAYERS = [
    Row("layer.SoftMaxCrossEntropy", layer.SoftMaxCrossEntropy, [X, IDS],
        of_layer(lambda x, t: mean(softmax_terms(x, t))), rejects=[[X, integers(3)]]),
    Row("layer.SoftMaxCrossEntropy", lambda: layer.SoftMaxCrossEntropy(weights=WEIGHTS, **SMOOTHED), [X, IDS],
        of_layer(lambda x, t: smoothed(x, t, WEIGHTS, 0.1, 1)), note="all options", rejects=[[X, P]]),
    Row("layer.CrossEntropy", layer.CrossEntropy, [P, Q],
        of_layer(lambda x, t: np.asarray([-(t * np.log(x)).sum() / 4])), rejects=PAIR),
    Row("layer.BinaryCrossEntropy", lambda: layer.BinaryCrossEntropy("none"), [P, Q],
        of_layer(lambda x, t: -(t * np.log(x + 1e-4) + (1 - t) * np.log(1 - x + 1e-4))), rejects=PAIR),
    Row("layer.BinaryCrossEntropyWithLogits", lambda: layer.BinaryCrossEntropyWithLogits(pos_weight=3), [X, BITS],
        of_layer(lambda x, t: mean(binary_terms(x, t, 3.0))), rejects=PAIR),
    Row("layer.FocalLoss", layer.FocalLoss, [X, BITS], of_layer(focal), rejects=PAIR),
    Row("layer.KLDivergence", layer.KLDivergence, [X, P], of_layer(divergence), rejects=PAIR),
    Row("layer.CTCLoss", layer.CTCLoss, [floats(2, 4, 3), integers(2, 2, low=1)], of_layer(ctc), rejects=PAIR),
    Row("layer.MeanSquareError", layer.MeanSquareError, [X, T], of_layer(lambda x, t: mean((x - t) ** 2)),
        rejects=PAIR),
    Row("layer.MeanAbsoluteError", layer.MeanAbsoluteError, [X, T], of_layer(lambda x, t: mean(np.abs(x - t))),
        rejects=PAIR),
    Row("layer.Huber", layer.Huber, [X, T], of_layer(lambda x, t: mean(huber(x, t))), rejects=PAIR),
    Row("layer.SmoothL1", lambda: layer.SmoothL1(0.5), [X, T], of_layer(lambda x, t: mean(huber(x, t, 0.5) / 0.5)),
        rejects=PAIR),
    Row("layer.GaussianNLL", layer.GaussianNLL, [X, T, floats(4, 3, low=0.5)], of_layer(gaussian),
        rejects=[[X, T, floats(2)]]),
    Row("layer.PoissonNLL", lambda: layer.PoissonNLL(log_input=False), [P, BITS],
        of_layer(lambda x, t: mean(x - t * np.log(x + 1e-8))), rejects=PAIR),
    Row("layer.RankingLoss", layer.RankingLoss, [X, T], of_layer(lambda a, b: mean(np.maximum(0, 0.2 - a + b))),
        rejects=PAIR),
    Row("layer.MarginRankingLoss", layer.MarginRankingLoss, [floats(4), floats(4), SIGNS],
        of_layer(lambda a, b, t: mean(np.maximum(0, -t * (a - b)))), rejects=[[floats(4), floats(4), floats(3)]]),
    Row("layer.HingeLoss", layer.HingeLoss, [floats(4), SIGNS], of_layer(lambda x, t: mean(np.maximum(0, 1 - t * x))),
        rejects=PAIR),
    Row("layer.CosineSimilarityLoss", layer.CosineSimilarityLoss, [X, T], of_layer(lambda a, b: mean(1 - cosine(a, b))),
        rejects=PAIR),
    Row("layer.CosineEmbeddingLoss", lambda: layer.CosineEmbeddingLoss(0.1), [X, T, SIGNS], of_layer(cosine_embedding),
        rejects=[[X, T, floats(4, 3)]]),
    Row("layer.TripletLoss", layer.TripletLoss, [X, T, P], of_layer(triplet), rejects=[[X, T, floats(4, 2)]]),
]  # fmt: skip

ROWS = OPERATIONS + LAYERS
