"""Losses where the catalogue does not look: extreme logits, options, gradients that are given, lengths, refusals."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.test_util import check_grads
from twins import normal, onnx_of

import singax as sx
from singax import autograd, layer, ops
from singax.errors import ArgumentError, DTypeError, ShapeError, SingaxError

X = normal(4, 3)
IDS = jnp.asarray([0, 2, 1, 2])
ROWS = jax.nn.softmax(normal(4, 3, seed=1))
ENTROPY = -np.log(np.exp(np.asarray(X)) / np.exp(np.asarray(X)).sum(1, keepdims=True))[np.arange(4), np.asarray(IDS)]

LOSSES = [name for name, value in vars(layer).items() if isinstance(value, type) and issubclass(value, layer.Loss)]


# -- softmax cross entropy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.float32, np.float16, np.int64])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_ids_of_any_dtype_and_shape(dtype: Any, shape: tuple[int, ...]) -> None:
    ids = np.asarray(IDS).astype(dtype).reshape(shape)
    np.testing.assert_allclose(ops.softmax_cross_entropy(X, ids), [ENTROPY.mean()], rtol=1e-6)


def test_one_hot_rows_and_their_normalisation() -> None:
    one_hot = np.eye(3, dtype=np.float32)[np.asarray(IDS)]
    for rows in (one_hot, one_hot.astype(np.int32), 5 * one_hot, one_hot.astype(bool)):
        np.testing.assert_allclose(ops.softmax_cross_entropy(X, rows), [ENTROPY.mean()], rtol=1e-6)
    np.testing.assert_allclose(ops.softmax_cross_entropy(X, 7 * ROWS), ops.softmax_cross_entropy(X, ROWS), rtol=1e-6)


def test_a_single_class_takes_column_targets_as_ids() -> None:
    assert ops.softmax_cross_entropy(X[:, :1], jnp.zeros((4, 1))).tolist() == [0]


def test_reductions() -> None:
    np.testing.assert_allclose(ops.softmax_cross_entropy(X, IDS, reduction="none"), ENTROPY, rtol=1e-6)
    np.testing.assert_allclose(ops.softmax_cross_entropy(X, IDS, reduction="sum"), [ENTROPY.sum()], rtol=1e-6)
    assert ops.softmax_cross_entropy(X[0], IDS[0]).shape == (1,)
    assert ops.softmax_cross_entropy(X[0], IDS[0], reduction="none").shape == ()


def test_large_logits_lose_no_digits() -> None:
    x = jnp.asarray([[3e4, 3e4 + 2], [-1e30, 1e30], [0, 200]], jnp.float32)
    ids = jnp.asarray([0, 1, 1])
    expected = [math.log(1 + math.exp(2)), 0, 0]
    np.testing.assert_allclose(ops.softmax_cross_entropy(x, ids, reduction="none"), expected, rtol=1e-6)
    gradient = jax.grad(lambda x: ops.softmax_cross_entropy(x, ids, reduction="sum")[0])(x)
    p = 1 / (1 + math.exp(2))
    np.testing.assert_allclose(gradient, [[p - 1, 1 - p], [0, 0], [0, 0]], atol=1e-6)


def test_masked_classes_and_rows_without_weight_for_them() -> None:
    """A logit of −∞ is a class that cannot be: 0 · ∞ is 0, gradients stay finite."""
    x = X.at[:, 1].set(-jnp.inf)
    ids, rows = jnp.asarray([0, 2, 0, 2]), ROWS.at[:, 1].set(0)
    for t in (ids, rows):
        value, gradient = jax.value_and_grad(lambda x, t=t: ops.softmax_cross_entropy(x, t)[0])(x)
        without = ops.softmax_cross_entropy(X[:, ::2], t[:, ::2] if t.ndim == 2 else t // 2)[0]
        np.testing.assert_allclose(value, without, rtol=1e-6)
        assert jnp.isfinite(gradient).all()
        np.testing.assert_array_equal(gradient[:, 1], 0)


def test_ids_outside_give_nan_and_not_another_class() -> None:
    for bad in (3, -1, 100):
        terms = ops.softmax_cross_entropy(X, IDS.at[1].set(bad), reduction="none")
        assert jnp.isnan(terms).tolist() == [False, True, False, False]


def test_ignored_samples_have_no_gradient_whatever_their_logits() -> None:
    x, ids = X.at[1].set(-jnp.inf), IDS.at[1].set(-100)
    value, gradient = jax.value_and_grad(lambda x: ops.softmax_cross_entropy(x, ids, ignore_index=-100)[0])(x)
    np.testing.assert_allclose(value, ENTROPY[[0, 2, 3]].mean(), rtol=1e-6)
    assert jnp.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[1], 0)
    nothing = ops.softmax_cross_entropy(X, jnp.full(4, 9), ignore_index=9)
    assert jnp.isnan(nothing).tolist() == [True]
    assert ops.softmax_cross_entropy(X, jnp.full(4, 9), ignore_index=9, reduction="sum").tolist() == [0]


def test_class_weights_count_in_the_mean_of_ids_but_not_of_rows() -> None:
    weights = jnp.asarray([1.0, 2.0, 5.0])
    factors = np.asarray(weights)[np.asarray(IDS)]
    expected = (factors * ENTROPY).sum() / factors.sum()
    np.testing.assert_allclose(ops.softmax_cross_entropy(X, IDS, weights), [expected], rtol=1e-6)
    rows = ops.softmax_cross_entropy(X, jax.nn.one_hot(IDS, 3), weights)
    np.testing.assert_allclose(rows, [(factors * ENTROPY).mean()], rtol=1e-6)
    made = layer.SoftMaxCrossEntropy(weights=[1, 2, 5])
    assert float(made(sx.Tensor(data=X), sx.Tensor(data=IDS))) == pytest.approx(expected, rel=1e-6)
    assert not made.get_states()


def test_smoothing_equals_smoothed_rows() -> None:
    rows = 0.9 * jax.nn.one_hot(IDS, 3) + 0.1 / 3
    by_ids = ops.softmax_cross_entropy(X, IDS, label_smoothing=0.1)
    np.testing.assert_allclose(by_ids, ops.softmax_cross_entropy(X, rows), rtol=1e-6)
    np.testing.assert_allclose(
        ops.softmax_cross_entropy(X, jax.nn.one_hot(IDS, 3), label_smoothing=0.1), by_ids, rtol=1e-6
    )


def test_forward_mode_and_second_derivatives() -> None:
    check_grads(lambda x: ops.softmax_cross_entropy(x, IDS), (X,), order=2, modes=["fwd", "rev"], atol=0.03, rtol=0.03)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignore_index", [None, 2])
def test_onnx_twins_with_and_without_weights(reduction: str, ignore_index: int | None) -> None:
    x, t, weights = normal(2, 3, 4), jnp.asarray([[0, 2, 1, 2], [1, 1, 0, 2]]), jnp.asarray([1.0, 0.5, 3.0])
    options: dict[str, Any] = {"reduction": reduction, "ignore_index": ignore_index}
    for operation in (ops.softmax_cross_entropy_loss, ops.negative_log_likelihood_loss):
        for inputs in ([x, t], [x, t, weights]):
            ours, theirs = operation(*inputs, **options), onnx_of(operation, inputs, **options)
            assert ours.shape == np.shape(theirs)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)


# -- gradients that are given, dtypes, functional names ------------------------------------------------------


@pytest.mark.parametrize(
    "loss", [autograd.softmax_cross_entropy, autograd.cross_entropy, autograd.binary_cross_entropy, autograd.mse_loss]
)
def test_the_gradient_honours_dy(loss: Any) -> None:
    """SINGA's softmax and ranking losses ignore it; a loss times 3 has 3 times the gradient."""
    x = sx.Tensor(data=jax.nn.softmax(X), stores_grad=True)
    t = sx.Tensor(data=ROWS)
    autograd.training = True
    plain = autograd.gradients(loss(x, t))[id(x)].to_numpy()
    got = autograd.gradients(loss(x, t) * 3.0)[id(x)].to_numpy()
    np.testing.assert_allclose(got, 3 * plain, rtol=1e-6, atol=1e-7)  # differences of numbers below 1
    given = loss(x, t).creator.backward(np.full(1, 2.0, np.float32))
    np.testing.assert_allclose(given, 2 * plain, rtol=1e-6)


