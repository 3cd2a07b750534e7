"""Normalisation, and Dropout: what a training mode changes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.mode import traced
from singax.ops.window import wide_dtype
from singax.sonnx.operators.elementwise import dtype_of
from singax.sonnx.registry import Call, onnx_operator

Array = Any

_MOST_SEEDED = 1 << 20


@onnx_operator("BatchNormalization", since=1)
def batch_norm(call: Call, x: Array, *parameters: Array) -> Any:
    """Per channel, or before opset 9 with `spatial` 0 per element of a sample.

    With the statistics of the batch where outputs after the first are named, unless `is_test`.
    """
    if call.attribute("spatial", 1):
        return _batch_norm(call, x, *parameters, training=call.wants(1) and not call.attribute("is_test", 0))
    flat = [jnp.reshape(p, -1) for p in parameters]
    y, *rest = _batch_norm(
        call, jnp.reshape(x, (x.shape[0], -1)), *flat, training=call.wants(1) and not call.attribute("is_test", 0)
    )
    return (y.reshape(x.shape), *(value.reshape(parameters[0].shape) for value in rest))


@onnx_operator("BatchNormalization", since=14)
def batch_norm_by_mode(call: Call, x: Array, *parameters: Array) -> Any:
    """Per channel, with the statistics of the batch if `training_mode`."""
    return _batch_norm(call, x, *parameters, training=bool(call.attribute("training_mode", 0)))


def _batch_norm(
    call: Call, x: Array, scale: Array, bias: Array, mean: Array, var: Array, *, training: bool
) -> tuple[Array, ...]:
    """The result, then the running and the batch's mean and variance; running = old · momentum + new · (1 − momentum).

    The evaluator's training mode counts as `training`; what running statistics become is then left in its `updates`.
    """
    x, eps = jnp.asarray(x), call.attribute("epsilon", 1e-5)
    rows = x[:, None] if x.ndim == 1 else x
    scale, bias, mean, var = (jnp.asarray(p) for p in (scale, bias, mean, var))
    if not (training or call.evaluator.training):
        y = ops.batch_norm_inference(rows, scale, bias, mean, var, eps=eps)
        return (y.reshape(x.shape), mean, var, mean, var)
    y, *batch = ops.batch_norm(rows, scale, bias, eps=eps)
    momentum = call.attribute("momentum", 0.9)
    running = [
        (old.astype(new.dtype) * momentum + new * (1 - momentum)).astype(old.dtype)
        for old, new in zip((mean, var), batch, strict=True)
    ]
    updates = getattr(call.evaluator, "updates", None)
    if updates is not None:
        updates.update(zip(call.node.inputs[3:5], map(lax.stop_gradient, running), strict=True))
    return (y.reshape(x.shape), *running, *(value.astype(mean.dtype) for value in batch))


@onnx_operator("InstanceNormalization")
def instance_norm(call: Call, x: Array, scale: Array, bias: Array) -> Array:
    """Statistics over each channel of each sample."""
    x, scale, bias = (jnp.asarray(value) for value in (x, scale, bias))
    return ops.instance_norm(x, scale, bias, eps=call.attribute("epsilon", 1e-5))


@onnx_operator("LayerNormalization")
def layer_norm(call: Call, x: Array, scale: Array, bias: Array = None) -> Any:
    """Statistics over `axis` and all axes after it; they are further results, in the dtype of `stash_type`."""
    x, scale, eps = jnp.asarray(x), jnp.asarray(scale), call.attribute("epsilon", 1e-5)
    axes, stash = _axes_from(call, x)
    if not call.wants(1) and not call.wants(2) and _plain(x, axes, scale, bias):
        return ops.layer_norm(x, scale, None if bias is None else jnp.asarray(bias), axis=axes[0], eps=eps)
    wide = x.astype(jnp.promote_types(x.dtype, stash))
    mean = jnp.mean(wide, axes, keepdims=True)
    centred = wide - mean
    inverse = lax.rsqrt(jnp.mean(centred * centred, axes, keepdims=True) + eps)
    y = centred * inverse * scale.astype(wide.dtype)
    y = y if bias is None else y + bias.astype(wide.dtype)
    return _like(x, y), mean.astype(stash), inverse.astype(stash)


@onnx_operator("RMSNormalization")
def rms_norm(call: Call, x: Array, scale: Array) -> Array:
    """x divided by the root of its mean square over `axis` and all axes after it."""
    x, scale, eps = jnp.asarray(x), jnp.asarray(scale), call.attribute("epsilon", 1e-5)
    axes, stash = _axes_from(call, x)
    if _plain(x, axes, scale, None):
        return ops.rms_norm(x, scale, axis=axes[0], eps=eps)
    wide = x.astype(jnp.promote_types(x.dtype, stash))
    return _like(x, wide * lax.rsqrt(jnp.mean(wide * wide, axes, keepdims=True) + eps) * scale.astype(wide.dtype))


def _axes_from(call: Call, x: Array) -> tuple[tuple[int, ...], Any]:
    """The axes that are normalised, and the dtype that `stash_type` names."""
    axis = call.attribute("axis", -1)
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"expected an axis from {-x.ndim} to {x.ndim - 1}. Received: {axis}")
    return tuple(range(axis % x.ndim, x.ndim)), dtype_of(call.attribute("stash_type", 1))


def _plain(x: Array, axes: tuple[int, ...], *parameters: Array) -> bool:
    """Whether the parameters have the shape of the normalised axes, as our own operations want them."""
    return all(p is None or p.shape == x.shape[axes[0] :] for p in parameters)


def _like(x: Array, y: Array) -> Array:
    if y.shape != x.shape:
        raise ShapeError(f"expected parameters that broadcast to the input {x.shape}. Received a result {y.shape}")
    return y.astype(x.dtype)


@onnx_operator("GroupNormalization", since=18)
def group_norm_by_group(call: Call, x: Array, scale: Array, bias: Array) -> Array:
    """Statistics over each sample's groups of channels; scale and bias per group."""
    groups = call.attribute("num_groups")
    if groups < 1 or x.shape[1] % groups or jnp.shape(scale) != (groups,) or jnp.shape(bias) != (groups,):
        raise ShapeError(f"expected a scale and a bias for each of {groups} groups. Received: {jnp.shape(scale)}")
    each = x.shape[1] // groups
    return _group_norm(call, x, jnp.repeat(scale, each), jnp.repeat(bias, each))


