"""An LSTM whose weights are in 8 bits and whose inputs and states are quantised as they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.errors import ArgumentError
from singax.sonnx.operators.indices import within
from singax.sonnx.operators.integer_products import integer_matmul
from singax.sonnx.operators.quantized import MICROSOFT, quantized_dynamically
from singax.sonnx.registry import Call, onnx_operator

Array = Any

_DEFAULT = ["Sigmoid", "Tanh", "Tanh"]
_REVERSES = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@onnx_operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(
    call: Call,
    x: Array,
    W: Array,
    R: Array,
    bias: Array,
    lengths: Array,
    h: Array,
    c: Array,
    peepholes: Array,
    W_scale: Array,
    W_zero: Array,
    R_scale: Array,
    R_zero: Array,
) -> tuple[Array, Array, Array]:
    """LSTM of x (T, N, C) with W (D, C, 4 H) and R (D, H, 4 H): all states (T, D, N, H), and the last of both kinds."""
    reverses = _REVERSES[call.attribute("direction", "forward")]
    _check(call, peepholes, len(reverses))
    x = jnp.asarray(x)
    H, (T, N, _) = R.shape[1], x.shape
    within(call, lengths, 0, T, "sequence_lens")
    zeros = jnp.zeros((len(reverses), N, H), x.dtype)
    h, c = (zeros if state is None else jnp.asarray(state) for state in (h, c))
    results = []
    for at, reverse in enumerate(reverses):
        times_W, times_R = (
            _multiplier(*(jnp.asarray(v)[at] for v in values))
            for values in ((W, W_scale, W_zero), (R, R_scale, R_zero))
        )
        shift = 0 if bias is None else jnp.sum(jnp.asarray(bias)[at].reshape(2, -1), axis=0)
        gates = times_W(x.reshape(T * N, -1)).reshape(T, N, -1) + shift
        if not reverse:
            results.append(_run(times_R, gates, h[at], c[at], lengths))
        else:
            y, last_h, last_c = _run(times_R, _turned(gates, lengths), h[at], c[at], lengths)
            results.append((_turned(y, lengths), last_h, last_c))
    y, last_h, last_c = (
        jnp.stack(values, axis) for values, axis in zip(zip(*results, strict=True), (1, 0, 0), strict=True)
    )
    return y, last_h, last_c


def _check(call: Call, peepholes: Array, directions: int) -> None:
    other = [name for name in ("clip", "input_forget") if call.attribute(name)]
    if (
        peepholes is not None
        or other
        or (call.attribute("activations") or _DEFAULT * directions) != _DEFAULT * directions
    ):
        raise ArgumentError(
            "expected a DynamicQuantizeLSTM with the usual activations, without peepholes, clip and input_forget. "
            f"Received: {call.attribute('activations')}, {', '.join(other) or 'peepholes'}"
        )


def _multiplier(W: Array, scale: Array, zero_point: Array) -> Callable[[Array], Array]:
    """Multiplication with a quantised matrix; what comes is quantised by its own range."""

    def times(x: Array) -> Array:
        q, x_scale, x_zero = quantized_dynamically(x)
        return integer_matmul(q, W, x_zero, zero_point).astype(x.dtype) * (x_scale * scale)

    return times


def _turned(x: Array, lengths: Array) -> Array:
    """x (T, N, …) backwards, each row within its length."""
    if lengths is None:
        return jnp.flip(x, 0)
    times, lengths = np.arange(x.shape[0])[:, None], jnp.asarray(lengths)[None]
    return jnp.take_along_axis(x, jnp.where(times < lengths, lengths - 1 - times, times)[..., None], axis=0)


def _run(
    times_R: Callable[[Array], Array], gates: Array, h: Array, c: Array, lengths: Array
) -> tuple[Array, Array, Array]:
    """One direction: states (T, N, H), the last h and c (N, H).

    After a row's length its outputs are 0, and so is its h in the product with the others', whose range it may narrow.
    """
    T = gates.shape[0]
    running = None if lengths is None else np.arange(T)[:, None, None] < jnp.asarray(lengths)[None, :, None]

    def step(state: tuple[Array, Array, Array], inputs: Any) -> tuple[tuple[Array, Array, Array], Array]:
        (h, c, last), (gate, active) = state, inputs
        i, o, f, g = jnp.split(gate + times_R(h), 4, axis=-1)
        new_c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        new_h = jax.nn.sigmoid(o) * jnp.tanh(new_c)
        if active is None:
            return (new_h, new_c, new_h), new_h
        kept = jnp.where(active, new_h, 0)
        return (kept, jnp.where(active, new_c, c), jnp.where(active, new_h, last)), kept

    (_, c, last), y = lax.scan(step, (h, c, h), (gates, running))
    return y, last, c
