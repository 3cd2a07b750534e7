"""Reductions over windows: as MaxPool, as a convolution with ones, or place by place."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from singax.errors import ExportError
from singax.sonnx.exporter.graph import Graph, Ref
from singax.sonnx.exporter.lowering.dtypes import largest, smallest
from singax.sonnx.exporter.lowering.movement import cut
from singax.sonnx.exporter.lowering.reduction import reduced
from singax.sonnx.exporter.lowering.shapes import reshaped
from singax.sonnx.exporter.registry import Call, lowers
from singax.sonnx.exporter.symbolic import Size, numbers

_OPERATORS = {"reduce_window_sum": "Add", "reduce_window_max": "Max", "reduce_window_min": "Min"}
_COMBINATIONS = {"add": "Add", "max": "Max", "min": "Min", "mul": "Mul"}


@lowers(*_OPERATORS)
def reduce_window(call: Call, x: Ref) -> Ref:
    op_type, params = _OPERATORS[call.equation.name], call.params
    if any(step != 1 for step in params["base_dilation"]):
        raise ExportError(f"{call.equation.name} has no form in ONNX for a base_dilation above 1")
    window = params["window_dimensions"]
    spatial = [axis for axis, n in enumerate(window) if n != 1 or params["padding"][axis] != (0, 0)]
    small = np.dtype(x.dtype) == np.float32 and 1 <= len(spatial) <= 3
    if op_type != "Min" and small and all(p == (0, 0) for k, p in enumerate(params["padding"]) if k not in spatial):
        return _as_pooling(call, x, spatial, op_type)
    neutral = {"Add": np.asarray(0, x.dtype), "Max": smallest(x.dtype), "Min": largest(x.dtype)}[op_type]
    return _by_places(call, x, op_type, Ref(None, (), x.dtype, neutral))


@lowers("reduce_window")
def general(call: Call, x: Ref, *initial: Ref) -> Ref:
    return _by_places(call, x, combination(call), initial[0])


@lowers("reduce")
def reduce(call: Call, x: Ref, *initial: Ref) -> Ref:
    """A reduction by a function of the user, if that is a single primitive."""
    graph, op_type, axes = call.graph, combination(call), call.params["dimensions"]
    name = {"Add": "ReduceSum", "Max": "ReduceMax", "Min": "ReduceMin", "Mul": "ReduceProd"}[op_type]
    return graph.op(op_type, reduced(graph, name, x, axes), initial[0])


def combination(call: Call) -> str:
    """The operator that the function of a reduction stands for."""
    (program, *_) = call.equation.inner("jaxpr")
    names = [eqn.primitive.name for eqn in program.jaxpr.eqns]
    if len(names) != 1 or names[0] not in _COMBINATIONS or len(program.jaxpr.invars) != 2:
        raise ExportError(f"{call.equation.name} by a function other than add, mul, min or max has no form in ONNX")
    return _COMBINATIONS[names[0]]


def _as_pooling(call: Call, x: Ref, spatial: list[int], op_type: str) -> Ref:
    """The axes without a window become one, in front of those with one."""
    graph, params = call.graph, call.params
    rest = [axis for axis in range(x.ndim) if axis not in spatial]
    order = [*rest, *spatial]
    moved = x if order == list(range(x.ndim)) else graph.op("Transpose", x, perm=order)
    many = math.prod(x.shape[axis] for axis in rest)
    images = reshaped(graph, moved, (many, 1, *[x.shape[axis] for axis in spatial]))
    pads = [params["padding"][axis][side] for side in (0, 1) for axis in spatial]
    options: dict[str, Any] = {
        "strides": [params["window_strides"][axis] for axis in spatial],
        "dilations": [params["window_dilation"][axis] for axis in spatial],
        "pads": list(numbers(pads, "the padding of a window")),
    }
    kernel = list(numbers([params["window_dimensions"][axis] for axis in spatial], "a window"))
    if op_type == "Max":
        made = graph.op("MaxPool", images, kernel_shape=kernel, **options)
    else:
        made = graph.op("Conv", images, np.ones((1, 1, *kernel), x.dtype), kernel_shape=kernel, **options)
    strided = [params["window_strides"][axis] for axis in rest]
    sizes = tuple(call.out.shape[axis] for axis in order)
    if any(step != 1 for step in strided):
        raise ExportError(f"{call.equation.name} has no form in ONNX for strides along axes without a window")
    back = [order.index(axis) for axis in range(x.ndim)]
    shaped = reshaped(graph, made, sizes)
    return shaped if back == list(range(x.ndim)) else graph.op("Transpose", shaped, perm=back)


def _by_places(call: Call, x: Ref, op_type: str, neutral: Ref) -> Ref:
    """Slices of all places of a window are combined, one axis after the other."""
    graph, params = call.graph, call.params
    pads = [params["padding"][axis][side] for side in (0, 1) for axis in range(x.ndim)]
    if any(pads):
        x = Ref(graph.op("Pad", x, graph.sizes(pads), neutral).name, x.shape, x.dtype)
    for axis, count in enumerate(numbers(params["window_dimensions"], "a window")):
        step, hole = params["window_strides"][axis], params["window_dilation"][axis]
        if count > 1 or step > 1:
            x = _combined(graph, x, op_type, axis, [k * hole for k in range(count)], call.out.shape[axis], step)
    return x


def _combined(graph: Graph, x: Ref, op_type: str, axis: int, starts: list[int], size: Size, step: int) -> Ref:
    slices = [cut(graph, x, {axis: (start, (size - 1) * step + 1 + start, step)}) for start in starts]
    return functools.reduce(lambda a, b: graph.op(op_type, a, b), slices)
