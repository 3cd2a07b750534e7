"""Reductions, running sums, extremes and orderings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax import ops
from singax.errors import ArgumentError
from singax.sonnx.registry import Call, onnx_operator

Array = Any

_OURS = {"ReduceSum": ops.reduce_sum, "ReduceMean": ops.reduce_mean, "ReduceMax": ops.reduce_max}
_OURS |= {"ReduceMin": ops.reduce_min, "ReduceProd": ops.reduce_prod}


@onnx_operator("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
def reduce(call: Call, x: Array, _: Array = None) -> Array:
    """Over axes, over all if there are none. The dtype stays: JAX would add 32-bit integers in 64 bits."""
    if not np.size(x) and call.node.op_type in _NEUTRAL:
        return _reduced(call, x, lambda x, **k: _reduced_empty(call.node.op_type, x, **k))
    if x.dtype == bool:
        return _reduced(call, x.astype(np.uint8), _OURS[call.node.op_type]).astype(bool)
    return _reduced(call, x, _OURS[call.node.op_type]).astype(x.dtype)


_NEUTRAL = {"ReduceMax": (jnp.max, "min"), "ReduceMin": (jnp.min, "max")}


def _reduced_empty(op_type: str, x: Array, *, axes: Any, keepdims: bool) -> Array:
    """The largest of no values is the smallest that the dtype has, and the other way round."""
    function, extreme = _NEUTRAL[op_type]
    if x.dtype == bool:
        initial: Any = extreme == "max"
    else:
        kind = jnp.finfo if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.iinfo
        infinite = jnp.inf if extreme == "max" else -jnp.inf
        initial = infinite if kind is jnp.finfo else getattr(kind(x.dtype), extreme)
    return function(x, axis=axes, keepdims=keepdims, initial=initial)


@onnx_operator("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
def reduce_composed(call: Call, x: Array, _: Array = None) -> Array:
    """Norms, and logarithms of sums."""
    return _reduced(call, x, _COMPOSED[call.node.op_type]).astype(x.dtype)


def _l2(x: Array, **options: Any) -> Array:
    return jnp.sqrt(ops.reduce_sum(x * x, **options).astype(_at_least_float(x))).astype(x.dtype)


def _at_least_float(x: Array) -> Any:
    return x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.float64


def _log_sum_exp(x: Array, *, axes: Any, keepdims: bool) -> Array:
    wide = x.astype(_at_least_float(x))
    return jax.nn.logsumexp(wide, axis=axes, keepdims=keepdims).astype(x.dtype)


_COMPOSED: dict[str, Callable[..., Array]] = {
    "ReduceL1": lambda x, **k: ops.reduce_sum(jnp.abs(x), **k),
    "ReduceL2": _l2,
    "ReduceLogSum": lambda x, **k: jnp.log(ops.reduce_sum(x, **k)).astype(x.dtype),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": lambda x, **k: ops.reduce_sum(x * x, **k),
}


def _reduced(call: Call, x: Array, function: Callable[..., Array]) -> Array:
    axes = call.ints(1, "axes")
    if not axes:
        if call.attribute("noop_with_empty_axes", 0):
            return _not_reduced(call, x)
        axes = None
    x = jnp.asarray(x)
    made = function(x, axes=None if axes is None else tuple(axes), keepdims=bool(call.attribute("keepdims", 1)))
    return made.astype(x.dtype)  # JAX sums integers in its default dtype, ONNX in that of x


def _not_reduced(call: Call, x: Array) -> Array:
    """What is left of a reduction over no axes: the work on each element."""
    single = jnp.asarray(x)[..., None]
    known: dict[str, Any] = {**_COMPOSED, **_OURS}
    return known[call.node.op_type](single, axes=(-1,), keepdims=False)


@onnx_operator("ArgMax", "ArgMin")
def arg_extreme(call: Call, x: Array) -> Array:
    """The place of the largest or smallest value along an axis, the first or the last of equal ones."""
    axis = call.attribute("axis", 0)
    find = jnp.argmax if call.node.op_type == "ArgMax" else jnp.argmin
    if call.attribute("select_last_index", 0):
        found = np.shape(x)[axis] - 1 - find(jnp.flip(x, axis), axis)
    else:
        found = find(x, axis)
    found = found.astype(np.int64)
    return jnp.expand_dims(found, axis) if call.attribute("keepdims", 1) else found


@onnx_operator("TopK")
def top_k(call: Call, x: Array, _: Array = None) -> tuple[Array, Array]:
    """The largest or smallest values along an axis and their places; of equal values the first ones come first."""
    axis = call.attribute("axis", -1)
    count = call.attribute("k") if len(call.inputs) < 2 else int(call.static(1).reshape(-1)[0])
    if count > np.shape(x)[axis]:
        raise ArgumentError(f"expected at most {np.shape(x)[axis]} values. Received: k = {count}")
    moved = jnp.moveaxis(x, axis, -1)
    order = jnp.argsort(moved, axis=-1, descending=bool(call.attribute("largest", 1)), stable=True)[..., :count]
    values = jnp.take_along_axis(moved, order, -1)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(order, -1, axis).astype(np.int64)


@onnx_operator("CumSum", "CumProd")
def cumulative(call: Call, x: Array, _: Array) -> Array:
    """Running sums or products along an axis, forward or in reverse, with or without the element itself."""
    axis = int(call.static(1).reshape(-1)[0]) % np.ndim(x)
    running = lax.cumsum if call.node.op_type == "CumSum" else lax.cumprod
    reverse = bool(call.attribute("reverse", 0))
    x = jnp.asarray(x)
    if call.attribute("exclusive", 0):
        neutral = jnp.full_like(lax.slice_in_dim(x, 0, 1, axis=axis), call.node.op_type == "CumProd")
        parts = (x, neutral) if reverse else (neutral, x)
        joined = jnp.concatenate(parts, axis)
        x = lax.slice_in_dim(joined, 1 if reverse else 0, joined.shape[axis] - (0 if reverse else 1), axis=axis)
    return running(x, axis=axis, reverse=reverse)


@onnx_operator("Softmax", "LogSoftmax", "Hardmax", since=1)
def flattening_softmax(call: Call, x: Array) -> Array:
    """Before opset 13: over all axes from `axis` on."""
    axis = call.attribute("axis", 1)
    rows = jnp.reshape(x, (int(np.prod(np.shape(x)[:axis])), -1))
    return jnp.reshape(_normalized(call, rows, -1), np.shape(x))


@onnx_operator("Softmax", "LogSoftmax", "Hardmax", since=13)
def softmax(call: Call, x: Array) -> Array:
    """Over one axis."""
    return _normalized(call, x, call.attribute("axis", -1))


def _normalized(call: Call, x: Array, axis: int) -> Array:
    if call.node.op_type == "Hardmax":
        return jax.nn.one_hot(jnp.argmax(x, axis), np.shape(x)[axis], dtype=x.dtype, axis=axis)
    return (ops.softmax if call.node.op_type == "Softmax" else ops.log_softmax)(x, axis=axis)


@onnx_operator("LpNormalization")
def lp_normalization(call: Call, x: Array) -> Array:
    """x divided by its norm along an axis; 0 where the norm is 0."""
    axis, p = call.attribute("axis", -1), call.attribute("p", 2)
    norm = jnp.sum(jnp.abs(x) ** p, axis, keepdims=True) ** (1 / p)
    return jnp.where(norm == 0, 0, x / jnp.where(norm == 0, 1, norm)).astype(x.dtype)


@onnx_operator("Det")
def determinant(call: Call, x: Array) -> Array:
    """Of square matrices."""
    return jnp.linalg.det(x)


@onnx_operator("MeanVarianceNormalization")
def mean_variance_normalization(call: Call, x: Array) -> Array:
    """(x − mean) / (deviation + 1e-9) over axes."""
    axes = tuple(call.attribute("axes", [0, 2, 3]))
    mean = jnp.mean(x, axes, keepdims=True)
    deviation = jnp.sqrt(jnp.mean(x * x, axes, keepdims=True) - mean * mean)
    return (x - mean) / (deviation + 1e-9)


@onnx_operator("MatMul")
def matmul(call: Call, a: Array, b: Array) -> Array:
    """NumPy's product of matrices; integers exactly."""
    return jnp.matmul(a, b, precision=None if jnp.issubdtype(a.dtype, jnp.inexact) else lax.Precision.HIGHEST)


@onnx_operator("Gemm")
def gemm(call: Call, a: Array, b: Array, c: Array = None) -> Array:
    """α A B + β C, transposed first if asked for."""
    a = a.T if call.attribute("transA", 0) else a
    b = b.T if call.attribute("transB", 0) else b
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    y = jnp.matmul(a, b)
    y = y if alpha == 1 else (y * alpha).astype(y.dtype)
    return y if c is None else y + (c if beta == 1 else (c * beta).astype(c.dtype))
