"""Several layers, both directions, lengths and dropout of RNN, LSTM and GRU."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import singax as sx
from singax import ops
from singax.errors import ArgumentError, DTypeError, ShapeError

T, B, IN, H = 4, 3, 3, 2
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(T, B, IN)).astype("float32")
LENGTHS = np.array([2, 4, 1], np.int32)
LAYERS = [sx.layer.RNN, sx.layer.LSTM, sx.layer.GRU]

every_layer = pytest.mark.parametrize("make", LAYERS)


@every_layer
def test_names_of_parameters(make: Any) -> None:
    layer = make(IN, H, num_layers=2, bidirectional=True)
    layer(X)
    names = {name: tensor.shape for name, tensor in layer.get_params().items()}
    first = [name for name in names if not name.startswith(("l1", "reverse"))]
    assert set(names) == {p + name for p in ("", "reverse.", "l1.", "l1.reverse.") for name in first}
    for name, shape in names.items():
        plain = name.rpartition(".")[2]
        wanted = {"Wx": (2 * H if "l1" in name else IN, H), "Wh": (H, H)}.get(plain[:2], (H,))
        assert shape == wanted, name
    assert layer.l1["reverse"][first[0]].name == f"l1.reverse.{first[0]}"


@every_layer
def test_the_first_layer_of_a_deep_one_starts_like_a_single_one(make: Any) -> None:
    """A parameter's values depend on its path alone."""
    single, deep = (
        Holder(make(IN, H, **options)).functional().init(0, X)
        for options in ({}, {"num_layers": 2, "bidirectional": True})
    )
    assert set(single) < set(deep)
    for name, value in single.items():
        np.testing.assert_array_equal(value, deep[name])


@every_layer
def test_shapes_of_outputs_and_states(make: Any) -> None:
    layer = make(IN, H, num_layers=3, bidirectional=True, batch_first=True)
    every, *last = layer(X.transpose(1, 0, 2))
    assert every.shape == (B, T, 2 * H)
    assert {state.shape for state in last} == {(6, B, H)}
    listed, *_ = layer([sx.Tensor(data=step) for step in X])
    assert [step.shape for step in listed] == [(B, 2 * H)] * T
    np.testing.assert_allclose(listed[2].to_numpy(), every.to_numpy()[:, 2], rtol=1e-5, atol=1e-6)


@every_layer
def test_padding_does_not_matter(make: Any) -> None:
    """Neither values nor gradients of a short sequence depend on what stands after its end, nan included."""
    init, apply = Holder(make(IN, H, bidirectional=True)).functional()
    variables = init(0, X, None, LENGTHS)
    dirty = X.copy()
    for n, length in enumerate(LENGTHS):
        dirty[length:, n] = np.nan

    @jax.jit
    def run(variables: Any, x: Any) -> Any:
        outs, pull = jax.vjp(lambda v, x: apply(v, x, None, LENGTHS), variables, x)
        return outs, pull(jax.tree.map(jnp.ones_like, outs))

    for a, b in zip(*(jax.tree.leaves(run(variables, x)) for x in (X, dirty)), strict=True):
        np.testing.assert_array_equal(a, b)


