"""RNN and LSTM: values, gradients, forms of a sequence, and one program whatever the number of steps."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import singax as sx
from singax import ops
from singax.errors import ArgumentError, ShapeError

T, B, IN, H = 4, 2, 3, 5
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(T, B, IN)).astype("float32")
H0, C0 = (RANDOM.normal(size=(B, H)).astype("float32") for _ in range(2))


def filled(layer: Any, *inputs: Any) -> dict[str, np.ndarray]:
    """Run the layer once, give every parameter (biases too) sizeable random values, and return them."""
    layer(*inputs)
    random = np.random.default_rng(1)
    for tensor in layer.get_params().values():
        tensor.copy_from_numpy(0.5 * random.normal(size=tensor.shape))
    return {name: tensor.to_numpy() for name, tensor in layer.get_params().items()}


def rnn_by_hand(p: dict[str, Any], x: Any, h: Any, f: Any) -> Any:
    every = []
    for step in x:
        h = f(step @ p["Wx"] + h @ p["Wh"] + p["b"])
        every.append(h)
    return jnp.stack(every), h


def lstm_by_hand(p: dict[str, Any], x: Any, h: Any, c: Any) -> Any:
    every = []
    for step in x:
        i, f, o, g = (step @ p[f"Wx_{k}"] + p[f"Bx_{k}"] + h @ p[f"Wh_{k}"] + p[f"Bh_{k}"] for k in "ifog")
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        every.append(h)
    return jnp.stack(every), h, c


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("name", "function"), [("tanh", jnp.tanh), ("relu", jax.nn.relu)])
def test_rnn_values(name: str, function: Any) -> None:
    layer = sx.layer.RNN(IN, H, nonlinearity=name)
    p = filled(layer, X, H0)
    every, last = layer(X, H0)
    wanted, wanted_last = rnn_by_hand(p, X, H0, function)
    close(every.data, wanted)
    close(last.data, wanted_last)


def test_lstm_values() -> None:
    layer = sx.layer.LSTM(IN, H)
    p = filled(layer, X)
    for got, wanted in zip(layer(X, (H0, C0)), lstm_by_hand(p, X, H0, C0), strict=True):
        close(got.data, wanted)


def test_initial_states_are_zeros_unless_given() -> None:
    layer = sx.layer.LSTM(IN, H)
    filled(layer, X)
    zeros = np.zeros((B, H), "float32")
    for got, wanted in zip(layer(X), layer(X, (zeros, zeros)), strict=True):
        close(got.data, wanted.data)


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_gradients(kind: str) -> None:
    layer = sx.layer.RNN(IN, H) if kind == "rnn" else sx.layer.LSTM(IN, H)
    p = filled(layer, X)
    x, h, c = (sx.Tensor(data=v) for v in (X, H0, C0))
    sx.autograd.training = True
    out = layer(x, h) if kind == "rnn" else layer(x, (h, c))
    total = sx.autograd.node(lambda *outs: sum(jnp.sum(jnp.sin(out)) for out in outs))(*out)
    names = {id(t): name for name, t in layer.get_params().items()}
    found = {names[id(t)]: g.to_numpy() for t, g in sx.autograd.backward(total)}

    def loss(p: Any) -> Any:
        outs = rnn_by_hand(p, X, H0, jnp.tanh) if kind == "rnn" else lstm_by_hand(p, X, H0, C0)
        return sum(jnp.sum(jnp.sin(out)) for out in outs)

    wanted = jax.jit(jax.grad(loss))(p)
    assert set(found) == set(wanted)
    for name in wanted:
        close(found[name], wanted[name])


def test_gradients_reach_the_input_and_the_states() -> None:
    layer = sx.layer.LSTM(IN, H)
    filled(layer, X)
    inputs = [sx.Tensor(data=v, stores_grad=True) for v in (X, H0, C0)]
    sx.autograd.training = True
    every, _, _ = layer(inputs[0], (inputs[1], inputs[2]))
    total = sx.autograd.node(jnp.sum)(every)
    grads = {id(t): g.to_numpy() for t, g in sx.autograd.backward(total)}
    assert all(np.abs(grads[id(t)]).sum() > 0 for t in inputs)


@pytest.mark.parametrize("make", [sx.layer.RNN, sx.layer.LSTM])
def test_list_form_equals_stacked_form(make: Any) -> None:
    layer = make(IN, H)
    filled(layer, X)
    every, *last = layer(X)
    listed, *listed_last = layer([sx.Tensor(data=step) for step in X])
    assert isinstance(listed, list)
    assert [step.shape for step in listed] == [(B, H)] * T
    close(np.stack([step.to_numpy() for step in listed]), every.data)
    for a, b in zip(last, listed_last, strict=True):
        close(a.data, b.data)


def test_a_list_of_steps_has_gradients() -> None:
    layer = sx.layer.RNN(IN, H)
    filled(layer, X)
    steps = [sx.Tensor(data=step, stores_grad=True) for step in X]
    sx.autograd.training = True
    listed, _ = layer(steps)
    total = sx.autograd.node(jnp.sum)(listed[1])
    grads = {id(t): g.to_numpy() for t, g in sx.autograd.backward(total)}
    assert np.abs(grads[id(steps[0])]).sum() > 0
    assert np.abs(grads[id(steps[3])]).sum() == 0


@pytest.mark.parametrize("make", [sx.layer.RNN, sx.layer.LSTM])
def test_batch_first(make: Any) -> None:
    layer, flipped = make(IN, H), make(IN, H, batch_first=True)
    filled(layer, X)
    filled(flipped, X.transpose(1, 0, 2))
    every, *last = layer(X)
    rows, *rows_last = flipped(X.transpose(1, 0, 2))
    close(rows.to_numpy().transpose(1, 0, 2), every.data)
    for a, b in zip(last, rows_last, strict=True):
        close(a.data, b.data)


def test_parameters_have_singas_names_shapes_and_initial_values() -> None:
    rnn, lstm = sx.layer.RNN(30, 40), sx.layer.LSTM(30, 40)
    x = np.zeros((1, 1, 30), "float32")
    rnn(x)
    lstm(x)
    assert {n: t.shape for n, t in rnn.get_params().items()} == {"Wx": (30, 40), "Wh": (40, 40), "b": (40,)}
    wanted = {f"{kind}_{gate}" for kind in ("Wx", "Wh", "Bx", "Bh") for gate in "ifog"}
    assert set(lstm.get_params()) == wanted
    assert lstm.Wx_g.shape == (30, 40)
    assert lstm.Wh_f.shape == (40, 40)
    assert lstm.Bx_o.shape == lstm.Bh_i.shape == (40,)
    assert 0.95 < rnn.Wx.to_numpy().std() < 1.05
    assert 0.0095 < lstm.Wh_i.to_numpy().std() < 0.0105
    assert not lstm.Bx_f.to_numpy().any()


@pytest.mark.parametrize("make", [sx.layer.RNN, sx.layer.LSTM])
def test_without_bias(make: Any) -> None:
    plain, biased = make(None, H, bias=False), make(None, H)
    p = filled(plain, X)
    assert not any(name.startswith("B") or name == "b" for name in p)
    filled(biased, X)
    biased.set_params({n: p.get(n, np.zeros(t.shape)) for n, t in biased.get_params().items()})
    close(plain(X)[0].data, biased(X)[0].data)


def test_the_orders_of_the_arguments_are_singas() -> None:
    rnn = sx.layer.RNN(3, 5, 1, "relu", False, True, 0, False)
    lstm = sx.layer.LSTM(3, 5, "tanh", 1, False, True, 0, False)
    assert (rnn.nonlinearity, rnn.bias, rnn.batch_first) == ("relu", False, True)
    assert (lstm.nonlinearity, lstm.bias, lstm.batch_first) == ("tanh", False, True)


@pytest.mark.parametrize("make", [sx.layer.RNN, sx.layer.LSTM])
@pytest.mark.parametrize(
    "options",
    [{"num_layers": 0}, {"dropout": 1.0}, {"dropout": "half"}, {"nonlinearity": "gelu"}, {"hidden_size": 0}],
)
def test_options_out_of_range_are_refused(make: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        make(**{"input_size": 3, "hidden_size": 5, **options})


def test_an_lstm_has_no_relu() -> None:
    with pytest.raises(ArgumentError, match="tanh"):
        sx.layer.LSTM(3, 5, nonlinearity="relu")


@pytest.mark.parametrize(
    "x", [np.ones((2, 3), "float32"), [], [np.ones((2, 3)), np.ones((1, 3))], np.ones((4, 2, 7), "float32")]
)
def test_inputs_that_do_not_fit(x: Any) -> None:
    for layer in (sx.layer.RNN(3, 5), sx.layer.LSTM(3, 5)):
        with pytest.raises(ShapeError):
            layer(x)


def test_states_that_do_not_fit() -> None:
    layer = sx.layer.LSTM(IN, H)
    layer(X)
    with pytest.raises(ArgumentError, match="pair"):
        layer(X, H0)
    with pytest.raises(ShapeError, match="c0"):
        layer(X, (H0, C0[:1]))
    with pytest.raises(ShapeError, match="expected steps"):
        layer(X[..., :2])


def equations(jaxpr: Any) -> int:
    """How many equations a jaxpr has, those of inner jaxprs included."""
    inner = [v for e in jaxpr.eqns for v in e.params.values() if hasattr(v, "eqns") or hasattr(v, "jaxpr")]
    return len(jaxpr.eqns) + sum(equations(getattr(v, "jaxpr", v)) for v in inner)


class Holder(sx.Module):
    """A model that is one recurrent layer."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.rnn = make(IN, H)

    def forward(self, x: Any) -> Any:
        return self.rnn(x)


