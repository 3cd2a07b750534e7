"""Reductions, places of extremes, and running sums."""

from __future__ import annotations

import numpy as np

from singax.sonnx.exporter.graph import Graph, Ref
from singax.sonnx.exporter.lowering.dtypes import element_type, is_bool, within
from singax.sonnx.exporter.registry import Call, lowers

_REDUCTIONS = {
    "reduce_sum": "ReduceSum", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd",
}  # fmt: skip


def reduced(graph: Graph, op_type: str, x: Ref, axes: tuple[int, ...], keepdims: int = 0) -> Ref:
    """A reduction over axes: an input from opset 18 on (of sums from 13), an attribute before."""
    if not axes:
        return x
    if op_type == "ReduceSum" or graph.session.opset >= 18:
        return graph.op(op_type, x, np.asarray(axes, np.int64), keepdims=keepdims)
    return graph.op(op_type, x, axes=list(axes), keepdims=keepdims)


@lowers(*_REDUCTIONS)
def reduce(call: Call, x: Ref) -> Ref:
    if is_bool(x):
        return _logical(call, x, _REDUCTIONS[call.equation.name])
    return reduced(call.graph, _REDUCTIONS[call.equation.name], x, call.params["axes"])


@lowers("reduce_and")
def reduce_and(call: Call, x: Ref) -> Ref:
    return _logical(call, x, "ReduceMin")


@lowers("reduce_or")
def reduce_or(call: Call, x: Ref) -> Ref:
    return _logical(call, x, "ReduceMax")


def _logical(call: Call, x: Ref, op_type: str) -> Ref:
    """All or any of booleans, by way of integers."""
    number = reduced(call.graph, op_type, within(call.graph, x, np.int32), call.params["axes"])
    return call.graph.op("Cast", number, to=element_type(np.bool_))


@lowers("argmax", "argmin")
def extreme_place(call: Call, x: Ref) -> Ref:
    op_type = "ArgMax" if call.equation.name == "argmax" else "ArgMin"
    (axis,) = call.params["axes"]
    if is_bool(x):
        x = within(call.graph, x, np.int32)
    place = call.graph.op(op_type, x, axis=axis, keepdims=0)
    return call.graph.op("Cast", place, to=element_type(call.out.dtype))


@lowers("cumsum")
def cumsum(call: Call, x: Ref) -> Ref:
    axis = np.asarray(call.params["axis"], np.int64)
    return call.graph.op("CumSum", x, axis, reverse=int(call.params["reverse"]))
