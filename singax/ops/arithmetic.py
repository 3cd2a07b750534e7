"""Arithmetic, comparison and indexing: what the operators of Tensor stand for."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from singax.errors import DTypeError, ShapeError
from singax.ops.checks import broadcast
from singax.ops.explain import named_in_errors
from singax.ops.logic import where
from singax.ops.operation import operation

Array = jax.Array


@operation("Add")
def add(a: Array, b: Array) -> Array:
    """Elementwise a + b with NumPy broadcasting."""
    return jnp.add(a, b)


@operation("Sub")
def sub(a: Array, b: Array) -> Array:
    """Elementwise a − b with NumPy broadcasting."""
    return jnp.subtract(a, b)


@operation("Mul")
def mul(a: Array, b: Array) -> Array:
    """Elementwise a · b with NumPy broadcasting."""
    return jnp.multiply(a, b)


@operation("Div")
def div(a: Array, b: Array) -> Array:
    """Elementwise true quotient a / b with NumPy broadcasting; x / 0 is ±inf or nan, as IEEE has it."""
    return jnp.true_divide(a, b)


@operation("Div")
def integer_div(a: Array, b: Array) -> Array:
    """Elementwise quotient of integers, its fraction cut off (ONNX's and SINGA's); division by 0 is not defined."""
    dtype = jnp.result_type(a, b)
    if not jnp.issubdtype(dtype, jnp.integer):
        raise DTypeError(f"integer_div expected integers. Received dtype {dtype}")
    shape = broadcast("integer_div", a, b)
    return lax.div(*(jnp.broadcast_to(jnp.asarray(v, dtype), shape) for v in (a, b)))


@operation(None)
def floordiv(a: Array, b: Array) -> Array:
    """Elementwise floor(a / b)."""
    return jnp.floor_divide(a, b)


@named_in_errors
def mod(a: Array, b: Array) -> Array:
    """Elementwise remainder with the sign of the divisor, as `%` in Python.

    ONNX has such an operator for integers only, so that of floats is made of `fmod`.
    """
    if not jnp.issubdtype(jnp.result_type(a, b), jnp.floating):
        return integer_mod(a, b)
    rest = fmod(a, b)
    return where((rest != 0) & ((rest < 0) != (b < 0)), add(rest, b), rest)


@operation("Mod")
def integer_mod(a: Array, b: Array) -> Array:
    """Elementwise remainder of integers, with the sign of the divisor."""
    return jnp.mod(a, b)


@operation("Mod", attributes=lambda k: {"fmod": 1})
def fmod(a: Array, b: Array) -> Array:
    """Elementwise remainder with the sign of the dividend, as `fmod` in C."""
    return jnp.fmod(a, b)


@operation("Pow")
def pow(a: Array, b: Array) -> Array:
    """Elementwise a raised to b."""
    return jnp.power(a, b)


@operation("Neg")
def negative(x: Array) -> Array:
    """−x."""
    return jnp.negative(x)


@operation("Abs")
def abs(x: Array) -> Array:
    """|x|."""
    return jnp.abs(x)


@operation("MatMul")
def matmul(x: Array, w: Array) -> Array:
    """Matrix product with NumPy's rules for leading (batch) axes: (…, n, k) · (…, k, m) → (…, n, m)."""
    left, right = jnp.shape(x), jnp.shape(w)
    if not left or not right or left[-1] != right[-2:][0]:
        raise ShapeError(f"matmul expected (…, n, k) and (…, k, m), or vectors (k,). Received: {left} and {right}")
    if len(right) == 2 and len(left) > 2:  # a small GPT's step: 0.53 of the plain one, else 0.63
        return jnp.matmul(x.reshape(math.prod(left[:-1]), left[-1]), w).reshape(*left[:-1], right[1])
    return jnp.matmul(x, w)


def _comparison(a: Array, b: Array, result: Array) -> Array:
    """0/1 in the dtype that SINGA's operators return: that of the operands, float32 for booleans."""
    dtype = jnp.result_type(a, b)
    return result.astype(jnp.float32 if dtype == jnp.bool_ else dtype)


@operation("Less")
def less(a: Array, b: Array) -> Array:
    """a < b as 0/1 in the dtype of the operands."""
    return _comparison(a, b, jnp.less(a, b))


@operation("LessOrEqual")
def less_equal(a: Array, b: Array) -> Array:
    """a ≤ b as 0/1 in the dtype of the operands."""
    return _comparison(a, b, jnp.less_equal(a, b))


@operation("Greater")
def greater(a: Array, b: Array) -> Array:
    """a > b as 0/1 in the dtype of the operands."""
    return _comparison(a, b, jnp.greater(a, b))


@operation("GreaterOrEqual")
def greater_equal(a: Array, b: Array) -> Array:
    """a ≥ b as 0/1 in the dtype of the operands."""
    return _comparison(a, b, jnp.greater_equal(a, b))


@operation("Equal")
def equal(a: Array, b: Array) -> Array:
    """a = b as 0/1 in the dtype of the operands."""
    return _comparison(a, b, jnp.equal(a, b))


@operation(None)
def not_equal(a: Array, b: Array) -> Array:
    """a ≠ b as 0/1 in the dtype of the operands."""
    return _comparison(a, b, jnp.not_equal(a, b))


@operation(None)
def getitem(x: Array, *, key: Any) -> Array:
    """x[key] for a static key: a tuple of None, Ellipsis and ("slice", start, stop, step)."""
    return jnp.asarray(x)[tuple(slice(*k[1:]) if isinstance(k, tuple) else k for k in key)]


@operation(None)
def take(x: Array, indices: Array) -> Array:
    """x[indices] along the first axis, for an array of integers, or of booleans whose values are known."""
    try:
        return jnp.asarray(x)[indices]
    except jax.errors.NonConcreteBooleanIndexError:
        raise ShapeError(
            "take expected a mask whose values are known, since the shape of its result depends on them. "
            f"Received: a mask of shape {jnp.shape(indices)} in a program that is being compiled"
        ) from None
