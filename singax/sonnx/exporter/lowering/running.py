"""Running products, extremes and logarithms of sums: elements 1, 2, 4, 8 … places apart are combined in turn."""

from __future__ import annotations

from typing import Any

import numpy as np

from singax.sonnx.exporter.graph import Graph, Ref
from singax.sonnx.exporter.lowering.dtypes import largest, smallest
from singax.sonnx.exporter.lowering.movement import END, cut
from singax.sonnx.exporter.registry import Call, lowers
from singax.sonnx.exporter.symbolic import numbers

_OPERATORS = {"cumprod": "Mul", "cummax": "Max", "cummin": "Min"}


@lowers("cumprod", "cummax", "cummin", "cumlogsumexp")
def running(call: Call, x: Ref) -> Ref:
    axis, back = call.params["axis"], call.params["reverse"]
    (size,) = numbers([x.shape[axis]], f"the length of a {call.equation.name}")
    neutral = _neutral(call.equation.name, x.dtype)
    step = 1
    while step < size:
        x = Ref(_combined(call, x, _moved(call.graph, x, neutral, axis, step, back)).name, x.shape, x.dtype)
        step *= 2
    return x


def _neutral(name: str, dtype: Any) -> np.ndarray:
    if name == "cumprod":
        return np.asarray(1, dtype)
    return largest(dtype) if name == "cummin" else smallest(dtype)


def _moved(graph: Graph, x: Ref, neutral: np.ndarray, axis: int, step: int, back: bool) -> Ref:
    """x moved by `step` places away from where the sums start."""
    pads = [0] * (2 * x.ndim)
    pads[axis + x.ndim * back] = step
    padded = graph.op("Pad", x, np.asarray(pads, np.int64), neutral)
    return cut(graph, padded, {axis: (step, END, 1) if back else (0, -step, 1)})


def _combined(call: Call, a: Ref, b: Ref) -> Ref:
    graph = call.graph
    if call.equation.name != "cumlogsumexp":
        return graph.op(_OPERATORS[call.equation.name], a, b)
    top = graph.op("Max", a, b)
    nothing = graph.op("Equal", top, smallest(a.dtype))
    shift = graph.op("Where", nothing, np.asarray(0, a.dtype), top)
    total = graph.op("Add", graph.op("Exp", graph.op("Sub", a, shift)), graph.op("Exp", graph.op("Sub", b, shift)))
    return graph.op("Add", graph.op("Log", total), shift)