@pytest.mark.parametrize("make", [sx.layer.RNN, sx.layer.LSTM])
def test_the_graph_does_not_grow_with_time(make: Any) -> None:
    forward, backward, listed = [], [], []
    for steps in (3, 30):
        init, apply = Holder(make).functional()
        x = np.ones((steps, B, IN), "float32")

        def loss(variables: Any, x: Any, apply: Any = apply) -> Any:
            return jnp.sum(apply(variables, x)[0])

        variables = init(0, x)
        forward.append(equations(jax.make_jaxpr(apply)(variables, x)))
        backward.append(equations(jax.make_jaxpr(jax.grad(loss))(variables, x)))
        listed.append(equations(jax.make_jaxpr(apply)(variables, list(x))))
    assert forward[0] == forward[1]
    assert backward[0] == backward[1] > forward[0]
    assert listed[0] == listed[1]


class Tagger(sx.Module):
    """An LSTM that is to remember the first input of a sequence."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.rnn, self.head = make(None, 8), sx.layer.Linear(1)
        self.loss, self.optimizer = sx.layer.MeanSquareError(), sx.opt.Adam(lr=0.03)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.head(self.rnn(x)[1])

    def train_one_batch(self, x: sx.Tensor, y: sx.Tensor) -> sx.Tensor:
        loss = self.loss(self.forward(x), y)
        self.optimizer(loss)
        return loss


@pytest.mark.parametrize("make", [sx.layer.RNN, sx.layer.LSTM])
def test_training_compiled_equals_eager_and_learns(make: Any) -> None:
    x = np.random.default_rng(3).normal(size=(5, 16, 2)).astype("float32")
    y = x[0, :, :1]
    histories = []
    for use_graph in (True, False):
        sx.device.set_seed(1)
        model = Tagger(make)
        model.compile([sx.Placeholder((5, 16, 2))], use_graph=use_graph)
        histories.append([model(x, y).item() for _ in range(30 if use_graph else 3)])
    np.testing.assert_allclose(histories[0][:3], histories[1], rtol=1e-4)
    assert histories[0][-1] < 0.7 * histories[0][0]


def test_a_new_length_is_a_new_program_and_the_same_parameters() -> None:
    model = Tagger(sx.layer.RNN)
    model.compile([sx.Placeholder((None, 4, 2))])
    y = np.zeros((4, 1), "float32")
    for steps in (3, 6, 3):
        model(np.ones((steps, 4, 2), "float32"), y)
    assert len(model.compilations) == 2


def test_half_precision_keeps_its_dtype() -> None:
    x = jnp.asarray(X, jnp.bfloat16)
    every, h, c = sx.layer.LSTM(IN, H)(x)
    assert every.dtype == h.dtype == c.dtype == sx.bfloat16


def test_a_layer_is_captured_as_its_operation_and_moved_weights() -> None:
    layer = sx.layer.LSTM(IN, H)
    layer(X)
    with ops.capturing():
        jaxpr = jax.make_jaxpr(lambda x: layer.infer_shape((T, B, IN)) and ops.lstm(x, *layer.onnx_weights()))(X)
    captured = [e.params["operation"].name for e in jaxpr.eqns if e.primitive.name == "singax_operation"]
    assert captured.count("lstm") == 1
    assert {e.primitive.name for e in jaxpr.eqns} == {"singax_operation"}
