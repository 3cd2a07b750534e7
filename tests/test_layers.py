"""Dropout, Embedding, and the layers without parameters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import singax as sx
from singax.errors import ArgumentError, DTypeError, ShapeError

ONES = np.ones((8, 8), "float32")


class Masked(sx.Module):
    """Returns the dropped input of each step."""

    def __init__(self, ratio: float = 0.5) -> None:
        super().__init__()
        self.fc, self.dropout = sx.layer.Linear(1), sx.layer.Dropout(ratio)
        self.loss, self.optimizer = sx.layer.MeanSquareError(), sx.opt.SGD(lr=0.0)

    def forward(self, x: jax.Array) -> Any:
        dropped = self.dropout(x)
        return self.fc(dropped), dropped

    def train_one_batch(self, x: sx.Tensor, y: sx.Tensor) -> Any:
        out, dropped = self.forward(x)
        self.optimizer(self.loss(out, y))
        return dropped


def masks(count: int, use_graph: bool = True) -> list[np.ndarray]:
    model = Masked()
    model.compile([sx.Placeholder(ONES.shape)], use_graph=use_graph)
    y = np.zeros((8, 1), "float32")
    return [model(ONES, y).to_numpy() for _ in range(count)]


@pytest.mark.parametrize("use_graph", [True, False])
def test_every_step_draws_a_new_mask(use_graph: bool) -> None:
    first, second, third = masks(3, use_graph)
    assert (first != second).any()
    assert (second != third).any()


def test_compiled_and_eager_masks_are_equal_and_repeat_from_the_seed() -> None:
    device = sx.device.get_default_device()
    device.SetRandSeed(7)
    compiled = masks(2)
    device.SetRandSeed(7)
    again = masks(2)
    device.SetRandSeed(7)
    eager = masks(2, use_graph=False)
    device.SetRandSeed(8)
    other = masks(2)
    np.testing.assert_array_equal(compiled, again)
    np.testing.assert_array_equal(compiled, eager)
    assert (compiled[0] != other[0]).any()


def test_two_draws_in_one_step_differ() -> None:
    sx.autograd.training = True
    layer = sx.layer.Dropout()
    assert (layer(ONES).to_numpy() != layer(ONES).to_numpy()).any()


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_expectation(ratio: float) -> None:
    out = np.asarray(sx.ops.dropout(jnp.ones(20000), jax.random.key(0), ratio=ratio))
    assert abs((out == 0).mean() - ratio) < 0.02
    np.testing.assert_allclose(out[out != 0], 1 / (1 - ratio), rtol=1e-6)
    assert abs(out.mean() - 1) < 0.1


def test_the_gradient_passes_through_the_same_mask() -> None:
    sx.autograd.training = True
    x = sx.Tensor(data=ONES, stores_grad=True)
    out = sx.layer.Dropout(0.25)(x)
    (_, grad), *_ = sx.autograd.backward(sx.autograd.node(jnp.sum)(out))
    np.testing.assert_array_equal(grad.to_numpy(), out.to_numpy())


def test_dropout_is_the_identity_in_evaluation_and_for_ratio_0() -> None:
    layer = sx.layer.Dropout(0.9)
    np.testing.assert_array_equal(layer(ONES).to_numpy(), ONES)
    sx.autograd.training = True
    np.testing.assert_array_equal(sx.layer.Dropout(0)(ONES).to_numpy(), ONES)
    model = Masked()
    model.compile([sx.Placeholder(ONES.shape)], is_train=False)
    np.testing.assert_array_equal(model(ONES)[1].to_numpy(), ONES)


@pytest.mark.parametrize("ratio", [1, 1.0, -0.1, 2, "half", True, None])
def test_a_ratio_that_is_none(ratio: Any) -> None:
    with pytest.raises(ArgumentError, match="ratio"):
        sx.layer.Dropout(ratio)


def test_spatial_dropout_drops_whole_channels() -> None:
    sx.autograd.training = True
    x = np.ones((50, 8, 3, 2), "float32")
    y = sx.layer.Dropout2d(0.25)(x).to_numpy()
    assert (y == y[:, :, :1, :1]).all()
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
    assert 0.15 < (y == 0).mean() < 0.35


@pytest.mark.parametrize("ratio", [0.1, 0.5])
def test_alpha_dropout_keeps_mean_and_variance(ratio: float) -> None:
    x = np.random.default_rng(0).normal(size=100_000).astype("float32")
    y = np.asarray(sx.ops.alpha_dropout(x, jax.random.key(1), ratio=ratio))
    assert abs(y.mean()) < 0.02
    assert abs(y.var() - 1) < 0.02
    low = -1.67326 * 1.0507
    scale = 1 / np.sqrt((1 - ratio) * (1 + ratio * low**2))
    places = np.isclose(y, scale * low * (1 - ratio), rtol=1e-6)
    assert abs(places.mean() - ratio) < 0.01


@pytest.mark.parametrize("layer", [sx.layer.Dropout(), sx.layer.SpatialDropout(), sx.layer.AlphaDropout()])
def test_dropout_refuses_what_holds_no_floats(layer: sx.layer.Layer) -> None:
    for training in (False, True):
        sx.autograd.training = training
        with pytest.raises(DTypeError, match=r"dropout expected an input of floats.* Received dtype int32"):
            layer(np.ones((2, 3), "int32"))


def test_the_functional_dropout() -> None:
    x = sx.Tensor(data=ONES)
    assert sx.autograd.dropout(x) is x
    sx.autograd.training = True
    first, second = (sx.autograd.dropout(x, ratio=0.5).to_numpy() for _ in range(2))
    assert (first != second).any()
    assert set(np.unique(first)) == {0.0, 2.0}


def test_flatten_reshape_cat_add() -> None:
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    np.testing.assert_array_equal(sx.layer.Flatten()(x).to_numpy(), x.reshape(2, 12))
    np.testing.assert_array_equal(sx.layer.Flatten(2)(x).to_numpy(), x.reshape(6, 4))
    np.testing.assert_array_equal(sx.layer.Reshape()(x, (4, -1)).to_numpy(), x.reshape(4, 6))
    np.testing.assert_array_equal(sx.layer.Reshape((0, 12))(x).to_numpy(), x.reshape(2, 12))
    np.testing.assert_array_equal(sx.layer.Cat(1)([x, x]).to_numpy(), np.concatenate([x, x], 1))
    np.testing.assert_array_equal(sx.layer.Cat()([sx.Tensor(data=x), x]).to_numpy(), np.concatenate([x, x]))
    np.testing.assert_array_equal(sx.layer.Add()(x, x).to_numpy(), 2 * x)


def test_shape_layers_have_no_parameters_and_pass_gradients() -> None:
    sx.autograd.training = True
    a, b = (sx.Tensor(data=ONES, stores_grad=True) for _ in range(2))
    joined = sx.layer.Cat(axis=1)([sx.layer.Add()(a, b), a])
    total = sx.autograd.node(jnp.sum)(sx.layer.Reshape((-1,))(sx.layer.Flatten()(joined)))
    grads = {id(t): g.to_numpy() for t, g in sx.autograd.backward(total)}
    np.testing.assert_array_equal(grads[id(a)], 2 * ONES)
    np.testing.assert_array_equal(grads[id(b)], ONES)
    assert sx.layer.Flatten().get_params() == {}


def test_shape_layers_refuse_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="axis"):
        sx.layer.Flatten(4)(ONES)
    with pytest.raises(ArgumentError, match="shape"):
        sx.layer.Reshape()(ONES)


TABLE = np.arange(12, dtype="float32").reshape(4, 3)


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 1, 3)])
def test_embedding_of_any_ids(dtype: str, shape: tuple[int, ...]) -> None:
    layer = sx.layer.Embedding(4, 3)
    layer.from_pretrained(TABLE)
    ids = np.random.default_rng(0).integers(0, 4, shape).astype(dtype)
    np.testing.assert_array_equal(layer(ids).to_numpy(), TABLE[ids.astype(int)])


def test_embedding_initial_values() -> None:
    ids = np.zeros((1,), "int32")
    gaussian, uniform = sx.layer.Embedding(50, 40), sx.layer.Embedding(50, 40, initializer="uniform")
    gaussian(ids)
    uniform(ids)
    assert 0.95 < gaussian.W.to_numpy().std() < 1.05
    assert 0.9 < np.abs(uniform.W.to_numpy()).max() <= 1


def test_ids_out_of_range() -> None:
    layer = sx.layer.Embedding(4, 3)
    layer.from_pretrained(TABLE, freeze=False)
    out = layer(np.array([-1, -4, 4, -5], "int32")).to_numpy()
    np.testing.assert_array_equal(out[:2], TABLE[[-1, -4]])
    assert np.isnan(out[2:]).all()


def test_embedding_gradient_adds_up_over_equal_ids() -> None:
    layer = sx.layer.Embedding(4, 3)
    ids = np.array([[0, 2, 2], [2, 0, 7]], "int32")
    layer(ids)
    sx.autograd.training = True
    total = sx.autograd.node(lambda y: jnp.nansum(y))(layer(ids))
    ((_, grad),) = sx.autograd.backward(total)
    np.testing.assert_array_equal(grad.to_numpy()[:, 0], [2, 0, 3, 0])


class Lookup(sx.Module):
    """An embedding and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.fc = sx.layer.Embedding(4, 3), sx.layer.Linear(1)
        self.loss, self.optimizer = sx.layer.MeanSquareError(), sx.opt.SGD(lr=0.1)

    def forward(self, ids: jax.Array) -> jax.Array:
        return self.fc(self.embedding(ids))

    def train_one_batch(self, ids: sx.Tensor, y: sx.Tensor) -> sx.Tensor:
        loss = self.loss(self.forward(ids), y)
        self.optimizer(loss)
        return loss


