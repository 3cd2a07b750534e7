"""Gather: what `x[i, 1:, j]`, `jnp.take` and `take_along_axis` become.

XLA's gather takes a window of the operand at each start index. Here an axis of the operand is either indexed, or it
runs along with an axis of the indices (batching), or the window covers it from 0 on. Indices and windows longer than
one become further axes of an index tensor; the rest is ONNX's Gather (one indexed axis) or GatherND.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.sonnx.exporter.graph import Graph, Ref, constant
from singax.sonnx.exporter.lowering.movement import cut
from singax.sonnx.exporter.lowering.shapes import reshaped
from singax.sonnx.exporter.registry import Call, lowers
from singax.sonnx.exporter.symbolic import Size

Label = tuple[str, int]  # ("batch", axis of the indices) or ("window", axis of the operand)


@dataclass
class Starts:
    """Start indices: for each indexed axis an int64 tensor of the shape of the batch, and where all are inside."""

    values: dict[int, Ref]
    inside: Ref | None


@lowers("gather")
def gather(call: Call, x: Ref, indices: Ref) -> Ref:
    graph, params = call.graph, call.params
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    indexed = [int(axis) for axis in numbers.start_index_map]
    batching = [int(axis) for axis in numbers.operand_batching_dims]
    batch = indices.shape[:-1]
    checks = not _name(params["mode"]).startswith("PROMISE")
    fills = _name(params["mode"]).startswith("FILL")
    starts = start_indices(graph, indices, indexed, x.shape, sizes, checks, fills)
    whole = [axis for axis in range(x.ndim) if axis not in indexed and axis not in batching]
    x = _trimmed(graph, x, whole, sizes)
    windows = [axis for axis in sorted(indexed) if sizes[axis] != 1]
    labels: list[Label]
    if len(indexed) == 1 and not batching:
        made, labels = _by_gather(graph, x, starts, indexed[0], len(batch), sizes)
    else:
        along = [int(axis) for axis in numbers.start_indices_batching_dims]
        made, labels = _by_gather_nd(graph, x, starts, batching, along, batch, windows, sizes)
    made = _arranged(call, made, labels, numbers, batch)
    if starts.inside is None:
        return made
    return graph.op("Where", _spread_mask(call, starts.inside, batch), made, _filling(params, call.out.dtype))


def _name(mode: Any) -> str:
    return getattr(mode, "name", str(mode)).upper().rsplit(".", 1)[-1]


def start_indices(
    graph: Graph, indices: Ref, indexed: list[int], shape: Sequence[Size], sizes: Any, checks: bool, fills: bool
) -> Starts:
    """The columns of `indices`, kept within the operand if `checks`; with `fills` also where they were inside."""
    found: dict[int, Ref] = {}
    inside: Ref | None = None
    zero = np.asarray(0, np.int64)
    for column, axis in enumerate(indexed):
        last = shape[axis] - sizes[axis]
        value = _column(graph, indices, column)
        if value.value is not None and isinstance(last, int):
            good = np.asarray((value.value >= 0) & (value.value <= last))
            clipped = constant(np.clip(value.value, 0, max(last, 0)))
            part = None if good.all() else constant(good)
        elif checks:
            highest = graph.scalar(last)
            clipped = graph.op("Min", graph.op("Max", value, zero), highest)
            part = graph.op("Equal", clipped, value) if fills else None
        else:
            clipped, part = value, None
        found[axis] = clipped
        if part is not None and fills:
            inside = part if inside is None else graph.op("And", inside, part)
    return Starts(found, inside)


def _column(graph: Graph, indices: Ref, column: int) -> Ref:
    if indices.value is not None:
        return constant(indices.value[..., column].astype(np.int64))
    if indices.shape[-1] == 1:
        flat = graph.op("Squeeze", indices, np.asarray([-1], np.int64))
    else:
        flat = graph.op("Gather", indices, np.asarray(column, np.int64), axis=-1)
    return graph.op("Cast", flat, to=7)


def _trimmed(graph: Graph, x: Ref, whole: list[int], sizes: Any) -> Ref:
    """The operand without what lies behind a window that starts at 0."""
    ends: dict[int, tuple[Size, Size, int]] = {
        axis: (0, sizes[axis], 1) for axis in whole if sizes[axis] != x.shape[axis]
    }
    made = cut(graph, x, ends)
    shape = tuple(sizes[axis] if axis in ends else n for axis, n in enumerate(x.shape))
    return Ref(made.name, shape, x.dtype, x.value if made is x else None)


def _by_gather(graph: Graph, x: Ref, starts: Starts, axis: int, batch: int, sizes: Any) -> tuple[Ref, list[Label]]:
    places = starts.values[axis]
    behind: list[Label] = []
    if sizes[axis] != 1:
        places, behind = widened(graph, places, [axis], axis, sizes), [("window", axis)]
    made = graph.op("Gather", x, places, axis=axis)
    before: list[Label] = [("window", k) for k in range(axis)]
    after: list[Label] = [("window", k) for k in range(axis + 1, x.ndim)]
    return made, [*before, *[("batch", k) for k in range(batch)], *behind, *after]


def widened(graph: Graph, start: Ref, windows: list[int], axis: int, sizes: Any) -> Ref:
    """Start indices (batch…) as those of each element of the window: (batch…, an axis for each of `windows`)."""
    new = [-1 - k for k in range(len(windows))]
    if start.value is not None:
        wide = constant(start.value.reshape(*start.value.shape, *(1,) * len(windows)))
    else:
        wide = graph.op("Unsqueeze", start, np.asarray(new, np.int64))
    if axis not in windows:
        return wide
    steps = graph.op("Range", np.asarray(0, np.int64), graph.scalar(sizes[axis]), np.asarray(1, np.int64))
    others = [k for k, window in enumerate(windows) if window != axis]
    column = graph.op("Unsqueeze", steps, np.asarray(others, np.int64)) if others else steps
    return graph.op("Add", wide, column)


def _by_gather_nd(
    graph: Graph,
    x: Ref,
    starts: Starts,
    batching: list[int],
    along: list[int],
    batch: Sequence[Size],
    windows: list[int],
    sizes: Any,
) -> tuple[Ref, list[Label]]:
    """The operand as (batching, indexed, others), the indices as (batching, other batch, windows, which axis)."""
    indexed = sorted(starts.values)
    others = [axis for axis in range(x.ndim) if axis not in indexed and axis not in batching]
    order = [*batching, *indexed, *others]
    moved = x if order == list(range(x.ndim)) else graph.op("Transpose", x, perm=order)
    parts = [widened(graph, starts.values[axis], windows, axis, sizes) for axis in indexed]
    shape = [*batch, *[sizes[axis] for axis in windows]]
    table = stacked(graph, parts, shape)
    rest = [axis for axis in range(len(batch)) if axis not in along]
    perm = [*along, *rest, *range(len(batch), len(shape) + 1)]
    if perm != list(range(len(perm))):
        table = graph.op("Transpose", table, perm=perm)
    made = graph.op("GatherND", moved, table, batch_dims=len(batching))
    labels: list[Label] = [("batch", axis) for axis in [*along, *rest]]
    return made, labels + [("window", axis) for axis in [*windows, *others]]


def stacked(graph: Graph, parts: Sequence[Ref], shape: Sequence[Size]) -> Ref:
    """Index tensors, broadcast to one shape, side by side along a new last axis."""
    if len(parts) == 1:
        return graph.op("Unsqueeze", parts[0], np.asarray([-1], np.int64))
    sizes = graph.sizes(shape)
    last = np.asarray([-1], np.int64)
    return graph.op("Concat", *[graph.op("Unsqueeze", graph.op("Expand", p, sizes), last) for p in parts], axis=-1)


def _arranged(call: Call, made: Ref, labels: list[Label], numbers: Any, batch: Sequence[Size]) -> Ref:
    """The axes in the order of the result; those of windows of one element, which are missing, are put in."""
    hidden = {*map(int, numbers.collapsed_slice_dims), *map(int, numbers.operand_batching_dims)}
    count = len(call.out.shape) - len(batch) + len(hidden)
    windows = iter([axis for axis in range(count) if axis not in hidden])
    batches = iter(range(len(batch)))
    places = {int(axis) for axis in numbers.offset_dims}
    wanted: list[Label] = [
        ("window", next(windows)) if k in places else ("batch", next(batches)) for k in range(len(call.out.shape))
    ]
    present = [label for label in wanted if label in labels]
    dropped = [label for label in labels if label not in wanted]
    assert not dropped, "every axis that was made is in the result"
    perm = [labels.index(label) for label in present]
    if perm != list(range(len(perm))):
        made = call.graph.op("Transpose", made, perm=perm)
    return made if present == wanted else reshaped(call.graph, made, call.out.shape)


def _spread_mask(call: Call, inside: Ref, batch: Sequence[Size]) -> Ref:
    """Where the result is valid, with axes of size 1 for the windows."""
    places = {int(axis) for axis in call.params["dimension_numbers"].offset_dims}
    sizes = iter(batch)
    shape = tuple(1 if axis in places else next(sizes) for axis in range(len(call.out.shape)))
    return reshaped(call.graph, inside, shape) if places else inside


def _filling(params: dict[str, Any], dtype: Any) -> np.ndarray:
    value = params["fill_value"]
    if value is None:
        if jnp.issubdtype(dtype, jnp.floating):
            value = np.nan
        elif np.dtype(dtype) == np.bool_:
            value = True
        else:
            limits = jnp.iinfo(dtype)
            value = limits.max if jnp.issubdtype(dtype, jnp.unsignedinteger) else limits.min
    return np.asarray(value, dtype)
