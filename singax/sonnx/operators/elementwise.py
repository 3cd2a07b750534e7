"""Arithmetic and other work element by element where ONNX has rules of its own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax import ops
from singax.errors import ArgumentError
from singax.sonnx.operators.indices import divisible
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("Identity")
def identity(call: Call, x: Array) -> Array:
    """x."""
    return x


@onnx_operator("Div", since=7)
def div(call: Call, a: Array, b: Array) -> Array:
    """a / b; integers without the fraction, toward zero."""
    if not is_integer(a):
        return ops.div(a, b)
    divisible(call, a, b)
    return lax.div(*jnp.broadcast_arrays(a, b))


@onnx_operator("Pow", since=7)
def power(call: Call, a: Array, b: Array) -> Array:
    """a to the power b, in the dtype of a."""
    dtype = a.dtype
    if is_integer(a) and not is_integer(b):
        return jnp.power(a.astype(b.dtype), b).astype(dtype)
    return jnp.power(a, b.astype(dtype) if not is_integer(b) else b).astype(dtype)


@onnx_operator("Mod")
def mod(call: Call, a: Array, b: Array) -> Array:
    """The remainder: with the divisor's sign, or as C's fmod."""
    if is_integer(a):
        divisible(call, a, b)
    return jnp.fmod(a, b) if call.attribute("fmod", 0) else jnp.mod(a, b)


@onnx_operator("Clip")
def clip(call: Call, x: Array, low: Array = None, high: Array = None) -> Array:
    """x between low and high: attributes before opset 11, inputs since."""
    low = call.attribute("min") if low is None else low
    high = call.attribute("max") if high is None else high
    x = x if low is None else jnp.maximum(x, jnp.asarray(low, x.dtype))
    return x if high is None else jnp.minimum(x, jnp.asarray(high, x.dtype))


@onnx_operator("BitShift")
def bit_shift(call: Call, x: Array, amount: Array) -> Array:
    """x shifted; to the right the sign is filled in."""
    right = lax.shift_right_arithmetic if jnp.issubdtype(x.dtype, jnp.signedinteger) else lax.shift_right_logical
    shift = lax.shift_left if call.attribute("direction") == "LEFT" else right
    x, amount = jnp.broadcast_arrays(x, amount)
    return shift(x, amount)


@onnx_operator("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(call: Call, a: Array, b: Array) -> Array:
    """Bit by bit."""
    functions = {"BitwiseAnd": jnp.bitwise_and, "BitwiseOr": jnp.bitwise_or, "BitwiseXor": jnp.bitwise_xor}
    return functions[call.node.op_type](a, b)


@onnx_operator("BitwiseNot")
def bitwise_not(call: Call, x: Array) -> Array:
    """All bits inverted."""
    return jnp.bitwise_not(x)


@onnx_operator("IsNaN")
def is_nan(call: Call, x: Array) -> Array:
    """Where x is no number."""
    return jnp.isnan(x)


@onnx_operator("IsInf")
def is_inf(call: Call, x: Array) -> Array:
    """Where x is infinite, of the signs that are asked for."""
    found = jnp.zeros(x.shape, bool)
    if call.attribute("detect_positive", 1):
        found |= jnp.isposinf(x)
    return found | jnp.isneginf(x) if call.attribute("detect_negative", 1) else found


@onnx_operator("Selu", since=6)
def selu(call: Call, x: Array) -> Array:
    """γ (x or α (eˣ − 1))."""
    alpha = call.attribute("alpha", 1.67326319217681884765625)
    return ops.selu(x, alpha=alpha, gamma=call.attribute("gamma", 1.05070102214813232421875))


@onnx_operator("HardSigmoid")
def hard_sigmoid(call: Call, x: Array) -> Array:
    """max(0, min(1, α x + β))."""
    return ops.hardsigmoid(x, alpha=call.attribute("alpha", 0.2), gamma=call.attribute("beta", 0.5))


@onnx_operator("ThresholdedRelu")
def thresholded_relu(call: Call, x: Array) -> Array:
    """x where it is above α."""
    return jnp.where(x > call.attribute("alpha", 1.0), x, jnp.zeros_like(x))


@onnx_operator("Shrink")
def shrink(call: Call, x: Array) -> Array:
    """x moved by the bias toward 0 where it is beyond λ, else 0."""
    bias, limit = call.attribute("bias", 0.0), call.attribute("lambd", 0.5)
    moved = jnp.where(x < -limit, x + bias, jnp.where(x > limit, x - bias, jnp.zeros_like(x)))
    return moved.astype(x.dtype)


@onnx_operator("PRelu", since=1)
def prelu_by_channel(call: Call, x: Array, slope: Array) -> Array:
    """Before opset 7: one slope, or one per channel."""
    return ops.prelu(x, slope.reshape(-1, *(1,) * (np.ndim(x) - 2)) if np.ndim(x) > 1 else slope)


@onnx_operator("PRelu", since=7)
def prelu(call: Call, x: Array, slope: Array) -> Array:
    """x, or x times the slope where it is below 0."""
    return ops.prelu(x, slope)


@onnx_operator("Gelu")
def gelu(call: Call, x: Array) -> Array:
    """x Φ(x), exact or by tanh."""
    return jax.nn.gelu(x, approximate=call.attribute("approximate", "none") == "tanh")


@onnx_operator("Swish")
def swish(call: Call, x: Array) -> Array:
    """x σ(α x)."""
    return x * jax.nn.sigmoid(jnp.asarray(call.attribute("alpha", 1.0), x.dtype) * x)


def is_integer(x: Any) -> bool:
    """Whether x holds integers."""
    return bool(jnp.issubdtype(x.dtype, jnp.integer))


def dtype_of(code: int | str) -> np.dtype:
    """The NumPy dtype of ONNX's number for it, or of its name; object for strings."""
    from onnx import TensorProto, helper

    try:
        number = TensorProto.DataType.Value(code) if isinstance(code, str) else int(code)
        return np.dtype(helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, ValueError):
        raise ArgumentError(f"unknown dtype of ONNX. Received: {code!r}") from None
