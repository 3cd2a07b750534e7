"""Operators that move elements: reshape, cut, join, pad, repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from random_graphs.builder import ALL, F32, NUMBERS, WIDE_FLOATS, Builder
from random_graphs.rules import rule
from random_graphs.tame import tame
from random_graphs.values import Shapes, Value, both, integers, like, need, rough

MOVED = ("float32", "float64", "int32", "int64", "uint8", "bool")


@rule("Reshape", 7)
def _reshape(g: Builder) -> Any:
    x = g.pick(ALL)
    if g.chance(0.5) and x.rank:  # zeros keep a size, one -1 takes the rest
        kept = g.int(0, x.rank - 1)
        shapes = x.mapped(lambda s: [*s[:kept], int(np.prod(s[kept:]))])
        return g.emit("Reshape", [x, g.ints([0] * kept + [-1])], like(x, shapes=shapes))
    count = int(np.prod(x.shape))
    sizes = [n for n in range(1, count + 1) if count % n == 0]
    first = g.choice(sizes)
    second = g.choice([n for n in sizes if count // first % n == 0])
    target = [first, second, count // first // second]
    wanted = [-1 if at == 1 and g.chance() else n for at, n in enumerate(target)]
    return g.emit("Reshape", [x, g.ints(wanted)], like(x, shapes=both(target)))


@rule("Transpose")
def _transpose(g: Builder) -> Any:
    x = g.pick(ALL, range(1, 6))
    order = g.random.sample(range(x.rank), x.rank)
    default = g.chance(0.2)
    order = list(range(x.rank))[::-1] if default else order
    result = like(x, shapes=x.mapped(lambda s: [s[at] for at in order]))
    return g.emit("Transpose", [x], result, perm=None if default else order)


@rule("Flatten", 9)
def _flatten(g: Builder) -> Any:
    x = g.pick(MOVED, range(1, 6))
    axis = g.int(0, x.rank)
    shapes = x.mapped(lambda s: [int(np.prod(s[:axis])), int(np.prod(s[axis:]))])
    given = axis - x.rank if g.opset >= 11 and axis < x.rank and g.chance(0.3) else axis
    return g.emit("Flatten", [x], like(x, shapes=shapes), axis=given)


def _axes_of(g: Builder, name: str, x: Value, shapes: Shapes, axes: list[int]) -> Value:
    if g.opset >= 13:
        return g.emit(name, [x, g.ints(axes)], like(x, shapes=shapes))
    return g.emit(name, [x], like(x, shapes=shapes), axes=axes)


@rule("Unsqueeze")
def _unsqueeze(g: Builder) -> Any:
    x = g.pick(ALL, range(0, 4))
    rank = x.rank + g.int(1, 2)
    axes = sorted(g.random.sample(range(rank), rank - x.rank))

    def longer(shape: tuple[int, ...]) -> list[int]:
        rest = iter(shape)
        return [1 if at in axes else next(rest) for at in range(rank)]

    return _axes_of(g, "Unsqueeze", x, x.mapped(longer), [g.signed(at, rank) for at in axes])


@rule("Squeeze")
def _squeeze(g: Builder) -> Any:
    x = g.pick(ALL, where=lambda v: 1 in v.shapes[0])
    ones = [at for at in range(x.rank) if x.shapes[0][at] == x.shapes[1][at] == 1]
    need(ones)
    axes = ones if g.chance(0.3) else [g.choice(ones)]
    return _axes_of(g, "Squeeze", x, x.mapped(lambda s: [n for at, n in enumerate(s) if at not in axes]), axes)


def _same_but(x: Value, y: Value, axis: int) -> bool:
    pairs = zip(x.shapes, y.shapes, strict=True)
    return y.rank == x.rank and all(a[:axis] + a[axis + 1 :] == b[:axis] + b[axis + 1 :] for a, b in pairs)


@rule("Concat", 7)
def _concat(g: Builder) -> Any:
    x = g.pick(ALL, range(1, 6))
    axis = g.axis(x)
    given = [x, *(g.pick([x.dtype], where=lambda v: _same_but(x, v, axis)) for _ in range(g.int(1, 2)))]
    return concatenated(g, given, axis)


def concatenated(g: Builder, given: list[Value], axis: int) -> Value:
    """The values joined along an axis."""
    x, grids = given[0], [v.grid for v in given]
    lengths = [sum(v.shapes[run][axis] for v in given) for run in (0, 1)]
    first, second = ((*x.shapes[r][:axis], lengths[r], *x.shapes[r][axis + 1 :]) for r in (0, 1))
    grid = None if None in grids else max(n for n in grids if n is not None)
    low, high, error = min(v.low for v in given), max(v.high for v in given), max(v.error for v in given)
    result = like(x, shapes=(first, second), low=low, high=high, grid=grid, error=error)
    return g.emit("Concat", given, result, axis=g.signed(axis, x.rank))


def _cut(x: Value, axis: int, size: int) -> Shapes:
    return x.mapped(lambda s: [size if at == axis else n for at, n in enumerate(s)])


@rule("Split")
def _split(g: Builder) -> Any:
    x = g.pick(MOVED, range(1, 6), where=lambda v: v.rank and max(v.shapes[0]) > 1)
    axis = g.axis(x, fixed=True)
    total = x.size(axis)
    need(total > 1)
    first = g.int(1, total - 1)
    sizes = [total // 2] * 2 if total % 2 == 0 and g.chance(0.3) else [first, total - first]
    results = [like(x, shapes=_cut(x, axis, size)) for size in sizes]
    where = g.signed(axis, x.rank)
    even = sizes[0] == sizes[-1] and g.chance()
    if g.opset < 13:
        return g.emit_all("Split", [x], *results, axis=where, split=None if even else sizes)
    count = len(sizes) if even and g.opset >= 18 else None
    return g.emit_all("Split", [x] if even else [x, g.ints(sizes)], *results, axis=where, num_outputs=count)


@rule("Slice")
def _slice(g: Builder) -> Any:
    x = g.pick(MOVED, range(1, 6))
    axes = g.axes(x)
    starts, ends, steps = [], [], []
    for _at in axes:
        step = g.choice([1, 1, 2, -1, -2]) if g.opset >= 10 else 1
        start, end = g.int(-3, 2), g.choice([1, 3, -1, 1 << 31, (1 << 62)])
        if step < 0:
            start, end = g.choice([-1, 5, 2]), g.choice([-(1 << 31), 0, -4])
        starts, ends, steps = [*starts, start], [*ends, end], [*steps, step]
    where = dict(zip(axes, map(slice, starts, ends, steps), strict=True))
    shapes = x.mapped(lambda s: [len(range(n)[where.get(at, slice(None))]) for at, n in enumerate(s)])
    if g.opset < 10:
        return g.emit("Slice", [x], like(x, shapes=shapes), starts=starts, ends=ends, axes=axes)
    given = [x, g.ints(starts), g.ints(ends), g.ints([g.signed(at, x.rank) for at in axes])]
    return g.emit("Slice", given if set(steps) == {1} else [*given, g.ints(steps)], like(x, shapes=shapes))


@rule("Expand", 8)
def _expand(g: Builder) -> Any:
    x = g.pick(MOVED, range(0, 4))
    target = [g.int(2, 3) if size == x.shapes[1][at] == 1 else 1 for at, size in enumerate(x.shapes[0])]
    target = [g.int(1, 3)] * g.int(0, 1) + target
    shapes = x.mapped(lambda s: np.broadcast_shapes(s, tuple(target)))
    return g.emit("Expand", [x, g.ints(target)], like(x, shapes=shapes))


@rule("Tile", 7)
def _tile(g: Builder) -> Any:
    x = g.pick(("float32", "float64", "int32", "int64", "bool"), range(1, 5))
    counts = [g.choice([1, 1, 2, 3]) for _ in range(x.rank)]
    result = like(x, shapes=x.mapped(lambda s: [n * k for n, k in zip(s, counts, strict=True)]))
    return g.emit("Tile", [x, g.ints(counts)], result)


@rule("Pad")
def _pad(g: Builder) -> Any:
    x = g.pick((*WIDE_FLOATS, "int32", "int64") if g.opset >= 13 else F32, range(1, 5))
    modes = ["constant", "edge", "reflect"] + (["wrap"] if g.opset >= 19 else [])
    mode = g.choice(modes)
    most = [2 if mode in ("constant", "edge") else min(2, x.smallest(at) - 1) for at in range(x.rank)]
    before, after = ([g.int(0, n) for n in most] for _ in range(2))
    if mode == "constant" and g.chance(0.3) and x.smallest(0) > 1:
        before[0] = -1  # negative pads cut
    sizes = x.mapped(lambda s: [n + a + b for n, a, b in zip(s, before, after, strict=True)])
    value = g.choice([None, 0.5 if x.floating else 3]) if mode == "constant" else None
    filler = 0 if value is None else value
    grid = None if x.grid is None else max(x.grid, 1 if x.floating else 0)
    result = like(x, shapes=sizes, low=min(x.low, filler), high=max(x.high, filler), grid=grid)
    name = None if mode == "constant" and g.chance() else mode
    if g.opset < 11:
        return g.emit("Pad", [x], result, pads=before + after, mode=name, value=value)
    given = [x, g.ints(before + after)]
    if value is not None:
        given.append(g.constant(value, x.dtype, 1))
    return g.emit("Pad", given, result, mode=name)


@rule("DepthToSpace", 7)
def _depth_to_space(g: Builder) -> Any:
    x = g.pick(WIDE_FLOATS, [4], where=lambda v: v.shapes[0][1] % 4 == 0 == v.shapes[1][1] % 4)
    mode = {"mode": g.choice(["DCR", "CRD"])} if g.opset >= 11 and g.chance() else {}
    shapes = x.mapped(lambda s: [s[0], s[1] // 4, s[2] * 2, s[3] * 2])
    return g.emit("DepthToSpace", [x], like(x, shapes=shapes), blocksize=2, **mode)


@rule("SpaceToDepth", 7)
def _space_to_depth(g: Builder) -> Any:
    even = lambda v: all(n % 2 == 0 for s in v.shapes for n in s[2:])  # noqa: E731
    x = g.pick(WIDE_FLOATS, [4], where=even)
    shapes = x.mapped(lambda s: [s[0], s[1] * 4, s[2] // 2, s[3] // 2])
    return g.emit("SpaceToDepth", [x], like(x, shapes=shapes), blocksize=2)


@rule("ReverseSequence", 10)
def _reverse(g: Builder) -> Any:
    x = g.pick(NUMBERS, range(2, 5))
    batch = g.int(0, 1)
    need(x.shapes[0][batch] == x.shapes[1][batch])
    lengths = g.ints([g.int(1, x.smallest(1 - batch)) for _ in range(x.size(batch))])
    return g.emit("ReverseSequence", [x, lengths], like(x), batch_axis=batch, time_axis=1 - batch)


@rule("CenterCropPad", 18)
def _crop(g: Builder) -> Any:
    x = g.pick(F32, range(1, 5))
    axes = g.axes(x)
    sizes = [g.int(1, 6) for _ in axes]
    target = dict(zip(axes, sizes, strict=True))
    shapes = x.mapped(lambda s: [target.get(at, n) for at, n in enumerate(s)])
    result = like(x, shapes=shapes, low=min(0, x.low), high=max(0, x.high))
    return g.emit("CenterCropPad", [x, g.ints(sizes)], result, axes=axes)


@rule("Compress", 9)
def _compress(g: Builder) -> Any:
    x = g.pick(MOVED, range(1, 5))
    axis = g.axis(x, fixed=True)
    kept = [g.int(0, 1) for _ in range(x.size(axis))]
    kept[g.int(0, len(kept) - 1)] = 1
    condition = g.constant(np.asarray(kept, bool), "bool")
    return g.emit("Compress", [x, condition], like(x, shapes=_cut(x, axis, sum(kept))), axis=axis)


@rule("EyeLike", 9)
def _eye(g: Builder) -> Any:
    x = g.pick(("float32", "int64", "float64"), [2])
    dtype = g.choice(["float32", "int64"])
    from random_graphs.casts import code

    result = like(integers(dtype, x.shapes, 0, 1))
    return g.emit("EyeLike", [x], result, dtype=code(dtype), k=g.int(-1, 1))


@rule("Upsample", 7, 9)
def _upsample(g: Builder) -> Any:
    x, factors = g.pick(F32, [4]), [1, 1, 2, g.choice([1, 2])]
    shapes = x.mapped(lambda s: [n * k for n, k in zip(s, factors, strict=True)])
    mode = g.choice(["nearest", "linear"])
    result = like(x, shapes=shapes) if mode == "nearest" else rough([x], shapes, x.low, x.high)
    if g.opset < 9:
        return g.emit("Upsample", [x], result, mode=mode, scales=[float(n) for n in factors])
    return g.emit("Upsample", [x, g.constant(factors, "float32")], result, mode=mode)


@rule("Resize", 11)
def _resize(g: Builder) -> Any:
    x = g.pick(F32, [4])
    factors = [1.0, 1.0, g.choice([0.5, 2.0]), g.choice([1.0, 2.0, 4.0])]
    need(all(n * k >= 1 for s in x.shapes for n, k in zip(s, factors, strict=True)))
    shapes = x.mapped(lambda s: [int(n * k) for n, k in zip(s, factors, strict=True)])
    mode = g.choice(["nearest", "linear", "cubic"])
    given = [x, None if g.opset >= 13 else g.constant(np.zeros(0), "float32")]
    if x.fixed and g.chance():
        given += [g.constant(np.zeros(0), "float32") if g.opset < 13 else None, g.ints(list(shapes[0]))]
    else:
        given.append(g.constant(factors, "float32", 1))
    if mode == "nearest":
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return g.emit("Resize", given, like(x, shapes=shapes), mode=mode, **how)
    x = tame(g, x, 16)
    given[0] = x
    how = {"coordinate_transformation_mode": g.choice(["half_pixel", "align_corners", "asymmetric"])}
    return g.emit("Resize", given, rough([x], shapes, -2 * x.bound, 2 * x.bound, 2, 8), mode=mode, **how)