def test_functional_names_take_options_by_position_and_name() -> None:
    x, t = sx.Tensor(data=X), sx.Tensor(data=IDS)
    expected = ops.softmax_cross_entropy(X, IDS, label_smoothing=0.5)
    for got in (
        autograd.softmax_cross_entropy(x, t, label_smoothing=0.5),
        autograd.softmax_cross_entropy(X, IDS, label_smoothing=sx.Tensor(data=[0.5])),
    ):
        value = got.to_numpy() if isinstance(got, sx.Tensor) else got
        np.testing.assert_allclose(value, expected, rtol=1e-6)
    pair = sx.Tensor(data=X), sx.Tensor(data=ROWS)
    expected = ops.ranking_loss(X, ROWS, M=1.0)
    assert float(autograd.ranking_loss(*pair, 1)) == float(autograd.ranking_loss(*pair, M=1)) == float(expected[0])
    expected = ops.huber_loss(X, ROWS, delta=0.5)
    for got in (autograd.huber_loss(*pair, np.float32(0.5)), autograd.huber_loss(*pair, delta=sx.Tensor(data=0.5))):
        assert float(got) == pytest.approx(float(expected[0]))
    assert list(inspect.signature(autograd.huber_loss).parameters) == ["x", "t", "delta", "reduction"]


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.int32])
def test_narrow_inputs_are_computed_in_float32(dtype: Any) -> None:
    x, t = (X * 2).astype(dtype), (ROWS * 2).astype(dtype)
    for name in ("mse_loss", "l1_loss", "huber_loss", "softmax_cross_entropy", "hinge_loss", "ranking_loss"):
        got = getattr(ops, name)(x, t)
        assert got.dtype == jnp.float32
        wide = getattr(ops, name)(x.astype(jnp.float32), t.astype(jnp.float32))
        np.testing.assert_array_equal(got, wide)
    far = jnp.asarray([300.0, -300.0], jnp.float16)
    assert ops.mse_loss(far, -far).tolist() == [360_000], "beyond float16"


