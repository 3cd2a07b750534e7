"""SINGA's functional names that move, pick, place and reduce elements, with SINGA's arguments."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from singax import dispatch, ops
from singax.autograd.derived import Derived, operator_class
from singax.autograd.functional_elementwise import as_array, constant, number
from singax.autograd.recorder import unwrapped
from singax.errors import ArgumentError, ShapeError
from singax.mode import local
from singax.tensor import Tensor

__all__ = [
    "cat", "constant_of_shape", "depth_to_space", "expand", "flatten", "gather", "nonzero", "onehot", "pad",
    "reduce_mean", "reduce_sum", "reshape", "scatter_elements", "shape", "slice", "space_to_depth", "split", "squeeze",
    "tile", "transpose", "unsqueeze", "upsample",
]  # fmt: skip

Ints = Sequence[int]


def ints(name: str, what: str, value: Any) -> tuple[int, ...]:
    """Static integers from an int, a sequence, an array or a Tensor."""
    try:
        flat = np.asarray(unwrapped(value)).reshape(-1).tolist() if not isinstance(value, list | tuple) else value
        return tuple(operator.index(n) for n in flat)
    except (TypeError, ValueError, jax.errors.TracerArrayConversionError):
        raise ArgumentError(f"{name} expected integers as {what}. Received: {value!r}") from None


def integer(name: str, what: str, value: Any) -> int:
    """One static integer."""
    found = ints(name, what, value)
    if len(found) != 1:
        raise ArgumentError(f"{name} expected one integer as {what}. Received: {value!r}")
    return found[0]


@operator_class("Reshape")
def reshape(x: Any, shape: Ints) -> Any:
    """The same elements with another shape; one size may be −1, 0 copies the input's size."""
    return dispatch.apply(ops.reshape, x, shape=ints("reshape", "shape", shape))


@operator_class("Transpose", required="shape", renamed={"shape": "perm"})
def transpose(x: Any, shape: Ints | None = None, *, perm: Ints | None = None) -> Any:
    """Axes permuted: axis i of the result is axis shape[i] of x. `perm` is another name of `shape`."""
    wanted = perm if shape is None else shape
    if wanted is None:
        raise ArgumentError("transpose expected a permutation of the axes as shape. Received: None")
    return dispatch.apply(ops.transpose, x, perm=ints("transpose", "shape", wanted))


@operator_class("Flatten")
def flatten(x: Any, axis: int = 1) -> Any:
    """A matrix: the axes before `axis` become rows, the others columns."""
    return dispatch.apply(ops.flatten, x, axis=integer("flatten", "axis", axis))


@operator_class("Concat", "*xs")
def cat(xs: Sequence[Any], axis: int = 0) -> Any:
    """The Tensors of any sequence joined along an axis."""
    return dispatch.apply(ops.cat, list(xs), axis=integer("cat", "axis", axis))


@operator_class("Squeeze")
def squeeze(x: Any, axis: int | Ints = ()) -> Any:
    """Axes of size 1 removed: `axis`, or all if it is empty (None too); if x has no others, x as it is."""
    axes = () if axis is None else ints("squeeze", "axis", axis)
    if axes:
        return dispatch.apply(ops.squeeze, x, axes=axes)
    single = all(size == 1 for size in np.shape(x) if size is not None)
    return dispatch.apply(ops.identity, x) if single else dispatch.apply(ops.squeeze, x, axes=None)


@operator_class("Unsqueeze", required="axis")
def unsqueeze(x: Any, axis: int | Ints = -1) -> Any:
    """New axes of size 1, at the places `axis` of the result.

    *Differences from SINGA*: an int works; axes are places in the result (as in ONNX and NumPy), so that [-1] is the
    last axis.
    """
    return dispatch.apply(ops.unsqueeze, x, axes=ints("unsqueeze", "axis", axis))


