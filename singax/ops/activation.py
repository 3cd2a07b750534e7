"""Activation functions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from singax.errors import ArgumentError, ShapeError
from singax.ops.arithmetic import mul
from singax.ops.checks import broadcast, floating, normal_axis
from singax.ops.elementwise import clip
from singax.ops.explain import named_in_errors
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
    return jax.nn.sigmoid(floating(x))


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
    return jax.nn.softmax(floating(x), axis=normal_axis("softmax", axis, jnp.ndim(x)))


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


@operation("LogSoftmax", attributes={"axis": "axis"})
def log_softmax(x: Array, *, axis: int = -1) -> Array:
    """log(softmax(x)) along `axis`, without overflow."""
    return jax.nn.log_softmax(floating(x), axis=normal_axis("log_softmax", axis, jnp.ndim(x)))


@operation("HardSwish")
def hardswish(x: Array) -> Array:
    """x · clip(x / 6 + 1 / 2, 0, 1) (Howard et al. 2019)."""
    return jax.nn.hard_swish(floating(x))


@operation("Mish")
def mish(x: Array) -> Array:
    """x · tanh(softplus(x)) (Misra 2019)."""
    return jax.nn.mish(floating(x))


@operation("Celu", attributes={"alpha": "alpha"})
def celu(x: Array, *, alpha: float = 1.0) -> Array:
    """max(x, 0) + min(0, α (exp(x / α) − 1)) for α ≠ 0 (Barron 2017)."""
    if alpha == 0:
        raise ArgumentError("celu expected an alpha other than 0. Received: 0")
    return jax.nn.celu(floating(x), alpha)


@operation("ThresholdedRelu", attributes=lambda k: {"alpha": k.get("alpha", 1.0)})
def thresholded_relu(x: Array, *, alpha: float = 1.0) -> Array:
    """x above α, else 0."""
    x = floating(x)
    return jnp.where(x > alpha, x, jnp.zeros_like(x))


@operation("Shrink", attributes=lambda k: {"lambd": k.get("lambd", 0.5), "bias": k.get("bias", 0.0)})
def shrink(x: Array, *, lambd: float = 0.5, bias: float = 0.0) -> Array:
    """x − bias above λ, x + bias below −λ, else 0. With bias 0 hard shrinkage, with bias λ soft shrinkage."""
    x = floating(x)
    return jnp.where(x > lambd, x - bias, jnp.where(x < -lambd, x + bias, jnp.zeros_like(x)))


@named_in_errors
def silu(x: Array) -> Array:
    """x · sigmoid(x) (Elfwing et al. 2018), also called swish. ONNX has had an operator for it only since opset 24."""
    return mul(x, sigmoid(x))


@named_in_errors
def relu6(x: Array) -> Array:
    """x limited to 0 … 6; the derivative is 1 at both ends."""
    return clip(x, min=0, max=6)


@named_in_errors
def hard_tanh(x: Array) -> Array:
    """x limited to −1 … 1; the derivative is 1 at both ends."""
    return clip(x, min=-1, max=1)
