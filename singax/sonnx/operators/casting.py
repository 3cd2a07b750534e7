"""Cast, CastLike and BitCast: every element type that XLA has."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from singax.errors import ArgumentError, DTypeError
from singax.sonnx.operators.elementwise import dtype_of
from singax.sonnx.registry import Call, NeedsHost, onnx_operator

Array = Any

_STRINGS = np.dtype(object)
_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
_ROUND_MODES = ("up", "down", "nearest")


@onnx_operator("Cast")
def cast(call: Call, x: Array) -> Array:
    """x in another dtype."""
    return _as_asked(call, x, dtype_of(call.attribute("to")))


@onnx_operator("CastLike")
def cast_like(call: Call, x: Array, like: Array) -> Array:
    """x in the dtype of `like`."""
    return _as_asked(call, x, np.dtype(like.dtype))


@onnx_operator("BitCast")
def bit_cast(call: Call, x: Array) -> Array:
    """The bits of x read as another dtype of the same width."""
    dtype, x = dtype_of(call.attribute("to")), jnp.asarray(x)
    if bits_of(dtype) != bits_of(x.dtype):
        raise DTypeError(f"expected a dtype of {bits_of(x.dtype)} bits, as {x.dtype} has. Received: {dtype}")
    if dtype == np.bool_:
        return lax.bitcast_convert_type(x, np.uint8) != 0
    return lax.bitcast_convert_type(x.astype(np.uint8) if x.dtype == np.bool_ else x, dtype)


def _as_asked(call: Call, x: Array, dtype: np.dtype) -> Array:
    saturate, mode = bool(call.attribute("saturate", 1)), call.attribute("round_mode", "up")
    if dtype != _E8M0 or x.dtype == dtype:
        return converted(x, dtype, saturate)
    if x.dtype == _STRINGS:
        raise NeedsHost("strings are converted on the host")
    return to_e8m0(x, saturate, mode)


def converted(x: Array, dtype: np.dtype, saturate: bool = True) -> Array:
    """x as `dtype`: floats to integers toward zero, without their high bits; to small floats within their range.

    Without `saturate` what is beyond the range of an 8-bit float becomes NaN or ∞.
    """
    if _STRINGS in (dtype, x.dtype):
        raise NeedsHost("strings are converted on the host")
    x = computable(x)
    known_to_xla(dtype)
    if is_small_float(dtype):
        return _to_small_float(x, dtype, saturate)
    if _drops_bits(x.dtype, dtype):
        x = x.astype(np.int64 if dtype == np.uint32 else np.int32)
    return x.astype(dtype)


def _to_small_float(x: Array, dtype: np.dtype, saturate: bool) -> Array:
    limits = jnp.finfo(dtype)
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    if saturate and x.dtype != dtype:
        bounded = jnp.clip(wide, jnp.asarray(limits.min, wide.dtype), jnp.asarray(limits.max, wide.dtype))
        wide = jnp.where(jnp.isnan(wide), wide, bounded)
    if str(dtype).endswith("fnuz"):  # they have no −0: its bits are NaN, and XLA's compilers do not all know
        wide = jnp.where(jnp.abs(wide) <= float(limits.smallest_subnormal) / 2, jnp.zeros_like(wide), wide)
    return wide.astype(dtype)


def _drops_bits(source: Any, dtype: Any) -> bool:
    """Whether floats become integers of fewer than 64 bits: XLA would limit them, C takes their low bits."""
    integers = jnp.issubdtype(dtype, jnp.integer) and bits_of(dtype) < 64 and dtype != np.int32
    return bool(jnp.issubdtype(source, jnp.floating) and integers)


def to_e8m0(x: Array, saturate: bool, mode: str) -> Array:
    """x as a power of two: its exponent, rounded by the rest of it; NaN for what is not finite."""
    if mode not in _ROUND_MODES:
        raise ArgumentError(f"expected a round_mode among {', '.join(_ROUND_MODES)}. Received: {mode!r}")
    bits = lax.bitcast_convert_type(computable(x).astype(np.float32), np.uint32)
    exponent, rest = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    above = {"down": rest > 0x7FFFFF, "up": rest > 0, "nearest": rest >= jnp.where(exponent > 0, 0x400000, 0x400001)}
    up = above[mode] & (exponent < (0xFE if saturate else 0xFF))
    return lax.bitcast_convert_type((exponent + up).astype(np.uint8), _E8M0)


def computable(x: Array) -> Array:
    """x as a JAX array. Raises `NeedsHost` for an element type that XLA lacks."""
    known_to_xla(x.dtype)
    return jnp.asarray(x)


def known_to_xla(dtype: Any) -> None:
    """Raises `NeedsHost` for an element type that XLA lacks."""
    if str(dtype) in ("float6_e2m3fn", "float6_e3m2fn"):
        raise NeedsHost(f"XLA has no {dtype}")


def is_small_float(dtype: Any) -> bool:
    """Whether `dtype` is a float of 8 or fewer bits."""
    return bool(jnp.issubdtype(dtype, jnp.floating)) and np.dtype(dtype).itemsize == 1


def bits_of(dtype: Any) -> int:
    """The bits of an element in a file."""
    if jnp.issubdtype(dtype, jnp.integer):
        return int(jnp.iinfo(dtype).bits)
    return int(jnp.finfo(dtype).bits) if is_small_float(dtype) else 8 * np.dtype(dtype).itemsize