# -- binary and divergence -----------------------------------------------------------------------------------


def test_binary_logits_keep_their_digits_on_both_sides() -> None:
    x = jnp.asarray([-40.0, 40.0, -1e4, 1e4, 0.0])
    for t in (0.0, 1.0):
        terms = ops.binary_cross_entropy_with_logits(x, jnp.full(5, t), reduction="none")
        wrong = x if t == 0 else -x
        expected = [math.log1p(math.exp(min(v, 50))) if v < 50 else v for v in np.asarray(wrong, np.float64)]
        np.testing.assert_allclose(terms, expected, rtol=1e-6)
    gradient = jax.grad(lambda x: ops.binary_cross_entropy_with_logits(x, jnp.ones(5), reduction="sum")[0])(x)
    np.testing.assert_allclose(gradient, [-1, 0, -1, 0, -0.5], atol=1e-6)


def test_focal_loss_without_focus_is_cross_entropy() -> None:
    t = (ROWS > 0.3).astype(jnp.float32)
    plain = ops.binary_cross_entropy_with_logits(X, t)
    np.testing.assert_allclose(ops.sigmoid_focal_loss(X, t, alpha=None, gamma=0.0), plain, rtol=1e-6)
    gradient = jax.grad(lambda x: ops.sigmoid_focal_loss(x, jnp.ones(2), gamma=0.5)[0])(jnp.asarray([500.0, -500.0]))
    assert jnp.isfinite(gradient).all()


def test_divergence_of_impossible_events_is_finite_where_it_should_be() -> None:
    t = jnp.asarray([[0.0, 0.25, 0.75]])
    x = jnp.asarray([[-jnp.inf, math.log(0.5), math.log(0.5)]])
    expected = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    np.testing.assert_allclose(ops.kl_divergence(x, t), [expected], rtol=1e-6)
    np.testing.assert_allclose(ops.kl_divergence(x, jnp.log(t), log_target=True), [expected], rtol=1e-6)
    assert jnp.isfinite(jax.grad(lambda x: ops.kl_divergence(x, t)[0])(x)).all()
    assert jnp.isposinf(ops.kl_divergence(x, t[:, ::-1]))[0], "what may happen was called impossible"
    assert ops.kl_divergence(x, t, reduction="sum").shape == (1,)
    np.testing.assert_allclose(ops.kl_divergence(x, t, reduction="mean"), [expected / 3], rtol=1e-6)


