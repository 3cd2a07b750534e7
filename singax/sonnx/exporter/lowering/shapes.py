"""Reshaping, broadcasting, transposing and joining."""

from __future__ import annotations

import numpy as np

from singax.sonnx.exporter.graph import Graph, Ref, constant
from singax.sonnx.exporter.lowering.dtypes import within
from singax.sonnx.exporter.registry import Call, lowers
from singax.sonnx.exporter.symbolic import Dim, Size, is_static


def reshaped(graph: Graph, x: Ref, sizes: tuple[Size, ...]) -> Ref:
    """x with other sizes: one that is unknown is inferred when the file runs."""
    unknown = [axis for axis, size in enumerate(sizes) if isinstance(size, Dim)]
    if len(unknown) == 1 and 0 not in sizes:
        numbers = [-1 if isinstance(size, Dim) else size for size in sizes]
        return graph.op("Reshape", x, np.asarray(numbers, np.int64))
    zeros = 1 if 0 in sizes and graph.session.opset >= 14 else None
    return graph.op("Reshape", x, graph.sizes(sizes), allowzero=zeros)


@lowers("reshape")
def reshape(call: Call, x: Ref, *_: Ref) -> Ref:
    return reshaped(call.graph, x, call.out.shape)


@lowers("squeeze")
def squeeze(call: Call, x: Ref) -> Ref:
    axes = call.params["dimensions"]
    return call.graph.op("Squeeze", x, np.asarray(axes, np.int64)) if axes else x


@lowers("expand_dims")
def expand_dims(call: Call, x: Ref) -> Ref:
    return call.graph.op("Unsqueeze", x, np.asarray(call.params["dimensions"], np.int64))


@lowers("broadcast_in_dim")
def broadcast_in_dim(call: Call, x: Ref, *_: Ref) -> Ref:
    """Axis i of x becomes axis places[i] of the result; new axes, and those of size 1, are repeated."""
    sizes, places = call.out.shape, call.params["broadcast_dimensions"]
    new = [axis for axis in range(len(sizes)) if axis not in places]
    placed: list[Size] = [1] * len(sizes)
    for axis, place in enumerate(places):
        placed[place] = x.shape[axis]
    made = call.graph.op("Unsqueeze", x, np.asarray(new, np.int64)) if new and x.ndim else x
    if tuple(placed) == sizes and (x.ndim or not sizes):
        return made
    return call.graph.op("Expand", made, call.graph.sizes(sizes))


@lowers("transpose")
def transpose(call: Call, x: Ref) -> Ref:
    return call.graph.op("Transpose", x, perm=list(call.params["permutation"]))


@lowers("concatenate")
def concatenate(call: Call, *xs: Ref) -> Ref:
    axis = call.params["dimension"]
    some = [x for x in xs if x.shape[axis] != 0] or list(xs[:1])
    return some[0] if len(some) == 1 else call.graph.op("Concat", *some, axis=axis)


@lowers("split")
def split(call: Call, x: Ref) -> list[Ref]:
    sizes, axis = call.params["sizes"], call.params["axis"]
    return list(call.graph.ops("Split", x, call.graph.sizes(sizes), outputs=len(sizes), axis=axis))


@lowers("iota")
def iota(call: Call, *_: Ref) -> Ref:
    """0, 1, 2 … along one axis."""
    graph, sizes, axis = call.graph, call.out.shape, call.params["dimension"]
    if is_static(sizes) and len(sizes) <= 1:
        return constant(np.arange(sizes[0] if isinstance(sizes[0], int) else 0, dtype=call.out.dtype))
    zero, one = (np.asarray(v, np.int64) for v in (0, 1))
    numbers = Ref(graph.op("Range", zero, graph.scalar(sizes[axis]), one).name, (sizes[axis],), np.dtype(np.int64))
    numbers = within(graph, numbers, call.out.dtype)
    if len(sizes) == 1:
        return numbers
    column = graph.op("Unsqueeze", numbers, np.asarray([k for k in range(len(sizes)) if k != axis], np.int64))
    return graph.op("Expand", column, graph.sizes(sizes))


@lowers("stack")
def stack(call: Call, *xs: Ref) -> Ref:
    axis = call.params["axis"]
    place = np.asarray([axis], np.int64)
    return call.graph.op("Concat", *[call.graph.op("Unsqueeze", x, place) for x in xs], axis=axis)


@lowers("tile")
def tile(call: Call, x: Ref) -> Ref:
    return call.graph.op("Tile", x, call.graph.sizes(call.params["reps"]))
