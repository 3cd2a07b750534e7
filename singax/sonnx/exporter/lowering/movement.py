"""Cutting, padding and turning round."""

from __future__ import annotations

import numpy as np

from singax.sonnx.exporter.graph import Graph, Ref
from singax.sonnx.exporter.registry import Call, lowers
from singax.sonnx.exporter.symbolic import Size

END, BEGIN = 2**31 - 1, -(2**31)


def cut(graph: Graph, x: Ref, axes: dict[int, tuple[Size, Size, int]]) -> Ref:
    """x[start:stop:step] along each of the axes."""
    if not axes:
        return x
    starts, stops, steps = zip(*axes.values(), strict=True)
    places = np.asarray(list(axes), np.int64)
    return graph.op("Slice", x, graph.sizes(starts), graph.sizes(stops), places, np.asarray(steps, np.int64))


@lowers("slice")
def slice_(call: Call, x: Ref) -> Ref:
    starts, stops = call.params["start_indices"], call.params["limit_indices"]
    steps = call.params["strides"] or (1,) * x.ndim
    rows = enumerate(zip(starts, stops, steps, strict=True))
    axes = {k: (a, _stop(b, x.shape[k]), s) for k, (a, b, s) in rows if (a, b, s) != (0, x.shape[k], 1)}
    return cut(call.graph, x, axes)


def _stop(stop: Size, size: Size) -> Size:
    """The end as a number where it is so many places before the end of an unknown size."""
    if stop == size:
        return END
    back = stop - size
    return back if isinstance(back, int) and back < 0 and not isinstance(stop, int) else stop


@lowers("rev")
def reverse(call: Call, x: Ref) -> Ref:
    return cut(call.graph, x, dict.fromkeys(call.params["dimensions"], (-1, BEGIN, -1)))


@lowers("pad")
def pad(call: Call, x: Ref, filling: Ref) -> Ref:
    """Padding outside and between the elements; where it is negative elements are cut off."""
    graph, config = call.graph, call.params["padding_config"]
    sizes = list(x.shape)
    for axis, (_, _, between) in enumerate(config):
        if between:
            x = spread(graph, x, filling, axis, between, sizes)
            sizes[axis] = (sizes[axis] - 1) * (between + 1) + 1
    wide = [(max(low, 0), max(high, 0)) for low, high, _ in config]
    if any(low or high for low, high in wide):
        pads = [low for low, _ in wide] + [high for _, high in wide]
        x = graph.op("Pad", x, graph.sizes(pads), filling)
    ends = {k: (max(-low, 0), min(high, 0) or END, 1) for k, (low, high, _) in enumerate(config) if min(low, high) < 0}
    return cut(graph, x, ends)


def spread(graph: Graph, x: Ref, filling: Ref, axis: int, between: int, sizes: list[Size]) -> Ref:
    """Put `between` fillings behind each element along an axis, except for the last one."""
    rank = len(sizes)
    taller = graph.op("Unsqueeze", x, np.asarray([axis + 1], np.int64))
    pads = [0] * (rank + 1) * 2
    pads[rank + 1 + axis + 1] = between
    padded = graph.op("Pad", taller, np.asarray(pads, np.int64), filling)
    numbers = [*sizes[:axis], sizes[axis] * (between + 1), *sizes[axis + 1 :]]
    flat = graph.op("Reshape", padded, graph.sizes(numbers))
    return cut(graph, flat, {axis: (0, -between, 1)})
