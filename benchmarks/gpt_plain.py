"""The small GPT of the benchmark written by hand, with the interface of `plain_models`.

The straightforward formulation, as textbooks have it: x + a · W + b from left to right, `jnp.var`, scores by einsum,
`log_softmax` and a gather. Processor time of the same step, written otherwise, as ratios to it (two busy CPU cores):
x + (a · W + b) 0.69; that and c = x − mean, mean(c · c) in the norm 0.60; both and every product with a matrix made one
of two matrices, (N · T, D) · (D, F), 0.53; the last alone 0.57. A `lax.scan` over the four blocks 0.73 in all of these.
Within 0.04 of each other: exact and tanh gelu; `jax.nn.dot_product_attention`, einsum on (N, T, H, D), products on
(N, H, T, D); joined projections; logsumexp − gather, one-hot targets, one-hot tokens; one flat array for AdamW.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from gpt_singax import HEADS, LAYERS, LENGTH, VOCABULARY, WEIGHT_DECAY, WIDTH
from plain_models import Arrays, Plain, State, draw

__all__ = ["batch", "draw", "gpt", "make_step", "start"]


def batch(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Random ids (N, T), and the id (N · T,) that follows each."""
    text = rng.integers(0, VOCABULARY, (shape[0], shape[1] + 1)).astype(np.int32)
    return text[:, :-1].copy(), text[:, 1:].reshape(-1)


def gpt() -> Plain:
    """Four blocks that normalise first."""
    shapes: dict[str, tuple[int, ...]] = {"tokens.W": (VOCABULARY, WIDTH), "positions.W": (LENGTH, WIDTH)}
    for block in range(LAYERS):
        name = f"blocks.layers.{block}."
        for part in ("query", "key", "value", "out"):
            shapes |= _dense(f"{name}attention.{part}", WIDTH, WIDTH)
        shapes |= _dense(f"{name}feed_forward.inner", WIDTH, 4 * WIDTH)
        shapes |= _dense(f"{name}feed_forward.outer", 4 * WIDTH, WIDTH)
        shapes |= _norm(f"{name}norm1") | _norm(f"{name}norm2")
    return Plain({**shapes, **_norm("blocks.norm"), **_dense("head", WIDTH, VOCABULARY)}, _apply)


def _dense(name: str, size_in: int, size_out: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.W": (size_in, size_out), f"{name}.b": (size_out,)}


def _norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.scale": (WIDTH,), f"{name}.bias": (WIDTH,)}


def optimizer(lr: float) -> optax.GradientTransformation:
    """AdamW."""
    return optax.adamw(lr, weight_decay=WEIGHT_DECAY)


def start(params: Arrays, statistics: Arrays, lr: float) -> State:
    """The state on the device."""
    shapes = jax.eval_shape(optimizer(lr).init, params)
    slots = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    placed: State = jax.device_put((params, statistics, slots))
    return placed


def make_step(model: Plain, lr: float) -> Callable[..., tuple[State, tuple[jax.Array, jax.Array]]]:
    """`step(state, x, y)` → new state, (outputs, loss); the state is donated."""
    transform = optimizer(lr)

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
    x = p["tokens.W"][ids] + p["positions.W"]
    for block in range(LAYERS):
        x = _block(p, f"blocks.layers.{block}.", x)
    x = _normalised(p, "blocks.norm", x)
    return x.reshape(-1, WIDTH) @ p["head.W"] + p["head.b"], statistics


def _block(p: Arrays, name: str, x: jax.Array) -> jax.Array:
    y = _attended(p, f"{name}attention.", _normalised(p, f"{name}norm1", x))
    x = x + y @ p[f"{name}attention.out.W"] + p[f"{name}attention.out.b"]
    y = _normalised(p, f"{name}norm2", x) @ p[f"{name}feed_forward.inner.W"] + p[f"{name}feed_forward.inner.b"]
    y = jax.nn.gelu(y, approximate=False)
    return x + y @ p[f"{name}feed_forward.outer.W"] + p[f"{name}feed_forward.outer.b"]


def _attended(p: Arrays, name: str, x: jax.Array) -> jax.Array:
    N, T, D = x.shape
    q, k, v = (
        (x @ p[f"{name}{part}.W"] + p[f"{name}{part}.b"]).reshape(N, T, HEADS, D // HEADS)
        for part in ("query", "key", "value")
    )
    scores = jnp.einsum("nthd,nshd->nhts", q, k) / (D // HEADS) ** 0.5
    scores = jnp.where(jnp.tri(T, dtype=bool), scores, -jnp.inf)
    return jnp.einsum("nhts,nshd->nthd", jax.nn.softmax(scores), v).reshape(N, T, D)


def _normalised(p: Arrays, name: str, x: jax.Array) -> jax.Array:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5) * p[f"{name}.scale"] + p[f"{name}.bias"]
