"""Activation functions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from singax.errors import ShapeError
from singax.ops.checks import broadcast, floating
from singax.ops.elementwise import clip
from singax.ops.operation import operation

Array = jax.Array

SELU_ALPHA, SELU_GAMMA = 1.67326, 1.0507  # SINGA's


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


@operation("Elu", attributes={"alpha": "alpha"})
def elu(x: Array, *, alpha: float = 1.0) -> Array:
    """x above 0, else α (exp(x) − 1) (Clevert et al. 2016)."""
    return jax.nn.elu(floating(x), alpha)


@operation("Selu", attributes=lambda k: {"alpha": k.get("alpha", SELU_ALPHA), "gamma": k.get("gamma", SELU_GAMMA)})
def selu(x: Array, *, alpha: float = SELU_ALPHA, gamma: float = SELU_GAMMA) -> Array:
    """γ · elu(x, α) (Klambauer et al. 2017)."""
    return gamma * jax.nn.elu(floating(x), alpha)


@operation("LeakyRelu", attributes={"a": "alpha"})
def leakyrelu(x: Array, *, a: float = 0.01) -> Array:
    """x, times `a` below 0."""
    return jax.nn.leaky_relu(floating(x), a)


@operation("PRelu")
def prelu(x: Array, slope: Array) -> Array:
    """x, times `slope` below 0 (He et al. 2015); `slope` broadcasts against x."""
    if broadcast("prelu", x, slope) != jnp.shape(x):
        raise ShapeError(f"prelu expected a slope that broadcasts to {jnp.shape(x)}. Received: {jnp.shape(slope)}")
    return jnp.where(x >= 0, x, slope * x)


@operation("HardSigmoid", attributes=lambda k: {"alpha": k.get("alpha", 0.2), "beta": k.get("gamma", 0.5)})
def hardsigmoid(x: Array, *, alpha: float = 0.2, gamma: float = 0.5) -> Array:
    """α x + γ limited to 0 … 1."""
    return clip.function(alpha * floating(x) + gamma, min=0.0, max=1.0)


@operation("Softplus")
def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    return jax.nn.softplus(floating(x))


@operation("Softsign")
def softsign(x: Array) -> Array:
    """x / (1 + |x|)."""
    return jax.nn.soft_sign(floating(x))
