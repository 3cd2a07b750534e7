"""CudnnRNN and its flat weights."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import rnn as jax_rnn

import singax as sx
from singax import ops
from singax.errors import ArgumentError, ShapeError

B, S, F, H = 3, 4, 3, 2
X = np.random.default_rng(0).normal(size=(B, S, F)).astype("float32")
LENGTHS = np.array([2, 4, 1], np.int32)


@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True), (3, False)])
def test_the_layout_is_that_of_jax_for_cudnn(layers: int, bidirectional: bool) -> None:
    """JAX hands its flat weights to cuDNN, and has a reference in plain JAX."""
    layout = ops.CudnnLayout(F, H, "lstm", layers, bidirectional)
    assert layout.size == jax_rnn.get_num_params_in_lstm(F, H, layers, bidirectional)
    rng, D = np.random.default_rng(1), 1 + bidirectional
    w = rng.normal(size=layout.size).astype("float32")
    h, c = rng.normal(size=(2, layers * D, B, H)).astype("float32")
    parts = jax_rnn.unpack_lstm_weights(jnp.asarray(w), F, H, layers, bidirectional)
    wanted, *_ = jax_rnn.lstm_ref(X, h, c, *parts, np.full(B, S, np.int32), F, H, layers, 0.0, bidirectional)
    options = {"hidden_size": H, "num_layers": layers, "bidirectional": bidirectional}
    got = ops.cudnn_rnn(X.transpose(1, 0, 2), h, c, w, **options)
    np.testing.assert_allclose(got.transpose(1, 0, 2), wanted, rtol=2e-5, atol=2e-6)


def test_the_size_of_the_layout_of_each_mode() -> None:
    for mode, gates in (("vanilla", 1), ("relu", 1), ("gru", 3), ("lstm", 4)):
        with_bias = ops.CudnnLayout(F, H, mode).size
        assert with_bias == gates * H * (F + H + 2)
        assert ops.CudnnLayout(F, H, mode, bias=False).size == gates * H * (F + H)


def test_initial_weights() -> None:
    layer = sx.layer.CudnnRNN(50)
    layer(X)
    assert list(layer.get_params()) == ["W"]
    w, bound = layer.W.to_numpy(), 1 / math.sqrt(50)
    assert w.shape == (4 * 50 * (F + 50 + 2),)
    assert np.abs(w).max() <= bound
    assert 0.98 < w.std() / (bound / math.sqrt(3)) < 1.02


@pytest.mark.parametrize("mode", ["lstm", "gru", "tanh"])
def test_it_equals_the_layer_of_that_kind(mode: str) -> None:
    """With the weights of LSTM, GRU or RNN the outputs are theirs."""
    flat = sx.layer.CudnnRNN(H, rnn_mode=mode, num_layers=2, bidirectional=True)
    y = flat(X, None, None, LENGTHS)
    kind = {"lstm": sx.layer.LSTM, "gru": sx.layer.GRU, "tanh": sx.layer.RNN}[mode]
    layer = kind(F, H, num_layers=2, bidirectional=True, batch_first=True)
    layer(X)
    for number in range(2):
        _set_from_onnx(layer, number, flat.onnx_weights(number), layer.onnx_gates if mode != "tanh" else "")
    np.testing.assert_allclose(y.to_numpy(), layer(X, None, LENGTHS)[0].to_numpy(), rtol=1e-5, atol=1e-6)


def _set_from_onnx(layer: Any, number: int, weights: Any, gates: str) -> None:
    for d, direction in enumerate(("", "reverse.")):
        prefix = f"l{number}.{direction}" if number else direction
        W, R, b = (np.asarray(w[d]) for w in weights)
        if not gates:
            values = {"Wx": W.T, "Wh": R.T, "b": sum(np.split(b, 2))}
        else:
            kinds = {"Wx": np.split(W, len(gates)), "Wh": np.split(R, len(gates))}
            kinds |= dict(zip(("Bx", "Bh"), (np.split(half, len(gates)) for half in np.split(b, 2)), strict=True))
            values = {
                f"{kind}_{gate}": v.T for kind, parts in kinds.items() for gate, v in zip(gates, parts, strict=True)
            }
        layer.set_params({prefix + name: value for name, value in values.items()})


def test_the_last_step_is_each_sequences_own() -> None:
    every, last = (sx.layer.CudnnRNN(H, bidirectional=True, return_sequences=flag) for flag in (True, False))
    outputs, _ = every(X, None, None, LENGTHS), last(X)
    last.set_params({"W": every.W})
    ends = last(X, None, None, LENGTHS)
    np.testing.assert_array_equal(ends.to_numpy(), outputs.to_numpy()[np.arange(B), LENGTHS - 1])
    np.testing.assert_array_equal(last(X).to_numpy(), every(X).to_numpy()[:, -1])


def test_time_first_and_without_bias() -> None:
    layer, flipped = (sx.layer.CudnnRNN(H, bias=False, batch_first=flag, rnn_mode="gru") for flag in (True, False))
    a, _ = layer(X), flipped(X.transpose(1, 0, 2))
    flipped.set_params({"W": layer.W})
    b = flipped(X.transpose(1, 0, 2))
    assert b.shape == (S, B, H)
    np.testing.assert_allclose(a.to_numpy().transpose(1, 0, 2), b.to_numpy(), rtol=1e-6)
    assert layer.onnx_weights()[2] is None


def test_dropout_only_while_training() -> None:
    layer = sx.layer.CudnnRNN(20, num_layers=2, dropout=0.5)
    calm = layer(X).to_numpy()
    np.testing.assert_array_equal(calm, layer(X).to_numpy())
    sx.autograd.training = True
    assert np.abs(layer(X).to_numpy() - calm).max() > 1e-3


def test_gradients_reach_the_flat_weights() -> None:
    layer = sx.layer.CudnnRNN(H, num_layers=2, bidirectional=True)
    layer(X)
    sx.autograd.training = True
    total = sx.autograd.node(jnp.sum)(layer(X))
    ((parameter, gradient),) = sx.autograd.backward(total)
    assert parameter is layer.W
    assert np.all(gradient.to_numpy() != 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rnn_mode": "transformer"}, "rnn_mode must be one of"),
        ({"activation": "relu"}, "activation must be"),
        ({"activation": "gelu", "rnn_mode": "vanilla"}, "activation must be"),
        ({"num_layers": 0}, "num_layers"),
        ({"dropout": 1}, "dropout"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=f"{words}.*Received"):
        sx.layer.CudnnRNN(**{"hidden_size": H, **options})


def test_calls_that_do_not_fit() -> None:
    masked = sx.layer.CudnnRNN(H, use_mask=True)
    with pytest.raises(ArgumentError, match="use_mask goes with seq_lengths"):
        masked(X)
    layer = sx.layer.CudnnRNN(H)
    layer(X)
    with pytest.raises(ShapeError, match="F = 3"):
        layer(X[..., :2])
    with pytest.raises(ShapeError, match=r"h0 with shape \(1, 3, 2\)"):
        layer(X, X[0])
    with pytest.raises(ArgumentError, match="rnn_mode"):
        ops.cudnn_rnn(X, None, None, layer.W.data, hidden_size=H, rnn_mode="none")