# -- numbers and vectors -------------------------------------------------------------------------------------


def test_huber_and_smooth_l1_meet_their_neighbours() -> None:
    np.testing.assert_allclose(ops.huber_loss(X, ROWS, delta=1e6), ops.mse_loss(X, ROWS) / 2, rtol=1e-6)
    np.testing.assert_array_equal(ops.smooth_l1_loss(X, ROWS, beta=0.0), ops.l1_loss(X, ROWS))
    np.testing.assert_array_equal(jax.grad(lambda x: ops.l1_loss(x, X)[0])(X), 0)


def test_a_variance_below_eps_can_grow_again() -> None:
    value, gradient = jax.value_and_grad(lambda v: ops.gaussian_nll_loss(X, ROWS, v, eps=0.01)[0])(jnp.zeros((4, 1)))
    np.testing.assert_allclose(value, ops.gaussian_nll_loss(X, ROWS, jnp.full((4, 1), 0.01))[0], rtol=1e-6)
    assert (gradient < 0).all()
    full = ops.gaussian_nll_loss(X, ROWS, jnp.ones((4, 1)), full=True)
    np.testing.assert_allclose(full, jnp.mean((X - ROWS) ** 2 + math.log(2 * math.pi), keepdims=True)[0] / 2, rtol=1e-6)


def test_poisson_with_the_constant() -> None:
    counts = jnp.asarray([0.0, 1.0, 2.0, 9.0])
    terms = ops.poisson_nll_loss(jnp.zeros(4), counts, full=True, reduction="none")
    exact = [1 + math.lgamma(c + 1) for c in (0, 1, 2, 9)]
    np.testing.assert_allclose(terms, exact, atol=0.05)
    assert jnp.isfinite(jax.grad(lambda t: ops.poisson_nll_loss(jnp.zeros(4), t, full=True)[0])(counts)).all()


def test_cosine_of_zeros_and_of_extreme_vectors() -> None:
    zeros = jnp.zeros((4, 3))
    assert ops.cosine_similarity_loss(X, zeros).tolist() == [1]
    assert jnp.isfinite(jax.grad(lambda a: ops.cosine_similarity_loss(a, X)[0])(zeros)).all()
    np.testing.assert_allclose(ops.cosine_similarity_loss(X * 1e30, X * 1e-30), [0], atol=1e-6)


def test_triplets() -> None:
    near, far = X + 0.1, X + 3
    for p in (1, 2, 3.5, math.inf):
        norm = np.linalg.norm(np.full(3, 1.0), ord=p)
        loss = ops.triplet_margin_loss(X, near, far, margin=4.0, p=p)
        np.testing.assert_allclose(loss, [max(0, 4 - 2.9 * norm)], atol=1e-5)
    swapped = ops.triplet_margin_loss(X, near, far, margin=6.0, swap=True)
    np.testing.assert_allclose(swapped, [6 - (2.9 - 0.1) * 3**0.5], rtol=1e-5)
    assert jnp.isfinite(jax.grad(lambda a: ops.triplet_margin_loss(a, X, X)[0])(X)).all()


# -- connectionist temporal classification -------------------------------------------------------------------

LOGITS = normal(3, 6, 4)
LABELS = jnp.asarray([[1, 2, 2], [3, 3, 0], [2, 0, 0]])
FRAMES, COUNTS = jnp.asarray([6, 4, 3]), jnp.asarray([3, 2, 1])


def _optax(x: Any, **options: Any) -> Any:
    behind = (jnp.arange(6) >= FRAMES[:, None]).astype(jnp.float32)
    unused = (jnp.arange(3) >= COUNTS[:, None]).astype(jnp.float32)
    return optax.ctc_loss(x, behind, LABELS, unused, **options)


