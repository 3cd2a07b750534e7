"""Operators that read and write at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from random_graphs.builder import INTS, Builder
from random_graphs.moves import MOVED
from random_graphs.rules import rule
from random_graphs.values import Value, both, integers, like, need


def indices(g: Builder, shape: Any, size: int, dtype: str | None = None) -> Value:
    """Constant indices into an axis of at least this size, negative ones where the opset has them."""
    low = -size if g.opset >= 11 else 0
    count = int(np.prod(shape))
    numbers = [g.int(low, size - 1) for _ in range(count)]
    return g.constant(np.reshape(numbers, shape), dtype or g.choice(INTS))


@rule("Gather")
def _gather(g: Builder) -> Any:
    x = g.pick(MOVED, range(1, 5))
    axis = g.axis(x)
    at = indices(g, g.choice([(), (3,), (2, 2)]), x.smallest(axis))
    shapes = x.mapped(lambda s: [*s[:axis], *at.shape, *s[axis + 1 :]])
    return g.emit("Gather", [x, at], like(x, shapes=shapes), axis=g.signed(axis, x.rank))


@rule("Gather")
def _gather_data(g: Builder) -> Any:
    at = g.pick(INTS, range(0, 3), where=lambda v: v.low >= 0 and v.high <= 8)
    rows = int(at.high) + 1 + g.int(0, 1)
    table = g.weight((rows, g.int(1, 4)), "float32", 2.0)
    width = table.shape[1]
    return g.emit("Gather", [table, at], like(table, shapes=at.mapped(lambda s: [*s, width])))


@rule("GatherElements", 11)
def _gather_elements(g: Builder) -> Any:
    x = g.pick(MOVED, range(1, 4))
    axis = g.axis(x)
    shape = [min(x.smallest(a), 3) for a in range(x.rank)]
    shape[axis] = g.int(1, 4)
    at = indices(g, shape, x.smallest(axis))
    return g.emit("GatherElements", [x, at], like(x, shapes=both(shape)), axis=g.signed(axis, x.rank))


def _tuples(g: Builder, x: Value, depth: int, shape: tuple[int, ...], distinct: bool = False) -> Value:
    places = [[g.int(0, x.smallest(a) - 1) for a in range(depth)] for _ in range(int(np.prod(shape)))]
    if distinct:
        need(len({tuple(p) for p in places}) == len(places))
    if g.opset >= 12 and g.chance(0.3) and x.fixed:
        places = [[p[0] - x.size(0), *p[1:]] for p in places]
    return g.ints(np.reshape(places, (*shape, depth)))


@rule("GatherND", 11)
def _gather_nd(g: Builder) -> Any:
    x = g.pick(MOVED, range(1, 5))
    depth = g.int(1, x.rank)
    shape = g.choice([(2,), (3, 1)])
    at = _tuples(g, x, depth, shape)
    return g.emit("GatherND", [x, at], like(x, shapes=x.mapped(lambda s: [*shape, *s[depth:]])))


def _updates(g: Builder, x: Value, shape: Any) -> Value:
    if x.floating:
        return g.weight(shape, x.dtype, 2.0)
    return g.constant(np.reshape([g.int(-3, 3) for _ in range(int(np.prod(shape)))], shape), x.dtype)


def written(x: Value, updates: Value, how: str | None, most: int) -> Value:
    """What scattering gives: the larger range, exact if both are."""
    grid = None if x.grid is None else max(x.grid, updates.grid or 0)
    extra = most * updates.bound if how == "add" else 0
    low, high = min(x.low, updates.low) - extra, max(x.high, updates.high) + extra
    return like(x, low=low, high=high, grid=grid)


def _how(g: Builder, x: Value) -> str | None:
    if g.opset < 16 or g.chance():
        return None
    return g.choice(["add", "none"] if g.opset < 18 else ["add", "max", "min"])


@rule("ScatterElements", 11)
def _scatter_elements(g: Builder) -> Any:
    x = g.pick(("float32", "int64", "int32"), range(1, 4))
    axis, shape = g.axis(x), [g.int(1, min(x.smallest(a), 3)) for a in range(x.rank)]
    rows = g.random.sample(range(x.smallest(axis)), shape[axis])  # distinct along the axis
    at = g.ints(np.broadcast_to(np.reshape(rows, [-1 if a == axis else 1 for a in range(x.rank)]), shape))
    how, updates = _how(g, x), _updates(g, x, shape)
    result = written(x, updates, how, 1)
    return g.emit("ScatterElements", [x, at, updates], result, axis=g.signed(axis, x.rank), reduction=how)


@rule("Scatter", 9, 10)
def _scatter(g: Builder) -> Any:
    x = g.pick(("float32", "int64"), [1, 2])
    row = [g.int(1, x.smallest(a)) for a in range(x.rank)]
    row[0] = 1
    at = g.ints(np.full(row, g.int(0, x.smallest(0) - 1)))
    updates = _updates(g, x, row)
    return g.emit("Scatter", [x, at, updates], written(x, updates, None, 1), axis=0)


@rule("ScatterND", 11)
def _scatter_nd(g: Builder) -> Any:
    x = g.pick(("float32", "int64"), range(1, 4))
    depth, count = g.int(1, x.rank), g.int(1, 2)
    tail = [x.size(a) for a in range(depth, x.rank)]
    at = _tuples(g, x, depth, (count,), distinct=True)
    how, updates = _how(g, x), _updates(g, x, (count, *tail))
    return g.emit("ScatterND", [x, at, updates], written(x, updates, how, count), reduction=how)


@rule("OneHot", 9)
def _one_hot(g: Builder) -> Any:
    at = g.pick(["int64"], [1, 2], where=lambda v: v.low >= (-6 if g.opset >= 11 else 0) and v.high < 6)
    values = g.constant([0.5, 2.0], "float32", 1)
    axis = g.int(0, at.rank)
    shapes = at.mapped(lambda s: [*s[:axis], 6, *s[axis:]])
    result = like(values, shapes=shapes)
    depth = g.constant(6 if g.chance() else [6], "int64")
    return g.emit("OneHot", [at, depth, values], result, axis=axis - at.rank - 1 if g.chance() else axis)


@rule("Unique", 11)
def _unique(g: Builder) -> Any:
    """As many results as data have values: only their sum over all is used."""
    x = g.pick(("float32", "int64"), range(1, 4), exact=True)
    return _collapsed(g, x, "Unique")


@rule("NonZero", 9)
def _nonzero(g: Builder) -> Any:
    x = g.pick(("float32", "int64", "int32", "bool", "uint8"), range(1, 4), exact=True)
    furthest = max(max(s) for s in x.shapes)
    places = integers("int64", both((1,)), 0, furthest)
    found = _unknown(g, "NonZero", [x], [places])[0]
    total = integers("int64", both((x.rank,)), 0, furthest * x.count())
    if g.opset >= 13:
        return g.emit("ReduceSum", [found, g.ints([1])], total, keepdims=0)
    return g.emit("ReduceSum", [found], total, axes=[1], keepdims=0)


def _unknown(g: Builder, name: str, given: list[Value | None], results: list[Value], **attributes: Any) -> list[Value]:
    """A node whose shapes depend on data: nobody else may read its results."""
    made = g.emit_all(name, given, *results, **attributes)
    hidden = {x.name for x in made}
    g.pool = [x for x in g.pool if x.name not in hidden]
    return made


def _collapsed(g: Builder, x: Value, name: str) -> Value:
    unsure = like(x, shapes=both((1,)))
    found = _unknown(g, name, [x], [unsure], sorted=1)[0]
    result = like(x, shapes=both(()), low=-x.bound * x.count(), high=x.bound * x.count())
    if g.opset >= 13 and g.chance():
        return g.emit("ReduceSum", [found, g.ints([0])], result, keepdims=0)
    return g.emit("ReduceMax", [found], like(x, shapes=both(())), keepdims=0)