@onnx_operator("GroupNormalization", since=21)
def group_norm(call: Call, x: Array, scale: Array, bias: Array) -> Array:
    """Statistics over each sample's groups of channels; scale and bias per channel."""
    return _group_norm(call, x, jnp.asarray(scale), jnp.asarray(bias))


def _group_norm(call: Call, x: Array, scale: Array, bias: Array) -> Array:
    eps = call.attribute("epsilon", 1e-5)
    return ops.group_norm(jnp.asarray(x), scale, bias, groups=call.attribute("num_groups"), eps=eps)


@onnx_operator("LRN")
def local_response_norm(call: Call, x: Array) -> Array:
    """x / (bias + α / size · Σ x² over neighbouring channels)^β (Krizhevsky, Sutskever and Hinton 2012)."""
    x, size = jnp.asarray(x), call.attribute("size")
    if x.ndim < 2 or size < 1:
        raise ArgumentError(f"expected an input (N, C, …) and a size of 1 or more. Received: {x.shape} and {size}")
    most = x.shape[1] - 1
    before, after = min((size - 1) // 2, most), min(size // 2, most)
    wide, rest = x.astype(wide_dtype(x.dtype)), (1,) * (x.ndim - 2)
    pads = ((0, 0), (before, after), *((0, 0) for _ in rest))
    sums = lax.reduce_window(wide * wide, 0.0, lax.add, (1, before + after + 1, *rest), (1,) * x.ndim, pads)
    base = call.attribute("bias", 1.0) + call.attribute("alpha", 1e-4) / size * sums
    return (wide / base ** call.attribute("beta", 0.75)).astype(x.dtype)


@onnx_operator("Dropout", since=1)
def dropout_by_attribute(call: Call, x: Array) -> Any:
    """Drops in training only; before opset 7 `is_test` says that it does not even then."""
    drops = call.evaluator.training and not call.attribute("is_test", 0)
    return _dropout(call, x, call.attribute("ratio", 0.5), drops, x.dtype)


@onnx_operator("Dropout", since=10)
def dropout_in_training(call: Call, x: Array) -> Any:
    """Drops in training only; the mask holds booleans."""
    return _dropout(call, x, call.attribute("ratio", 0.5), call.evaluator.training, jnp.bool_)


@onnx_operator("Dropout", since=12)
def dropout(call: Call, x: Array, ratio: Array = None, training_mode: Array = None) -> Any:
    """Drops if `training_mode`, or in training; the mask holds booleans."""
    rate = 0.5 if ratio is None else ratio.reshape(())
    mode = False if training_mode is None else training_mode.reshape(())
    return _dropout(call, x, rate, True if call.evaluator.training else mode, jnp.bool_)


def _dropout(call: Call, x: Array, ratio: Any, mode: Any, mask_dtype: Any) -> Any:
    """x and a mask of ones, or x with a part of its elements 0 and the rest larger, where the mode says so."""
    x = jnp.asarray(x)
    if not traced(ratio) and not 0 <= float(ratio) < 1:
        raise ArgumentError(f"expected a ratio from 0 to below 1. Received: {float(ratio)}")
    if not traced(mode) and (not bool(mode) or (not traced(ratio) and float(ratio) == 0)):
        return x, jnp.ones(x.shape, mask_dtype)
    seeded = call.attribute("seed") is not None and x.size <= _MOST_SEEDED and not call.evaluator.training
    if not (seeded or call.wants(1) or traced(mode) or traced(ratio)):
        return ops.dropout(x, call.key(), ratio=float(ratio))
    draws = _seeded_draws(call, x.shape) if seeded else jax.random.uniform(call.key(), x.shape)
    kept = (draws >= ratio) | ~jnp.asarray(mode, bool)
    factor = jnp.where(mode, 1 / (1 - jnp.asarray(ratio, jnp.promote_types(x.dtype, jnp.float32))), 1)
    return jnp.where(kept, x * factor, 0).astype(x.dtype), kept.astype(mask_dtype)


def _seeded_draws(call: Call, shape: tuple[int, ...]) -> Array:
    """Numbers from 0 to 1 as onnx's reference implementation draws them for the node's seed."""
    return np.random.RandomState(int(call.attribute("seed")) % (1 << 32)).uniform(0, 1, shape)
