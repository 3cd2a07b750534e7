"""RNN, LSTM and GRU in NumPy, one step and one sequence of the batch after another, with ONNX's weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def rnn_step(f: Callable[..., Any] = np.tanh) -> Callable[..., Arrays]:
    def step(x: Any, state: Arrays, W: Any, R: Any, b: Any) -> Arrays:
        bW, bR = np.split(b, 2)
        return (f(W @ x + R @ state[0] + bW + bR),)

    return step


def lstm_step(x: Any, state: Arrays, W: Any, R: Any, b: Any) -> Arrays:
    bW, bR = np.split(b, 2)
    i, o, f, g = np.split(W @ x + R @ state[0] + bW + bR, 4)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(linear_before_reset: bool = True) -> Callable[..., Arrays]:
    def step(x: Any, state: Arrays, W: Any, R: Any, b: Any) -> Arrays:
        (h,) = state
        (Wz, Wr, Wn), (Rz, Rr, Rn) = np.split(W, 3), np.split(R, 3)
        bz, br, bn, cz, cr, cn = np.split(b, 6)
        z, r = sigmoid(Wz @ x + bz + Rz @ h + cz), sigmoid(Wr @ x + br + Rr @ h + cr)
        moved = r * (Rn @ h + cn) if linear_before_reset else Rn @ (r * h) + cn
        return ((1 - z) * np.tanh(Wn @ x + bn + moved) + z * h,)

    return step


def run(
    step: Callable[..., Arrays],
    x: np.ndarray,
    W: np.ndarray,
    R: np.ndarray,
    b: np.ndarray | None = None,
    seq_lengths: np.ndarray | None = None,
    *states: np.ndarray | None,
    direction: str = "forward",
) -> Arrays:
    """ONNX's outputs: Y (T, D, B, H), then the last states (D, B, H)."""
    (T, B, _), (D, rows, H) = x.shape, R.shape
    b = np.zeros((D, 2 * rows)) if b is None else b
    lengths = np.full(B, T) if seq_lengths is None else np.minimum(seq_lengths, T)
    kinds = 2 if step is lstm_step else 1
    given = [*states, *[None] * kinds][:kinds]
    last = [np.zeros((D, B, H)) if s is None else np.array(s, np.float64) for s in given]
    every = np.zeros((T, D, B, H))
    reverses = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    for d, reverse in enumerate(reverses):
        for n in range(B):
            state = tuple(s[d, n] for s in last)
            times = range(lengths[n])
            for t in reversed(times) if reverse else times:
                state = step(x[t, n], state, W[d], R[d], b[d])
                every[t, d, n] = state[0]
            for s, value in zip(last, state, strict=True):
                s[d, n] = value
    return (every, *last)


def run_layers(step: Any, x: Any, weights: Any, seq_lengths: Any, *states: Any) -> Arrays:
    """Layers on top of one another: outputs (T, B, D · H), last states (L · D, B, H)."""
    finals = []
    D = weights[0][0].shape[0]
    for k, (W, R, b) in enumerate(weights):
        first = [None if s is None else s[k * D : (k + 1) * D] for s in states]
        direction = "bidirectional" if D == 2 else "forward"
        every, *last = run(step, x, W, R, b, seq_lengths, *first, direction=direction)
        x = np.concatenate([every[:, d] for d in range(D)], axis=-1)
        finals.append(last)
    return (x, *(np.concatenate(kind) for kind in zip(*finals, strict=True)))
