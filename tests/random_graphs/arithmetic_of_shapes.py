"""Index arithmetic as exporters write it: sizes are read, computed with, and used as shapes or bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from random_graphs.builder import ALL, F32, Builder
from random_graphs.rules import rule
from random_graphs.values import Shape, Shapes, Value, both, integers, like, need


def shape_of(g: Builder, x: Value) -> Value:
    """The shape as a vector."""
    need(x.rank)
    high = max(max(s) for s in x.shapes)
    return g.emit("Shape", [x], integers("int64", both((x.rank,)), 1, high))


def one_size(g: Builder, x: Value, axis: int, vector: bool = True) -> Value:
    """A size, as a vector of one element or as a scalar."""
    sizes = [s[axis] for s in x.shapes]
    result = integers("int64", both((1,)), min(sizes), max(sizes))
    if g.opset >= 15 and g.chance(0.3) and vector:
        return g.emit("Shape", [x], result, start=axis, end=axis + 1)
    whole = shape_of(g, x)
    scalar = like(result, shapes=both(()))
    if not vector:
        return g.emit("Gather", [whole, g.ints(axis)], scalar, axis=0)
    if g.chance() or g.opset < 13:
        return g.emit("Gather", [whole, g.ints([axis])], result)
    return g.emit("Unsqueeze", [g.emit("Gather", [whole, g.ints(axis)], scalar), g.ints([0])], result)


def _joined(g: Builder, parts: list[Value]) -> Value:
    length = sum(part.shape[0] for part in parts)
    low, high = min(p.low for p in parts), max(p.high for p in parts)
    return g.emit("Concat", parts, integers("int64", both((length,)), low, high), axis=0)


@rule("Shape")
def _shape(g: Builder) -> Any:
    return shape_of(g, g.pick(ALL, range(1, 6)))


@rule("Size")
def _size(g: Builder) -> Any:
    x = g.pick(ALL)
    return g.emit("Size", [x], integers("int64", both(()), 1, x.count()))


@rule("Reshape", 7)
def _keep_first(g: Builder) -> Any:
    x = g.pick(ALL, range(2, 6))
    kept = one_size(g, x, 0)
    target = _joined(g, [kept, g.ints([-1])])
    return g.emit("Reshape", [x, target], like(x, shapes=x.mapped(lambda s: [s[0], int(np.prod(s[1:]))])))


@rule("Reshape", 7)
def _split_heads(g: Builder) -> Any:
    """The attention pattern: batch and length are read from the shape, the last axis is split."""
    x = g.pick(F32, [3], where=lambda v: v.shapes[0][2] % 2 == 0 and v.shapes[0][2] == v.shapes[1][2])
    target = _joined(g, [one_size(g, x, 0), one_size(g, x, 1), g.ints([2]), g.ints([x.size(2) // 2])])
    split = g.emit("Reshape", [x, target], like(x, shapes=x.mapped(lambda s: [s[0], s[1], 2, s[2] // 2])))
    moved = split.mapped(lambda s: [s[0], s[2], s[1], s[3]])
    return g.emit("Transpose", [split], like(split, shapes=moved), perm=[0, 2, 1, 3])


@rule("Reshape", 11)
def _flat(g: Builder) -> Any:
    x = g.pick(F32, range(2, 5))
    whole = shape_of(g, x)
    most = x.count()
    total = g.emit("ReduceProd", [whole], integers("int64", both((1,)), 1, most), keepdims=1)
    return g.emit("Reshape", [x, total], like(x, shapes=x.mapped(lambda s: [int(np.prod(s))])))


@rule("Slice", 10)
def _first_part(g: Builder) -> Any:
    """Up to half of the size, or up to the last but one."""
    x = g.pick(ALL[:5], range(1, 5))
    axis = g.axis(x)
    size = one_size(g, x, axis)
    if g.chance():
        end = g.emit("Div", [size, g.ints([2])], like(size, low=0, high=size.high))
        shapes = _with(x, axis, lambda n: n // 2)
    else:
        end = g.emit("Sub", [size, g.ints([1])], like(size, low=0, high=size.high))
        shapes = _with(x, axis, lambda n: n - 1)
    return g.emit("Slice", [x, g.ints([0]), end, g.ints([axis])], like(x, shapes=shapes))


def _with(x: Value, axis: int, rule_of: Any) -> Shapes:
    return x.mapped(lambda s: [rule_of(n) if at == axis else n for at, n in enumerate(s)])


@rule("Expand", 8)
def _to_shape_of(g: Builder) -> Any:
    y = g.pick(ALL, range(1, 5))
    x = g.pick(F32, where=lambda v: v.rank <= y.rank and _broadcasts(v, y))
    return g.emit("Expand", [x, shape_of(g, y)], like(x, shapes=y.shapes))


def _broadcasts(x: Value, y: Value) -> bool:
    def fits(a: Shape, b: Shape) -> bool:
        return all(n in (1, m) for n, m in zip(a[::-1], b[::-1], strict=False))

    return all(fits(a, b) for a, b in zip(x.shapes, y.shapes, strict=True))


@rule("ConstantOfShape", 9)
def _filled(g: Builder) -> Any:
    from onnx import numpy_helper

    x = g.pick(ALL, range(1, 5))
    dtype = g.choice(["float32", "int64", "bool"])
    number = np.asarray([1.5 if dtype == "float32" else 1], dtype)
    result = Value("", dtype, x.shapes, float(number[0]), float(number[0]), 1 if dtype == "float32" else 0)
    return g.emit("ConstantOfShape", [shape_of(g, x)], result, value=numpy_helper.from_array(number))


@rule("Range", 11)
def _positions(g: Builder) -> Any:
    """Position numbers along an axis, as a row."""
    x = g.pick(ALL, range(1, 5))
    axis = g.axis(x)
    stop = one_size(g, x, axis, vector=False)
    sizes = [s[axis] for s in x.shapes]
    vector = integers("int64", ((sizes[0],), (sizes[1],)), 0, max(sizes))
    return g.emit("Range", [g.ints(0), stop, g.ints(1)], vector)


@rule("Resize", 13)
def _doubled(g: Builder) -> Any:
    """Sizes are cast, doubled, floored and cast back, as exporters of upsampling do."""
    x = g.pick(F32, [4])
    whole = shape_of(g, x)
    tail = g.emit("Slice", [whole, g.ints([2]), g.ints([4])], like(whole, shapes=both((2,))))
    wide = g.emit("Cast", [tail], like(tail, dtype="float32"), to=1)
    twice = g.emit("Mul", [wide, g.constant(2.0, "float32")], like(wide, high=2 * wide.high))
    back = g.emit("Cast", [g.emit("Floor", [twice], like(twice))], integers("int64", both((2,)), 1, twice.high), to=7)
    head = g.emit("Slice", [whole, g.ints([0]), g.ints([2])], like(whole, shapes=both((2,))))
    target = _joined(g, [head, back])
    shapes = x.mapped(lambda s: [s[0], s[1], 2 * s[2], 2 * s[3]])
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return g.emit("Resize", [x, None, None, target], like(x, shapes=shapes), **how)


@rule("Tile", 7)
def _repeated(g: Builder) -> Any:
    """A row is repeated as often as another value has rows."""
    y = g.pick(ALL, range(1, 5))
    x = g.pick(F32, [2], where=lambda v: v.shapes[0][0] == v.shapes[1][0] == 1)
    counts = _joined(g, [one_size(g, y, 0), g.ints([1])])
    shapes = ((y.shapes[0][0], x.shapes[0][1]), (y.shapes[1][0], x.shapes[1][1]))
    return g.emit("Tile", [x, counts], like(x, shapes=shapes))
