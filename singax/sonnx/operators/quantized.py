"""Quantised numbers: x ≈ (q − zero point) · scale, for tensors, axes or blocks; products of them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.sonnx.operators.casting import computable, converted, is_small_float, known_to_xla
from singax.sonnx.operators.elementwise import dtype_of
from singax.sonnx.operators.integer_products import centred, integer_matmul, largest, stretch_for
from singax.sonnx.registry import Call, NeedsHost, onnx_operator

Array = Any

MICROSOFT = "com.microsoft"


@onnx_operator("QuantizeLinear")
@onnx_operator("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(call: Call, x: Array, scale: Array, zero_point: Array = None) -> Array:
    """x / scale, rounded half to even, plus the zero point, within the range of its dtype."""
    code = call.attribute("output_dtype", 0)
    dtype = np.dtype(np.uint8) if zero_point is None and not code else _one_dtype(code, zero_point)
    precision = call.attribute("precision", 0)
    spread = [value if value is None else _spread(call, value, np.shape(x)) for value in (scale, zero_point)]
    return quantized(x, spread[0], spread[1], dtype, dtype_of(precision) if precision else None, _saturates(call))


def _one_dtype(code: int, zero_point: Array) -> np.dtype:
    if zero_point is None:
        return dtype_of(code)
    if code and dtype_of(code) != zero_point.dtype:
        raise DTypeError(f"expected a zero point of {dtype_of(code)}, the output_dtype. Received: {zero_point.dtype}")
    return np.dtype(zero_point.dtype)


def _saturates(call: Call) -> bool:
    return bool(call.attribute("saturate", 1))


def quantized(
    x: Array, scale: Array, zero_point: Array, dtype: np.dtype, precision: Any = None, saturate: bool = True
) -> Array:
    """x in `dtype` for a scale and zero point that broadcast to it; the quotient is computed in `precision`."""
    known_to_xla(dtype)
    x, scale = computable(x), computable(scale)
    if precision is None:
        precision = jnp.promote_types(x.dtype, scale.dtype)
    wide = jnp.promote_types(precision, np.float32)
    quotient = rounded_to(precision, rounded_to(precision, x.astype(wide)) / rounded_to(precision, scale.astype(wide)))
    if is_small_float(dtype):
        return converted(quotient, dtype, saturate)
    limits = jnp.iinfo(dtype)
    whole = jnp.rint(quotient)
    moved = whole if zero_point is None else whole + computable(zero_point).astype(wide)
    return jnp.clip(moved, float(limits.min), float(limits.max)).astype(np.int32).astype(dtype)


def rounded_to(dtype: Any, x: Array) -> Array:
    """x, in float32 or wider, with the values of a 16-bit dtype; XLA would leave out a cast there and back."""
    if np.dtype(dtype).itemsize > 2:
        return x
    limits = jnp.finfo(dtype)
    return lax.reduce_precision(x, limits.nexp, limits.nmant)


@onnx_operator("DequantizeLinear")
@onnx_operator("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(call: Call, x: Array, scale: Array, zero_point: Array = None) -> Array:
    """(x − zero point) · scale."""
    code = call.attribute("output_dtype", 0)
    dtype = dtype_of(code) if code else np.dtype(scale.dtype)
    x = computable(x)
    if zero_point is not None and not is_small_float(x.dtype):
        x = x.astype(np.int32) - _spread(call, zero_point, x.shape).astype(np.int32)
    wide = np.float64 if scale.dtype == np.float64 else np.float32
    return (x.astype(wide) * _spread(call, scale, x.shape).astype(wide)).astype(dtype)


def dequantized(x: Array, scale: Array, zero_point: Array = None) -> Array:
    """(x − zero point) · scale in float32, for a scale and zero point that broadcast to x."""
    return centred(x, zero_point).astype(np.float32) * jnp.asarray(scale, np.float32)


def _spread(call: Call, value: Array, shape: tuple[int, ...]) -> Array:
    """A scale or zero point so that it broadcasts to `shape`: of all, along an axis, or of blocks along it."""
    value = computable(value)
    if value.size == 1 and value.ndim <= 1:
        return value.reshape(())
    axis, block = call.attribute("axis", 1), call.attribute("block_size", 0)
    if not -len(shape) <= axis < len(shape):
        raise ArgumentError(f"expected an axis of {shape}. Received: {axis}")
    axis %= len(shape)
    if block:
        return _blocks(value, shape, axis, block)
    if value.shape != (shape[axis],):
        raise ShapeError(
            f"expected one scale and zero point, or {shape[axis]} along axis {axis}. Received: {value.shape}"
        )
    return value.reshape([-1 if at == axis else 1 for at in range(len(shape))])


def _blocks(value: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    wanted = (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])
    if block < 0 or value.shape != wanted:
        raise ShapeError(f"expected scales and zero points {wanted} for blocks of {block}. Received: {value.shape}")
    return lax.slice_in_dim(jnp.repeat(value, block, axis), 0, shape[axis], axis=axis)


@onnx_operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(call: Call, x: Array) -> tuple[Array, Array, Array]:
    """x in uint8 with the scale and zero point that its range, widened to hold 0, asks for."""
    return quantized_dynamically(x)


def quantized_dynamically(x: Array) -> tuple[Array, Array, Array]:
    """What DynamicQuantizeLinear computes: q, scale and zero point."""
    x = jnp.asarray(x)
    high, low = jnp.maximum(jnp.max(x, initial=0), 0), jnp.minimum(jnp.min(x, initial=0), 0)
    flat = high == low
    steps = jnp.where(flat, 1, 255).astype(x.dtype)  # not a constant: XLA would multiply by 1/255, an ulp off
    scale = jnp.where(flat, 1, (high - low) / steps)
    zero_point = jnp.rint(jnp.clip(-low / scale, 0, 255))
    q = jnp.clip(jnp.rint(x / scale) + zero_point, 0, 255)
    return q.astype(np.uint8), scale.astype(x.dtype), zero_point.astype(np.uint8)


@onnx_operator("MatMulInteger")
def matmul_integer(call: Call, a: Array, b: Array, a_zero: Array = None, b_zero: Array = None) -> Array:
    """The product of integers less their zero points (of the matrix, or of rows of a and columns of b), in int32."""
    return integer_matmul(a, b, by_row(a_zero), b_zero, exact_stretch(call, largest(a, a_zero), 1, 3))


def exact_stretch(call: Call, bound: int, b: int, b_zero: int) -> int | None:
    """`stretch_for` of the matrix and the zero point at these inputs of an operator, None if they depend on data."""
    known = [call.known(at) if at < len(call.inputs) and call.inputs[at] is not None else None for at in (b, b_zero)]
    if known[1] is None and b_zero < len(call.inputs) and call.inputs[b_zero] is not None:
        return None
    return stretch_for(bound, *known)


def by_row(value: Array) -> Array:
    """A scale or zero point of the left matrix: one per row if it is a vector."""
    return value if value is None or np.ndim(value) != 1 or np.size(value) == 1 else jnp.asarray(value)[:, None]


@onnx_operator("QLinearMatMul")
def qlinear_matmul(
    call: Call,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    y_scale: Array,
    y_zero: Array,
) -> Array:
    """The product of quantised matrices, quantised."""
    product = integer_matmul(a, b, by_row(a_zero), b_zero, exact_stretch(call, largest(a, a_zero), 3, 5))
    scales = [jnp.asarray(value).astype(np.float32) for value in (by_row(a_scale), b_scale, by_row(y_scale))]
    return requantized(product, scales[0] * scales[1] / scales[2], by_row(y_zero))


def requantized(sums: Array, factor: Array, zero_point: Array) -> Array:
    """Sums · factor, rounded half to even, plus the zero point, within the range of its dtype."""
    limits = jnp.iinfo(zero_point.dtype)
    wide = jnp.rint(sums.astype(np.float32) * factor) + jnp.asarray(zero_point).astype(np.float32)
    return jnp.clip(wide, float(limits.min), float(limits.max)).astype(zero_point.dtype)


def must_be_absent(call: Call, *positions: int) -> None:
    """Raises `NeedsHost` if one of these inputs is given."""
    for position in positions:
        if position < len(call.inputs) and call.inputs[position] is not None:
            raise NeedsHost(f"input {position} of {call.node.op_type} has no compiled form")