def test_ctc_equals_optax_in_value_and_gradient() -> None:
    ours = ops.ctc_loss(LOGITS, LABELS, FRAMES, COUNTS, reduction="none")
    np.testing.assert_allclose(ours, _optax(LOGITS), rtol=1e-5)
    gradient = jax.grad(lambda x: ops.ctc_loss(x, LABELS, FRAMES, COUNTS, reduction="sum")[0])(LOGITS)
    np.testing.assert_allclose(gradient, jax.grad(lambda x: _optax(x).sum())(LOGITS), atol=1e-5)
    mean = ops.ctc_loss(LOGITS, LABELS, FRAMES, COUNTS)
    np.testing.assert_allclose(mean, [np.mean(np.asarray(ours) / [3, 2, 1])], rtol=1e-6)
    logs = jax.nn.log_softmax(LOGITS)
    np.testing.assert_allclose(ops.ctc_loss(logs, LABELS, FRAMES, COUNTS, reduction="none"), ours, rtol=1e-5)


def test_ctc_with_another_blank() -> None:
    moved = jnp.roll(LOGITS, -1, axis=-1)
    ours = ops.ctc_loss(moved, LABELS - 1, FRAMES, COUNTS, blank=3, reduction="none")
    np.testing.assert_allclose(ours, _optax(LOGITS), rtol=1e-5)


def test_what_lies_behind_the_lengths_does_not_matter() -> None:
    behind = jnp.arange(6)[None, :, None] >= FRAMES[:, None, None]
    spoilt, labels = jnp.where(behind, jnp.nan, LOGITS), LABELS.at[1, 2].set(77).at[2, 1].set(-5)
    function = jax.value_and_grad(lambda x, t: ops.ctc_loss(x, t, FRAMES, COUNTS)[0])
    value, gradient = function(spoilt, labels)
    np.testing.assert_allclose(value, function(LOGITS, LABELS)[0], rtol=1e-6)
    assert jnp.isfinite(gradient).all()
    np.testing.assert_array_equal(jnp.where(behind, gradient, 0), 0)


def test_impossible_alignments() -> None:
    """Two equal labels need a blank between them: three frames. Also: no frames, no labels, forbidden labels."""
    labels = jnp.asarray([[1, 1], [1, 2], [1, 1], [1, 2], [0, 1], [1, 9]])
    x, frames = normal(6, 3, 4), jnp.asarray([2, 2, 3, 0, 3, 3])
    counts = jnp.asarray([2, 2, 2, 0, 2, 2])
    terms = ops.ctc_loss(x, labels, frames, counts, reduction="none")
    assert jnp.isposinf(terms).tolist() == [True, False, False, False, False, False]
    assert jnp.isnan(terms).tolist() == [False] * 4 + [True, True]
    assert terms[3] == 0
    for zero in (False, True):
        function = jax.value_and_grad(lambda x, z=zero: ops.ctc_loss(x, labels[:1], frames[:1], zero_infinity=z)[0])
        value, gradient = function(x[:1])
        assert value == (0 if zero else math.inf)
        np.testing.assert_array_equal(gradient, 0)


# -- layers --------------------------------------------------------------------------------------------------


def test_layers_hold_their_options_and_own_no_state() -> None:
    for name in LOSSES:
        made = getattr(layer, name)() if name != "Loss" else layer.Huber()
        assert not made.get_states()
        assert made._computes_wide
        for option in made.operation.function.__kwdefaults__:
            assert hasattr(made, option), (name, option)
            assert name == "KLDivergence" or getattr(made, option) == made.operation.function.__kwdefaults__[option]
    changed = layer.Huber()
    changed.delta = 0.5
    got = changed(sx.Tensor(data=X), sx.Tensor(data=ROWS)).data
    np.testing.assert_allclose(got, ops.huber_loss(X, ROWS, delta=0.5), rtol=1e-6)