@pytest.mark.parametrize("freeze", [True, False])
@pytest.mark.parametrize("early", [True, False])
def test_a_pretrained_table_is_copied_and_frozen(freeze: bool, early: bool) -> None:
    model, table = Lookup(), TABLE.copy()
    if early:
        model.embedding.from_pretrained(table, freeze=freeze)
    model.compile([sx.Placeholder((4,), dtype=sx.int32)])
    if not early:
        model.embedding.from_pretrained(sx.Tensor(data=table), freeze=freeze)
    table[:] = -1
    ids, y = np.arange(4, dtype="int32"), np.full((4, 1), 9.0, "float32")
    model(ids, y)
    model(ids, y)
    assert (model.embedding.W.to_numpy() == TABLE).all() == freeze
    assert (model.embedding.W.name, set(model.get_params())) == ("embedding.W", {"embedding.W", "fc.W", "fc.b"})


@pytest.mark.parametrize("padding", [1, -3])
def test_a_padding_id_is_0_and_gets_no_gradient(padding: int) -> None:
    layer = sx.layer.Embedding(4, 3, padding_idx=padding)
    layer.from_pretrained(TABLE, freeze=False)
    ids = np.array([0, 1, -3, 2, 5], "int32")
    sx.autograd.training = True
    y = layer(ids)
    np.testing.assert_array_equal(y.to_numpy()[:4], [TABLE[0], 0 * TABLE[0], 0 * TABLE[0], TABLE[2]])
    assert np.isnan(y.to_numpy()[4]).all()
    ((_, grad),) = sx.autograd.backward(sx.autograd.node(jnp.nansum)(y))
    np.testing.assert_array_equal(grad.to_numpy()[:, 0], [1, 0, 1, 0])
    with pytest.raises(ArgumentError, match="padding_idx"):
        sx.layer.Embedding(4, 3, padding_idx=4)


