"""Sorting, by TopK over the whole axis: of equal elements it puts the one that stands first in front."""

from __future__ import annotations

import numpy as np

from singax.sonnx.exporter.graph import Graph, Ref
from singax.sonnx.exporter.lowering.dtypes import is_bool, within
from singax.sonnx.exporter.registry import Call, lowers
from singax.sonnx.exporter.symbolic import Size


@lowers("sort")
def sort(call: Call, *operands: Ref) -> list[Ref]:
    """Sorted by the last key first: since each pass is stable, the first key decides in the end."""
    graph, axis, keys = call.graph, call.params["dimension"], call.params["num_keys"]
    size = operands[0].shape[axis]
    if keys == 1:
        values, order = ordered(graph, operands[0], size, axis, largest=False)
        return [values, *[graph.op("GatherElements", x, order, axis=axis) for x in operands[1:]]]
    order: Ref | None = None  # type: ignore[no-redef]
    for key in reversed(operands[:keys]):
        now = key if order is None else Ref(graph.op("GatherElements", key, order, axis=axis).name, (), key.dtype)
        _, places = ordered(graph, now, size, axis, largest=False)
        order = places if order is None else graph.op("GatherElements", order, places, axis=axis)
    return [graph.op("GatherElements", x, order, axis=axis) for x in operands]


@lowers("top_k")
def top_k(call: Call, x: Ref) -> list[Ref]:
    values, places = ordered(call.graph, x, call.params["k"], call.params.get("axis", -1), largest=True)
    return [values, call.graph.op("Cast", places, to=6)]


def ordered(graph: Graph, x: Ref, count: Size, axis: int, largest: bool) -> tuple[Ref, Ref]:
    """The first `count` elements in order, and where they are (int64)."""
    number = within(graph, x, np.int32) if is_bool(x) or np.dtype(x.dtype).itemsize < 2 else x
    values, places = graph.ops("TopK", number, graph.size(count), outputs=2, axis=axis, largest=int(largest))
    return (values if number is x else within(graph, Ref(values.name, (), np.dtype(np.int32)), x.dtype)), places
