"""Recurrent operations, with ONNX's inputs in ONNX's order and layout.

x (T, B, in); for D directions (1, or 2 for "bidirectional") and G gates W (D, G · H, in), R (D, G · H, H) and
b (D, 2 · G · H), the biases of the input first, then those of the state; seq_lengths (B,); h (D, B, H). Results are all
outputs (T, D, B, H) and the last state (D, B, H). Absent biases and states are zeros. A sequence shorter than T puts
out zeros after its end, its last state is the one at its end, and backwards it starts there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from singax.errors import ShapeError
from singax.ops import recurrent_cells as cells
from singax.ops.checks import one_of
from singax.ops.operation import operation
from singax.ops.recurrent_cells import Arrays
from singax.ops.recurrent_checks import check_lengths, check_sequence, check_states, expect_shape
from singax.ops.recurrent_scan import run_cell, scan_steps

Array = jax.Array

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_RNN_CELLS = {"tanh": cells.TANH, "relu": cells.RELU}
_ONNX_NAMES = {"tanh": "Tanh", "relu": "Relu"}


def _attributes(keywords: dict[str, Any]) -> dict[str, Any]:
    """The ONNX attributes that all three operators have."""
    size = keywords.get("hidden_size")
    return {"direction": keywords.get("direction", "forward")} | ({} if size is None else {"hidden_size": size})


def _activations(keywords: dict[str, Any], *names: str) -> dict[str, Any]:
    return {"activations": list(names) * len(_DIRECTIONS[keywords.get("direction", "forward")])}


def _rnn_attributes(keywords: dict[str, Any]) -> dict[str, Any]:
    return _attributes(keywords) | _activations(keywords, _ONNX_NAMES[keywords.get("nonlinearity", "tanh")])


def _lstm_attributes(keywords: dict[str, Any]) -> dict[str, Any]:
    return _attributes(keywords) | _activations(keywords, "Sigmoid", "Tanh", "Tanh")


def _gru_attributes(keywords: dict[str, Any]) -> dict[str, Any]:
    form = {"linear_before_reset": int(keywords.get("linear_before_reset", True))}
    return _attributes(keywords) | _activations(keywords, "Sigmoid", "Tanh") | form


@operation("RNN", attributes=_rnn_attributes)
def rnn(
    x: Array,
    W: Array,
    R: Array,
    b: Array | None = None,
    seq_lengths: Array | None = None,
    h: Array | None = None,
    *,
    nonlinearity: str = "tanh",
    direction: str = "forward",
    hidden_size: int | None = None,
) -> tuple[Array, Array]:
    """Elman's network: h ← f(x_t · Wᵀ + h · Rᵀ + b), f being tanh or relu. Shapes: see the module."""
    one_of("rnn", "nonlinearity", nonlinearity, tuple(_RNN_CELLS))
    run = functools.partial(run_cell, _RNN_CELLS[nonlinearity])
    return in_directions("rnn", run, (x, W, R, b, seq_lengths), (h,), 1, direction, hidden_size)


@operation("LSTM", attributes=_lstm_attributes)
def lstm(
    x: Array,
    W: Array,
    R: Array,
    b: Array | None = None,
    seq_lengths: Array | None = None,
    h: Array | None = None,
    c: Array | None = None,
    *,
    direction: str = "forward",
    hidden_size: int | None = None,
) -> tuple[Array, Array, Array]:
    """Long short-term memory (Hochreiter and Schmidhuber 1997): c ← σ(f) · c + σ(i) · tanh(g), h ← σ(o) · tanh(c).

    [i, o, f, g] = x_t · Wᵀ + h · Rᵀ + b, in ONNX's order of the gates. c is like h. Shapes: see the module.
    """
    run = functools.partial(run_cell, cells.LSTM)
    return in_directions("lstm", run, (x, W, R, b, seq_lengths), (h, c), 4, direction, hidden_size)


