"""The quantised operators of com.microsoft, which make up models that ONNX Runtime's tools have quantised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.sonnx.operators.integer_products import centred, integer_matmul, largest
from singax.sonnx.operators.pooling import average_pool
from singax.sonnx.operators.quantized import (
    MICROSOFT,
    dequantized,
    exact_stretch,
    quantized,
    quantized_dynamically,
    requantized,
)
from singax.sonnx.operators.quantized_conv import qlinear_conv
from singax.sonnx.registry import Call, onnx_operator

Array = Any

_CROSSED = 3


def _requantized(x: Array, scale: Array, zero_point: Array, like: Array) -> Array:
    """x, in float32, quantised; in the dtype of `like` where there is no zero point."""
    zero_point = np.zeros((), like.dtype) if zero_point is None else jnp.asarray(zero_point)
    return quantized(x, jnp.asarray(scale, np.float32), zero_point, np.dtype(zero_point.dtype))


@onnx_operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(
    call: Call, a: Array, b: Array, b_scale: Array, b_zero: Array = None, bias: Array = None
) -> Array:
    """a B + bias, with a quantised by its own range first."""
    q, scale, zero = quantized_dynamically(a)
    sums = integer_matmul(q, b, zero, b_zero, exact_stretch(call, 255, 1, 3))
    return _to_float(sums, scale, b_scale, bias)


@onnx_operator("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    call: Call,
    a: Array,
    b: Array,
    a_scale: Array,
    b_scale: Array,
    a_zero: Array = None,
    b_zero: Array = None,
    bias: Array = None,
) -> Array:
    """The product of quantised matrices as floats, plus a bias."""
    sums = integer_matmul(a, b, a_zero, b_zero, exact_stretch(call, largest(a, a_zero), 1, 5))
    return _to_float(sums, a_scale, b_scale, bias)


def _to_float(sums: Array, a_scale: Array, b_scale: Array, bias: Array) -> Array:
    scale = jnp.asarray(a_scale) * jnp.asarray(b_scale)
    y = sums.astype(scale.dtype) * scale
    return y if bias is None else y + bias


@onnx_operator("QGemm", domain=MICROSOFT)
def qgemm(
    call: Call,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    c: Array = None,
    y_scale: Array = None,
    y_zero: Array = None,
) -> Array:
    """α A B + C of quantised matrices, C in units of α and both scales; quantised if there is a scale for it."""
    a, b = (jnp.asarray(x).T if call.attribute(name, 0) else x for x, name in ((a, "transA"), (b, "transB")))
    sums = integer_matmul(a, b, a_zero, b_zero)
    sums = sums if c is None else sums + jnp.asarray(c)
    scale = jnp.float32(call.attribute("alpha", 1.0)) * jnp.asarray(a_scale) * jnp.asarray(b_scale)
    if y_scale is None:
        return sums.astype(np.float32) * scale
    return requantized(sums, scale / jnp.asarray(y_scale), np.zeros((), a.dtype) if y_zero is None else y_zero)


@onnx_operator("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_arithmetic(
    call: Call,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    y_scale: Array,
    y_zero: Array = None,
) -> Array:
    """The sum or product of quantised arrays, quantised."""
    if call.node.op_type == "QLinearAdd":
        return _requantized(dequantized(a, a_scale, a_zero) + dequantized(b, b_scale, b_zero), y_scale, y_zero, a)
    factor = jnp.asarray(a_scale) * jnp.asarray(b_scale) / jnp.asarray(y_scale)
    zero_point = np.zeros((), a.dtype) if y_zero is None else y_zero
    return requantized(centred(a, a_zero) * centred(b, b_zero), factor, zero_point)


@onnx_operator("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_activation(
    call: Call, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array = None
) -> Array:
    """σ(x), or x where it is positive and α x elsewhere."""
    wide = dequantized(x, x_scale, x_zero)
    if call.node.op_type == "QLinearSigmoid":
        return _requantized(jax.nn.sigmoid(wide), y_scale, y_zero, x)
    return _requantized(jnp.where(wide >= 0, wide, call.attribute("alpha", 0.01) * wide), y_scale, y_zero, x)


@onnx_operator("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(call: Call, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array) -> Array:
    """Softmax along an axis; before opset 13 over all axes from it on."""
    wide, axis = dequantized(x, x_scale, x_zero), call.attribute("axis", -1) % np.ndim(x)
    if call.attribute("opset", 13) >= 13:
        y = jax.nn.softmax(wide, axis=axis)
    else:
        y = jax.nn.softmax(wide.reshape(int(np.prod(wide.shape[:axis])), -1), axis=-1).reshape(wide.shape)
    return _requantized(y, y_scale, y_zero, x)


@onnx_operator("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_average_pool(
    call: Call, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array = None
) -> Array:
    """The mean of each window, or of each channel."""
    pool = _global_mean if call.node.op_type == "QLinearGlobalAveragePool" else average_pool
    return _requantized(_channels_first(call, pool, dequantized(x, x_scale, x_zero)), y_scale, y_zero, x)


def _channels_first(call: Call, function: Callable[[Call, Array], Array], x: Array) -> Array:
    if not call.attribute("channels_last", 0):
        return function(call, x)
    return jnp.moveaxis(function(call, jnp.moveaxis(x, -1, 1)), 1, -1)


def _global_mean(_: Call, x: Array) -> Array:
    return ops.global_average_pool(x)


@onnx_operator("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(call: Call, y_scale: Array, y_zero: Array, *parts: Array) -> Array:
    """Arrays, each with its scale and zero point, joined along an axis."""
    if not parts or len(parts) % _CROSSED:
        raise ArgumentError(f"expected a scale and a zero point for each input. Received: {len(parts)} arrays")
    wide = [dequantized(*parts[at : at + _CROSSED]) for at in range(0, len(parts), _CROSSED)]
    return _requantized(jnp.concatenate(wide, call.attribute("axis")), y_scale, y_zero, parts[0])


@onnx_operator("QLinearReduceMean", domain=MICROSOFT)
def qlinear_reduce_mean(
    call: Call, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array = None
) -> Array:
    """The mean over axes."""
    axes, keep = call.attribute("axes"), bool(call.attribute("keepdims", 1))
    mean = jnp.mean(dequantized(x, x_scale, x_zero), tuple(axes) if axes else None, keepdims=keep)
    return _requantized(mean, y_scale, y_zero, x)


@onnx_operator("QLinearWhere", domain=MICROSOFT)
def qlinear_where(
    call: Call,
    condition: Array,
    x: Array,
    x_scale: Array,
    x_zero: Array,
    y: Array,
    y_scale: Array,
    y_zero: Array,
    z_scale: Array,
    z_zero: Array,
) -> Array:
    """x or y by a condition."""
    chosen = jnp.where(condition, dequantized(x, x_scale, x_zero), dequantized(y, y_scale, y_zero))
    return _requantized(chosen, z_scale, z_zero, x)


@onnx_operator("QLinearConv", domain=MICROSOFT)
def qlinear_conv_any(call: Call, x: Array, *rest: Array) -> Array:
    """QLinearConv, with channels last on request."""
    return _channels_first(call, lambda call, x: qlinear_conv(call, x, *rest), jnp.asarray(x))


@onnx_operator("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(
    call: Call,
    a: Array,
    b: Array,
    scales: Array,
    zero_points: Array = None,
    g_idx: Array = None,
    bias: Array = None,
) -> Array:
    """a Wᵀ + bias; W (N, K) comes in blocks of few bits, each block of a row with its scale and zero point."""
    W = _unpacked_weights(call, b, scales, zero_points, g_idx).astype(a.dtype)
    y = jnp.asarray(a) @ W.T
    return y if bias is None else y + bias


def _unpacked_weights(call: Call, b: Array, scales: Array, zero_points: Array, g_idx: Array) -> Array:
    rows, columns, bits, block = (call.attribute(name, 4) for name in ("N", "K", "bits", "block_size"))
    if bits not in (2, 4, 8):
        raise ArgumentError(f"expected 2, 4 or 8 bits. Received: {bits}")
    blocks = -(-columns // block)
    values = _unpacked(jnp.asarray(b).reshape(rows, -1), bits)
    if values.shape[1] != blocks * block:
        raise ShapeError(f"expected {rows} rows of {blocks} blocks of {block}. Received shape {np.shape(b)}")
    group = np.arange(columns) // block if g_idx is None else jnp.asarray(g_idx).astype(np.int32)
    scale = jnp.asarray(scales).reshape(rows, blocks)
    if zero_points is None:
        zero: Array = 1 << (bits - 1)
    else:
        packed = zero_points.dtype == np.uint8
        table = jnp.asarray(zero_points).reshape(rows, -1)
        zero = (_unpacked(table, bits) if packed else table)[:, :blocks][:, group].astype(np.float32)
    return (values[:, :columns].astype(np.float32) - zero) * scale[:, group].astype(np.float32)


def _unpacked(x: Array, bits: int) -> Array:
    """Numbers of few bits from bytes (N, B), those in the low bits first: (N, B · 8 / bits)."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((x[..., None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(x.shape[0], -1)