@every_layer
def test_a_short_sequence_is_what_it_is_alone(make: Any) -> None:
    layer = make(IN, H, num_layers=2, bidirectional=True)
    every, *last = layer(X, None, LENGTHS)
    alone, *alone_last = layer(X[:2, :1])
    np.testing.assert_allclose(every.to_numpy()[:2, :1], alone.to_numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(every.to_numpy()[2:, 0], 0)
    for a, b in zip(last, alone_last, strict=True):
        np.testing.assert_allclose(a.to_numpy()[:, :1], b.to_numpy(), rtol=1e-5, atol=1e-6)


@every_layer
def test_dropout_falls_between_layers_while_training(make: Any) -> None:
    deep, single = make(IN, 20, num_layers=2, dropout=0.5), make(IN, 20, dropout=0.5)
    for layer in (deep, single):
        layer(X)
        for tensor in layer.get_params().values():
            tensor.gaussian(0.0, 0.5)
    calm = [layer(X)[0].to_numpy() for layer in (deep, deep, single)]
    sx.autograd.training = True
    wild = [layer(X)[0].to_numpy() for layer in (deep, deep, single)]
    np.testing.assert_array_equal(calm[0], calm[1])
    assert np.abs(wild[0] - wild[1]).max() > 1e-3
    assert np.abs(wild[0] - calm[0]).max() > 1e-3
    np.testing.assert_allclose(wild[2], calm[2], rtol=1e-5, atol=1e-6)  # two programs: not to the last bit


@every_layer
def test_what_a_layer_hands_to_onnx(make: Any) -> None:
    """`onnx_weights` are the inputs of the operation, in ONNX's shapes."""
    layer = make(IN, H, num_layers=2, bidirectional=True)
    every, *_ = layer(X)
    x = X
    for number in range(2):
        W, R, b = layer.onnx_weights(number)
        rows = W.shape[1]
        assert (W.shape, R.shape) == ((2, rows, x.shape[-1]), (2, rows, H))
        assert b is not None
        assert b.shape == (2, 2 * rows)
        Y = layer.operation(x, W, R, b, direction="bidirectional", hidden_size=H)[0]
        x = np.concatenate([Y[:, 0], Y[:, 1]], axis=-1)
    np.testing.assert_allclose(every.to_numpy(), x, rtol=1e-5, atol=1e-6)
    bare = make(IN, H, bias=False)
    bare(X)
    assert bare.onnx_weights()[2] is None


class Holder(sx.Module):
    """A model that is one recurrent layer."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.rnn = layer

    def forward(self, *inputs: Any) -> Any:
        return self.rnn(*inputs)


class Classifier(sx.Module):
    """A deep bidirectional LSTM with dropout, and lengths, trained by the usual step."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = sx.layer.GRU(None, 6, num_layers=2, bidirectional=True, dropout=0.2, batch_first=True)
        self.head, self.loss = sx.layer.Linear(2), sx.layer.SoftMaxCrossEntropy()
        self.optimizer = sx.opt.Adam(lr=0.02)

    def forward(self, x: jax.Array, lengths: jax.Array) -> jax.Array:
        _, last = self.rnn(x, None, lengths)
        return self.head(jnp.concatenate([last[-2], last[-1]], axis=-1))

    def train_one_batch(self, x: sx.Tensor, lengths: sx.Tensor, y: sx.Tensor) -> sx.Tensor:
        loss = self.loss(self.forward(x, lengths), y)
        self.optimizer(loss)
        return loss


def test_training_a_deep_one_compiled(tmp_path: Any) -> None:
    """It learns the sign of the first input, compiles once, and its states come back from disk."""
    rng = np.random.default_rng(3)
    x, lengths = rng.normal(size=(16, 5, 2)).astype("float32"), rng.integers(1, 6, 16).astype("int32")
    y = (x[:, 0, 0] > 0).astype("int32")
    model = Classifier()
    model.compile([sx.Placeholder((16, 5, 2)), sx.Placeholder((16,), dtype=sx.int32)], use_graph=True)
    losses = [model(x, lengths, y).item() for _ in range(40)]
    assert np.mean(losses[-5:]) < 0.5 * losses[0]
    assert len(model.compilations) == 1
    assert "rnn.l1.reverse.Wh_n" in model.get_states()


def test_options_and_lengths_that_do_not_fit() -> None:
    for options in ({"dropout": -0.1}, {"dropout": True}, {"num_layers": 1.5}, {"input_size": 0}):
        with pytest.raises(ArgumentError, match="Received"):
            sx.layer.GRU(**{"input_size": IN, "hidden_size": H, **options})
    layer = sx.layer.GRU(IN, H, bidirectional=True)
    with pytest.raises(ShapeError, match=r"GRU.*h0 with shape \(2, 3, 2\)"):
        layer(X, np.zeros((B, H), "float32"))
    with pytest.raises(ShapeError, match="seq_lengths"):
        layer(X, None, LENGTHS[:2])
    with pytest.raises(DTypeError, match="integers"):
        layer(X, None, LENGTHS.astype("float32"))


def test_an_own_rnn_base() -> None:
    """RNN_Base is abstract."""
    with pytest.raises(NotImplementedError, match="step_forward"):
        sx.layer.RNN_Base(IN, H).step_forward()


def test_a_deep_layer_is_captured_as_operations() -> None:
    layer = sx.layer.LSTM(IN, H, num_layers=2, bidirectional=True)
    layer(X)
    init, apply = Holder(layer).functional()
    variables = init(0, X)
    with ops.capturing():
        jaxpr = jax.make_jaxpr(apply)(variables, X)
    captured = [e.params for e in jaxpr.eqns if e.primitive.name == "singax_operation"]
    lstms = [dict(p["attributes"]) for p in captured if p["operation"] is ops.lstm]
    assert lstms == [{"direction": "bidirectional", "hidden_size": H}] * 2
