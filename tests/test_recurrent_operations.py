"""rnn, lstm, gru: values and gradients against NumPy, and their ONNX twins under onnx.reference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx.checker
import onnx.helper
import onnx.reference
import pytest
import recurrent_numpy as by_hand

from singax import ops
from singax.errors import ArgumentError, DTypeError, ShapeError, SingaxError

T, B, IN, H = 5, 3, 4, 2
LENGTHS = np.array([3, 5, 1], np.int32)
DIRECTIONS = ("forward", "reverse", "bidirectional")

KINDS: dict[str, tuple[ops.Operation, dict[str, Any], Callable[..., Any], int, int]] = {
    "tanh": (ops.rnn, {}, by_hand.rnn_step(), 1, 1),
    "relu": (ops.rnn, {"nonlinearity": "relu"}, by_hand.rnn_step(lambda v: np.maximum(v, 0)), 1, 1),
    "lstm": (ops.lstm, {}, by_hand.lstm_step, 4, 2),
    "gru": (ops.gru, {}, by_hand.gru_step(), 3, 1),
    "gru of the paper": (ops.gru, {"linear_before_reset": False}, by_hand.gru_step(False), 3, 1),
}


def arrays(kind: str, direction: str, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """x, W, R, b and the initial states."""
    *_, gates, states = KINDS[kind]
    D, rng = 1 + (direction == "bidirectional"), np.random.default_rng(4)
    shapes = {"x": (T, B, IN), "W": (D, gates * H, IN), "R": (D, gates * H, H), "b": (D, 2 * gates * H)}
    shapes |= dict.fromkeys("hc"[:states], (D, B, H))
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def both(kind: str, direction: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Ours and NumPy's as functions of (x, W, R, b, lengths, *states)."""
    operation, attributes, step, *_ = KINDS[kind]
    ours = jax.jit(functools.partial(operation, direction=direction, **attributes))
    return ours, functools.partial(by_hand.run, step, direction=direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_values(kind: str, direction: str) -> None:
    x, W, R, b, *states = arrays(kind, direction).values()
    ours, numpy = both(kind, direction)
    for inputs in [(x, W, R), (x, W, R, b, LENGTHS, *states), (x, W, R, b, None, *states)]:
        for got, wanted in zip(ours(*inputs), numpy(*inputs), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_numpys_finite_differences(kind: str, direction: str, lengths: Any) -> None:
    """To every input, along random directions, of a random combination of all results."""
    given = arrays(kind, direction, np.float64)
    ours, numpy = both(kind, direction)
    rng = np.random.default_rng(5)
    factors = [rng.normal(size=v.shape) for v in call(numpy, given, lengths)]

    def total(function: Any, values: dict[str, Any]) -> Any:
        return sum((f * v).sum() for f, v in zip(factors, call(function, values, lengths), strict=True))

    with jax.enable_x64(True):
        gradients = jax.jit(jax.grad(lambda values: total(ours, values)))(given)
    for name, gradient in gradients.items():
        move = rng.normal(size=gradient.shape)
        above, below = (total(numpy, {**given, name: given[name] + step * move}) for step in (1e-6, -1e-6))
        np.testing.assert_allclose(np.vdot(gradient, move), (above - below) / 2e-6, rtol=1e-6, atol=1e-7)


def call(function: Any, values: dict[str, Any], lengths: Any) -> Any:
    first, states = (values[name] for name in "xWRb"), (values[name] for name in "hc" if name in values)
    return function(*first, lengths, *states)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_second_derivatives_and_forward_mode(kind: str) -> None:
    """Reverse over reverse, forward over reverse, and the tangent of the value, all without a special case."""
    x, W, R, b, *states = arrays(kind, "bidirectional", np.float64).values()
    ours, _ = both(kind, "bidirectional")

    def total(R: Any) -> Any:
        return jnp.sum(jnp.sin(ours(x, W, R, b, LENGTHS, *states)[0]))

    move = np.random.default_rng(6).normal(size=R.shape)
    with jax.enable_x64(True):
        slope = jax.jit(lambda R: jnp.vdot(jax.grad(total)(R), move))
        wanted = (slope(R + 1e-5 * move) - slope(R - 1e-5 * move)) / 2e-5
        np.testing.assert_allclose(jax.jit(lambda R: jax.jvp(total, (R,), (move,))[1])(R), slope(R), rtol=1e-9)
        np.testing.assert_allclose(jnp.vdot(jax.jit(jax.grad(slope))(R), move), wanted, rtol=1e-6)
        np.testing.assert_allclose(jax.jit(lambda R: jax.jvp(slope, (R,), (move,))[1])(R), wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", ["tanh", "lstm", "gru"])
def test_gradients_under_vmap_checkpoint_and_scan(kind: str) -> None:
    x, W, R, b, *states = arrays(kind, "forward").values()
    ours, _ = both(kind, "forward")

    def total(R: Any, x: Any) -> Any:
        return jnp.sum(jnp.sin(ours(x, W, R, b, LENGTHS, *states)[0]))

    xs = jnp.stack([x, 2 * x])
    one_by_one = jax.jit(lambda R: jnp.stack([jax.grad(total)(R, x) for x in xs]))(R)
    together = jax.jit(jax.vmap(jax.grad(total), (None, 0)))(R, xs)
    kept = jax.jit(lambda R: jnp.stack([jax.grad(jax.checkpoint(total))(R, x) for x in xs]))(R)
    scanned = jax.jit(jax.grad(lambda R: jax.lax.scan(lambda sum, x: (sum + total(R, x), None), 0.0, xs)[0]))(R)
    np.testing.assert_allclose(together, one_by_one, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(kept, one_by_one, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scanned, one_by_one.sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "relu"])  # onnx.reference has no Relu in RNN
def test_the_twin_computes_the_same(kind: str, direction: str) -> None:
    x, W, R, b, *states = arrays(kind, direction).values()
    operation, attributes, *_ = KINDS[kind]
    attributes = {"direction": direction, "hidden_size": H, **attributes}
    names = ["x", "W", "R", "b", "", "h", "c"][: 5 + len(states)]
    feeds = dict(zip([n for n in names if n], (x, W, R, b, *states), strict=True))
    ours = operation(x, W, R, b, None, *states, **attributes)
    for got, wanted in zip(ours, onnx_run(operation, names, feeds, attributes), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)


def onnx_run(operation: ops.Operation, names: list[str], feeds: dict[str, Any], attributes: dict[str, Any]) -> Any:
    twin, results = operation.twin, ["Y", "Y_h", "Y_c"][: 3 if operation is ops.lstm else 2]
    assert twin.op_type is not None
    node = onnx.helper.make_node(twin.op_type, names, results, **twin.convert(attributes))
    ranks = {**{name: value.ndim for name, value in feeds.items()}, "Y": 4, "Y_h": 3, "Y_c": 3}
    infos = {
        n: onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [None] * ndim) for n, ndim in ranks.items()
    }
    graph = onnx.helper.make_graph([node], "twin", [infos[n] for n in feeds], [infos[n] for n in results])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    onnx.checker.check_model(model)
    return onnx.reference.ReferenceEvaluator(model).run(None, feeds)


def test_twins_say_everything_an_exporter_needs() -> None:
    assert ops.rnn.twin.convert({"nonlinearity": "relu", "hidden_size": 3, "direction": "bidirectional"}) == {
        "direction": "bidirectional",
        "hidden_size": 3,
        "activations": ["Relu", "Relu"],
    }
    assert ops.lstm.twin.convert({})["activations"] == ["Sigmoid", "Tanh", "Tanh"]
    assert ops.gru.twin.convert({})["linear_before_reset"] == 1
    assert ops.gru.twin.convert({"linear_before_reset": False})["linear_before_reset"] == 0


def test_lengths_beyond_the_steps_and_of_zero() -> None:
    x, W, R, b, h, c = arrays("lstm", "forward").values()
    every, last, _ = ops.lstm(x, W, R, b, np.array([9, 5, 0]), h, c)
    full, _, _ = ops.lstm(x, W, R, b, None, h, c)
    np.testing.assert_allclose(every[:, :, :2], full[:, :, :2], rtol=1e-6, atol=1e-7)  # two programs round differently
    np.testing.assert_array_equal(every[:, :, 2], 0)
    np.testing.assert_array_equal(last[:, 2], h[:, 2])


def test_dtypes() -> None:
    x, W, R, b, h, c = arrays("lstm", "forward").values()
    narrow = [v.astype(jnp.bfloat16) for v in (x, W, R, b)]
    assert {v.dtype for v in ops.lstm(*narrow)} == {jnp.dtype(jnp.bfloat16)}
    assert {v.dtype for v in ops.lstm(narrow[0], W, R, b, None, h, c)} == {jnp.dtype("float32")}
    assert ops.rnn(np.ones((T, B, IN), "int32"), W[:, :H], R[:, :H])[0].dtype == jnp.float32


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"x": np.ones((T, B))}, ShapeError, r"lstm expected x \(T, B, in\)"),
        ({"x": np.ones((0, B, IN))}, ShapeError, "at least one step"),
        ({"x": np.ones((T, B, IN + 1))}, ShapeError, "lstm expected W with shape"),
        ({"W": np.ones((1, 3 * H, IN))}, ShapeError, "expected W"),
        ({"R": np.ones((2, 4 * H, H))}, ShapeError, "expected R"),
        ({"b": np.ones((1, 4 * H))}, ShapeError, "expected b"),
        ({"c": np.ones((B, H))}, ShapeError, "expected c0"),
        ({"seq_lengths": np.ones((B + 1,), int)}, ShapeError, "expected seq_lengths"),
        ({"seq_lengths": np.ones((B,))}, DTypeError, "integers as seq_lengths"),
        ({"direction": "backward"}, ArgumentError, "expected direction among 'forward'"),
        ({"hidden_size": H + 1}, ShapeError, "for hidden_size 3"),
    ],
)
def test_inputs_that_do_not_fit(changed: dict[str, Any], error: type[SingaxError], words: str) -> None:
    attributes = {k: v for k, v in changed.items() if k in ("direction", "hidden_size")}
    given = {**arrays("lstm", "forward"), "seq_lengths": LENGTHS}
    given |= {k: np.asarray(v) for k, v in changed.items() if k not in attributes}
    with pytest.raises(error, match=f"{words}.*Received"):
        ops.lstm(*(given[k] for k in ("x", "W", "R", "b", "seq_lengths", "h", "c")), **attributes)


def test_an_unknown_nonlinearity() -> None:
    x, W, R, *_ = arrays("tanh", "forward").values()
    with pytest.raises(ArgumentError, match="rnn expected nonlinearity"):
        ops.rnn(x, W, R, nonlinearity="gelu")
