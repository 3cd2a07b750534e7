"""Shapes and indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import one_of
from singax.sonnx.importer.budget import MOST_FOLDED
from singax.sonnx.operators.elementwise import dtype_of
from singax.sonnx.operators.indices import fill_mode, in_range, within
from singax.sonnx.registry import Call, NeedsHost, onnx_operator

Array = Any


@onnx_operator("Shape")
def shape(call: Call, x: Array) -> np.ndarray:
    """The sizes of x: known while tracing."""
    start, end = call.attribute("start", 0), call.attribute("end")
    return np.asarray(np.shape(x)[slice(start, end)], np.int64)


@onnx_operator("Size")
def size(call: Call, x: Array) -> np.ndarray:
    """The number of elements of x: known while tracing."""
    return np.asarray(np.prod(np.shape(x), dtype=np.int64))


@onnx_operator("Constant")
def constant(call: Call) -> np.ndarray:
    """The value of an attribute."""
    for name, dtype in (("value_float", np.float32), ("value_int", np.int64)):
        if name in call.attributes:
            return np.asarray(call.attributes[name], dtype)
    for name, dtype in (("value_floats", np.float32), ("value_ints", np.int64)):
        if name in call.attributes:
            return np.asarray(call.attributes[name], dtype).reshape(-1)
    for name in ("value", "sparse_value"):
        if name in call.attributes:
            return call.attributes[name]
    return np.asarray(call.attributes.get("value_string", call.attributes.get("value_strings")), object)


@onnx_operator("Reshape")
def reshape(call: Call, x: Array, _: Array = None) -> Array:
    """The same elements with another shape: 0 copies a size unless `allowzero`, one −1 is inferred."""
    wanted = call.ints(1, "shape")
    if not call.attribute("allowzero", 0):
        wanted = [np.shape(x)[k] if n == 0 and k < np.ndim(x) else n for k, n in enumerate(wanted)]
    if -1 in wanted and np.size(x) == 0:
        rest = int(np.prod([n for n in wanted if n != -1]))
        wanted = [(0 if rest == 0 else np.size(x) // rest) if n == -1 else n for n in wanted]
    return jnp.reshape(x, wanted)


@onnx_operator("Flatten")
def flatten(call: Call, x: Array) -> Array:
    """A matrix: the axes before `axis` become rows."""
    axis, sizes = call.attribute("axis", 1), np.shape(x)
    axis = axis + len(sizes) if axis < 0 else axis
    return jnp.reshape(x, (int(np.prod(sizes[:axis])), int(np.prod(sizes[axis:]))))


@onnx_operator("Transpose")
def transpose(call: Call, x: Array) -> Array:
    """Axes permuted, by default reversed."""
    return jnp.transpose(x, call.attribute("perm"))


@onnx_operator("Squeeze")
def squeeze(call: Call, x: Array, _: Array = None) -> Array:
    """Axes of size 1 removed."""
    axes = call.ints(1, "axes")
    return jnp.squeeze(x, None if axes is None else tuple(axes))


@onnx_operator("Unsqueeze")
def unsqueeze(call: Call, x: Array, _: Array = None) -> Array:
    """New axes of size 1, at places of the result."""
    axes = tuple(call.ints(1, "axes"))
    rank = np.ndim(x) + len(axes)
    if len({axis % rank for axis in axes}) != len(axes):
        raise ShapeError(f"expected different axes. Received: {axes}")
    return jnp.expand_dims(x, axes)


@onnx_operator("Expand")
def expand(call: Call, x: Array, _: Array) -> Array:
    """x broadcast together with a shape."""
    wanted = call.ints(1, "shape")
    return jnp.broadcast_to(x, np.broadcast_shapes(np.shape(x), tuple(wanted)))


@onnx_operator("Tile", since=6)
def tile(call: Call, x: Array, *_: Array) -> Array:
    """x repeated along each axis."""
    return jnp.tile(x, repeats_of(call.ints(1, "repeats")))


def repeats_of(repeats: Sequence[int]) -> tuple[int, ...]:
    """The repeats themselves, none of them negative."""
    if min(repeats, default=0) < 0:
        raise ArgumentError(f"expected repeats of at least 0. Received: {list(repeats)}")
    return tuple(repeats)


@onnx_operator("ConstantOfShape")
def constant_of_shape(call: Call, _: Array) -> Array:
    """A value everywhere, float32 0 by default."""
    value = call.attribute("value")
    value = np.zeros(1, np.float32) if value is None else value
    return jnp.full(tuple(call.ints(0, "shape")), value.reshape(()), value.dtype)


@onnx_operator("EyeLike")
def eye_like(call: Call, x: Array) -> Array:
    """Ones on a diagonal of a matrix like x."""
    code = call.attribute("dtype")
    rows, columns = x.shape
    return jnp.eye(rows, columns, call.attribute("k", 0), x.dtype if code is None else dtype_of(code))


@onnx_operator("Range")
def arange(call: Call, start: Array, limit: Array, delta: Array) -> Array:
    """From start up to limit by delta; its length must be known."""
    first, last, step = (call.static(k).reshape(()) for k in range(3))
    if step == 0:
        raise ArgumentError("expected a delta that is not 0. Received: 0")
    count = max(int(np.ceil((last.astype(np.float64) - first.astype(np.float64)) / step.astype(np.float64))), 0)
    return first + (np if count <= MOST_FOLDED else jnp).arange(count, dtype=first.dtype) * step


@onnx_operator("Slice", since=1)
def slice_by_attributes(call: Call, x: Array) -> Array:
    """x[start:end] along axes."""
    starts, ends = call.attribute("starts"), call.attribute("ends")
    return _sliced(x, starts, ends, call.attribute("axes") or list(range(len(starts))), [1] * len(starts))


@onnx_operator("Slice", since=10)
def slice_by_inputs(call: Call, x: Array, starts: Array, ends: Array, axes: Array = None, steps: Array = None) -> Array:
    """x[start:end:step] along axes."""
    first = call.ints(1, "starts")
    count = range(len(first))
    return _sliced(
        x, first, call.ints(2, "ends"), call.ints(3, "axes", list(count)), call.ints(4, "steps", [1 for _ in count])
    )


def _sliced(x: Array, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]) -> Array:
    bounds = {"starts": tuple(starts), "ends": tuple(ends), "axes": tuple(axes), "steps": tuple(steps)}
    return x[_index(x, **bounds)] if isinstance(x, np.ndarray) else ops.slice(x, **bounds)


def _index(x: Any, starts: Any, ends: Any, axes: Any, steps: Any) -> tuple[slice, ...]:
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[axis]
        stop = None if step < 0 and end < -size else end
        index[axis] = slice(start, stop, step)
    return tuple(index)


@onnx_operator("Split")
def split(call: Call, x: Array, _: Array = None) -> tuple[Array, ...]:
    """Pieces along an axis: of given sizes, or as equal as possible."""
    axis, sizes = call.attribute("axis", 0), call.ints(1, "split")
    length = np.shape(x)[axis]
    if sizes is None:
        count = call.attribute("num_outputs", call.outputs)
        if count != call.outputs:
            raise ArgumentError(f"expected num_outputs {call.outputs}, as there are outputs. Received: {count}")
        each = -(-length // count)
        sizes = [max(min(each, length - k * each), 0) for k in range(count)]
    if sum(sizes) != length:
        raise ShapeError(f"expected pieces of {length} in all. Received: {sizes}")
    return tuple(jnp.split(x, np.cumsum(sizes)[:-1], axis))


@onnx_operator("Gather")
def gather(call: Call, x: Array, indices: Array) -> Array:
    """Entries along an axis; negative ones count from the end, those out of range raise (or see `fill_mode`)."""
    axis = call.attribute("axis", 0)
    return jnp.take(x, in_range(call, indices, np.shape(x)[axis]), axis, mode=fill_mode(call))


@onnx_operator("GatherElements")
def gather_elements(call: Call, x: Array, indices: Array) -> Array:
    """One entry along the axis for each index; along other axes there may be fewer indices than entries."""
    axis = call.attribute("axis", 0) % np.ndim(x)
    places = in_range(call, indices, np.shape(x)[axis])
    cut = tuple(slice(None) if at == axis else slice(size) for at, size in enumerate(np.shape(indices)))
    return jnp.take_along_axis(jnp.asarray(x)[cut], places, axis, mode=fill_mode(call))


@onnx_operator("GatherND")
def gather_nd(call: Call, x: Array, indices: Array) -> Array:
    """Slices of x at index tuples, for each entry of the first `batch_dims` axes."""
    batch = call.attribute("batch_dims", 0)
    depth = np.shape(indices)[-1]
    sizes = np.shape(x)[batch : batch + depth]
    parts = [in_range(call, indices[..., k], size) for k, size in enumerate(sizes)]
    lead = [
        jnp.arange(n).reshape((-1, *[1] * (np.ndim(indices) - 2 - k))) for k, n in enumerate(np.shape(indices)[:batch])
    ]
    return jnp.asarray(x).at[(*lead, *parts)].get(mode=fill_mode(call))


@onnx_operator("ScatterElements", "Scatter")
def scatter_elements(call: Call, x: Array, indices: Array, updates: Array) -> Array:
    """x with entries replaced, or combined by `reduction`."""
    axis = call.attribute("axis", 0)
    places = in_range(call, indices, np.shape(x)[axis])
    grid = list(jnp.meshgrid(*[jnp.arange(n) for n in np.shape(indices)], indexing="ij", sparse=True))
    grid[axis] = places
    return _combined(jnp.asarray(x).at[tuple(grid)], updates, call.attribute("reduction", "none"))


@onnx_operator("ScatterND")
def scatter_nd(call: Call, x: Array, indices: Array, updates: Array) -> Array:
    """x with slices at index tuples replaced, or combined by `reduction`."""
    depth = np.shape(indices)[-1]
    parts = tuple(in_range(call, indices[..., k], np.shape(x)[k]) for k in range(depth))
    return _combined(jnp.asarray(x).at[parts], updates, call.attribute("reduction", "none"))


def _combined(at: Any, updates: Array, reduction: str) -> Array:
    return {"none": at.set, "add": at.add, "mul": at.mul, "min": at.min, "max": at.max}[reduction](updates)


@onnx_operator("OneHot", since=9)
def one_hot_from_zero(call: Call, indices: Array, depth: Array, values: Array) -> Array:
    """A new axis with the on-value at the index; before opset 11 a negative index is on nowhere."""
    return _one_hot(call, jnp.asarray(indices).astype(np.int64), values)


@onnx_operator("OneHot", since=11)
def one_hot(call: Call, indices: Array, depth: Array, values: Array) -> Array:
    """A new axis with the on-value at the index, from the end if it is negative; one out of range is on nowhere."""
    count, index = int(call.static(1).reshape(-1)[0]), jnp.asarray(indices).astype(np.int64)
    return _one_hot(call, jnp.where((index < 0) & (index >= -count), index + count, index), values)


def _one_hot(call: Call, index: Array, values: Array) -> Array:
    count = int(call.static(1).reshape(-1)[0])
    axis = call.attribute("axis", -1)
    axis = axis + index.ndim + 1 if axis < 0 else axis
    places = jnp.arange(count).reshape([-1 if k == axis else 1 for k in range(index.ndim + 1)])
    return jnp.where(jnp.expand_dims(index, axis) == places, values[1], values[0])


@onnx_operator("Trilu")
def trilu(call: Call, x: Array, _: Array = None) -> Array:
    """The upper or lower triangle of matrices."""
    k = int(call.static(1, np.zeros((), np.int64)).reshape(()))
    return (jnp.triu if call.attribute("upper", 1) else jnp.tril)(x, k)


@onnx_operator("Pad")
def pad(call: Call, x: Array, *_: Array) -> Array:
    """Elements added around x, or taken away where a pad is negative."""
    rank = np.ndim(x)
    pads = call.ints(1, "pads") if len(call.inputs) > 1 else call.attribute("pads", call.attribute("paddings"))
    axes = [a % rank for a in call.ints(3, "axes", list(range(rank)))]
    both = [(0, 0)] * rank
    for k, axis in enumerate(axes):
        both[axis] = (pads[k], pads[len(axes) + k])
    call.evaluator.budget.admit(call.node, [n + a + b for n, (a, b) in zip(np.shape(x), both, strict=True)], x.dtype)
    value = call.inputs[2] if len(call.inputs) > 2 and call.inputs[2] is not None else call.attribute("value", 0.0)
    return padded(x, both, call.attribute("mode", "constant"), value)


def padded(x: Array, both: list[tuple[int, int]], mode: str, value: Any = 0) -> Array:
    """x with (begin, end) more, or fewer, elements along each axis."""
    x = jnp.asarray(x)
    if mode == "constant":
        return lax.pad(x, jnp.asarray(value, x.dtype).reshape(()), [(a, b, 0) for a, b in both])
    cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, both, strict=True))
    x, more = x[cut], [(max(a, 0), max(b, 0)) for a, b in both]
    if all(max(pair) < max(n, 2) for n, pair in zip(x.shape, more, strict=True)):
        return jnp.pad(x, more, mode=mode)
    for axis, pair in enumerate(more):
        x = jnp.take(x, _places(x.shape[axis], pair, mode), axis)
    return x


def _places(size: int, pair: tuple[int, int], mode: str) -> Array:
    """Which entry of an axis stands at each place of the padded one, however often they repeat."""
    one_of("Pad", "mode", mode, ("reflect", "edge", "wrap"))
    if not size:
        raise ShapeError(f"expected entries to repeat along an axis. Received: pads {pair} for none")
    places = jnp.arange(-pair[0], size + pair[1])
    if mode == "edge":
        return jnp.clip(places, 0, size - 1)
    if mode == "wrap":
        return places % size
    turn = max(2 * size - 2, 1)
    return jnp.minimum(places % turn, (-places) % turn)


@onnx_operator("NonZero", "Unique", "Compress", "NonMaxSuppression")
def depends_on_data(call: Call, *inputs: Array) -> Array:
    """The shape of the result depends on values."""
    raise NeedsHost("the shape of its result depends on data", tuple(n for n in call.node.inputs if n))


@onnx_operator("ReverseSequence")
def reverse_sequence(call: Call, x: Array, lengths: Array) -> Array:
    """The first entries along the time axis reversed, as many as each batch entry's length says."""
    batch, time = call.attribute("batch_axis", 1), call.attribute("time_axis", 0)
    moved = jnp.moveaxis(x, (batch, time), (0, 1))
    within(call, lengths, 0, moved.shape[1], "sequence_lens")
    steps = jnp.arange(moved.shape[1])
    index = jnp.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    found = jnp.take_along_axis(moved, index.reshape(*index.shape, *[1] * (moved.ndim - 2)), 1)
    return jnp.moveaxis(found, (0, 1), (batch, time))
