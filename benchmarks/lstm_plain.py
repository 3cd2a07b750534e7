"""The character LSTM of the benchmark written by hand, with the interface of `plain_models`.

The straightforward formulation: one matrix for all gates of the input and one for those of the state, both multiplied
in each step of a `lax.scan` that JAX differentiates. Parameters start under singax's names and are packed once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from lstm_singax import EMBEDDING, HIDDEN, VOCABULARY
from plain_models import Arrays, Plain, State, draw

__all__ = ["batch", "char_lstm", "draw", "make_step", "start"]


def batch(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Random ids (B, T), and the id (B · T,) that follows each."""
    text = rng.integers(0, VOCABULARY, (shape[0], shape[1] + 1)).astype(np.int32)
    return text[:, :-1].copy(), text[:, 1:].reshape(-1)


def char_lstm() -> Plain:
    """Embedding, LSTM and a dense layer on every step."""
    shapes = {"embed.W": (VOCABULARY, EMBEDDING), "head.W": (HIDDEN, VOCABULARY), "head.b": (VOCABULARY,)}
    for gate in "ifog":
        shapes |= {f"lstm.Wx_{gate}": (EMBEDDING, HIDDEN), f"lstm.Wh_{gate}": (HIDDEN, HIDDEN)}
        shapes |= {f"lstm.Bx_{gate}": (HIDDEN,), f"lstm.Bh_{gate}": (HIDDEN,)}
    return Plain(shapes, _apply)


def start(params: Arrays, statistics: Arrays, lr: float) -> State:
    """The state on the device, the gates side by side."""
    packed = {name: value for name, value in params.items() if not name.startswith("lstm.")}
    for kind in ("Wx", "Wh", "Bx", "Bh"):
        packed[kind] = np.concatenate([params[f"lstm.{kind}_{gate}"] for gate in "ifog"], axis=-1)
    shapes = jax.eval_shape(optax.adam(lr).init, packed)
    slots = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    placed: State = jax.device_put((packed, statistics, slots))
    return placed


def make_step(model: Plain, lr: float) -> Callable[..., tuple[State, tuple[jax.Array, jax.Array]]]:
    """`step(state, x, y)` → new state, (outputs, loss); the state is donated."""
    transform = optax.adam(lr)

    def objective(params: Arrays, x: jax.Array, y: jax.Array) -> Any:
        out, _ = model.apply(params, {}, x)
        return -jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], axis=-1).mean(), out

    def step(state: State, x: jax.Array, y: jax.Array) -> Any:
        params, statistics, slots = state
        (loss, out), grads = jax.value_and_grad(objective, has_aux=True)(params, x, y)
        updates, slots = transform.update(grads, slots, params)
        return (optax.apply_updates(params, updates), statistics, slots), (out, loss)

    return jax.jit(step, donate_argnums=0)


def _apply(p: Arrays, statistics: Arrays, ids: jax.Array) -> tuple[jax.Array, Arrays]:
    def step(state: tuple[jax.Array, jax.Array], x: jax.Array) -> Any:
        h, c = state
        i, f, o, g = jnp.split(x @ p["Wx"] + p["Bx"] + h @ p["Wh"] + p["Bh"], 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((ids.shape[0], HIDDEN))
    _, every = jax.lax.scan(step, (zeros, zeros), p["embed.W"][ids].swapaxes(0, 1))
    return every.swapaxes(0, 1).reshape(-1, HIDDEN) @ p["head.W"] + p["head.b"], statistics