def test_a_model_trains_on_sequences_with_padding() -> None:
    class Net(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = layer.Embedding(5, 8), layer.Linear(5)
            self.loss, self.optimizer = layer.SoftMaxCrossEntropy(ignore_index=0), sx.opt.SGD(lr=1.0)

        def forward(self, ids: Any) -> Any:
            return self.head(self.embedding(ids).reshape(-1, 8)).reshape(*ids.shape, 5)

        def train_one_batch(self, ids: Any, following: Any) -> Any:
            loss = self.loss(self.forward(ids), following)
            self.optimizer(loss)
            return loss

    ids = np.asarray([[1, 2, 3, 4], [2, 3, 4, 0]], np.int32)
    following = np.asarray([[2, 3, 4, 0], [3, 4, 0, 0]], np.int32)
    net = Net()
    net.compile([sx.Placeholder((2, 4), dtype=sx.int32)])
    losses = [float(net(ids, following)) for _ in range(20)]
    assert losses[-1] < 0.2 * losses[0]


WRONG: list[tuple[Callable[[], Any], type[SingaxError], str]] = [
    (lambda: ops.softmax_cross_entropy(X, IDS, axis=2), ShapeError, "axis from -2 to 1. Received: 2"),
    (lambda: ops.softmax_cross_entropy(X, IDS, reduction="max"), ArgumentError, "reduction must be .* Received: 'max'"),
    (lambda: ops.softmax_cross_entropy(X, IDS, label_smoothing=1.5), ArgumentError, "label_smoothing must be .* 1.5"),
    (lambda: ops.softmax_cross_entropy(X, ROWS, ignore_index=0), ArgumentError, "ignore_index goes with class ids"),
    (lambda: ops.softmax_cross_entropy(X, IDS, ignore_index=0.5), ArgumentError, "ignore_index must be None or an int"),  # type: ignore[arg-type]
    (lambda: ops.softmax_cross_entropy(X * 1j, IDS), DTypeError, "real numbers. Received dtype complex64"),
    (lambda: ops.softmax_cross_entropy(X, IDS * 1j), DTypeError, "Received dtype complex64"),
    (lambda: ops.softmax_cross_entropy(X[0], X[0]), ShapeError, r"softmax_cross_entropy.* \(3,\) and \(3,\)"),
    (lambda: ops.huber_loss(X, ROWS, delta=0.0), ArgumentError, "delta must be a number above 0. Received: 0.0"),
    (lambda: ops.huber_loss(X, ROWS, delta=math.nan), ArgumentError, "delta must be a number above 0. Received: nan"),
    (lambda: ops.triplet_margin_loss(X, X, X, p=0.5), ArgumentError, "p must be a number of at least 1"),
    (
        lambda: ops.kl_divergence(X, ROWS, reduction="batch"),
        ArgumentError,
        '^kl_divergence: reduction must be "batchmean"',
    ),
    (lambda: ops.ctc_loss(LOGITS, LABELS, blank=4), ArgumentError, "blank must be a class from 0 to 3. Received: 4"),
    (lambda: ops.ctc_loss(LOGITS, LABELS, FRAMES[:2]), ShapeError, r"length for each of 3 samples.* \(2,\)"),
    (lambda: ops.mse_loss(X, ROWS, reduction=True), ArgumentError, "reduction must be"),  # type: ignore[arg-type]
    (lambda: layer.Huber(delta=-1), ArgumentError, "^Huber: delta must be a number above 0. Received: -1"),
    (lambda: layer.KLDivergence(reduction="all"), ArgumentError, '^KLDivergence: reduction must be "batchmean"'),
    (lambda: layer.SoftMaxCrossEntropy(weights="abc"), ArgumentError, "weights must be numbers. Received: 'abc'"),
    (lambda: layer.CTCLoss(zero_infinity=1), ArgumentError, "zero_infinity must be True or False"),  # type: ignore[arg-type]
    (lambda: autograd.ranking_loss(X, X, "wide"), ArgumentError, "ranking_loss expected a number as M.*'wide'"),
    (
        lambda: autograd.mse_loss(sx.Tensor(data=X), X, reduction=["mean"]),
        ArgumentError,
        r"reduction .* Received: \['mean'\]",
    ),
]


@pytest.mark.parametrize("index", range(len(WRONG)))
def test_refused(index: int) -> None:
    call, kind, message = WRONG[index]
    with pytest.raises(kind, match=message):
        call()
