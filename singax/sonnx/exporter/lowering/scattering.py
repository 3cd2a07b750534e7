"""Scatter: what `x.at[i].set`, `.add`, `.multiply`, `.min` and `.max` become, as ScatterND."""

from __future__ import annotations

from typing import Any

import numpy as np

from singax.errors import ExportError
from singax.sonnx.exporter.graph import Graph, Ref, constant
from singax.sonnx.exporter.lowering.dtypes import is_bool, within
from singax.sonnx.exporter.lowering.gathering import stacked, start_indices, widened
from singax.sonnx.exporter.lowering.movement import cut
from singax.sonnx.exporter.registry import Call, lowers
from singax.sonnx.exporter.symbolic import Size

_REDUCTIONS = {
    "scatter": None, "scatter-add": "add", "scatter_add": "add", "scatter-mul": "mul", "scatter_mul": "mul",
    "scatter-min": "min", "scatter_min": "min", "scatter-max": "max", "scatter_max": "max",
}  # fmt: skip
_FIRST_OPSET = {None: 13, "add": 16, "mul": 16, "min": 18, "max": 18}


@lowers(*_REDUCTIONS)
def scatter(call: Call, x: Ref, indices: Ref, updates: Ref) -> Ref:
    """Axes of the operand are moved to (indexed, others), updates to (batch, windows, others).

    Updates that lie outside go to a row which is put behind the first indexed axis and cut off again.
    """
    graph, numbers = call.graph, call.params["dimension_numbers"]
    reduction = _REDUCTIONS[call.equation.name]
    if call.opset < _FIRST_OPSET[reduction]:
        raise ExportError(f"{call.equation.name} has an operator only from opset {_FIRST_OPSET[reduction]} on")
    if is_bool(x) and reduction is not None:
        raise ExportError(f"{call.equation.name} has no form in ONNX for booleans")
    axes = _Axes(numbers, x, updates)
    places = _places(call, axes, x, indices, updates)
    order = [*axes.indexed, *axes.others]
    moved = _transposed(graph, x, order)
    drops = places.inside is not None
    table = places.table
    if places.inside is not None:
        moved = _with_row(graph, moved, x, order)
    ready = _transposed(graph, updates, [*axes.batch, *axes.windows, *axes.full])
    made = graph.op("ScatterND", moved, table, ready, reduction=reduction)
    if drops:
        made = cut(graph, made, {0: (0, -1, 1)})
    return _transposed(graph, made, [order.index(axis) for axis in range(x.ndim)], x.ndim)


class _Axes:
    """Which axes of operand and updates are what. `windows` and `full` are axes of the updates."""

    def __init__(self, numbers: Any, x: Ref, updates: Ref) -> None:
        self.start = [int(axis) for axis in numbers.scatter_dims_to_operand_dims]
        self.along = dict(
            zip(map(int, numbers.operand_batching_dims), map(int, numbers.scatter_indices_batching_dims), strict=True)
        )
        hidden = {*map(int, numbers.inserted_window_dims), *self.along}
        window_axes = [axis for axis in range(x.ndim) if axis not in hidden]
        self.window_of = dict(zip(window_axes, map(int, numbers.update_window_dims), strict=True))
        partial = [a for a in window_axes if a in self.start or updates.shape[self.window_of[a]] != x.shape[a]]
        self.indexed = sorted({*self.start, *self.along, *partial})
        self.others = [axis for axis in range(x.ndim) if axis not in self.indexed]
        self.windowed = [axis for axis in window_axes if axis in self.indexed]
        self.batch = [k for k in range(updates.ndim) if k not in self.window_of.values()]
        self.windows = [self.window_of[axis] for axis in self.windowed]
        self.full = [self.window_of[axis] for axis in self.others]


class _Places:
    """The table of ScatterND, and where its rows lie inside the operand."""

    def __init__(self, table: Ref, inside: Ref | None) -> None:
        self.table, self.inside = table, inside


def _places(call: Call, axes: _Axes, x: Ref, indices: Ref, updates: Ref) -> _Places:
    graph = call.graph
    sizes: list[Size] = [1] * x.ndim
    for axis in axes.windowed:
        sizes[axis] = updates.shape[axes.window_of[axis]]
    mode = getattr(call.params["mode"], "name", str(call.params["mode"])).upper()
    starts = start_indices(graph, indices, axes.start, x.shape, sizes, "PROMISE" not in mode, "FILL" in mode)
    batch = [updates.shape[k] for k in axes.batch]
    shape = [*batch, *[sizes[axis] for axis in axes.windowed]]
    parts = []
    for axis in axes.indexed:
        start = starts.values.get(axis) or _counter(graph, axes, axis, batch)
        if axis == axes.indexed[0] and starts.inside is not None:
            start = graph.op("Where", starts.inside, start, graph.scalar(x.shape[axis]))
        wide = widened(graph, start, axes.windowed, axis, sizes) if axes.windowed else start
        if axis == axes.indexed[0] and starts.inside is not None:  # a window that lies outside stays there
            wide = graph.op("Min", wide, graph.scalar(x.shape[axis]))
        parts.append(wide)
    if not parts:
        return _Places(constant(np.zeros((*[1] * len(shape), 0), np.int64)), None)
    if len(parts) == 1:
        parts = [graph.op("Expand", parts[0], graph.sizes(shape))]
    return _Places(stacked(graph, parts, shape), starts.inside)


def _counter(graph: Graph, axes: _Axes, axis: int, batch: list[Size]) -> Ref:
    """The index along an axis that runs with an axis of the indices; 0 for one where only the window moves."""
    if axis not in axes.along:
        return constant(np.zeros((1,) * len(batch), np.int64))
    place = axes.along[axis]
    steps = graph.op("Range", np.asarray(0, np.int64), graph.scalar(batch[place]), np.asarray(1, np.int64))
    others = [k for k in range(len(batch)) if k != place]
    return graph.op("Unsqueeze", steps, np.asarray(others, np.int64)) if others else steps


def _with_row(graph: Graph, moved: Ref, x: Ref, order: list[int]) -> Ref:
    """One more row behind the first axis."""
    pads = [0] * len(order) + [1] + [0] * (len(order) - 1)
    if is_bool(x):
        number = graph.op("Pad", within(graph, Ref(moved.name, x.shape, x.dtype, moved.value), np.int32),
                          np.asarray(pads, np.int64))  # fmt: skip
        return graph.op("Cast", number, to=9)
    return graph.op("Pad", moved, np.asarray(pads, np.int64))


def _transposed(graph: Graph, x: Ref, order: list[int], rank: int | None = None) -> Ref:
    return x if order == list(range(len(order))) else graph.op("Transpose", x, perm=order)