@operator_class("Split", required="parts")
def split(x: Any, axis: int, parts: Ints | None = None, num_output: int | None = None) -> tuple[Any, ...]:
    """Pieces of sizes `parts` along `axis`, or `num_output` equal ones, as a tuple."""
    axis = integer("split", "axis", axis)
    if parts is None:
        if num_output is None:
            raise ArgumentError("split expected parts or num_output. Received neither")
        shape, count = np.shape(x), integer("split", "num_output", num_output)
        if not -len(shape) <= axis < len(shape) or count < 1 or shape[axis] % count:
            raise ShapeError(f"split expected an axis that divides by num_output {count}. Received: {axis} of {shape}")
        parts = [shape[axis] // count] * count
    return dispatch.apply(ops.split, x, axis=axis, parts=ints("split", "parts", parts))


@operator_class("Slice")
def slice(x: Any, starts: Ints, ends: Ints, axes: Ints | None = None, steps: Ints | None = None) -> Any:
    """x[start:end:step] along each of `axes`, or along the first ones; steps may be negative."""
    bounds = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    given = {key: None if value is None else ints("slice", key, value) for key, value in bounds.items()}
    return dispatch.apply(ops.slice, x, **given)


@operator_class("Gather")
def gather(x: Any, axis: int, indices: Any) -> Any:
    """Entries along `axis` at `indices` of any shape, which wrap around.

    *Differences from SINGA*: the gradient is right for repeated indices in any order; indices may be a Tensor.
    """
    return dispatch.apply(ops.gather, x, constant(indices), axis=integer("gather", "axis", axis))


@operator_class("ScatterElements")
def scatter_elements(x: Any, indices: Any, updates: Any, axis: int = 0) -> Any:
    """x with `updates` at `indices` along `axis`.

    *Differences from SINGA*: any number of axes; gradients reach `updates`.
    """
    axis = integer("scatter_elements", "axis", axis)
    return dispatch.apply(ops.scatter_elements, x, constant(indices), as_array(updates), axis=axis)


@operator_class("Tile")
def tile(x: Any, repeats: int | Ints) -> Any:
    """x repeated, by the rules of `numpy.tile`: fewer repeats are for the last axes, more make new axes."""
    return dispatch.apply(_tile, x, repeats=ints("tile", "repeats", repeats))


def _tile(x: jax.Array, *, repeats: tuple[int, ...]) -> jax.Array:
    ndim, more = np.ndim(x), len(repeats) - np.ndim(x)
    x = ops.reshape(x, shape=(*[1] * more, *np.shape(x)), allowzero=True) if more > 0 else x
    return ops.tile(x, repeats=(1,) * (ndim - len(repeats)) + repeats)


@operator_class("Expand")
def expand(x: Any, shape: int | Ints) -> Any:
    """x broadcast with this shape; if the ranks are equal and its sizes divide those of `shape`, x is tiled."""
    return dispatch.apply(_expand, x, shape=ints("expand", "shape", shape))


def _expand(x: jax.Array, *, shape: tuple[int, ...]) -> jax.Array:
    old = np.shape(x)
    pairs = list(zip(old, shape, strict=False))
    if len(old) != len(shape) or all(a == b or 1 in (a, b) for a, b in pairs) or any(a == 0 or b % a for a, b in pairs):
        return ops.expand(x, shape=shape)
    return ops.tile(x, repeats=tuple(b // a for a, b in pairs))


@operator_class("Pad")
def pad(x: Any, mode: str, pads: Ints, constant: float = 0.0) -> Any:
    """Elements added around x; `pads` holds the begins of all axes, then the ends.

    `mode`: "constant", "reflect" (mirrored at the border element, which is not repeated) or "edge".
    """
    pads, value = ints("pad", "pads", pads), number("pad", "constant", constant)
    return dispatch.apply(ops.pad, x, mode=mode, pads=pads, constant=value)


@operator_class("UpSample")
def upsample(x: Any, mode: str, scales: Sequence[float]) -> Any:
    """Axes lengthened by `scales`; `mode` is "nearest"."""
    flat = np.asarray(unwrapped(scales)).reshape(-1).tolist()
    return dispatch.apply(ops.upsample, x, mode=mode, scales=tuple(number("upsample", "scale", s) for s in flat))


@operator_class("DepthToSpace")
def depth_to_space(x: Any, blocksize: int, mode: str = "DCR") -> Any:
    """Channels become places; `mode` is "DCR" or "CRD"."""
    size = integer("depth_to_space", "blocksize", blocksize)
    return dispatch.apply(ops.depth_to_space, x, blocksize=size, mode=mode)


@operator_class("SpaceToDepth")
def space_to_depth(x: Any, blocksize: int, mode: str = "DCR") -> Any:
    """Places become channels; `mode` is "DCR" or "CRD"."""
    if mode not in ("DCR", "CRD"):
        raise ArgumentError(f"space_to_depth expected mode 'DCR' or 'CRD'. Received: {mode!r}")
    made = ops.space_to_depth if mode == "DCR" else ops.space_to_depth_crd
    return dispatch.apply(made, x, blocksize=integer("space_to_depth", "blocksize", blocksize))


@operator_class("OneHot", "indices")
def onehot(axis: int, indices: Any, depth: int, values: Sequence[float]) -> Any:
    """A new axis of size `depth` with values[1] at the index and values[0] elsewhere: float32, no gradient.

    *Differences from SINGA*: an index outside −depth … depth − 1 is on nowhere (as in ONNX) and does not wrap around.
    """
    pair = tuple(number("onehot", "value", v) for v in np.asarray(unwrapped(values)).reshape(-1).tolist())
    axis, depth = integer("onehot", "axis", axis), integer("onehot", "depth", depth)
    return dispatch.apply(ops.onehot, as_array(indices), axis=axis, depth=depth, values=pair)


@operator_class("NonZero")
def nonzero(x: Any) -> Any:
    """Where x is not 0: int32 (ndim, n). Not in compiled programs, since the shape depends on values."""
    return _of_values(ops.nonzero, x)


class _WithShape(Derived):
    def backward(self, *dys: Any) -> Any:
        """The sizes of the gradient, as SINGA has it."""
        return list(np.shape(dys[0].data if isinstance(dys[0], Tensor) else dys[0]))


@operator_class("Shape", base=_WithShape)
def shape(x: Any) -> Any:
    """The sizes of x: int32 (ndim,)."""
    return dispatch.apply(ops.shape, x)


@operator_class("ConstantOfShape")
def constant_of_shape(x: Any, value: float = 0) -> Any:
    """A float32 array of `value` whose sizes are the integers x. Not in compiled programs, unless x is constant."""
    return _of_values(ops.constant_of_shape, as_array(x), value=number("constant_of_shape", "value", value))


def _of_values(operation: Any, x: Any, **attributes: Any) -> Any:
    """Run without jit an operation whose result has a shape that depends on values."""
    made = operation(unwrapped(x), **attributes)
    return Tensor._of(made, requires_grad=False) if isinstance(x, Tensor) and local.frame is None else made


@operator_class("ReduceSum")
def reduce_sum(x: Any, axes: int | Ints | None = None, keepdims: int = 1) -> Any:
    """The sum over `axes`, over all if None. Without `keepdims` a result that would be 0-d is (1, 1), as in SINGA.

    *Differences from SINGA*: the gradient is the true one, not divided by the number of elements.
    """
    axes = None if axes is None else ints("reduce_sum", "axes", axes)
    return dispatch.apply(_reduce_sum, x, axes=axes, keepdims=bool(keepdims))


@operator_class("ReduceMean")
def reduce_mean(x: Any, axes: int | Ints | None = None, keepdims: int = 1) -> Any:
    """The mean over `axes`, over all if None. Without `keepdims` a result that would be 0-d is (1, 1), as in SINGA."""
    axes = None if axes is None else ints("reduce_mean", "axes", axes)
    return dispatch.apply(_reduce_mean, x, axes=axes, keepdims=bool(keepdims))


def _reduce_sum(x: jax.Array, *, axes: tuple[int, ...] | None, keepdims: bool) -> jax.Array:
    return _no_scalar(ops.reduce_sum(x, axes=axes, keepdims=keepdims))


def _reduce_mean(x: jax.Array, *, axes: tuple[int, ...] | None, keepdims: bool) -> jax.Array:
    return _no_scalar(ops.reduce_mean(x, axes=axes, keepdims=keepdims))


def _no_scalar(x: jax.Array) -> jax.Array:
    return x if math.prod(x.shape) != 1 or x.ndim else ops.reshape(x, shape=(1, 1))


for _function in (_tile, _expand, _reduce_sum, _reduce_mean):
    _function.__name__ = _function.__name__.removeprefix("_")  # what nodes are called
