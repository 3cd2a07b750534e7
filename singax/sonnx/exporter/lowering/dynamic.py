"""Slices at places that are computed when the file runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from singax.sonnx.exporter.graph import Graph, Ref
from singax.sonnx.exporter.lowering.movement import END
from singax.sonnx.exporter.registry import Call, lowers
from singax.sonnx.exporter.symbolic import Size


@lowers("dynamic_slice")
def dynamic_slice(call: Call, x: Ref, *starts: Ref) -> Ref:
    graph, sizes = call.graph, call.params["slice_sizes"]
    axes = [axis for axis in range(x.ndim) if sizes[axis] != x.shape[axis]]
    if not axes:
        return x
    firsts = [_start(graph, starts[axis], x.shape[axis] - sizes[axis]) for axis in axes]
    first = graph.op("Concat", *firsts, axis=0) if len(firsts) > 1 else firsts[0]
    stop = graph.op("Add", first, graph.sizes([sizes[axis] for axis in axes]))
    return graph.op("Slice", x, first, stop, np.asarray(axes, np.int64))


@lowers("dynamic_update_slice")
def dynamic_update_slice(call: Call, x: Ref, update: Ref, *starts: Ref) -> Ref:
    axes = [axis for axis in range(x.ndim) if update.shape[axis] != x.shape[axis]]
    return _updated(call.graph, x, update, axes, starts)


def _updated(graph: Graph, x: Ref, update: Ref, axes: list[int], starts: Sequence[Ref]) -> Ref:
    """What lies before the update along the first axis, the block that holds it, and what lies behind."""
    if not axes:
        return update
    axis, *rest = axes
    size, place = update.shape[axis], np.asarray([axis], np.int64)
    first = _start(graph, starts[axis], x.shape[axis] - size)
    stop = graph.op("Add", first, graph.sizes([size]))
    before = graph.op("Slice", x, np.zeros(1, np.int64), first, place)
    behind = graph.op("Slice", x, stop, np.asarray([END], np.int64), place)
    if not rest:
        return graph.op("Concat", before, update, behind, axis=axis)
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    block = Ref(graph.op("Slice", x, first, stop, place).name, shape, x.dtype)
    return graph.op("Concat", before, _updated(graph, block, update, rest, starts), behind, axis=axis)


def _start(graph: Graph, start: Ref, last: Size) -> Ref:
    """A start index as an int64 vector of length 1, kept from 0 to `last`."""
    if start.value is not None and isinstance(last, int):
        return Ref(None, (1,), np.dtype(np.int64), np.clip(start.value, 0, last).astype(np.int64).reshape(1))
    wide = graph.op("Reshape", graph.op("Cast", start, to=7), np.asarray([1], np.int64))
    return graph.op("Min", graph.op("Max", wide, np.zeros(1, np.int64)), graph.size(last))