@operation("GRU", attributes=_gru_attributes)
def gru(
    x: Array,
    W: Array,
    R: Array,
    b: Array | None = None,
    seq_lengths: Array | None = None,
    h: Array | None = None,
    *,
    linear_before_reset: bool = True,
    direction: str = "forward",
    hidden_size: int | None = None,
) -> tuple[Array, Array]:
    """Gated recurrent unit (Cho et al. 2014): h ← (1 − z) · n + z · h, the gates standing in ONNX's order z, r, n.

    z and r are σ(x_t · Wᵀ + h · Rᵀ + b). n = tanh(x_t · Wₙᵀ + bₙ + r · (h · Rₙᵀ + b'ₙ)), as cuDNN and PyTorch have it;
    without `linear_before_reset` tanh(x_t · Wₙᵀ + bₙ + (r · h) · Rₙᵀ + b'ₙ), the form of the paper. Shapes: see the
    module.
    """
    run = functools.partial(run_cell, cells.GRU) if linear_before_reset else _gru_of_the_paper
    return in_directions("gru", run, (x, W, R, b, seq_lengths), (h,), 3, direction, hidden_size)


def _gru_of_the_paper(
    reverse: bool, x: Array, W: Array, R: Array, b: Array, state: Arrays, running: Array | None
) -> tuple[Array, Arrays]:
    """What `run_cell` does, for a cell that multiplies with a matrix after its gates; JAX's own derivative."""
    split = 2 * R.shape[1]
    W, (of_input, of_state) = W.T, jnp.split(b, 2)
    R_zr, R_n, bias = R[:split].T, R[split:].T, of_input + of_state

    def step(state: Arrays, x: Array) -> tuple[Arrays, None]:
        (h,), gates = state, x @ W + bias
        z, r = jnp.split(jax.nn.sigmoid(gates[:, :split] + h @ R_zr), 2, axis=1)
        n = jnp.tanh(gates[:, split:] + (r * h) @ R_n)
        return ((1 - z) * n + z * h,), None

    every, last, _ = scan_steps(step, state, x, running, reverse)
    return every, last


def in_directions(
    name: str,
    run: Callable[..., tuple[Array, Arrays]],
    arrays: tuple[Any, ...],
    states: Sequence[Array | None],
    gates: int,
    direction: str,
    hidden_size: int | None,
) -> Any:
    """Check everything, run each direction and stack the results: (T, D, B, H), then the states (D, B, H)."""
    x, W, R, b, seq_lengths = arrays
    one_of(name, "direction", direction, tuple(_DIRECTIONS))
    reverses = _DIRECTIONS[direction]
    _check(name, arrays, states, gates, len(reverses), hidden_size)
    dtype = jnp.result_type(x, W, float)
    H = R.shape[-1]
    b = jnp.zeros((len(reverses), 2 * gates * H), dtype) if b is None else b
    starts = [jnp.zeros((len(reverses), x.shape[1], H), dtype) if s is None else jnp.asarray(s, dtype) for s in states]
    x, W, R, b = (jnp.asarray(v, dtype) for v in (x, W, R, b))
    running = None
    if seq_lengths is not None:
        running = (jnp.arange(x.shape[0])[:, None] < seq_lengths)[..., None]
        x = jnp.where(running, x, 0)  # what stands in the padding, nan for example, must not reach a gradient
    runs = [
        run(reverse, x, W[d], R[d], b[d], tuple(s[d] for s in starts), running) for d, reverse in enumerate(reverses)
    ]
    every = jnp.stack([every for every, _ in runs], axis=1)
    return (every, *(jnp.stack(last) for last in zip(*(last for _, last in runs), strict=True)))


def _check(
    name: str, arrays: Any, states: Sequence[Array | None], gates: int, directions: int, hidden_size: int | None
) -> None:
    x, W, R, b, seq_lengths = arrays
    expect = functools.partial(expect_shape, name)
    check_sequence(name, x)
    H = jnp.shape(R)[-1] if jnp.ndim(R) else 0
    if hidden_size not in (None, H):
        raise ShapeError(f"{name} expected R for hidden_size {hidden_size}. Received: shape {jnp.shape(R)}")
    expect("W", W, (directions, gates * H, x.shape[2]))
    expect("R", R, (directions, gates * H, H))
    expect("b", b, (directions, 2 * gates * H), optional=True)
    check_lengths(name, seq_lengths, x.shape[1])
    check_states(name, states, (directions, x.shape[1], H))
