"""What a step of each recurrent network does with its gates, and how a small change of them moves the new state.

The gates are what matrix products have made of the input and the state. All that follows is element by element, so
its derivative is a handful of factors for each element, the slopes; a step gives them along with the new state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array
Arrays = tuple[Array, ...]


class Cell(NamedTuple):
    """A recurrent cell.

    `joined`: the gates are one array, what comes from the input and from the state together; else they are two.
    `step(gates, state)` → new state, slopes. `tangent(dgates, dstate, slopes)` → change of the new state, linear in
    the first two.
    """

    joined: bool
    step: Callable[[Arrays, Arrays], tuple[Arrays, Arrays]]
    tangent: Callable[[Arrays, Arrays, Arrays], Arrays]


def _tanh_step(gates: Arrays, state: Arrays) -> tuple[Arrays, Arrays]:
    h = jnp.tanh(gates[0])
    return (h,), (1 - h * h,)


def _relu_step(gates: Arrays, state: Arrays) -> tuple[Arrays, Arrays]:
    return (jax.nn.relu(gates[0]),), ((gates[0] > 0).astype(gates[0].dtype),)


def _rnn_tangent(dgates: Arrays, dstate: Arrays, slopes: Arrays) -> Arrays:
    return (slopes[0] * dgates[0],)


def _lstm_step(gates: Arrays, state: Arrays) -> tuple[Arrays, Arrays]:
    i, o, f, g = jnp.split(gates[0], 4, axis=-1)
    i, o, f, g = jax.nn.sigmoid(i), jax.nn.sigmoid(o), jax.nn.sigmoid(f), jnp.tanh(g)
    c = f * state[1] + i * g
    t = jnp.tanh(c)
    slopes = (g * i * (1 - i), t * o * (1 - o), state[1] * f * (1 - f), i * (1 - g * g), f, o * (1 - t * t))
    return (o * t, c), slopes


def _lstm_tangent(dgates: Arrays, dstate: Arrays, slopes: Arrays) -> Arrays:
    di, do, df, dg = jnp.split(dgates[0], 4, axis=-1)
    of_i, of_o, of_f, of_g, kept, out = slopes
    dc = kept * dstate[1] + of_i * di + of_f * df + of_g * dg
    return out * dc + of_o * do, dc


def _gru_step(gates: Arrays, state: Arrays) -> tuple[Arrays, Arrays]:
    (xz, xr, xn), (hz, hr, hn) = (jnp.split(part, 3, axis=-1) for part in gates)
    z, r, h = jax.nn.sigmoid(xz + hz), jax.nn.sigmoid(xr + hr), state[0]
    n = jnp.tanh(xn + r * hn)
    of_n = (1 - z) * (1 - n * n)
    return ((1 - z) * n + z * h,), ((h - n) * z * (1 - z), of_n * hn * r * (1 - r), of_n, of_n * r, z)


def _gru_tangent(dgates: Arrays, dstate: Arrays, slopes: Arrays) -> Arrays:
    (dxz, dxr, dxn), (dhz, dhr, dhn) = (jnp.split(part, 3, axis=-1) for part in dgates)
    of_z, of_r, of_xn, of_hn, kept = slopes
    return (kept * dstate[0] + of_z * (dxz + dhz) + of_r * (dxr + dhr) + of_xn * dxn + of_hn * dhn,)


TANH = Cell(True, _tanh_step, _rnn_tangent)
RELU = Cell(True, _relu_step, _rnn_tangent)
LSTM = Cell(True, _lstm_step, _lstm_tangent)
GRU = Cell(False, _gru_step, _gru_tangent)
