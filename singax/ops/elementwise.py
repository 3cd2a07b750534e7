"""Functions of one array, element by element: exponentials, rounding, limits and conversion."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.dtypes import canonical, is_floating, narrows
from singax.errors import ArgumentError, DTypeError
from singax.ops.checks import floating
from singax.ops.operation import operation

Array = jax.Array

# TensorProto.DataType of onnx, which is not imported here.
_ONNX_DTYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
}  # fmt: skip


@operation("Exp")
def exp(x: Array) -> Array:
    """e to the power x."""
    return jnp.exp(x)


@operation("Log")
def log(x: Array) -> Array:
    """Natural logarithm; −inf at 0, nan below."""
    return jnp.log(x)


@operation("Sqrt")
def sqrt(x: Array) -> Array:
    """Square root; nan below 0."""
    return jnp.sqrt(x)


@operation("Reciprocal")
def reciprocal(x: Array) -> Array:
    """1 / x; ±inf at ±0."""
    return jnp.reciprocal(floating(x))


@operation("Erf")
def erf(x: Array) -> Array:
    """2 / √π · ∫₀ˣ exp(−t²) dt."""
    return lax.erf(floating(x))


@operation("Identity")
def identity(x: Array) -> Array:
    """x."""
    return jnp.asarray(x)


@operation("Sign")
def sign(x: Array) -> Array:
    """−1, 0 or 1; the gradient is 0."""
    return jnp.sign(x)


@operation("Ceil")
def ceil(x: Array) -> Array:
    """The smallest whole number not below x; the gradient is 0."""
    return lax.ceil(x) if is_floating(_dtype(x)) else jnp.asarray(x)


@operation("Floor")
def floor(x: Array) -> Array:
    """The largest whole number not above x; the gradient is 0."""
    return lax.floor(x) if is_floating(_dtype(x)) else jnp.asarray(x)


@operation(None)
def round(x: Array) -> Array:
    """The nearest whole number, halves away from zero; the gradient is 0."""
    return lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO) if is_floating(_dtype(x)) else jnp.asarray(x)


@operation("Round")
def rounde(x: Array) -> Array:
    """The nearest whole number, halves to the even one; the gradient is 0."""
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN) if is_floating(_dtype(x)) else jnp.asarray(x)


def _limits(keywords: dict[str, Any]) -> list[Any]:
    limits = (keywords.get("min"), keywords.get("max"))
    return [None if limit is None else np.asarray(limit, np.float32) for limit in limits]


@operation("Clip", constants=_limits)
def clip(x: Array, *, min: float | None = None, max: float | None = None) -> Array:
    """x limited to min … max, `max` where min > max. The gradient passes where min ≤ x ≤ max, both ends included."""
    dtype = jnp.result_type(x, *(limit for limit in (min, max) if limit is not None))
    x = jnp.asarray(x, dtype)
    if min is not None:
        x = jnp.where(x < (low := _within(min, dtype)), low, x)
    if max is not None:
        x = jnp.where(x > (high := _within(max, dtype)), high, x)
    return x


def _within(limit: float, dtype: np.dtype) -> Array:
    """A limit as a value of `dtype`; for integers one beyond their range is the end of the range."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return jnp.asarray(np.clip(int(limit), int(limits.min), int(limits.max)), dtype)
    return jnp.asarray(limit, dtype)


@operation("Cast", attributes=lambda k: {"to": _ONNX_DTYPES[canonical(k["to"]).name]})
def cast(x: Array, *, to: Any) -> Array:
    """x in the dtype `to`: any name of it, or one of SINGA's ints. Towards integers fractions are cut off."""
    dtype = canonical(to)
    if dtype.name not in _ONNX_DTYPES:
        raise DTypeError(f"cast expected a dtype of numbers or booleans. Received: {dtype}")
    if narrows(dtype):
        raise ArgumentError(
            f"cast expected a dtype of 32 bits or fewer, since JAX's x64 mode is off. Received: {dtype}"
        )
    return jnp.asarray(x).astype(dtype)


def _dtype(x: Any) -> Any:
    return jnp.result_type(x)
