"""Bringing values into the range that an operator wants, with operators of the graph."""

from __future__ import annotations

import numpy as np

from random_graphs.builder import Builder
from random_graphs.values import Value, like, need, rough


def clipped(g: Builder, x: Value, low: float, high: float) -> Value:
    """The value held between two multiples of 1/8, by Clip or by Min and Max."""
    grid = None if x.grid is None else max(x.grid, 3)
    result = like(x, low=min(max(x.low, low), high), high=max(min(x.high, high), low), grid=grid)
    if g.opset < 11:
        need(x.dtype == "float32")
        return g.emit("Clip", [x], result, min=float(low), max=float(high))
    ends = [g.constant(low, x.dtype, 3), g.constant(high, x.dtype, 3)]
    if g.opset >= 12 and g.chance(0.3):
        lower = like(x, low=min(x.low, high), high=min(x.high, high), grid=grid)
        return g.emit("Max", [g.emit("Min", [x, ends[1]], lower), ends[0]], result)
    need(x.dtype == "float32" or g.opset >= 12)
    return g.emit("Clip", [x, *ends], result)


def within(g: Builder, x: Value, low: float, high: float) -> Value:
    """The value itself if it lies in the range, else one made from it that does."""
    if low <= x.low and x.high <= high:
        return x
    if x.exact or g.chance() or x.dtype == "float16":
        return clipped(g, x, low, high)
    unit = g.emit("Sigmoid", [x], rough([x], x.shapes, 0, 1, 0.25))
    half = (high - low) / 2
    wide = g.emit("Mul", [unit, g.constant(half, x.dtype, None)], rough([unit], x.shapes, 0, half, half))
    return g.emit("Add", [wide, g.constant(low, x.dtype, None)], rough([wide], x.shapes, low, low + half))


def tame(g: Builder, x: Value, bound: float) -> Value:
    """The value, scaled by a power of two or held within the bound where it is larger."""
    if x.bound <= bound:
        return x
    if g.chance():
        return within(g, x, -bound, bound)
    bits = int(np.ceil(np.log2(x.bound / bound)))
    factor = g.constant(2.0**-bits, x.dtype, bits)
    grid = None if x.grid is None else x.grid + bits
    scaled = like(x, low=x.low * 2.0**-bits, high=x.high * 2.0**-bits, grid=grid, error=x.error * 2.0**-bits)
    return g.emit("Mul", [x, factor], scaled)


def away_from_zero(g: Builder, x: Value, low: float = 0.5, bound: float = 8.0) -> Value:
    """A positive value of at least `low`, a multiple of 1/8."""
    if low <= x.low and x.high <= bound:
        return x
    y = tame(g, x, bound - low)
    if not y.exact and y.dtype == "float32" and g.chance():
        made = g.emit("Softplus", [y], rough([y], y.shapes, 0, y.bound + 0.7))
    else:
        made = g.emit("Abs", [y], like(y, low=0, high=y.bound))
    grid = None if made.grid is None else max(made.grid, 3)
    raised = rough([made], made.shapes, low, made.high + low)
    if grid is not None:
        raised = like(made, low=low, high=made.high + low, grid=grid)
    return g.emit("Add", [made, g.constant(low, x.dtype, 3)], raised)


def cast(g: Builder, x: Value, dtype: str) -> Value:
    """The value in another dtype; exact ones where the numbers change."""
    from random_graphs.casts import cast_result, code

    return x if x.dtype == dtype else g.emit("Cast", [x], cast_result(x, dtype), to=code(dtype))
