"""Casts, and operators that keep a value as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from random_graphs.builder import ALL, FLOATS, Builder
from random_graphs.rules import rule
from random_graphs.values import EXACT_BITS, UNIT, Value, integers, like, need


def code(dtype: str) -> int:
    """ONNX's number of a dtype."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def cast_result(x: Value, dtype: str) -> Value:
    """What Cast gives; `Unfit` where rounding could go either way or the numbers do not fit."""
    if dtype in UNIT:
        if x.grid is not None and np.log2(max(x.bound, 1)) + x.grid <= EXACT_BITS[dtype]:
            return like(x, dtype=dtype)
        error = x.error + UNIT[dtype] * x.bound
        return like(x, dtype=dtype, grid=None, error=error)
    need(x.exact)
    if dtype == "bool":
        return integers("bool", x.shapes, 0, 1)
    return integers(dtype, x.shapes, float(np.trunc(x.low)), float(np.trunc(x.high)))


@rule("Cast", 9)
def _cast(g: Builder) -> Any:
    x = g.pick(ALL)
    to = g.choice([dtype for dtype in ALL if dtype != x.dtype])
    return g.emit("Cast", [x], cast_result(x, to), to=code(to))


@rule("CastLike", 15)
def _cast_like(g: Builder) -> Any:
    x, y = g.pick(ALL), g.pick(ALL)
    return g.emit("CastLike", [x, y], cast_result(x, y.dtype))


@rule("Identity")
def _identity(g: Builder) -> Any:
    x = g.pick(ALL)
    return g.emit("Identity", [x], like(x))


@rule("Dropout", 7)
def _dropout(g: Builder) -> Any:
    x = g.pick(FLOATS if g.opset >= 12 else ("float32", "float64"))
    if g.opset < 12:
        return g.emit("Dropout", [x], like(x), ratio=0.4)
    mask = integers("bool", x.shapes, 0, 1)
    more = [mask] if g.chance(0.3) else []
    return g.emit_all("Dropout", [x, g.constant(0.25, "float32", 2)], like(x), *more)
