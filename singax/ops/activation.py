"""Activation functions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from singax.ops.operation import operation

Array = jax.Array


@operation("Relu")
def relu(x: Array) -> Array:
    """max(x, 0); the derivative at 0 is 0."""
    return jax.nn.relu(x)


@operation("Sigmoid")
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(−x))."""
    return jax.nn.sigmoid(x)


@operation("Tanh")
def tanh(x: Array) -> Array:
    """Hyperbolic tangent."""
    return jnp.tanh(x)


@operation("Gelu", attributes=lambda k: {"approximate": "tanh" if k.get("approximate") else "none"})
def gelu(x: Array, *, approximate: bool = False) -> Array:
    """x · Φ(x) (Hendrycks and Gimpel 2016); with `approximate`, the tanh formula."""
    return jax.nn.gelu(x, approximate=approximate)


@operation("Softmax", attributes={"axis": "axis"})
def softmax(x: Array, *, axis: int = -1) -> Array:
    """exp(x) normalised to sum 1 along `axis`."""
    return jax.nn.softmax(x, axis=axis)
