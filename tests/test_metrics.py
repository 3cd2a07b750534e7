"""Metrics against scikit-learn; exact sums; no host synchronisation; where a metric may be updated."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics as sk

import singax as sx
from singax import metric
from singax.errors import ArgumentError, DTypeError, ShapeError, SingaxError, StateError, TracedValueError
from singax.metric.sums import plus, total

RNG = np.random.default_rng(0)
SCORES = [RNG.normal(size=(16, 4)).astype(np.float32) for _ in range(3)]
IDS = [RNG.integers(0, 4, 16) for _ in range(3)]
WEIGHTS = [RNG.uniform(0.5, 2, 16).astype(np.float32) for _ in range(3)]
ALL_SCORES, ALL_IDS, ALL_WEIGHTS = map(np.concatenate, (SCORES, IDS, WEIGHTS))
FOUND = ALL_SCORES.argmax(1)
PROBABILITIES = [np.round(RNG.uniform(0, 1, 16) * 8).astype(np.float32) / 8 for _ in range(3)]
BITS = [RNG.integers(0, 2, 16) for _ in range(3)]
ALL_PROBABILITIES, ALL_BITS = map(np.concatenate, (PROBABILITIES, BITS))


def fed(made: metric.Metric, outs: Any = SCORES, ys: Any = IDS, weights: Any = None) -> metric.Metric:
    """The metric after three batches."""
    for k in range(3):
        made.update(outs[k], ys[k], weight=None if weights is None else weights[k])
    return made


def average(kind: str | None) -> dict[str, Any]:
    """Arguments of scikit-learn for four classes."""
    return {"average": kind, "labels": range(4), "zero_division": 0}


CASES: list[tuple[Callable[[], metric.Metric], Callable[[Any], Any]]] = [
    (metric.Accuracy, lambda w: sk.accuracy_score(ALL_IDS, FOUND, sample_weight=w)),
    (lambda: metric.TopKAccuracy(2), lambda w: sk.top_k_accuracy_score(ALL_IDS, ALL_SCORES, k=2, sample_weight=w)),
    (lambda: metric.ConfusionMatrix(4), lambda w: sk.confusion_matrix(ALL_IDS, FOUND, sample_weight=w)),
    (
        lambda: metric.ConfusionMatrix(4, normalize="true"),
        lambda w: sk.confusion_matrix(ALL_IDS, FOUND, sample_weight=w, normalize="true"),
    ),
    (
        lambda: metric.ConfusionMatrix(4, normalize="all"),
        lambda w: sk.confusion_matrix(ALL_IDS, FOUND, sample_weight=w, normalize="all"),
    ),
    (
        lambda: metric.Precision(4, "macro"),
        lambda w: sk.precision_score(ALL_IDS, FOUND, sample_weight=w, **average("macro")),
    ),
    (lambda: metric.Recall(4, None), lambda w: sk.recall_score(ALL_IDS, FOUND, sample_weight=w, **average(None))),
    (
        lambda: metric.F1(4, "weighted"),
        lambda w: sk.f1_score(ALL_IDS, FOUND, sample_weight=w, **average("weighted")),
    ),
    (lambda: metric.F1(4, "micro"), lambda w: sk.f1_score(ALL_IDS, FOUND, sample_weight=w, **average("micro"))),
]


@pytest.mark.parametrize("index", range(len(CASES)))
def test_equal_to_scikit_learn(index: int) -> None:
    make, reference = CASES[index]
    np.testing.assert_allclose(fed(make()).compute(), reference(None), rtol=1e-12)
    np.testing.assert_allclose(fed(make(), weights=WEIGHTS).compute(), reference(ALL_WEIGHTS), rtol=1e-6)
    made = make()
    state = made.init()
    for k in range(3):
        state = made.step(state, SCORES[k], IDS[k])
    np.testing.assert_allclose(made.read(state), reference(None), rtol=1e-6)


BINARY = [
    (lambda: metric.Accuracy(threshold=0.5), lambda t, p: sk.accuracy_score(t, p > 0.5)),
    (lambda: metric.Precision(threshold=0.5), lambda t, p: sk.precision_score(t, p > 0.5)),
    (lambda: metric.Recall(threshold=0.5), lambda t, p: sk.recall_score(t, p > 0.5)),
    (lambda: metric.F1(threshold=0.5), lambda t, p: sk.f1_score(t, p > 0.5)),
    (lambda: metric.AUC(bins=8), sk.roc_auc_score),
    (metric.AUC, sk.roc_auc_score),
]


@pytest.mark.parametrize("index", range(len(BINARY)))
def test_binary_metrics_equal_scikit_learn(index: int) -> None:
    """Scores are multiples of 1/8, with many ties, so that the area is exact."""
    make, reference = BINARY[index]
    assert float(fed(make(), PROBABILITIES, BITS)) == pytest.approx(reference(ALL_BITS, ALL_PROBABILITIES), rel=1e-12)
    column = [p[:, None] for p in PROBABILITIES]
    assert float(fed(make(), column, BITS)) == pytest.approx(reference(ALL_BITS, ALL_PROBABILITIES), rel=1e-12)


def test_area_of_logits_weights_and_two_columns() -> None:
    logits = RNG.normal(size=200).astype(np.float32)
    bits, weights = RNG.integers(0, 2, 200), RNG.uniform(0.5, 2, 200)
    made = metric.AUC(bins=1 << 16, from_logits=True)
    made.update(logits, bits, weight=weights)
    assert float(made) == pytest.approx(sk.roc_auc_score(bits, logits, sample_weight=weights), abs=2e-4)
    two = metric.AUC(bins=1 << 16, from_logits=True)
    two.update(np.stack([-logits / 2, logits / 2], axis=1), bits[:, None], weight=weights)
    assert float(two) == pytest.approx(float(made), abs=1e-6)
    probabilities = metric.AUC(bins=1 << 16)
    probabilities.update(np.stack([1 - logits, 1 / (1 + np.exp(-logits))], axis=1), bits, weight=weights)
    assert float(probabilities) == pytest.approx(float(made), abs=1e-6)


def test_area_refuses_to_guess() -> None:
    """Scores outside of 0 … 1, and samples of one class only, have no area."""
    made = metric.AUC()
    made.update(np.array([0.2, 1.5]), np.array([0, 1]))
    assert np.isnan(float(made))
    made.reset()
    made.update(np.array([0.2, 0.5]), np.array([1, 1]))
    assert np.isnan(float(made))
    made.update(np.array([0.5, 0.1]), np.array([0, 0]))
    assert float(made) == pytest.approx(sk.roc_auc_score([1, 1, 0, 0], [0.2, 0.5, 0.5, 0.1]))


def test_area_differs_by_no_more_than_its_bound() -> None:
    scores, bits = RNG.uniform(0, 1, 300).astype(np.float32), RNG.integers(0, 2, 300)
    made = metric.AUC(bins=16)
    made.update(scores, bits)
    place = (scores * 16).astype(int)
    shared = np.bincount(place, bits == 1) @ np.bincount(place, bits == 0) / (bits.sum() * (1 - bits).sum())
    assert abs(float(made) - sk.roc_auc_score(bits, scores)) <= shared / 2


def test_targets_may_be_one_hot_columns_floats_or_predictions_ids() -> None:
    expected = sk.accuracy_score(ALL_IDS, FOUND)
    one_hot = [np.eye(4, dtype=np.float32)[ids] for ids in IDS]
    for ys in (one_hot, [ids[:, None] for ids in IDS], [ids.astype(np.float32) for ids in IDS]):
        assert float(fed(metric.Accuracy(), ys=ys)) == expected
    assert float(fed(metric.Accuracy(), [s.argmax(1) for s in SCORES])) == expected
    images = [np.moveaxis(s.reshape(4, 2, 2, 4), -1, 1) for s in SCORES]
    assert float(fed(metric.Accuracy(axis=1), images, [ids.reshape(4, 2, 2) for ids in IDS])) == expected
    tensors = [sx.from_numpy(s) for s in SCORES]
    assert float(fed(metric.Accuracy(), tensors, [sx.from_numpy(ids) for ids in IDS])) == expected


def test_ignored_samples_do_not_count() -> None:
    ids = ALL_IDS.copy()
    ids[::3] = -1
    keep = ids >= 0
    for make in (metric.Accuracy, lambda **k: metric.ConfusionMatrix(4, **k), lambda **k: metric.TopKAccuracy(2, **k)):
        ignoring, plain = make(ignore_index=-1), make()
        ignoring.update(ALL_SCORES, ids)
        plain.update(ALL_SCORES[keep], ids[keep])
        np.testing.assert_array_equal(ignoring.compute(), plain.compute())
    made = metric.AUC(bins=8, ignore_index=9)
    made.update(ALL_PROBABILITIES, np.where(keep, ALL_BITS, 9))
    assert float(made) == pytest.approx(sk.roc_auc_score(ALL_BITS[keep], ALL_PROBABILITIES[keep]))


def test_ids_outside_count_as_wrong_or_nowhere() -> None:
    scores = np.eye(3, dtype=np.float32)
    accuracy, top, matrix = metric.Accuracy(), metric.TopKAccuracy(3), metric.ConfusionMatrix(3)
    for made in (accuracy, top, matrix):
        made.update(scores, np.array([0, 7, -2]))
    assert float(accuracy) == float(top) == pytest.approx(1 / 3)
    np.testing.assert_array_equal(matrix.compute(), [[1, 0, 0], [0, 0, 0], [0, 0, 0]])


def test_top_one_is_accuracy_with_ties_and_nan() -> None:
    scores = np.array([[1, 1, 0], [0, 2, 2], [np.nan, 1, 0], [np.nan, 1, 0], [3, 3, 3]], np.float32)
    ids = np.array([1, 1, 1, 0, 2])
    accuracy, top = metric.Accuracy(), metric.TopKAccuracy(1)
    accuracy.update(scores, ids)
    top.update(scores, ids)
    assert float(accuracy) == float(top) == 2 / 5


def test_means() -> None:
    a, b = RNG.normal(size=(5, 3)).astype(np.float32), RNG.normal(size=(5, 3)).astype(np.float32)
    weights = np.arange(1.0, 6.0, dtype=np.float32)
    for made, reference in (
        (metric.MeanSquaredError(), sk.mean_squared_error),
        (metric.MeanSquaredError(root=True), lambda *a, **k: np.sqrt(sk.mean_squared_error(*a, **k))),
        (metric.MeanAbsoluteError(), sk.mean_absolute_error),
    ):
        made.update(a, b)
        assert float(made) == pytest.approx(reference(b, a), rel=1e-6)
        made.reset()
        made.update(a, b, weight=weights)
        assert float(made) == pytest.approx(reference(b, a, sample_weight=weights), rel=1e-6)
    mean = metric.Mean()
    mean.update(jnp.asarray([2.0], jnp.bfloat16), weight=3)
    mean.update(5, weight=1)
    assert float(mean) == 11 / 4
    assert np.isnan(float(metric.Mean()))


def test_sums_stay_exact_beyond_two_to_the_24() -> None:
    """In float32 alone 2²⁴ + 1 is 2²⁴; and a mean of many equal numbers would drift."""
    pair = jnp.asarray([2.0**24, 0], jnp.float32)
    step = jax.jit(lambda p: jax.lax.fori_loop(0, 1001, lambda _, q: plus(q, jnp.int32(1)), p))
    assert total(step(pair), 64) == 2**24 + 1001
    assert total(plus(pair, jnp.int32(2**24 + 1)), 64) == 2**25 + 1
    tenths = jax.jit(lambda p: jax.lax.fori_loop(0, 100_000, lambda _, q: plus(q, jnp.float32(0.1)), p))
    assert total(tenths(jnp.zeros(2)), 64) == pytest.approx(1e5 * float(np.float32(0.1)), rel=1e-12)
    made = metric.ConfusionMatrix(2)
    made.counts.copy_from_numpy(np.stack([np.full((2, 2), 2.0**24), np.ones((2, 2))]))
    made.update(np.array([0]), np.array([1]))
    np.testing.assert_array_equal(made.compute(), [[2**24 + 1, 2**24 + 1], [2**24 + 2, 2**24 + 1]])


def test_updates_compile_once_and_stay_on_the_device() -> None:
    made = metric.Accuracy()
    out, y = jnp.asarray(SCORES[0]), jnp.asarray(IDS[0], jnp.int32)
    made.update(out, y)
    with jax.transfer_guard("disallow"):
        for _ in range(3):
            made.update(out, y)
    assert len(made._cache) == 1
    assert next(iter(made._cache.values()))._cache_size() == 1
    assert float(made) == pytest.approx(sk.accuracy_score(IDS[0], SCORES[0].argmax(1)))
    mean = metric.Mean()
    for number in (1.0, 2.0, 3):
        mean.update(number)
    assert len(mean._cache) == 1


def test_pure_functions_in_a_loop_and_merged() -> None:
    made = metric.F1(4, "macro")

    @jax.jit
    def run(outs: Any, ys: Any) -> Any:
        def step(state: Any, batch: Any) -> Any:
            return made.step(state, *batch), None

        return jax.lax.scan(step, made.init(), (outs, ys))[0]

    outs, ys = jnp.stack(SCORES), jnp.asarray(np.stack(IDS))
    state = run(outs, ys)
    expected = float(fed(metric.F1(4, "macro")))
    assert float(made.read(state)) == pytest.approx(expected, rel=1e-6)
    parts = made.merge(run(outs[:1], ys[:1]), run(outs[1:], ys[1:]))
    assert float(jax.jit(made.read)(parts)) == pytest.approx(expected, rel=1e-6)
    assert not made.compute().any(), "the instance itself is untouched"


class Net(sx.Module):
    """A classifier that counts while it trains."""

    def __init__(self, counter: metric.Metric | None = None) -> None:
        super().__init__()
        self.fc, self.loss, self.optimizer = sx.layer.Linear(4), sx.layer.SoftMaxCrossEntropy(), sx.opt.SGD(lr=0.1)
        self.accuracy, self.mean = metric.Accuracy(), metric.Mean()
        object.__setattr__(self, "find", lambda: counter or self.accuracy)

    def forward(self, x: Any) -> Any:
        return self.fc(x)

    def train_one_batch(self, x: Any, y: Any, read: bool = False) -> Any:
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        self.find().update(out, y)
        self.mean.update(loss, weight=x.shape[0])
        if read:
            self.accuracy.compute()
        return out, loss


@pytest.mark.parametrize("graph", [True, False])
def test_a_model_counts_in_its_step(graph: bool) -> None:
    net = Net()
    net.compile([sx.Placeholder((16, 4))], use_graph=graph)
    right, losses = 0, []
    for out, y in zip(SCORES, IDS, strict=True):
        found, loss = net(out, y)
        right += int((found.to_numpy().argmax(1) == y).sum())
        losses.append(float(loss))
    assert float(net.accuracy) == right / 48
    assert float(net.mean) == pytest.approx(np.mean(losses), rel=1e-6)
    assert len(net.compilations) == int(graph)
    assert {"accuracy.right", "accuracy.count", "mean.total", "mean.count"} <= set(net.get_states())
    assert not {"accuracy.right"} & set(net.get_params())
    net.accuracy.reset()
    net(SCORES[0], IDS[0])
    assert net.accuracy.count.to_numpy().tolist() == [16, 0]
    assert len(net.compilations) == int(graph)


def test_a_model_counts_in_its_forward_and_starts_afresh_as_pure_functions() -> None:
    class Scored(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.metrics = sx.layer.Linear(4), [metric.Accuracy()]

        def forward(self, x: Any, y: Any) -> Any:
            out = self.fc(x)
            self.metrics[0].update(out, y)
            return out

    net = Scored()
    net.compile([sx.Placeholder((16, 4)), sx.Placeholder((16,), dtype=sx.int32)], is_train=False)
    assert not net.metrics[0].count.to_numpy().any(), "the abstract pass counts nothing"
    for x, y in zip(SCORES, IDS, strict=True):
        net(x, y)
    assert net.metrics[0].count.to_numpy().tolist() == [48, 0]
    twin = copy.deepcopy(net)
    twin.metrics[0].reset()
    assert net.metrics[0].count.to_numpy().tolist() == [48, 0]
    functional = net.functional()
    variables = functional.init(0, SCORES[0], IDS[0])
    assert not variables["metrics.0.count"].any()
    _, variables = functional.apply(variables, SCORES[0], IDS[0], train=True)
    assert variables["metrics.0.count"].tolist() == [16, 0]


def test_a_tracer_never_ends_up_in_a_metric() -> None:
    stranger = metric.Accuracy()
    net = Net(stranger)
    net.compile([sx.Placeholder((16, 4))])
    with pytest.raises(StateError, match="no attribute of the model"):
        net(SCORES[0], IDS[0])
    with pytest.raises(StateError, match=r"state = metric\.step"):
        jax.jit(lambda x: stranger.update(x, IDS[0]))(SCORES[0])
    with pytest.raises(StateError, match=r"state = metric\.step"):
        jax.jit(lambda w: stranger.update(SCORES[0], IDS[0], weight=w))(WEIGHTS[0])
    with pytest.raises(TracedValueError):
        Net().train_one_batch(SCORES[0], IDS[0], read=True)
    stranger.update(SCORES[0], IDS[0])
    assert stranger.count.to_numpy().tolist() == [16, 0]


def test_no_gradient_flows_through_a_metric() -> None:
    made = metric.Mean()
    gradient = jax.grad(lambda x: made.read(made.step(made.init(), x)))(jnp.ones(3))
    np.testing.assert_array_equal(gradient, 0)
    sx.autograd.training = True
    w = sx.Tensor(data=SCORES[0], requires_grad=True, stores_grad=True)
    made.update(w)
    assert float(made) == pytest.approx(SCORES[0].mean(), rel=1e-5)


WRONG: list[tuple[Callable[[], Any], type[SingaxError], str]] = [
    (lambda: metric.TopKAccuracy(0), ArgumentError, "k must be an integer from 1 up. Received: 0"),
    (lambda: metric.TopKAccuracy(9).update(SCORES[0], IDS[0]), ShapeError, "at least k = 9 classes. Received: 4"),
    (lambda: metric.ConfusionMatrix(2.0), ArgumentError, "classes must be an integer"),  # type: ignore[arg-type]
    (lambda: metric.ConfusionMatrix(2, normalize="rows"), ArgumentError, "normalize among .* Received: 'rows'"),
    (lambda: metric.F1(3), ArgumentError, 'average "binary" goes with 2 classes.* Received: 3'),
    (lambda: metric.F1(3, "all"), ArgumentError, "average among .* Received: 'all'"),
    (lambda: metric.AUC(bins=1), ArgumentError, "bins must be an integer from 2 up. Received: 1"),
    (lambda: metric.Accuracy().update(SCORES[0], IDS[0][:5]), ShapeError, r"Received: \(16, 4\) and \(5,\)"),
    (lambda: metric.Accuracy().update(SCORES[0][:, :1], IDS[0]), ShapeError, "or a threshold. Received"),
    (lambda: metric.Accuracy().update(SCORES[0][:, 0], IDS[0]), ShapeError, "Received"),
    (lambda: metric.Accuracy(threshold=0).update(SCORES[0], IDS[0]), ShapeError, "binary scores"),
    (lambda: metric.Accuracy(axis=3).update(SCORES[0], IDS[0]), ShapeError, "an axis from -2 to 1. Received: 3"),
    (lambda: metric.Accuracy().update(SCORES[0] * 1j, IDS[0]), DTypeError, "Received dtype complex64"),
    (lambda: metric.Accuracy().update(SCORES[0], IDS[0], weight=IDS[0][:3]), ShapeError, r"weights .* \(3,\)"),
    (lambda: metric.MeanSquaredError().update(SCORES[0], IDS[0]), ShapeError, "equal shapes. Received"),
    (lambda: metric.AUC().update(SCORES[0], IDS[0]), ShapeError, "Received"),
    (lambda: float(metric.ConfusionMatrix(2)), ArgumentError, r"use compute\(\). Received shape \(2, 2\)"),
    (lambda: metric.Accuracy().update(SCORES[0]), SingaxError, "eceived"),
]


@pytest.mark.parametrize("index", range(len(WRONG)))
def test_refused(index: int) -> None:
    call, kind, message = WRONG[index]
    with pytest.raises(kind, match=message):
        call()
