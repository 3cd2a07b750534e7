"""Rows of the recurrent family; the reference is `recurrent_numpy`, one step and one sequence after another."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import recurrent_numpy as by_hand
from catalogue import Row, Spec, floats, integers

from singax import layer, ops

T, B, IN, H = 3, 2, 3, 2
RELU = by_hand.rnn_step(lambda v: np.maximum(v, 0))
LENGTHS = integers(B, low=1, high=T + 1)


def weights(gates: int, directions: int, states: int, lengths: Spec | None = None) -> list[Any]:
    """The inputs of an operation."""
    D, rows = directions, gates * H
    first = [floats(T, B, IN), floats(D, rows, IN), floats(D, rows, H), floats(D, 2 * rows), lengths]
    return [*first, *[floats(D, B, H)] * states]


def operation(name: str, note: str, step: Any, gates: int, states: int = 1, **attributes: Any) -> Row:
    """The row of an operation: both directions, sequences of different lengths."""
    inputs = weights(gates, 2, states, LENGTHS)
    return Row(
        f"ops.{name}",
        lambda: getattr(ops, name),
        inputs,
        functools.partial(by_hand.run, step, direction="bidirectional"),
        {"direction": "bidirectional", **attributes},
        rejects=[
            [floats(T, IN), *inputs[1:]],
            [*inputs[:4], integers(B + 1), *inputs[5:]],
            [inputs[0], floats(2, gates * H, IN + 1), *inputs[2:]],
        ],
        note=note,
    )


GATES = {"rnn": "b", "lstm": "iofg", "gru": "zrn"}  # in ONNX's order
STEPS = {"rnn": by_hand.rnn_step(), "lstm": by_hand.lstm_step, "gru": by_hand.gru_step()}


def onnx_weights(kind: str, states: dict[str, Any], layers: int, bidirectional: bool) -> list[Any]:
    """(W, R, b) of each layer from the states of RNN, LSTM or GRU, by their names."""

    def one(prefix: str) -> tuple[Any, Any, Any]:
        if kind == "rnn":
            W, R, b = (states[prefix + name] for name in ("Wx", "Wh", "b"))
            return W.T, R.T, np.concatenate([b, 0 * b])
        W, R, bx, bh = (
            np.concatenate([states[f"{prefix}{k}_{gate}"].T for gate in GATES[kind]]) for k in ("Wx", "Wh", "Bx", "Bh")
        )
        return W, R, np.concatenate([bx, bh])

    found = []
    for number in range(layers):
        prefix = f"l{number}." if number else ""
        directions = [one(prefix), one(prefix + "reverse.")] if bidirectional else [one(prefix)]
        found.append(tuple(np.stack(kind) for kind in zip(*directions, strict=True)))
    return found


def reference(kind: str, layers: int = 1, bidirectional: bool = False, listed: bool = False) -> Any:
    """The layer in NumPy: x, the initial states and the lengths → outputs and last states."""
    plain = layers == 1 and not bidirectional

    def run(states: dict[str, Any], x: Any, first: Any = None, lengths: Any = None) -> Any:
        first = () if first is None else first if kind == "lstm" else (first,)
        given = [s[None] if plain else s for s in first]
        weights = onnx_weights(kind, states, layers, bidirectional)
        every, *last = by_hand.run_layers(STEPS[kind], np.stack(x), weights, lengths, *given)
        return [*(every if listed else [every]), *(s[0] if plain else s for s in last)]

    return run


def cudnn_reference(mode: str, layers: int, bidirectional: bool, sequences: bool) -> Any:
    """CudnnRNN in NumPy: x (B, S, F) and lengths; the weights are cut out of W piece by piece."""
    step = {"lstm": by_hand.lstm_step, "gru": by_hand.gru_step(), "relu": RELU}[mode]
    order = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2], "relu": [0]}[mode]

    def run(states: dict[str, Any], x: Any, hx: Any = None, cx: Any = None, lengths: Any = None) -> Any:
        flat, D, G = states["W"], 1 + bidirectional, len(order)
        pieces: list[tuple[int, ...]] = []
        for number in range(layers):
            pieces += [(G, H, D * H if number else IN), (G, H, H)] * D
        pieces += [(G, H)] * (2 * D * layers)
        ends = np.cumsum([np.prod(shape) for shape in pieces])[:-1]
        cut = [part.reshape(shape)[order] for part, shape in zip(np.split(flat, ends), pieces, strict=True)]
        matrices, biases = cut[: 2 * D * layers], cut[2 * D * layers :]
        found = []
        for number in range(layers):
            own = slice(2 * D * number, 2 * D * (number + 1))
            W, R = (np.stack([m.reshape(-1, m.shape[-1]) for m in matrices[own][k::2]]) for k in (0, 1))
            b = np.stack(
                [
                    np.concatenate([p.ravel(), q.ravel()])
                    for p, q in zip(biases[own][::2], biases[own][1::2], strict=True)
                ]
            )
            found.append((W, R, b))
        every, *_ = by_hand.run_layers(
            step, x.transpose(1, 0, 2), found, lengths, hx, *([cx] if mode == "lstm" else [])
        )
        if sequences:
            return every.transpose(1, 0, 2)
        last = np.full(len(x), len(every)) if lengths is None else lengths
        return every[last - 1, np.arange(len(x))]

    return run


X, STATE, DEEP = floats(T, B, IN), floats(B, H), floats(4, B, H)
LISTED, BATCHES = [floats(B, IN)] * T, floats(B, T, IN)

ROWS = [
    operation("rnn", "tanh", by_hand.rnn_step(), 1),
    operation("rnn", "relu", RELU, 1, nonlinearity="relu"),
    operation("lstm", "", by_hand.lstm_step, 4, 2),
    operation("gru", "", by_hand.gru_step(), 3),
    operation("gru", "of the paper", by_hand.gru_step(False), 3, linear_before_reset=False),
    Row(
        "ops.cudnn_rnn",
        lambda: ops.cudnn_rnn,
        [X, floats(1, B, H), floats(1, B, H), floats(ops.CudnnLayout(IN, H).size), LENGTHS],
        lambda x, hx, cx, w, lengths: cudnn_reference("lstm", 1, False, False)(
            {"W": w}, x.transpose(1, 0, 2), hx, cx, lengths
        ),
        {"hidden_size": H, "return_sequences": False},
        rejects=[
            [floats(T, IN), None, None, floats(ops.CudnnLayout(IN, H).size)],
            [X, None, None, floats(7)],
            [X, floats(2, B, H), None, floats(ops.CudnnLayout(IN, H).size)],
        ],
    ),
    Row(
        "layer.RNN",
        lambda: layer.RNN(IN, H),
        [X, STATE],
        reference("rnn"),
        rejects=[[floats(T, IN)], [floats(T, B, IN + 1)], [X, floats(B, H + 1)], [X, STATE, floats(B)]],
    ),
    Row("layer.RNN", lambda: layer.RNN(None, H), [LISTED], reference("rnn", listed=True), note="list"),
    Row(
        "layer.RNN",
        lambda: layer.RNN(IN, H, num_layers=2, bidirectional=True),
        [X, DEEP, LENGTHS],
        reference("rnn", layers=2, bidirectional=True),
        note="deep",
    ),
    Row(
        "layer.LSTM",
        lambda: layer.LSTM(IN, H),
        [X, [STATE, STATE]],
        reference("lstm"),
        rejects=[[floats(T, IN)], [floats(T, B, IN + 1)], [X, [STATE, floats(1, H)]], [X, STATE]],
    ),
    Row(
        "layer.LSTM",
        lambda: layer.LSTM(IN, H, num_layers=2, bidirectional=True),
        [X, [DEEP, DEEP], LENGTHS],
        reference("lstm", layers=2, bidirectional=True),
        note="deep",
    ),
    Row(
        "layer.LSTM",
        lambda: layer.LSTM(IN, H, num_layers=2, dropout=0.5, batch_first=True),
        [BATCHES],
        training=True,
        random=True,
        note="dropout",
    ),
    Row(
        "layer.GRU",
        lambda: layer.GRU(IN, H),
        [X, STATE],
        reference("gru"),
        rejects=[[floats(T, IN)], [floats(T, B, IN + 1)], [X, floats(B, H + 1)]],
    ),
    Row(
        "layer.GRU",
        lambda: layer.GRU(IN, H, num_layers=2, bidirectional=True),
        [X, DEEP, LENGTHS],
        reference("gru", layers=2, bidirectional=True),
        note="deep",
    ),
    Row(
        "layer.CudnnRNN",
        lambda: layer.CudnnRNN(H),
        [BATCHES],
        cudnn_reference("lstm", 1, False, True),
        rejects=[[floats(B, IN)], [floats(B, T, IN + 1)], [BATCHES, STATE], [BATCHES, None, None, integers(B + 1)]],
    ),
    Row(
        "layer.CudnnRNN",
        lambda: layer.CudnnRNN(
            H, num_layers=2, bidirectional=True, rnn_mode="gru", use_mask=True, return_sequences=False
        ),
        [BATCHES, DEEP, DEEP, LENGTHS],
        cudnn_reference("gru", 2, True, False),
        note="gru",
    ),
    Row(
        "layer.CudnnRNN",
        lambda: layer.CudnnRNN(H, activation="relu", num_layers=2, rnn_mode="vanilla"),
        [BATCHES],
        cudnn_reference("relu", 2, False, True),
        note="relu",
    ),
]
