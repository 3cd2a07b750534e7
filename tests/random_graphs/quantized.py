"""Quantised operators. Scales are powers of two where data are exact, so that no value lies between two steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from random_graphs.builder import F32, Builder
from random_graphs.products import product_shapes
from random_graphs.rules import rule
from random_graphs.tame import tame
from random_graphs.values import Value, integers, like, need, rough
from random_graphs.windows import slid, window

BYTES = ("uint8", "int8")


def _zero(g: Builder, dtype: str, near: int = 8) -> Value:
    return g.constant(g.int(0 if dtype == "uint8" else -near, near), dtype)


def _bytes(g: Builder, shape: Any, dtype: str) -> Value:
    low, high = (0, 15) if dtype == "uint8" else (-8, 7)
    return g.constant(np.reshape([g.int(low, high) for _ in range(math.prod(shape))], shape), dtype)


def quantized(g: Builder, x: Value) -> tuple[Value, Value, Value]:
    """An exact float as bytes, with its scale and zero point."""
    x, dtype = tame(g, x, 4), g.choice(BYTES)
    need(x.exact)
    scale, zero = g.constant(g.choice([0.125, 0.25, 0.5]), "float32", 3), _zero(g, dtype)
    limits = np.iinfo(dtype)
    made = integers(dtype, x.shapes, float(limits.min), float(limits.max))
    return g.emit("QuantizeLinear", [x, scale, zero], made), scale, zero


@rule("QuantizeLinear", 10)
def _quantize(g: Builder) -> Any:
    q, scale, zero = quantized(g, g.pick(exact=True))
    if g.chance():
        span = 256 * float(scale.high)
        return g.emit("DequantizeLinear", [q, scale, zero], Value("", "float32", q.shapes, -span, span, 3))
    return q


@rule("QuantizeLinear", 13)
def _quantize_axis(g: Builder) -> Any:
    x = tame(g, g.pick(F32, range(1, 5), exact=True), 8)
    axis, dtype = g.axis(x, fixed=True), g.choice(BYTES)
    count = x.size(axis)
    scale = g.constant([g.choice([0.125, 0.25, 0.5]) for _ in range(count)], "float32", 3)
    zero = g.constant([g.int(0, 9) for _ in range(count)], dtype)
    limits = np.iinfo(dtype)
    where = g.signed(axis, x.rank)
    q = g.emit("QuantizeLinear", [x, scale, zero], integers(dtype, x.shapes, limits.min, limits.max), axis=where)
    result = Value("", "float32", x.shapes, -132, 132, 3)
    return g.emit("DequantizeLinear", [q, scale, zero], result, axis=where)


@rule("DequantizeLinear", 10)
def _dequantize(g: Builder) -> Any:
    x = g.pick(("uint8", "int8", "int32"), where=lambda v: v.bound <= 255)
    scale = g.constant(0.25, "float32", 2)
    zero = None if x.dtype == "int32" or g.chance(0.3) else _zero(g, x.dtype)
    return g.emit("DequantizeLinear", [x, scale, zero], Value("", "float32", x.shapes, -66, 66, 2))


@rule("DynamicQuantizeLinear", 11)
def _dynamic(g: Builder) -> Any:
    """The scale is a 255th of the range, so a value may lie between two steps; what comes back is within one step."""
    x = tame(g, g.pick(), 4)
    y = integers("uint8", x.shapes, 0, 255)
    scale = rough([x], ((), ()), 0, max(1, x.bound / 100), 1 / 64)
    zero = integers("uint8", ((), ()), 0, 255)
    return g.emit_all("DynamicQuantizeLinear", [x], like(y, slack=1), like(scale, slack=1), like(zero, slack=1))


@rule("MatMulInteger", 10)
def _matmul_integer(g: Builder) -> Any:
    x = g.pick(BYTES, range(2, 5))
    terms = x.size(-1)
    y = _bytes(g, (terms, g.int(1, 4)), g.choice(BYTES if x.dtype == "uint8" else ("int8",)))
    zeros = [_zero(g, x.dtype), _zero(g, y.dtype)][: g.int(0, 2)]
    high = (x.bound + 8) * (y.bound + 8) * terms
    result = integers("int32", product_shapes(x, y), -high, high)
    return g.emit("MatMulInteger", [x, y, *zeros], result)


@rule("ConvInteger", 10)
def _conv_integer(g: Builder) -> Any:
    x = g.pick(["uint8"], [4], where=lambda v: v.shapes[0][1] == v.shapes[1][1])
    w = window(g, x)
    kernel = _bytes(g, (2, x.size(1), *w.kernel), "uint8")
    zeros = [_zero(g, "uint8"), _zero(g, "uint8")][: g.int(0, 2)]
    high = (x.bound + 8) * 32 * x.size(1) * math.prod(w.kernel)
    return g.emit("ConvInteger", [x, kernel, *zeros], integers("int32", slid(x, w, 2), -high, high), **w.attributes())


@rule("QLinearMatMul", 10)
def _qlinear_matmul(g: Builder) -> Any:
    x, scale, zero = quantized(g, g.pick(F32, range(2, 5), exact=True))
    terms = x.size(-1)
    y = _bytes(g, (terms, g.int(1, 4)), "int8" if x.dtype == "int8" else g.choice(BYTES))
    ends = [g.constant(0.25, "float32", 2), _zero(g, y.dtype), g.constant(g.choice([0.5, 1.0, 2.0]), "float32", 1)]
    limits = np.iinfo(x.dtype)
    result = integers(x.dtype, product_shapes(x, y), float(limits.min), float(limits.max))
    return g.emit("QLinearMatMul", [x, scale, zero, y, *ends, _zero(g, x.dtype)], result)


@rule("QLinearConv", 10)
def _qlinear_conv(g: Builder) -> Any:
    known = lambda v: v.shapes[0][1] == v.shapes[1][1]  # noqa: E731
    x, scale, zero = quantized(g, g.pick(F32, [4], exact=True, where=known))
    channels, w = x.size(1), window(g, x)
    group = g.choice([n for n in (1, channels) if channels % n == 0])
    dtype = "int8" if x.dtype == "int8" else g.choice(BYTES)
    made = group * g.int(1, 2)
    kernel = _bytes(g, (made, channels // group, *w.kernel), dtype)
    per_channel = dtype == "int8" and g.chance()
    scales = [g.choice([0.25, 0.5]) for _ in range(made)] if per_channel else 0.25
    # onnxruntime wants a zero point of 0 for int8 weights
    zeros = np.zeros(made if per_channel else ()) if dtype == "int8" else g.int(0, 8)
    ends = [
        g.constant(scales, "float32", 2),
        g.constant(zeros, dtype),
        g.constant(g.choice([0.5, 1.0, 2.0]), "float32", 1),
    ]
    bias = [g.constant([g.int(-20, 20) for _ in range(made)], "int32")] if g.chance() else []
    limits = np.iinfo(x.dtype)
    result = integers(x.dtype, slid(x, w, made), float(limits.min), float(limits.max))
    given = [x, scale, zero, kernel, *ends, _zero(g, x.dtype), *bias]
    return g.emit("QLinearConv", given, result, group=group, **w.attributes())