def test_gemm_layer_has_singas_parameters() -> None:
    x = np.ones((2, 5), "float32")
    for layer, shapes in (
        (sx.layer.Gemm(3), {"W": (3, 5), "b": (1, 3)}),
        (sx.layer.Gemm(3, transB=False, bias=False), {"W": (5, 3)}),
        (sx.layer.Gemm(3, transA=True, bias_shape=[3]), {"W": (3, 2), "b": (3,)}),
    ):
        layer(x)
        assert {name: t.shape for name, t in layer.get_params().items()} == shapes
    wide = sx.layer.Gemm(400)
    wide(np.ones((1, 600), "float32"))
    assert wide.W.to_numpy().std() == pytest.approx((2 / 1000) ** 0.5, rel=0.02)


@pytest.mark.parametrize(
    "make",
    [
        lambda: sx.layer.Gemm(0),
        lambda: sx.layer.Gemm(3, bias_shape=3),  # type: ignore[arg-type]
        lambda: sx.layer.Gemm(3, alpha="1"),  # type: ignore[arg-type]
        lambda: sx.layer.Bilinear(1.5),  # type: ignore[arg-type]
        lambda: sx.layer.LeakyReLU(None),  # type: ignore[arg-type]
        lambda: sx.layer.CELU(0),
        lambda: sx.layer.Hardtanh(1, -1),
        lambda: sx.layer.GLU("last"),  # type: ignore[arg-type]
        lambda: sx.layer.Pad(1, mode="wrap"),
        lambda: sx.layer.UpSample(2, mode="linear"),
        lambda: sx.layer.UpSample(-1),
        lambda: sx.layer.PixelShuffle(0),
    ],
)
def test_arguments_that_are_refused(make: Any) -> None:
    with pytest.raises(ArgumentError, match="Received: "):
        make()


def test_embedding_refuses_what_does_not_fit() -> None:
    with pytest.raises(ArgumentError, match="input_dim"):
        sx.layer.Embedding(0, 3)
    with pytest.raises(ArgumentError, match="output_dim"):
        sx.layer.Embedding(4, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="table"):
        sx.layer.Embedding(4, 3).from_pretrained(TABLE.T)


def test_infer_shape_of_ids() -> None:
    assert sx.layer.Embedding(4, 3).infer_shape((None, 7)) == (None, 7, 3)
